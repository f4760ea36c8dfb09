//! Prompts, the ends of turns, and what they used.
//!
//! In a journal notes say where turns begin and end. In a recording it is the client's prompt and the
//! agent's answer to it, or in version 2 the agent's report that it is idle.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use wire::acp::event::{AcpFailure, AcpResponse, AcpResult, reported_tokens};
use wire::json::{Raw, Shape, Text};
use wire::note::TurnEnding;

use super::content::prompt_text;
use super::{id_of, is_id, short_id};
use crate::conversation::TurnEnd;
use crate::fold::{Fold, RAW_BYTES, Visibility, prefix};
use crate::item::{CompactionItem, ItemBody, ItemId, NoticeItem, NoticeLevel};
use crate::usage::TokenCounts;

/// How many prompts are remembered.
const MAX_PROMPTS: usize = 64;

/// How many bytes of a prompt are kept.
const PROMPT_BYTES: usize = 1 << 20;

/// How many bytes of the summary of a compaction are kept.
const SUMMARY_BYTES: usize = 256 << 10;

/// The prompts that the client has sent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::fold) struct PromptCalls {
    /// The requests that are not answered yet, as their sender wrote the ids.
    open: VecDeque<String>,
    /// Prompts of a recording that were sent while another one was being answered.
    waiting: VecDeque<WaitingPrompt>,
    /// How many prompts the agent has not repeated. Agents of version 1 never do.
    unrepeated: u32,
    /// The ids of those it has repeated.
    repeated: VecDeque<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct WaitingPrompt {
    request: String,
    text: String,
    images: usize,
}

impl PromptCalls {
    /// Whether a message of a user is this client's own prompt.
    pub(super) fn is_repeated(&mut self, message: Option<Text<'_>>) -> bool {
        let Some(message) = message else { return false };
        if self.repeated.iter().any(|known| is_id(message, known)) {
            return true;
        }
        if self.unrepeated == 0 {
            return false;
        }
        self.unrepeated -= 1;
        self.repeated.push_back(id_of(message));
        if self.repeated.len() > MAX_PROMPTS {
            self.repeated.pop_front();
        }
        true
    }

    fn close(&mut self, request: &str) -> bool {
        let Some(at) = self.open.iter().position(|open| open == request) else { return false };
        self.open.remove(at);
        if self.open.is_empty() {
            self.unrepeated = 0;
        }
        true
    }
}

/// The end of a turn, as the agent tells it.
struct AgentsTurnEnd<'a> {
    stop_reason: Text<'a>,
    usage: Option<Raw<'a>>,
    meta: Option<Raw<'a>>,
    /// What went wrong.
    error: Option<String>,
}

impl Fold {
    /// The client sends a prompt.
    pub(super) fn acp_prompt(
        &mut self,
        request: Option<Raw<'_>>,
        session: Option<Text<'_>>,
        content: Raw<'_>,
    ) -> Visibility {
        if let Some(session) = session {
            self.learn_acp_session(session);
        }
        self.acp.replays = false;
        self.acp.in_error = false;
        let request = request.map(|it| short_id(it.as_str()).into_owned()).unwrap_or_default();
        let prompts = &mut self.acp.prompts;
        let is_next = prompts.open.is_empty();
        prompts.unrepeated += 1;
        prompts.open.push_back(request.clone());
        if prompts.open.len() > MAX_PROMPTS {
            prompts.open.pop_front();
        }
        if self.turns.has_notes {
            return Visibility::Hidden;
        }
        let (text, images) = prompt_text(content, PROMPT_BYTES);
        if is_next || !self.turns.is_open() {
            self.add_client_prompt(text, images);
            return Visibility::Visible;
        }
        let waiting = &mut self.acp.prompts.waiting;
        if waiting.len() < MAX_PROMPTS {
            waiting.push_back(WaitingPrompt { request, text, images });
        }
        Visibility::Hidden
    }

    /// The client adds a prompt to the running turn.
    pub(super) fn prompt_joined_turn(&mut self, content: Raw<'_>) -> Visibility {
        if !self.turns.is_open() {
            return Visibility::Hidden;
        }
        let (text, images) = prompt_text(content, PROMPT_BYTES);
        self.finish_acp_messages();
        self.add_prompt_to_turn(text, images);
        Visibility::Visible
    }

    /// The client stops the turn.
    pub(super) fn turn_cancelled(&mut self) -> Visibility {
        if self.turns.has_notes || !self.turns.is_open() {
            return Visibility::Hidden;
        }
        self.turn_interrupted();
        self.signals.interrupting = true;
        Visibility::Visible
    }

    /// An answer of the agent to a request of the client.
    pub(super) fn agent_answered(
        &mut self,
        response: &AcpResponse<'_>,
        sides_are_known: bool,
    ) -> Visibility {
        let id = short_id(response.id.as_str());
        let setup = self.acp.setup.take_if(|setup| setup.request == id);
        let is_setup = setup.is_some();
        if let Some(cwd) = setup.and_then(|it| it.cwd).filter(|_| response.result.is_ok())
            && self.head.value.cwd.as_ref() != Some(&cwd)
        {
            let rev = self.rev();
            self.head.change(rev, |head| head.cwd = Some(cwd));
        }
        match &response.result {
            Ok(AcpResult::TurnEnded { stop_reason, usage, meta }) => {
                self.acp.prompts.close(&id);
                let (stop_reason, usage, meta) = (*stop_reason, *usage, *meta);
                self.acp_turn_ended(AgentsTurnEnd { stop_reason, usage, meta, error: None })
            }
            Ok(AcpResult::PromptTaken { message }) => {
                self.acp.prompts.is_repeated(Some(*message));
                Visibility::Hidden
            }
            Ok(result @ (AcpResult::Initialized { .. } | AcpResult::Session { .. })) => {
                if let AcpResult::Session { id: Some(session), .. } = result
                    && (is_setup || self.acp.session.is_none())
                {
                    self.learn_acp_session(*session);
                }
                self.agent_described_itself(result)
            }
            Ok(_) if sides_are_known => Visibility::Hidden,
            Ok(_) => self.client_answered(response),
            Err(failure) if self.acp.prompts.close(&id) => self.prompt_failed(failure),
            Err(_) if self.turns.has_notes => Visibility::Hidden,
            Err(failure) => {
                let text = failure_text(failure);
                self.add_line_item(ItemBody::Notice(NoticeItem {
                    level: NoticeLevel::Warning,
                    text,
                }))
            }
        }
    }

    fn prompt_failed(&mut self, failure: &AcpFailure<'_>) -> Visibility {
        let text = failure_text(failure);
        self.add_failure(text.clone());
        self.end_acp_turn(TurnEnding::Failed { message: text }, None);
        Visibility::Visible
    }

    fn add_failure(&mut self, text: String) {
        self.finish_acp_messages();
        let turn = self.working_turn();
        let position = self.next_position();
        let body = ItemBody::Failure { name: None, text };
        self.add_item(ItemId::line(position), turn, None, position, body);
    }

    fn acp_turn_ended(&mut self, end: AgentsTurnEnd<'_>) -> Visibility {
        if let Some(tokens) = reported_tokens(end.usage, end.meta) {
            self.add_turn_tokens(tokens.into());
        }
        let reason = end.stop_reason.decode();
        // Some agents say only outside the protocol that their last text is an error.
        let no_usage = end.usage.is_some_and(|usage| usage.shape() == Shape::Null);
        let in_error = std::mem::take(&mut self.acp.in_error) && no_usage;
        let error = match end.error {
            Some(text) => {
                self.add_failure(text.clone());
                Some(text)
            }
            None if in_error => self.last_text_is_a_failure(),
            None => None,
        };
        let failed = |message: &str| TurnEnding::Failed { message: message.to_owned() };
        let ending = match (error, &*reason) {
            (Some(message), _) => TurnEnding::Failed { message },
            (None, "cancelled") => TurnEnding::Interrupted,
            (None, "max_turn_requests") => failed("error_max_turns"),
            (None, "max_tokens") => failed("the limit of tokens was reached"),
            (None, "refusal") => failed("the model refused to answer"),
            (None, "error") => failed(""),
            (None, _) => TurnEnding::Completed,
        };
        let reason = Some(id_of(end.stop_reason)).filter(|it| it != "end_turn");
        self.end_acp_turn(ending, reason);
        Visibility::Visible
    }

    /// Ends the turn in a recording. In a journal a note does that; this is the agent's own account.
    fn end_acp_turn(&mut self, ending: TurnEnding, reason: Option<String>) {
        if !self.turns.has_notes && !self.turns.is_open() {
            return;
        }
        let number = self.working_turn();
        let at = self.entry.at;
        let started = self.turns.record(number).and_then(|record| record.turn.started);
        let end = TurnEnd {
            ending: Some(ending),
            reason,
            at,
            duration_ms: at.zip(started).map(|(at, started)| at.saturating_sub(started)),
        };
        if self.turns.has_notes {
            self.change_turn(number, |record| record.turn.end = Some(end));
            return;
        }
        self.close_turn(Some(end));
        if let Some(WaitingPrompt { text, images, .. }) = self.acp.prompts.waiting.pop_front() {
            self.add_client_prompt(text, images);
        }
    }

    /// Turns the last text of the turn into a failure, and returns it.
    fn last_text_is_a_failure(&mut self) -> Option<String> {
        self.finish_acp_messages();
        let turn = self.turns.open()?;
        let mut last = self.items.iter().rev().take_while(|item| item.turn == turn);
        let text = last.find(|item| matches!(item.body, ItemBody::Text { .. }));
        let id = text.map(|item| item.id.clone());
        drop(last);
        let id = id?;
        self.change(&id, |item| {
            let ItemBody::Text { text } = &mut item.body else { return None };
            let text = std::mem::take(text);
            item.body = ItemBody::Failure { name: None, text: text.clone() };
            Some(text)
        })
        .flatten()
    }

    fn add_turn_tokens(&mut self, tokens: TokenCounts) {
        if tokens == TokenCounts::default() {
            return;
        }
        let (rev, turn) = (self.rev(), self.current_turn());
        self.usage.change(rev, |usage| usage.tokens.add(tokens));
        self.change_turn(turn, |record| record.turn.tokens.add(tokens));
    }

    /// What the session does now (version 2). A sub-agent's state comes with its own update.
    pub(super) fn acp_state(
        &mut self,
        parent: Option<&ItemId>,
        state: Text<'_>,
        stop_reason: Option<Text<'_>>,
        (usage, meta): (Option<Raw<'_>>, Option<Raw<'_>>),
        error: Option<Raw<'_>>,
    ) -> Visibility {
        if parent.is_some() {
            if let Some(tokens) = reported_tokens(usage, meta) {
                self.add_turn_tokens(tokens.into());
            }
            return Visibility::Hidden;
        }
        let is_idle = state == "idle";
        if state == "running" && !self.turns.has_notes && !self.turns.is_open() {
            self.working_turn();
            return Visibility::Visible;
        }
        let Some(stop_reason) = stop_reason.filter(|_| is_idle) else {
            return Visibility::Hidden;
        };
        self.acp.prompts.open.pop_front();
        if self.acp.prompts.open.is_empty() {
            self.acp.prompts.unrepeated = 0;
        }
        let error = error.map(|error| {
            let message = error.get("message").and_then(Raw::text).or_else(|| error.text());
            let text = message.map(Text::decode);
            prefix(text.as_deref().unwrap_or(error.as_str()), RAW_BYTES)
        });
        self.acp_turn_ended(AgentsTurnEnd { stop_reason, usage, meta, error })
    }

    /// Tokens in the context, and what the session has cost so far.
    pub(super) fn acp_usage(
        &mut self,
        parent: Option<&ItemId>,
        used: Option<u64>,
        size: Option<u64>,
        cost: Option<Raw<'_>>,
    ) -> Visibility {
        if parent.is_some() {
            return Visibility::Hidden;
        }
        let mut visibility = Visibility::Hidden;
        let known = &self.usage.value;
        let (context, window) = (used.or(known.context), size.or(known.window));
        if (context, window) != (known.context, known.window) {
            let rev = self.rev();
            self.usage.change(rev, |usage| (usage.context, usage.window) = (context, window));
            visibility = Visibility::Visible;
        }
        // Sums of other currencies cannot be added up with these.
        let currency = cost.and_then(|cost| cost.get("currency")?.text());
        let in_dollars = currency.is_none_or(|currency| currency == "USD");
        let amount = cost.and_then(|cost| cost.get("amount")?.number()).filter(|_| in_dollars);
        if let Some(total) = amount.filter(|total| total.is_finite() && *total >= 0.0)
            && self.cost.reported != Some(total)
        {
            let turn = self.current_turn();
            self.add_session_cost(turn, total);
            visibility = Visibility::Visible;
        }
        visibility
    }

    pub(super) fn acp_notice(
        &mut self,
        severity: Option<Text<'_>>,
        title: Option<Text<'_>>,
        description: Option<Text<'_>>,
    ) -> Visibility {
        let level = match severity.map(Text::decode).as_deref() {
            Some("warning") => NoticeLevel::Warning,
            Some("error") => NoticeLevel::Error,
            _ => NoticeLevel::Info,
        };
        let texts: Vec<_> = [title, description].into_iter().flatten().map(Text::decode).collect();
        let text = prefix(&texts.join("\n"), RAW_BYTES);
        if text.is_empty() {
            return Visibility::Hidden;
        }
        self.add_line_item(ItemBody::Notice(NoticeItem { level, text }))
    }

    pub(super) fn acp_compaction(
        &mut self,
        status: Option<Text<'_>>,
        summary: Option<Raw<'_>>,
    ) -> Visibility {
        let status = status.map(Text::decode);
        if matches!(status.as_deref(), Some("failed" | "cancelled")) {
            self.signals.compacting = false;
            self.acp.compaction = None;
            let text = "Could not compact the conversation".to_owned();
            let level = NoticeLevel::Warning;
            return self.add_line_item(ItemBody::Notice(NoticeItem { level, text }));
        }
        let is_over = matches!(status.as_deref(), Some("completed") | None);
        self.signals.compacting = !is_over;
        if self.acp.compaction.as_ref().is_none_or(|id| !self.items.has(id)) {
            let turn = self.working_turn();
            let position = self.next_position();
            let id = ItemId::line(position);
            let body = ItemBody::Compaction(CompactionItem::default());
            self.add_item(id.clone(), turn, None, position, body);
            self.acp.compaction = Some(id);
        }
        if let Some(summary) = summary {
            self.add_compaction_summary(summary);
        }
        if is_over {
            self.acp.compaction = None;
        }
        Visibility::Visible
    }

    pub(super) fn add_compaction_summary(&mut self, content: Raw<'_>) -> Visibility {
        let Some(id) = self.acp.compaction.clone() else { return Visibility::Hidden };
        let (text, _) = prompt_text(content, SUMMARY_BYTES);
        self.change(&id, |item| {
            if let ItemBody::Compaction(compaction) = &mut item.body {
                let room = SUMMARY_BYTES.saturating_sub(compaction.summary.len());
                compaction.summary.push_str(&text[..text.floor_char_boundary(room)]);
            }
        });
        Visibility::Visible
    }
}

/// What went wrong, with the details that many agents put beside a general message.
fn failure_text(failure: &AcpFailure<'_>) -> String {
    let message = failure.message.map(Text::decode).unwrap_or_default();
    let data = failure.data;
    let details = data.and_then(Raw::text).or_else(|| data?.get("details")?.text());
    let text = match details.map(Text::decode) {
        Some(details) if !details.is_empty() => format!("{message}: {details}"),
        _ if message.is_empty() => format!("error {}", failure.code),
        _ => message.into_owned(),
    };
    prefix(&text, RAW_BYTES)
}
