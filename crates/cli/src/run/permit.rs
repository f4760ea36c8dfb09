//! What "yes, always" would remember.

use session::machine::{GrantScope, RuleChoice};
use view::Request;

/// The widest rule offered with a request, and its text.
pub(super) struct Permit {
    pub(super) remember: RuleChoice,
    pub(super) words: String,
}

impl Permit {
    pub(super) fn of(request: &Request) -> Option<Self> {
        let rule = request.rules.last()?;
        let remember = RuleChoice { rule: rule.id, until: None, scope: GrantScope::Session };
        Some(Self { remember, words: rule.label.clone() })
    }
}
