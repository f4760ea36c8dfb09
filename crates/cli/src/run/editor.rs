//! The editor for prompts: text, a cursor and a history.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use unicode_width::UnicodeWidthChar as _;
use view::ansi::TextStyle;
use view::terminal::StyledLine;
use wire::outgoing::Image;

use super::draft::{RunPromptDraft, pasted_image};

/// A multi-line editor with a history and attached images.
#[derive(Clone, Debug, Default)]
pub(super) struct PromptEditor {
    text: String,
    /// A byte offset into the text.
    cursor: usize,
    images: Vec<(String, Image)>,
    history: Vec<String>,
    /// The history entry on screen, and the draft that it replaced.
    history_position: Option<(usize, String)>,
}

/// The effect of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditorEvent {
    Ignored,
    /// The text or the cursor changed.
    Changed,
    Submitted,
}

impl PromptEditor {
    /// An empty editor. The history is ordered oldest first.
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

    /// Replaces the text.
    pub(super) fn set_text(&mut self, text: String) {
        self.cursor = text.len();
        self.text = text;
    }

    pub(super) fn clear(&mut self) {
        self.set_text(String::new());
        self.images.clear();
        self.history_position = None;
    }

    /// Takes the draft out, adds it to the history and clears the editor.
    pub(super) fn take(&mut self) -> RunPromptDraft {
        let text = std::mem::take(&mut self.text);
        let images = std::mem::take(&mut self.images).into_iter().map(|(_, image)| image).collect();
        if !text.trim().is_empty() && self.history.last() != Some(&text) {
            self.history.push(text.clone());
        }
        self.clear();
        RunPromptDraft { text, images }
    }

    /// Inserts pasted text. The path of an image attaches that image.
    pub(super) fn paste(&mut self, pasted: &str) {
        match pasted_image(pasted) {
            Some(image) => self.images.push(image),
            None => self.insert(&pasted.replace("\r\n", "\n").replace('\r', "\n")),
        }
    }

    pub(super) fn key(&mut self, key: KeyEvent) -> EditorEvent {
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let by_word = alt || control;
        match key.code {
            KeyCode::Enter if alt || key.modifiers.contains(KeyModifiers::SHIFT) => {
                self.insert("\n");
            }
            KeyCode::Enter if self.text[..self.cursor].ends_with('\\') => {
                self.remove(self.cursor - 1, self.cursor);
                self.insert("\n");
            }
            KeyCode::Enter => return EditorEvent::Submitted,
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Char('a') if control => self.cursor = self.line_start(),
            KeyCode::Char('e') if control => self.cursor = self.line_end(),
            KeyCode::Char('u') if control => self.remove(self.line_start(), self.cursor),
            KeyCode::Char('k') if control => self.remove(self.cursor, self.line_end()),
            KeyCode::Char('w') if control => self.remove(self.word_start(), self.cursor),
            KeyCode::Char('b') if alt => self.cursor = self.word_start(),
            KeyCode::Char('f') if alt => self.cursor = self.word_end(),
            KeyCode::Char(character) if !by_word => {
                self.insert(character.encode_utf8(&mut [0; 4]));
            }
            KeyCode::Backspace if by_word => self.remove(self.word_start(), self.cursor),
            KeyCode::Backspace if self.cursor == 0 => drop(self.images.pop()),
            KeyCode::Backspace => self.remove(self.before(), self.cursor),
            KeyCode::Delete => self.remove(self.cursor, self.after()),
            KeyCode::Left if by_word => self.cursor = self.word_start(),
            KeyCode::Right if by_word => self.cursor = self.word_end(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            _ => return EditorEvent::Ignored,
        }
        EditorEvent::Changed
    }

    fn insert(&mut self, text: &str) {
        self.text.insert_str(self.cursor, text);
        self.cursor += text.len();
    }

    fn remove(&mut self, from: usize, to: usize) {
        self.text.replace_range(from..to, "");
        self.cursor = from;
    }

    fn before(&self) -> usize {
        self.text[..self.cursor].char_indices().next_back().map_or(0, |(at, _)| at)
    }

    fn after(&self) -> usize {
        self.text[self.cursor..]
            .chars()
            .next()
            .map_or(self.cursor, |it| self.cursor + it.len_utf8())
    }

    fn line_start(&self) -> usize {
        self.text[..self.cursor].rfind('\n').map_or(0, |at| at + 1)
    }

    fn line_end(&self) -> usize {
        self.text[self.cursor..].find('\n').map_or(self.text.len(), |at| self.cursor + at)
    }

    fn word_start(&self) -> usize {
        let before = self.text[..self.cursor].trim_end();
        before.rfind(char::is_whitespace).map_or(0, |at| at + 1).min(before.len())
    }

    fn word_end(&self) -> usize {
        let behind = &self.text[self.cursor..];
        let word = behind.trim_start();
        let blanks = behind.len() - word.len();
        self.cursor + blanks + word.find(char::is_whitespace).unwrap_or(word.len())
    }

    /// Moves to the line above, or to the previous entry of the history.
    fn up(&mut self) {
        let start = self.line_start();
        if start > 0 {
            let column = self.text[start..self.cursor].chars().count();
            self.cursor = start - 1;
            self.cursor = self.line_start();
            self.forward_in_line(column);
            return;
        }
        let next = self.history_position.as_ref().map_or(self.history.len(), |(number, _)| *number);
        let Some(number) = next.checked_sub(1) else { return };
        let draft = match self.history_position.take() {
            Some((_, draft)) => draft,
            None => std::mem::take(&mut self.text),
        };
        self.set_text(self.history[number].clone());
        self.history_position = Some((number, draft));
    }

    fn down(&mut self) {
        let end = self.line_end();
        if end < self.text.len() {
            let column = self.text[self.line_start()..self.cursor].chars().count();
            self.cursor = end + 1;
            self.forward_in_line(column);
            return;
        }
        let Some((number, draft)) = self.history_position.take() else { return };
        match self.history.get(number + 1) {
            Some(later) => {
                self.set_text(later.clone());
                self.history_position = Some((number + 1, draft));
            }
            None => self.set_text(draft),
        }
    }

    fn forward_in_line(&mut self, column: usize) {
        let line = &self.text[self.cursor..self.line_end()];
        self.cursor += line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
    }

    /// The lines on screen, and the row and column of the cursor. An empty editor shows the
    /// placeholder.
    pub(super) fn lines(
        &self,
        marker: &str,
        placeholder: &str,
        width: usize,
    ) -> (Vec<StyledLine>, (usize, usize)) {
        let marker_style = TextStyle::PLAIN.in_colour(6).bold();
        let indent = marker.chars().count();
        let columns = width.saturating_sub(indent + 1).max(8);
        let mut rows = vec![String::new()];
        let (mut column, mut cursor) = (0, (0, 0));
        for (at, character) in self.text.char_indices().chain([(self.text.len(), '\n')]) {
            if at == self.cursor {
                cursor = if column >= columns { (rows.len(), 0) } else { (rows.len() - 1, column) };
            }
            if at == self.text.len() {
                break;
            }
            let wide = character.width().unwrap_or(0);
            if character == '\n' || column + wide > columns {
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
            lines.push(StyledLine::of(TextStyle::PLAIN.in_colour(5), &format!("[image: {name}]")));
        }
        let above = lines.len();
        for (number, row) in rows.iter().enumerate() {
            let blank = " ".repeat(indent);
            let mut line = StyledLine::of(marker_style, if number == 0 { marker } else { &blank });
            line.push(TextStyle::PLAIN, row);
            if self.text.is_empty() {
                let placeholder: String = placeholder.chars().take(columns).collect();
                line.push(TextStyle::PLAIN.dim(), &placeholder);
            }
            lines.push(line);
        }
        (lines, (cursor.0 + above, cursor.1 + indent))
    }
}

#[cfg(test)]
mod tests {
    use super::{EditorEvent, PromptEditor};
    use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

    fn press(editor: &mut PromptEditor, keys: &[(KeyCode, KeyModifiers)]) -> EditorEvent {
        let mut last = EditorEvent::Ignored;
        for (code, modifiers) in keys {
            last = editor.key(KeyEvent::new(*code, *modifiers));
        }
        last
    }

    fn plain(code: KeyCode) -> (KeyCode, KeyModifiers) {
        (code, KeyModifiers::NONE)
    }

    fn write(editor: &mut PromptEditor, text: &str) {
        for character in text.chars() {
            press(editor, &[plain(KeyCode::Char(character))]);
        }
    }

    #[test]
    fn a_line_is_edited_as_in_a_shell() {
        let mut editor = PromptEditor::default();
        write(&mut editor, "fix the tst");
        press(&mut editor, &[plain(KeyCode::Left), plain(KeyCode::Left)]);
        write(&mut editor, "e");
        assert_eq!(editor.text(), "fix the test");
        press(&mut editor, &[(KeyCode::Char('w'), KeyModifiers::CONTROL)]);
        assert_eq!(editor.text(), "fix the st");
        press(&mut editor, &[(KeyCode::Char('k'), KeyModifiers::CONTROL)]);
        press(&mut editor, &[(KeyCode::Char('a'), KeyModifiers::CONTROL)]);
        write(&mut editor, "é");
        press(&mut editor, &[plain(KeyCode::Left), plain(KeyCode::Delete)]);
        assert_eq!(editor.text(), "fix the ");
        press(&mut editor, &[plain(KeyCode::End), (KeyCode::Char('u'), KeyModifiers::CONTROL)]);
        assert!(editor.is_empty());
    }

    #[test]
    fn a_backslash_or_alt_enter_begins_another_line() {
        let mut editor = PromptEditor::default();
        write(&mut editor, "one\\");
        assert_eq!(press(&mut editor, &[plain(KeyCode::Enter)]), EditorEvent::Changed);
        write(&mut editor, "two");
        press(&mut editor, &[(KeyCode::Enter, KeyModifiers::ALT)]);
        write(&mut editor, "three");
        assert_eq!(editor.text(), "one\ntwo\nthree");
        press(&mut editor, &[plain(KeyCode::Up)]);
        write(&mut editor, "!");
        assert_eq!(editor.text(), "one\ntwo!\nthree");
        assert_eq!(press(&mut editor, &[plain(KeyCode::Enter)]), EditorEvent::Submitted);
        assert_eq!(editor.take().text, "one\ntwo!\nthree");
    }

    #[test]
    fn the_history_is_recalled_and_then_the_draft() {
        let mut editor = PromptEditor::with_history(vec!["first".to_owned(), "second".to_owned()]);
        write(&mut editor, "draft");
        press(&mut editor, &[plain(KeyCode::Up)]);
        assert_eq!(editor.text(), "second");
        press(&mut editor, &[plain(KeyCode::Up), plain(KeyCode::Up)]);
        assert_eq!(editor.text(), "first");
        press(&mut editor, &[plain(KeyCode::Down), plain(KeyCode::Down)]);
        assert_eq!(editor.text(), "draft");
    }

    #[test]
    fn the_cursor_is_where_the_next_character_goes() {
        let mut editor = PromptEditor::default();
        let (lines, cursor) = editor.lines("> ", "hint", 20);
        assert_eq!((lines[0].text().as_str(), cursor), ("> hint", (0, 2)));
        write(&mut editor, "漢字 0123456789012");
        // Seventeen columns are left beside the marker and the cursor.
        let (lines, cursor) = editor.lines("> ", "", 20);
        let texts: Vec<_> = lines.iter().map(view::terminal::StyledLine::text).collect();
        assert_eq!(texts, ["> 漢字 012345678901", "  2"]);
        assert_eq!(cursor, (1, 3));
        press(&mut editor, &[plain(KeyCode::Home)]);
        assert_eq!(editor.lines("> ", "", 20).1, (0, 2));
    }
}
