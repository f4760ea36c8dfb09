//! From a prompt to a request to the model.

use serde_json::{Map, Value, json};

use super::talk::{Asked, Speaker};
use super::turn::{Turn, TurnStage};
use super::{Session, State};
use crate::play::effect::Effect;
use crate::play::history::Entry;
use crate::play::permission::Mode;
use crate::play::queue::Prompt;

impl Session {
    /// A host said something.
    pub(super) fn prompted(&mut self, line: &Map<String, Value>) {
        let fresh = self.ids.uuid();
        let prompt = Prompt::read(line, fresh);
        if prompt.stamped && self.seen.contains(&prompt.uuid) {
            self.replay_again(&prompt.uuid, &prompt.content);
            if self.past.contains(&prompt.uuid) {
                self.lifecycle(&prompt.uuid, "completed");
            }
            return;
        }
        if prompt.stamped {
            self.seen.insert(prompt.uuid.clone());
            self.lifecycle(&prompt.uuid, "queued");
        }
        self.record_queue("enqueue", Some(&prompt.words()));
        self.queue.push(prompt);
    }

    /// A message goes into the history as it stands.
    pub(super) fn injected(&mut self, line: &Map<String, Value>) {
        let Some(message) = line.get("message") else { return };
        let role = message["role"].as_str().unwrap_or("assistant").to_owned();
        let given = line.get("uuid").and_then(Value::as_str).map(str::to_owned);
        if let Some(uuid) = &given {
            self.lifecycle(uuid, "completed");
        }
        let uuid = given.unwrap_or_else(|| self.ids.uuid());
        self.keep(Entry { uuid, role, content: message["content"].clone(), prompt: false });
    }

    /// Begins to answer what waits.
    pub(super) fn begin_turn(&mut self) {
        let prompts = self.queue.next_turn();
        let Some(last) = prompts.last().cloned() else { return };
        self.enter(State::Running);
        self.started = true;
        self.record_queue("dequeue", None);
        for prompt in prompts[..prompts.len() - 1].iter().filter(|prompt| prompt.stamped) {
            self.replay(&prompt.uuid, &prompt.content);
        }
        for prompt in prompts.iter().filter(|prompt| prompt.stamped) {
            self.lifecycle(&prompt.uuid, "started");
        }
        let prompt_id = self.ids.uuid();
        self.turn = Some(Turn::new(prompts, self.now, prompt_id));
        if !last.query {
            self.print_init();
            self.keep_prompts();
            self.replay(&last.uuid, &last.content);
            self.finish_quietly("", None);
        } else if let Some((name, rest)) = last.slash()
            && self.command(&name, &rest, &last)
        {
        } else if last.origin.is_some() || !self.hook_prompt(&last.words()) {
            self.open_turn();
        }
    }

    /// Asks the model about the prompts of the turn.
    pub(super) fn open_turn(&mut self) {
        self.print_init();
        let content = self.keep_prompts();
        let Some(turn) = &mut self.turn else { return };
        turn.stage = TurnStage::Talking;
        let remarks = std::mem::take(&mut turn.context);
        let shown = turn.prompts.last().filter(|prompt| prompt.origin.is_none()).cloned();
        for text in remarks {
            let text = format!("<system-reminder>\n{text}\n</system-reminder>");
            let uuid = self.ids.uuid();
            self.keep(Entry { uuid, role: "user".into(), content: text.into(), prompt: false });
        }
        self.talk.stumbles = super::talk::Stumbles::default();
        self.request(&Speaker::Main);
        if let Some(prompt) = shown
            && !is_tool_result(&content)
        {
            self.held_replay = Some((prompt.uuid, content));
        }
    }

    /// Echoes the prompt once something comes back for it, and not before: a failed attempt is told
    /// first.
    pub(super) fn replay_held(&mut self, speaker: &Speaker) {
        if *speaker == Speaker::Main
            && let Some((uuid, content)) = self.held_replay.take()
        {
            self.replay(&uuid, &content);
        }
    }

    /// Puts the prompts of the turn into the history, as one.
    fn keep_prompts(&mut self) -> Value {
        let Some(turn) = &self.turn else { return Value::Null };
        let content = together(&turn.prompts);
        let given: Vec<String> = turn.prompts.iter().map(|prompt| prompt.uuid.clone()).collect();
        let uuid = given.last().cloned().unwrap_or_default();
        if self.around.checkpoints {
            self.effects.push(Effect::Checkpoint(uuid.clone()));
        }
        let entry = Entry { uuid, role: "user".to_owned(), content: content.clone(), prompt: true };
        self.keep_also(entry, &given);
        content
    }

    /// Asks the model to go on with a talk.
    pub(super) fn request(&mut self, speaker: &Speaker) {
        let body = self.request_body(speaker);
        self.send(speaker, body, true);
    }

    /// Sends a request.
    pub(super) fn send(&mut self, speaker: &Speaker, body: Value, streaming: bool) {
        self.requests += 1;
        let (number, sent) = (self.requests, self.now);
        let asked = Asked {
            number,
            id: None,
            sent,
            streaming,
            paused: false,
            body: body.clone(),
            summary: false,
        };
        let main = *speaker == Speaker::Main;
        let Some(talk) = self.talk(speaker) else { return };
        let stumbles = &talk.stumbles;
        let again = stumbles.retries + stumbles.streams + stumbles.plainer > 0;
        talk.asked = Some(asked);
        talk.message = None;
        if main {
            if let Some(turn) = &mut self.turn {
                turn.first_request.get_or_insert(sent);
            }
            if self.arguments.partial && !again {
                self.print_requesting();
            }
        }
        self.effects.push(Effect::Ask { number, body });
    }

    fn print_requesting(&mut self) {
        let uuids = self.turn.as_ref().map(Turn::uuids).unwrap_or_default();
        let mut fields = json!({ "status": "requesting" });
        if !uuids.is_empty() {
            fields["user_message_uuids"] = uuids.into();
        }
        self.system("status", fields);
    }

    /// The body of a request.
    pub(super) fn request_body(&mut self, speaker: &Speaker) -> Value {
        let model = self.model();
        let tools: Vec<Value> = self.tools().iter().map(|tool| offered(tool)).collect();
        let mut system = self.arguments.system_prompt.clone().unwrap_or_else(|| {
            "You are an agent working with the user toward their goals.".to_owned()
        });
        if let Some(more) = &self.arguments.append_system_prompt {
            system = format!("{system}\n\n{more}");
        }
        if self.mode == Mode::Plan {
            let plan = self.plan_path();
            system = format!("{system}\n\nPlan mode is active. Plan file: {}", plan.display());
        }
        let opening = "You are a Claude agent, built on Anthropic's Claude Agent SDK.";
        let (effort, session) = (self.effort.clone(), self.id.clone());
        let mut messages =
            self.talk(speaker).map(|talk| talk.history.messages()).unwrap_or_default();
        if let Some(first) = messages.first_mut().and_then(|it| it["content"].as_array_mut())
            && let Some(reminder) = self.reminder()
        {
            first.insert(0, json!({ "type": "text", "text": reminder }));
        }
        json!({
            "model": model, "max_tokens": 128_000, "stream": true,
            "system": [{ "type": "text", "text": opening }, { "type": "text", "text": system }],
            "messages": messages,
            "tools": tools,
            "thinking": { "type": "adaptive", "display": "updates" },
            "output_config": { "effort": effort },
            "metadata": { "user_id": format!("play_session_{session}") },
        })
    }
}

impl Session {
    /// What stands before the first prompt, where there is anything to be reminded of.
    fn reminder(&self) -> Option<String> {
        let files = self.settings.memory.iter();
        let parts: Vec<String> = files
            .map(|(path, text)| format!("Contents of {}:\n\n{text}", path.display()))
            .collect();
        let all = parts.join("\n\n");
        (!all.is_empty()).then(|| format!("<system-reminder>\n{all}\n</system-reminder>\n"))
    }
}

/// A tool as the model is told about it.
fn offered(tool: &str) -> Value {
    let name = if tool == "Task" { "Agent" } else { tool };
    json!({ "name": name, "description": name, "input_schema": { "type": "object" } })
}

/// The contents of several prompts as one.
fn together(prompts: &[Prompt]) -> Value {
    if let [prompt] = prompts {
        return prompt.content.clone();
    }
    if prompts.iter().all(|prompt| prompt.content.is_string()) {
        let texts: Vec<String> = prompts.iter().map(Prompt::words).collect();
        return texts.join("\n").into();
    }
    let blocks = prompts.iter().flat_map(|prompt| match &prompt.content {
        Value::String(text) => vec![json!({ "type": "text", "text": text })],
        Value::Array(blocks) => blocks.clone(),
        _ => Vec::new(),
    });
    Value::Array(blocks.collect())
}

fn is_tool_result(content: &Value) -> bool {
    content
        .as_array()
        .is_some_and(|blocks| blocks.iter().any(|block| block["type"] == "tool_result"))
}
