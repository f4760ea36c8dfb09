//! Commands that wait for a shim.

use std::collections::VecDeque;

use journal::SessionId;
use tokio::sync::mpsc;

use crate::prompt_gate::{PromptGate, is_prompt};
use crate::shim::{ShimCommand, ShimCommandSender};

/// Sends commands to a shim without waiting for it: an owner must answer its clients even if its
/// shim is stopped. What can pile up is little, because the machine waits for the agent.
#[derive(Debug)]
pub(super) struct ShimOutbox {
    queue: mpsc::UnboundedSender<ShimCommand>,
}

impl ShimOutbox {
    pub(super) fn new(shim: ShimCommandSender, session: SessionId, gate: PromptGate) -> Self {
        let (queue, commands) = mpsc::unbounded_channel();
        tokio::spawn(pass_on(shim, session, gate, commands));
        Self { queue }
    }

    pub(super) fn send(&self, command: ShimCommand) {
        // The task ends only after this.
        let _ = self.queue.send(command);
    }
}

/// Passes commands on until the owner drops the outbox. A prompt waits for the gate, and so does what is
/// written behind it. What still waits at the end is in the journal, and the next owner sends it.
async fn pass_on(
    shim: ShimCommandSender,
    session: SessionId,
    gate: PromptGate,
    mut commands: mpsc::UnboundedReceiver<ShimCommand>,
) {
    let mut held: VecDeque<ShimCommand> = VecDeque::new();
    loop {
        let command = match held.front() {
            None => commands.recv().await,
            Some(_) => {
                let mut confirmed = match gate.get() {
                    Some(gate) => gate.confirmed(session),
                    None => Box::pin(async { true }),
                };
                loop {
                    tokio::select! {
                        is_confirmed = &mut confirmed => {
                            let command = held.pop_front();
                            if is_confirmed && let Some(command) = command {
                                send(&shim, command).await;
                            }
                            while held.front().is_some_and(|it| !is_prompt(it)) {
                                let Some(command) = held.pop_front() else { break };
                                send(&shim, command).await;
                            }
                            break;
                        }
                        command = commands.recv() => match command {
                            Some(command) if keeps_order(&command) => held.push_back(command),
                            Some(command) => send(&shim, command).await,
                            None => return,
                        },
                    }
                }
                continue;
            }
        };
        match command {
            Some(command) if is_prompt(&command) && gate.get().is_some() => held.push_back(command),
            Some(command) => send(&shim, command).await,
            None => return,
        }
    }
}

/// Whether a command must not overtake a line for the agent.
fn keeps_order(command: &ShimCommand) -> bool {
    matches!(command, ShimCommand::Write { .. } | ShimCommand::CloseStdin)
}

async fn send(shim: &ShimCommandSender, command: ShimCommand) {
    if let Err(error) = shim.send(command).await {
        // A dead shim is noticed when its connection ends.
        tracing::debug!(%error, "a command did not reach the shim");
    }
}
