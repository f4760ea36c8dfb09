//! stdin: lines of JSON, or one prompt as a text.

use std::io::{BufRead as _, Read as _};

use serde_json::json;
use tokio::sync::mpsc;

use super::arguments::{Arguments, InputFormat};
use super::input::{Input, Said};
use super::said;

/// Reads stdin in a thread of its own.
pub(super) fn read_stdin(arguments: &Arguments, inputs: mpsc::Sender<Input>) {
    let (format, prompt) = (arguments.input, arguments.prompt.clone());
    std::thread::spawn(move || match format {
        InputFormat::StreamJson => {
            let mut stdin = std::io::stdin().lock();
            let mut line = Vec::new();
            while stdin.read_until(b'\n', &mut line).is_ok_and(|read| read > 0) {
                if inputs.blocking_send(Input::Said(said::read(&line))).is_err() {
                    return;
                }
                line.clear();
            }
            drop(inputs.blocking_send(Input::Closed));
        }
        InputFormat::Text => {
            let mut text = String::new();
            drop(std::io::stdin().lock().read_to_string(&mut text));
            let prompt = prompt.unwrap_or_default();
            let both = [prompt.trim_end(), text.trim_end()];
            let words: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
            let said = if words.is_empty() {
                Said::Fatal(
                    "Error: Input must be provided either through stdin or as a prompt argument \
                     when using --print"
                        .to_owned(),
                )
            } else {
                let message = json!({ "role": "user", "content": words.join("\n") });
                let line = json!({ "type": "user", "message": message });
                said::read(line.to_string().as_bytes())
            };
            drop(inputs.blocking_send(Input::Said(said)));
            drop(inputs.blocking_send(Input::Closed));
        }
    });
}
