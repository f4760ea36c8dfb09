//! Tool inputs and results made readable: wrappers and line numbers removed, JSON indented.

use wire::json::MAX_DEPTH;

/// The part of a result that is meant for a person; empty if there is none.
///
/// The CLI wraps results for the model: tags around errors, a warning in front of a sub-agent's
/// report and its id behind it.
pub(crate) fn readable_result(text: &str) -> &str {
    let text = text.trim_matches('\n');
    if let Some(inside) = text
        .strip_prefix("<tool_use_error>")
        .and_then(|rest| rest.strip_suffix("</tool_use_error>"))
    {
        return inside;
    }
    // 2.1.325 answers like this when a sub-agent continues in the background; its report comes later.
    if text.starts_with("Async agent launched successfully") {
        return "";
    }
    // A denial tells the model to stop. The user only wants the reason, if there is one.
    if text.starts_with("The user doesn't want to proceed with this tool use.") {
        return text.split_once("the user said:\n").map_or("", |(_, reason)| reason);
    }
    // 2.1.325 wraps the report of a sub-agent.
    let report = match text.strip_prefix("[Subagent hand-back]") {
        Some(framed) => {
            framed.split_once("The report follows:\n").map_or(text, |(_, report)| report)
        }
        None => text,
    };
    match report.rfind("\nagentId: ") {
        Some(end) if report[end..].contains("SendMessage") => report[..end].trim_end(),
        _ => report,
    }
}

/// The text of a file without the line numbers that `Read` adds: `     1→` up to 2.1, a tab behind
/// the number later.
pub(crate) fn without_line_numbers(text: &str) -> String {
    let prefix = |line: &str| -> Option<usize> {
        let rest = line.trim_start_matches(' ');
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let separator =
            rest[digits..].chars().next().filter(|&c| digits > 0 && (c == '→' || c == '\t'))?;
        Some(line.len() - rest.len() + digits + separator.len_utf8())
    };
    if text.lines().next().and_then(prefix).is_none() {
        return text.to_owned();
    }
    let lines = text.split_inclusive('\n');
    lines.map(|line| prefix(line).map_or(line, |start| &line[start..])).collect()
}

/// JSON with line breaks and indentation, and not a byte of its values changed. Text that is not JSON
/// stays much as it is, and so does what nests deeper than [`MAX_DEPTH`].
pub(crate) fn indented_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.chars().peekable();
    let break_line = |out: &mut String, depth: usize| {
        if depth > MAX_DEPTH {
            return;
        }
        out.push('\n');
        // Extreme nesting must not produce long lines of blanks.
        out.extend(std::iter::repeat_n("  ", depth.min(40)));
    };
    while let Some(c) = characters.next() {
        if in_string {
            out.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '"' => {
                in_string = true;
                out.push(c);
            }
            '{' | '[' => {
                out.push(c);
                while characters.next_if(char::is_ascii_whitespace).is_some() {}
                if let Some(close) = characters.next_if(|c| matches!(c, '}' | ']')) {
                    out.push(close);
                } else {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                break_line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                break_line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{indented_json, readable_result};

    #[test]
    fn wrappers_are_removed_from_results() {
        let check = |text: &str, expected: &str| assert_eq!(readable_result(text), expected);
        check("plain", "plain");
        check("<tool_use_error>Error: no</tool_use_error>", "Error: no");
        check("Async agent launched successfully. (This tool result is internal …", "");
        check(
            "[Subagent hand-back] The text below … The report follows:\n  I did it.\nagentId: a1 (use \
             SendMessage with to: 'a1')\n<usage>x</usage>",
            "  I did it.",
        );
        let refusal =
            "The user doesn't want to proceed with this tool use. The tool use was rejected.";
        check(refusal, "");
        check(
            &format!("{refusal} To tell you how to proceed, the user said:\nuse tabs"),
            "use tabs",
        );
        check("see\nagentId: of yours", "see\nagentId: of yours");
    }

    #[test]
    fn json_members_get_lines_and_values_stay() {
        let json = r#"{"a":0.10,"b":[1,{"c":"x, {y}\" : "}],"d":{},"e":[ ]}"#;
        let expected = "{\n  \"a\": 0.10,\n  \"b\": [\n    1,\n    {\n      \"c\": \"x, {y}\\\" : \"\n    }\n  ],\n  \"d\": {},\n  \"e\": []\n}";
        assert_eq!(indented_json(json), expected);
        assert_eq!(indented_json(&indented_json(json)), expected);
        assert_eq!(indented_json(""), "");
    }

    #[test]
    fn what_nests_too_deep_is_not_indented_and_not_lost() {
        let json = "[".repeat(1_000_000) + "1,2" + &"]".repeat(1_000_000);
        let indented = indented_json(&json);
        assert!(indented.len() < json.len() + 50_000, "{}", indented.len());
        assert!(indented.contains("[[[1,2]]]"));
        let significant: String = indented.chars().filter(|c| !c.is_whitespace()).collect();
        assert_eq!(significant, json);
    }
}
