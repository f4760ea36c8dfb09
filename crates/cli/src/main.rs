//! The `towpath` binary: arguments in, a report and an exit code out.
//!
//! Only this crate reads the environment, prints and exits. Data goes to stdout, talk to stderr;
//! exit codes are 0 for done, 1 for "the answer is no", 2 for "could not try".

mod arguments;
mod clock;
mod complaint;
mod doctor;
mod inspect;
mod log;
mod play;
mod run;
mod serve;
mod sessions;
mod settings;
mod shim;
mod stub;
mod telegram;
mod verdict;
mod verify;
mod version;
mod view;
mod watch;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, Command};
use verdict::Verdict;

fn main() -> Verdict {
    if shim::is_wanted() {
        shim::run();
    }
    if version::is_wanted() {
        return version::print();
    }
    match Arguments::parse().command {
        Command::Doctor(options) => doctor::run(&options),
        Command::Inspect(options) => inspect::run(&options),
        Command::Play { arguments } => play::run(arguments),
        Command::Run(options) => run::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Sessions(options) => sessions::run(&options),
        Command::Stub(options) => stub::run(options),
        Command::Telegram(options) => telegram::run(&options),
        Command::Verify(options) => verify::run(&options),
        Command::View(options) => view::run(&options),
        Command::Watch(options) => watch::run(&options),
        Command::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "towpath", &mut std::io::stdout());
            Verdict::Done
        }
    }
}
