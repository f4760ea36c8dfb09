//! What "always" would remember.

use session::machine::{GrantScope, RuleChoice};
use view::Request;

/// The text of the widest rule offered with a request.
pub(super) fn in_words(request: &Request) -> Option<String> {
    request.rules.last().map(|rule| rule.label.clone())
}

/// The widest rule offered with a request.
pub(super) fn rule(request: &Request, scope: GrantScope) -> Option<RuleChoice> {
    request.rules.last().map(|rule| RuleChoice { rule: rule.id, until: None, scope })
}
