//! Commands that wait for a shim.

use std::collections::VecDeque;

use journal::SessionId;
use tokio::sync::mpsc;

use crate::prompt_gate::{GateFuture, PromptGate, is_prompt};
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
    while let Some(command) = commands.recv().await {
        match gate.get() {
            Some(confirmation) if is_prompt(&command) => {
                let mut held = VecDeque::from([command]);
                while !held.is_empty() {
                    let confirmed = confirmation.confirmed(session);
                    if pass_one(&shim, confirmed, &mut held, &mut commands).await.is_err() {
                        return;
                    }
                }
            }
            _ => send(&shim, command).await,
        }
    }
}

/// The owner has dropped the outbox.
struct Dropped;

/// Passes the held prompt on when it is confirmed, with the lines up to the next prompt. What comes meanwhile
/// and must not overtake them is held too.
async fn pass_one(
    shim: &ShimCommandSender,
    mut confirmed: GateFuture<'_>,
    held: &mut VecDeque<ShimCommand>,
    commands: &mut mpsc::UnboundedReceiver<ShimCommand>,
) -> Result<(), Dropped> {
    let is_confirmed = loop {
        tokio::select! {
            is_confirmed = &mut confirmed => break is_confirmed,
            command = commands.recv() => match command.ok_or(Dropped)? {
                command if keeps_order(&command) => held.push_back(command),
                command => send(shim, command).await,
            },
        }
    };
    let prompt = held.pop_front();
    if is_confirmed && let Some(prompt) = prompt {
        send(shim, prompt).await;
    }
    while let Some(command) = held.pop_front_if(|it| !is_prompt(it)) {
        send(shim, command).await;
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use journal::SessionId;
    use tokio::sync::{mpsc, watch};
    use uuid::Uuid;
    use wire::outgoing::OutgoingPrompt;

    use super::ShimOutbox;
    use crate::prompt_gate::{GateFuture, PromptConfirmation, PromptGate};
    use crate::shim::{ShimCommand, ShimCommandSender};

    /// Confirms when it is told to; `None` is not yet.
    #[derive(Debug)]
    struct TestGate(watch::Receiver<Option<bool>>);

    impl PromptConfirmation for TestGate {
        fn confirmed(&self, _: SessionId) -> GateFuture<'_> {
            let mut answer = self.0.clone();
            Box::pin(async move {
                answer.wait_for(Option::is_some).await.is_ok_and(|it| *it == Some(true))
            })
        }
    }

    fn write(number: u64, bytes: Vec<u8>) -> ShimCommand {
        ShimCommand::Write { number, bytes }
    }

    fn prompt() -> Vec<u8> {
        OutgoingPrompt::text(Uuid::from_u128(1), "do it").unwrap().to_line().into_bytes()
    }

    #[tokio::test]
    async fn a_prompt_waits_for_the_gate_and_only_lines_behind_it_wait_too() {
        for confirms in [true, false] {
            let (answer, answers) = watch::channel(None);
            let gate = PromptGate::default();
            gate.set(Arc::new(TestGate(answers)));
            let (queue, mut sent) = mpsc::channel(16);
            let session = SessionId(Uuid::from_u128(7));
            let outbox = ShimOutbox::new(ShimCommandSender::of(queue), session, gate);
            let reply = br#"{"type":"control_response","response":{}}"#.to_vec();
            outbox.send(write(1, reply.clone()));
            outbox.send(write(2, prompt()));
            outbox.send(write(3, reply.clone()));
            outbox.send(ShimCommand::Ping(9));
            assert_eq!(sent.recv().await, Some(write(1, reply.clone())));
            assert_eq!(sent.recv().await, Some(ShimCommand::Ping(9)), "it overtakes the prompt");
            answer.send(Some(confirms)).unwrap();
            if confirms {
                assert_eq!(sent.recv().await, Some(write(2, prompt())));
            }
            assert_eq!(sent.recv().await, Some(write(3, reply)));
        }
    }

    #[test]
    fn lines_that_give_the_agent_a_prompt_are_known() {
        let acp = br#"{"jsonrpc":"2.0","id":"prompt-7","method":"session/prompt","params":{}}"#;
        let is_prompt = |bytes: &[u8]| crate::prompt_gate::is_prompt(&write(1, bytes.to_vec()));
        assert!(is_prompt(&prompt()) && is_prompt(acp));
        assert!(!is_prompt(
            br#"{"type":"control_request","request":{"text":"\"type\":\"user\""}}"#
        ));
    }
}
