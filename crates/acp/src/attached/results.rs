//! What became of a client's commands, and the answers to its prompts.

use journal::SessionStatus;
use serde_json::json;
use session::RequestAnswer;
use tracing::warn;
use uuid::Uuid;
use view::wording;
use wire::acp::{
    AcpUpdate, AcpVersion, AgentLine, RpcError, RpcErrorCode, RpcId, SessionActivity, StopReason,
};
use wire::note::{ExitCause, PromptState, TurnEnding};

use super::document::stop_reason;
use super::own_prompts::{EndedPrompt, PromptEnd};
use super::worker::{ChangeReply, PromptPurpose, SessionWork, WorkResult};
use super::{AttachedSession, Detached};

impl AttachedSession {
    pub(super) async fn result(&mut self, result: WorkResult) -> Result<(), Detached> {
        match result {
            WorkResult::Prompt { prompt, purpose: PromptPurpose::Turn(rpc), result } => {
                self.prompt_taken(prompt, &rpc, result).await?;
            }
            WorkResult::Prompt { purpose: PromptPurpose::Steer(rpc), result, .. } => {
                let line = match result {
                    Ok(_) => AgentLine::steered(&rpc, true),
                    Err(error) => AgentLine::error(&rpc, &error),
                };
                self.send(line).await?;
            }
            WorkResult::Answered { request, result } => {
                let is_resolved = |error: &session::Error| {
                    use session::CommandError::{AlreadyResolved, NoSuchRequest};
                    matches!(error, session::Error::Refused(AlreadyResolved(_) | NoSuchRequest))
                };
                if let Err(error) = result
                    && !is_resolved(&error)
                {
                    // Without any answer the agent would wait for a client that thinks it answered.
                    warn!(session = %self.link.id(), %error, "an answer was refused");
                    let message = format!("The answer could not be used: {error}");
                    let answer = RequestAnswer::Deny { message, interrupt: false };
                    if matches!(error, session::Error::Refused(_)) {
                        self.worker.push(SessionWork::Answer { request, answer }).await;
                    }
                }
            }
            WorkResult::Changed { reply, result } => self.changed(reply, result).await?,
            WorkResult::Offers(offers) => {
                self.settings.set_offers(&offers);
                self.send_setup().await?;
            }
        }
        Ok(())
    }

    /// A prompt was queued, or could not be.
    async fn prompt_taken(
        &mut self,
        prompt: Uuid,
        rpc: &RpcId,
        result: Result<PromptState, RpcError>,
    ) -> Result<(), Detached> {
        let state = match result {
            Ok(state) => state,
            Err(error) => {
                self.prompts.remove(prompt);
                return self.send(AgentLine::error(rpc, &error)).await;
            }
        };
        if self.version == AcpVersion::V2 {
            return self.send(AgentLine::prompt_taken(rpc, &prompt.to_string())).await;
        }
        if state.is_final() {
            // The client sent a prompt again that is over already. What happened comes first.
            self.catch_up().await?;
            if self.prompts.contains(prompt) {
                self.prompts.remove(prompt);
                let end = match state {
                    PromptState::Done => PromptEnd::Turn(0, TurnEnding::Completed),
                    PromptState::Cancelled => PromptEnd::Cancelled,
                    _ => PromptEnd::Lost,
                };
                self.answer(EndedPrompt { rpc: Some(rpc.clone()), end }).await;
            }
        }
        Ok(())
    }

    /// Tells the client everything that is in the journal. A new follower reads the file: one that has
    /// caught up may not have noticed yet that another process wrote to it.
    async fn catch_up(&mut self) -> Result<(), Detached> {
        let journal = self.shared.config().sessions.journal();
        self.follower = journal.follow(self.link.id(), self.follower.cursor());
        while let Ok(entries) = self.follower.ready().await
            && !entries.is_empty()
        {
            self.entries(&entries).await?;
        }
        Ok(())
    }

    async fn changed(
        &mut self,
        reply: Option<ChangeReply>,
        result: Result<(), RpcError>,
    ) -> Result<(), Detached> {
        // The note of the change comes before its confirmation.
        self.catch_up().await?;
        let line = match (reply, result) {
            (None, _) => return Ok(()),
            (Some(ChangeReply::Done(rpc) | ChangeReply::Options(rpc)), Err(error)) => {
                AgentLine::error(&rpc, &error)
            }
            (Some(ChangeReply::Done(rpc)), Ok(())) => AgentLine::done(&rpc),
            (Some(ChangeReply::Options(rpc)), Ok(())) => {
                AgentLine::options_changed(&rpc, self.version, &self.setup())
            }
        };
        self.send(line).await
    }

    /// An agent exited. If no other one is started until someone asks for it, the prompts that wait for
    /// it are taken back: their client would wait forever, and they must not run much later.
    pub(super) async fn agent_exited(&mut self, cause: &ExitCause) -> Result<(), Detached> {
        let journal = self.shared.config().sessions.journal();
        let record = journal.session(self.link.id()).await.ok().flatten();
        if self.prompts.is_empty() || record.is_none_or(|it| it.status != SessionStatus::Failed) {
            return Ok(());
        }
        let waiting = self.prompts.waiting();
        let reason = wording::stop_cause(cause);
        self.worker.push(SessionWork::Cancel { prompts: waiting, interrupt: false }).await;
        for prompt in self.prompts.take_all(&PromptEnd::NoAgent(reason.clone())) {
            self.answer(prompt).await;
        }
        let activity = SessionActivity::idle(Some(StopReason::Error(reason)));
        self.update(&AcpUpdate::Activity(activity)).await
    }

    /// Answers a prompt of version 1 that is over.
    pub(super) async fn answer(&self, prompt: EndedPrompt) {
        let EndedPrompt { rpc: Some(rpc), end } = prompt else { return };
        let (stop, usage) = match &end {
            PromptEnd::Cancelled => (StopReason::Cancelled, None),
            PromptEnd::NoAgent(reason) => (StopReason::Error(reason.clone()), None),
            PromptEnd::Lost => {
                let message = "the agent stopped before it answered; it is not known whether it \
                               acted on the prompt";
                (StopReason::Error(message.to_owned()), None)
            }
            PromptEnd::Turn(turn, ending) => {
                let (end, usage) = self.document.turns.get(turn).cloned().unwrap_or_default();
                (stop_reason(ending, end.as_ref()), Some(usage).filter(|it| it.total() > 0))
            }
        };
        let line = match &stop {
            StopReason::Error(message) => {
                let kind = match end {
                    PromptEnd::Turn(_, TurnEnding::Failed { .. }) => "failed",
                    _ => "aborted",
                };
                let error = RpcError::new(RpcErrorCode::Internal, message.clone());
                AgentLine::error(&rpc, &error.with_data(json!({ "ending": kind })))
            }
            stop => AgentLine::prompt_ended(&rpc, stop, usage),
        };
        // A client that is gone does not wait for it.
        let _ = self.send(line).await;
    }
}
