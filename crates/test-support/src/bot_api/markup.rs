//! What hangs below a message: buttons, or a wish for a reply.

use serde_json::Value;

use super::params::Params;
use super::refusal::Refusal;

/// The most buttons a message can have.
const MOST: usize = 100;

/// What a button may do instead of telling the bot.
const OTHERS: [&str; 7] = [
    "url",
    "web_app",
    "login_url",
    "switch_inline_query",
    "switch_inline_query_current_chat",
    "copy_text",
    "pay",
];

/// What hangs below a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Markup {
    /// Buttons that belong to the message.
    Inline(Vec<Vec<Key>>),
    /// Anything that concerns the writer's keyboard: it is not part of the message.
    Keyboard(Value),
}

/// A button.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) text: String,
    /// What a tap sends; none where it opens something instead.
    pub(super) data: Option<String>,
    pub(super) whole: Value,
}

/// Which button is tapped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Button {
    /// The one that says this.
    Text(String),
    /// The one in this row and column, from 0 on.
    At(usize, usize),
}

impl From<&str> for Button {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<(usize, usize)> for Button {
    fn from((row, column): (usize, usize)) -> Self {
        Self::At(row, column)
    }
}

impl Markup {
    pub(super) fn read(params: &Params) -> Result<Option<Self>, Refusal> {
        let value = params
            .json("reply_markup")
            .map_err(|_| Refusal::bad("can't parse reply keyboard markup JSON object"))?;
        let Some(value) = value else { return Ok(None) };
        let Some(object) = value.as_object() else {
            return Err(Refusal::bad("object expected as reply markup"));
        };
        let Some(rows) = object.get("inline_keyboard") else {
            return Ok((!object.is_empty()).then_some(Self::Keyboard(value)));
        };
        let Some(rows) = rows.as_array() else {
            return Err(Refusal::bad(
                "field \"inline_keyboard\" of the InlineKeyboardMarkup must be of type Array",
            ));
        };
        let mut keys = Vec::new();
        for row in rows {
            let Some(row) = row.as_array() else {
                return Err(Refusal::bad(
                    "field \"inline_keyboard\" of the InlineKeyboardMarkup must be an Array of Arrays",
                ));
            };
            let row = row.iter().map(Key::read).collect::<Result<Vec<_>, _>>()?;
            // Rows without a button do not show.
            if !row.is_empty() {
                keys.push(row);
            }
        }
        if keys.iter().map(Vec::len).sum::<usize>() > MOST {
            return Err(Refusal::bad("reply markup is too long"));
        }
        Ok((!keys.is_empty()).then_some(Self::Inline(keys)))
    }

    pub(super) fn rows(&self) -> &[Vec<Key>] {
        match self {
            Self::Inline(rows) => rows,
            Self::Keyboard(_) => &[],
        }
    }

    pub(super) fn key(&self, button: &Button) -> Option<&Key> {
        match button {
            Button::Text(text) => self.rows().iter().flatten().find(|it| it.text == *text),
            Button::At(row, column) => self.rows().get(*row)?.get(*column),
        }
    }

    /// The buttons as a message carries them.
    pub(super) fn json(&self) -> Option<Value> {
        let row = |row: &Vec<Key>| row.iter().map(|it| it.whole.clone()).collect::<Value>();
        match self {
            Self::Inline(rows) => {
                let rows: Value = rows.iter().map(row).collect();
                Some(serde_json::json!({"inline_keyboard": rows}))
            }
            Self::Keyboard(_) => None,
        }
    }
}

impl Key {
    fn read(button: &Value) -> Result<Self, Refusal> {
        let bad = |why: &str| Refusal::bad(format!("can't parse inline keyboard button: {why}"));
        if !button.is_object() {
            return Err(bad("expected an Object"));
        }
        let Some(text) = button["text"].as_str() else {
            return Err(bad("Can't find field \"text\""));
        };
        if text.is_empty() {
            return Err(bad("Text of the button must be non-empty"));
        }
        let data = button["callback_data"].as_str();
        if data.is_some_and(|data| !(1..=64).contains(&data.len())) {
            return Err(Refusal::bad("BUTTON_DATA_INVALID"));
        }
        if data.is_none() && OTHERS.iter().all(|it| button.get(it).is_none()) {
            return Err(bad("Text buttons are unallowed in the inline keyboard"));
        }
        if let Some(url) = button["url"].as_str()
            && !["http://", "https://", "tg://"].iter().any(|it| url.starts_with(it))
        {
            let why = "Unsupported URL protocol";
            return Err(Refusal::bad(format!(
                "inline keyboard button URL '{url}' is invalid: {why}"
            )));
        }
        let (text, data) = (text.to_owned(), data.map(ToOwned::to_owned));
        Ok(Self { text, data, whole: button.clone() })
    }
}
