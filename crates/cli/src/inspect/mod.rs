//! `towpath inspect`: what a stream or transcript holds.
//!
//! Input goes through in chunks: memory holds a line, the counts and what is odd, never the stream.

mod ahead;
mod census;
mod counts;
mod json;
mod normal;
mod odd;
mod progress;
mod report;
mod session;
mod source;

use std::io::{self, BufWriter, Write};

use crate::arguments::InspectOptions;
use crate::complaint::complain;
use crate::verdict::Verdict;
use census::Census;
use progress::Progress;
use source::{Input, Source};

/// Runs the command.
pub(crate) fn run(options: &InspectOptions) -> Verdict {
    let outcome = if options.json || options.events {
        inspect(options, BufWriter::new(io::stdout().lock()))
    } else {
        inspect(options, BufWriter::new(anstream::stdout().lock()))
    };
    match outcome {
        Ok(verdict) => verdict,
        // Whoever reads our output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Verdict::Done,
        Err(error) => {
            complain(&WriteFailed(error), None);
            Verdict::CouldNotTry
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("could not write the report")]
struct WriteFailed(#[source] io::Error);

/// Inspects every input; what fails in reading is complained of, what fails in writing returned.
fn inspect(options: &InspectOptions, mut out: impl Write) -> io::Result<Verdict> {
    let mut census = Census::default();
    let mut verdict = Verdict::Done;
    let mut progress = Progress::over(&options.files);
    for input in Input::all(&options.files) {
        census.begin_input();
        let read = Source::open(&input, options).and_then(|mut source| {
            source.each_line(&mut progress, |line| {
                if options.events {
                    normal::write(&mut out, &line)?;
                }
                census.take(&line);
                Ok(())
            })
        });
        match read {
            Ok(()) => {}
            Err(source::Error::Write(error)) => return Err(error),
            Err(error) => {
                progress.clear();
                complain(&error, error.hint());
                verdict = Verdict::CouldNotTry;
            }
        }
    }
    progress.clear();
    if options.json {
        json::write(&census, &mut out)?;
    } else if !options.events && (verdict == Verdict::Done || census.lines > 0) {
        report::write(&census, options.all, &mut out)?;
    }
    out.flush()?;
    Ok(if verdict == Verdict::Done && options.strict && census.is_odd() {
        Verdict::No
    } else {
        verdict
    })
}
