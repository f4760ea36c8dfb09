//! `towpath telegram` from outside: the built binary, the built-in agent, a scripted API for the
//! model, and a Bot API that is as strict as Telegram's.

#![expect(clippy::print_stdout, reason = "what is installed, skipped or measured is said")]
#![expect(clippy::disallowed_methods, reason = "tests start the program they test")]

mod asking;
#[path = "../browser/mod.rs"]
mod browser;
mod commanding;
mod filing;
mod leaving;
mod losing;
mod many;
mod real;
#[path = "../driving/release.rs"]
mod release;
mod serving;
mod smoke;
mod stage;
mod talking;
mod together;
