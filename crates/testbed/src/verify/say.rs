//! The lines that steps write to the agent.

use serde_json::{Value, json};
use uuid::Uuid;

use crate::scenario::{Names, Step, Target};

/// A picture of one red dot.
const DOT: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";

/// What a step writes; ids made for it become names.
///
/// An answer goes to the control request that was expected last, not to the one that came last:
/// of two that come at once, the order is nobody's to know.
pub(super) fn bytes(
    step: &Step,
    names: &mut Names,
    asks: &[(Option<String>, Value)],
) -> Result<Vec<u8>, String> {
    let line = match step {
        Step::Prompt { text, uuid, priority, image, with } => {
            let text = names.fill(text);
            let content = if *image {
                let source = json!({"type": "base64", "media_type": "image/png", "data": DOT});
                json!([{"type": "image", "source": source}, {"type": "text", "text": text}])
            } else {
                Value::String(text)
            };
            let mut line = json!({"type": "user", "message": {"role": "user", "content": content}});
            if let Some(name) = uuid {
                line["uuid"] = made(name, names).into();
            }
            if let Some(priority) = priority {
                line["priority"] = priority.as_str().into();
            }
            for (key, value) in with.iter().filter_map(Value::as_object).flatten() {
                line[key] = names.fill_value(value);
            }
            line
        }
        Step::Request { request, name } => {
            let id = match name {
                Some(name) => made(name, names),
                None => Uuid::new_v4().to_string(),
            };
            let request = names.fill_value(request);
            json!({"type": "control_request", "request_id": id, "request": request})
        }
        Step::Allow { input, permissions, target } => {
            let ask = asked(target, asks, Some("can_use_tool"))?;
            let input = input.as_ref().map(|input| names.fill_value(input));
            let input = input.unwrap_or_else(|| ask["request"]["input"].clone());
            let mut payload = json!({"behavior": "allow", "updatedInput": input});
            if let Some(permissions) = permissions {
                payload["updatedPermissions"] = names.fill_value(permissions);
            }
            success(ask, &payload)
        }
        Step::Deny { message, interrupt, target } => {
            let ask = asked(target, asks, Some("can_use_tool"))?;
            let mut payload = json!({"behavior": "deny", "message": names.fill(message)});
            if *interrupt {
                payload["interrupt"] = true.into();
            }
            success(ask, &payload)
        }
        Step::Answer { payload, target } => {
            success(asked(target, asks, None)?, &names.fill_value(payload))
        }
        Step::Fail { message, target } => {
            let id = &asked(target, asks, None)?["request_id"];
            let response =
                json!({"subtype": "error", "request_id": id, "error": names.fill(message)});
            json!({"type": "control_response", "response": response})
        }
        Step::Line(line) => names.fill_value(line),
        Step::Raw(text) => return Ok(names.fill(text).into_bytes()),
        other => return Err(format!("{other:?} writes nothing")),
    };
    Ok(format!("{line}\n").into_bytes())
}

/// An id that a name stands for: the one it has, so that it can be said again, or a new one.
fn made(name: &str, names: &mut Names) -> String {
    if let Some(known) = names.get(name) {
        return known.to_owned();
    }
    let id = Uuid::new_v4().to_string();
    names.set(name, &id);
    id
}

fn success(ask: &Value, payload: &Value) -> Value {
    let id = &ask["request_id"];
    let response = json!({"subtype": "success", "request_id": id, "response": payload});
    json!({"type": "control_response", "response": response})
}

fn asked<'a>(
    target: &Target,
    asks: &'a [(Option<String>, Value)],
    subtype: Option<&str>,
) -> Result<&'a Value, String> {
    let fits = |ask: &Value| subtype.is_none_or(|wanted| ask["request"]["subtype"] == wanted);
    let mut newest_first = asks.iter().rev();
    match target {
        Target::Newest => newest_first.map(|(_, ask)| ask).find(|ask| fits(ask)).ok_or_else(|| {
            let what = subtype.unwrap_or("control request");
            format!("no `{what}` was expected before this, so there is none to answer")
        }),
        Target::Named(wanted) => newest_first
            .find(|(name, _)| name.as_ref() == Some(wanted))
            .map(|(_, ask)| ask)
            .ok_or_else(|| format!("no control request is known as `{wanted}`")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::bytes;
    use crate::scenario::{Names, Scenario};

    fn said(steps: &str) -> Vec<Value> {
        let scenario = Scenario::parse("x", &format!("# T\n\n{steps}\n")).unwrap();
        let ask = |id: &str, command: &str| {
            json!({"type": "control_request", "request_id": id,
                "request": {"subtype": "can_use_tool", "input": {"command": command}}})
        };
        let asks = [(Some("first".to_owned()), ask("r1", "ls")), (None, ask("r2", "pwd"))];
        let mut names = Names::default();
        names.set("cwd", "/p");
        let steps = scenario.runs[0].what.steps.iter();
        let lines = steps.map(|step| bytes(&step.what, &mut names, &asks).unwrap());
        lines.map(|line| serde_json::from_slice(&line).unwrap()).collect()
    }

    #[test]
    fn an_answer_goes_to_the_newest_ask_or_the_one_named() {
        let lines = said(
            "> allow\n> allow {\"command\":\"$cwd\"} to first\n> deny \"no\" interrupt\n> fail \"x\" to first",
        );
        assert_eq!(
            lines,
            [
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r2",
                    "response": {"behavior": "allow", "updatedInput": {"command": "pwd"}}}}),
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r1",
                    "response": {"behavior": "allow", "updatedInput": {"command": "/p"}}}}),
                json!({"type": "control_response", "response": {"subtype": "success", "request_id": "r2",
                    "response": {"behavior": "deny", "message": "no", "interrupt": true}}}),
                json!({"type": "control_response", "response": {"subtype": "error", "request_id": "r1",
                    "error": "x"}}),
            ]
        );
    }

    #[test]
    fn an_id_once_made_is_said_again() {
        let lines = said(
            "> user \"a\" uuid one\n> user \"b\" uuid one priority later with {\"x\":\"$one\"}\n> user \"c\" image",
        );
        assert_eq!(lines[0]["uuid"], lines[1]["uuid"]);
        assert_eq!(lines[1]["x"], lines[0]["uuid"]);
        assert_eq!(lines[1]["priority"], "later");
        assert_eq!(lines[2]["message"]["content"][1], json!({"type": "text", "text": "c"}));
    }
}
