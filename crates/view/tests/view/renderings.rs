//! Whole conversations in all three renderings.
//!
//! `ferry.jsonl` is a session file written by hand to hold every kind of card; the captures are what
//! the CLI itself printed.

use std::path::{Path, PathBuf};

use towpath_view::terminal::{ColourMode, StyledLine};
use towpath_view::{Conversation, Fold, html, telegram, terminal};

const WIDTH: usize = 80;

fn folded(path: &Path) -> Conversation {
    let text = std::fs::read(path).expect("a readable file");
    let mut fold = Fold::new();
    for (number, line) in text.split(|&byte| byte == b'\n').enumerate() {
        fold.push_line(number as u64 + 1, line);
    }
    fold.conversation(usize::MAX)
}

fn as_html(conversation: &Conversation, full: bool) -> String {
    let options = html::HtmlOptions { base: conversation.head.cwd.as_deref(), full };
    let mut out = String::new();
    html::items(&conversation.items, options, &mut out);
    for turn in &conversation.turns {
        html::turn_end(turn, options, &mut out);
    }
    out
}

fn as_lines(conversation: &Conversation, full: bool, width: usize) -> Vec<StyledLine> {
    let options = terminal::TerminalOptions { width, base: conversation.head.cwd.as_deref(), full };
    let items: Vec<_> = conversation.items.iter().collect();
    let mut lines = terminal::items(&items, options);
    for turn in &conversation.turns {
        lines.extend(terminal::turn_end(turn, options));
    }
    lines.push(terminal::status(&conversation.status, Some(0), options));
    lines
}

fn as_messages(conversation: &Conversation, full: bool) -> Vec<telegram::RenderedMessage> {
    let options = telegram::TelegramOptions { base: conversation.head.cwd.as_deref(), full };
    let items: Vec<_> = conversation.items.iter().collect();
    telegram::items(&items, options).messages(telegram::LIMIT)
}

fn ferry() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/view/ferry.jsonl")
}

fn captures() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    let mut found = Vec::new();
    let mut folders = vec![root];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jsonl") {
                found.push(path);
            }
        }
    }
    assert!(found.len() > 100, "{} captures", found.len());
    found.sort();
    found
}

fn snapshots(name: &str, path: &Path) {
    let conversation = folded(path);
    insta::assert_snapshot!(format!("{name}_html"), as_html(&conversation, false));
    let lines: Vec<_> = as_lines(&conversation, false, WIDTH)
        .iter()
        .map(|line| line.paint(ColourMode::Off))
        .collect();
    insta::assert_snapshot!(format!("{name}_terminal"), lines.join("\n"));
    let messages: Vec<_> =
        as_messages(&conversation, true).into_iter().map(|message| message.html).collect();
    insta::assert_snapshot!(format!("{name}_telegram"), messages.join("\n--- next message ---\n"));
}

#[test]
fn a_session_with_every_kind_of_card_looks_as_it_should() {
    snapshots("ferry", &ferry());
}

#[test]
fn representative_captures_look_as_they_should() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../captures");
    for name in [
        "2.1.325/stdout/tools-misc.jsonl",
        "2.1.325/stdout/subagent-plain.jsonl",
        "2.1.260/transcript/compact.jsonl",
        "2.1.37/stdout/permission-exitplan.jsonl",
        "1.0.128/stdout/thinking.jsonl",
    ] {
        snapshots(&name.replace(['/', '.'], "_"), &root.join(name));
    }
}

#[test]
fn colours_are_only_colours() {
    let painted: Vec<_> = as_lines(&folded(&ferry()), false, WIDTH)
        .iter()
        .map(|line| line.paint(ColourMode::On))
        .collect();
    let painted = painted.join("\n");
    assert!(painted.contains("\x1b[32m"), "there are colours");
    assert_only_colours(&painted);
}

fn assert_only_colours(painted: &str) {
    for sequence in painted.split('\x1b').skip(1) {
        let end = sequence.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(0);
        assert!(sequence.starts_with('[') && &sequence[end..=end] == "m", "{sequence:?}");
    }
    let rest = painted.replace(['\x1b', '\n'], "");
    assert!(!rest.contains(char::is_control), "control characters");
}

#[test]
fn every_capture_is_rendered_in_every_way() {
    for path in captures() {
        let conversation = folded(&path);
        for full in [false, true] {
            assert_well_formed(&as_html(&conversation, full), &path);
            for width in [24, 80] {
                for line in as_lines(&conversation, full, width) {
                    assert_only_colours(&line.paint(ColourMode::On));
                    assert!(line.width() <= width, "{}: {:?}", path.display(), line.text());
                }
            }
            for message in as_messages(&conversation, full) {
                assert_well_formed(&message.html, &path);
                assert!(message.plain.encode_utf16().count() <= telegram::LIMIT);
            }
        }
    }
}

#[test]
fn a_page_stands_alone_and_its_tags_are_closed() {
    let conversation = folded(&ferry());
    let mut timeline = html::Timeline::default();
    timeline.turn(1);
    timeline.context(2, 1000);
    timeline.context(5, 2000);
    timeline.call(3, towpath_view::ToolAction::Edit, false);
    let totals = html::PageTotals {
        first_prompt: Some("<script>alert(1)</script> & \"so\" on".to_owned()),
        ..html::PageTotals::default()
    };
    let mut page = html::page_head(
        &conversation.head,
        conversation.agent.as_ref(),
        &totals,
        &timeline,
        html::CspNonce(7),
    );
    page.push_str(&as_html(&conversation, false));
    page.push_str(&html::page_foot(&conversation.head, html::CspNonce(7)));
    let (before, rest) =
        page.split_once("<style nonce=\"00000000000000000000000000000007\">").unwrap();
    let (_, rest) = rest.split_once("</style>").unwrap();
    let (middle, rest) =
        rest.split_once("<script nonce=\"00000000000000000000000000000007\">").unwrap();
    let (script, end) = rest.split_once("</script>").unwrap();
    assert_well_formed(&format!("{before}{middle}{end}"), &ferry());
    assert!(!script.contains('<') || !script.contains("</"), "the script ends where it should");
    // Links may lead out; nothing may be fetched.
    for loads in [" src=", "@import", "url(", "<link", "<img", "<iframe", "fetch(", "XMLHttp"] {
        assert!(!page.contains(loads), "{loads}");
    }
    assert!(page.contains("default-src 'none'") && !page.contains("unsafe"));
}

/// Every tag that is opened is closed, in order.
#[track_caller]
fn assert_well_formed(html: &str, path: &Path) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        let end = rest[start..].find('>').map_or(rest.len(), |end| start + end);
        let tag = &rest[start + 1..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        let name = tag.trim_start_matches('/').split([' ', '\n', '/']).next().unwrap_or_default();
        if tag.starts_with('/') {
            assert_eq!(
                open.pop(),
                Some(name),
                "{} at {:?}",
                path.display(),
                &rest[..rest.len().min(80)]
            );
        } else if !tag.ends_with('/')
            && !matches!(name, "br" | "hr" | "meta" | "input" | "!doctype")
        {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "{}: unclosed {open:?}", path.display());
}

#[test]
fn what_an_agent_names_and_prints_is_text_everywhere() {
    let hostile =
        r#"</pre></details><img src=x onerror=alert(1)>\u001b]0;owned\u0007\u001b[2J'\"`&"#;
    let lines = [
        format!(
            r#"{{"type":"system","subtype":"init","session_id":"{hostile}","cwd":"/p","model":"{hostile}","tools":[]}}"#
        ),
        format!(
            r#"{{"type":"assistant","message":{{"id":"m1","content":[{{"type":"tool_use","id":"{hostile}","name":"{hostile}","input":{{"file_path":"{hostile}","x":"{hostile}"}}}}]}}}}"#
        ),
        format!(
            r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"{hostile}","content":"{hostile}","is_error":true}}]}}}}"#
        ),
        format!(
            r#"{{"type":"assistant","message":{{"id":"m2","content":[{{"type":"tool_use","id":"t2","name":"Edit","input":{{"file_path":"/p/{hostile}","old_string":"{hostile}","new_string":"x{hostile}"}}}},{{"type":"tool_use","id":"t3","name":"Bash","input":{{"command":"{hostile}","description":"{hostile}"}}}},{{"type":"thinking","thinking":"{hostile}"}},{{"type":"text","text":"{hostile}"}}]}}}}"#
        ),
        format!(r#"{{"type":"{hostile}","subtype":"{hostile}"}}"#),
        format!(
            r#"{{"type":"result","subtype":"error_during_execution","is_error":true,"result":"{hostile}","session_id":"x"}}"#
        ),
        "</pre><img src=x onerror=alert(1)>\u{1b}]0;owned\u{7}".to_owned(),
    ];
    let mut fold = Fold::new();
    for (number, line) in lines.iter().enumerate() {
        fold.push_line(number as u64 + 1, line.as_bytes());
    }
    let conversation = fold.conversation(usize::MAX);
    assert!(conversation.items.len() >= 7, "{}", conversation.items.len());
    for full in [false, true] {
        let html = as_html(&conversation, full);
        assert_well_formed(&html, Path::new("hostile"));
        assert!(!html.contains("<img"), "{html}");
        for line in as_lines(&conversation, full, 60) {
            assert_only_colours(&line.paint(ColourMode::On));
        }
        for message in as_messages(&conversation, full) {
            assert_well_formed(&message.html, Path::new("hostile"));
            assert!(!message.html.contains("<img"), "{}", message.html);
        }
    }
    let (totals, timeline) = (html::PageTotals::default(), html::Timeline::default());
    let page = html::page_head(
        &conversation.head,
        conversation.agent.as_ref(),
        &totals,
        &timeline,
        html::CspNonce(7),
    );
    assert!(!page.contains("<img"), "{page}");
}

#[test]
fn a_terminal_keeps_the_line_breaks_of_an_answer() {
    let options = terminal::TerminalOptions { width: 40, base: None, full: false };
    let lines = terminal::markdown("Ann\nMain *Street\n1* b\n\n- c\n  d\n\n> e\n> f", options);
    let lines: Vec<String> = lines.iter().map(StyledLine::text).collect();
    assert_eq!(lines, ["Ann", "Main Street", "1 b", "", "• c", "  d", "", "│ e", "│ f"]);
}
