//! What a tool told the model, less what is meant for the model alone.
//!
//! The CLI puts frames around results: tags around errors, a warning in front of a sub-agent's
//! report and its id behind it. A person wants what stands inside. The record keeps all of it, and
//! so does who asks for everything.

/// The words of a result that are meant for a person; empty where none are.
pub(crate) fn for_a_person(text: &str) -> &str {
    let text = text.trim_matches('\n');
    if let Some(inside) = text
        .strip_prefix("<tool_use_error>")
        .and_then(|rest| rest.strip_suffix("</tool_use_error>"))
    {
        return inside;
    }
    // 2.1.325 answers so when a sub-agent goes on in the background; its own words come later.
    if text.starts_with("Async agent launched successfully") {
        return "";
    }
    // A refusal tells the model to stop; the person who refused knows, and may have said why.
    if text.starts_with("The user doesn't want to proceed with this tool use.") {
        return text.split_once("the user said:\n").map_or("", |(_, reason)| reason);
    }
    // 2.1.325 frames the report of a sub-agent.
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

#[cfg(test)]
mod tests {
    use super::for_a_person;

    #[test]
    fn frames_are_taken_away_and_words_are_left() {
        let check = |text: &str, expected: &str| assert_eq!(for_a_person(text), expected);
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
}
