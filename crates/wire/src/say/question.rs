//! Answers to `AskUserQuestion`.

use serde::Serialize;

use super::JsonObject;
use crate::json::Raw;

/// What a person answered to the questions of one `AskUserQuestion`.
///
/// The tool is answered by allowing it with the answers added to its input, keyed by the text of
/// the question. Questions that are left out count as not answered.
///
/// ```
/// use towpath_wire::say::{Answers, JsonObject};
///
/// let asked = JsonObject::parse(r#"{"questions":[{"question":"Which?"}]}"#).unwrap();
/// let input = Answers::default().choose("Which?", ["A", "C"]).note("Which?", "not B").input(&asked);
/// assert_eq!(
///     input.as_str(),
///     r#"{"questions":[{"question":"Which?"}],"answers":{"Which?":"A, C"},"annotations":{"Which?":{"notes":"not B"}}}"#
/// );
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Question and answer; several choices are joined as the CLI itself joins them.
    given: Vec<(String, String)>,
    notes: Vec<(String, String)>,
}

impl Answers {
    /// Answers `question` with the labels of its options, or with words of one's own.
    #[must_use]
    pub fn choose<'a>(
        mut self,
        question: &str,
        choices: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let choices: Vec<&str> = choices.into_iter().collect();
        self.given.push((question.to_owned(), choices.join(", ")));
        self
    }

    /// Adds a remark to the answer to `question`.
    #[must_use]
    pub fn note(mut self, question: &str, note: &str) -> Self {
        self.notes.push((question.to_owned(), note.to_owned()));
        self
    }

    /// The input to allow the tool with.
    pub fn input(&self, asked: &JsonObject) -> JsonObject {
        #[derive(Serialize)]
        struct Note<'a> {
            notes: &'a str,
        }
        let answers = map(self.given.iter().map(|(question, answer)| (question, answer.as_str())));
        let notes = map(self.notes.iter().map(|(question, notes)| (question, Note { notes })));
        let kept = asked.as_raw().fields().filter_map(|(key, value)| {
            let key = key.decode().into_owned();
            (key != "answers" && key != "annotations").then_some((key, value))
        });
        let answers = ("answers".to_owned(), Raw::checked(&answers));
        let notes =
            (!self.notes.is_empty()).then(|| ("annotations".to_owned(), Raw::checked(&notes)));
        JsonObject::of(kept.chain([answers]).chain(notes))
    }
}

/// A JSON object in the order given.
fn map<'a>(entries: impl Iterator<Item = (&'a String, impl Serialize)>) -> String {
    let fields: Vec<String> = entries
        .map(|(key, value)| {
            let value = serde_json::to_string(&value).expect("strings serialise");
            format!("{}:{value}", serde_json::Value::from(key.as_str()))
        })
        .collect();
    format!("{{{}}}", fields.join(","))
}
