//! The foot of the screen: queued prompts, a request, the editor; and the list of keys.

use view::QueuedPrompt;
use view::ansi::TextStyle;
use view::terminal::StyledLine;
use wire::note::{Delivery, PromptState};

use super::editor::PromptEditor;
use super::request_prompt::RequestPrompt;
use crate::view::BottomArea;

const SOFT: TextStyle = TextStyle::PLAIN.dim();

/// What keys control while there is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyFocus {
    Editor,
    /// Keys are ignored: one that is pressed now was meant for what was on screen before.
    Blocked,
    Request,
}

/// What the foot of the screen shows.
pub(super) struct Footer<'a> {
    pub(super) width: usize,
    pub(super) queue: &'a [QueuedPrompt],
    pub(super) request: Option<&'a RequestPrompt>,
    pub(super) focus: KeyFocus,
    pub(super) hint: Option<&'a str>,
    /// None if the run ends with its turn.
    pub(super) editor: Option<&'a PromptEditor>,
    pub(super) is_busy: bool,
    /// What Enter does while a turn runs; none if there is nothing to choose.
    pub(super) delivery: Option<Delivery>,
    /// Whether queued prompts wait until the user goes on.
    pub(super) is_held: bool,
    /// What a spent budget asks, if that is why they wait.
    pub(super) budget_question: Option<String>,
}

impl Footer<'_> {
    pub(super) fn area(&self) -> BottomArea {
        let width = self.width;
        let mut area = BottomArea { lines: vec![StyledLine::default()], ..BottomArea::default() };
        area.lines.extend(self.queue_lines());
        if let Some(prompt) = self.request {
            let above = area.lines.len();
            match self.focus {
                KeyFocus::Editor => area.lines.extend(prompt.inactive_lines()),
                KeyFocus::Blocked => area.lines.extend(prompt.blocked_lines()),
                KeyFocus::Request => {
                    let (lines, cursor) = prompt.lines();
                    area.lines.extend(lines);
                    area.cursor = cursor.map(|(row, column)| (row + above, column));
                }
            }
            area.replaces = prompt.request.item.clone().filter(|_| prompt.replaces_call());
        }
        if let Some(hint) = self.hint {
            area.lines.push(StyledLine::of(TextStyle::PLAIN.in_colour(3), hint).cut(width));
        }
        if let Some(editor) = self.editor {
            let (lines, (row, column)) = editor.lines("❯ ", self.placeholder(), width);
            let above = area.lines.len();
            area.lines.extend(lines);
            area.lines.extend(self.delivery_line());
            area.cursor = area.cursor.or(Some((row + above, column)));
        }
        area
    }

    /// The rows that everything but the request takes. One is reserved for a hint.
    pub(super) fn other_rows(&self) -> usize {
        let editor = self.editor.map_or(0, |it| it.lines("❯ ", "", self.width).0.len());
        1 + self.queue_lines().len() + 1 + editor + usize::from(self.delivery_line().is_some())
    }

    /// The choice of what Enter does while a turn runs.
    fn delivery_line(&self) -> Option<StyledLine> {
        let chosen = self.delivery.filter(|_| self.editor.is_some())?;
        let mut line = StyledLine::of(SOFT, "  Enter:");
        for (delivery, label) in [(Delivery::Steer, SEND_NOW), (Delivery::Queue, QUEUE)] {
            let is_chosen = delivery == chosen;
            let style = if is_chosen { TextStyle::PLAIN.in_colour(6) } else { SOFT };
            let sign = if is_chosen { "●" } else { "○" };
            line.push(style, &format!(" {sign} {label} "));
        }
        line.push(SOFT, "· Shift-Tab switches");
        Some(line.cut(self.width))
    }

    fn queue_lines(&self) -> Vec<StyledLine> {
        let queued = self.queue.iter().filter(|it| it.state == PromptState::Queued);
        let question = self.budget_question.iter().map(|question| {
            StyledLine::of(TextStyle::PLAIN.in_colour(3), question).cut(self.width)
        });
        let prompts = queued.map(|prompt| {
            let first = prompt.text.lines().next().unwrap_or_default();
            let (sign, when) = match prompt.delivery {
                _ if self.is_held => ("⏸", "held"),
                Delivery::Queue => ("⋯", "queued"),
                Delivery::Steer => ("⤷", "sending now"),
            };
            StyledLine::of(SOFT, &format!("{sign} {when}: {first}")).cut(self.width)
        });
        question.chain(prompts).collect()
    }

    /// What the empty editor shows.
    fn placeholder(&self) -> &'static str {
        match (self.request, self.is_busy) {
            (Some(_), _) if self.focus != KeyFocus::Editor => "Tab to write a prompt",
            (_, true) if self.delivery == Some(Delivery::Steer) => {
                "write to the running turn · Esc stops it · ? help"
            }
            (_, true) => "queue a prompt · Esc stops the turn · ? help",
            (_, false) if self.budget_question.is_some() => {
                "Enter goes on · ↑ takes one back · ? help"
            }
            (_, false) if self.is_held => {
                "Enter sends the held prompts · ↑ takes one back · ? help"
            }
            (_, false) => "? help · Ctrl-D exits",
        }
    }
}

/// What Enter can do while a turn runs, in the words of the page.
const SEND_NOW: &str = "Send now";
const QUEUE: &str = "Queue";

const KEYS: &[(&str, &str)] = &[
    ("Enter", "send; while a turn runs, Send now adds it to the turn, Queue keeps it for later"),
    ("Shift-Tab", "switch between Send now and Queue; the choice is remembered"),
    ("> text", "send now: add the text to the running turn"),
    ("\\ Enter, Alt-Enter", "insert a line break"),
    ("↑ ↓", "earlier prompts; ↑ on an empty line takes back the last queued prompt"),
    ("paste a path", "of an image to attach it"),
    ("Tab", "switch between the request and the editor"),
    ("Ctrl-C, Esc", "stop the turn and hold queued prompts; Enter on an empty line sends them"),
    ("Ctrl-C twice, Ctrl-D", "exit; the session is saved, and the agent finishes a running turn"),
    ("/mode, /model, /options", "list what the agent offers; with a name, choose it"),
    ("/…", "commands of the agent, such as /compact or /clear"),
];

/// The list of keys, for `?`.
pub(super) fn help_lines(width: usize) -> Vec<StyledLine> {
    let widest = KEYS.iter().map(|(key, _)| key.chars().count()).max().unwrap_or(0);
    let line = |(key, label): &(&str, &str)| {
        let mut line = StyledLine::of(TextStyle::PLAIN.in_colour(6), &format!("  {key:<widest$}"));
        line.push(TextStyle::PLAIN.dim(), &format!("  {label}"));
        line.cut(width)
    };
    KEYS.iter().map(line).collect()
}
