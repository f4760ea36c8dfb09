//! The keyboard below a message, and the taps on its buttons.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use super::BotApiCallbackId;
use crate::bot_api::call::{BotApiError, BotApiParams};
use crate::bot_api::text::utf16_length;

const MAX_BUTTONS: usize = 100;

/// The fields that give a button something else to do than a callback query.
const OTHER_ACTIONS: [&str; 7] = [
    "url",
    "web_app",
    "login_url",
    "switch_inline_query",
    "switch_inline_query_current_chat",
    "copy_text",
    "pay",
];

/// `reply_markup`
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum BotApiMarkup {
    /// Buttons that belong to the message.
    Inline(Vec<Vec<BotApiButton>>),
    /// Markup that affects the user's own keyboard. It is not part of the message.
    UserKeyboard(Value),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BotApiButton {
    pub(crate) text: String,
    /// What a tap sends to the bot. `None` for a button with another action.
    pub(crate) data: Option<String>,
    json: Value,
}

/// Which button a user taps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BotApiButtonSelector {
    /// The button with this label.
    Label(String),
    /// The button in this row and column, both counted from 0.
    Position(usize, usize),
}

impl From<&str> for BotApiButtonSelector {
    fn from(label: &str) -> Self {
        Self::Label(label.to_owned())
    }
}

impl From<(usize, usize)> for BotApiButtonSelector {
    fn from((row, column): (usize, usize)) -> Self {
        Self::Position(row, column)
    }
}

impl BotApiMarkup {
    pub(crate) fn read(params: &BotApiParams) -> Result<Option<Self>, BotApiError> {
        let reason = "can't parse reply keyboard markup JSON object";
        let value = params.json("reply_markup").map_err(|_| BotApiError::bad_request(reason))?;
        let Some(value) = value else { return Ok(None) };
        let Some(object) = value.as_object() else {
            return Err(BotApiError::bad_request("object expected as reply markup"));
        };
        let Some(rows) = object.get("inline_keyboard") else {
            return Ok((!object.is_empty()).then_some(Self::UserKeyboard(value)));
        };
        let Some(rows) = rows.as_array() else {
            return Err(BotApiError::bad_request(
                "field \"inline_keyboard\" of the InlineKeyboardMarkup must be of type Array",
            ));
        };
        let mut buttons = Vec::new();
        for row in rows {
            let Some(row) = row.as_array() else {
                return Err(BotApiError::bad_request(
                    "field \"inline_keyboard\" of the InlineKeyboardMarkup must be an Array of Arrays",
                ));
            };
            let row = row.iter().map(BotApiButton::read).collect::<Result<Vec<_>, _>>()?;
            // Telegram drops empty rows.
            if !row.is_empty() {
                buttons.push(row);
            }
        }
        if buttons.iter().map(Vec::len).sum::<usize>() > MAX_BUTTONS {
            return Err(BotApiError::bad_request("reply markup is too long"));
        }
        Ok((!buttons.is_empty()).then_some(Self::Inline(buttons)))
    }

    pub(crate) fn rows(&self) -> &[Vec<BotApiButton>] {
        match self {
            Self::Inline(rows) => rows,
            Self::UserKeyboard(_) => &[],
        }
    }

    /// The labels of the buttons, row by row.
    pub(crate) fn labels(&self) -> Vec<Vec<String>> {
        let row = |row: &Vec<BotApiButton>| row.iter().map(|it| it.text.clone()).collect();
        self.rows().iter().map(row).collect()
    }

    pub(crate) fn button(&self, selector: &BotApiButtonSelector) -> Option<&BotApiButton> {
        match selector {
            BotApiButtonSelector::Label(label) => {
                self.rows().iter().flatten().find(|it| it.text == *label)
            }
            BotApiButtonSelector::Position(row, column) => self.rows().get(*row)?.get(*column),
        }
    }

    pub(crate) fn is_force_reply(&self) -> bool {
        matches!(self, Self::UserKeyboard(markup) if markup["force_reply"] == true)
    }

    /// The buttons as a message includes them.
    pub(crate) fn json(&self) -> Option<Value> {
        let row = |row: &Vec<BotApiButton>| row.iter().map(|it| it.json.clone()).collect::<Value>();
        match self {
            Self::Inline(rows) => {
                let rows: Value = rows.iter().map(row).collect();
                Some(json!({"inline_keyboard": rows}))
            }
            Self::UserKeyboard(_) => None,
        }
    }
}

impl BotApiButton {
    fn read(button: &Value) -> Result<Self, BotApiError> {
        let invalid = |reason: &str| {
            BotApiError::bad_request(format!("can't parse inline keyboard button: {reason}"))
        };
        if !button.is_object() {
            return Err(invalid("expected an Object"));
        }
        let Some(text) = button["text"].as_str() else {
            return Err(invalid("Can't find field \"text\""));
        };
        if text.is_empty() {
            return Err(invalid("Text of the button must be non-empty"));
        }
        let data = button["callback_data"].as_str();
        if data.is_some_and(|data| !(1..=64).contains(&data.len())) {
            return Err(BotApiError::bad_request("BUTTON_DATA_INVALID"));
        }
        if data.is_none() && OTHER_ACTIONS.iter().all(|it| button.get(it).is_none()) {
            return Err(invalid("Text buttons are unallowed in the inline keyboard"));
        }
        if let Some(url) = button["url"].as_str()
            && !["http://", "https://", "tg://"].iter().any(|it| url.starts_with(it))
        {
            return Err(BotApiError::bad_request(format!(
                "inline keyboard button URL '{url}' is invalid: Unsupported URL protocol"
            )));
        }
        let (text, data) = (text.to_owned(), data.map(ToOwned::to_owned));
        Ok(Self { text, data, json: button.clone() })
    }
}

/// All taps so far, and the bot's answers to them.
#[derive(Debug, Default)]
pub(crate) struct BotApiCallbacks {
    taps: BTreeMap<BotApiCallbackId, BotApiTap>,
    count: u64,
}

#[derive(Debug)]
struct BotApiTap {
    at: Duration,
    answer: Option<BotApiCallbackAnswer>,
}

/// What a user sees after a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BotApiCallbackAnswer {
    /// The notification. If it is empty, only the progress indicator of the button ends.
    pub text: String,
    /// Whether the user has to dismiss the notification.
    pub alert: bool,
}

impl BotApiCallbacks {
    pub(crate) fn add(&mut self, now: Duration) -> BotApiCallbackId {
        self.count += 1;
        let id = BotApiCallbackId(format!("40{:016}", self.count));
        self.taps.insert(id.clone(), BotApiTap { at: now, answer: None });
        id
    }

    pub(crate) fn answer(&self, id: &BotApiCallbackId) -> Option<BotApiCallbackAnswer> {
        self.taps.get(id)?.answer.clone()
    }

    /// `answerCallbackQuery`
    pub(crate) fn set_answer(
        &mut self,
        now: Duration,
        lifetime: Duration,
        params: &BotApiParams,
    ) -> Result<(), BotApiError> {
        let text = params.text("text").into_owned();
        if utf16_length(&text) > 200 {
            return Err(BotApiError::bad_request("MESSAGE_TOO_LONG"));
        }
        let id = BotApiCallbackId(params.text("callback_query_id").into_owned());
        let tap = self.taps.get_mut(&id);
        let Some(tap) = tap.filter(|it| it.answer.is_none() && now < it.at + lifetime) else {
            return Err(BotApiError::bad_request(
                "query is too old and response timeout expired or query ID is invalid",
            ));
        };
        tap.answer = Some(BotApiCallbackAnswer { text, alert: params.flag("show_alert") });
        Ok(())
    }
}
