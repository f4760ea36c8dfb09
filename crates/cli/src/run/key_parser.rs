//! Parses what a terminal in raw mode sends: characters, key sequences and bracketed pastes.

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};

const ESCAPE: u8 = 0x1b;
const PASTE_START: &[u8] = b"\x1b[200~";
const PASTE_END: &[u8] = b"\x1b[201~";

/// No terminal sends a longer sequence. What is longer is no sequence, and is dropped.
const MAX_SEQUENCE: usize = 64;

/// Bytes in, keys and pastes out.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    buffer: Vec<u8>,
    /// The text of the paste that has started, and how much of it was searched for its end.
    paste: Option<(Vec<u8>, usize)>,
}

/// What the start of the buffer is.
enum Parsed {
    Event(Event, usize),
    /// Bytes without a meaning.
    Nothing(usize),
    PasteStart,
    /// The rest has not arrived yet.
    Incomplete,
}

impl KeyParser {
    /// Takes bytes, and returns the events that are complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<Event> {
        let mut events = Vec::new();
        match &mut self.paste {
            Some((text, _)) => text.extend_from_slice(bytes),
            None => self.buffer.extend_from_slice(bytes),
        }
        loop {
            if let Some((text, searched)) = &mut self.paste {
                let found =
                    text[*searched..].windows(PASTE_END.len()).position(|it| it == PASTE_END);
                let Some(end) = found.map(|it| it + *searched) else {
                    *searched = text.len().saturating_sub(PASTE_END.len() - 1);
                    return events;
                };
                self.buffer = text.split_off(end + PASTE_END.len());
                text.truncate(end);
                events.push(Event::Paste(String::from_utf8_lossy(text).into_owned()));
                self.paste = None;
            }
            let mut start = 0;
            while start < self.buffer.len() {
                match parse(&self.buffer[start..]) {
                    Parsed::Event(event, length) => {
                        events.push(event);
                        start += length;
                    }
                    Parsed::Nothing(length) => start += length,
                    Parsed::PasteStart => {
                        let text = self.buffer.split_off(start + PASTE_START.len());
                        self.paste = Some((text, 0));
                        start = self.buffer.len();
                    }
                    Parsed::Incomplete => break,
                }
            }
            self.buffer.drain(..start);
            if self.paste.is_none() {
                return events;
            }
        }
    }

    /// Whether the start of a sequence has arrived, but not its end.
    pub(super) fn is_incomplete(&self) -> bool {
        !self.buffer.is_empty()
    }

    /// Ends an incomplete sequence because nothing followed it: the Escape key sends just the first
    /// byte of one.
    pub(super) fn flush(&mut self) -> Option<Event> {
        let pending = std::mem::take(&mut self.buffer);
        (pending == [ESCAPE]).then(|| key(KeyCode::Esc, KeyModifiers::NONE))
    }
}

fn key(code: KeyCode, modifiers: KeyModifiers) -> Event {
    Event::Key(KeyEvent::new(code, modifiers))
}

fn parse(bytes: &[u8]) -> Parsed {
    match bytes {
        [] | [ESCAPE] | [ESCAPE, b'O'] => Parsed::Incomplete,
        [ESCAPE, ESCAPE, ..] => Parsed::Event(key(KeyCode::Esc, KeyModifiers::NONE), 1),
        [ESCAPE, b'[', rest @ ..] => parse_sequence(rest, 2),
        [ESCAPE, b'O', last, ..] => match named_key(*last) {
            Some(code) => Parsed::Event(key(code, KeyModifiers::NONE), 3),
            None => Parsed::Nothing(3),
        },
        [ESCAPE, rest @ ..] => match parse_character(rest) {
            Parsed::Event(Event::Key(plain), length) => {
                let modifiers = plain.modifiers | KeyModifiers::ALT;
                Parsed::Event(key(plain.code, modifiers), length + 1)
            }
            Parsed::Nothing(length) => Parsed::Nothing(length + 1),
            other => other,
        },
        _ => parse_character(bytes),
    }
}

/// A sequence after its introduction, which has `before` bytes.
fn parse_sequence(bytes: &[u8], before: usize) -> Parsed {
    if let [b'[', rest @ ..] = bytes {
        // The function keys of the Linux console.
        return if rest.is_empty() { Parsed::Incomplete } else { Parsed::Nothing(before + 2) };
    }
    let Some(end) = bytes.iter().position(|byte| (0x40..=0x7e).contains(byte)) else {
        return if bytes.len() < MAX_SEQUENCE {
            Parsed::Incomplete
        } else {
            Parsed::Nothing(before + bytes.len())
        };
    };
    let length = before + end + 1;
    let parameters = std::str::from_utf8(&bytes[..end]).unwrap_or_default();
    // A parameter may have parts after a colon, which say more about the key than is needed here.
    let mut numbers = parameters.split(';').map(|part| {
        part.split(':').next().and_then(|number| number.parse::<u32>().ok()).unwrap_or_default()
    });
    let first = numbers.next().unwrap_or_default();
    let pressed = numbers.next().unwrap_or_default().saturating_sub(1);
    let mut modifiers = KeyModifiers::NONE;
    for (bit, modifier) in
        [(1, KeyModifiers::SHIFT), (2, KeyModifiers::ALT), (4, KeyModifiers::CONTROL)]
    {
        modifiers.set(modifier, pressed & bit != 0);
    }
    let code = match bytes[end] {
        b'~' if first == 200 => return Parsed::PasteStart,
        b'~' => numbered_key(first),
        b'u' => char::from_u32(first).and_then(unicode_key),
        b'Z' => Some(KeyCode::BackTab),
        last => named_key(last),
    };
    match code {
        Some(code) => Parsed::Event(key(code, modifiers), length),
        None => Parsed::Nothing(length),
    }
}

fn named_key(last: u8) -> Option<KeyCode> {
    Some(match last {
        b'A' => KeyCode::Up,
        b'B' => KeyCode::Down,
        b'C' => KeyCode::Right,
        b'D' => KeyCode::Left,
        b'F' => KeyCode::End,
        b'H' => KeyCode::Home,
        b'M' => KeyCode::Enter,
        _ => return None,
    })
}

fn numbered_key(number: u32) -> Option<KeyCode> {
    Some(match number {
        1 | 7 => KeyCode::Home,
        3 => KeyCode::Delete,
        4 | 8 => KeyCode::End,
        5 => KeyCode::PageUp,
        6 => KeyCode::PageDown,
        _ => return None,
    })
}

/// A key of the protocol that sends every key as the number of its character.
fn unicode_key(character: char) -> Option<KeyCode> {
    Some(match character {
        '\r' => KeyCode::Enter,
        '\t' => KeyCode::Tab,
        '\x1b' => KeyCode::Esc,
        '\x7f' | '\x08' => KeyCode::Backspace,
        // Keys without a character have numbers in a private area.
        '\u{e000}'..='\u{f8ff}' => return None,
        character if character.is_control() => return None,
        character => KeyCode::Char(character),
    })
}

fn parse_character(bytes: &[u8]) -> Parsed {
    let Some(&first) = bytes.first() else { return Parsed::Incomplete };
    let (code, modifiers) = match first {
        b'\r' => (KeyCode::Enter, KeyModifiers::NONE),
        b'\t' => (KeyCode::Tab, KeyModifiers::NONE),
        0x7f => (KeyCode::Backspace, KeyModifiers::NONE),
        0 => (KeyCode::Char(' '), KeyModifiers::CONTROL),
        1..=0x1a => (KeyCode::Char(char::from(first - 1 + b'a')), KeyModifiers::CONTROL),
        0x1c..=0x1f => (KeyCode::Char(char::from(first - 0x1c + b'4')), KeyModifiers::CONTROL),
        _ => return parse_text(bytes),
    };
    Parsed::Event(key(code, modifiers), 1)
}

/// A character that is no control character, in UTF-8.
fn parse_text(bytes: &[u8]) -> Parsed {
    let some = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(some) {
        Ok(text) => text,
        Err(error) if error.valid_up_to() > 0 => {
            std::str::from_utf8(&some[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(error) => {
            return error.error_len().map_or(Parsed::Incomplete, Parsed::Nothing);
        }
    };
    match valid.chars().next() {
        Some(character) => {
            Parsed::Event(key(KeyCode::Char(character), KeyModifiers::NONE), character.len_utf8())
        }
        None => Parsed::Nothing(1),
    }
}

#[cfg(test)]
mod tests {
    use super::{KeyParser, key};
    use crossterm::event::{Event, KeyCode, KeyModifiers};

    /// The events of some bytes, which arrive in chunks of every size.
    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut whole = KeyParser::default();
        let mut expected = whole.push(bytes);
        expected.extend(whole.flush());
        for size in 1..bytes.len() {
            let mut parser = KeyParser::default();
            let mut found: Vec<Event> =
                bytes.chunks(size).flat_map(|chunk| parser.push(chunk)).collect();
            found.extend(parser.flush());
            assert_eq!(found, expected, "in chunks of {size}");
        }
        expected
    }

    fn plain(code: KeyCode) -> Event {
        key(code, KeyModifiers::NONE)
    }

    #[test]
    fn characters_and_control_keys_are_keys() {
        assert_eq!(
            events("aé漢🦀".as_bytes()),
            "aé漢🦀".chars().map(|it| plain(KeyCode::Char(it))).collect::<Vec<_>>()
        );
        let control = |it| key(KeyCode::Char(it), KeyModifiers::CONTROL);
        assert_eq!(events(b"\x03\x04\n"), [control('c'), control('d'), control('j')]);
        let expected = [KeyCode::Enter, KeyCode::Tab, KeyCode::Backspace].map(plain);
        assert_eq!(events(b"\r\t\x7f"), expected);
        assert_eq!(events(b"\xff\xc3x"), [plain(KeyCode::Char('x'))], "not UTF-8");
    }

    #[test]
    fn sequences_are_keys_with_modifiers() {
        let expected = [KeyCode::Up, KeyCode::Up, KeyCode::Home, KeyCode::Delete, KeyCode::End];
        assert_eq!(events(b"\x1b[A\x1bOA\x1b[H\x1b[3~\x1b[4~"), expected.map(plain));
        let left = key(KeyCode::Left, KeyModifiers::CONTROL);
        let word = key(KeyCode::Char('b'), KeyModifiers::ALT);
        let line = key(KeyCode::Enter, KeyModifiers::ALT);
        assert_eq!(events(b"\x1b[1;5D\x1bb\x1b\r"), [left, word, line]);
        let shift_enter = key(KeyCode::Enter, KeyModifiers::SHIFT);
        assert_eq!(events(b"\x1b[13;2u\x1b[13;2:1u"), [shift_enter.clone(), shift_enter]);
        // Unknown sequences do nothing.
        assert_eq!(events(b"\x1b[[Ax\x1b[99~\x1b[?1;2c"), [plain(KeyCode::Char('x'))]);
    }

    #[test]
    fn escape_is_a_key_if_nothing_follows() {
        assert_eq!(events(b"\x1b"), [plain(KeyCode::Esc)]);
        assert_eq!(events(b"\x1b\x1b[A"), [KeyCode::Esc, KeyCode::Up].map(plain));
        let mut parser = KeyParser::default();
        assert!(parser.push(b"\x1b[1;").is_empty() && parser.is_incomplete());
        assert_eq!(parser.flush(), None);
        assert_eq!(parser.push(b"x"), [plain(KeyCode::Char('x'))]);
        let endless = [b"\x1b[".as_slice(), &b"1".repeat(10_000)].concat();
        assert!(
            KeyParser::default().push(&endless).iter().all(|it| *it == plain(KeyCode::Char('1')))
        );
    }

    #[test]
    fn a_paste_is_one_event_whatever_it_contains() {
        let pasted = "first\r\n\x1b[31msecond é\x03";
        let bytes = format!("a\x1b[200~{pasted}\x1b[201~b\x1b[200~\x1b[201~");
        assert_eq!(
            events(bytes.as_bytes()),
            [
                plain(KeyCode::Char('a')),
                Event::Paste(pasted.to_owned()),
                plain(KeyCode::Char('b')),
                Event::Paste(String::new()),
            ]
        );
    }

    #[test]
    fn a_huge_paste_arrives_in_linear_time() {
        let text = "0123456789abcde\n".repeat(4 << 16);
        let mut parser = KeyParser::default();
        let mut found = parser.push(b"\x1b[200~");
        for chunk in text.as_bytes().chunks(1024) {
            found.extend(parser.push(chunk));
        }
        found.extend(parser.push(b"\x1b[201~"));
        assert!(found == [Event::Paste(text)]);
    }
}
