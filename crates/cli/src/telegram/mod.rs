//! `towpath telegram`: runs the Telegram bridge until it is stopped.

mod bot;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use anstream::eprintln;
use clap::Args;
use serde::Serialize;
use session::{OpenError, Sessions, SessionsConfig, WatchPolicy};
use telegram::Bridge;
use tokio::sync::mpsc::unbounded_channel;

pub(crate) use bot::{TelegramBotArgs, TelegramError};

use crate::exit::CommandStatus;
use crate::exit::report_error;
use crate::host::become_host;
use crate::log;
use crate::serve::{self, Demo, ServerLock, StopSignals, WatchSupervisor};
use crate::settings::{AgentArgs, AgentLookupError, CliSettings, DefaultAgentArgs};

/// How long the work on changed files may take to stop.
const WATCH_TIMEOUT: Duration = Duration::from_secs(4);

/// Use your agents from Telegram
///
/// Runs a Telegram bot. Each chat with it, and each topic of a group, shows one session: your
/// messages are prompts, permission requests are cards with buttons, and the agent's answers are
/// messages. The bot's token comes from `TOWPATH_TELEGRAM_TOKEN`. SIGTERM and Ctrl-C stop the bot and
/// leave running agents alone; the next Towpath server on the same data directory takes them over.
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 stopped; 2 could not start, or could not continue.

Examples:
  export TOWPATH_TELEGRAM_TOKEN=123456789:AAF…         # from @BotFather
  towpath telegram --demo --allow 4711                 # no CLI, no key
  towpath telegram --root ~/src --allow 4711 --allow 4712
  towpath telegram                                     # to find your user id in the log
  towpath serve --telegram --allow 4711                # in the browser and in Telegram")]
pub(crate) struct TelegramArgs {
    /// The data directory [default: `TOWPATH_DATA`]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// A directory below which sessions may work; may be given several times [default: the current
    /// directory]
    #[arg(long = "root", value_name = "DIR")]
    pub(crate) roots: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) bot: TelegramBotArgs,
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    #[command(flatten)]
    pub(crate) default_agent: DefaultAgentArgs,
    /// Let admins give sessions the mode `bypassPermissions`, in which the agent asks for nothing
    #[arg(long)]
    pub(crate) allow_bypass: bool,
    /// Print `{"bot","pid"}` on stdout when ready
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(args: &TelegramArgs) -> CommandStatus {
    log::init();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran = runtime.map_err(serve::ServeError::Runtime);
    let ran = ran.map_err(TelegramCommandError::from).and_then(|runtime| {
        let ran = runtime.block_on(run_bridge(args));
        // Blocked reads of connections that are gone must not delay the exit.
        runtime.shutdown_background();
        ran
    });
    match ran {
        Ok(()) => CommandStatus::Success,
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum TelegramCommandError {
    #[error(transparent)]
    Server(#[from] serve::ServeError),
    #[error(transparent)]
    Telegram(#[from] TelegramError),
}

impl TelegramCommandError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Server(error) => error.hint(),
            Self::Telegram(error) => error.hint(),
        }
    }
}

impl From<OpenError> for TelegramCommandError {
    fn from(error: OpenError) -> Self {
        serve::ServeError::from(error).into()
    }
}

#[derive(Serialize)]
struct TelegramReady<'a> {
    bot: &'a str,
    pid: u32,
}

async fn run_bridge(args: &TelegramArgs) -> Result<(), TelegramCommandError> {
    let mut ending = StopSignals::listen().map_err(serve::ServeError::Runtime)?;
    let demo = args.agent.demo.then(Demo::new).transpose().map_err(serve::ServeError::Demo)?;
    let mut settings = CliSettings::from_environment().map_err(serve::ServeError::from)?;
    if let Some(data) = args.data.clone().or_else(|| demo.as_ref().map(Demo::data)) {
        settings.data_directory = std::path::absolute(&data).unwrap_or(data);
    }
    let roots = serve::roots(&args.roots, demo.as_ref())?;
    let config = args.bot.config(&settings, roots.clone())?;
    let agent = settings.find_default_program(&args.agent, args.default_agent.name.as_deref());
    let agent = agent.map_err(serve::ServeError::from)?;
    settings.create_data_directory().map_err(serve::ServeError::from)?;
    let lock = ServerLock::acquire(&settings.data_directory).await?;
    if args.bot.allow.is_empty() && args.bot.admins.is_empty() {
        eprintln!("note: no user may use the bot yet; write to it to see your user id here");
    }
    let bridge = tokio::select! {
        bridge = Bridge::connect(config) => bridge.map_err(TelegramError::from)?,
        _ = ending.stopped() => return Ok(()),
    };
    let journal = settings.open_journal().map_err(serve::ServeError::from)?;
    let mut home = serve::home(&settings, agent).map_err(serve::ServeError::from)?;
    let chosen = args.default_agent.apply(&mut home.agents).map_err(AgentLookupError::from);
    chosen.map_err(serve::ServeError::from)?;
    let (hooks, hook_requests) = unbounded_channel();
    let watch = WatchPolicy { default: None, hooks: Some(hooks) };
    let home = SessionsConfig { allow_bypass: args.allow_bypass, watch, ..home };
    let sessions = Sessions::new(home, journal);
    let host = become_host(&settings, &sessions).await;
    for (id, problem) in sessions.recover().await? {
        eprintln!("note: skipped session {}: {problem}", crate::sessions::short_id(id));
    }
    announce(args, bridge.bot_name()).map_err(serve::ServeError::Announce)?;
    // `/commit` and the settings of a server that used the same data apply here too.
    let watch_supervisor = WatchSupervisor::start(sessions.clone(), hook_requests, roots);
    let mut how = serve::StopMode::KeepAgents;
    let shutdown = async { how = ending.stopped().await };
    let ran = bridge.run(sessions.clone(), shutdown).await;
    drop(host);
    // The next server continues what was not finished in time.
    let _ = tokio::time::timeout(WATCH_TIMEOUT, watch_supervisor.stop()).await;
    let temporary = demo.is_some() && args.data.is_none();
    serve::release(how, temporary, &sessions, &lock).await;
    Ok(ran.map_err(TelegramError::from)?)
}

fn announce(args: &TelegramArgs, name: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if args.json {
        let ready = TelegramReady { bot: name, pid: std::process::id() };
        let mut line = serde_json::to_vec(&ready)?;
        line.push(b'\n');
        stdout.write_all(&line)?;
    } else {
        writeln!(stdout, "@{name}")?;
    }
    stdout.flush()
}
