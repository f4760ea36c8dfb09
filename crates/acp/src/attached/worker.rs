//! Carries out the commands of a client for one session, in their order and without holding up what the
//! client is shown.

use session::{CommandError, NewPrompt, OptionChanges, RequestAnswer, Session};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use uuid::Uuid;
use wire::acp::{RpcError, RpcId};
use wire::note::{Actor, PromptState, QueuePolicy};

use crate::session_link::SessionLink;

/// How many commands may wait. A client that sends more waits.
const QUEUE_LENGTH: usize = 64;

/// A command of a client.
#[derive(Debug)]
pub(crate) enum SessionWork {
    Prompt {
        prompt: NewPrompt,
        /// The request to answer; none if the answer comes when the turn is over.
        purpose: PromptPurpose,
    },
    /// Remove these prompts, and stop the turn if that is wanted or one of them is part of it.
    Cancel {
        prompts: Vec<Uuid>,
        interrupt: bool,
    },
    Answer {
        request: String,
        answer: RequestAnswer,
    },
    Change {
        changes: OptionChanges,
        reply: Option<ChangeReply>,
    },
    /// Stop the agent if it has nothing to do.
    Close,
}

/// What a prompt is for.
#[derive(Clone, Debug)]
pub(crate) enum PromptPurpose {
    Turn(RpcId),
    Steer(RpcId),
}

/// The request to answer when options were changed, and how.
#[derive(Clone, Debug)]
pub(crate) enum ChangeReply {
    /// Without content.
    Done(RpcId),
    /// With all options.
    Options(RpcId),
}

/// The result of a command.
#[derive(Debug)]
pub(crate) enum WorkResult {
    Prompt {
        prompt: Uuid,
        purpose: PromptPurpose,
        result: Result<PromptState, RpcError>,
    },
    Answered {
        request: String,
        result: Result<(), session::Error>,
    },
    Changed {
        reply: Option<ChangeReply>,
        result: Result<(), RpcError>,
    },
    /// The agent's capabilities.
    Offers(String),
}

/// The task's end of the worker. The worker carries out what it has and ends when this is dropped.
#[derive(Debug)]
pub(crate) struct SessionWorker {
    work: mpsc::Sender<SessionWork>,
    task: JoinHandle<()>,
}

impl SessionWorker {
    /// Starts a worker. Its results come through a channel without a limit, so that it never waits for
    /// the one who waits for it.
    pub(crate) fn start(
        link: SessionLink,
        by: Actor,
    ) -> (Self, mpsc::UnboundedReceiver<WorkResult>) {
        let (work, mut queue) = mpsc::channel(QUEUE_LENGTH);
        let (results, received) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            while let Some(work) = queue.recv().await {
                if let Some(result) = perform(&link, &by, work).await {
                    // The client may have gone.
                    let _ = results.send(result);
                }
            }
        });
        (Self { work, task }, received)
    }

    /// Waits until everything is carried out.
    pub(crate) async fn finish(self) {
        drop(self.work);
        let _ = self.task.await;
    }

    pub(crate) async fn push(&self, work: SessionWork) {
        // The worker lives as long as this.
        let _ = self.work.send(work).await;
    }
}

async fn perform(link: &SessionLink, by: &Actor, work: SessionWork) -> Option<WorkResult> {
    match work {
        SessionWork::Prompt { prompt, purpose } => {
            let id = prompt.id;
            let queue = |session: Session| {
                let prompt = prompt.clone();
                async move { session.prompt(prompt).await }
            };
            let queued = link.run(queue).await;
            let result = queued.map_err(|error| rpc_error(&error));
            Some(WorkResult::Prompt { prompt: id, purpose, result })
        }
        SessionWork::Cancel { prompts, mut interrupt } => {
            for prompt in prompts {
                let remove = |session: Session| async move { session.remove_prompt(prompt).await };
                let removed = link.run(remove).await;
                if let Err(session::Error::Refused(CommandError::NotWaiting(state))) = removed {
                    interrupt |= !state.is_final();
                }
            }
            if interrupt {
                let stop = |session: Session| {
                    let by = by.clone();
                    async move { session.interrupt(QueuePolicy::Keep, by).await }
                };
                // There may be no turn any more.
                let _ = link.run(stop).await;
            }
            None
        }
        SessionWork::Answer { request, answer } => {
            let reply = |session: Session| {
                let (request, answer, by) = (request.clone(), answer.clone(), by.clone());
                async move { session.answer(&request, answer, by).await }
            };
            let result = link.run(reply).await;
            Some(WorkResult::Answered { request, result })
        }
        SessionWork::Change { changes, reply } => {
            let change = |session: Session| {
                let (changes, by) = (changes.clone(), by.clone());
                async move { session.change_options(&changes, &by).await }
            };
            let result = link.run(change).await.map_err(|error| rpc_error(&error));
            Some(WorkResult::Changed { reply, result })
        }
        SessionWork::Close => {
            let close = |session: Session| async move { session.close().await };
            // Refused while a turn is running.
            let _ = link.run(close).await;
            None
        }
    }
}

/// Starts the agent, so that it says what it offers.
pub(crate) async fn wake(link: SessionLink) -> Option<String> {
    link.run(|session: Session| async move { session.wake().await }).await.ok().flatten()
}

/// What an agent that was started before offers.
pub(crate) async fn capabilities(link: SessionLink) -> Option<String> {
    link.run(|session: Session| async move { session.capabilities().await }).await.ok().flatten()
}

/// Why a command failed, for a client.
pub(crate) fn rpc_error(error: &session::Error) -> RpcError {
    match error {
        session::Error::Refused(
            CommandError::EmptyPrompt
            | CommandError::Invalid(_)
            | CommandError::InvalidOption(_)
            | CommandError::TooLarge { .. },
        ) => RpcError::invalid_params(error.to_string()),
        _ => RpcError::internal(error.to_string()),
    }
}
