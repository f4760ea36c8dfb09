//! The lists of models.

use serde_json::{Value, json};

use super::event::ApiError;

const MODELS: &[(&str, &str, &str)] = &[
    ("claude-opus-5-5", "Claude Opus 5.5", "2026-08-04T00:00:00Z"),
    ("claude-sonnet-5", "Claude Sonnet 5", "2026-02-10T00:00:00Z"),
    ("claude-haiku-4-5-20251001", "Claude Haiku 4.5", "2025-10-15T00:00:00Z"),
    ("claude-sonnet-4-5-20250929", "Claude Sonnet 4.5", "2025-09-29T00:00:00Z"),
];

/// All models on one page.
pub(super) fn model_list() -> Value {
    let entry = |(id, name, created): &(&str, &str, &str)| model_entry(id, name, created);
    json!({
        "data": MODELS.iter().map(entry).collect::<Vec<_>>(),
        "has_more": false,
        "first_id": MODELS.first().map(|it| it.0),
        "last_id": MODELS.last().map(|it| it.0),
    })
}

/// The families of models. Any model of a family is accepted, because clients may know newer ones than
/// the list.
const FAMILIES: [&str; 5] = ["opus", "sonnet", "haiku", "fable", "instant"];

/// One model.
pub(super) fn model_details(id: &str) -> Result<Value, ApiError> {
    check_model(id)?;
    let known = MODELS.iter().find(|it| it.0 == id);
    Ok(known.map_or_else(
        || model_entry(id, id, "2026-01-01T00:00:00Z"),
        |(id, name, created)| model_entry(id, name, created),
    ))
}

/// Refuses a model that does not exist, as the API does.
pub(super) fn check_model(id: &str) -> Result<(), ApiError> {
    let mut words = id.strip_prefix("claude-").into_iter().flat_map(|rest| rest.split('-'));
    if words.any(|word| FAMILIES.contains(&word)) {
        return Ok(());
    }
    Err(ApiError::new(404, "not_found_error", format!("model: {id}")))
}

fn model_entry(id: &str, name: &str, created: &str) -> Value {
    json!({"type": "model", "id": id, "display_name": name, "created_at": created})
}

/// Models of other providers. Any other name works too.
const OTHER_MODELS: &[&str] = &["stub-model", "gpt-5.5", "gemini-2.5-flash", "gemini-2.5-pro"];

/// All models, as `OpenAI` lists them. Codex looks for a list of its own in the same object.
pub(super) fn openai_models() -> Value {
    let claude = MODELS.iter().map(|it| it.0);
    let all = OTHER_MODELS.iter().copied().chain(claude);
    let entry = |id: &str| json!({"id": id, "object": "model", "created": 1_767_225_600, "owned_by": "stub"});
    json!({"object": "list", "data": all.map(entry).collect::<Vec<_>>(), "models": []})
}

/// All models, as Gemini lists them.
pub(super) fn gemini_models() -> Value {
    json!({"models": OTHER_MODELS.iter().map(|id| gemini_model(id)).collect::<Vec<_>>()})
}

pub(super) fn gemini_model(id: &str) -> Value {
    json!({
        "name": format!("models/{id}"), "displayName": id, "version": "001",
        "inputTokenLimit": 1_048_576, "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
    })
}

#[cfg(test)]
mod tests {
    use super::{MODELS, check_model, model_details};

    #[test]
    fn models_of_unknown_families_do_not_exist() {
        for (id, ..) in MODELS {
            assert!(model_details(id).is_ok(), "{id}");
        }
        for id in ["claude-opus-9", "claude-3-5-sonnet-20241022", "claude-opus-4-8[1m]"] {
            assert!(check_model(id).is_ok(), "{id}");
        }
        for id in ["", "claude-", "claude-nobody-1", "claude-2.1", "opus", "gpt-5.5", "sonnet4"] {
            let error = check_model(id).unwrap_err();
            assert_eq!((error.status, error.kind.as_str()), (404, "not_found_error"));
            assert_eq!(error.message, format!("model: {id}"));
        }
    }
}
