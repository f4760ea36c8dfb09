//! Who may run what: modes, rules, and the question to a host where neither decides.

mod answer;
mod bash;
mod decision;
mod mode;
mod rules;
mod shell;

pub(crate) use answer::{Answer, Destination, Update};
pub(crate) use decision::{Asking, Circumstances, Decision, decide};
pub(crate) use mode::Mode;
pub(crate) use rules::{Behavior, Rule, Rules, Source};
