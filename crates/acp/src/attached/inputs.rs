//! What a client does with an opened session.

use serde_json::{Value, json};
use session::{NewPrompt, OptionChanges, OptionSpec};
use tracing::warn;
use uuid::Uuid;
use wire::acp::{AcpVersion, AgentLine, ConfigValue, RpcError, RpcId};
use wire::json::Raw;
use wire::note::Delivery;

use super::asks::AskResult;
use super::own_prompts::PromptEnd;
use super::worker::{ChangeReply, PromptPurpose, SessionWork};
use super::{AttachedSession, Detached, OpenAsk, SessionInput, settings};
use crate::prompt_content::PromptParts;

impl AttachedSession {
    pub(super) async fn input(&mut self, input: SessionInput) -> Result<(), Detached> {
        match input {
            SessionInput::Prompt { rpc, id, content } => {
                self.translator.add_own_prompt(id.to_string());
                let open = (self.version == AcpVersion::V1).then(|| rpc.clone());
                self.prompts.add(id, open);
                self.push_prompt(id, content, Delivery::Queue, PromptPurpose::Turn(rpc)).await;
            }
            SessionInput::Steer { rpc, .. } if self.activity.turn().is_none() => {
                self.send(AgentLine::steered(&rpc, false)).await?;
            }
            SessionInput::Steer { rpc, content } => {
                let id = Uuid::new_v4();
                self.translator.add_own_prompt(id.to_string());
                self.push_prompt(id, content, Delivery::Steer, PromptPurpose::Steer(rpc)).await;
            }
            SessionInput::Cancel => {
                let interrupt = self.prompts.is_empty() || self.prompts.has_started();
                let prompts = self.prompts.waiting();
                self.worker.push(SessionWork::Cancel { prompts, interrupt }).await;
            }
            SessionInput::CancelRequest(rpc) => {
                if let Some(prompt) = self.prompts.of_request(&rpc) {
                    let cancel = SessionWork::Cancel { prompts: vec![prompt], interrupt: false };
                    self.worker.push(cancel).await;
                }
            }
            SessionInput::Answered { ask, result } => self.answered(ask, result).await?,
            SessionInput::SetMode { rpc, mode } => {
                self.change(rpc, "mode", json!(mode), false).await?;
            }
            SessionInput::SetOption { rpc, option, value } => {
                let value = match value {
                    ConfigValue::Id(value) if value == settings::DEFAULT && option != "mode" => {
                        Value::Null
                    }
                    ConfigValue::Id(value) => json!(value),
                    ConfigValue::Boolean(value) => json!(value),
                };
                self.change(rpc, &option, value, true).await?;
            }
            SessionInput::Reopen { opening } => {
                self.open(opening).await?;
                self.learn_offers(false);
            }
            SessionInput::Close { rpc } => {
                let interrupt = self.prompts.has_started();
                let prompts = self.prompts.waiting();
                if interrupt || !prompts.is_empty() {
                    self.worker.push(SessionWork::Cancel { prompts, interrupt }).await;
                } else if self.activity.turn().is_none() {
                    self.worker.push(SessionWork::Close).await;
                }
                for prompt in self.prompts.take_all(&PromptEnd::Cancelled) {
                    self.answer(prompt).await;
                }
                self.send(AgentLine::done(&rpc)).await?;
                return Err(Detached::ClientGone);
            }
        }
        Ok(())
    }

    async fn push_prompt(
        &self,
        id: Uuid,
        content: PromptParts,
        delivery: Delivery,
        purpose: PromptPurpose,
    ) {
        let PromptParts { text, images } = content;
        let by = self.shared.actor();
        let prompt = NewPrompt { id, text, images, delivery, by };
        self.worker.push(SessionWork::Prompt { prompt, purpose }).await;
    }

    /// Changes a setting: one of those that the client was offered.
    async fn change(
        &mut self,
        rpc: RpcId,
        option: &str,
        value: Value,
        wants_options: bool,
    ) -> Result<(), Detached> {
        let offered = self.setup();
        let offered = offered.options.iter().find(|it| it.id == option);
        let is_offered = offered.is_some_and(|it| {
            value.is_null()
                || value.as_str().is_some_and(|word| {
                    // Models have more names than the agent lists.
                    it.id == "model" || it.values.iter().any(|it| it.value == word)
                })
        });
        let spec = OptionSpec::find(option).filter(|_| is_offered);
        let mut changes = OptionChanges::default();
        let checked = match spec {
            None => Err(format!("there is no option `{option}` with the value {value}")),
            Some(spec) => changes.set(spec, value).map_err(|error| error.to_string()),
        };
        if let Err(message) = checked {
            return self.send(AgentLine::error(&rpc, &RpcError::invalid_params(message))).await;
        }
        let rpc = if wants_options { ChangeReply::Options(rpc) } else { ChangeReply::Done(rpc) };
        self.worker.push(SessionWork::Change { changes, reply: Some(rpc) }).await;
        Ok(())
    }

    async fn answered(
        &mut self,
        id: u64,
        result: Result<String, RpcError>,
    ) -> Result<(), Detached> {
        let Some(OpenAsk { request, ask }) = self.asks.remove(&id) else { return Ok(()) };
        let Some(open) = self.document.requests.iter().find(|it| it.id == request) else {
            return Ok(());
        };
        let result = match &result {
            Ok(json) => {
                Raw::parse(json).ok_or_else(|| RpcError::internal("the answer is not JSON"))
            }
            Err(error) => Err(error.clone()),
        };
        match ask.answered(result, open, self.translator.settings()) {
            AskResult::Answer(answer) => {
                // It stays known as asked until the journal says how it was resolved.
                self.opened.remove(&request);
                self.worker.push(SessionWork::Answer { request, answer }).await;
            }
            AskResult::Next(next) => self.send_ask(request, *next).await?,
            AskResult::Leave(reason) => {
                warn!(session = %self.link.id(), %reason, "a client did not answer a request");
                self.opened.remove(&request);
            }
        }
        Ok(())
    }
}
