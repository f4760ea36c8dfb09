//! `towpath agents`: the agents that sessions can be driven with.

mod check;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde_json::{Value, json};
use session::{AgentCatalog, AgentProgram, AgentProtocol, AgentSpec, LocatedAgent, UnknownAgent};
use tokio::task::JoinSet;

use crate::exit::{CommandStatus, report_error};
use crate::settings::{AgentArgs, CliSettings, SettingsError};
use check::AgentCheck;

/// How many agents are started at the same time. Those on Node need a core for seconds.
const PARALLEL: usize = 3;

/// List the agents that sessions can be driven with
///
/// Shows which agents are installed, their versions, and how to install or sign in. Choose one with
/// `towpath run --agent NAME`, in the form for a new session of the web page, or with `/new
/// agent=NAME` in Telegram. Your own agents go into the configuration file (see `towpath config`).
#[derive(Args)]
#[command(after_help = "\
Exit codes: 0 listed; 1 with `--check`, an installed agent does not work; 2 could not run.

Examples:
  towpath agents
  towpath agents --check codex gemini         # starts them; no prompt is sent to a model
  towpath agents --json | jq -r '.agents[] | select(.installed).name'")]
pub(crate) struct AgentsArgs {
    /// Names of agents [default: all]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Start each installed agent, and say whether it answers and whether it asks for a sign-in
    #[arg(long)]
    check: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Longest time an agent may take to answer, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
}

#[derive(Debug, thiserror::Error)]
enum AgentsError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Unknown(#[from] UnknownAgent),
    #[error("could not start the async runtime")]
    Runtime(#[source] io::Error),
    #[error("could not write the output")]
    Write(#[source] io::Error),
}

/// An agent and what was found out about it.
pub(crate) struct AgentReport {
    agent: AgentSpec,
    program: Option<LocatedAgent>,
    version: Option<String>,
    check: Option<AgentCheck>,
}

pub(crate) fn run(args: &AgentsArgs) -> CommandStatus {
    match list(args) {
        Ok(status) => status,
        Err(AgentsError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            let hint = match &error {
                AgentsError::Settings(error) => error.hint(),
                _ => None,
            };
            report_error(&error, hint.as_deref());
            CommandStatus::Error
        }
    }
}

fn list(args: &AgentsArgs) -> Result<CommandStatus, AgentsError> {
    let settings = CliSettings::from_environment()?;
    let catalog = catalog(&settings)?;
    let chosen: Vec<AgentSpec> = if args.names.is_empty() {
        catalog.iter().cloned().collect()
    } else {
        let found = args.names.iter().map(|name| catalog.get(name).cloned());
        found.collect::<Result<_, _>>()?
    };
    let limit = Duration::from_secs(args.timeout);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(AgentsError::Runtime)?;
    let reports = runtime.block_on(report(chosen, settings.environment(), limit, args.check));
    runtime.shutdown_background();
    let default = catalog.default_agent().unwrap_or("claude");
    let written = if args.json {
        let agents: Vec<Value> = reports.iter().map(|it| it.to_json(default)).collect();
        writeln!(io::stdout().lock(), "{:#}", json!({ "agents": agents }))
    } else {
        write_table(&reports, default)
    };
    written.map_err(AgentsError::Write)?;
    let works = reports.iter().all(|it| it.check.as_ref().is_none_or(AgentCheck::answers));
    Ok(if works { CommandStatus::Success } else { CommandStatus::Negative })
}

/// All agents, with the programs that this environment chooses for the built-in ones.
pub(crate) fn catalog(settings: &CliSettings) -> Result<AgentCatalog, SettingsError> {
    let towpath = std::env::current_exe().map_err(SettingsError::OwnPath)?;
    let found = settings.find_agent(&AgentArgs::default());
    let unused = AgentProgram { program: "claude".into(), arguments: Vec::new() };
    Ok(settings.agents(&found.unwrap_or(unused), &towpath))
}

/// Finds out about agents, a few at a time, in their order.
pub(crate) async fn report(
    agents: Vec<AgentSpec>,
    environment: &[(OsString, OsString)],
    limit: Duration,
    check: bool,
) -> Vec<AgentReport> {
    let mut waiting = agents.into_iter().enumerate();
    let mut running = JoinSet::new();
    let mut reports = Vec::new();
    loop {
        while running.len() < PARALLEL
            && let Some((number, agent)) = waiting.next()
        {
            let environment = environment.to_vec();
            let report = AgentReport::new(agent, environment, limit, check);
            running.spawn(async move { (number, report.await) });
        }
        match running.join_next().await {
            Some(Ok(report)) => reports.push(report),
            Some(Err(_)) => {}
            None => break,
        }
    }
    reports.sort_by_key(|(number, _)| *number);
    reports.into_iter().map(|(_, report)| report).collect()
}

impl AgentReport {
    async fn new(
        agent: AgentSpec,
        environment: Vec<(OsString, OsString)>,
        limit: Duration,
        check: bool,
    ) -> Self {
        let Ok(program) = agent.locate(&environment) else {
            return Self { agent, program: None, version: None, check: None };
        };
        let version = program.version(&environment, limit.min(Duration::from_secs(20))).await;
        let check = match agent.protocol {
            AgentProtocol::Acp if check => {
                Some(AgentCheck::run(&program, &environment, limit).await)
            }
            AgentProtocol::StreamJson if check => {
                Some(AgentCheck::of_version(version.as_ref().err()))
            }
            _ => None,
        };
        Self { agent, program: Some(program), version: version.ok(), check }
    }

    pub(crate) fn is_installed(&self) -> bool {
        self.program.is_some()
    }

    /// The title, and the version if it is known.
    pub(crate) fn title(&self) -> String {
        match &self.version {
            Some(version) => format!("{} {version}", self.agent.title),
            None => self.agent.title.clone(),
        }
    }

    fn to_json(&self, default: &str) -> Value {
        let agent = &self.agent;
        json!({
            "name": agent.name,
            "title": agent.title,
            "protocol": agent.protocol,
            "command": agent.command,
            "default": agent.name == default,
            "installed": self.is_installed(),
            "program": self.program.as_ref().map(|it| it.program.display().to_string()),
            "version": self.version,
            "install": agent.install,
            "sign_in": agent.sign_in,
            "color": agent.color,
            "check": self.check.as_ref().map(AgentCheck::to_json),
        })
    }
}

fn write_table(reports: &[AgentReport], default: &str) -> io::Result<()> {
    let mut out = anstream::stdout().lock();
    let (good, bad) = (AnsiColor::Green.on_default(), AnsiColor::Red.on_default());
    let (bold, dim) = (Style::new().bold(), Style::new().dimmed());
    let width = |text: fn(&AgentReport) -> usize| reports.iter().map(text).max().unwrap_or(0);
    let (names, titles) = (width(|it| it.agent.name.len()), width(|it| it.agent.title.len()));
    let versions = width(|it| it.version.as_deref().unwrap_or_default().len()).max(9);
    for report in reports {
        let agent = &report.agent;
        let (sign, style) = match (&report.check, report.is_installed()) {
            (Some(check), _) if !check.answers() => ("✘", bad),
            (_, true) => ("✔", good),
            (_, false) => ("–", dim),
        };
        let state = match (report.is_installed(), &report.version) {
            (false, _) => "missing",
            (true, Some(version)) => version,
            (true, None) => "installed",
        };
        let how = match (&report.check, report.is_installed()) {
            (Some(check), _) => check.text(agent),
            (None, true) => agent.sign_in.clone().unwrap_or_default(),
            (None, false) => agent.install.clone().unwrap_or_default(),
        };
        let mark = if agent.name == default { " (default)" } else { "" };
        writeln!(
            out,
            "{style}{sign}{style:#} {bold}{:<names$}{bold:#}  {:<titles$}  {state:<versions$}  \
             {dim}{how}{mark}{dim:#}",
            agent.name, agent.title
        )?;
    }
    Ok(())
}
