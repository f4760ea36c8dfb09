//! Injection attempts through Markdown.

use towpath_view::html::{StreamingHtml, markdown};

/// Asserts that only the allowed tags and attributes occur.
pub(crate) fn assert_only_our_tags(html: &str, from: &str) {
    let mut rest = html;
    let mut open = Vec::new();
    while let Some(start) = rest.find('<') {
        assert!(!rest[..start].contains('>'), "a stray `>` in {html:?} from {from:?}");
        let end = rest.find('>').unwrap_or_else(|| panic!("an open tag in {html:?} from {from:?}"));
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "nesting in {html:?} from {from:?}");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        let known = match name {
            "p" => matches!(attributes, "" | "class=\"raw\""),
            "pre" => {
                let rest = attributes.strip_prefix("class=\"code\"");
                rest.is_some_and(|rest| rest.is_empty() || is_quoted(rest, " data-language=\""))
            }
            "a" => attributes
                .strip_suffix(" rel=\"noopener noreferrer nofollow\" target=\"_blank\"")
                .is_some_and(|rest| {
                    is_quoted(rest, "href=\"")
                        && ["https://", "http://", "mailto:"].iter().any(|scheme| {
                            rest["href=\"".len()..].to_lowercase().starts_with(scheme)
                        })
                }),
            "ol" => attributes.is_empty() || is_quoted(attributes, "start=\""),
            "span" => {
                matches!(
                    attributes,
                    "class=\"task\""
                        | "class=\"task done\""
                        | "class=\"math\""
                        | "class=\"math display\""
                ) || (attributes.starts_with("class=t") && attributes.len() == 8)
            }
            "div" => matches!(attributes, "class=\"table\"" | "class=\"footnote\""),
            "code" => matches!(attributes, "" | "class=\"math\"" | "class=\"math display\""),
            "math" => matches!(attributes, "display=\"inline\"" | "display=\"block\""),
            "mrow" | "mi" | "mo" | "mn" | "mtext" | "mspace" | "mfrac" | "msqrt" | "mroot"
            | "msub" | "msup" | "msubsup" | "munder" | "mover" | "munderover" | "mtable"
            | "mtr" | "mtd" => {
                assert!(open.contains(&"math"), "`<{tag}>` in {html:?} from {from:?}");
                is_mathml_attributes(attributes)
            }
            "td" | "th" => matches!(attributes, "" | "class=left" | "class=center" | "class=right"),
            "h1" | "h2" | "h3" | "h4" | "h5" | "h6" | "ul" | "li" | "em" | "strong" | "del"
            | "sup" | "blockquote" | "table" | "thead" | "tbody" | "tr" | "br" | "hr" => {
                attributes.is_empty()
            }
            _ => false,
        };
        assert!(known, "`<{tag}>` in {html:?} from {from:?}");
        if !matches!(name, "br" | "hr") {
            open.push(name);
        }
    }
    assert!(open.is_empty(), "unclosed {open:?} in {html:?} from {from:?}");
}

fn is_mathml_attributes(attributes: &str) -> bool {
    attributes.is_empty()
        || attributes.split("\" ").all(|attribute| {
            let (name, value) = attribute.split_once("=\"").unwrap_or_default();
            let value = value.trim_end_matches('"');
            (name.starts_with(|c: char| c.is_ascii_alphabetic()) && !name.starts_with("on"))
                && !["href", "style", "src", "id"].contains(&name)
                && !value.contains(['"', '<', '>', ':', '(', '&'])
        })
}

fn is_quoted(attribute: &str, opening: &str) -> bool {
    attribute
        .strip_prefix(opening)
        .and_then(|rest| rest.strip_suffix('"'))
        .is_some_and(|value| !value.contains(['"', '<', '>']))
}

/// URLs that must never become links.
const URLS: &[&str] = &[
    "javascript:alert(1)",
    "JAVASCRIPT:alert(1)",
    "JavaScript:alert`1`",
    "java\\script:alert(1)",
    "javascript&colon;alert(1)",
    "javascript&#58;alert(1)",
    "javascript&#x3A;alert(1)",
    "javascript&#x3a;alert(1)",
    "&#106;avascript:alert(1)",
    "&#x6A;avascript:alert(1)",
    "&#x6a&#x61;vascript:alert(1)",
    "java&#9;script:alert(1)",
    "java&#10;script:alert(1)",
    "java&#13;script:alert(1)",
    "java&Tab;script:alert(1)",
    "java&NewLine;script:alert(1)",
    "&#1;javascript:alert(1)",
    "&#14; javascript:alert(1)",
    "%6Aavascript:alert(1)",
    "javascript%3Aalert(1)",
    "javascript://https://a/%0aalert(1)",
    "javascript:https://a",
    "data:text/html,<script>alert(1)</script>",
    "data:text/html;base64,PHNjcmlwdD4=",
    "data:image/svg+xml,<svg onload=alert(1)>",
    "DATA:text/html,x",
    "vbscript:msgbox(1)",
    "VbScRiPt:msgbox(1)",
    "livescript:x",
    "mocha:x",
    "file:///etc/passwd",
    "blob:https://a/b",
    "filesystem:https://a",
    "about:blank",
    "feed:javascript:alert(1)",
    "view-source:javascript:alert(1)",
    "jar:https://a!/b",
    "ms-its:x",
    "wyciwyg://x",
    "chrome://x",
    "tel:1",
    "sms:1",
    "//evil.example",
    "\\\\evil.example",
    "/\\evil",
    "/path",
    "?query",
    "#fragment",
    "evil",
    "..",
    "https:evil",
    "https:/evil",
    "https:///evil",
    "https:\\\\evil",
    " javascript:alert(1)",
    "\u{a0}javascript:alert(1)",
    "\u{200b}javascript:alert(1)",
    "\u{feff}javascript:alert(1)",
    "\u{ad}javascript:alert(1)",
    "ｊavascript:alert(1)",
    "javascript：alert(1)",
    "j\u{0}avascript:alert(1)",
    "https://a\u{202e}gpj.exe",
    "javascript:\u{2028}alert(1)",
    "x-javascript:alert(1)",
    "intent://x#Intent;end",
    "tg://resolve?domain=x",
];

/// Texts that try to become tags.
const TEXTS: &[&str] = &[
    "<script>alert(1)</script>",
    "<ScRiPt>alert(1)</sCrIpT>",
    "<script src=//evil></script>",
    "<scr<script>ipt>alert(1)</scr</script>ipt>",
    "<img src=x onerror=alert(1)>",
    "<img/src=x/onerror=alert(1)>",
    "<img src=x onerror=&#97;lert(1)>",
    "<IMG \"\"\"><SCRIPT>alert(1)</SCRIPT>\">",
    "<svg onload=alert(1)>",
    "<svg><script>alert(1)</script></svg>",
    "<svg><animate onbegin=alert(1)>",
    "<math><mi xlink:href=javascript:alert(1)>",
    "<iframe src=javascript:alert(1)>",
    "<iframe srcdoc='<script>alert(1)</script>'>",
    "<object data=javascript:alert(1)>",
    "<embed src=javascript:alert(1)>",
    "<a href=javascript:alert(1)>x</a>",
    "<a href='java&Tab;script:alert(1)'>x</a>",
    "<body onload=alert(1)>",
    "<input autofocus onfocus=alert(1)>",
    "<details open ontoggle=alert(1)>",
    "<video><source onerror=alert(1)>",
    "<audio src onerror=alert(1)>",
    "<marquee onstart=alert(1)>",
    "<style>@import'//evil'</style>",
    "<link rel=stylesheet href=//evil>",
    "<meta http-equiv=refresh content='0;url=//evil'>",
    "<base href=//evil>",
    "<form action=javascript:alert(1)><button>",
    "<isindex action=javascript:alert(1)>",
    "<textarea autofocus onfocus=alert(1)>",
    "<select onfocus=alert(1)>",
    "<template><script>alert(1)</script></template>",
    "<noscript><p title=\"</noscript><img src=x onerror=alert(1)>\">",
    "<xmp><script>alert(1)</script>",
    "<plaintext>",
    "<!--><script>alert(1)</script>-->",
    "<!-- --!><script>alert(1)</script>",
    "<![CDATA[<script>alert(1)</script>]]>",
    "<?xml <script>alert(1)</script>?>",
    "</p><script>alert(1)</script>",
    "</code></pre><script>alert(1)</script>",
    "`</code><script>alert(1)</script>`",
    "    </code></pre><script>alert(1)</script>",
    "```\n</code></pre><script>alert(1)</script>\n```",
    "```html\n<script>alert(1)</script>\n```",
    "~~~\n</pre><img src=x onerror=alert(1)>\n~~~",
    "```\"><script>alert(1)</script>\nx\n```",
    "```x\" onmouseover=\"alert(1)\nx\n```",
    "``` '><img src=x onerror=alert(1)>\nx\n```",
    "~~~ \"><svg/onload=alert(1)>\nx\n~~~",
    "```&quot;&gt;&lt;script&gt;\nx\n```",
    "# <script>alert(1)</script>",
    "> <script>alert(1)</script>",
    "- <script>alert(1)</script>",
    "- [ ] <img src=x onerror=alert(1)>",
    "| <script>alert(1)</script> |\n|---|\n| <img src=x onerror=alert(1)> |",
    "| `</code><script>` |\n|---|\n| x |",
    "*<script>alert(1)</script>*",
    "**<img src=x onerror=alert(1)>**",
    "~~<svg/onload=alert(1)>~~",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "&#60;script&#62;alert(1)&#60;/script&#62;",
    "\\<script>alert(1)\\</script>",
    "<<script>script>alert(1)<</script>/script>",
    "<script\u{0}>alert(1)</script>",
    "<\u{0}script>alert(1)</script>",
    "<script\n>alert(1)</script\n>",
    "＜script＞alert(1)＜/script＞",
    "\u{202e}<script>alert(1)</script>",
    "[a](https://a \"><script>alert(1)</script>\")",
    "[a](https://a '\" onmouseover=alert(1) x=\"')",
    "[a](https://a\"onmouseover=\"alert(1))",
    "[a](<https://a\"><script>>)",
    "[<img src=x onerror=alert(1)>](https://a)",
    "[<script>alert(1)</script>](https://a)",
    "![<script>](https://a/\"onerror=\"alert(1))",
    "![\"onerror=\"alert(1)](https://a)",
    "![x](https://a/b.png \"onerror=alert(1)\")",
    "[![x](https://a/\"onerror=\")](https://b)",
    "<https://a\"onmouseover=\"alert(1)>",
    "<https://a/'><script>alert(1)</script>",
    "https://a/\"onmouseover=alert(1)",
    "https://a/<script>alert(1)</script>",
    "https://a/'onmouseover='alert(1)'",
    "https://a/&quot;&gt;&lt;script&gt;",
    "[x]: https://a \"'><script>alert(1)</script>\"\n\n[x]",
    "[\"><script>]: https://a\n\n[\"><script>]",
    "[x]: <https://a\"onmouseover=\"alert(1)>\n\n[x]",
    "<a href=\"https://a\" onclick=\"alert(1)\">x</a>",
    "<br onload=alert(1)>",
    "<br/onload=alert(1)>",
    "<br><script>alert(1)</script>",
    "<BR >",
    "a<br>b<br/>c<br />d",
    "[a](https://a)<script>alert(1)</script>[b](https://b)",
    "$\\href{javascript:alert(1)}{x}$",
    "$\\text{<script>alert(1)</script>}$",
    "$\\operatorname{<img src=x onerror=alert(1)>}x$",
    "$\\operatorname{</mi></math><script>alert(1)</script>}x$",
    "$\\operatorname{&lt;script&gt;}x$",
    "$\\href{javascript:alert(1)}{x^2}$",
    "$\\class{x\" onclick=\"alert(1)}{x^2}$",
    "$\\style{background:url(//evil)}{x}$",
    "$\\color{red;background:url(//evil)}x^2$",
    "$\\textcolor{red}{x^2}$",
    "$a < b > c & d$",
    "$a \\not< b$",
    "$$\\begin{array}{c|c} a & <b> \\\\[2em] \\hline c & d \\end{array}$$",
    "$$\\def\\a{\\a\\a}\\a$$",
    "$\\hspace{1em\" onclick=\"alert(1)}x^2$",
    "$\\rule{1em}{1em}x^2$",
    "$x^2</math><script>alert(1)</script>$",
    "\\[<script>alert(1)</script> = x\\]",
    "\\(\u{202e}x^2\\)",
    "$\\unknown{<script>}$",
    "```mermaid\ngraph TD; A[\"<img src=x onerror=alert(1)>\"]\n```",
    "[^1]: <script>alert(1)</script>",
    "1. a\n\n   <script>alert(1)</script>",
    "<div\nonclick=alert(1)\n>",
    "a <b\n onclick=alert(1)>",
    "<a@b.c\"onclick=alert(1)>",
    "<mailto:a@b.c?subject=\"><script>>",
];

/// The whole HTML at this moment.
fn shown(growing: &mut StreamingHtml) -> String {
    let open = growing.open().to_owned();
    format!("{}{open}", growing.closed())
}

#[test]
fn only_web_and_mail_urls_become_links() {
    for url in URLS {
        for text in [
            format!("[a]({url})"),
            format!("[a](<{url}>)"),
            format!("![a]({url})"),
            format!("<{url}>"),
            format!("[a][x]\n\n[x]: {url}"),
            format!("[x]: {url}\n\n[a][x] [x] ![x]"),
            format!("[x]: <{url}>\n\n[a][x] [x] ![x]"),
            format!("| [a]({url}) |\n|---|\n| ![b]({url}) |"),
            format!("> - [a]({url} \"title\")"),
            format!("[![a]({url})]({url})"),
            // A web URL behind another scheme is a harmless link to the web.
            url.replace("http", "x"),
        ] {
            let html = markdown(&text);
            assert_only_our_tags(&html, &text);
            assert!(!html.contains("<a "), "{html:?} from {text:?}");
        }
    }
}

#[test]
fn no_text_becomes_a_tag_or_an_attribute() {
    for text in TEXTS {
        for text in
            [(*text).to_owned(), format!("lead {text}"), format!("> {text}"), format!("- {text}")]
        {
            assert_only_our_tags(&markdown(&text), &text);
            // Also while it is being written.
            let mut growing = StreamingHtml::new();
            for c in text.chars() {
                growing.push(c.encode_utf8(&mut [0; 4]));
                assert_only_our_tags(&shown(&mut growing), &text);
            }
        }
    }
}

#[test]
fn a_long_open_block_stays_well_formed_while_it_grows() {
    for (lead, unit) in
        [("```\n", "<b> & \"x\"\n"), ("", "- <i>a</i>\n  - b\n"), ("| a |\n|---|\n", "| <u> |\n")]
    {
        let mut growing = StreamingHtml::new();
        growing.push(lead);
        for _ in 0..3000 {
            growing.push(unit);
            growing.open();
        }
        assert_only_our_tags(&shown(&mut growing), unit);
    }
}

#[test]
fn images_are_not_loaded() {
    let html = markdown("![a cat](https://evil.example/track.png)");
    assert!(!html.contains("<img"), "{html}");
    assert!(html.contains("href=\"https://evil.example/track.png\""), "{html}");
}

#[test]
fn the_text_direction_cannot_be_changed() {
    let html = markdown("`access\u{202e}level` \u{2066}x");
    assert!(html.contains("access\\u{202e}level") && html.contains("\\u{2066}x"), "{html}");
}
