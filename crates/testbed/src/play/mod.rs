//! `towpath play`: a stand-in for the CLI, version 2.1.325.
//!
//! A session decides: it is told what happened and says what is to be done,
//! and is tested without a process. Around it, thin: [`run`] reads stdin, asks a model, carries tool
//! calls out in the working directory and writes stdout. What the session says goes through one
//! loop, in order, so a line that comes before another was decided before it.

mod arguments;
mod beginning;
mod clock;
mod effect;
mod fault;
mod history;
mod ids;
mod input;
mod message;
mod model;
mod permission;
mod player;
mod printer;
mod queue;
mod said;
mod session;
mod settings;
mod stdin;
mod store;
mod surroundings;
mod tally;
mod tools;
mod wording;

pub use arguments::{Arguments, Refusal};
pub use player::run;
pub use surroundings::Surroundings;
