//! Tokens and money: of this turn, of the session, and since the last result.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Token counts.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Tokens {
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_creation: u64,
}

/// What a session used, by model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    models: BTreeMap<String, Tokens>,
    since: BTreeMap<String, Tokens>,
    before: f64,
}

impl Tokens {
    /// Reads the `usage` of a message.
    pub(crate) fn read(usage: &Value) -> Self {
        let count = |key: &str| usage[key].as_u64().unwrap_or_default();
        Self {
            input: count("input_tokens"),
            output: count("output_tokens"),
            cache_read: count("cache_read_input_tokens"),
            cache_creation: count("cache_creation_input_tokens"),
        }
    }

    /// Adds further tokens.
    pub(crate) fn add(&mut self, more: Self) {
        self.input += more.input;
        self.output += more.output;
        self.cache_read += more.cache_read;
        self.cache_creation += more.cache_creation;
    }

    /// All of them.
    pub(crate) fn total(self) -> u64 {
        self.input + self.output + self.cache_read + self.cache_creation
    }

    /// The `usage` of a result.
    pub(crate) fn usage(self) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_creation,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": self.output,
            "output_tokens_details": { "thinking_tokens": 0 },
            "server_tool_use": { "web_search_requests": 0, "web_fetch_requests": 0 },
            "service_tier": "standard",
            "cache_creation": { "ephemeral_1h_input_tokens": 0, "ephemeral_5m_input_tokens": 0 },
            "inference_geo": "", "iterations": [], "speed": "standard", "fallback_credit": null,
        })
    }

    /// Dollars, by list price: 4 and 20 a million for the default model.
    #[expect(clippy::cast_precision_loss, reason = "a price is no exact number")]
    fn cost(self, model: &str) -> f64 {
        let (input, output) = match model {
            _ if model.contains("haiku") => (1.0, 5.0),
            _ if model.contains("sonnet") => (3.0, 15.0),
            _ => (4.0, 20.0),
        };
        let dollars = self.input as f64 * input
            + self.output as f64 * output
            + self.cache_read as f64 * input * 0.1
            + self.cache_creation as f64 * input * 1.25;
        dollars / 1_000_000.0
    }
}

impl Tally {
    /// Goes on from what a resumed session cost.
    pub(crate) fn resumed(cost: f64) -> Self {
        Self { before: cost, ..Self::default() }
    }

    /// Counts the tokens of a message.
    pub(crate) fn count(&mut self, model: &str, tokens: Tokens) {
        for models in [&mut self.models, &mut self.since] {
            models.entry(model.to_owned()).or_default().add(tokens);
        }
    }

    /// What everything cost.
    pub(crate) fn cost(&self) -> f64 {
        let models = self.models.iter();
        self.before + models.map(|(model, tokens)| tokens.cost(model)).sum::<f64>()
    }

    /// The `modelUsage` of a result.
    pub(crate) fn by_model(&self) -> Value {
        usage(&self.models)
    }

    /// What was used since this was last asked.
    pub(crate) fn since_last(&mut self) -> Value {
        usage(&std::mem::take(&mut self.since))
    }
}

fn usage(models: &BTreeMap<String, Tokens>) -> Value {
    let one = |(model, tokens): (&String, &Tokens)| {
        let usage = json!({
            "inputTokens": tokens.input, "outputTokens": tokens.output,
            "cacheReadInputTokens": tokens.cache_read,
            "cacheCreationInputTokens": tokens.cache_creation,
            "webSearchRequests": 0, "costUSD": tokens.cost(model),
            "contextWindow": 1_000_000, "maxOutputTokens": 128_000, "thinkingTokens": 0,
            "cacheCreationEphemeral5mInputTokens": 0, "cacheCreationEphemeral1hInputTokens": 0,
            "canonicalModel": model, "provider": "firstParty", "costBasis": "list",
        });
        (model.clone(), usage)
    };
    Value::Object(models.iter().map(one).collect())
}

#[cfg(test)]
mod tests {
    use super::{Tally, Tokens};

    #[test]
    fn three_tokens_in_and_nine_out_cost_what_the_captures_say() {
        let mut tally = Tally::default();
        tally.count("claude-opus-5-5", Tokens { input: 3, output: 9, ..Tokens::default() });
        assert!((tally.cost() - 0.000_192).abs() < 1e-12);
        assert_eq!(tally.since_last()["claude-opus-5-5"]["outputTokens"], 9);
        assert!(tally.since_last().as_object().unwrap().is_empty());
        assert_eq!(tally.by_model()["claude-opus-5-5"]["inputTokens"], 3);
    }
}
