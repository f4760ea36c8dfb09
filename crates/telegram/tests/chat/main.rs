//! What a chat sends while things happen in its session.

mod cards;
mod consent;
mod crashes;
mod failures;
mod harness;
mod posts;
mod progress;
