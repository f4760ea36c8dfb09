//! Runs the hooks that sessions ask for before a file changes, and answers the session.
//!
//! The request is stored with the session until it is answered, so nothing is lost with this
//! process: the next one is asked again, and the hook runs once more.

use std::path::PathBuf;
use std::sync::Arc;

use ::watch::{HookSettings, LogLine, PreHook, Selection};
use session::{HookRequest, SessionCommand, Sessions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::sync::watch::Receiver;
use tracing::{debug, warn};

use super::session_log::SessionLogs;

/// Runs hooks until the process ends. It does not end before, because a session that cannot ask
/// for its hooks lets calls go on without them.
pub(super) async fn run(
    mut requests: UnboundedReceiver<HookRequest>,
    sessions: Sessions,
    logs: Arc<SessionLogs>,
    stopping: Receiver<bool>,
) {
    while let Some(request) = requests.recv().await {
        if *stopping.borrow() {
            // The next server runs it.
            continue;
        }
        let (sessions, logs, stopping) = (sessions.clone(), Arc::clone(&logs), stopping.clone());
        tokio::spawn(async move { run_hook(request, &sessions, &logs, &stopping).await });
    }
}

async fn run_hook(
    request: HookRequest,
    sessions: &Sessions,
    logs: &SessionLogs,
    stopping: &Receiver<bool>,
) {
    let HookRequest { session, request, input, directory, config } = request;
    let log = logs.of(session);
    let output = match Selection::new(&config.include, &config.exclude) {
        Ok(selection) => {
            let settings = HookSettings {
                pre: config.hooks.pre.clone(),
                gitbutler: config.hooks.gitbutler.then(|| PathBuf::from("but")),
                ..HookSettings::default()
            };
            let hook = PreHook { settings, selection, project: directory };
            let result = hook.run(&input).await;
            for line in &result.log {
                log.add(line);
            }
            result.output
        }
        Err(error) => {
            log.add(&LogLine::Problem(format!("no hook was run: {error}")));
            None
        }
    };
    if *stopping.borrow() {
        return;
    }
    let answer = SessionCommand::AnswerHook { request, output };
    match sessions.open(session).await {
        Ok(session) => {
            if let Err(error) = session.command(answer).await {
                // The agent may have withdrawn the call, or exited.
                debug!(session = %session.id(), %error, "the answer of a hook was not needed");
            }
        }
        Err(error) => warn!(%session, %error, "the answer of a hook could not be given"),
    }
    if let Err(error) = log.store(sessions.journal(), Vec::new()).await {
        warn!(%session, %error, "the log of a hook could not be stored");
    }
}
