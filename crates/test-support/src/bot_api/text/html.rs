//! HTML formatting: the parser of `parse_mode=HTML`, and a renderer with one canonical output.
//!
//! The parser reports the errors of the real one. A tag must be known and must be closed by its own
//! name; it may have any attribute. A character reference that Telegram does not support is kept as
//! text. Byte offsets in errors refer to the text that the bot sent.

use super::{BotApiEntity, BotApiStyle};

const TAGS: [&str; 16] = [
    "a",
    "b",
    "strong",
    "i",
    "em",
    "s",
    "strike",
    "del",
    "u",
    "ins",
    "tg-spoiler",
    "tg-emoji",
    "span",
    "pre",
    "code",
    "blockquote",
];

/// The text without tags, and the entities of the tags.
pub(crate) fn parse(html: &str) -> Result<(String, Vec<BotApiEntity>), String> {
    let mut parser = BotApiHtmlParser {
        html,
        at: 0,
        text: String::new(),
        length: 0,
        open: Vec::new(),
        entities: Vec::new(),
    };
    while parser.at < html.len() {
        parser.step()?;
    }
    match parser.open.pop() {
        Some(tag) => Err(format!("Can't find end tag corresponding to start tag \"{}\"", tag.name)),
        None => Ok((parser.text, parser.entities)),
    }
}

struct BotApiHtmlParser<'a> {
    html: &'a str,
    at: usize,
    text: String,
    /// The length of `text` in UTF-16 code units.
    length: usize,
    open: Vec<BotApiHtmlTag>,
    entities: Vec<BotApiEntity>,
}

struct BotApiHtmlTag {
    name: String,
    /// The value of the one attribute with a meaning: a URL, a language, a class or an id.
    argument: String,
    /// Where its text starts, in UTF-16 code units.
    offset: usize,
    /// Where its text starts, in bytes.
    byte_offset: usize,
}

impl BotApiHtmlParser<'_> {
    fn step(&mut self) -> Result<(), String> {
        let rest = &self.html[self.at..];
        if let Some((character, length)) = reference(rest) {
            self.at += length;
            self.push(character);
        } else if rest.starts_with("</") {
            self.end_tag()?;
        } else if rest.starts_with('<') {
            self.start_tag()?;
        } else if let Some(character) = rest.chars().next() {
            self.at += character.len_utf8();
            // Carriage returns are dropped, other control characters become spaces.
            match character {
                '\r' => {}
                '\n' => self.push('\n'),
                other if other.is_ascii_control() => self.push(' '),
                other => self.push(other),
            }
        }
        Ok(())
    }

    fn push(&mut self, character: char) {
        self.text.push(character);
        self.length += character.len_utf16();
    }

    fn peek(&self) -> Option<u8> {
        self.html.as_bytes().get(self.at).copied()
    }

    /// Everything up to the first byte that ends it, in lower case.
    fn until(&mut self, ends: impl Fn(u8) -> bool) -> String {
        let begin = self.at;
        while self.peek().is_some_and(|byte| !ends(byte)) {
            self.at += 1;
        }
        self.html[begin..self.at].to_ascii_lowercase()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn start_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        self.at += 1;
        let name = self.until(|byte| is_space(byte) || byte == b'>');
        if self.peek().is_none() {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        }
        if !TAGS.contains(&name.as_str()) {
            return Err(format!("Unsupported start tag \"{name}\" at byte offset {begin}"));
        }
        let mut argument = String::new();
        loop {
            self.skip_space();
            match self.peek() {
                None => return Err(format!("Unclosed start tag at byte offset {begin}")),
                Some(b'>') => break,
                Some(_) => self.attribute(&name, begin, &mut argument)?,
            }
        }
        self.at += 1;
        if name == "span" && argument != "spoiler" {
            return Err(format!(
                "Tag \"span\" must have class \"tg-spoiler\" at byte offset {begin}"
            ));
        }
        let (offset, byte_offset) = (self.length, self.text.len());
        self.open.push(BotApiHtmlTag { name, argument, offset, byte_offset });
        Ok(())
    }

    fn attribute(&mut self, tag: &str, begin: usize, argument: &mut String) -> Result<(), String> {
        let name = self.until(|byte| is_space(byte) || byte == b'=' || byte == b'>');
        if name.is_empty() {
            return Err(format!(
                "Empty attribute name in the tag \"{tag}\" at byte offset {begin}"
            ));
        }
        let next = self.peek();
        self.skip_space();
        if self.peek() != Some(b'=') {
            // The only attribute without a value.
            if (tag, name.as_str()) == ("blockquote", "expandable") && next.is_some() {
                "1".clone_into(argument);
                return Ok(());
            }
            return Err(format!(
                "Expected equal sign in declaration of an attribute of the tag \"{tag}\" at byte \
                 offset {begin}"
            ));
        }
        self.at += 1;
        self.skip_space();
        let value = self.value(begin)?;
        if self.peek().is_none() {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        }
        match (tag, name.as_str()) {
            ("a", "href") | ("tg-emoji", "emoji-id") => *argument = value,
            ("code", "class") => {
                if let Some(language) = value.strip_prefix("language-") {
                    language.clone_into(argument);
                }
            }
            ("span", "class") => {
                if let Some(class) = value.strip_prefix("tg-") {
                    class.clone_into(argument);
                }
            }
            ("blockquote", "expandable") => "1".clone_into(argument),
            _ => {}
        }
        Ok(())
    }

    fn value(&mut self, begin: usize) -> Result<String, String> {
        let Some(quote) = self.peek() else {
            return Err(format!("Unclosed start tag at byte offset {begin}"));
        };
        if quote != b'"' && quote != b'\'' {
            let start = self.at;
            let value =
                self.until(|byte| !byte.is_ascii_alphanumeric() && byte != b'.' && byte != b'-');
            return match self.peek() {
                Some(byte) if !is_space(byte) && byte != b'>' => {
                    Err(format!("Unexpected end of name token at byte offset {start}"))
                }
                _ => Ok(value),
            };
        }
        self.at += 1;
        let mut value = String::new();
        while let Some(character) = self.html[self.at..].chars().next() {
            if character == char::from(quote) {
                self.at += 1;
                break;
            }
            if let Some((referenced, length)) = reference(&self.html[self.at..]) {
                value.push(referenced);
                self.at += length;
            } else {
                value.push(character);
                self.at += character.len_utf8();
            }
        }
        Ok(value)
    }

    fn end_tag(&mut self) -> Result<(), String> {
        let begin = self.at;
        let Some(tag) = self.open.pop() else {
            return Err(format!("Unexpected end tag at byte offset {begin}"));
        };
        self.at += 2;
        let name = self.until(|byte| is_space(byte) || byte == b'>');
        self.skip_space();
        if self.peek() != Some(b'>') {
            return Err(format!("Unclosed end tag at byte offset {begin}"));
        }
        self.at += 1;
        if !name.is_empty() && name != tag.name {
            return Err(format!(
                "Unmatched end tag at byte offset {begin}, expected \"</{}>\", found \"</{name}>\"",
                tag.name
            ));
        }
        if self.length > tag.offset {
            self.close(tag)?;
        }
        Ok(())
    }

    fn close(&mut self, tag: BotApiHtmlTag) -> Result<(), String> {
        let range = tag.offset..self.length;
        let is_same_range = |last: &BotApiEntity| last.range() == range;
        let style = match tag.name.as_str() {
            "b" | "strong" => BotApiStyle::Bold,
            "i" | "em" => BotApiStyle::Italic,
            "u" | "ins" => BotApiStyle::Underline,
            "s" | "strike" | "del" => BotApiStyle::Strikethrough,
            "tg-spoiler" | "span" => BotApiStyle::Spoiler,
            "blockquote" if tag.argument.is_empty() => BotApiStyle::Blockquote,
            "blockquote" => BotApiStyle::ExpandableBlockquote,
            "tg-emoji" => match tag.argument.parse::<i64>() {
                Ok(id) if id != 0 => BotApiStyle::CustomEmoji(tag.argument),
                _ => return Err("Invalid custom emoji identifier specified".to_owned()),
            },
            "a" => {
                let label = self.text[tag.byte_offset..].to_owned();
                let url = if tag.argument.is_empty() { label } else { tag.argument };
                match link_url(&url) {
                    Some(url) => BotApiStyle::TextLink(url),
                    // A link without a valid URL becomes plain text.
                    None => return Ok(()),
                }
            }
            // A language counts only if `<code class="language-…">` fills all of the `<pre>`.
            "pre" => match self.entities.pop_if(|last| {
                is_same_range(last) && matches!(last.style, BotApiStyle::Pre(_) | BotApiStyle::Code)
            }) {
                Some(BotApiEntity { style: BotApiStyle::Pre(language), .. }) => {
                    BotApiStyle::Pre(language)
                }
                _ => BotApiStyle::Pre(None),
            },
            _ => {
                let inside = self.open.last().is_some_and(|it| it.name == "pre");
                if inside && !tag.argument.is_empty() {
                    BotApiStyle::Pre(Some(tag.argument))
                } else {
                    BotApiStyle::Code
                }
            }
        };
        self.entities.push(BotApiEntity::new(style, range));
        Ok(())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | 0x0b)
}

/// The character reference at the start of a text: its character and its length in bytes.
fn reference(text: &str) -> Option<(char, usize)> {
    let name = text.strip_prefix('&')?;
    let (character, length) = if let Some(number) = name.strip_prefix('#') {
        let (radix, digits, skipped) = match number.strip_prefix(['x', 'X']) {
            Some(digits) => (16, digits, 2),
            None => (10, number, 1),
        };
        let count = digits.chars().take_while(|it| it.is_digit(radix)).count();
        let code = u32::from_str_radix(digits.get(..count)?, radix).ok()?;
        (char::from_u32(code).filter(|it| *it != '\0')?, skipped + count)
    } else {
        let count = name.bytes().take_while(u8::is_ascii_alphabetic).count();
        let character = match name.get(..count)? {
            "lt" => '<',
            "gt" => '>',
            "amp" => '&',
            "quot" => '"',
            _ => return None,
        };
        (character, count)
    };
    let semicolon = usize::from(name[length..].starts_with(';'));
    Some((character, 1 + length + semicolon))
}

/// The URL of a link as Telegram stores it, or `None` if it is not a valid one.
fn link_url(url: &str) -> Option<String> {
    let url = url.trim();
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let name = host.split(':').next().unwrap_or_default();
    match scheme.to_ascii_lowercase().as_str() {
        "tg" | "ton" if !rest.is_empty() => Some(url.to_owned()),
        "http" | "https" if name.contains('.') && !name.contains(char::is_whitespace) => {
            let slash = if rest == host { "/" } else { "" };
            Some(format!("{}://{rest}{slash}", scheme.to_ascii_lowercase()))
        }
        _ => None,
    }
}

/// A text with its entities as HTML. Equal formatting always gives equal HTML.
pub(crate) fn to_html(text: &str, entities: &[BotApiEntity]) -> String {
    let mut out = String::with_capacity(text.len());
    let mut open: Vec<(usize, &'static str)> = Vec::new();
    let mut pending = entities.iter().peekable();
    let mut at = 0;
    let mut write_tags = |at: usize, out: &mut String| {
        while let Some((_, tag)) = open.pop_if(|(end, _)| *end <= at) {
            out.push_str(tag);
        }
        while let Some(entity) = pending.next_if(|it| it.offset <= at) {
            let (start, end) = tags(&entity.style);
            out.push_str(&start);
            open.push((entity.range().end, end));
        }
    };
    for character in text.chars() {
        write_tags(at, &mut out);
        escape(character, &mut out);
        at += character.len_utf16();
    }
    write_tags(at, &mut out);
    out
}

fn escape(character: char, out: &mut String) {
    match character {
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '&' => out.push_str("&amp;"),
        other => out.push(other),
    }
}

fn escape_attribute(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '"' => out.push_str("&quot;"),
            other => escape(other, &mut out),
        }
    }
    out
}

fn tags(style: &BotApiStyle) -> (String, &'static str) {
    match style {
        BotApiStyle::Bold => ("<b>".to_owned(), "</b>"),
        BotApiStyle::Italic => ("<i>".to_owned(), "</i>"),
        BotApiStyle::Underline => ("<u>".to_owned(), "</u>"),
        BotApiStyle::Strikethrough => ("<s>".to_owned(), "</s>"),
        BotApiStyle::Spoiler => ("<tg-spoiler>".to_owned(), "</tg-spoiler>"),
        BotApiStyle::Code => ("<code>".to_owned(), "</code>"),
        BotApiStyle::Pre(None) => ("<pre>".to_owned(), "</pre>"),
        BotApiStyle::Pre(Some(language)) => {
            let language = escape_attribute(language);
            (format!("<pre><code class=\"language-{language}\">"), "</code></pre>")
        }
        BotApiStyle::Blockquote => ("<blockquote>".to_owned(), "</blockquote>"),
        BotApiStyle::ExpandableBlockquote => {
            ("<blockquote expandable>".to_owned(), "</blockquote>")
        }
        BotApiStyle::TextLink(url) => (format!("<a href=\"{}\">", escape_attribute(url)), "</a>"),
        BotApiStyle::CustomEmoji(id) => (format!("<tg-emoji emoji-id=\"{id}\">"), "</tg-emoji>"),
        BotApiStyle::BotCommand | BotApiStyle::Mention => (String::new(), ""),
    }
}

#[cfg(test)]
mod tests {
    use super::super::entity::normalize;
    use super::{link_url, parse, to_html};

    #[test]
    fn tags_become_entities() {
        let cases = [
            ("a <b>b</b> c", "a <b>b</b> c"),
            ("<STRONG>b</strong>", "<b>b</b>"),
            ("<b>b</>", "<b>b</b>"),
            ("<del>a</del><strike>b</strike><ins>c</ins>", "<s>a</s><s>b</s><u>c</u>"),
            ("&lt;&gt;&amp;&quot;&#65;&#x42;", "&lt;&gt;&amp;\"AB"),
            ("&nbsp; & &copy;", "&amp;nbsp; &amp; &amp;copy;"),
            ("<pre>a</pre>", "<pre>a</pre>"),
            (
                "<pre><code class=\"language-rust\">fn</code></pre>",
                "<pre><code class=\"language-rust\">fn</code></pre>",
            ),
            ("<pre><code>fn</code></pre>", "<pre>fn</pre>"),
            ("<code class='language-rust'>fn</code>", "<code>fn</code>"),
            ("<span class=\"tg-spoiler\">x</span>", "<tg-spoiler>x</tg-spoiler>"),
            ("<blockquote expandable>x</blockquote>", "<blockquote expandable>x</blockquote>"),
            (
                "<a href=\"https://x.example/a?b&amp;c\">x</a>",
                "<a href=\"https://x.example/a?b&amp;c\">x</a>",
            ),
            ("<a href=\"docs/page.md\">x</a>", "x"),
            ("<b></b>x", "x"),
            ("a\r\n\tb", "a\n b"),
        ];
        for (html, expected) in cases {
            let (text, entities) = parse(html).expect(html);
            assert_eq!(to_html(&text, &normalize(entities).0), expected, "{html}");
        }
    }

    #[test]
    fn offsets_count_utf_16_units() {
        let (text, entities) = parse("🦀é<b>🦀</b>").unwrap();
        assert_eq!(text, "🦀é🦀");
        assert_eq!(entities[0].range(), 3..5);
    }

    #[test]
    fn errors_are_those_of_the_real_parser() {
        let cases = [
            ("1234567890é <x>", "Unsupported start tag \"x\" at byte offset 13"),
            ("a <b", "Unclosed start tag at byte offset 2"),
            ("a < b", "Unsupported start tag \"\" at byte offset 2"),
            ("<br/>", "Unsupported start tag \"br/\" at byte offset 0"),
            ("<b", "Unclosed start tag at byte offset 0"),
            ("<b>x", "Can't find end tag corresponding to start tag \"b\""),
            ("x</b>", "Unexpected end tag at byte offset 1"),
            (
                "<b><i>x</b></i>",
                "Unmatched end tag at byte offset 7, expected \"</i>\", found \"</b>\"",
            ),
            ("<b>x</b", "Unclosed end tag at byte offset 4"),
            ("<span>x</span>", "Tag \"span\" must have class \"tg-spoiler\" at byte offset 0"),
            (
                "<a href>x</a>",
                "Expected equal sign in declaration of an attribute of the tag \"a\" at byte offset 0",
            ),
            ("<a href=x/y>x</a>", "Unexpected end of name token at byte offset 8"),
            ("<a =x>x</a>", "Empty attribute name in the tag \"a\" at byte offset 0"),
            ("<tg-emoji>x</tg-emoji>", "Invalid custom emoji identifier specified"),
        ];
        for (html, error) in cases {
            assert_eq!(parse(html).expect_err(html), error, "{html}");
        }
    }

    #[test]
    fn only_complete_urls_are_links() {
        let cases = [
            ("https://a.example/b?c#d", Some("https://a.example/b?c#d")),
            ("HTTPS://a.example", Some("https://a.example/")),
            ("a.example/b", Some("http://a.example/b")),
            ("https://me@a.example:8080/", Some("https://me@a.example:8080/")),
            ("tg://user?id=7", Some("tg://user?id=7")),
            ("docs/page.md", None),
            ("/etc/passwd", None),
            ("http://localhost:3000/", None),
            ("file:///etc/passwd", None),
            ("javascript:alert(1)", None),
            ("#there", None),
        ];
        for (url, kept) in cases {
            assert_eq!(link_url(url).as_deref(), kept, "{url}");
        }
    }
}
