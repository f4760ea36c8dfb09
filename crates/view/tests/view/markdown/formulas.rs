//! Formulas and footnotes.

use proptest::prelude::*;
use towpath_view::html::{StreamingHtml, markdown};
use towpath_view::terminal::{TerminalOptions, markdown as terminal_markdown};

use super::hostile::assert_only_our_tags;

const WIDE: TerminalOptions<'_> = TerminalOptions { width: 80, base: None, full: false };

#[test]
fn formulas_are_mathml() {
    let html = markdown("so $x^2$.");
    assert_eq!(
        html,
        "<p>so <span class=\"math\"><math display=\"inline\"><msup><mi>x</mi><mn>2</mn></msup></math></span>.</p>\n"
    );
    for text in ["\\(x^2\\)", "$$x^2$$", "\\[x^2\\]", "- $x^2$", "| $x^2$ |\n|---|\n| a |"] {
        let html = markdown(text);
        assert!(html.contains("<msup><mi>x</mi><mn>2</mn></msup>"), "{html}");
        assert_only_our_tags(&html, text);
    }
    let html = markdown("$$\\begin{aligned} a &< b \\\\ c &= \\text{if } d \\end{aligned}$$");
    assert!(html.contains("display=\"block\"") && html.contains("<mtable"), "{html}");
    assert!(html.contains("&lt;"), "{html}");
}

#[test]
fn prices_are_no_formulas_and_keep_their_emphasis() {
    let html = markdown("It is $5 and *not* $6.");
    assert_eq!(html, "<p>It is $5 and <em>not</em> $6.</p>\n");
}

#[test]
fn what_is_no_latex_is_shown_as_it_was_written() {
    assert_eq!(markdown("$\\frac{a_1$"), "<p><code class=\"math\">$\\frac{a_1$</code></p>\n");
    let long = format!("${}$", "x_1+".repeat(5000));
    assert!(!markdown(&long).contains("<math"));
    let deep = format!("${}x{}$", "\\sqrt{".repeat(600), "}".repeat(600));
    assert!(!markdown(&deep).contains("<math"));
}

#[test]
fn a_block_has_a_bounded_amount_of_mathml() {
    let html = markdown(&"$x$ ".repeat(100_000));
    assert!(html.matches("<math").count() > 10_000);
    assert!(html.len() < 5 << 20, "{}", html.len());
}

#[test]
fn a_formula_that_is_being_written_changes_once() {
    let text = "so $a_1 * b_1 * c$ is *it*";
    let mut html = StreamingHtml::new();
    let mut forms: Vec<&str> = Vec::new();
    for c in text.chars() {
        html.push(c.encode_utf8(&mut [0; 4]));
        let open = html.open();
        let form = if open.contains("<math") {
            "math"
        } else if open.contains("<em>") {
            "emphasis"
        } else {
            "text"
        };
        if forms.last() != Some(&form) {
            forms.push(form);
        }
    }
    assert_eq!(forms, ["text", "math"]);
}

#[test]
fn a_long_open_list_with_formulas_stays_well_formed() {
    let mut html = StreamingHtml::new();
    for n in 0..3000 {
        html.push(&format!("- item {n} with $x_{{{n}}}^2$\n"));
        let open = html.open().to_owned();
        if n % 50 == 0 {
            assert_only_our_tags(&format!("{}{open}", html.closed()), "the list");
        }
    }
}

#[test]
fn footnotes_have_labels_that_match() {
    let html =
        markdown("One[^1] and two[^note2].\n\n[^1]: The first.\n\n[^note2]: The *second*.\n");
    assert_eq!(
        html,
        "<p>One<sup>1</sup> and two<sup>note2</sup>.</p>\n\
         <div class=\"footnote\"><sup>1</sup>\n<p>The first.</p>\n</div>\n\
         <div class=\"footnote\"><sup>note2</sup>\n<p>The <em>second</em>.</p>\n</div>\n"
    );
    assert_eq!(markdown("the class [^a-z] and [^abc]"), "<p>the class [^a-z] and [^abc]</p>\n");
}

#[test]
fn terminals_show_formulas_in_unicode_and_footnotes_with_their_labels() {
    let text = "so $x^2$[^1]\n\n$$\n\\frac{a}{b} \\le c\n$$\n\n\\[\\begin{matrix}a\\end{matrix}\\]\n\n[^1]: why";
    let lines: Vec<_> = terminal_markdown(text, WIDE)
        .iter()
        .map(towpath_view::terminal::StyledLine::text)
        .collect();
    assert_eq!(
        lines,
        ["so x²[1]", "", "a/b ≤ c", "", "\\begin{matrix}a\\end{matrix}", "", "[1] why"]
    );
}

/// Pieces of LaTeX, most of them wrong together.
const PIECES: &[&str] = &[
    "x",
    "1",
    "^",
    "_",
    "{",
    "}",
    "\\frac",
    "\\sqrt",
    "[",
    "]",
    "\\left(",
    "\\right)",
    "\\left",
    "\\right",
    "\\begin{matrix}",
    "\\end{matrix}",
    "\\begin{array}{c|c}",
    "\\end{array}",
    "\\begin{cases}",
    "\\end{cases}",
    "&",
    "\\\\",
    "\\\\[1em]",
    "\\hline",
    "\\text{a <b>}",
    "\\text{",
    "\\mathbb{R}",
    "\\operatorname{<}",
    "\\operatorname",
    "\\not",
    "<",
    ">",
    "\\color{red}",
    "\\textcolor{blue}{x}",
    "\\hspace{1em}",
    "\\rule{1em}{2em}",
    "\\sum",
    "\\limits",
    "\\big",
    "\\Big(",
    "'",
    "''",
    "\\hat",
    "\\overbrace{x}",
    "\\underset{a}{b}",
    "\\def\\a{x}",
    "\\a",
    "#1",
    "%",
    "~",
    "\\,",
    "\\!",
    "\\quad",
    "\\middle|",
    "\\substack{a\\\\b}",
    "\\binom{n}{k}",
    "\\genfrac(){0pt}{}{a}{b}",
    "\\mathrm{d}",
    "\\boldsymbol{x}",
    "\\tag{1}",
    "\\label{x}",
    "\\begin",
    "\\end",
    "\\begin{align}",
    "\\end{align}",
    "é",
    "𝔼",
    "\0",
    "\\begin{CD}",
    "\\char",
    "\\unicode{x}",
    "\\verb|a|",
    "\\phantom{x}",
    "\\bbox[red]{x}",
    "\\href{a}{b}",
    "\\begin{subarray}{c}",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn any_latex_is_shown_and_its_tags_are_ours(
        pieces in prop::collection::vec(prop::sample::select(PIECES), 1..14),
        display in any::<bool>(),
    ) {
        let latex = pieces.join(" ");
        let text = if display { format!("$$x {latex}$$") } else { format!("\\(x {latex}\\)") };
        assert_only_our_tags(&markdown(&text), &text);
        terminal_markdown(&text, WIDE);
    }
}
