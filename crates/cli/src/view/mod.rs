//! `towpath view`: a stream or transcript as a person reads it.
//!
//! Input goes through line by line: each line is folded, what is settled is written out and
//! forgotten. Memory holds what is still open, never the whole conversation.

mod arguments;
mod below;
pub(crate) mod document;
mod export;
mod pager;
pub(crate) mod screen;
mod source;
pub(crate) mod teller;

use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;

pub(crate) use arguments::ViewOptions;
pub(crate) use below::Below;

use crate::complaint::complain;
use crate::verdict::Verdict;
use document::Document;
use export::Export;
use pager::{Pager, Shown};
use screen::Screen;
use source::Source;
use teller::Teller;

/// Runs the command.
pub(crate) fn run(options: &ViewOptions) -> Verdict {
    match view(options) {
        Ok(()) => Verdict::Done,
        // Whoever reads our output has seen enough.
        Err(Error::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(error) => {
            complain(&error, error.hint());
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("could not read `{name}`")]
    Read { name: String, source: io::Error },
    #[error("could not write the page `{name}`")]
    Page { name: String, source: io::Error },
    #[error("could not write")]
    Write(#[source] io::Error),
}

impl Error {
    fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Read { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                Some("session files are under `~/.claude/projects`, one folder for each project")
            }
            Self::Read { source, .. } if source.kind() == io::ErrorKind::IsADirectory => {
                Some("name one of the files in it")
            }
            _ => None,
        }
    }
}

fn view(options: &ViewOptions) -> Result<(), Error> {
    let mut source = Source::open(options.file.as_deref(), options.follow)?;
    if let Some(out) = &options.html {
        return export(options, &mut source, out);
    }
    let screen = Screen::of_stdout(options.width);
    if source.is_live() {
        return live(options, &mut source, screen);
    }
    if io::stdout().is_terminal()
        && !options.no_pager
        && let Some(mut pager) = Pager::start(&options.pager)
    {
        let told = tell(options, &mut source, Teller::new(pager.input(), screen, options.full));
        if pager.wait() == Shown::Yes {
            return told;
        }
        source = Source::open(options.file.as_deref(), options.follow)?;
    }
    tell(options, &mut source, Teller::new(stdout(), screen, options.full))
}

/// Stdout, written to in pieces as large as what is shown at a time: a screen that is drawn line by
/// line flickers.
fn stdout() -> io::BufWriter<io::StdoutLock<'static>> {
    io::BufWriter::with_capacity(1 << 16, io::stdout().lock())
}

/// Shows a recording from its beginning to its end.
fn tell<W: io::Write>(
    options: &ViewOptions,
    source: &mut Source,
    mut teller: Teller<W>,
) -> Result<(), Error> {
    let mut document = Document::new(options.full);
    while source.next(|line, at| document.take(line, at))?.is_some() {
        teller.tell(&mut document).map_err(Error::Write)?;
    }
    teller.finish(&mut document).map_err(Error::Write)
}

/// Shows a stream as it comes, with a last line that says what is going on.
fn live(options: &ViewOptions, source: &mut Source, screen: Screen) -> Result<(), Error> {
    let mut document = Document::new(options.full);
    let mut teller = Teller::new(stdout(), screen, options.full);
    if io::stdout().is_terminal() {
        teller.draw_what_is_open();
    }
    while source.next(|line, at| document.take(line, at))?.is_some() {
        teller.tell(&mut document).map_err(Error::Write)?;
    }
    teller.finish(&mut document).map_err(Error::Write)
}

fn export(options: &ViewOptions, source: &mut Source, out: &Path) -> Result<(), Error> {
    let page = |source| Error::Page { name: out.display().to_string(), source };
    let mut document = Document::new(options.full);
    let mut export = Export::new(options.full).map_err(page)?;
    while source.next(|line, at| document.take(line, at))?.is_some() {
        export.add(&mut document).map_err(page)?;
    }
    export.finish(&mut document).map_err(page)?;
    if out == Path::new("-") {
        let mut stdout = io::stdout().lock();
        export.write(&document, &mut stdout).and_then(|()| stdout.flush()).map_err(Error::Write)
    } else {
        export.save(&document, out).map_err(page)
    }
}
