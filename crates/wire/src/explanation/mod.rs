//! What each kind of line means, for people: when it comes, what follows, since which release.
//!
//! The texts are Markdown files beside this one. A heading is a kind or a variant of one, such as
//! `assistant(tool_use)`; several headings in a row share the text after them. Lines that the host
//! writes end in ` to the agent`. The page about the protocol is made from them, and a test checks
//! that every kind which this crate knows is explained.

const TEXTS: [&str; 4] = [
    include_str!("conversation.md"),
    include_str!("system.md"),
    include_str!("control.md"),
    include_str!("other.md"),
];

/// The end of the name of a line that the host writes.
pub const TO_AGENT: &str = " to the agent";

/// The explanation of a kind of line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KindExplanation {
    /// The kind or variant, such as `result/success(is_error)`.
    pub name: &'static str,
    /// The group that it belongs to, such as `Streaming`.
    pub group: &'static str,
    /// Sentences in Markdown, in one paragraph.
    pub text: String,
}

/// All explanations, in the order in which they are read best.
pub fn explanations() -> Vec<KindExplanation> {
    let mut all: Vec<KindExplanation> = Vec::new();
    for text in TEXTS {
        let mut group = "";
        // The headings that the next text is for start here.
        let mut first = all.len();
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("# ") {
                group = name;
            } else if let Some(name) = line.strip_prefix("## ") {
                if all[first..].iter().any(|it| !it.text.is_empty()) {
                    first = all.len();
                }
                all.push(KindExplanation { name, group, text: String::new() });
            } else if !line.is_empty() {
                for explanation in &mut all[first..] {
                    if !explanation.text.is_empty() {
                        explanation.text.push(' ');
                    }
                    explanation.text.push_str(line);
                }
            }
        }
    }
    all
}
