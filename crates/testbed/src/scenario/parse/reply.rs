//! `api` lines: what the model answers.

use std::time::Duration;

use serde_json::Value;

use super::line::{Line, Wrong};
use crate::scenario::{Block, Fault, Hold, Reply, Trouble};

/// Reads what stands behind `api`.
pub(super) fn reply(line: &mut Line<'_>) -> Result<Reply, Wrong> {
    let mut reply = Reply::default();
    if line.is_done() {
        return Err(line.wrong(PART));
    }
    while !line.is_done() {
        part(line, &mut reply)?;
    }
    if reply.always && reply.only_for.is_none() {
        return Err(Wrong("`always` is for replies with `for \"WORDS\"`".to_owned()));
    }
    let empty = reply.blocks.is_empty() && reply.replay.is_none();
    if empty && reply.fault.is_none() && reply.stop.is_none() {
        return Err(Wrong("expected a block, a fault or a stop reason in the reply".to_owned()));
    }
    Ok(reply)
}

const PART: &str = "`text`, `think`, `tool` or another part of a reply";

fn part(line: &mut Line<'_>, reply: &mut Reply) -> Result<(), Wrong> {
    let Some(keyword) = line.peek() else { return Err(line.wrong(PART)) };
    let trouble = |trouble| Fault::After { deltas: 0, trouble };
    let fault = match keyword {
        "error" => {
            line.takes("error");
            Fault::Status {
                status: line.number("an HTTP status")?,
                kind: line.word("the type of the error, as in `overloaded_error`")?.to_owned(),
                message: line.string("a message in quotes")?,
                headers: Vec::new(),
            }
        }
        "sse-error" => {
            line.takes("sse-error");
            trouble(Trouble::SseError {
                kind: line.word("the type of the error, as in `overloaded_error`")?.to_owned(),
                message: line.string("a message in quotes")?,
            })
        }
        "disconnect" => trouble(Trouble::Disconnect),
        "truncate" => trouble(Trouble::Truncate),
        "stall" => trouble(Trouble::Stall),
        "garbage" => trouble(Trouble::Garbage),
        _ => return plain_part(line, reply),
    };
    if reply.fault.is_some() {
        return Err(Wrong("a reply has one fault, and this is the second".to_owned()));
    }
    reply.fault = Some(match fault {
        Fault::After { trouble, .. } => {
            line.takes(keyword);
            Fault::After { deltas: after(line)?.unwrap_or(0), trouble }
        }
        status @ Fault::Status { .. } => status,
    });
    Ok(())
}

/// A part that breaks nothing.
fn plain_part(line: &mut Line<'_>, reply: &mut Reply) -> Result<(), Wrong> {
    let before = line.wrong(PART);
    match line.word(PART)? {
        "text" => reply.blocks.push(Block::Text(line.string("the text in quotes")?)),
        "think" => reply.blocks.push(Block::Thinking(line.string("the thoughts in quotes")?)),
        "repeat" => {
            let words = line.string("words in quotes")?;
            let times = line.number("how many times")?;
            reply.blocks.push(Block::Text(words.repeat(times)));
        }
        "tool" => {
            let name = line.word("the name of a tool")?.to_owned();
            let input = Value::Object(line.object("a JSON object")?);
            let id = if line.takes("id") { Some(line.word("an id")?.to_owned()) } else { None };
            reply.blocks.push(Block::Tool { name, input, id });
        }
        "block" => reply.blocks.push(Block::Raw(Value::Object(line.object("a JSON object")?))),
        "stop" => reply.stop = Some(line.word("a stop reason, as in `max_tokens`")?.to_owned()),
        "usage" => reply.usage = Some(line.object("a JSON object")?),
        "for" => reply.only_for = Some(line.string("words in quotes")?),
        "always" => reply.always = true,
        "hold" => reply.hold = Some(Hold { name: line.name()?, after: after(line)? }),
        "replay" => reply.replay = Some(line.path()?.into()),
        "slow" => reply.pace = Duration::from_millis(line.number("milliseconds")?),
        "header" => {
            let name = line.word("the name of a header")?.to_owned();
            let value = line.string("its value in quotes")?;
            let Some(Fault::Status { headers, .. }) = &mut reply.fault else {
                return Err(Wrong("`header` stands behind `error STATUS TYPE \"MESSAGE\"`".into()));
            };
            headers.push((name, value));
        }
        _ => return Err(before),
    }
    Ok(())
}

fn after(line: &mut Line<'_>) -> Result<Option<usize>, Wrong> {
    if line.takes("after") { line.number("a number of deltas").map(Some) } else { Ok(None) }
}
