//! Taps on buttons, and what the bot answered.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ids::CallbackId;
use super::params::Params;
use super::refusal::Refusal;
use super::rich::units;

/// All taps so far.
#[derive(Debug, Default)]
pub(super) struct Callbacks {
    taps: BTreeMap<CallbackId, Tap>,
    count: u64,
}

#[derive(Debug)]
struct Tap {
    at: Duration,
    answer: Option<CallbackAnswer>,
}

/// What a person sees after a tap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackAnswer {
    /// The notice; empty where the button just stops turning.
    pub text: String,
    /// Whether the notice has to be dismissed.
    pub alert: bool,
}

impl Callbacks {
    pub(super) fn tap(&mut self, now: Duration) -> CallbackId {
        self.count += 1;
        let id = CallbackId(format!("40{:016}", self.count));
        self.taps.insert(id.clone(), Tap { at: now, answer: None });
        id
    }

    pub(super) fn answer_to(&self, id: &CallbackId) -> Option<CallbackAnswer> {
        self.taps.get(id)?.answer.clone()
    }

    /// `answerCallbackQuery`
    pub(super) fn answer(
        &mut self,
        now: Duration,
        life: Duration,
        params: &Params,
    ) -> Result<(), Refusal> {
        let text = params.text("text").into_owned();
        if units(&text) > 200 {
            return Err(Refusal::bad("MESSAGE_TOO_LONG"));
        }
        let id = CallbackId(params.text("callback_query_id").into_owned());
        let tap = self.taps.get_mut(&id).filter(|it| it.answer.is_none() && now < it.at + life);
        let Some(tap) = tap else {
            return Err(Refusal::bad(
                "query is too old and response timeout expired or query ID is invalid",
            ));
        };
        tap.answer = Some(CallbackAnswer { text, alert: params.flag("show_alert") });
        Ok(())
    }
}
