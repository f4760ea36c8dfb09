//! The models the API offers.

use serde_json::{Value, json};

use super::refusal::Refusal;

const MODELS: &[(&str, &str, &str)] = &[
    ("claude-opus-5-5", "Claude Opus 5.5", "2026-08-04T00:00:00Z"),
    ("claude-sonnet-5", "Claude Sonnet 5", "2026-02-10T00:00:00Z"),
    ("claude-haiku-4-5-20251001", "Claude Haiku 4.5", "2025-10-15T00:00:00Z"),
    ("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5", "2025-09-29T00:00:00Z"),
];

/// All of them, as one page.
pub(super) fn page() -> Value {
    let model = |(id, name, created): &(&str, &str, &str)| entry(id, name, created);
    json!({
        "data": MODELS.iter().map(model).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": MODELS.first().map(|it| it.0),
        "last_id": MODELS.last().map(|it| it.0),
    })
}

/// One of them. Any name of the family is taken for one: clients know models we have not heard of.
pub(super) fn model(id: &str) -> Result<Value, Refusal> {
    let known = MODELS.iter().find(|it| it.0 == id);
    match known {
        Some((id, name, created)) => Ok(entry(id, name, created)),
        None if id.starts_with("claude-") => Ok(entry(id, id, "2026-01-01T00:00:00Z")),
        None => Err(Refusal::new(404, "not_found_error", format!("model: {id}"))),
    }
}

fn entry(id: &str, name: &str, created: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": name, "created_at": created})
}
