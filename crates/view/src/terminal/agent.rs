//! What the agent says about itself, as lines for a terminal.

use super::{StyledLine, TerminalOptions};
use crate::agent_info::AgentInfo;
use crate::ansi::TextStyle;

/// Columns of the labels.
const LABEL_WIDTH: usize = 14;

/// One line, or all that is known if everything is shown.
pub fn agent(agent: &AgentInfo, options: TerminalOptions<'_>) -> Vec<StyledLine> {
    let soft = TextStyle::PLAIN.dim();
    let summary = agent.summary();
    if summary.is_empty() {
        return Vec::new();
    }
    if !options.full {
        return vec![StyledLine::of(soft, &summary).cut(options.width)];
    }
    let mut lines = Vec::new();
    for fact in agent.facts(usize::MAX) {
        let width = options.width.saturating_sub(LABEL_WIDTH).max(8);
        let texts = StyledLine::of(TextStyle::PLAIN, &fact.text).wrapped(width);
        for (index, text) in texts.iter().enumerate() {
            let label = if index == 0 { fact.label } else { "" };
            let mut line = StyledLine::of(soft, &format!("{label:<LABEL_WIDTH$}"));
            line.append(text);
            lines.push(line);
        }
    }
    lines
}
