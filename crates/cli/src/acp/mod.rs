//! `towpath acp`: an agent for editors, over stdin and stdout.
//!
//! The command is a thin relay that may die at any moment. The sessions go on: the session host drives
//! them, and everything that was said is in the journal.

mod arguments;
mod stdio;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp::{AcpConfig, AcpRole, AgentConnection, LocalOpener, SessionDefaults};
use session::profiles::Profiles;
use session::{Roots, SessionLimits, SessionOptions, Sessions, UnattendedLimits};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;
use tracing::{info, warn};

pub(crate) use arguments::AcpArgs;

use crate::exit::{CommandStatus, report_error};
use crate::sessions::{report_unstored, unread_output_note};
use crate::settings::{AgentLookupError, CliSettings, SettingsError};

/// How long the last lines may take to be written.
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many lines may wait in each direction.
const QUEUE_LENGTH: usize = 64;

#[derive(Debug, thiserror::Error)]
enum AcpError {
    #[error("could not start the runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Agent(#[from] AgentLookupError),
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error("could not use a root directory")]
    Root(#[source] io::Error),
}

impl AcpError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Agent(error) => error.hint(),
            Self::Journal(_) => Some("`towpath doctor` shows what is wrong".to_owned()),
            Self::Runtime(_) | Self::Root(_) => None,
        }
    }
}

pub(crate) fn run(args: &AcpArgs) -> CommandStatus {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = runtime.map_err(AcpError::Runtime).and_then(|runtime| {
        let result = runtime.block_on(serve(args));
        // A read of stdin cannot be cancelled, and must not keep the process.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(()) => CommandStatus::Success,
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

async fn serve(args: &AcpArgs) -> Result<(), AcpError> {
    let mut settings = CliSettings::from_environment()?;
    if let Some(data) = &args.data {
        settings.data_directory = std::path::absolute(data).unwrap_or_else(|_| data.clone());
    }
    let warnings = settings.secure_data_directory()?;
    crate::log::init_with_file(&settings.log_file("acp"));
    for warning in warnings {
        warn!("{warning}");
    }
    let default_agent = args.default_agent();
    let agent = settings.find_default_program(&args.program(), default_agent.name.as_deref())?;
    let journal = settings.open_journal()?;
    let mut config = settings.session_config(agent, SessionLimits::default())?;
    default_agent.apply(&mut config.agents).map_err(AgentLookupError::from)?;
    // The client may be an editor that is restarted.
    config.unattended = UnattendedLimits::LONG;
    // The session host drives them, so that they go on without this process.
    let sessions = Sessions::hosted(config, journal);
    match sessions.collect().await {
        Ok(unread) => {
            for (id, problem) in unread {
                warn!("{}", unread_output_note(id, &problem));
            }
        }
        Err(error) => warn!(%error, "what agents have printed could not be collected"),
    }
    let roots = if args.roots.is_empty() { vec![PathBuf::from("/")] } else { args.roots.clone() };
    let profiles = ProfileDefaults { profiles: sessions.profiles(), profile: args.profile.clone() };
    let config = AcpConfig {
        sessions: sessions.clone(),
        opener: Arc::new(LocalOpener(sessions.clone())),
        roots: Roots::new(&roots).map_err(AcpError::Root)?,
        defaults: Arc::new(profiles),
        user: settings.terminal_user().name,
        role: AcpRole::Admin,
        own_turns_only: args.own_turns_only,
        version: env!("CARGO_PKG_VERSION"),
    };
    info!("a client connected");
    let incoming = stdio::read_lines(QUEUE_LENGTH);
    let (outgoing, writer) = stdio::write_lines(QUEUE_LENGTH);
    let mut terminate = signal(SignalKind::terminate()).map_err(AcpError::Runtime)?;
    let mut hang_up = signal(SignalKind::hangup()).map_err(AcpError::Runtime)?;
    tokio::select! {
        () = AgentConnection::new(config, outgoing).run(incoming) => {
            // The last answers are written, unless the client has closed stdout.
            let _ = timeout(WRITE_TIMEOUT, writer).await;
        }
        _ = terminate.recv() => {}
        _ = hang_up.recv() => {}
    }
    report_unstored(&sessions.release().await);
    sessions.journal().clone().close().await?;
    info!("the client is gone");
    Ok(())
}

/// The options of new sessions from the user's configuration.
struct ProfileDefaults {
    profiles: Profiles,
    profile: Option<String>,
}

impl SessionDefaults for ProfileDefaults {
    fn options(&self, directory: &Path) -> Result<SessionOptions, String> {
        let mut options =
            SessionOptions { directory: directory.to_owned(), ..SessionOptions::default() };
        let profile = self.profiles.select(directory, self.profile.as_deref());
        if let Some(profile) = profile.map_err(|it| it.to_string())? {
            if profile.options.wants_bypass() && self.profile.is_none() {
                let name = profile.name;
                return Err(format!(
                    "the profile `{name}` lets the agent do everything without asking; if you mean \
                     it, start `towpath acp --profile {name}`"
                ));
            }
            profile.options.apply(&mut options).map_err(|it| it.to_string())?;
        }
        Ok(options)
    }
}
