//! `towpath schedule`: prompts that are sent later.

use std::io::{self, Write as _};

use anstream::eprintln;
use clap::{Args, Subcommand};
use jiff::tz::TimeZone;
use journal::SessionRecord;
use session::{
    NewSchedule, OpenError, PromptSchedule, SessionLimits, SessionOptions, Sessions,
    UnattendedLimits,
};
use uuid::Uuid;

use crate::exit::{CommandStatus, report_error};
use crate::sessions::{SessionLookupError, find_session, report_unstored, short_id};
use crate::settings::{AgentArgs, AgentLookupError, CliSettings, SettingsError};

/// Send prompts later: once, or again and again
///
/// ID is `last`, or the beginning of a session's id. A server (`towpath serve`) or the session host,
/// which this command starts, sends them. After the computer was restarted nothing runs until one of
/// them is started; a prompt that was missed is then sent once.
#[derive(Args)]
#[command(after_help = "\
Times: `at 2026-11-17 09:00`, `at 09:00`, `in 2h`, `every 30m`, `every day 09:00`, `weekdays 09:00`,
`every monday 09:00`, `tomorrow 09:00`; in the time zone of this terminal, or in that of `--zone`.

Exit codes: 0 done; 2 failed.

Examples:
  towpath schedule add last 'weekdays 09:00' 'look through the new issues'
  towpath schedule add 1f0c 'in 2h' 'run the tests again'
  towpath schedule list
  towpath schedule remove last 5be1")]
pub(crate) struct ScheduleArgs {
    #[command(subcommand)]
    action: ScheduleAction,
}

#[derive(Subcommand)]
enum ScheduleAction {
    /// Have a prompt sent later
    Add {
        /// The session: `last`, or the beginning of its id
        id: String,
        /// When, as `in 2h`, `at 09:00` or `weekdays 09:00`; `towpath schedule --help` has them all
        when: String,
        /// The prompt
        text: String,
        /// The time zone of the times, as `Europe/Berlin` [default: that of this terminal]
        #[arg(long, value_name = "NAME")]
        zone: Option<String>,
        #[command(flatten)]
        agent: AgentArgs,
    },
    /// List the prompts that are sent later
    List {
        /// The session; all if there is none
        id: Option<String>,
        /// Print JSON instead of lines
        #[arg(long)]
        json: bool,
    },
    /// Do not send a prompt after all
    Remove {
        /// The session
        id: String,
        /// The beginning of the schedule's id
        schedule: String,
        #[command(flatten)]
        agent: AgentArgs,
    },
}

#[derive(Debug, thiserror::Error)]
enum ScheduleCommandError {
    #[error("the asynchronous runtime could not be started")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Agent(#[from] AgentLookupError),
    #[error(transparent)]
    Lookup(#[from] SessionLookupError),
    #[error("the journal could not be read")]
    Journal(#[from] journal::Error),
    #[error("the session could not be opened")]
    Open(#[from] OpenError),
    #[error("the prompt could not be scheduled")]
    Session(#[from] session::Error),
    #[error("no schedule of this session matches `{0}`")]
    NotFound(String),
    #[error("could not write the output")]
    Write(#[from] io::Error),
}

impl ScheduleCommandError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Settings(error) => error.hint(),
            Self::Agent(error) => error.hint(),
            Self::Lookup(error) => error.hint(),
            Self::NotFound(_) => Some("`towpath schedule list` lists them".to_owned()),
            _ => None,
        }
    }
}

pub(crate) fn run(options: &ScheduleArgs) -> CommandStatus {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let result = runtime
        .map_err(ScheduleCommandError::Runtime)
        .and_then(|runtime| runtime.block_on(act(&options.action)));
    match result {
        Ok(()) => CommandStatus::Success,
        Err(ScheduleCommandError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

async fn act(action: &ScheduleAction) -> Result<(), ScheduleCommandError> {
    let settings = CliSettings::from_environment()?;
    settings.create_data_directory()?;
    match action {
        ScheduleAction::List { id, json } => list(&settings, id.as_deref(), *json).await,
        ScheduleAction::Add { id, when, text, zone, agent } => {
            let sessions = hosted(&settings, agent)?;
            let record = find_session(sessions.journal(), id).await?;
            let zone = zone.clone().unwrap_or_else(system_zone);
            let by = settings.terminal_user();
            let new = NewSchedule {
                id: Uuid::new_v4(),
                text: text.clone(),
                when: when.clone(),
                zone,
                by,
            };
            let schedule = new.id;
            let result: Result<(), ScheduleCommandError> =
                async { Ok(sessions.open(record.id).await?.schedule(new).await?) }.await;
            let after = sessions.journal().session(record.id).await;
            close(sessions).await;
            result?;
            let all = after?.map(|it| schedules_of(&it)).unwrap_or_default();
            if let Some(schedule) = all.iter().find(|it| it.id == schedule) {
                eprintln!("{}: next {}", schedule.when, schedule.next_text());
            }
            Ok(())
        }
        ScheduleAction::Remove { id, schedule, agent } => {
            let sessions = hosted(&settings, agent)?;
            let record = find_session(sessions.journal(), id).await?;
            let all = schedules_of(&record);
            let prefix = schedule.to_lowercase();
            let mut found = all.iter().filter(|it| it.id.to_string().starts_with(&prefix));
            let (Some(only), None) = (found.next(), found.next()) else {
                return Err(ScheduleCommandError::NotFound(schedule.clone()));
            };
            let by = settings.terminal_user();
            let remove =
                async { Ok(sessions.open(record.id).await?.remove_schedule(only.id, by).await?) };
            let result: Result<(), ScheduleCommandError> = remove.await;
            close(sessions).await;
            result
        }
    }
}

/// Sessions that the session host drives, so that it sends the prompts when this process is gone.
fn hosted(settings: &CliSettings, agent: &AgentArgs) -> Result<Sessions, ScheduleCommandError> {
    let agent = settings.find_default_program(agent, None)?;
    let mut config = settings.session_config(agent, SessionLimits::default())?;
    config.unattended = UnattendedLimits::LONG;
    Ok(Sessions::hosted(config, settings.open_journal()?))
}

async fn close(sessions: Sessions) {
    report_unstored(&sessions.release().await);
    // What was scheduled is stored already.
    let _ = sessions.journal().clone().close().await;
}

async fn list(
    settings: &CliSettings,
    id: Option<&str>,
    json: bool,
) -> Result<(), ScheduleCommandError> {
    let journal = settings.open_journal()?;
    let records = match id {
        Some(id) => vec![find_session(&journal, id).await?],
        None => journal.sessions().await?,
    };
    let all = records.iter().flat_map(|record| {
        schedules_of(record).into_iter().map(move |schedule| (record, schedule))
    });
    let mut all: Vec<(&SessionRecord, PromptSchedule)> = all.collect();
    all.sort_by_key(|(_, schedule)| schedule.next);
    let mut out = io::stdout().lock();
    if json {
        let rows: Vec<serde_json::Value> = all
            .iter()
            .map(|(record, schedule)| {
                serde_json::json!({ "session": record.id.to_string(), "schedule": schedule })
            })
            .collect();
        writeln!(out, "{:#}", serde_json::Value::from(rows))?;
    } else if all.is_empty() {
        eprintln!("nothing is scheduled");
    }
    for (record, schedule) in all.iter().filter(|_| !json) {
        let id: String = schedule.id.to_string().chars().take(8).collect();
        let first = schedule.text.lines().next().unwrap_or_default();
        let text: String = first.chars().take(60).collect();
        let (session, next) = (short_id(record.id), schedule.next_text());
        writeln!(out, "{id}  session {session}  {next}  {}  {text}", schedule.when)?;
    }
    drop(out);
    journal.close().await?;
    Ok(())
}

/// The prompts of a session that are sent later.
pub(crate) fn schedules_of(record: &SessionRecord) -> Vec<PromptSchedule> {
    let options = SessionOptions::from_json(&record.options, record.directory.clone());
    options.map(|it| it.schedules).unwrap_or_default()
}

/// The name of the time zone of this machine, or of `TZ`.
pub(crate) fn system_zone() -> String {
    TimeZone::system().iana_name().unwrap_or("UTC").to_owned()
}
