//! One turn: the steps of a reply, until they are done or the client cancels.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::play::acp::misbehavior::AcpMisbehavior;
use crate::play::acp::output::{AcpPlayerError, OpenClientRequest};
use crate::play::acp::player::{AcpPlayer, PlayedSession};
use crate::play::acp::script::{self, AcpStep, PlayedPrompt};

/// What one turn costs.
const COST: f64 = 0.0625;

/// The shortest chunk of a long text, in bytes, and the number of chunks of a very long one.
const CHUNK: usize = 200;
const CHUNKS: usize = 80;

/// A turn that runs.
pub(crate) struct AcpTurn {
    pub(crate) player: Arc<AcpPlayer>,
    pub(crate) session: Arc<PlayedSession>,
    /// Requests of this turn that the client has not answered.
    pub(crate) open_requests: Vec<OpenClientRequest>,
    /// Calls that have no result.
    pub(crate) open_calls: Vec<String>,
    /// The message that is being written: its id and its text.
    message: Option<(String, String)>,
}

/// How a turn ends.
#[derive(Debug)]
pub(crate) enum AcpTurnEnd {
    Stopped(&'static str),
    Failed(String),
}

/// Starts the turn of a prompt. It waits for those before it.
pub(crate) fn start(
    player: &Arc<AcpPlayer>,
    session: &Arc<PlayedSession>,
    id: Value,
    prompt: &Value,
) {
    let blocks = prompt.as_array().map(Vec::as_slice).unwrap_or_default();
    let prompt = PlayedPrompt::new(blocks);
    let is_busy = session.state().open > 0;
    if is_busy && player.does(AcpMisbehavior::SecondPromptCancels) {
        session.cancel();
    }
    session.state().open += 1;
    let cancels = *session.cancels.borrow();
    let (player, session) = (Arc::clone(player), Arc::clone(session));
    tokio::spawn(async move {
        let turn = session.turn.lock().await;
        let mut running = AcpTurn {
            player: Arc::clone(&player),
            session: Arc::clone(&session),
            open_requests: Vec::new(),
            open_calls: Vec::new(),
            message: None,
        };
        let end = running.play(&prompt, cancels).await;
        let result = running.result(end).await;
        let is_last = {
            let mut state = session.state();
            state.open -= 1;
            state.open == 0
        };
        if player.does(AcpMisbehavior::AnswersTogether) {
            let held = {
                let mut state = session.state();
                state.held.push((id, result));
                if is_last { std::mem::take(&mut state.held) } else { Vec::new() }
            };
            for (id, result) in held {
                player.output.respond(&id, result).await;
            }
        } else {
            player.output.respond(&id, result).await;
        }
        drop(turn);
        if player.does(AcpMisbehavior::LateUpdates) {
            running.write_late().await;
        }
    });
}

impl AcpTurn {
    pub(crate) fn does(&self, misbehavior: AcpMisbehavior) -> bool {
        self.player.does(misbehavior)
    }

    pub(crate) async fn update(&self, update: &Value) {
        self.player.output.update(&self.session.id, update).await;
    }

    pub(crate) fn record(&self, update: &Value) {
        self.player.store.record(&self.session.id, update);
    }

    pub(crate) async fn pause(&self) {
        tokio::time::sleep(self.player.pace).await;
    }

    /// Plays the reply to a prompt. `cancels` is how often the client had cancelled before it.
    async fn play(&mut self, prompt: &PlayedPrompt, cancels: u64) -> AcpTurnEnd {
        let stored = self.player.store.read(&self.session.id).unwrap_or_default();
        let steps = script::reply(prompt, &self.session.cwd, &stored.prompts());
        self.record(&text_update("user_message_chunk", &prompt.text, Some(&new_id())));
        self.session.state().can_steer = true;
        let mut receiver = self.session.cancels.subscribe();
        let cancelled = async move { drop(receiver.wait_for(|count| *count > cancels).await) };
        tokio::pin!(cancelled);
        tokio::select! {
            biased;
            () = &mut cancelled => return self.cancel().await,
            () = self.misbehave_at_start() => {}
        }
        for step in steps {
            tokio::select! {
                biased;
                () = &mut cancelled => return self.cancel().await,
                end = self.step(step) => {
                    if let Some(end) = end {
                        return end;
                    }
                }
            }
            self.mention_added().await;
        }
        // From here on, nothing more can be added.
        while self.has_added() {
            self.mention_added().await;
        }
        self.finish_message();
        self.set_title(&prompt.text).await;
        if self.does(AcpMisbehavior::NeverAnswers) {
            cancelled.await;
            return self.cancel().await;
        }
        AcpTurnEnd::Stopped("end_turn")
    }

    /// Whether something was added to the turn. If not, nothing more can be added.
    fn has_added(&self) -> bool {
        let mut state = self.session.state();
        state.can_steer = !state.steered.is_empty();
        state.can_steer
    }

    /// Writes what was added to the turn.
    async fn mention_added(&mut self) {
        let added = std::mem::take(&mut self.session.state().steered);
        for text in added {
            self.finish_message();
            self.record(&text_update("user_message_chunk", &text, Some(&new_id())));
            self.write(&words(&format!("You added: {text}"))).await;
        }
    }

    async fn misbehave_at_start(&mut self) {
        if self.does(AcpMisbehavior::StdoutNoise) {
            self.player.output.write(b"[debug] a turn has started\n".to_vec()).await;
        }
        if self.does(AcpMisbehavior::UnknownMessages) {
            let params = json!({ "sessionId": self.session.id, "suggestion": "and then?" });
            let method = "qwen/notify/session/prompt-suggestion";
            self.player.output.notify(method, params.clone()).await;
            let update = json!({ "sessionUpdate": "wobble_update", "wobble": { "deep": [1, 2] } });
            self.update(&update).await;
            let request = self.player.output.request("wobble/ask", params).await;
            drop(request.response.await);
        }
    }

    async fn step(&mut self, step: AcpStep) -> Option<AcpTurnEnd> {
        if !matches!(step, AcpStep::Text(_) | AcpStep::Words(_)) {
            self.finish_message();
        }
        match step {
            AcpStep::Text(text) => self.write(&chunks(&text)).await,
            AcpStep::Words(text) => self.write(&words(&text)).await,
            AcpStep::Thought(text) => {
                let id = self.message_id();
                for word in words(&text) {
                    self.pause().await;
                    self.update(&text_update("agent_thought_chunk", word, id.as_deref())).await;
                }
                self.record(&text_update("agent_thought_chunk", &text, id.as_deref()));
            }
            AcpStep::Calls(calls) => return self.call(calls).await,
            AcpStep::Plan => self.show_plan().await,
            AcpStep::Form => self.ask_form().await,
            AcpStep::Link => self.ask_to_open().await,
            AcpStep::SwitchMode => {
                let mode =
                    if self.session.state().options.mode() == "ask" { "auto" } else { "ask" };
                drop(self.player.set_option(&self.session, "mode", &json!(mode)).await);
            }
            AcpStep::Wait => loop {
                self.session.steering.notified().await;
                self.mention_added().await;
            },
            AcpStep::Error => return Some(self.fail().await),
        }
        None
    }

    fn message_id(&self) -> Option<String> {
        (!self.does(AcpMisbehavior::NoMessageId)).then(new_id)
    }

    /// Writes chunks of a message.
    pub(crate) async fn write(&mut self, chunks: &[&str]) {
        for chunk in chunks {
            self.pause().await;
            let (id, text) = self.message.get_or_insert_with(|| (new_id(), String::new()));
            text.push_str(chunk);
            let id = (!self.player.does(AcpMisbehavior::NoMessageId)).then_some(id.as_str());
            let update = text_update("agent_message_chunk", chunk, id);
            if self.does(AcpMisbehavior::HalfLine) {
                let line = update.to_string().into_bytes();
                self.player.output.write(line[..line.len() / 2].to_vec()).await;
            } else {
                self.update(&update).await;
            }
            if self.does(AcpMisbehavior::DiesMidTurn) || self.does(AcpMisbehavior::HalfLine) {
                self.player.death.notify_one();
                std::future::pending::<()>().await;
            }
        }
    }

    /// Records the message that was written.
    fn finish_message(&mut self) {
        if let Some((id, text)) = self.message.take() {
            self.record(&text_update("agent_message_chunk", &text, Some(&id)));
        }
    }

    /// The first prompt is the title of the session.
    async fn set_title(&self, prompt: &str) {
        if std::mem::replace(&mut self.session.state().has_title, true) {
            return;
        }
        let title: String = prompt.lines().next().unwrap_or_default().chars().take(80).collect();
        self.player.store.set(&self.session.id, &json!({ "title": title }));
        self.update(&json!({ "sessionUpdate": "session_info_update", "title": title })).await;
    }

    async fn fail(&mut self) -> AcpTurnEnd {
        let text = "The model is overloaded.";
        if self.does(AcpMisbehavior::SystemError) {
            let status = json!({ "codex": { "threadStatus": { "type": "systemError" } } });
            let update = json!({ "sessionUpdate": "session_info_update", "_meta": status });
            self.update(&update).await;
        }
        if self.does(AcpMisbehavior::SystemError) || self.does(AcpMisbehavior::ErrorAsText) {
            self.finish_message();
            let error = format!("Error: 529 {text}");
            self.update(&text_update("agent_message_chunk", &error, None)).await;
            self.record(&text_update("agent_message_chunk", &error, None));
            return AcpTurnEnd::Stopped("end_turn");
        }
        AcpTurnEnd::Failed(text.to_owned())
    }

    /// Ends the turn because the client has cancelled it.
    async fn cancel(&mut self) -> AcpTurnEnd {
        for request in std::mem::take(&mut self.open_requests) {
            if self.does(AcpMisbehavior::WithdrawsPermission) {
                let params = json!({ "requestId": request.id });
                self.player.output.notify("$/cancel_request", params).await;
            }
            if !self.does(AcpMisbehavior::CancelBeforeAnswer) {
                drop(request.response.await);
            }
        }
        for call in std::mem::take(&mut self.open_calls) {
            let update = json!({
                "sessionUpdate": "tool_call_update", "toolCallId": call, "status": "failed",
            });
            self.update(&update).await;
        }
        if self.does(AcpMisbehavior::UpdatesAfterCancel) {
            self.write(&["These ", "words ", "come ", "too ", "late."]).await;
        }
        self.finish_message();
        AcpTurnEnd::Stopped("cancelled")
    }

    /// The answer to the prompt, after the tokens are reported.
    async fn result(&mut self, end: AcpTurnEnd) -> Result<Value, AcpPlayerError> {
        self.finish_message();
        {
            let mut state = self.session.state();
            state.can_steer = false;
            state.steered.clear();
        }
        let stop = match end {
            AcpTurnEnd::Stopped(reason) => reason,
            AcpTurnEnd::Failed(why) => {
                let data = Some(json!({ "details": why, "status": 529 }));
                return Err(AcpPlayerError { data, ..AcpPlayerError::new(-32603, why.clone()) });
            }
        };
        let mut result = json!({ "stopReason": stop });
        if self.does(AcpMisbehavior::NoUsage) {
            return Ok(result);
        }
        let mut update = json!({ "sessionUpdate": "usage_update", "used": 145, "size": 200_000 });
        if self.does(AcpMisbehavior::CumulativeCost) {
            let cost = {
                let mut state = self.session.state();
                state.cost += COST;
                state.cost
            };
            self.player.store.set(&self.session.id, &json!({ "cost": cost }));
            update["cost"] = json!({ "amount": cost, "currency": "USD" });
        }
        self.update(&update).await;
        result["usage"] = if self.does(AcpMisbehavior::SystemError) {
            Value::Null
        } else {
            json!({
                "totalTokens": 185, "inputTokens": 120, "outputTokens": 25, "cachedReadTokens": 40,
                "cachedWriteTokens": 0,
            })
        };
        Ok(result)
    }

    /// Writes a message after the prompt was answered.
    async fn write_late(&mut self) {
        self.pause().await;
        self.write(&["A ", "task ", "in ", "the ", "background ", "has ", "finished."]).await;
        self.finish_message();
    }

    async fn show_plan(&self) {
        let entry = |content: &str, status: &str| json!({ "content": content, "priority": "medium", "status": status });
        for statuses in
            [["in_progress", "pending", "pending"], ["completed", "in_progress", "pending"]]
        {
            let [first, second, third] = statuses;
            let update = json!({ "sessionUpdate": "plan", "entries": [
                entry("Look around", first), entry("Change it", second), entry("Test it", third),
            ] });
            self.update(&update).await;
            self.record(&update);
            self.pause().await;
        }
    }

    async fn ask_form(&mut self) {
        let can = self.player.client_has("/elicitation/form");
        if !can && !self.does(AcpMisbehavior::UninvitedQuestions) {
            return self.write(&["This client has no forms, ", "so I do not ask."]).await;
        }
        let option = |value: &str, text: &str| json!({ "const": value, "title": value, "description": text });
        let schema = json!({ "type": "object", "properties": {
            "color": {
                "type": "string", "title": "Color",
                "oneOf": [option("red", "warm"), option("blue", "cold")],
            },
            "color_custom": { "type": "string", "title": "Other" },
        } });
        let params = json!({
            "mode": "form", "sessionId": self.session.id, "message": "Which color?",
            "requestedSchema": schema,
        });
        let answer = self.elicit(params).await;
        let content = &answer["result"]["content"];
        let color = content["color_custom"].as_str().or(content["color"].as_str());
        let text = match (answer["result"]["action"].as_str(), color) {
            (Some("accept"), Some(color)) => format!("You chose {color}."),
            (Some(action), _) => format!("No color was chosen ({action})."),
            (None, _) => "The client could not ask.".to_owned(),
        };
        self.write(&words(&text)).await;
    }

    async fn ask_to_open(&mut self) {
        let can = self.player.client_has("/elicitation/url");
        if !can && !self.does(AcpMisbehavior::UninvitedQuestions) {
            return self.write(&["This client opens no pages, ", "so I do not ask."]).await;
        }
        let id = new_id();
        let params = json!({
            "mode": "url", "sessionId": self.session.id, "message": "Sign in to the tracker",
            "elicitationId": id, "url": "https://example.com/sign-in?player=1",
        });
        let answer = self.elicit(params).await;
        let text = if answer["result"]["action"] == "accept" {
            let params = json!({ "elicitationId": id });
            self.player.output.notify("elicitation/complete", params).await;
            "The page was opened."
        } else {
            "The page was not opened."
        };
        self.write(&words(text)).await;
    }

    /// Asks the user, and returns the response.
    async fn elicit(&mut self, params: Value) -> Value {
        let request = self.player.output.request("elicitation/create", params).await;
        self.open_requests.push(request);
        self.next_response().await
    }

    /// The response to the oldest open request.
    pub(crate) async fn next_response(&mut self) -> Value {
        let Some(request) = self.open_requests.first_mut() else { return Value::Null };
        let response = (&mut request.response).await.unwrap_or_default();
        self.open_requests.remove(0);
        response
    }
}

pub(crate) fn new_id() -> String {
    uuid::Uuid::new_v4().to_string()
}

fn text_update(kind: &str, text: &str, id: Option<&str>) -> Value {
    let mut update = json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } });
    if let Some(id) = id {
        update["messageId"] = json!(id);
    }
    update
}

/// The words of a text, each with the space after it.
fn words(text: &str) -> Vec<&str> {
    text.split_inclusive(' ').collect()
}

/// The chunks of a text.
fn chunks(text: &str) -> Vec<&str> {
    let length = CHUNK.max(text.len() / CHUNKS);
    let (mut chunks, mut rest) = (Vec::new(), text);
    while !rest.is_empty() {
        let end = (length.min(rest.len())..=rest.len()).find(|it| rest.is_char_boundary(*it));
        let (chunk, after) = rest.split_at(end.unwrap_or(rest.len()));
        chunks.push(chunk);
        rest = after;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::{chunks, words};

    #[test]
    fn chunks_are_the_text() {
        for text in ["", "a", &"äöü ".repeat(10_000), &"x".repeat(5_000_000)] {
            assert_eq!(chunks(text).concat(), text);
            assert_eq!(words(text).concat(), text);
            assert!(chunks(text).len() <= 201, "{}", chunks(text).len());
        }
    }
}
