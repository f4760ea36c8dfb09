//! The `towpath` binary: arguments in, a report and an exit code out.
//!
//! Only this crate reads the environment, prints and exits. Data goes to stdout, talk to stderr;
//! exit codes are 0 for done, 1 for "the answer is no", 2 for "could not try".

mod arguments;
mod complaint;
mod inspect;
mod play;
mod stub;
mod verdict;
mod verify;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};
use verdict::Verdict;

fn main() -> Verdict {
    match Arguments::parse().command {
        Command::Inspect(options) => inspect::run(&options),
        Command::Play { arguments } => play::run(arguments),
        Command::Stub(options) => stub::run(options),
        Command::Verify(options) => verify::run(&options),
        Command::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "towpath", &mut std::io::stdout());
            Verdict::Done
        }
    }
}
