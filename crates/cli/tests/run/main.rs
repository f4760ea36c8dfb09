//! `run`, `sessions`, `doctor` and `inspect` through the built binary, with the built-in agent; and
//! outside programs that drive the built-in agent or read the same files.

mod agent_menus;
mod agent_sdks;
mod budget;
mod ccusage;
mod delivery;
mod doctor;
mod home;
mod inspect;
mod lost_terminal;
mod options;
mod pipe;
#[expect(dead_code, reason = "other test binaries use the rest")]
#[path = "../program/mod.rs"]
mod program;
mod resume;
mod screen;
mod serve_notice;
mod sessions;
mod terminal;
