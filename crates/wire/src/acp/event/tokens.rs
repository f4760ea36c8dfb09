//! Numbers and data that agents write in several forms.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::event::Usage;
use crate::json::{Raw, Shape};

/// The tokens of a turn: the `usage` at its end, or else the quota that some agents report outside the
/// protocol.
pub fn reported_tokens(usage: Option<Raw<'_>>, meta: Option<Raw<'_>>) -> Option<Usage> {
    let usage = usage.filter(|usage| usage.shape() == Shape::Object);
    let quota = || meta?.get("quota")?.get("token_count");
    let counts = usage.or_else(|| quota().filter(|it| it.shape() == Shape::Object))?;
    let count = |names: &[&str]| names.iter().find_map(|name| number(counts.get(name)?));
    Some(Usage {
        input_tokens: count(&["inputTokens", "input_tokens"]),
        output_tokens: count(&["outputTokens", "output_tokens"]),
        cache_read_input_tokens: count(&["cachedReadTokens", "cachedInputTokens"]),
        cache_creation_input_tokens: count(&[
            "cachedWriteTokens",
            "cacheWriteInputTokens",
            "cacheWriteTokens",
        ]),
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates, and a negative count is none"
)]
fn number(value: Raw<'_>) -> Option<u64> {
    value.number().map(|it| it as u64)
}

/// The output of a terminal in version 2: base64, alone or as the `data` of an object. Nothing if it is
/// damaged.
pub fn terminal_bytes(output: Raw<'_>) -> Vec<u8> {
    let text = output.text().or_else(|| output.get("data")?.text());
    text.and_then(|text| STANDARD.decode(text.decode().as_bytes()).ok()).unwrap_or_default()
}
