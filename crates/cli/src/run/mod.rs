//! `towpath run`: one session in the terminal, over the same journal as every other client.
//!
//! This process drives the session, and what it shows is read back from the journal. With a user at a
//! terminal there is a [`TerminalSession`]; otherwise one turn is written to a pipe.

mod arguments;
mod draft;
mod editor;
mod footer;
mod key_parser;
mod keyboard;
mod pipe;
mod preferences;
mod profile;
mod progress;
mod request_lines;
mod request_prompt;
mod selection;
mod terminal_session;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use journal::{Origin, Seq, SessionRecord, SessionStatus};
use session::{AgentProtocol, OpenError, Session, SessionLimits, SessionOptions, Sessions};
use view::terminal::ColourMode;
use view::wording;
use wire::note::{Actor, Delivery, Note};

use arguments::RequestPolicy;
pub(crate) use arguments::RunArgs;
use draft::{PromptReadError, RunPromptDraft};
use keyboard::Keyboard;
use pipe::{EntryPrinter, JsonLinePrinter, PipeRun, TextPrinter};
use preferences::RunPreferences;
use progress::{FollowEnd, RunProgress, RunSignal, RunSignals};
use selection::{SelectedSession, SessionSelectionError};
use terminal_session::{TerminalSession, TerminalSessionOptions};

use crate::exit::{CommandStatus, print_note, report_error};
use crate::sessions::{report_unstored, short_id, unread_output_note};
use crate::settings::{AgentLookupError, CliSettings, SettingsError};

/// How long to wait for an idle agent to stop at the end of a run.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a run may take to leave after SIGTERM or SIGHUP. It takes longer only if no process reads what
/// it writes: a stopped terminal, or a full pipe.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(10);

/// The exit code of a process that SIGTERM ended, as in shells.
const EXIT_TERMINATED: i32 = 128 + 15;

/// Columns of the log that goes to a pipe.
const LOG_WIDTH: usize = 100;

const DIM: anstyle::Style = anstyle::Style::new().dimmed();

#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error("could not start the runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Agent(#[from] AgentLookupError),
    #[error(transparent)]
    PromptRead(#[from] PromptReadError),
    #[error("no prompt was given")]
    NoPrompt,
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Selection(#[from] SessionSelectionError),
    #[error("the session rejected the command")]
    Session(#[from] session::Error),
    #[error("the session stopped unexpectedly")]
    SessionStopped,
    #[error("could not read the keyboard")]
    Keyboard(#[source] io::Error),
    #[error("could not write the output")]
    Write(#[source] io::Error),
    #[error("{0}")]
    NotStarted(String),
    #[error("the prompt waits in the queue: {question}")]
    BudgetSpent { question: String, session: String },
}

impl RunError {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Settings(error) => return error.hint(),
            Self::Agent(error) => return error.hint(),
            Self::Selection(error) => return error.hint(),
            Self::NoPrompt => "give a prompt: `towpath run 'fix the tests'`, or pipe one in",
            Self::BudgetSpent { session, .. } => {
                return Some(format!(
                    "a higher budget sends it: `towpath run --resume {session} --budget 10`; \
                     *Go on* in the page does too"
                ));
            }
            Self::PromptRead(error) => return error.hint().map(str::to_owned),
            Self::Journal(_) | Self::NotStarted(_) | Self::SessionStopped => {
                "`towpath doctor` shows what is wrong"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

pub(crate) fn run(options: &RunArgs) -> CommandStatus {
    // The session is driven on a thread of its own, so a slow terminal or pipe delays what is shown,
    // not what is recorded.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let result = runtime.map_err(RunError::Runtime).and_then(|it| it.block_on(drive(options)));
    match result {
        Ok(status) => status,
        // The reader of our output closed the pipe. The agent finishes its turn alone.
        Err(RunError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => {
            CommandStatus::Success
        }
        Err(error) => {
            report_error(&error, error.hint().as_deref());
            CommandStatus::Error
        }
    }
}

async fn drive(options: &RunArgs) -> Result<CommandStatus, RunError> {
    let settings = CliSettings::from_environment()?;
    let agent = settings.find_default_program(&options.agent, options.options.agent())?;
    let at_terminal = !options.json && Keyboard::is_available();
    let interactive = at_terminal && !options.once && io::stdin().is_terminal();
    let draft = RunPromptDraft::from_arguments(options.prompt.as_deref(), &options.image)?;
    let continues = options.resumed_session().is_some() || options.continue_from.is_some();
    if draft.is_none() && !continues && !interactive {
        return Err(RunError::NoPrompt);
    }
    settings.create_data_directory()?;
    let journal = settings.open_journal()?;
    let mut limits = SessionLimits::default();
    if !interactive {
        // A run of one turn should fail soon rather than restart the agent again and again.
        limits.restarts = 1;
    }
    let sessions = Sessions::new(settings.session_config(agent, limits)?, journal);
    for (id, problem) in sessions.collect().await.map_err(SessionSelectionError::Open)? {
        print_note(format_args!("{}", unread_output_note(id, &problem)));
    }
    let by = settings.terminal_user();
    let SelectedSession { session, record, note, summary } =
        selection::select_session(options, &sessions, &by).await?;
    let draft = match summary {
        Some(summary) => Some(RunPromptDraft::with_summary(draft, &summary)),
        None => draft,
    };
    if let Some(note) = note {
        print_note(format_args!("{DIM}{note}{DIM:#}"));
    }
    let is_working = matches!(record.status, SessionStatus::Running | SessionStatus::Waiting);
    if draft.is_none() && !interactive && !is_working {
        return Err(RunError::NoPrompt);
    }
    let first_turn = if draft.is_some() { record.turn + 1 } else { record.turn };
    let prompt = draft.map(|it| it.into_prompt(Delivery::Queue, by.clone()));
    let mut progress = RunProgress::new(prompt.as_ref().map(|prompt| prompt.id));
    if let Some(prompt) = prompt
        && let Err(error) = session.prompt(prompt).await
    {
        close(&sessions, &session, None, false).await?;
        return Err(error.into());
    }
    exit_if_stuck().map_err(RunError::Runtime)?;
    let end = if at_terminal {
        if interactive {
            let directory = settings.abbreviate_path(&record.directory);
            print_note(format_args!(
                "{DIM}towpath · {directory} · session {}{DIM:#}",
                short_id(session.id())
            ));
        }
        let terminal_options = TerminalSessionOptions {
            by,
            directory: record.directory.clone(),
            interactive,
            is_acp: is_acp(&sessions, &record),
            preferences: RunPreferences::load(&settings.data_directory),
            deny_requests: options.ask == Some(RequestPolicy::Deny),
            history: earlier_prompts(&sessions, &session).await?,
        };
        let mut terminal = TerminalSession::new(&sessions, &session, terminal_options);
        terminal.run(record.last, first_turn, &mut progress).await
    } else {
        follow_to_pipe(options, &sessions, &session, record.last, by, &mut progress).await
    };
    close(&sessions, &session, end.as_ref().ok().copied(), interactive).await?;
    end?;
    if let Some(question) = progress.budget_question() {
        let (question, session) = (question.to_owned(), short_id(session.id()));
        return Err(RunError::BudgetSpent { question, session });
    }
    if let Some(cause) = progress.start_failure() {
        return Err(RunError::NotStarted(wording::stop_cause(cause)));
    }
    Ok(progress.exit_status())
}

/// Whether the agent of the session is driven over the Agent Client Protocol.
fn is_acp(sessions: &Sessions, record: &SessionRecord) -> bool {
    let options = SessionOptions::from_json(&record.options, record.directory.clone());
    let agent = options.ok().and_then(|it| it.agent);
    let agent = agent.and_then(|name| sessions.config().agents.find(&name));
    agent.is_some_and(|it| it.protocol == AgentProtocol::Acp)
}

/// Ends the process if a signal asked it to leave and it cannot, because a write does not return. The
/// session is continued like that of a killed process.
fn exit_if_stuck() -> io::Result<()> {
    let mut signals = RunSignals::new()?;
    tokio::spawn(async move {
        while signals.next().await != RunSignal::Terminate {}
        tokio::time::sleep(LEAVE_TIMEOUT).await;
        Keyboard::restore_modes();
        std::process::exit(EXIT_TERMINATED);
    });
    Ok(())
}

/// Prints one turn to a pipe.
async fn follow_to_pipe(
    options: &RunArgs,
    sessions: &Sessions,
    session: &Session,
    from: Seq,
    by: Actor,
    progress: &mut RunProgress,
) -> Result<FollowEnd, RunError> {
    let requests = options.ask.unwrap_or(RequestPolicy::Deny);
    let pipe = PipeRun { sessions, session, from, requests, by };
    let mut printer: Box<dyn EntryPrinter> = if options.json {
        Box::new(JsonLinePrinter(io::BufWriter::new(io::stdout())))
    } else {
        let colours = match anstream::AutoStream::choice(&io::stderr()) {
            anstream::ColorChoice::Never => ColourMode::Off,
            _ => ColourMode::On,
        };
        Box::new(TextPrinter::new(io::stdout(), io::stderr(), colours, LOG_WIDTH))
    };
    pipe.follow(progress, &mut *printer).await
}

/// The earlier prompts of the session, oldest first.
async fn earlier_prompts(sessions: &Sessions, session: &Session) -> Result<Vec<String>, RunError> {
    let mut prompts = sessions.journal().prompts(session.id()).await?;
    prompts.sort_by_key(|prompt| prompt.created);
    Ok(prompts.into_iter().map(|prompt| prompt.text).collect())
}

/// Releases the session. An agent that works is left to finish its turn; an idle one is stopped, and
/// its session is deleted if it is set so.
async fn close(
    sessions: &Sessions,
    session: &Session,
    end: Option<FollowEnd>,
    interactive: bool,
) -> Result<(), RunError> {
    let id = session.id();
    let record = sessions.journal().session(id).await?;
    let status = record.as_ref().map(|record| record.status);
    let is_working = matches!(status, Some(SessionStatus::Running | SessionStatus::Waiting));
    let deletes = !is_working
        && record.as_ref().is_some_and(|it| {
            let options = SessionOptions::from_json(&it.options, it.directory.clone());
            options.is_ok_and(|it| it.delete_when_ended)
        });
    let mut follower = session.follow(record.map(|record| record.last).unwrap_or_default());
    let is_remote = sessions.is_remote(id);
    // The agent of a session that a server drives waits there for its next prompt.
    if !is_working && !is_remote && session.close().await.is_ok() {
        let stopped = async {
            while let Ok(entries) = follower.next().await {
                let notes = entries.iter().filter(|entry| entry.origin == Origin::Towpath);
                let mut notes = notes.filter_map(|entry| Note::read(&entry.bytes));
                if notes.any(|note| matches!(note, Note::AgentExited { .. })) {
                    return;
                }
            }
        };
        if !matches!(status, Some(SessionStatus::Dead | SessionStatus::Failed)) {
            // After the timeout the agent stops without us, and the next command reads the rest of
            // its output.
            let _ = tokio::time::timeout(STOP_TIMEOUT, stopped).await;
        }
    }
    if deletes {
        match sessions.delete(id).await {
            // The session may have noticed by itself that it has ended.
            Ok(()) | Err(OpenError::NoSuchSession(_)) => {}
            Err(error) => return Err(SessionSelectionError::Open(error).into()),
        }
    }
    report_unstored(&sessions.release().await);
    sessions.journal().clone().close().await?;
    let resume = format!("towpath run --resume {}", short_id(id));
    if deletes {
        if interactive {
            print_note(format_args!("{DIM}the session was deleted{DIM:#}"));
        }
    } else if is_working {
        print_note(format_args!(
            "{DIM}the agent finishes its turn alone; continue with `{resume}`{DIM:#}"
        ));
    } else if interactive || end == Some(FollowEnd::Detached) {
        print_note(format_args!("{DIM}session saved; continue with `{resume}`{DIM:#}"));
    }
    Ok(())
}
