//! Translates changes of a conversation into the vocabulary of the protocol. Pure.
//!
//! A [`Translator`] knows what one client was sent of each item, so that texts grow by what is new and
//! calls are updated by what has changed.

mod calls;
mod text;

use std::collections::{BTreeMap, HashMap, HashSet};

use view::wording::SystemMessage;
use view::{
    Call, CompactionItem, Fold, Item, ItemBody, ItemId, NoticeLevel, Patch, Position, PromptAuthor,
    SubAgentState, ToolAction, ToolInput, Update,
};
use wire::acp::{
    AcpUpdate, ClientCapabilities, NoticeSeverity, SessionActivity, Speaker, StopReason,
};

use calls::SentCall;
pub(crate) use calls::{call_id, call_update, permission_call};
use text::{SentText, TextChange, split_text};

/// An update, and the session that it is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TranslatedUpdate {
    /// The session of a sub-agent; none for the session itself.
    pub(crate) child: Option<String>,
    pub(crate) update: AcpUpdate,
}

/// How much of the past a client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranslationPhase {
    /// The past is not sent, but it has to be known.
    Silent,
    /// The past is sent: whole messages, and the latest state of everything else.
    Replay,
    /// What happens is sent as it happens.
    Live,
}

/// What a translation depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct TranslatorSettings {
    /// The session, as the client calls it.
    pub(crate) session: String,
    /// Its working directory.
    pub(crate) directory: String,
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) own_turns_only: bool,
    /// Whether the client is sent the prompts that it sent itself.
    pub(crate) echoes_prompts: bool,
}

/// What one client was sent of a session.
#[derive(Debug)]
pub(crate) struct Translator {
    settings: TranslatorSettings,
    phase: TranslationPhase,
    sent: HashMap<ItemId, SentItem>,
    /// Items that are still being written, which a replay leaves out until its end.
    withheld: HashSet<ItemId>,
    /// The prompts of this client, which it shows itself.
    own_prompts: HashSet<String>,
    own_turns: HashSet<u64>,
}

/// What was sent of an item.
#[derive(Debug)]
enum SentItem {
    Text(SentText),
    Call(Box<SentCall>),
    /// It does not change any more.
    Whole,
}

impl Translator {
    pub(crate) fn new(settings: TranslatorSettings, phase: TranslationPhase) -> Self {
        Self {
            settings,
            phase,
            sent: HashMap::new(),
            withheld: HashSet::new(),
            own_prompts: HashSet::new(),
            own_turns: HashSet::new(),
        }
    }

    pub(crate) fn settings(&self) -> &TranslatorSettings {
        &self.settings
    }

    /// Starts again, for a client that wants to be sent everything once more.
    pub(crate) fn restart(&mut self, phase: TranslationPhase) {
        self.phase = phase;
        self.sent.clear();
        self.withheld.clear();
    }

    /// This client sent a prompt.
    pub(crate) fn add_own_prompt(&mut self, prompt: String) {
        self.own_prompts.insert(prompt);
    }

    /// A turn with a prompt of this client started.
    pub(crate) fn add_own_turn(&mut self, turn: u64) {
        self.own_turns.insert(turn);
    }

    /// Whether the client hears of what happens in a turn.
    pub(crate) fn hears_of(&self, turn: u64) -> bool {
        let hears_all = !self.settings.own_turns_only || self.phase != TranslationPhase::Live;
        hears_all || self.own_turns.contains(&turn)
    }

    /// The updates for the items that changed. Without an update, all items may have changed.
    pub(crate) fn items(&mut self, fold: &Fold, update: Option<&Update>) -> Vec<TranslatedUpdate> {
        let mut changed: BTreeMap<Position, (ItemId, Option<u64>)> = BTreeMap::new();
        let mut out = Vec::new();
        if let Some(update) = update {
            for patch in &update.patches {
                let (id, appended) = match patch {
                    Patch::Item { item } => (&item.id, None),
                    Patch::Append { id, offset, .. } => (id, Some(*offset)),
                    Patch::Removed { id } => {
                        self.remove(id, &mut out);
                        continue;
                    }
                    _ => continue,
                };
                if let Some(item) = fold.item(id) {
                    changed.insert(item.position, (id.clone(), appended));
                }
            }
        } else {
            let all = fold.conversation(usize::MAX);
            changed.extend(all.items.into_iter().map(|item| (item.position, (item.id, None))));
        }
        for (id, appended) in changed.into_values() {
            if let Some(item) = fold.item(&id) {
                self.item(item, appended, &mut out);
            }
        }
        out
    }

    /// The past is over: everything that was left out because it is still being written follows.
    pub(crate) fn go_live(&mut self, fold: &Fold) -> Vec<TranslatedUpdate> {
        let mut out = Vec::new();
        let mut items: Vec<&Item> = self.withheld.iter().filter_map(|id| fold.item(id)).collect();
        items.sort_by_key(|item| item.position);
        let phase = std::mem::replace(&mut self.phase, TranslationPhase::Live);
        for item in items {
            self.item(item, None, &mut out);
        }
        self.withheld.clear();
        if phase == TranslationPhase::Silent {
            out.retain(|it| matches!(it.update, AcpUpdate::ToolCall(_)));
        }
        out
    }

    fn item(&mut self, item: &Item, appended: Option<u64>, out: &mut Vec<TranslatedUpdate>) {
        // Its texts were dropped to save memory, and nothing else has changed.
        if item.trimmed && self.sent.contains_key(&item.id) {
            return;
        }
        if self.phase == TranslationPhase::Silent
            && let ItemBody::Call(call) = &item.body
        {
            // The client is told of a call before it is told of its changes.
            if call.state.is_open() {
                self.withheld.insert(item.id.clone());
            } else {
                self.withheld.remove(&item.id);
            }
            return;
        }
        if item.open && self.phase != TranslationPhase::Live {
            self.withheld.insert(item.id.clone());
            return;
        }
        self.withheld.remove(&item.id);
        let start = out.len();
        self.body(item, appended, out);
        if self.phase == TranslationPhase::Silent || !self.hears_of(item.turn) {
            out.truncate(start);
        }
    }

    fn body(&mut self, item: &Item, appended: Option<u64>, out: &mut Vec<TranslatedUpdate>) {
        let parent = item.parent.as_ref().map(call_id);
        match &item.body {
            ItemBody::Text { text } => {
                self.text(item, Speaker::Agent, (text, appended), parent, out);
            }
            ItemBody::Thinking { text, .. } => {
                self.text(item, Speaker::Thought, (text, appended), parent, out);
            }
            // Only its input has grown, which is of no use before it is complete.
            ItemBody::Call(_) if appended.is_some() => {}
            ItemBody::Call(call) => self.call(item, call, parent, out),
            ItemBody::Prompt(prompt) => {
                if self.is_sent(item)
                    || item.parent.is_some()
                    || prompt.author != PromptAuthor::User
                {
                    return;
                }
                let id = item.id.as_str();
                let id = id.strip_prefix("p:").unwrap_or(id);
                let is_own = self.own_prompts.contains(id);
                let is_shown = is_own && self.phase == TranslationPhase::Live;
                if is_shown && !self.settings.echoes_prompts {
                    return;
                }
                let images = match prompt.images {
                    0 => String::new(),
                    1 => "[image]".to_owned(),
                    images => format!("[{images} images]"),
                };
                let parts: Vec<&str> = [prompt.text.as_str(), &images]
                    .into_iter()
                    .filter(|it| !it.is_empty())
                    .collect();
                let by = prompt.by.clone().filter(|_| !is_own);
                let update =
                    AcpUpdate::UserMessage { id: id.to_owned(), text: parts.join("\n"), by };
                self.send(None, update, out);
            }
            ItemBody::Compaction(compaction) => self.compaction(item, compaction, out),
            _ => self.system_message(item, out),
        }
    }

    /// Whether an item that never changes was sent; it counts as sent from now on.
    fn is_sent(&mut self, item: &Item) -> bool {
        self.sent.insert(item.id.clone(), SentItem::Whole).is_some()
    }

    fn text(
        &mut self,
        item: &Item,
        author: Speaker,
        (text, appended): (&str, Option<u64>),
        parent: Option<&str>,
        out: &mut Vec<TranslatedUpdate>,
    ) {
        let sent =
            self.sent.entry(item.id.clone()).or_insert_with(|| SentItem::Text(SentText::default()));
        let SentItem::Text(sent) = sent else { return };
        let id = || item.id.as_str().to_owned();
        let mut rest;
        match sent.advance(text, appended) {
            TextChange::None => return,
            TextChange::Added(from) => rest = &text[from..],
            TextChange::Replaced => {
                let (first, more) = split_text(text);
                rest = more;
                let (id, text) = (id(), first.to_owned());
                let update =
                    AcpUpdate::Replaced { author, id, text, parent: parent.map(str::to_owned) };
                self.send(parent, update, out);
            }
        }
        while !rest.is_empty() {
            let (first, more) = split_text(rest);
            rest = more;
            let (id, text) = (id(), first.to_owned());
            let update = AcpUpdate::Chunk { author, id, text, parent: parent.map(str::to_owned) };
            self.send(parent, update, out);
        }
    }

    fn call(
        &mut self,
        item: &Item,
        call: &Call,
        parent: Option<&str>,
        out: &mut Vec<TranslatedUpdate>,
    ) {
        let sent =
            self.sent.entry(item.id.clone()).or_insert_with(|| SentItem::Call(Box::default()));
        let SentItem::Call(sent) = sent else { return };
        let whole = call_update(call_id(&item.id), call, &self.settings.directory);
        let agent = sent.agent_change(call);
        let update = sent.advance(whole, item.open);
        if let Some(mut update) = update {
            update.parent = parent.map(str::to_owned);
            self.send(parent, AcpUpdate::ToolCall(Box::new(update)), out);
        }
        if agent && self.settings.capabilities.subagents {
            self.sub_agent(item, call, out);
        }
    }

    /// A sub-agent started or stopped.
    fn sub_agent(&self, item: &Item, call: &Call, out: &mut Vec<TranslatedUpdate>) {
        let ToolInput::Agent { agent, description, .. } = call.tool_input() else { return };
        let state = call.agent.as_ref().map(|it| it.state).unwrap_or_default();
        let idle = |stop| SessionActivity::idle(Some(stop));
        let activity = match state {
            SubAgentState::Running if call.state.is_open() => SessionActivity::Running,
            SubAgentState::Running | SubAgentState::Completed => idle(StopReason::EndTurn),
            SubAgentState::Failed => idle(StopReason::Error("the sub-agent failed".to_owned())),
            SubAgentState::Stopped => idle(StopReason::Cancelled),
        };
        let update = AcpUpdate::SubAgent {
            session: self.child_session(call_id(&item.id)),
            title: Some(description).filter(|it| !it.is_empty()),
            description: agent,
            activity,
        };
        out.push(TranslatedUpdate { child: None, update });
    }

    fn child_session(&self, call: &str) -> String {
        format!("{}:{call}", self.settings.session)
    }

    fn compaction(
        &mut self,
        item: &Item,
        compaction: &CompactionItem,
        out: &mut Vec<TranslatedUpdate>,
    ) {
        // The summary comes after the item.
        if !self.settings.capabilities.compaction
            || compaction.summary.is_empty()
            || self.is_sent(item)
        {
            return;
        }
        let summary = Some(compaction.summary.clone());
        let id = item.id.as_str().to_owned();
        self.send(None, AcpUpdate::Compaction { id, summary }, out);
    }

    fn system_message(&mut self, item: &Item, out: &mut Vec<TranslatedUpdate>) {
        let is_failure = matches!(item.body, ItemBody::Failure { .. });
        if item.open || SystemMessage::is_housekeeping(&item.body) {
            return;
        }
        let Some(message) = SystemMessage::of(&item.body) else { return };
        if self.is_sent(item) {
            return;
        }
        if self.settings.capabilities.notices {
            let severity = match message.level {
                NoticeLevel::Info => NoticeSeverity::Info,
                NoticeLevel::Warning => NoticeSeverity::Warning,
                NoticeLevel::Error => NoticeSeverity::Error,
            };
            let description = Some(message.details).filter(|it| !it.is_empty());
            self.send(None, AcpUpdate::Notice { severity, title: message.text, description }, out);
        } else if is_failure && !self.own_turns.contains(&item.turn) {
            // The answer to the prompt has it if the turn is the client's own.
            let (author, id) = (Speaker::Agent, item.id.as_str().to_owned());
            self.send(None, AcpUpdate::Chunk { author, id, text: message.text, parent: None }, out);
        }
    }

    /// A half-written message was discarded.
    fn remove(&mut self, id: &ItemId, out: &mut Vec<TranslatedUpdate>) {
        self.withheld.remove(id);
        let Some(SentItem::Text(sent)) = self.sent.remove(id) else { return };
        if self.phase == TranslationPhase::Live && !sent.is_empty() {
            let (author, id) = (Speaker::Agent, id.as_str().to_owned());
            let update = AcpUpdate::Replaced { author, id, text: String::new(), parent: None };
            out.push(TranslatedUpdate { child: None, update });
        }
    }

    fn send(&self, parent: Option<&str>, update: AcpUpdate, out: &mut Vec<TranslatedUpdate>) {
        let child = parent
            .filter(|_| self.settings.capabilities.subagents)
            .map(|it| self.child_session(it));
        out.push(TranslatedUpdate { child, update });
    }
}

/// Whether a call starts a sub-agent.
fn is_sub_agent(call: &Call) -> bool {
    call.action == ToolAction::Delegate && matches!(call.tool_input(), ToolInput::Agent { .. })
}

#[cfg(test)]
mod tests;
