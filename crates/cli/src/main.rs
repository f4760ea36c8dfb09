//! The `towpath` binary: arguments in, a report and an exit code out.
//!
//! Only this crate reads the environment, prints and exits. Data goes to stdout and messages to
//! stderr. The exit code is 0 for success, 1 for a negative result and 2 if a command could not run.

mod acp;
mod agents;
mod arguments;
mod clock;
mod config;
mod doctor;
mod exit;
mod fleet;
mod host;
mod inspect;
mod log;
mod play;
mod proven;
mod run;
mod schedule;
mod serve;
mod sessions;
mod settings;
mod shim;
mod stub;
mod telegram;
mod verify;
mod view;
mod watch;
mod worker;
mod worker_metrics;

use std::io::Write as _;

use clap::{CommandFactory as _, Parser as _};

use arguments::{Arguments, CliCommand};
use exit::CommandStatus;

fn main() -> CommandStatus {
    if shim::is_requested() {
        shim::run();
    }
    if is_version_request() {
        return print_version();
    }
    match Arguments::parse().command {
        CliCommand::Acp(options) => acp::run(&options),
        CliCommand::Agents(options) => agents::run(&options),
        CliCommand::Config(options) => config::run(&options),
        CliCommand::Doctor(options) => doctor::run(&options),
        CliCommand::Fleet(options) => fleet::run(&options),
        CliCommand::Host(options) => host::run(&options),
        CliCommand::Inspect(options) => inspect::run(&options),
        CliCommand::Play { arguments } => play::run(arguments),
        CliCommand::Run(options) => run::run(&options),
        CliCommand::Schedule(options) => schedule::run(&options),
        CliCommand::Serve(options) => serve::run(&options),
        CliCommand::Sessions(options) => sessions::run(&options),
        CliCommand::Stub(options) => stub::run(options),
        CliCommand::Telegram(options) => telegram::run(&options),
        CliCommand::Verify(options) => verify::run(&options),
        CliCommand::View(options) => view::run(&options),
        CliCommand::Watch(options) => watch::run(&options),
        CliCommand::Worker(options) => worker::run(&options),
        CliCommand::Completions { shell } => {
            let mut command = Arguments::command();
            clap_complete::generate(shell, &mut command, "towpath", &mut std::io::stdout());
            CommandStatus::Success
        }
    }
}

/// Whether the only argument is `--version`. Shell prompts and scripts ask for it often, and building
/// the argument parser would take longer than everything else.
fn is_version_request() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    arguments.next().is_some_and(|first| first == "--version" || first == "-V")
        && arguments.next().is_none()
}

fn print_version() -> CommandStatus {
    // The write fails if the reader has closed the pipe.
    match writeln!(std::io::stdout(), "towpath {}", env!("CARGO_PKG_VERSION")) {
        Ok(()) => CommandStatus::Success,
        Err(_) => CommandStatus::Error,
    }
}
