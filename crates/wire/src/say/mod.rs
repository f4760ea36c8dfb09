//! What may be said to the agent.
//!
//! Every line on the agent's stdin is built here from values. The CLI takes a malformed line, an
//! empty one or a wrong role for fatal, runs shell commands from a `bash_command` line without
//! asking, and hangs for good on some requests that lack a field; so there is no function that
//! takes a line from somebody else, and none of the values here can be written as such a line.

mod answer;
mod image;
mod object;
mod permission;
mod prompt;
mod question;
mod request;

use serde::Serialize;

pub use answer::{Answer, Refusal};
pub use image::{Image, ImageError, MediaType};
pub use object::{JsonObject, NotAnObject};
pub use permission::{Behavior, Destination, PermissionMode, PermissionUpdate, Rule};
pub use prompt::{EmptyPrompt, Priority, Prompt};
pub use question::Answers;
pub use request::{Initialize, Request, SettingsSource};

/// A line for the agent's stdin: one JSON object, no newline inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saying(String);

impl Saying {
    fn of(value: &impl Serialize) -> Self {
        let text = serde_json::to_string(value);
        Self(text.expect("strings, numbers and checked JSON serialise"))
    }

    /// A request of the host; the answer will name `request_id`.
    pub fn request(request_id: &str, request: &Request) -> Self {
        Self::of(&Envelope::ControlRequest { request_id, request })
    }

    /// An answer to the agent's request `request_id`.
    pub fn answer(request_id: &str, answer: &Answer) -> Self {
        Self::of(&Envelope::ControlResponse { response: answer.response(request_id) })
    }

    /// Takes back a request of the host.
    pub fn cancel(request_id: &str) -> Self {
        Self::of(&Envelope::ControlCancelRequest { request_id })
    }

    /// A sign of life, which the CLI ignores.
    pub fn keep_alive() -> Self {
        Self::of(&Envelope::KeepAlive)
    }

    /// The line without a newline.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The line with the newline that ends it, ready to be written in one piece.
    pub fn into_bytes(self) -> Vec<u8> {
        let mut bytes = self.0.into_bytes();
        bytes.push(b'\n');
        bytes
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Envelope<'a> {
    ControlRequest { request_id: &'a str, request: &'a Request },
    ControlResponse { response: answer::Response<'a> },
    ControlCancelRequest { request_id: &'a str },
    KeepAlive,
}
