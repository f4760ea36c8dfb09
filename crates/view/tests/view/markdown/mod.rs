//! Markdown that arrives in chunks renders like the whole text.

mod formulas;
mod fragments;
mod hostile;

use std::path::PathBuf;

use fragments::{DEFINITIONS, FRAGMENTS};
use proptest::prelude::*;
use towpath_view::html::{StreamingHtml, markdown, render_block};
use towpath_view::markdown::MarkdownBlock;

/// The rendering of the whole text in one pass, by the parser's own idea of where blocks end.
fn in_one_pass(text: &str) -> String {
    let mut out = String::new();
    render_block(&MarkdownBlock::whole(text), &mut out);
    out
}

/// The rendering in chunks of `length` characters; what is closed must never change.
fn in_chunks(text: &str, length: usize) -> String {
    let mut html = StreamingHtml::new();
    let mut shown = String::new();
    let characters: Vec<_> = text.chars().collect();
    for chunk in characters.chunks(length) {
        html.push(&chunk.iter().collect::<String>());
        assert!(html.closed().starts_with(&shown), "what was closed changed in {text:?}");
        html.closed().clone_into(&mut shown);
    }
    html.finish();
    assert!(html.closed().starts_with(&shown), "what was closed changed in {text:?}");
    assert_eq!(html.open(), "");
    html.closed().to_owned()
}

/// The examples of the `CommonMark` specification and of the parser's extensions; empty if the parser's
/// source is not available.
///
/// The specification's licence does not allow a copy here, but the parser's own source, which cargo
/// has fetched to build it, contains the examples as tests.
#[expect(clippy::disallowed_methods, reason = "the environment says where cargo keeps sources")]
fn specification_examples() -> Vec<String> {
    let home = std::env::var_os("CARGO_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo")));
    let folders = |path: PathBuf| {
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let Some(home) = home else { return Vec::new() };
    let mut examples = Vec::new();
    for source in folders(home.join("registry/src")).flat_map(folders) {
        let name = source.file_name().map(|name| name.to_string_lossy().into_owned());
        if !name.is_some_and(|name| name.starts_with("pulldown-cmark-0.13")) {
            continue;
        }
        for file in folders(source.join("tests/suite")) {
            let text = std::fs::read_to_string(file).unwrap_or_default();
            // `let original = r##"…"##;`
            examples.extend(
                text.split("let original = r##\"")
                    .skip(1)
                    .filter_map(|rest| rest.split_once("\"##;"))
                    .map(|(example, _)| example.to_owned()),
            );
        }
    }
    examples
}

#[track_caller]
fn check(text: &str) {
    let whole = in_one_pass(text);
    assert_eq!(markdown(text), whole, "block by block: {text:?}");
    assert_eq!(in_chunks(text, 1), whole, "character by character: {text:?}");
    assert_eq!(in_chunks(text, 7), whole, "in spans: {text:?}");
}

#[test]
fn every_construct_alone_is_the_same_in_chunks() {
    for fragment in FRAGMENTS.iter().chain(DEFINITIONS) {
        for end in ["", "\n", "\n\n", " \n\t\n\n"] {
            check(&format!("{fragment}{end}"));
        }
        check(&fragment.replace('\n', "\r\n"));
    }
}

#[test]
fn every_construct_behind_every_other_is_the_same_in_chunks() {
    for first in FRAGMENTS {
        for second in FRAGMENTS {
            for text in [format!("{first}\n{second}\n"), format!("{first}\n\n{second}")] {
                let whole = in_one_pass(&text);
                assert_eq!(in_chunks(&text, 3), whole, "in spans: {text:?}");
            }
        }
    }
}

#[test]
fn the_examples_of_the_specification_are_the_same_in_chunks() {
    let examples = specification_examples();
    if examples.is_empty() {
        println!("skipped: the parser's source with the examples is not available");
        return;
    }
    assert!(examples.len() > 600, "{}", examples.len());
    for text in examples {
        // Pieces are the same as the whole for every example; the whole is the parser's own pass
        // unless a definition comes behind what refers to it.
        let whole = markdown(&text);
        assert_eq!(in_chunks(&text, 1), whole, "character by character: {text:?}");
        assert_eq!(in_chunks(&text, 7), whole, "in spans: {text:?}");
        if !text.contains("]:") {
            assert_eq!(whole, in_one_pass(&text), "block by block: {text:?}");
        }
        hostile::assert_only_our_tags(&whole, &text);
    }
}

#[test]
fn definitions_serve_what_comes_behind_them() {
    for definition in DEFINITIONS {
        for fragment in FRAGMENTS {
            check(&format!("{definition}\n{fragment}\n"));
            check(&format!("{definition}\n\n{fragment}\n"));
            check(&format!("lead\n\n{definition}\n\nbetween\n\n{fragment}"));
        }
    }
}

#[test]
fn definitions_do_not_reach_back_into_closed_blocks() {
    let text = "[foo] first\n\n[foo]: https://def\n\n[foo] second\n";
    let expected = "<p>[foo] first</p>\n<p><a href=\"https://def\" rel=\"noopener noreferrer \
                    nofollow\" target=\"_blank\">foo</a> second</p>\n";
    assert_eq!(markdown(text), expected);
    assert_eq!(in_chunks(text, 1), expected);
    assert_eq!(in_chunks(text, 5), expected);
}

#[test]
fn a_block_is_final_as_soon_as_nothing_can_change_it() {
    for (text, closed) in [
        ("para\n", ""),
        ("para\n\n", "<p>para</p>\n"),
        ("# head\n", "<h1>head</h1>\n"),
        ("# head", ""),
        ("```\na\n```\n", "<pre class=\"code\"><code>a\n</code></pre>\n"),
        ("```\na\n\n", ""),
        ("- a\n\n", ""),
        ("- a\n\nb\n", "<ul>\n<li>a</li>\n</ul>\n"),
        ("---\n", "<hr>\n"),
        ("> a\n\n", "<blockquote>\n<p>a</p>\n</blockquote>\n"),
    ] {
        let mut html = StreamingHtml::new();
        html.push(text);
        assert_eq!(html.closed(), closed, "{text:?}");
    }
}

#[test]
fn code_gets_its_colours_when_its_fence_closes() {
    let mut html = StreamingHtml::new();
    html.push("```rust\nfn main() {}\n");
    assert!(!html.open().contains("<span"));
    html.push("```\n");
    assert!(html.closed().contains("<span class=tf>main</span>"), "{}", html.closed());
}

/// Time of this thread, not of the clock: other work on the machine does not count.
#[test]
fn a_long_answer_costs_a_multiple_of_its_length() {
    let paragraph = "Some words about a thing, `code`, **strong** and a [link](https://a.b/c).\n";
    for unit in [
        format!("{paragraph}\n"),
        format!("- {paragraph}"),
        paragraph.to_owned(),
        format!("> {paragraph}"),
        format!("```\n{paragraph}"),
        format!("| a | {} |\n", paragraph.trim()),
        "The sum $\\sum_{i=1}^n \\frac{1}{i}$ of \\(a_i\\), for $5.\n".to_owned(),
        "$$\n\\begin{aligned} a &= b \\\\ c &= d \\end{aligned}\n$$\n\n".to_owned(),
        "Unfinished \\( and $a_1 and \\[ so on\n".to_owned(),
    ] {
        let lead = if unit.starts_with('|') { "| x | y |\n|---|---|\n" } else { "" };
        let mut cost = [0_u128; 2];
        for (cost, kilobytes) in cost.iter_mut().zip([64, 512]) {
            let text = format!("{lead}{}", unit.repeat(kilobytes * 1024 / unit.len()));
            let begun = cpu_time::ThreadTime::now();
            let mut html = StreamingHtml::new();
            let mut rest = text.as_str();
            while !rest.is_empty() {
                let (chunk, behind) = rest.split_at(rest.len().min(100));
                html.push(chunk);
                html.open();
                rest = behind;
            }
            html.finish();
            *cost = begun.elapsed().as_micros().max(1);
        }
        // Eight times the text; the square would be 64 times the cost.
        assert!(cost[1] < 32 * cost[0], "{unit:?}: {cost:?} µs");
    }
}

#[test]
fn an_indented_footnote_after_another_is_the_same_in_chunks() {
    for text in [
        "[^2]: note two\n    [^2]: note two\n",
        "[^1]: a\n\t[^2]: b\n\nc\n",
        "[^1]: a\n\n    code\n",
    ] {
        let whole = in_one_pass(text);
        assert_eq!(markdown(text), whole, "{text:?}");
        assert_eq!(in_chunks(text, 1), whole, "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn constructs_in_any_order_are_the_same_in_chunks(
        picks in prop::collection::vec((prop::sample::select(FRAGMENTS), prop::sample::select(&["\n", "\n\n", " ", "\n  ", "\n    ", "\n> ", "\n- ", "\n\n\n"][..])), 1..8),
        length in 1_usize..20,
    ) {
        let text: String = picks.iter().flat_map(|(fragment, between)| [*fragment, *between]).collect();
        let whole = in_one_pass(&text);
        prop_assert_eq!(&markdown(&text), &whole, "block by block: {:?}", &text);
        prop_assert_eq!(&in_chunks(&text, length), &whole, "in spans: {:?}", &text);
    }

    #[test]
    fn any_text_is_rendered_and_its_tags_are_ours(text in "[ -~\n\t<>&\"'`*_\\[\\]()!|#é\u{202e}-]{0,200}") {
        hostile::assert_only_our_tags(&markdown(&text), &text);
    }
}
