//! What the agent is doing while a turn runs: the progress message and drafts.
//!
//! There is one progress message, without a sound, at the end of the chat. It is edited, deleted when
//! something else was sent below it, and sent again. It shows that the agent is thinking, but never
//! the thoughts. A lost update does no harm, so only the message's id is stored.
//!
//! In private chats, text that the agent is writing is shown as a draft. The next message removes a
//! draft, so the draft is then shown again. If the server does not know drafts, the text becomes part
//! of the progress message.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use view::telegram::{FormattedText, LIMIT, TextFormat, markdown};
use view::{Card, Conversation, Item, ItemBody, ItemId, SessionPhase, wording};

use super::card::MessageContent;
use super::schedule::{CallPlan, CallPurpose, PlannedCall};
use super::tap::ButtonKey;
use super::text::{end_of, push_line, shortened_to};
use super::{BridgeTime, CallUrgency, Chat};
use crate::address::ChatKind;
use crate::bot::{BotCall, BotKeyboard, OutgoingMessage};

/// A turn that ends sooner has no progress message.
const MESSAGE_DELAY: Duration = Duration::from_secs(2);

/// This many characters of text are shown before that delay.
const EARLY_TEXT: usize = 200;

/// A tool call that ends sooner is not shown.
const CALL_DELAY: Duration = Duration::from_millis(500);

/// Tool calls that are shown.
const CALLS: usize = 4;

/// Characters of a call's target.
const TARGET: usize = 80;

/// UTF-16 units of the text that the agent is writing.
const WRITTEN_TEXT: usize = 2_500;

/// The time between two edits of the progress message, by the chat's rate limits.
const PRIVATE_INTERVAL: Duration = Duration::from_millis(1_100);
const GROUP_INTERVAL: Duration = Duration::from_secs(3);

/// The time between two states of a draft.
const DRAFT_INTERVAL: Duration = Duration::from_millis(700);

/// What is known about the progress message while the process runs.
#[derive(Debug, Default)]
pub(super) struct ProgressState {
    /// The running turn, and when it was first seen.
    turn: Option<(u64, BridgeTime)>,
    /// When running calls were first seen.
    calls: BTreeMap<ItemId, BridgeTime>,
    shown: Option<MessageContent>,
    /// When the message was last sent or edited.
    updated: Option<BridgeTime>,
    /// Whether something was sent below the message.
    buried: bool,
    /// The turn for which the typing indicator was shown.
    typing_shown: Option<u64>,
    /// The turn whose progress message Telegram rejected.
    rejected: Option<u64>,
    pub(super) draft: DraftState,
}

#[derive(Debug, Default)]
pub(super) struct DraftState {
    rejected: bool,
    shown: Option<(i64, String)>,
    updated: Option<BridgeTime>,
}

impl ProgressState {
    pub(super) fn observe(
        &mut self,
        document: &Conversation,
        running: Option<u64>,
        now: BridgeTime,
    ) {
        if self.turn.map(|(turn, _)| turn) != running {
            self.turn = running.map(|turn| (turn, now));
            self.calls.clear();
        }
        let open = |item: &Item| matches!(&item.body, ItemBody::Call(call) if call.state.is_open());
        for item in &document.items {
            if item.parent.is_none() && Some(item.turn) == running && open(item) {
                self.calls.entry(item.id.clone()).or_insert(now);
            }
        }
    }

    /// Continues after a restart, in case the process before has just updated the message.
    pub(super) fn resume(&mut self, now: BridgeTime) {
        self.updated.get_or_insert(now);
        self.draft.updated.get_or_insert(now);
    }

    pub(super) fn call_started(&mut self, purpose: &CallPurpose, now: BridgeTime) {
        match purpose {
            CallPurpose::Progress => self.updated = Some(now),
            CallPurpose::Draft => self.draft.updated = Some(now),
            CallPurpose::Typing => self.typing_shown = self.turn.map(|(turn, _)| turn),
            _ => {}
        }
    }

    pub(super) fn message_shown(&mut self, content: MessageContent) {
        if self.shown.is_none() {
            self.draft.shown = None;
        }
        self.shown = Some(content);
        self.buried = false;
    }

    /// Notes that something else was sent, below the progress message if there is one.
    pub(super) fn message_below(&mut self, exists: bool) {
        self.buried = exists;
        self.draft.shown = None;
    }

    pub(super) fn message_deleted(&mut self) {
        self.shown = None;
        self.buried = false;
    }

    pub(super) fn message_rejected(&mut self) {
        self.rejected = self.turn.map(|(turn, _)| turn);
    }

    pub(super) fn reset(&mut self) {
        self.message_deleted();
        self.draft.shown = None;
    }
}

impl DraftState {
    pub(super) fn draft_shown(&mut self, draft: i64, text: String) {
        self.shown = Some((draft, text));
    }

    pub(super) fn draft_rejected(&mut self) {
        self.rejected = true;
    }
}

impl Chat {
    /// The next call that may be skipped.
    pub(super) fn plan_progress(&self, now: BridgeTime) -> CallPlan {
        let Some((turn, since)) = self.progress.turn else {
            return self.delete_progress(CallUrgency::Required).unwrap_or(CallPlan::Idle);
        };
        if self.progress.buried
            && !self.is_waiting_for_user()
            && let Some(delete) = self.delete_progress(CallUrgency::Optional)
        {
            return delete;
        }
        let mut timer = WakeTimer { now, until: None };
        if let Some(planned) = self.update_progress(turn, since, &mut timer) {
            return CallPlan::Call(Box::new(planned));
        }
        if let Some((at, planned)) = self.update_draft()
            && timer.has_passed(at)
        {
            return CallPlan::Call(Box::new(planned));
        }
        if self.checkpoint.progress.is_none() && self.progress.typing_shown != Some(turn) {
            let call = BotCall::Typing(self.checkpoint.address);
            let (purpose, urgency) = (CallPurpose::Typing, CallUrgency::Optional);
            return CallPlan::Call(Box::new(PlannedCall { purpose, call, urgency }));
        }
        timer.until.map_or(CallPlan::Idle, CallPlan::WaitUntil)
    }

    fn delete_progress(&self, urgency: CallUrgency) -> Option<CallPlan> {
        let message = self.checkpoint.progress?;
        let call = BotCall::Delete { chat: self.checkpoint.address.chat, message };
        let purpose = CallPurpose::DeleteProgress;
        Some(CallPlan::Call(Box::new(PlannedCall { purpose, call, urgency })))
    }

    fn is_waiting_for_user(&self) -> bool {
        matches!(self.document.status.phase, SessionPhase::Waiting { .. })
    }

    /// Sends the progress message, or edits it if it shows something else.
    fn update_progress(
        &self,
        turn: u64,
        since: BridgeTime,
        timer: &mut WakeTimer,
    ) -> Option<PlannedCall> {
        if self.progress.rejected == Some(turn) {
            return None;
        }
        let (content, early) = self.progress_content(turn, since, timer);
        let interval = match self.checkpoint.kind {
            ChatKind::Private => PRIVATE_INTERVAL,
            ChatKind::Group => GROUP_INTERVAL,
        };
        let at = self.progress.updated.map_or(BridgeTime::ZERO, |updated| updated + interval);
        let call = match self.checkpoint.progress {
            Some(_) if self.progress.shown.as_ref() == Some(&content) => return None,
            Some(message) => self.edit(message, content),
            None if self.is_waiting_for_user() => return None,
            None if !early && !timer.has_passed(since + MESSAGE_DELAY) => return None,
            None => BotCall::Send(self.silent_message(content.text, content.buttons)),
        };
        let (purpose, urgency) = (CallPurpose::Progress, CallUrgency::Optional);
        timer.has_passed(at).then_some(PlannedCall { purpose, call, urgency })
    }

    /// What the progress message shows, and whether it is sent before [`MESSAGE_DELAY`].
    fn progress_content(
        &self,
        turn: u64,
        since: BridgeTime,
        timer: &mut WakeTimer,
    ) -> (MessageContent, bool) {
        let mut text = FormattedText::default();
        let mut early = false;
        if !self.uses_drafts()
            && let Some((_, written)) = self.text_being_written()
        {
            early = written.chars().count() >= EARLY_TEXT;
            let end = end_of(written.trim_end(), WRITTEN_TEXT);
            let ellipsis = if end.len() < written.trim_end().len() { "…" } else { "" };
            text = markdown(&format!("{ellipsis}{end}"));
            text.push("\n\n");
        }
        let calls = self.slow_calls(turn, timer);
        early |= !calls.is_empty();
        let mut line = match &self.document.status.phase {
            // A quick tool call is not worth two edits.
            SessionPhase::Running { .. } if calls.is_empty() => phase_text(&SessionPhase::Working),
            phase => phase_text(phase),
        };
        if let Some(elapsed) = elapsed_text(since, timer) {
            line = format!("{line} · {elapsed}");
        }
        text.push_formatted(TextFormat::Italic, &line);
        for call in calls {
            text.push("\n");
            text.append(&call);
        }
        if !self.document.queue.is_empty() {
            let count = wording::plural(self.document.queue.len(), "message", "messages");
            push_line(&mut text, TextFormat::Italic, &format!("{count} queued"));
        }
        let key = ButtonKey::of_turn(self.checkpoint.session, turn);
        let buttons = vec![vec![key.button("Stop", &format!("x{turn}"))]];
        (MessageContent::end_of(&text, buttons), early)
    }

    /// The last of the calls that take longer than [`CALL_DELAY`], one line each.
    fn slow_calls(&self, turn: u64, timer: &mut WakeTimer) -> Vec<FormattedText> {
        let base = self.document.head.cwd.as_deref();
        let mut lines = Vec::new();
        for item in &self.document.items {
            let ItemBody::Call(call) = &item.body else { continue };
            if item.parent.is_some() || item.turn != turn || item.open {
                continue;
            }
            let visible = if call.state.is_open() {
                let started = self.progress.calls.get(&item.id).copied().unwrap_or(timer.now);
                timer.has_passed(started + CALL_DELAY)
            } else {
                call.duration_ms().is_some_and(|took| u128::from(took) >= CALL_DELAY.as_millis())
            };
            if visible {
                let card = Card::of(call, base);
                let mut line =
                    FormattedText::plain(&format!("{} {} ", card.state_icon, card.label));
                line.push_formatted(TextFormat::Code, &shortened_to(&card.target, TARGET));
                lines.push(line);
            }
        }
        lines.split_off(lines.len().saturating_sub(CALLS))
    }

    pub(super) fn is_progress_message(&self, message: &OutgoingMessage) -> bool {
        let Some((turn, _)) = self.progress.turn else { return false };
        let stop = ButtonKey::of_turn(self.checkpoint.session, turn).data(&format!("x{turn}"));
        message.buttons.iter().flatten().any(|button| button.data == stop)
    }

    fn uses_drafts(&self) -> bool {
        self.checkpoint.kind == ChatKind::Private && !self.progress.draft.rejected
    }

    fn text_being_written(&self) -> Option<(&Item, &str)> {
        let running = self.running_turn()?.number;
        self.document.items.iter().rev().find_map(|item| match &item.body {
            ItemBody::Text { text }
                if item.open && item.parent.is_none() && item.turn == running =>
            {
                (!text.trim().is_empty()).then_some((item, text.as_str()))
            }
            _ => None,
        })
    }

    /// The next state of the draft, and when it may be shown; none if it is shown already.
    fn update_draft(&self) -> Option<(BridgeTime, PlannedCall)> {
        let (item, text) = self.text_being_written().filter(|_| self.uses_drafts())?;
        let text = end_of(text.trim_end(), LIMIT).to_owned();
        let mut hasher = DefaultHasher::new();
        item.id.hash(&mut hasher);
        // 52 bits: positive, and exact in a floating-point number.
        let draft_id = i64::try_from(hasher.finish() >> 12).unwrap_or(1).max(1);
        let shown = self.progress.draft.shown.as_ref();
        if shown.is_some_and(|(id, shown)| *id == draft_id && *shown == text) {
            return None;
        }
        let updated = self.progress.draft.updated;
        let at = updated.map_or(BridgeTime::ZERO, |updated| updated + DRAFT_INTERVAL);
        let call = BotCall::Draft { address: self.checkpoint.address, draft_id, text };
        let (purpose, urgency) = (CallPurpose::Draft, CallUrgency::Optional);
        Some((at, PlannedCall { purpose, call, urgency }))
    }
}

/// The earliest time at which something changes by itself.
struct WakeTimer {
    now: BridgeTime,
    until: Option<BridgeTime>,
}

impl WakeTimer {
    /// Whether a time has passed. If not, the timer includes it.
    fn has_passed(&mut self, at: BridgeTime) -> bool {
        if at > self.now {
            self.until = Some(self.until.map_or(at, |until| until.min(at)));
        }
        at <= self.now
    }
}

impl MessageContent {
    /// The last message of a text.
    fn end_of(text: &FormattedText, buttons: BotKeyboard) -> Self {
        let mut content = Self::new(text, buttons);
        if let Some(last) = text.messages(LIMIT).pop() {
            content.text = last;
        }
        content
    }
}

fn phase_text(phase: &SessionPhase) -> String {
    match phase {
        SessionPhase::Starting => "Starting…".to_owned(),
        SessionPhase::Idle | SessionPhase::Working | SessionPhase::Thinking { .. } => {
            "Thinking…".to_owned()
        }
        SessionPhase::Writing => "Writing…".to_owned(),
        SessionPhase::Running { .. } => "Working…".to_owned(),
        SessionPhase::Waiting { .. } => "Waiting for you…".to_owned(),
        SessionPhase::Retrying { attempt: Some(attempt), max_attempts: Some(of), .. } => {
            format!("API error, retrying ({attempt} of {of})…")
        }
        SessionPhase::Retrying { .. } => "API error, retrying…".to_owned(),
        SessionPhase::Compacting => "Compacting the conversation…".to_owned(),
        SessionPhase::Interrupting => "Stopping…".to_owned(),
        SessionPhase::Stalled { .. } => "No output for a while…".to_owned(),
        SessionPhase::Stopped { cause: _ } => "The agent has stopped…".to_owned(),
    }
}

/// How long the turn has been running, rounded so that it seldom changes.
fn elapsed_text(since: BridgeTime, timer: &mut WakeTimer) -> Option<String> {
    let seconds = timer.now.saturating_sub(since).as_secs();
    let step = match seconds {
        0..60 => 10,
        60..600 => 60,
        _ => 300,
    };
    let rounded = seconds / step * step;
    timer.has_passed(since + Duration::from_secs(rounded + step));
    match rounded {
        0 => None,
        1..60 => Some(format!("{rounded} s")),
        60..3600 => Some(format!("{} min", rounded / 60)),
        _ => Some(format!("{} h {:02} min", rounded / 3600, rounded / 60 % 60)),
    }
}
