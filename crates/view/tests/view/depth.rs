//! Values and markup that nest very deep, in every kind of line and at every field of it.
//!
//! Everything runs with a small stack, so that a recursive function fails here and not in production.

use std::collections::BTreeMap;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use serde_json::Value;
use towpath_view::{Fold, Item, html, telegram, terminal};
use wire::consent;

const PLACEHOLDER: &str = "@deep@";

fn with_small_stack(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(512 << 10);
    thread.spawn(test).expect("a thread").join().expect("no panic and no overflow");
}

/// Nests of arrays, objects and both, and one that is never closed.
fn nests(depth: usize) -> [String; 4] {
    let object = "{\"a\":";
    [
        "[".repeat(depth) + &"]".repeat(depth),
        object.repeat(depth) + "1" + &"}".repeat(depth),
        "[{\"error\":".repeat(depth / 2) + "{}" + &"}]".repeat(depth / 2),
        "{\"error\":".repeat(depth),
    ]
}

/// One line of every kind, the shortest of each.
fn lines_by_kind() -> BTreeMap<String, String> {
    let mut lines: BTreeMap<String, String> = BTreeMap::new();
    for record in crate::fold::captures() {
        for (_, line) in record.lines {
            let Ok(text) = String::from_utf8(line) else { continue };
            let Some(kind) = wire::read(text.as_bytes()).next().and_then(|it| it.kind()) else {
                continue;
            };
            let known = lines.entry(kind.to_string()).or_insert_with(|| text.clone());
            if text.len() < known.len() {
                *known = text;
            }
        }
    }
    for line in [
        r#"{"type":"error","error":{"type":"x","message":"m"},"message":"m"}"#,
        r#"{"type":"tool_use","id":"t","toolName":"Bash","toolInput":{"command":"ls"}}"#,
        r#"{"type":"tool_result","toolUseId":"t","isError":false,"content":"ok"}"#,
        r#"{"type":"permission_request","prompt":"p","metadata":{}}"#,
        r#"{"type":"text","text":"t"}"#,
        r#"{"type":"brand_new","subtype":"s","data":{"a":[1]}}"#,
        r#"{"type":"control_request","request_id":"r","request":{"subtype":"brand_new","a":1}}"#,
        r#"{"type":"stream_event","event":{"type":"error","error":{"type":"x","message":"m"}}}"#,
        r#"{"type":"towpath","note":"title_changed","title":"t"}"#,
    ] {
        lines.insert(format!("added {line}"), line.to_owned());
    }
    lines
}

/// The line with each of its values replaced in turn.
fn with_placeholders(line: &str) -> Vec<String> {
    fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
        if let Value::Object(fields) = value {
            for (key, child) in fields {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                found.push(path.clone());
                paths(child, &path, found);
            }
        } else if let Value::Array(items) = value
            && let Some(first) = items.first()
        {
            found.push(format!("{path}/0"));
            paths(first, &format!("{path}/0"), found);
        }
    }
    let value: Value = serde_json::from_str(line).expect("an object");
    let mut found = Vec::new();
    paths(&value, "", &mut found);
    let replaced = found.iter().map(|path| {
        let mut changed = value.clone();
        *changed.pointer_mut(path).expect("a path") = Value::from(PLACEHOLDER);
        changed.to_string()
    });
    replaced.collect()
}

/// Reads, folds and renders a line in every way there is.
fn process(line: &str) {
    for part in wire::read(line.as_bytes()) {
        let _ = (part.clone(), wire::TurnSignal::of(&part), wire::Kind::find(line.as_bytes()));
        if let Some(event) = part.event() {
            let _ = event.unmodelled();
            wire::analysis::ToolCalls::default().observe(event, |_| {});
        }
    }
    let mut fold = Fold::new();
    fold.push_line(1, line.as_bytes());
    fold.push_line(2, br#"{"type":"keep_alive"}"#);
    let document = fold.conversation(usize::MAX);
    for request in &document.requests {
        assert!(!request.disclosures().is_empty() || request.input == "{}");
        for rule in consent::rules(&request.tool, &request.input, "/home/ann/project") {
            let covers = |input: &str| {
                let pattern = rule.pattern.as_deref();
                consent::covers(&rule.tool, rule.kind, pattern, &request.tool, input)
            };
            assert!(covers(&request.input));
            assert!(!covers("[]"));
        }
    }
    let _ = (format!("{document:?}").len(), fold.patches(towpath_view::Revision(0)));
    Fold::restore(&fold.save()).expect("a saved fold");
    render(&document.items);
}

/// The length of all renderings.
fn render(items: &[Item]) -> usize {
    let all: Vec<&Item> = items.iter().collect();
    let mut length = 0;
    for full in [false, true] {
        let mut out = String::new();
        html::items(items, html::HtmlOptions { base: None, full }, &mut out);
        length += out.len();
        let options = terminal::TerminalOptions { width: 80, base: None, full };
        length += terminal::items(&all, options).iter().map(|it| it.text().len()).sum::<usize>();
        let text = telegram::items(&all, telegram::TelegramOptions { base: None, full });
        length += text.messages(telegram::LIMIT).iter().map(|it| it.html.len()).sum::<usize>();
    }
    length
}

#[test]
fn deep_values_in_any_field_of_any_line_are_read_and_shown() {
    with_small_stack(|| {
        let nests = nests(5_000);
        let mut turn = 0;
        for line in lines_by_kind().values() {
            for replaced in with_placeholders(line) {
                turn += 1;
                process(&replaced.replace(&format!("\"{PLACEHOLDER}\""), &nests[turn % 4]));
            }
        }
        assert!(turn > 300, "{turn} lines");
    });
}

#[test]
fn a_million_levels_are_read_and_shown() {
    with_small_stack(|| {
        let nests = nests(1_000_000);
        for (number, line) in [
            r#"{"type":"error","error":"@deep@"}"#,
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Use","input":"@deep@"}]}}"#,
            r#"{"type":"assistant","message":{"content":"@deep@"}}"#,
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"@deep@"}]},"tool_use_result":{"structuredPatch":"@deep@"}}"#,
            r#"{"type":"result","subtype":"success","errors":"@deep@","usage":"@deep@"}"#,
            r#"{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"Use","input":{"a":"@deep@"}}}"#,
            r#"{"type":"control_request","request_id":"r","request":"@deep@"}"#,
            r#"{"type":"brand_new","a":"@deep@"}"#,
            r#"{"a":"@deep@","type":"system","subtype":"init"}"#,
            "@deep@",
        ]
        .into_iter()
        .enumerate()
        {
            for nest in [&nests[number % 3], &nests[3]] {
                let quoted = format!("\"{PLACEHOLDER}\"");
                process(&line.replace(&quoted, nest).replace(PLACEHOLDER, nest));
            }
        }
    });
}

#[test]
fn a_kind_is_known_whatever_nests_in_the_line() {
    let nest = &nests(1_000_000)[2];
    for (line, kind) in [
        (format!(r#"{{"type":"result","subtype":"success","usage":{nest}}}"#), "result/success"),
        (format!(r#"{{"usage":{nest},"type":"result","subtype":"x"}}"#), "result/x"),
        (format!(r#"{{"type":"error","error":{nest}}}"#), "error"),
    ] {
        let read = wire::read(line.as_bytes()).next().expect("a reading");
        assert_eq!(read.kind().expect("a kind").to_string(), kind);
        assert_eq!(read.bytes, line.as_bytes());
    }
}

/// A conversation of one answer.
fn answer(text: &str) -> Vec<Item> {
    let mut fold = Fold::new();
    let text = serde_json::to_string(text).expect("a string");
    let line = format!(
        r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":{text}}}]}}}}"#
    );
    fold.push_line(1, line.as_bytes());
    fold.conversation(usize::MAX).items
}

/// Markdown that nests `depth` levels deep, with as many lines behind.
fn deep_markdown(depth: usize) -> Vec<String> {
    let lines = "y\n".repeat(depth / 4);
    let mut texts: Vec<String> = [">", "> ", "- ", "1. ", "> - ", "* "]
        .iter()
        .flat_map(|marker| {
            let first = marker.repeat(depth);
            [format!("{first}x\n{lines}"), format!("{first}x\n{}", "\n".repeat(depth / 4))]
        })
        .collect();
    for (open, close) in
        [("*a ", "b*"), ("**a ", "b**"), ("~~a ", "b~~"), ("[", "](u)"), ("*_", "_*")]
    {
        texts.push(open.repeat(depth) + "x" + &close.repeat(depth));
    }
    texts.push("[a](https://b) ".repeat(depth));
    texts.push("(\n".repeat(depth.min(20_000)));
    texts.push(format!("```js\n{}```\n", "f(\n".repeat(depth.min(20_000))));
    texts
}

#[test]
fn markup_that_nests_deep_is_shown() {
    with_small_stack(|| {
        let deepest = ["> ", "- "].map(|marker| marker.repeat(100_000) + "x\ny\n\ny");
        for text in deep_markdown(10_000).into_iter().chain(deepest) {
            let shown = render(&answer(&text));
            assert!(shown < 100 * text.len(), "{shown} from {} {:.20}", text.len(), text);
        }
    });
}

#[test]
fn agents_that_start_each_other_are_shown() {
    with_small_stack(|| {
        let mut fold = Fold::new();
        for number in 1..10_000_u64 {
            let parent = number - 1;
            let line = format!(
                r#"{{"type":"assistant","parent_tool_use_id":"t{parent}","message":{{"id":"m{number}","content":[{{"type":"tool_use","id":"t{number}","name":"Task","input":{{"prompt":"p"}}}}]}}}}"#
            );
            fold.push_line(number, line.as_bytes());
        }
        let items = fold.conversation(usize::MAX).items;
        let mut out = String::new();
        html::items(&items, html::HtmlOptions::default(), &mut out);
        assert_eq!(out.matches("class=\"item call").count(), items.len(), "all are shown");
    });
}

/// How long this thread has computed. Other programs on the same machine must not matter, so the
/// time on the clock is only used where the system does not say.
fn computing_time() -> Duration {
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds =
        statistics.and_then(|text| text.split_whitespace().next().and_then(|it| it.parse().ok()));
    nanoseconds.map_or_else(|| START.elapsed(), Duration::from_nanos)
}

/// The shortest of three runs.
fn time(work: impl Fn()) -> Duration {
    let run = || {
        let start = computing_time();
        work();
        computing_time().saturating_sub(start)
    };
    (0..3).map(|_| run()).min().unwrap_or_default()
}

/// Eight times the size may take eight times as long, not sixty-four times.
#[test]
fn the_time_for_deep_nesting_grows_with_the_size_and_not_with_its_square() {
    with_small_stack(|| {
        const SMALL: usize = 2_000;
        let check = |name: &str, small: &dyn Fn(), large: &dyn Fn()| {
            let floor = Duration::from_millis(20);
            let (small, large) = (time(small).max(floor), time(large));
            assert!(
                large < small * 32,
                "{name}: {small:?}, and {large:?} for eight times the size"
            );
        };
        for (small, large) in deep_markdown(SMALL).iter().zip(deep_markdown(8 * SMALL)) {
            check(&small[..20], &|| _ = render(&answer(small)), &|| {
                _ = render(&answer(&large));
            });
        }
        for (small, large) in nests(SMALL).iter().zip(nests(8 * SMALL)) {
            let line = |nest: &str| format!(r#"{{"type":"error","error":{nest}}}"#);
            check("error", &|| process(&line(small)), &|| process(&line(&large)));
        }
    });
}
