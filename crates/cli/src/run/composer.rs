//! The line a person writes in: text, a cursor, and what was written before.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthChar as _;
use view::ansi::Style;
use view::terminal::Line;
use wire::say::Image;

use super::wording::{Wording, pasted_image};

/// The line a person writes in.
#[derive(Clone, Debug, Default)]
pub(super) struct Composer {
    text: String,
    /// The byte the cursor stands before.
    at: usize,
    images: Vec<(String, Image)>,
    history: Vec<String>,
    /// Which of the history is shown, and what was being written before it was asked for.
    recalled: Option<(usize, String)>,
}

/// What a key did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Composed {
    /// It means nothing here.
    Nothing,
    /// The text, or the cursor, is another.
    Changed,
    /// It is to be sent.
    Sent,
}

impl Composer {
    /// Empty, with what was written before, oldest first.
    pub(super) fn with_history(history: Vec<String>) -> Self {
        Self { history, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.images.is_empty()
    }

    #[cfg(test)]
    fn text(&self) -> &str {
        &self.text
    }

    /// Puts a text in the place of what is there.
    pub(super) fn fill(&mut self, text: String) {
        self.at = text.len();
        self.text = text;
    }

    pub(super) fn clear(&mut self) {
        self.fill(String::new());
        self.images.clear();
        self.recalled = None;
    }

    /// What was written, to be sent; the line is empty again.
    pub(super) fn take(&mut self) -> Wording {
        let text = std::mem::take(&mut self.text);
        let images = std::mem::take(&mut self.images).into_iter().map(|(_, image)| image).collect();
        if !text.trim().is_empty() && self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        self.clear();
        Wording { text, images }
    }

    /// Takes what was pasted: the path of a picture is that picture.
    pub(super) fn paste(&mut self, pasted: &str) {
        match pasted_image(pasted) {
            Some(image) => self.images.push(image),
            None => self.insert(&pasted.replace("\r\n", "\n").replace('\r', "\n")),
        }
    }

    /// Takes a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> Composed {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let by_word = alt || control;
        match key.code {
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => {
                self.insert("\n");
            }
            KeyCode::Enter if self.text[..self.at].ends_with('\\') => {
                self.remove(self.at - 1, self.at);
                self.insert("\n");
            }
            KeyCode::Enter => return Composed::Sent,
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Char('a') if control => self.at = self.line_start(),
            KeyCode::Char('e') if control => self.at = self.line_end(),
            KeyCode::Char('u') if control => self.remove(self.line_start(), self.at),
            KeyCode::Char('k') if control => self.remove(self.at, self.line_end()),
            KeyCode::Char('w') if control => self.remove(self.word_start(), self.at),
            KeyCode::Char('b') if alt => self.at = self.word_start(),
            KeyCode::Char('f') if alt => self.at = self.word_end(),
            KeyCode::Char(character) if !by_word => {
                self.insert(character.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace if by_word => self.remove(self.word_start(), self.at),
            KeyCode::Backspace if self.at == 0 => drop(self.images.pop()),
            KeyCode::Backspace => self.remove(self.before(), self.at),
            KeyCode::Delete => self.remove(self.at, self.after()),
            KeyCode::Left if by_word => self.at = self.word_start(),
            KeyCode::Right if by_word => self.at = self.word_end(),
            KeyCode::Left => self.at = self.before(),
            KeyCode::Right => self.at = self.after(),
            KeyCode::Home => self.at = self.line_start(),
            KeyCode::End => self.at = self.line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => return Composed::Nothing,
        }
        Composed::Changed
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.at, text);
        self.at += text.len();
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.at = from;
    }

    fn before(&self) -> usize {
        self.text[..self.at].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.at..].chars().next().map_or(self.at, |it| self.at + it.len_utf8())
    }

    fn line_start(&self) -> usize {
        self.text[..self.at].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.at..].find('\n').map_or(self.text.len(), |at| self.at + at)
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.at].trim_end();
        before.rfind(char::is_whitespace).map_or(0, |at| at + 1).min(before.len())
    }

    fn word_end(&self) -> usize {
        let behind = &self.text[self.at..];
        let word = behind.trim_start();
        let blanks = behind.len() - word.len();
        self.at + blanks + word.find(char::is_whitespace).unwrap_or(word.len())
    }

    /// To the line above, or to what was written before.
    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.at].chars().count();
            self.at = start - 1;
            self.at = self.line_start();
            self.forward_in_line(column);
            return;
        }
        let next = self.recalled.as_ref().map_or(self.history.len(), |(number, _)| *number);
        let Some(number) = next.checked_sub(1) else { return };
        let draft = match self.recalled.take() {
            Some((_, draft)) => draft,
            None => std::mem::take(&mut self.text),
        };
        self.fill(self.history[number].clone());
        self.recalled = Some((number, draft));
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.text[self.line_start()..self.at].chars().count();
            self.at = end + 1;
            self.forward_in_line(column);
            return;
        }
        let Some((number, draft)) = self.recalled.take() else { return };
        match self.history.get(number + 1) {
            Some(later) => {
                self.fill(later.clone());
                self.recalled = Some((number + 1, draft));
            }
            None => self.fill(draft),
        }
    }

    fn forward_in_line(&mut self, column: usize) {
        let line = &self.text[self.at..self.line_end()];
        self.at += line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    }

    /// The lines it takes and where the cursor is in them. Where nothing is written, `idle` stands in
    /// its place, dim.
    pub(super) fn lines(
        &self,
        sign: &str,
        idle: &str,
        width: usize,
    ) -> (Vec<Line>, (usize, usize)) {
        let sign_style = Style::PLAIN.in_colour(6).bold();
        let indent = sign.chars().count();
        let room = width.saturating_sub(indent + 1).max(8);
        let mut rows = vec![String::new()];
        let (mut column, mut cursor) = (0, (0, 0));
        for (at, character) in self.text.char_indices().chain([(self.text.len(), '\n')]) {
            if at == self.at {
                cursor = if column >= room { (rows.len(), 0) } else { (rows.len() - 1, column) };
            }
            if at == self.text.len() {
                break;
            }
            let wide = character.width().unwrap_or(0);
            if character == '\n' || column + wide > room {
                rows.push(String::new());
                column = 0;
            }
            if character != '\n' {
                let last = rows.len() - 1;
                rows[last].push(character);
                column += wide;
            }
        }
        if cursor.0 == rows.len() {
            rows.push(String::new());
        }
        let mut lines = Vec::new();
        for (name, _) in &self.images {
            lines.push(Line::of(Style::PLAIN.in_colour(5), &format!("[picture: {name}]")));
        }
        let above = lines.len();
        for (number, row) in rows.iter().enumerate() {
            let blank = " ".repeat(indent);
            let mut line = Line::of(sign_style, if number == 0 { sign } else { &blank });
            line.push(Style::PLAIN, row);
            if self.text.is_empty() {
                let idle: String = idle.chars().take(room).collect();
                line.push(Style::PLAIN.dim(), &idle);
            }
            lines.push(line);
        }
        (lines, (cursor.0 + above, cursor.1 + indent))
    }
}

#[cfg(test)]
mod tests {
    use super::{Composed, Composer};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn press(composer: &mut Composer, keys: &[(KeyCode, KeyModifiers)]) -> Composed {
        let mut last = Composed::Nothing;
        for (code, modifiers) in keys {
            last = composer.key(KeyEvent::new(*code, *modifiers));
        }
        last
    }

    fn plain(code: KeyCode) -> (KeyCode, KeyModifiers) {
        (code, KeyModifiers::NONE)
    }

    fn write(composer: &mut Composer, text: &str) {
        for character in text.chars() {
            press(composer, &[plain(KeyCode::Char(character))]);
        }
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut composer = Composer::default();
        write(&mut composer, "fix the tst");
        press(&mut composer, &[plain(KeyCode::Left), plain(KeyCode::Left)]);
        write(&mut composer, "e");
        assert_eq!(composer.text(), "fix the test");
        press(&mut composer, &[(KeyCode::Char('w'), KeyModifiers::CONTROL)]);
        assert_eq!(composer.text(), "fix the st");
        press(&mut composer, &[(KeyCode::Char('k'), KeyModifiers::CONTROL)]);
        press(&mut composer, &[(KeyCode::Char('a'), KeyModifiers::CONTROL)]);
        write(&mut composer, "é");
        press(&mut composer, &[plain(KeyCode::Left), plain(KeyCode::Delete)]);
        assert_eq!(composer.text(), "fix the ");
        press(&mut composer, &[plain(KeyCode::End), (KeyCode::Char('u'), KeyModifiers::CONTROL)]);
        assert!(composer.is_empty());
    }

    #[test]
    fn a_backslash_or_alt_enter_begins_another_line() {
        let mut composer = Composer::default();
        write(&mut composer, "one\\");
        assert_eq!(press(&mut composer, &[plain(KeyCode::Enter)]), Composed::Changed);
        write(&mut composer, "two");
        press(&mut composer, &[(KeyCode::Enter, KeyModifiers::ALT)]);
        write(&mut composer, "three");
        assert_eq!(composer.text(), "one\ntwo\nthree");
        press(&mut composer, &[plain(KeyCode::Up)]);
        write(&mut composer, "!");
        assert_eq!(composer.text(), "one\ntwo!\nthree");
        assert_eq!(press(&mut composer, &[plain(KeyCode::Enter)]), Composed::Sent);
        assert_eq!(composer.take().text, "one\ntwo!\nthree");
    }

    #[test]
    fn what_was_written_before_comes_back_and_so_does_the_draft() {
        let mut composer = Composer::with_history(vec!["first".to_owned(), "second".to_owned()]);
        write(&mut composer, "draft");
        press(&mut composer, &[plain(KeyCode::Up)]);
        assert_eq!(composer.text(), "second");
        press(&mut composer, &[plain(KeyCode::Up), plain(KeyCode::Up)]);
        assert_eq!(composer.text(), "first");
        press(&mut composer, &[plain(KeyCode::Down), plain(KeyCode::Down)]);
        assert_eq!(composer.text(), "draft");
    }

    #[test]
    fn the_cursor_is_where_the_next_character_goes() {
        let mut composer = Composer::default();
        let (lines, cursor) = composer.lines("> ", "hint", 20);
        assert_eq!((lines[0].text().as_str(), cursor), ("> hint", (0, 2)));
        write(&mut composer, "漢字 0123456789012");
        // Seventeen columns are left beside the sign and the cursor.
        let (lines, cursor) = composer.lines("> ", "", 20);
        let texts: Vec<_> = lines.iter().map(view::terminal::Line::text).collect();
        assert_eq!(texts, ["> 漢字 012345678901", "  2"]);
        assert_eq!(cursor, (1, 3));
        press(&mut composer, &[plain(KeyCode::Home)]);
        assert_eq!(composer.lines("> ", "", 20).1, (0, 2));
    }
}
