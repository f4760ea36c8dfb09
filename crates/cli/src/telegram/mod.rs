//! `towpath telegram`: the bridge until someone ends it.

mod arguments;
mod choice;

use std::io::{self, Write as _};

use anstream::eprintln;
use serde::Serialize;
use session::{OpenError, Sessions};
use telegram::Bridge;

pub(crate) use arguments::TelegramOptions;
pub(crate) use choice::{BotChoice, NoBot};

use crate::complaint::complain;
use crate::log;
use crate::serve::{self, Demo, ServerLock, StopSignals};
use crate::settings::Settings;
use crate::verdict::Verdict;

/// Runs the command.
pub(crate) fn run(options: &TelegramOptions) -> Verdict {
    log::begin();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ran =
        runtime.map_err(serve::ServeError::Runtime).map_err(Failure::from).and_then(|runtime| {
            let ran = runtime.block_on(carry_out(options));
            // Threads that read for somebody who is gone must not hold up the end.
            runtime.shutdown_background();
            ran
        });
    match ran {
        Ok(()) => Verdict::Done,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Here(#[from] serve::ServeError),
    #[error(transparent)]
    NoBot(#[from] NoBot),
}

impl Failure {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Here(failure) => failure.hint(),
            Self::NoBot(no) => no.hint(),
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        serve::ServeError::from(error).into()
    }
}

#[derive(Serialize)]
struct Ready<'a> {
    bot: &'a str,
    pid: u32,
}

async fn carry_out(options: &TelegramOptions) -> Result<(), Failure> {
    let mut ending = StopSignals::listen().map_err(serve::ServeError::Runtime)?;
    let demo = options.agent.demo.then(Demo::new).transpose().map_err(serve::ServeError::Demo)?;
    let mut settings = Settings::read().map_err(serve::ServeError::from)?;
    if let Some(data) = options.data.clone().or_else(|| demo.as_ref().map(Demo::data)) {
        settings.data = std::path::absolute(&data).unwrap_or(data);
    }
    let roots = serve::roots(&options.roots, demo.as_ref())?;
    let bridge = options.bot.bridge(&settings, roots)?;
    let agent = settings.agent(&options.agent).map_err(serve::ServeError::from)?;
    settings.make_data().map_err(serve::ServeError::from)?;
    let _post = ServerLock::acquire(&settings.data)?;
    if options.bot.allow.is_empty() {
        eprintln!("note: nobody may use the bot; your number is here once you write to it");
    }
    let met = tokio::select! {
        met = Bridge::meet(bridge) => met.map_err(NoBot::from)?,
        _ = ending.stopped() => return Ok(()),
    };
    let journal = settings.journal().map_err(serve::ServeError::from)?;
    let home = serve::home(&settings, agent).map_err(serve::ServeError::from)?;
    let sessions = Sessions::new(home, journal);
    for (id, problem) in sessions.recover().await? {
        eprintln!("note: session {} is left alone: {problem}", crate::sessions::short(id));
    }
    announce(options, met.name()).map_err(serve::ServeError::Announce)?;
    let mut how = serve::StopMode::KeepAgents;
    let shutdown = async { how = ending.stopped().await };
    let ran = met.run(sessions.clone(), shutdown).await;
    let fleeting = demo.is_some() && options.data.is_none();
    serve::release(how, fleeting, &sessions).await;
    Ok(ran.map_err(NoBot::from)?)
}

fn announce(options: &TelegramOptions, name: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    if options.json {
        let ready = Ready { bot: name, pid: std::process::id() };
        let mut line = serde_json::to_vec(&ready)?;
        line.push(b'\n');
        stdout.write_all(&line)?;
    } else {
        writeln!(stdout, "@{name}")?;
    }
    stdout.flush()
}
