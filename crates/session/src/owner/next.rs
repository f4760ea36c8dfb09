//! Waiting for what happens to an owner next. What is not there is waited for without end.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::time::Duration;

use journal::Seq;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::{LeftoversTask, OwnerCommand, OwnerError, OwnerInput, WriteTask};
use crate::machine::AgentExit;
use crate::shim::{ShimConnection, ShimEvent};

/// How much of a dead agent's output is read at once.
const CHUNK: usize = 256 << 10;

pub(super) async fn next_command(
    backlog: &mut VecDeque<OwnerCommand>,
    commands: &mut mpsc::Receiver<OwnerCommand>,
) -> Option<OwnerCommand> {
    match backlog.pop_front() {
        Some(command) => Some(command),
        None => commands.recv().await,
    }
}

pub(super) async fn next_write(writing: &mut Option<WriteTask>) -> Result<Seq, journal::Error> {
    let Some(task) = writing else { return std::future::pending().await };
    let result = task.await;
    *writing = None;
    result
}

pub(super) async fn next_event(connection: &mut Option<ShimConnection>) -> Option<ShimEvent> {
    match connection {
        Some(connection) => connection.next().await,
        None => std::future::pending().await,
    }
}

/// The result of a task. A panic in it continues here: it ends this session and no other.
pub(super) async fn next_result<T>(task: &mut Option<JoinHandle<T>>) -> T {
    let Some(running) = task else { return std::future::pending().await };
    let result = running.await;
    *task = None;
    match result {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only its owner aborts a task, and does not wait for it here.
            Err(_) => std::future::pending().await,
        },
    }
}

pub(super) async fn next_leftover(
    leftovers: &mut Option<LeftoversTask>,
) -> Result<OwnerInput, OwnerError> {
    loop {
        match leftovers {
            None => return std::future::pending().await,
            Some(LeftoversTask::Opening(task)) => {
                let opened = task.await.map_err(io::Error::other)??;
                let offset = opened.start;
                *leftovers = Some(LeftoversTask::Reading { leftovers: opened, offset });
            }
            Some(LeftoversTask::Reading { leftovers: reader, offset }) => {
                let mut bytes = vec![0; CHUNK];
                let read = reader.read(&mut bytes)?;
                if read > 0 {
                    bytes.truncate(read);
                    let at = *offset;
                    *offset += read as u64;
                    return Ok(OwnerInput::Leftover { offset: at, bytes });
                }
                let exit = reader.exit.map(|exit| AgentExit::of(exit, &reader.stderr));
                *leftovers = None;
                return Ok(OwnerInput::LeftoversEnd(exit.unwrap_or(AgentExit::Unknown)));
            }
        }
    }
}

pub(super) async fn sleep(pause: Option<u64>) {
    match pause {
        Some(millis) => tokio::time::sleep(Duration::from_millis(millis)).await,
        None => std::future::pending().await,
    }
}
