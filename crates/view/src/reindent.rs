//! JSON with a line for each member, and not a byte of its values changed.

/// JSON with line breaks and indentation; text that is no JSON comes out much as it went in.
pub(crate) fn reindented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    let mut characters = json.chars().peekable();
    let break_line = |out: &mut String, depth: usize| {
        out.push('\n');
        // Nesting beyond what anybody reads must not make lines of blanks.
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
    use super::reindented;

    #[test]
    fn members_get_lines_and_values_stay() {
        let json = r#"{"a":0.10,"b":[1,{"c":"x, {y}\" : "}],"d":{},"e":[ ]}"#;
        let expected = "{\n  \"a\": 0.10,\n  \"b\": [\n    1,\n    {\n      \"c\": \"x, {y}\\\" : \"\n    }\n  ],\n  \"d\": {},\n  \"e\": []\n}";
        assert_eq!(reindented(json), expected);
        assert_eq!(reindented(&reindented(json)), expected);
        assert_eq!(reindented(""), "");
    }
}
