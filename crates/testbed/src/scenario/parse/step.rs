//! Lines about what is said and what must come.

use serde_json::{Map, Value};

use super::line::{Line, Wrong};
use crate::scenario::{Expectation, Order, Signal, Step, Target};

/// Reads a step whose first word is already taken; nothing where no step begins so.
pub(super) fn step(keyword: &str, line: &mut Line<'_>) -> Result<Option<Step>, Wrong> {
    Ok(Some(match keyword {
        ">" => saying(line)?,
        "<" => expect(line, Order::InOrder)?,
        "<~" => expect(line, Order::AnyOrder)?,
        "<!" => Step::Never(expectation(line)?),
        "count" => Step::Count { kind: kind(line)?, times: line.number("how many")? },
        "open" => Step::Open(line.name()?),
        "request" => Step::ApiRequest {
            number: line.number("the number of a request, from 1 on")?,
            pattern: Value::Object(line.object("a JSON object")?),
        },
        "requests" => Step::ApiRequests(line.number("how many")?),
        "signal" => Step::Signal(signal(line)?),
        "eof" => Step::CloseInput,
        "exit" => exit(line)?,
        "alive" => Step::Alive,
        "stderr" => Step::Stderr(line.string("words in quotes")?),
        "is" => Step::FileIs { path: line.path()?, content: line.string("the content in quotes")? },
        "is-not" => Step::FileIsNot(line.path()?),
        "wait-file" => Step::WaitFile(line.path()?),
        "gone" => Step::Gone(line.string("words in quotes")?),
        "left" => Step::Left(line.string("words in quotes")?),
        "at" => Step::At(line.number("the number of a process, from 1 on")?),
        _ => return Ok(None),
    }))
}

fn saying(line: &mut Line<'_>) -> Result<Step, Wrong> {
    const EXPECTED: &str = "`user`, `request`, `allow`, `deny`, `answer`, `fail`, `line` or `raw`";
    let before = line.wrong(EXPECTED);
    Ok(match line.word(EXPECTED)? {
        "user" => prompt(line)?,
        "request" => {
            let request = Value::Object(line.object("a JSON object")?);
            let name = if line.takes("as") { Some(line.name()?) } else { None };
            Step::Request { request, name }
        }
        "allow" => allow(line)?,
        "deny" => {
            let message = line.string("a message in quotes")?;
            let interrupt = line.takes("interrupt");
            Step::Deny { message, interrupt, target: target(line)? }
        }
        "answer" => {
            let payload = Value::Object(line.object("a JSON object")?);
            Step::Answer { payload, target: target(line)? }
        }
        "fail" => {
            Step::Fail { message: line.string("a message in quotes")?, target: target(line)? }
        }
        "line" => Step::Line(Value::Object(line.object("a JSON object")?)),
        "raw" => Step::Raw(line.string("a text in quotes")?),
        _ => return Err(before),
    })
}

fn prompt(line: &mut Line<'_>) -> Result<Step, Wrong> {
    let text = line.string("the text in quotes")?;
    let (mut uuid, mut priority, mut image, mut with) = (None, None, false, None);
    while let Some(word) = line.peek() {
        match word {
            "uuid" if line.takes(word) => uuid = Some(line.name()?),
            "priority" if line.takes(word) => {
                priority = Some(line.word("`now`, `next` or `later`")?.to_owned());
            }
            "image" if line.takes(word) => image = true,
            "with" if line.takes(word) => {
                with = Some(Value::Object(line.object("a JSON object")?));
            }
            _ => return Err(line.wrong("`uuid`, `priority`, `image`, `with` or the end")),
        }
    }
    Ok(Step::Prompt { text, uuid, priority, image, with })
}

fn allow(line: &mut Line<'_>) -> Result<Step, Wrong> {
    let input =
        if line.begins('{') { Some(Value::Object(line.object("a JSON object")?)) } else { None };
    let (mut permissions, mut target) = (None, Target::Newest);
    while let Some(word) = line.peek() {
        match word {
            "to" if line.takes(word) => target = Target::Named(line.name()?),
            "permissions" if line.takes(word) => permissions = Some(line.array("a JSON array")?),
            _ => return Err(line.wrong("a JSON object, `to`, `permissions` or the end")),
        }
    }
    Ok(Step::Allow { input, permissions, target })
}

fn target(line: &mut Line<'_>) -> Result<Target, Wrong> {
    if line.takes("to") { line.name().map(Target::Named) } else { Ok(Target::Newest) }
}

fn expect(line: &mut Line<'_>, order: Order) -> Result<Step, Wrong> {
    let expectation = expectation(line)?;
    let name = if line.takes("as") { Some(line.name()?) } else { None };
    Ok(Step::Expect { expectation, name, order })
}

fn expectation(line: &mut Line<'_>) -> Result<Expectation, Wrong> {
    let kind = kind(line)?;
    let pattern = if kind == "line" && line.begins('"') {
        Value::String(line.string("a text in quotes")?)
    } else if kind == "line" && line.begins('[') {
        line.array("a JSON array")?
    } else if line.is_done() || line.peek() == Some("as") {
        Value::Object(Map::new())
    } else {
        Value::Object(line.object("a JSON object")?)
    };
    Ok(Expectation { kind, pattern })
}

fn kind(line: &mut Line<'_>) -> Result<String, Wrong> {
    const EXPECTED: &str = "a kind, as in `system/init` or `assistant`";
    if line.begins('{') || line.begins('"') {
        return Err(line.wrong(EXPECTED));
    }
    line.word(EXPECTED).map(str::to_owned)
}

fn exit(line: &mut Line<'_>) -> Result<Step, Wrong> {
    if line.takes("signal") {
        return signal(line).map(Step::ExitBySignal);
    }
    if line.is_done() {
        return Ok(Step::Exit(None));
    }
    line.number("an exit code or `signal`").map(|code| Step::Exit(Some(code)))
}

fn signal(line: &mut Line<'_>) -> Result<Signal, Wrong> {
    const EXPECTED: &str = "`INT`, `TERM` or `KILL`";
    let before = line.wrong(EXPECTED);
    match line.word(EXPECTED)? {
        "INT" => Ok(Signal::Int),
        "TERM" => Ok(Signal::Term),
        "KILL" => Ok(Signal::Kill),
        _ => Err(before),
    }
}
