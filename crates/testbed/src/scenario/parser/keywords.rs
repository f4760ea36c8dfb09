//! The lines of a scenario by keyword: replies (`api`) and steps.

use std::time::Duration;

use serde_json::{Map, Value};

use super::line::{ScenarioLineReader, ScenarioSyntaxError};
use crate::scenario::{
    ScenarioBlock, ScenarioExpectation, ScenarioFault, ScenarioHold, ScenarioOrder, ScenarioReply,
    ScenarioRequestTarget, ScenarioSignal, ScenarioStreamFault, Step,
};

/// Reads the rest of an `api` line.
pub(super) fn reply(
    line: &mut ScenarioLineReader<'_>,
) -> Result<ScenarioReply, ScenarioSyntaxError> {
    let mut reply = ScenarioReply::default();
    if line.is_empty() {
        return Err(line.error(PART));
    }
    while !line.is_empty() {
        part(line, &mut reply)?;
    }
    if reply.always && reply.only_for.is_none() {
        return Err(ScenarioSyntaxError(
            "`always` is only for replies with `for \"TEXT\"`".to_owned(),
        ));
    }
    let empty = reply.blocks.is_empty() && reply.replay.is_none();
    if empty && reply.fault.is_none() && reply.stop.is_none() {
        return Err(ScenarioSyntaxError(
            "expected a block, a fault or a stop reason in the reply".to_owned(),
        ));
    }
    Ok(reply)
}

const PART: &str = "`text`, `think`, `tool` or another part of a reply";
const ERROR_TYPE: &str = "an error type such as `overloaded_error`";
const QUOTED_MESSAGE: &str = "a message in quotes";
const QUOTED_TEXT: &str = "a text in quotes";
const OBJECT: &str = "a JSON object";

fn part(
    line: &mut ScenarioLineReader<'_>,
    reply: &mut ScenarioReply,
) -> Result<(), ScenarioSyntaxError> {
    let error = line.error(PART);
    let keyword = line.word(PART)?;
    let stream_fault = match keyword {
        "sse-error" => ScenarioStreamFault::SseError {
            kind: line.word(ERROR_TYPE)?.to_owned(),
            message: line.string(QUOTED_MESSAGE)?,
        },
        "disconnect" => ScenarioStreamFault::Disconnect,
        "truncate" => ScenarioStreamFault::Truncate,
        "stall" => ScenarioStreamFault::Stall,
        "garbage" => ScenarioStreamFault::Garbage,
        "error" => {
            let fault = ScenarioFault::Status {
                status: line.number("an HTTP status")?,
                kind: line.word(ERROR_TYPE)?.to_owned(),
                message: line.string(QUOTED_MESSAGE)?,
                headers: Vec::new(),
            };
            return set_fault(reply, fault);
        }
        _ => return content(keyword, line, reply, error),
    };
    let after = after(line)?.unwrap_or(0);
    set_fault(reply, ScenarioFault::Stream { after, fault: stream_fault })
}

fn set_fault(reply: &mut ScenarioReply, fault: ScenarioFault) -> Result<(), ScenarioSyntaxError> {
    if reply.fault.is_some() {
        return Err(ScenarioSyntaxError("a reply can have only one fault".to_owned()));
    }
    reply.fault = Some(fault);
    Ok(())
}

/// Reads a part of a reply that is not a fault.
fn content(
    keyword: &str,
    line: &mut ScenarioLineReader<'_>,
    reply: &mut ScenarioReply,
    error: ScenarioSyntaxError,
) -> Result<(), ScenarioSyntaxError> {
    match keyword {
        "text" => reply.blocks.push(ScenarioBlock::Text(line.string(QUOTED_TEXT)?)),
        "think" => reply.blocks.push(ScenarioBlock::Thinking(line.string(QUOTED_TEXT)?)),
        "repeat" => {
            let text = line.string(QUOTED_TEXT)?;
            let times = line.number("a number of repetitions")?;
            reply.blocks.push(ScenarioBlock::Text(text.repeat(times)));
        }
        "tool" => {
            let name = line.word("a tool name")?.to_owned();
            let input = Value::Object(line.object(OBJECT)?);
            let id = if line.take("id") { Some(line.word("an id")?.to_owned()) } else { None };
            reply.blocks.push(ScenarioBlock::Tool { name, input, id });
        }
        "block" => reply.blocks.push(ScenarioBlock::Raw(Value::Object(line.object(OBJECT)?))),
        "stop" => reply.stop = Some(line.word("a stop reason such as `max_tokens`")?.to_owned()),
        "usage" => reply.usage = Some(line.object(OBJECT)?),
        "for" => reply.only_for = Some(line.string(QUOTED_TEXT)?),
        "always" => reply.always = true,
        "hold" => reply.hold = Some(ScenarioHold { name: line.name()?, after: after(line)? }),
        "replay" => reply.replay = Some(line.path()?.into()),
        "slow" => reply.pace = Duration::from_millis(line.number("milliseconds")?),
        "header" => {
            let name = line.word("a header name")?.to_owned();
            let value = line.string("a header value in quotes")?;
            let Some(ScenarioFault::Status { headers, .. }) = &mut reply.fault else {
                return Err(ScenarioSyntaxError(
                    "`header` must follow `error STATUS TYPE \"MESSAGE\"`".into(),
                ));
            };
            headers.push((name, value));
        }
        _ => return Err(error),
    }
    Ok(())
}

fn after(line: &mut ScenarioLineReader<'_>) -> Result<Option<usize>, ScenarioSyntaxError> {
    if line.take("after") { line.number("a number of deltas").map(Some) } else { Ok(None) }
}

/// Reads a step whose keyword is already taken. `None` if the keyword is not that of a step.
pub(super) fn step(
    keyword: &str,
    line: &mut ScenarioLineReader<'_>,
) -> Result<Option<Step>, ScenarioSyntaxError> {
    Ok(Some(match keyword {
        ">" => input(line)?,
        "<" => expect(line, ScenarioOrder::InOrder)?,
        "<~" => expect(line, ScenarioOrder::AnyOrder)?,
        "<!" => Step::Never(expectation(line)?),
        "says" => Step::Says(line.string(QUOTED_TEXT)?),
        "count" => Step::Count { kind: kind(line)?, times: line.number("a number")? },
        "open" => Step::Open(line.name()?),
        "request" => Step::ApiRequest {
            number: line.number("a request number (from 1)")?,
            pattern: Value::Object(line.object(OBJECT)?),
        },
        "requests" => Step::ApiRequests(line.number("a number")?),
        "signal" => Step::Signal(signal(line)?),
        "eof" => Step::CloseInput,
        "exit" => exit(line)?,
        "alive" => Step::Alive,
        "stderr" => Step::Stderr(line.string(QUOTED_TEXT)?),
        "is" => Step::FileIs { path: line.path()?, content: line.string("the content in quotes")? },
        "is-not" => Step::FileIsNot(line.path()?),
        "wait-file" => Step::WaitFile(line.path()?),
        "gone" => Step::Gone(line.string(QUOTED_TEXT)?),
        "left" => Step::Left(line.string(QUOTED_TEXT)?),
        "at" => Step::At(line.number("a process number (from 1)")?),
        _ => return Ok(None),
    }))
}

fn input(line: &mut ScenarioLineReader<'_>) -> Result<Step, ScenarioSyntaxError> {
    const EXPECTED: &str = "`user`, `request`, `allow`, `deny`, `answer`, `fail`, `line` or `raw`";
    let error = line.error(EXPECTED);
    Ok(match line.word(EXPECTED)? {
        "user" => prompt(line)?,
        "request" => {
            let request = Value::Object(line.object(OBJECT)?);
            let name = if line.take("as") { Some(line.name()?) } else { None };
            Step::Request { request, name }
        }
        "allow" => allow(line)?,
        "deny" => {
            let message = line.string(QUOTED_MESSAGE)?;
            let interrupt = line.take("interrupt");
            Step::Deny { message, interrupt, target: target(line)? }
        }
        "answer" => {
            let payload = Value::Object(line.object(OBJECT)?);
            Step::Answer { payload, target: target(line)? }
        }
        "fail" => Step::Fail { message: line.string(QUOTED_MESSAGE)?, target: target(line)? },
        "line" => Step::Line(Value::Object(line.object(OBJECT)?)),
        "raw" => Step::Raw(line.string(QUOTED_TEXT)?),
        _ => return Err(error),
    })
}

fn prompt(line: &mut ScenarioLineReader<'_>) -> Result<Step, ScenarioSyntaxError> {
    let text = line.string(QUOTED_TEXT)?;
    let (mut uuid, mut priority, mut image, mut with) = (None, None, false, None);
    while let Some(word) = line.peek() {
        match word {
            "uuid" if line.take(word) => uuid = Some(line.name()?),
            "priority" if line.take(word) => {
                priority = Some(line.word("`now`, `next` or `later`")?.to_owned());
            }
            "image" if line.take(word) => image = true,
            "with" if line.take(word) => {
                with = Some(Value::Object(line.object(OBJECT)?));
            }
            _ => {
                return Err(
                    line.error("`uuid`, `priority`, `image`, `with` or the end of the line")
                );
            }
        }
    }
    Ok(Step::Prompt { text, uuid, priority, image, with })
}

fn allow(line: &mut ScenarioLineReader<'_>) -> Result<Step, ScenarioSyntaxError> {
    let input =
        if line.starts_with('{') { Some(Value::Object(line.object(OBJECT)?)) } else { None };
    let (mut permissions, mut target) = (None, ScenarioRequestTarget::Latest);
    while let Some(word) = line.peek() {
        match word {
            "to" if line.take(word) => target = ScenarioRequestTarget::Named(line.name()?),
            "permissions" if line.take(word) => permissions = Some(line.array("a JSON array")?),
            _ => {
                return Err(line.error("a JSON object, `to`, `permissions` or the end of the line"));
            }
        }
    }
    Ok(Step::Allow { input, permissions, target })
}

fn target(line: &mut ScenarioLineReader<'_>) -> Result<ScenarioRequestTarget, ScenarioSyntaxError> {
    if line.take("to") {
        line.name().map(ScenarioRequestTarget::Named)
    } else {
        Ok(ScenarioRequestTarget::Latest)
    }
}

fn expect(
    line: &mut ScenarioLineReader<'_>,
    order: ScenarioOrder,
) -> Result<Step, ScenarioSyntaxError> {
    let expectation = expectation(line)?;
    let name = if line.take("as") { Some(line.name()?) } else { None };
    Ok(Step::Expect { expectation, name, order })
}

fn expectation(
    line: &mut ScenarioLineReader<'_>,
) -> Result<ScenarioExpectation, ScenarioSyntaxError> {
    let kind = kind(line)?;
    let pattern = if kind == "line" && line.starts_with('"') {
        Value::String(line.string(QUOTED_TEXT)?)
    } else if kind == "line" && line.starts_with('[') {
        line.array("a JSON array")?
    } else if line.is_empty() || line.peek() == Some("as") {
        Value::Object(Map::new())
    } else {
        Value::Object(line.object(OBJECT)?)
    };
    Ok(ScenarioExpectation { kind, pattern })
}

fn kind(line: &mut ScenarioLineReader<'_>) -> Result<String, ScenarioSyntaxError> {
    const EXPECTED: &str = "a kind such as `system/init` or `assistant`";
    if line.starts_with('{') || line.starts_with('"') {
        return Err(line.error(EXPECTED));
    }
    line.word(EXPECTED).map(str::to_owned)
}

fn exit(line: &mut ScenarioLineReader<'_>) -> Result<Step, ScenarioSyntaxError> {
    if line.take("signal") {
        return signal(line).map(Step::ExitBySignal);
    }
    if line.is_empty() {
        return Ok(Step::Exit(None));
    }
    line.number("an exit code or `signal`").map(|code| Step::Exit(Some(code)))
}

fn signal(line: &mut ScenarioLineReader<'_>) -> Result<ScenarioSignal, ScenarioSyntaxError> {
    const EXPECTED: &str = "`INT`, `TERM` or `KILL`";
    let error = line.error(EXPECTED);
    match line.word(EXPECTED)? {
        "INT" => Ok(ScenarioSignal::Int),
        "TERM" => Ok(ScenarioSignal::Term),
        "KILL" => Ok(ScenarioSignal::Kill),
        _ => Err(error),
    }
}
