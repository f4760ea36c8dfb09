//! Sessions whose agent speaks the Agent Client Protocol: the built-in player, which can be told to do wrong
//! what real agents do wrong, and released agents.

mod conversations;
mod fixture;
mod forks;
mod interrupts;
mod kills;
mod released;
mod released_kills;
mod scripted;
