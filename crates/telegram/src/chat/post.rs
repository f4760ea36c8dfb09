//! Posts: what must be delivered, put into messages.
//!
//! What happens to an item depends on what follows it. A text is an answer if the turn ends with it,
//! and a silent message if a tool call follows. Until that is known, the text and everything after it
//! is held back.
//!
//! Silent items next to each other are merged, so that an hour without a network becomes a few
//! messages. An answer is a post of its own, with the end of its turn.

use std::borrow::Cow;

use view::telegram::{FormattedText, LIMIT, TelegramOptions, TextFormat, markdown, turn_end};
use view::{
    AgentProcessEvent, Call, Item, ItemBody, NoticeLevel, Position, PromptAuthor, PromptItem,
    ToolAction, ToolInput, Turn, relative_path,
};
use wire::note::TurnEnding;

use super::tap::ButtonKey;
use super::text::{client_name, push_paragraph, shortened_to};
use super::{Chat, call_of};
use crate::bot::{BotKeyboard, MessageText};
use crate::checkpoint::PostProgress;

/// Changed files of a turn that are listed.
const FILES: usize = 10;

/// Characters of a prompt from another client that are quoted.
const QUOTED: usize = 600;

#[derive(Debug)]
pub(super) struct ChatPost {
    pub(super) progress: PostProgress,
    /// Its messages.
    pub(super) parts: Vec<MessageText>,
    /// The buttons below the last message.
    pub(super) buttons: BotKeyboard,
    /// Whether the first message makes a sound.
    pub(super) notify: bool,
}

/// A part of the document that may be posted.
#[derive(Clone, Copy, Debug)]
pub(super) enum PostItem<'a> {
    Item(&'a Item, ItemTreatment),
    /// The end of a turn that is not posted yet.
    TurnEnd(&'a Turn),
}

/// What happens to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemTreatment {
    /// It is not posted.
    Skip,
    /// Not known yet.
    Hold,
    /// It is posted without a sound, together with others.
    Silent,
    /// It is posted with a sound: an answer or an error.
    Notify,
}

/// The items of one turn that are not delivered yet.
struct TurnSection<'a> {
    turn: Option<&'a Turn>,
    over: bool,
    /// Whether the end of the turn is still to be posted.
    end_is_due: bool,
    items: Vec<&'a Item>,
}

impl Chat {
    /// The next post of what precedes `limit`; none if it cannot be posted yet.
    pub(super) fn post(&self, limit: Option<Position>) -> Option<ChatPost> {
        if let Some(progress) = self.checkpoint.post {
            return Some(self.started_post(progress));
        }
        let verbosity = self.checkpoint.verbosity;
        let mut chosen: Vec<PostItem<'_>> = Vec::new();
        let mut kind = None;
        for item in self.post_items(verbosity) {
            match item {
                PostItem::Item(it, _) if limit.is_some_and(|limit| it.position > limit) => break,
                PostItem::Item(_, ItemTreatment::Skip) => {}
                PostItem::Item(_, ItemTreatment::Hold) => break,
                PostItem::Item(_, treatment) => {
                    if kind.is_some_and(|kind| kind != treatment) {
                        break;
                    }
                    kind = Some(treatment);
                    chosen.push(item);
                }
                PostItem::TurnEnd(_) => {
                    if kind != Some(ItemTreatment::Silent) {
                        chosen.push(item);
                    }
                    break;
                }
            }
        }
        let through = chosen.iter().rev().find_map(|item| match item {
            PostItem::Item(item, _) => Some(item.position),
            PostItem::TurnEnd(_) => None,
        });
        let turn = chosen.last().and_then(|item| match item {
            PostItem::Item(..) => None,
            PostItem::TurnEnd(turn) => Some(turn.number),
        });
        if chosen.is_empty() {
            return None;
        }
        let through = through.unwrap_or(self.checkpoint.delivered);
        Some(self.compose(&chosen, PostProgress { through, turn, verbosity, sent: 0 }))
    }

    /// The post that is partly sent, as it was when it was started.
    fn started_post(&self, progress: PostProgress) -> ChatPost {
        let mut chosen = self.post_items(progress.verbosity);
        chosen.retain(|item| match item {
            PostItem::Item(_, ItemTreatment::Skip) => false,
            PostItem::Item(item, _) => item.position <= progress.through,
            PostItem::TurnEnd(turn) => progress.turn == Some(turn.number),
        });
        self.compose(&chosen, progress)
    }

    fn compose(&self, chosen: &[PostItem<'_>], progress: PostProgress) -> ChatPost {
        let look = TelegramOptions { base: self.document.head.cwd.as_deref(), full: false };
        let mut text = FormattedText::default();
        let mut calls: Vec<&Item> = Vec::new();
        let (mut notify, mut buttons) = (false, BotKeyboard::new());
        for item in chosen {
            if let PostItem::Item(item, _) = item
                && call_of(item).is_some_and(|call| !is_plan(call))
            {
                calls.push(item);
                continue;
            }
            push_paragraph(&mut text, &view::telegram::items(&calls, look));
            calls.clear();
            match item {
                PostItem::Item(item, treatment) => {
                    notify |= *treatment == ItemTreatment::Notify;
                    push_paragraph(&mut text, &item_text(item, look));
                }
                PostItem::TurnEnd(turn) => {
                    let end = end_text(&self.with_known_cost(turn), text.is_empty(), look);
                    notify |= !end.is_empty();
                    push_paragraph(&mut text, &end);
                    buttons = self.turn_buttons(turn);
                }
            }
        }
        push_paragraph(&mut text, &view::telegram::items(&calls, look));
        ChatPost { progress, parts: text.messages(LIMIT), buttons, notify }
    }

    /// The turn without its cost if that is not known: the agent reports the total of its process,
    /// and the turns before this one were not folded.
    fn with_known_cost<'a>(&self, turn: &'a Turn) -> Cow<'a, Turn> {
        if turn.number >= self.costs_from {
            return Cow::Borrowed(turn);
        }
        Cow::Owned(Turn { cost: None, ..turn.clone() })
    }

    fn turn_buttons(&self, turn: &Turn) -> BotKeyboard {
        if turn.files.is_empty() {
            return BotKeyboard::new();
        }
        let key = ButtonKey::of_turn(self.checkpoint.session, turn.number);
        vec![vec![key.button("Show changes", &format!("d{}", turn.number))]]
    }

    pub(super) fn post_delivered(&mut self, progress: &PostProgress) {
        self.checkpoint.delivered = self.checkpoint.delivered.max(progress.through);
        self.checkpoint.turn = self.checkpoint.turn.max(progress.turn.unwrap_or(0));
        self.checkpoint.post = None;
    }

    /// Everything after [`delivered`](crate::checkpoint::ChatCheckpoint::delivered), in order.
    pub(super) fn post_items(&self, verbosity: u8) -> Vec<PostItem<'_>> {
        let mut items = Vec::new();
        for section in self.turn_sections() {
            let treated = (0..section.items.len()).map(|at| {
                let item = section.items[at];
                PostItem::Item(item, self.treatment(&section, at, verbosity))
            });
            items.extend(treated);
            items.extend(section.turn.filter(|_| section.end_is_due).map(PostItem::TurnEnd));
        }
        items
    }

    /// Whether a turn is over. The agent reports its end before the last of its lines.
    pub(super) fn is_over(&self, turn: &Turn) -> bool {
        let last = self.document.turns.last().is_none_or(|last| last.number <= turn.number);
        let open = match turn.started {
            Some(_) => self.document.status.turn_since.is_some(),
            None => self.document.status.phase.is_busy(),
        };
        !last || (turn.end.is_some() && !open)
    }

    fn turn_sections(&self) -> Vec<TurnSection<'_>> {
        let delivered = self.checkpoint.delivered;
        let is_due =
            |item: &&Item| !item.open && item.parent.is_none() && item.position > delivered;
        let mut items = self.document.items.iter().filter(is_due).peekable();
        let mut sections = Vec::new();
        let turns = &self.document.turns;
        // Items before the first turn, or of turns that were dropped.
        let first = turns.first().map_or(Position(u64::MAX, 0), |first| Position(first.first, 0));
        let mut early = Vec::new();
        while let Some(item) = items.next_if(|item| item.position < first) {
            early.push(item);
        }
        sections.push(TurnSection { turn: None, over: true, end_is_due: false, items: early });
        for (at, turn) in turns.iter().enumerate() {
            let end =
                turns.get(at + 1).map_or(Position(u64::MAX, 0), |next| Position(next.first, 0));
            let mut own = Vec::new();
            while let Some(item) = items.next_if(|item| item.position < end) {
                own.push(item);
            }
            let over = self.is_over(turn);
            let end_is_due = over && turn.number > self.checkpoint.turn;
            sections.push(TurnSection { turn: Some(turn), over, end_is_due, items: own });
        }
        sections
    }

    fn treatment(&self, section: &TurnSection<'_>, at: usize, verbosity: u8) -> ItemTreatment {
        let item = section.items[at];
        let rest = &section.items[at + 1..];
        let next_call = rest.iter().find_map(|item| call_of(item));
        let if_last = match (next_call, section.over) {
            (None, true) => ItemTreatment::Notify,
            (None, false) => ItemTreatment::Hold,
            (Some(_), _) => ItemTreatment::Silent,
        };
        // A notice at the end of a turn makes a sound. After the end, only an error does.
        let notice = if next_call.is_none() && section.end_is_due {
            ItemTreatment::Notify
        } else {
            ItemTreatment::Silent
        };
        let if_verbose = if verbosity >= 2 { ItemTreatment::Silent } else { ItemTreatment::Skip };
        let ending =
            section.turn.filter(|_| section.over).and_then(|it| it.end.as_ref()?.ending.as_ref());
        match &item.body {
            ItemBody::Prompt(prompt)
                if prompt.author != PromptAuthor::User
                    || self.is_from_this_chat(item)
                    || self.was_posted_before(item) =>
            {
                ItemTreatment::Skip
            }
            ItemBody::Prompt(_) | ItemBody::Compaction(_) | ItemBody::Reset => {
                ItemTreatment::Silent
            }
            // A text that was dropped to save memory is reported as missing.
            ItemBody::Text { text } if text.trim().is_empty() && !item.trimmed => {
                ItemTreatment::Skip
            }
            ItemBody::Text { .. } if verbosity == 0 => answers_only(section.over, next_call, rest),
            ItemBody::Call(call) if is_plan(call) => ItemTreatment::Silent,
            ItemBody::Call(call) if has_card(call) => ItemTreatment::Skip,
            ItemBody::Call(call) if verbosity >= 2 && call.state.is_open() && !section.over => {
                ItemTreatment::Hold
            }
            ItemBody::Call(_) | ItemBody::Media { .. } | ItemBody::Raw(_) => if_verbose,
            ItemBody::Hook(hook) if hook.outcome.is_some() => if_verbose,
            ItemBody::Thinking { .. }
            | ItemBody::Retry(_)
            | ItemBody::Hook(_)
            | ItemBody::Agent(AgentProcessEvent::Started { .. }) => ItemTreatment::Skip,
            // The line about the end of the turn says the same.
            ItemBody::Interruption if ending == Some(&TurnEnding::Interrupted) => {
                ItemTreatment::Skip
            }
            ItemBody::Failure { text, .. } if matches!(ending, Some(TurnEnding::Failed { message }) if message == text) => {
                ItemTreatment::Skip
            }
            ItemBody::Agent(AgentProcessEvent::Stopped { cause }) if matches!(ending, Some(TurnEnding::Aborted { cause: known }) if known == cause) => {
                ItemTreatment::Skip
            }
            ItemBody::Text { .. }
            | ItemBody::Interruption
            | ItemBody::Failure { .. }
            | ItemBody::Agent(AgentProcessEvent::Stopped { .. }) => if_last,
            ItemBody::Notice(it) if it.level == NoticeLevel::Error && section.over => {
                ItemTreatment::Notify
            }
            ItemBody::Notice(_) => notice,
        }
    }

    /// Whether a prompt was posted at an earlier position: a prompt that its turn did not answer
    /// moves to the turn that does.
    fn was_posted_before(&self, item: &Item) -> bool {
        item.position.0 > item.first && self.checkpoint.delivered.0 >= item.first
    }

    fn is_from_this_chat(&self, item: &Item) -> bool {
        let id = item.id.as_str().strip_prefix("p:").and_then(|id| id.parse().ok());
        id.is_some_and(|id: uuid::Uuid| self.checkpoint.prompts.values().any(|known| *known == id))
    }
}

/// What happens to a text if only answers are posted. A text before a question belongs to it. A text
/// before anything else is posted only if no other text of the turn follows.
fn answers_only(over: bool, next_call: Option<&Call>, rest: &[&Item]) -> ItemTreatment {
    let other_follows = || {
        rest.iter().any(|item| match &item.body {
            ItemBody::Text { text } => !text.trim().is_empty(),
            ItemBody::Call(call) => has_card(call),
            _ => false,
        })
    };
    match next_call {
        Some(call) if has_card(call) => ItemTreatment::Silent,
        Some(_) if other_follows() => ItemTreatment::Skip,
        _ if over => ItemTreatment::Notify,
        _ => ItemTreatment::Hold,
    }
}

/// Whether a call is a question to the user, which its card shows completely.
fn has_card(call: &Call) -> bool {
    matches!(call.action, ToolAction::Ask | ToolAction::Plan)
}

/// Whether a call submits a plan, which is posted like an answer.
fn is_plan(call: &Call) -> bool {
    call.action == ToolAction::Plan && matches!(call.tool_input(), ToolInput::Plan(_))
}

/// The end of a turn; nothing if the agent started the turn itself and did nothing visible.
fn end_text(turn: &Turn, alone: bool, look: TelegramOptions<'_>) -> FormattedText {
    let completed = matches!(
        turn.end.as_ref().and_then(|end| end.ending.as_ref()),
        None | Some(TurnEnding::Completed)
    );
    if alone && completed && turn.prompts.is_empty() && turn.files.is_empty() {
        return FormattedText::default();
    }
    let mut text = turn_end(turn);
    for file in turn.files.iter().take(FILES) {
        text.push("\n✎ ");
        text.push_formatted(TextFormat::Code, relative_path(&file.path, look.base));
        if file.edits > 1 {
            text.push(&format!(" × {}", file.edits));
        }
    }
    if turn.files.len() > FILES {
        text.push(&format!("\n… and {} more", turn.files.len() - FILES));
    }
    text
}

fn item_text(item: &Item, look: TelegramOptions<'_>) -> FormattedText {
    match &item.body {
        ItemBody::Prompt(prompt) => prompt_text(prompt),
        ItemBody::Text { text } if item.trimmed && text.is_empty() => {
            let mut text = FormattedText::default();
            text.push("⚠️ ");
            text.push_formatted(
                TextFormat::Italic,
                "A message is missing here because too much was waiting to be sent. \
                 You can read it in the session.",
            );
            text
        }
        ItemBody::Call(call) => match call.tool_input() {
            ToolInput::Plan(plan) => markdown(&plan),
            _ => view::telegram::item(item, look),
        },
        _ => view::telegram::item(item, look),
    }
}

/// A prompt from another client.
fn prompt_text(prompt: &PromptItem) -> FormattedText {
    let mut text = FormattedText::default();
    let author = match &prompt.by {
        Some(by) => format!("{} {}:", by.name, client_name(by.client())),
        None => "Another client:".to_owned(),
    };
    text.push_formatted(TextFormat::Italic, &author);
    text.push("\n");
    let mut quote = shortened_to(prompt.text.trim(), QUOTED);
    if prompt.images > 0 {
        let pictures = view::wording::plural(prompt.images, "picture", "pictures");
        quote = format!("{quote} [{pictures}]");
    }
    text.push_formatted(TextFormat::Quote, quote.trim());
    text
}
