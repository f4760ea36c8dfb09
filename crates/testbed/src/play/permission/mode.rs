//! Permission modes.

/// How much is allowed without asking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Asks before anything changes.
    #[default]
    Default,
    /// Edits below the working directory need no question.
    AcceptEdits,
    /// Nothing changes until a plan is approved.
    Plan,
    /// What would need a question is denied.
    DontAsk,
    /// Nothing is asked.
    Bypass,
    /// A classifier decides; ours allows everything.
    Auto,
}

impl Mode {
    /// The mode of a name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "default" | "manual" => Self::Default,
            "acceptEdits" => Self::AcceptEdits,
            "plan" => Self::Plan,
            "dontAsk" => Self::DontAsk,
            "bypassPermissions" => Self::Bypass,
            "auto" => Self::Auto,
            _ => return None,
        })
    }

    /// The protocol's name for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::AcceptEdits => "acceptEdits",
            Self::Plan => "plan",
            Self::DontAsk => "dontAsk",
            Self::Bypass => "bypassPermissions",
            Self::Auto => "auto",
        }
    }
}
