//! The agent's process: its start, and what is known of its end.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, Instant};

use journal::SpoolMark;
use tracing::{info, warn};
use uuid::Uuid;

use super::{Owner, OwnerError};
use crate::machine::{Gone, Input, Start};
use crate::options::Conversation;
use crate::shim::{
    self, AttachError, Exit, Greeting, Link, Marker, News, Order, Plan, Refusal, Run, Signal,
    StartError,
};

/// How long a shim that lives may take until it can be called, and how often that is tried.
const STARTING_PATIENCE: Duration = Duration::from_secs(10);
const STARTING_PAUSE: Duration = Duration::from_millis(20);

/// How long what is ended by force may take to be gone.
const FORCE_PATIENCE: Duration = Duration::from_secs(10);

/// How much of a dead agent's output is read at once.
const CHUNK: usize = 256 << 10;

impl Owner {
    /// Begins a new process. Which one it is, is written down first: whoever comes after a crash
    /// must know whose output there may be.
    pub(super) async fn start(&mut self, start: Start) {
        let conversation = self.choose_conversation(start);
        self.run += 1;
        self.offset = 0;
        self.writes = 0;
        self.draft.run_begins();
        let (batch, _, _) = self.draft.finish(super::now(), self.mark(), 0);
        if let Err(error) = self.journal.write(self.id, batch).await {
            let message = error.to_string();
            self.starting = Some(tokio::spawn(async move { Err(message) }));
            return;
        }
        let plan = self.plan(&conversation);
        let towpath = self.home.towpath.clone();
        info!(session = %self.id, run = self.run, "starting an agent");
        self.starting = Some(tokio::spawn(async move {
            let mut started = shim::start(&towpath, &plan).await;
            if let Err(StartError::Refused(Refusal::Occupied { .. })) = started {
                // A Towpath that was killed as it started an agent did not live to hear of it.
                attach(&plan.directory, plan.run, 0).await.map_err(|error| with_causes(&error))?;
                started = shim::start(&towpath, &plan).await;
            }
            started.map_err(|error| with_causes(&error))?;
            // Where there is none, the agent has ended at once and taken its shim with it.
            let attached = attach(&plan.directory, plan.run, 0).await;
            let attached = attached.map_err(|error| with_causes(&error))?;
            Ok(attached.map(|(_, link)| link))
        }));
    }

    pub(super) fn mark(&self) -> SpoolMark {
        SpoolMark { run: self.run, offset: self.offset }
    }

    fn choose_conversation(&self, start: Start) -> Conversation {
        let own = self.id.to_string();
        let last = self.conversations.last().cloned();
        match start {
            Start::Resume if self.run == 0 && self.machine.options().fork => {
                Conversation::Forked(last.unwrap_or(own))
            }
            Start::Resume => Conversation::Resumed(last.unwrap_or(own)),
            // The CLI refuses an id it has seen, even if nothing came of it.
            Start::Fresh if self.run == 0 => Conversation::New(own),
            Start::Fresh => Conversation::New(Uuid::new_v4().to_string()),
        }
    }

    fn plan(&self, conversation: &Conversation) -> Plan {
        let options = self.machine.options();
        let mut arguments = self.home.agent.arguments.clone();
        arguments.extend(options.arguments(conversation));
        let mut environment = self.home.environment.clone();
        let own = options.environment().map(|(name, value)| (name.into(), value.into()));
        environment.extend(own);
        let directory = self.home.live_directory(self.id);
        let name = self.id.0.simple().to_string();
        Plan {
            program: self.home.agent.program.clone(),
            arguments,
            environment,
            working_directory: options.directory.clone(),
            socket: shim::socket_path(&directory, &self.home.runtime, &name),
            directory,
            run: Run(self.run),
            marker: Marker::random(),
            grace: self.home.alone.idle,
            ask_grace: self.home.alone.asking,
            unowned_limit: self.home.alone.at_all,
        }
    }

    pub(super) async fn started(
        &mut self,
        started: Result<Option<Link>, String>,
    ) -> Result<(), OwnerError> {
        match started {
            Ok(Some(link)) => {
                self.orders = Some(link.orders());
                self.link = Some(link);
                self.step(Input::AgentStarted).await
            }
            Ok(None) => {
                self.step(Input::AgentStarted).await?;
                let gone = self.read_remains().await?;
                self.agent_gone(gone).await
            }
            Err(message) => self.agent_gone(Gone::NotStarted(message)).await,
        }
    }

    /// Takes in what an agent printed that is gone with its shim, and says how it went.
    pub(super) async fn read_remains(&mut self) -> Result<Gone, OwnerError> {
        let directory = self.home.live_directory(self.id);
        let (run, from) = (Run(self.run), self.offset);
        let swept = {
            let directory = directory.clone();
            tokio::task::spawn_blocking(move || shim::sweep(&directory)).await
        };
        if let Ok(Ok(swept)) = swept
            && swept.ended > 0
        {
            warn!(session = %self.id, ended = swept.ended, "ended what a dead shim left running");
        }
        let mut remains = shim::remains(&directory, run, from)?;
        // What was half read before is read again from the last whole line on.
        self.splitter = wire::Splitter::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let read = remains.read(&mut chunk)?;
            if read == 0 {
                break;
            }
            self.output(&chunk[..read]).await?;
        }
        self.rest_of_the_output();
        Ok(remains.exit.map_or(Gone::Lost, |exit| gone(exit, &remains.stderr)))
    }

    /// What a process complained of last. An owner that came too late to hear it reads it.
    pub(super) fn last_complaints(&self) -> Vec<u8> {
        if !self.stderr.is_empty() {
            return self.stderr.clone();
        }
        let remains = shim::remains(&self.home.live_directory(self.id), Run(self.run), self.offset);
        remains.map(|remains| remains.stderr).unwrap_or_default()
    }

    /// Removes what a process left, now that all of it is in the journal.
    pub(super) async fn forget(&self, run: u64) {
        let directory = self.home.live_directory(self.id);
        let forget = move || shim::forget(&directory, Run(run));
        let forgotten = tokio::task::spawn_blocking(forget).await;
        if let Ok(Err(error)) = forgotten {
            warn!(session = %self.id, %error, "could not remove what the agent left");
        }
    }
}

/// Attaches to the shim of a run, if it lives. One of another run that lives in its place is a stray,
/// which nobody knows of: it is ended.
pub(super) async fn attach(
    directory: &Path,
    run: Run,
    from: u64,
) -> Result<Option<(Greeting, Link)>, AttachError> {
    let deadline = Instant::now() + STARTING_PATIENCE;
    let (greeting, link) = loop {
        match Link::attach(directory, from).await {
            Ok(attached) => break attached,
            // One that is only starting cannot be called yet.
            Err(AttachError::Nobody) if shim::lives(directory) && Instant::now() < deadline => {
                tokio::time::sleep(STARTING_PAUSE).await;
            }
            Err(AttachError::Nobody) => return Ok(None),
            Err(error) => return Err(error),
        }
    };
    if greeting.run.is_none_or(|other| other == run) {
        return Ok(Some((greeting, link)));
    }
    warn!(stray = ?greeting.run, %run, "a shim of another run lives here; it is ended");
    end(link).await;
    if let Some(stray) = greeting.run {
        let directory = directory.to_owned();
        // What it leaves is of no use to anybody; if it cannot be removed, so be it.
        let _ = tokio::task::spawn_blocking(move || shim::forget(&directory, stray)).await;
    }
    Ok(None)
}

/// Ends whatever lives in the live directory of a session that nobody drives: its shim with its agent,
/// or what a dead shim left.
pub(crate) async fn end_all(directory: &Path) -> Result<(), AttachError> {
    match Link::attach(directory, 0).await {
        Ok((_, link)) => end(link).await,
        Err(AttachError::Nobody) => {
            let directory = directory.to_owned();
            // What could not be swept is said by whoever looks next.
            let _ = tokio::task::spawn_blocking(move || shim::sweep(&directory)).await;
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Ends a shim's agent by force, and waits until it is gone.
pub(super) async fn end(mut link: Link) {
    let _ = link.order(Order::Signal(Signal::Kill)).await;
    let ended = async { while !matches!(link.next().await, Some(News::Exited { .. }) | None) {} };
    let _ = tokio::time::timeout(FORCE_PATIENCE, ended).await;
    link.close().await;
}

/// How an agent went, from its exit and its last complaints.
pub(super) fn gone(exit: Exit, stderr: &[u8]) -> Gone {
    match exit {
        Exit::Code(code) => {
            let stderr = String::from_utf8_lossy(stderr).trim().to_owned();
            Gone::Exited { code, stderr }
        }
        Exit::Signal(signal) => Gone::Killed(signal),
        Exit::Unknown => Gone::Lost,
    }
}

/// An error with its causes, on one line.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
