//! What the agent does with the lines it reads.

use serde_json::Value;
use towpath_session::AgentEvent;
use uuid::Uuid;

use super::{AgentModel, AgentStorage, Generation};
use crate::simulation::users::Random;

impl AgentModel {
    pub(super) fn read(
        &mut self,
        line: &str,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) {
        let line: Value = serde_json::from_str(line).expect("a line of JSON");
        match line["type"].as_str() {
            Some("user") if self.faults.loses_prompts && random.one_in(4) => {
                storage.dropped.insert(uuid_of(&line["uuid"]));
            }
            Some("user") => self.prompted(uuid_of(&line["uuid"]), storage),
            Some("control_request") => {
                let id = line["request_id"].as_str().expect("an id").to_owned();
                self.requested(id, &line["request"], now, random, storage);
            }
            Some("control_response") => self.answered(&line["response"], now, random, storage),
            other => panic!("the agent does not know a line of type {other:?}"),
        }
    }

    pub(super) fn prompted(&mut self, prompt: Uuid, storage: &mut AgentStorage) {
        if storage.known.contains(&prompt) || self.queue.contains(&prompt) {
            self.print(AgentEvent::PromptAccepted(prompt));
        } else {
            self.queue.push(prompt);
            self.print(AgentEvent::Output);
        }
    }

    pub(super) fn requested(
        &mut self,
        id: String,
        request: &Value,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) {
        let old = self.generation == Generation::Old;
        let subtype = request["subtype"].as_str().expect("a subtype");
        let answer = match subtype {
            "initialize" if self.faults.never_ready => return,
            "initialize" if self.generation == Generation::New => {
                Some(r#"{"claude_code_version":"2.1.325"}"#.to_owned())
            }
            "initialize" => Some(r#"{"claude_code_version":"2"}"#.to_owned()),
            "interrupt" => return self.interrupted(id, request, now, random, storage),
            "cancel_async_message" if !old => {
                let prompt = uuid_of(&request["message_uuid"]);
                let cancelled = self.queue.contains(&prompt);
                self.queue.retain(|it| *it != prompt);
                if cancelled {
                    self.drop_prompt(prompt, storage);
                }
                Some(format!(r#"{{"cancelled":{cancelled}}}"#))
            }
            "set_model" => {
                self.model = request["model"].as_str().map(str::to_owned);
                None
            }
            "set_permission_mode" => {
                if old {
                    // It answers this request twice.
                    self.print(AgentEvent::RequestAnswered { id: id.clone(), answer: Ok(None) });
                }
                None
            }
            "rewind_files" | "rewind_conversation" if request["dry_run"].is_null() => {
                let prompted = self.turn.as_ref().is_some_and(|turn| !turn.prompts.is_empty());
                if prompted || !self.queue.is_empty() {
                    self.violation = Some(format!("a {subtype} during a turn"));
                }
                None
            }
            _ if old => return,
            "get_workspace_diff" => {
                let answer = Err(format!("Unsupported control request subtype: {subtype}"));
                return self.print(AgentEvent::RequestAnswered { id, answer });
            }
            _ => Some("{}".to_owned()),
        };
        self.print(AgentEvent::RequestAnswered { id, answer: Ok(answer) });
    }

    pub(super) fn drop_prompt(&mut self, prompt: Uuid, storage: &mut AgentStorage) {
        storage.dropped.insert(prompt);
        if self.generation == Generation::New {
            self.print(AgentEvent::PromptDropped(prompt));
        }
    }

    pub(super) fn interrupted(
        &mut self,
        id: String,
        request: &Value,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) {
        if self.generation == Generation::New && request["cancel_queued"] == true {
            for prompt in std::mem::take(&mut self.queue) {
                self.drop_prompt(prompt, storage);
            }
        }
        if self.faults.ignores_interrupts {
            if let Some(turn) = &mut self.turn {
                turn.steps += 50;
            }
            return self.print(AgentEvent::RequestAnswered { id, answer: Ok(None) });
        }
        let foreground = self.requests.iter().filter(|(_, background)| !**background);
        for ask in foreground.map(|(ask, _)| ask.clone()).collect::<Vec<_>>() {
            self.requests.remove(&ask);
            self.print(AgentEvent::RequestWithdrawn { id: ask });
        }
        self.unsupported.clear();
        self.print(AgentEvent::RequestAnswered { id, answer: Ok(Some("{}".to_owned())) });
        self.finish(now, random, storage, Some("aborted_streaming"));
    }

    pub(super) fn answered(
        &mut self,
        response: &Value,
        now: u64,
        random: &mut Random,
        storage: &mut AgentStorage,
    ) {
        let id = response["request_id"].as_str().expect("an id");
        // It repeats the answers of the host.
        self.print(AgentEvent::RequestAnswered { id: id.to_owned(), answer: Ok(None) });
        self.unsupported.remove(id);
        if let Some(answers) = self.hooks.get_mut(id) {
            *answers += 1;
            if *answers > 1 {
                self.violation = Some(format!("{id} was answered twice"));
            }
        }
        let asked = self.requests.remove(id);
        if asked == Some(false) && response["response"]["interrupt"] == true {
            let others = self.requests.iter().filter(|(_, background)| !**background);
            for ask in others.map(|(ask, _)| ask.clone()).collect::<Vec<_>>() {
                self.requests.remove(&ask);
                self.print(AgentEvent::RequestWithdrawn { id: ask });
            }
            self.finish(now, random, storage, Some("aborted_tools"));
        }
    }
}

fn uuid_of(value: &Value) -> Uuid {
    value.as_str().and_then(|it| it.parse().ok()).expect("a uuid")
}
