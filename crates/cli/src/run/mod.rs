//! `towpath run`: one session in the terminal, over the same journal as everything else.
//!
//! The session is driven by this process, and what is shown is read back from the journal. Where
//! somebody sits at a terminal there is a [`Stage`]; otherwise one turn is told to a pipe.

mod arguments;
mod asking;
mod choice;
mod composer;
mod course;
mod keyboard;
mod permit;
mod plain;
mod stage;
mod telling;
mod wording;

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use anstream::eprintln;
use journal::{Origin, Seq, Status};
use session::machine::Limits;
use session::{Session, Sessions};
use view::phrase;
use view::terminal::Colours;
use wire::note::{Actor, Delivery, Note};

use arguments::Ask;
pub(crate) use arguments::RunOptions;
use choice::{Chosen, Unchosen};
use course::Course;
use keyboard::Keyboard;
use plain::Plain;
use stage::{Opening, Stage};
use telling::{Over, Raw, Telling, Told};
use wording::{Unworded, Wording};

use crate::complaint::complain;
use crate::sessions::short;
use crate::settings::{NoAgent, NoHome, Settings};
use crate::verdict::Verdict;

/// How long an agent may take to end when there is nothing more to do.
const ENDING: Duration = Duration::from_secs(5);

/// Columns of talk that goes to no terminal.
const TALK_WIDTH: usize = 100;

/// Runs the command.
pub(crate) fn run(options: &RunOptions) -> Verdict {
    // The session is driven on a thread of its own: a terminal or a pipe that takes nothing for a
    // while holds up what is shown, not what is written down.
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let ran = runtime.map_err(Failure::Runtime).and_then(|it| it.block_on(drive(options)));
    match ran {
        Ok(verdict) => verdict,
        // Whoever reads our output has seen enough; the agent finishes alone.
        Err(Failure::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(failure) => {
            complain(&failure, failure.hint().as_deref());
            Verdict::CouldNotTry
        }
    }
}

/// Why a run came to nothing.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("could not set up what runs the session")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    NoHome(#[from] NoHome),
    #[error(transparent)]
    NoAgent(#[from] NoAgent),
    #[error(transparent)]
    Unworded(#[from] Unworded),
    #[error("there is nothing to do")]
    NoPrompt,
    #[error("the journal cannot be used")]
    Journal(#[from] journal::Error),
    #[error(transparent)]
    Unchosen(#[from] Unchosen),
    #[error("the session did not take it")]
    Session(#[from] session::Error),
    #[error("the session could not be driven any further")]
    Undriven,
    #[error("could not read the keyboard")]
    Keyboard(#[source] io::Error),
    #[error("could not write")]
    Write(#[source] io::Error),
    #[error("{0}")]
    NoTurn(String),
}

impl Failure {
    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::NoHome(no) => return no.hint(),
            Self::NoAgent(no) => return no.hint(),
            Self::Unchosen(unchosen) => return unchosen.hint(),
            Self::NoPrompt => "give a prompt: `towpath run 'what to do'`, or pipe one in",
            Self::Unworded(Unworded::NoImage { .. }) => "make it a PNG, JPEG, GIF or WebP",
            Self::Journal(_) | Self::NoTurn(_) | Self::Undriven => {
                "`towpath doctor` says what works and what does not"
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

async fn drive(options: &RunOptions) -> Result<Verdict, Failure> {
    let settings = Settings::read()?;
    let agent = settings.agent(&options.agent)?;
    let at_terminal = !options.json && Keyboard::is_there();
    let goes_on = at_terminal && !options.once && io::stdin().is_terminal();
    let wording = Wording::given(options.prompt.as_deref(), &options.image)?;
    if wording.is_none() && options.resume.is_none() && !goes_on {
        return Err(Failure::NoPrompt);
    }
    settings.make_data()?;
    let journal = settings.journal()?;
    let mut limits = Limits::default();
    if !goes_on {
        // Nobody waits for the third try of something that takes one turn.
        limits.restarts = 1;
    }
    let sessions = Sessions::new(settings.home(agent, limits)?, journal);
    for (id, problem) in sessions.gather().await.map_err(Unchosen::Open)? {
        eprintln!("note: what the agent of session {} left cannot be read: {problem}", short(id));
    }
    let by = settings.person();
    let Chosen { session, record } = choice::choose(options, &sessions, &by).await?;
    let works = matches!(record.status, Status::Running | Status::Waiting);
    if wording.is_none() && !goes_on && !works {
        return Err(Failure::NoPrompt);
    }
    let show_from = if wording.is_some() { record.turn + 1 } else { record.turn };
    let prompt = wording.map(|it| it.prompt(Delivery::Queue, by.clone()));
    let mut course = Course::of(prompt.as_ref().map(|prompt| prompt.id));
    if let Some(prompt) = prompt {
        session.prompt(prompt).await?;
    }
    let over = if at_terminal {
        if goes_on {
            let place = settings.short(&record.directory);
            eprintln!("{DIM}towpath · {place} · session {}{DIM:#}", short(session.id()));
        }
        let history = written_before(&sessions, &session).await?;
        let directory = record.directory.clone();
        let refuses = options.ask == Some(Ask::Deny);
        let opening = Opening { by, directory, goes_on, refuses, history };
        let mut stage = Stage::new(&sessions, &session, opening);
        stage.play(record.last, show_from, &mut course).await
    } else {
        tell(options, &sessions, &session, record.last, by, &mut course).await
    };
    end(&sessions, &session, over.as_ref().ok().copied(), goes_on).await?;
    over?;
    if let Some(cause) = course.obstacle() {
        return Err(Failure::NoTurn(phrase::cause(cause)));
    }
    Ok(course.verdict())
}

const DIM: anstyle::Style = anstyle::Style::new().dimmed();

/// Tells one turn to a pipe.
async fn tell(
    options: &RunOptions,
    sessions: &Sessions,
    session: &Session,
    from: Seq,
    by: Actor,
    course: &mut Course,
) -> Result<Over, Failure> {
    let ask = options.ask.unwrap_or(Ask::Deny);
    let told = Told { sessions, session, from, ask, by };
    let mut telling: Box<dyn Telling> = if options.json {
        Box::new(Raw(io::BufWriter::new(io::stdout())))
    } else {
        let colours = match anstream::AutoStream::choice(&io::stderr()) {
            anstream::ColorChoice::Never => Colours::Off,
            _ => Colours::On,
        };
        Box::new(Plain::new(io::stdout(), io::stderr(), colours, TALK_WIDTH))
    };
    told.until_over(course, &mut *telling).await
}

/// What was written in this session before, oldest first.
async fn written_before(sessions: &Sessions, session: &Session) -> Result<Vec<String>, Failure> {
    let mut prompts = sessions.journal().prompts(session.id()).await?;
    prompts.sort_by_key(|prompt| prompt.created);
    Ok(prompts.into_iter().map(|prompt| prompt.text).collect())
}

/// Lets go: of an agent that works by leaving it alone with its turn, of another by ending it.
async fn end(
    sessions: &Sessions,
    session: &Session,
    over: Option<Over>,
    goes_on: bool,
) -> Result<(), Failure> {
    let id = session.id();
    let status = sessions.journal().session(id).await?.map(|record| record.status);
    let works = matches!(status, Some(Status::Running | Status::Waiting));
    let mut follower = session.follow(
        sessions.journal().session(id).await?.map(|record| record.last).unwrap_or_default(),
    );
    if !works && session.close().await.is_ok() {
        let gone = async {
            while let Ok(entries) = follower.next().await {
                let notes = entries.iter().filter(|entry| entry.origin == Origin::Towpath);
                let mut notes = notes.filter_map(|entry| Note::read(&entry.bytes));
                if notes.any(|note| matches!(note, Note::AgentGone { .. })) {
                    return;
                }
            }
        };
        if !matches!(status, Some(Status::Dead | Status::Failed)) {
            // It ends without us too; what it says then is read by whoever comes next.
            let _ = tokio::time::timeout(ENDING, gone).await;
        }
    }
    sessions.leave().await;
    sessions.journal().clone().close().await?;
    let resume = format!("towpath run --resume {}", short(id));
    if works {
        eprintln!("{DIM}the agent finishes its turn alone; `{resume}` goes on{DIM:#}");
    } else if goes_on || over == Some(Over::Left) {
        eprintln!("{DIM}kept; `{resume}` goes on{DIM:#}");
    }
    Ok(())
}
