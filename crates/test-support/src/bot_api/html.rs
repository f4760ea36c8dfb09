//! `parse_mode=HTML`, with the errors of the real parser.
//!
//! A tag must be known, must be closed by its own name, and may have any attribute. An entity
//! reference that is not one of the few stays as it stands. Byte offsets in errors are those of the
//! text as it was sent.

use super::entity::{Entity, Style};
use super::link::address;

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

/// The text without tags, and what the tags said.
pub(super) fn parse(html: &str) -> Result<(String, Vec<Entity>), String> {
    let mut parser =
        Parser { html, at: 0, text: String::new(), units: 0, open: Vec::new(), entities: vec![] };
    while parser.at < html.len() {
        parser.step()?;
    }
    match parser.open.pop() {
        Some(tag) => Err(format!("Can't find end tag corresponding to start tag \"{}\"", tag.name)),
        None => Ok((parser.text, parser.entities)),
    }
}

struct Parser<'a> {
    html: &'a str,
    at: usize,
    text: String,
    units: usize,
    open: Vec<Tag>,
    entities: Vec<Entity>,
}

struct Tag {
    name: String,
    /// The one attribute that means something: an address, a language, a class, an id.
    argument: String,
    /// Where its text begins, in UTF-16 units and in bytes.
    units: usize,
    bytes: usize,
}

impl Parser<'_> {
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
            // Carriage returns vanish, other control characters are shown as spaces.
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
        self.units += character.len_utf16();
    }

    fn peek(&self) -> Option<u8> {
        self.html.as_bytes().get(self.at).copied()
    }

    /// Everything up to the first byte that ends it.
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
        self.open.push(Tag { name, argument, units: self.units, bytes: self.text.len() });
        Ok(())
    }

    fn attribute(&mut self, tag: &str, begin: usize, argument: &mut String) -> Result<(), String> {
        let name = self.until(|byte| is_space(byte) || byte == b'=' || byte == b'>');
        if name.is_empty() {
            return Err(format!(
                "Empty attribute name in the tag \"{tag}\" at byte offset {begin}"
            ));
        }
        let bare = self.peek();
        self.skip_space();
        if self.peek() != Some(b'=') {
            // The only attribute without a value.
            if (tag, name.as_str()) == ("blockquote", "expandable") && bare.is_some() {
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
            if let Some((meant, length)) = reference(&self.html[self.at..]) {
                value.push(meant);
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
        if self.units > tag.units {
            self.close(tag)?;
        }
        Ok(())
    }

    fn close(&mut self, tag: Tag) -> Result<(), String> {
        let range = tag.units..self.units;
        let whole = |last: &Entity| last.range() == range;
        let style = match tag.name.as_str() {
            "b" | "strong" => Style::Bold,
            "i" | "em" => Style::Italic,
            "u" | "ins" => Style::Underline,
            "s" | "strike" | "del" => Style::Strikethrough,
            "tg-spoiler" | "span" => Style::Spoiler,
            "blockquote" if tag.argument.is_empty() => Style::Blockquote,
            "blockquote" => Style::ExpandableBlockquote,
            "tg-emoji" => match tag.argument.parse::<i64>() {
                Ok(id) if id != 0 => Style::CustomEmoji(tag.argument),
                _ => return Err("Invalid custom emoji identifier specified".to_owned()),
            },
            "a" => {
                let shown = self.text[tag.bytes..].to_owned();
                let url = if tag.argument.is_empty() { shown } else { tag.argument };
                match address(&url) {
                    Some(url) => Style::TextLink(url),
                    // An address that leads nowhere leaves plain text.
                    None => return Ok(()),
                }
            }
            // Only `<pre><code class="language-…">` around all of it names a language.
            "pre" => match self
                .entities
                .pop_if(|last| whole(last) && matches!(last.style, Style::Pre(_) | Style::Code))
            {
                Some(Entity { style: Style::Pre(language), .. }) => Style::Pre(language),
                _ => Style::Pre(None),
            },
            _ => {
                let inside = self.open.last().is_some_and(|it| it.name == "pre");
                if inside && !tag.argument.is_empty() {
                    Style::Pre(Some(tag.argument))
                } else {
                    Style::Code
                }
            }
        };
        self.entities.push(Entity::new(style, range));
        Ok(())
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | 0x0b)
}

/// The character that an entity reference at the start of this text stands for, and its length.
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

#[cfg(test)]
mod tests {
    use super::super::entity::settle;
    use super::super::render::as_html;
    use super::parse;

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
            assert_eq!(as_html(&text, &settle(entities).0), expected, "{html}");
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
}
