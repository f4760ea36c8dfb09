//! Replies of the model: their events, and what follows when they are complete.

use serde_json::{Value, json};

use crate::play::event::{ModelFailure, ModelReply, ModelRequestNumber};
use crate::play::release::PlayerBehavior;
use crate::play::session::PlayerSession;
use crate::play::session::calls::PlayerCall;
use crate::play::session::conversation::{
    MessageStep, PlayerAgent, PlayerHistoryEntry, PlayerMessage, PlayerTokens,
};
use crate::play::session::mcp_servers::McpServers;
use crate::play::session::output::into_object;
use crate::play::{stamps, texts};

impl PlayerSession {
    pub(crate) fn on_model_reply(&mut self, number: ModelRequestNumber, reply: ModelReply) {
        let Some(agent) = self.agent_of_request(number) else {
            self.on_side_question_reply(number, &reply);
            return;
        };
        if self.is_summary(&agent) {
            self.on_summary_reply(reply);
            return;
        }
        match reply {
            ModelReply::Started(id) => {
                if let Some(pending) =
                    self.conversation(&agent).and_then(|conversation| conversation.pending.as_mut())
                {
                    pending.id = id;
                }
            }
            ModelReply::Event(event) => {
                let late = if agent == PlayerAgent::Main {
                    std::mem::take(&mut self.late_outcomes)
                } else {
                    Vec::new()
                };
                self.on_stream_event(&agent, &event);
                self.finish_late_calls(late);
            }
            ModelReply::Message(message) => self.on_whole_reply(&agent, &message),
            ModelReply::Ended => {
                let complete = self.conversation(&agent).is_none_or(|conversation| {
                    conversation.message.as_ref().is_some_and(|it| it.complete)
                });
                if !complete {
                    let failure =
                        ModelFailure { message: "terminated".into(), ..ModelFailure::default() };
                    self.stream_failed(&agent, &failure);
                }
            }
            ModelReply::Failed(failure) => {
                let started = self
                    .conversation(&agent)
                    .is_some_and(|conversation| conversation.message.is_some());
                if started {
                    self.stream_failed(&agent, &failure);
                } else {
                    self.request_failed(&agent, &failure);
                }
            }
        }
    }

    /// The agent that sent a request, if it still waits for the reply.
    fn agent_of_request(&self, number: ModelRequestNumber) -> Option<PlayerAgent> {
        let conversations = std::iter::once(&self.conversation)
            .chain(self.sub_agents.values().map(|it| &it.conversation));
        let mut waiting = conversations.filter(|conversation| {
            conversation
                .pending
                .as_ref()
                .is_some_and(|pending| pending.number == number && !pending.paused)
        });
        waiting.next().map(|conversation| conversation.agent.clone())
    }

    fn on_stream_event(&mut self, agent: &PlayerAgent, event: &Value) {
        match event["type"].as_str().unwrap_or_default() {
            "error" => {
                let error = &event["error"];
                let kind = error["type"].as_str().map(str::to_owned);
                let status = (kind.as_deref() == Some("overloaded_error")).then_some(529);
                let message = error["message"].as_str().unwrap_or_default().to_owned();
                let failure = ModelFailure { status, kind, message, ..ModelFailure::default() };
                self.stream_failed(agent, &failure);
            }
            "ping" => {}
            "message_start" => {
                if self.has(PlayerBehavior::ReplayBeforeReply) {
                    self.flush_replay(agent);
                }
                let Some(conversation) = self.conversation(agent) else { return };
                conversation.message = Some(PlayerMessage::start(event));
                self.print_stream_event(agent, event, json!({}));
            }
            _ => self.on_stream_part(agent, event),
        }
    }

    fn on_stream_part(&mut self, agent: &PlayerAgent, event: &Value) {
        let Some(message) =
            self.conversation(agent).and_then(|conversation| conversation.message.as_mut())
        else {
            return;
        };
        match message.apply(event) {
            MessageStep::Partial => self.print_stream_event(agent, event, json!({})),
            MessageStep::Thinking(all, more) => {
                if *agent == PlayerAgent::Main {
                    let fields = json!({ "estimated_tokens": all, "estimated_tokens_delta": more });
                    self.print_system("thinking_tokens", fields);
                }
                self.print_stream_event(agent, event, json!({}));
            }
            MessageStep::Block(block) => {
                self.print_sub_agent_block(agent, &block);
                // 2.1.325 answers some calls before it passes on the end of their block.
                let answer_early = self.is_answered_early(&block);
                if answer_early {
                    self.add_call(agent, &block);
                }
                self.print_stream_event(agent, event, json!({}));
                if !answer_early {
                    self.add_call(agent, &block);
                }
            }
            MessageStep::Complete => {
                self.print_stream_event(agent, event, json!({}));
                self.on_reply_complete(agent);
            }
        }
    }

    /// Handles the reply to a request without a stream.
    fn on_whole_reply(&mut self, agent: &PlayerAgent, message: &Value) {
        self.flush_replay(agent);
        let Some(conversation) = self.conversation(agent) else { return };
        let whole = PlayerMessage::whole(message);
        let blocks = whole.blocks.clone();
        conversation.message = Some(whole);
        for block in &blocks {
            self.print_sub_agent_block(agent, block);
            self.add_call(agent, block);
        }
        self.on_reply_complete(agent);
    }

    /// Prints an event of the stream if the host asked for partial messages.
    pub(crate) fn print_stream_event(&mut self, agent: &PlayerAgent, event: &Value, fields: Value) {
        if *agent != PlayerAgent::Main {
            return;
        }
        if let Some(turn) = &mut self.turn {
            turn.first_event.get_or_insert(self.now);
        }
        if !self.args.partial {
            return;
        }
        let id = self.conversation.message.as_ref().map(|message| message.id.clone());
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "stream_event".into());
        line.insert("event".to_owned(), event.clone());
        line.insert("uuid".to_owned(), self.ids.uuid().into());
        line.insert("api_message_id".to_owned(), id.into());
        if event["type"] == "message_start" {
            let sent = self.conversation.pending.as_ref().map_or(self.now, |pending| pending.sent);
            line.insert("ttft_ms".to_owned(), stamps::millis_between(sent, self.now).into());
            line.insert("thinking_display".to_owned(), "updates".into());
            let unnamed = self.turn.as_ref().filter(|turn| !turn.prompts_named);
            if let Some((turn, uuid)) = unnamed.and_then(|turn| Some((turn, turn.uuid()?))) {
                line.insert("user_message_uuid".to_owned(), uuid.into());
                line.insert("user_message_uuids".to_owned(), turn.uuids().into());
                line.insert("owed_rows".to_owned(), json!([]));
            }
        }
        if event["content_block"]["type"] == "thinking" {
            line.insert("thinking_display".to_owned(), "updates".into());
        }
        self.add_origin_fields(&mut line, agent);
        self.print(Value::Object(line));
    }

    /// Prints a block of a complete reply, and what a sub-agent is about to do: before the block, or after
    /// it if the sub-agent runs in the background.
    fn print_sub_agent_block(&mut self, agent: &PlayerAgent, block: &Value) {
        let is_behind = match agent {
            PlayerAgent::Main => false,
            PlayerAgent::SubAgent(id) => self.sub_agents.get(id).is_some_and(|it| it.background),
        };
        if !is_behind {
            self.print_sub_agent_progress(agent, block);
        }
        self.print_block(agent, block, json!({}));
        if is_behind {
            self.print_sub_agent_progress(agent, block);
        }
    }

    /// Prints a block of a reply and adds it to the history.
    pub(crate) fn print_block(&mut self, agent: &PlayerAgent, block: &Value, fields: Value) {
        self.flush_replay(agent);
        let uuid = self.ids.uuid();
        let Some(conversation) = self.conversation(agent) else { return };
        let request = conversation.pending.as_ref().and_then(|pending| pending.id.clone());
        let Some(message) = conversation.message.as_ref().map(|message| message.line(block)) else {
            return;
        };
        let mut line = into_object(fields);
        line.insert("type".to_owned(), "assistant".into());
        line.insert("message".to_owned(), message.clone());
        line.insert("uuid".to_owned(), uuid.clone().into());
        line.insert("timestamp".to_owned(), stamps::timestamp(self.now).into());
        if let Some(request) = &request {
            line.insert("request_id".to_owned(), request.clone().into());
        }
        if block["type"] == "thinking" {
            line.insert("thinking_duration_ms".to_owned(), 1.into());
            line.insert("thinking_display".to_owned(), "updates".into());
        }
        if let Some(meta) = McpServers::meta(block) {
            line.insert("tool_use_meta".to_owned(), json!([meta]));
        }
        if *agent == PlayerAgent::Main {
            self.name_prompts(&mut line);
        }
        self.add_origin_fields(&mut line, agent);
        if self.is_printed(agent, block) {
            self.print(Value::Object(line));
        }
        let content = json!([block]);
        let entry =
            PlayerHistoryEntry { uuid, role: "assistant".to_owned(), content, prompt: false };
        self.add_reply_history(agent, entry, message, request);
    }

    /// Adds the ids of the prompts to the first line of the reply.
    fn name_prompts(&mut self, line: &mut serde_json::Map<String, Value>) {
        let Some(turn) = &mut self.turn else { return };
        turn.first_answer.get_or_insert(self.now);
        if turn.prompts_named {
            return;
        }
        turn.prompts_named = true;
        if let Some(uuid) = turn.uuid() {
            line.insert("user_message_uuid".to_owned(), uuid.into());
            line.insert("user_message_uuids".to_owned(), turn.uuids().into());
        }
    }

    /// Whether the host sees a block. The texts of a foreground sub-agent are not printed unless the
    /// host asked for them.
    fn is_printed(&self, agent: &PlayerAgent, block: &Value) -> bool {
        let PlayerAgent::SubAgent(id) = agent else { return true };
        let foreground = self.sub_agents.get(id).is_some_and(|sub_agent| !sub_agent.background);
        self.forward_sub_agent_text || !foreground || block["type"] == "tool_use"
    }

    /// Whether a call is for the host or names an unknown tool.
    fn is_answered_early(&self, block: &Value) -> bool {
        let name = block["name"].as_str().unwrap_or_default();
        let name = if name == "Agent" { "Task" } else { name };
        name == "AskUserQuestion" || !self.tools().iter().any(|tool| tool == name)
    }

    /// Adds a call if the block is one.
    fn add_call(&mut self, agent: &PlayerAgent, block: &Value) {
        if block["type"] != "tool_use" {
            return;
        }
        let call = PlayerCall::parse(block, agent.clone());
        if let Some(conversation) = self.conversation(agent) {
            conversation.calls.push(call);
        }
        self.start_ready_calls(agent);
    }

    fn on_reply_complete(&mut self, agent: &PlayerAgent) {
        self.flush_replay(agent);
        let now = self.now;
        let Some(conversation) = self.conversation(agent) else { return };
        let Some(pending) = conversation.pending.take() else { return };
        let Some(message) = &conversation.message else { return };
        let (model, tokens) = (message.model.clone(), PlayerTokens::parse(&message.usage));
        let (stop, text) = (message.stop_reason.clone(), message.text());
        conversation.failures.retries = 0;
        conversation.failures.broken_streams = 0;
        conversation.failures.reductions = 0;
        self.usage.count(&model, tokens);
        if *agent == PlayerAgent::Main {
            if let Some(turn) = &mut self.turn {
                turn.tokens.add(tokens);
                turn.first_tokens.get_or_insert(tokens);
                turn.api_millis += stamps::millis_between(pending.sent, now);
                turn.stop_reason = stop;
                turn.text = text.unwrap_or_default();
            }
            if self.args.max_budget.is_some_and(|budget| self.usage.cost() > budget) {
                self.drop_calls();
                self.finish_at_budget_limit();
                return;
            }
        } else {
            self.count_sub_agent_usage(agent, tokens, text);
        }
        if *agent == PlayerAgent::Main {
            self.start_late_commands();
        }
        self.finish_round(agent);
    }

    /// Continues the conversation if the reply and all of its calls are complete.
    pub(crate) fn finish_round(&mut self, agent: &PlayerAgent) {
        let Some(conversation) = self.conversation(agent) else { return };
        let Some(message) = &conversation.message else { return };
        if conversation.pending.is_some() || !message.complete || !conversation.all_calls_done() {
            return;
        }
        if conversation.calls.is_empty() {
            let (stop, visible) = (message.stop_reason.clone(), message.is_visible());
            self.on_final_reply(agent, stop.as_deref(), visible);
            return;
        }
        let calls = std::mem::take(&mut conversation.calls);
        conversation.message = None;
        self.add_call_results(agent, &calls);
        self.next_round(agent);
    }

    /// Handles a reply without calls: the agent is done, or the model is asked to continue.
    fn on_final_reply(&mut self, agent: &PlayerAgent, stop: Option<&str>, visible: bool) {
        let release = self.args.release;
        let Some(conversation) = self.conversation(agent) else { return };
        let refused_id = conversation.message.as_ref().map(|message| message.id.clone());
        let failures = &mut conversation.failures;
        match stop {
            Some("max_tokens")
                if failures.truncations < 3 && release.has(PlayerBehavior::ContinuesAfterLimit) =>
            {
                failures.truncations += 1;
                self.ask_to_continue(agent, texts::CONTINUE_AFTER_LIMIT, json!({}));
            }
            Some("max_tokens") => self.fail_output_limit(agent),
            Some("refusal") if !release.has(PlayerBehavior::ContinuesAfterRefusal) => {
                self.fail_refused(agent);
            }
            Some("refusal") if failures.refusals < 1 => {
                failures.refusals += 1;
                if let Some(turn) = &mut self.turn {
                    turn.safety_stops += 1;
                }
                let content = "Opus 5.5's safeguards stopped the response above · continuing once \
                               with that noted";
                self.print_system(
                    "informational",
                    json!({ "content": content, "level": "notice" }),
                );
                self.ask_to_continue(
                    agent,
                    texts::CONTINUE_AFTER_REFUSAL,
                    json!({ "refused_message_id": refused_id }),
                );
            }
            _ if !visible
                && failures.empty_replies < 1
                && release.has(PlayerBehavior::AsksAfterEmptyReply) =>
            {
                failures.empty_replies += 1;
                self.ask_to_continue(agent, texts::CONTINUE_AFTER_EMPTY, json!({}));
            }
            _ => match agent {
                PlayerAgent::Main if self.remind_of_structured_output() => {}
                PlayerAgent::Main if !visible && self.has(PlayerBehavior::EmptyReplyIsError) => {
                    self.finish_empty();
                }
                PlayerAgent::Main => self.stop_turn(),
                PlayerAgent::SubAgent(id) => self.finish_sub_agent(&id.clone()),
            },
        }
    }

    /// Adds a synthetic user message and sends the conversation to the model.
    pub(crate) fn ask_to_continue(&mut self, agent: &PlayerAgent, text: &str, fields: Value) {
        self.ask_to_continue_with(agent, text, fields, |_| {});
    }

    /// Does the same and calls `before_request` in between.
    pub(crate) fn ask_to_continue_with(
        &mut self,
        agent: &PlayerAgent,
        text: &str,
        fields: Value,
        before_request: impl FnOnce(&mut Self),
    ) {
        let content = json!([{ "type": "text", "text": text }]);
        let mut fields = into_object(fields);
        fields.insert("isSynthetic".to_owned(), true.into());
        let uuid = if self.has(PlayerBehavior::SyntheticPrompts) {
            self.count_line(agent);
            self.print_user(agent, &content, Value::Object(fields))
        } else {
            self.ids.uuid()
        };
        self.add_history_of(
            agent,
            PlayerHistoryEntry { uuid, role: "user".into(), content, prompt: false },
        );
        before_request(self);
        self.request_model(agent);
    }

    /// Counts a printed `user` line.
    pub(crate) fn count_line(&mut self, agent: &PlayerAgent) {
        if *agent == PlayerAgent::Main
            && let Some(turn) = &mut self.turn
        {
            turn.user_lines += 1;
        }
    }

    /// Sends the results of the calls to the model, unless the turn is to end.
    fn next_round(&mut self, agent: &PlayerAgent) {
        if *agent == PlayerAgent::Main {
            let Some(turn) = &mut self.turn else { return };
            turn.rounds += 1;
            let rounds = turn.rounds;
            if turn.stopped.is_some() {
                self.finish_stopped();
                return;
            }
            if turn.structured_output.value.is_some() {
                self.stop_turn();
                return;
            }
            if let Some(error) = turn.structured_output.exhausted() {
                self.finish_without_structured_output(&error);
                return;
            }
            if self.queue.is_urgent() {
                self.finish_for_urgent();
                return;
            }
            if self.args.max_turns.is_some_and(|most| rounds >= most) {
                self.finish_at_turn_limit(rounds);
                return;
            }
            self.join_queued_prompts();
        }
        self.request_model(agent);
    }

    /// Adds the waiting prompts that can join the turn.
    fn join_queued_prompts(&mut self) {
        let joining = self.queue.take_joining();
        for prompt in &joining {
            self.print_replay(&prompt.uuid, &prompt.content);
            if prompt.has_host_id {
                self.print_lifecycle(&prompt.uuid, "started");
            }
            if self.has(PlayerBehavior::JoinsPromptsToResults) {
                let text = texts::mid_turn_reminder(&prompt.text());
                self.conversation.history.add_to_last_result(&text);
                continue;
            }
            let text = texts::mid_turn_prompt(&prompt.text());
            let content = json!([{ "type": "text", "text": text }]);
            let uuid = prompt.uuid.clone();
            self.add_history(PlayerHistoryEntry {
                uuid,
                role: "system".to_owned(),
                content,
                prompt: true,
            });
        }
        if let Some(turn) = &mut self.turn {
            turn.joined.extend(joining);
        }
    }
}
