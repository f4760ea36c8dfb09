//! `run`, `sessions`, `doctor` and `inspect` through the built binary, with the built-in agent; and
//! outside programs that drive the built-in agent or read the same files.

mod agent_sdks;
mod ccusage;
mod doctor;
mod home;
mod inspect;
mod lost_terminal;
mod pipe;
#[expect(dead_code, reason = "other test binaries use the rest")]
#[path = "../program/mod.rs"]
mod program;
mod screen;
mod sessions;
mod terminal;
