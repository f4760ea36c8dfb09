//! What stands at the foot of the stage: prompts that wait, a request, the line to write in.

use view::WaitingPrompt;
use view::ansi::Style;
use view::terminal::Line;
use wire::note::{Delivery, PromptState};

use crate::run::asking::Asking;
use crate::run::composer::Composer;
use crate::view::Below;

const SOFT: Style = Style::PLAIN.dim();

/// Whom keys are for while there is a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Attention {
    /// The line below.
    Line,
    /// Nobody yet: a key that is pressed now was meant for what was there before.
    Turning,
    /// The request.
    Request,
}

/// What there is to be shown.
pub(super) struct Footer<'a> {
    pub(super) width: usize,
    pub(super) queue: &'a [WaitingPrompt],
    pub(super) asking: Option<&'a Asking>,
    pub(super) attention: Attention,
    pub(super) hint: Option<&'a str>,
    /// The line to write in, where there is one.
    pub(super) composer: Option<&'a Composer>,
    pub(super) is_busy: bool,
}

impl Footer<'_> {
    /// The lines of it.
    pub(super) fn below(&self) -> Below {
        let width = self.width;
        let mut below = Below { lines: vec![Line::default()], ..Below::default() };
        for prompt in self.queue.iter().filter(|it| it.state == PromptState::Queued) {
            let first = prompt.text.lines().next().unwrap_or_default();
            let (sign, when) = match prompt.delivery {
                Delivery::Queue => ("⋯", "next"),
                Delivery::Steer => ("⤷", "steers"),
            };
            below.lines.push(Line::of(SOFT, &format!("{sign} {when}: {first}")).cut(width));
        }
        if let Some(asking) = self.asking {
            let above = below.lines.len();
            match self.attention {
                Attention::Line => below.lines.extend(asking.lines_aside(width)),
                Attention::Turning => below.lines.extend(asking.card(width)),
                Attention::Request => {
                    let (lines, cursor) = asking.lines(width);
                    below.lines.extend(lines);
                    below.cursor = cursor.map(|(row, column)| (row + above, column));
                }
            }
            below.instead_of = asking.request.item.clone().filter(|_| asking.replaces_call());
        }
        if let Some(hint) = self.hint {
            below.lines.push(Line::of(Style::PLAIN.in_colour(3), hint).cut(width));
        }
        if let Some(composer) = self.composer {
            let (lines, (row, column)) = composer.lines("❯ ", self.idle(), width);
            let above = below.lines.len();
            below.lines.extend(lines);
            below.cursor = below.cursor.or(Some((row + above, column)));
        }
        below
    }

    /// What stands in the line while nothing is written there.
    fn idle(&self) -> &'static str {
        match (self.asking, self.is_busy) {
            (Some(_), _) if self.attention != Attention::Line => "Tab to write a prompt",
            (_, true) => "write to queue · > steers · Ctrl-C stops · ? help",
            (_, false) => "? help · Ctrl-D leaves",
        }
    }
}
