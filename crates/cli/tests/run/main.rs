//! `towpath run`, `sessions` and `doctor`, through the built binary and with the built-in agent.

mod doctor;
mod house;
mod pipe;
mod screen;
mod sessions;
mod terminal;
