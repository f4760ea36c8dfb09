//! Who answers.

use std::sync::Arc;

use crate::scenario::Version;

use super::answer::Answer;
use super::ids::Ids;
use super::improvise;
use super::request::Request;
use super::script::{Chosen, Script};
use super::shelf::Shelf;

/// The part of the model: what answers the requests of a conversation.
#[derive(Debug)]
pub enum Model {
    /// One script, whoever asks.
    Scripted(Script),
    /// The scenario that begins as the conversation does.
    Shelf(Shelf),
    /// Something sensible, made up from the request.
    Improvised,
}

impl From<Script> for Model {
    fn from(script: Script) -> Self {
        Self::Scripted(script)
    }
}

impl From<Shelf> for Model {
    fn from(shelf: Shelf) -> Self {
        Self::Shelf(shelf)
    }
}

/// Who asks, as far as the headers tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Client<'a> {
    /// The version of the CLI.
    pub(super) version: Option<Version>,
    /// The session of the CLI.
    pub(super) session: Option<&'a str>,
}

/// A model at work.
#[derive(Debug)]
pub(super) struct Author {
    model: Model,
    /// What was made up last, for whoever asks the same again.
    improvised: Option<(String, Arc<Answer>)>,
}

impl Author {
    pub(super) fn new(model: Model) -> Self {
        Self { model, improvised: None }
    }

    /// Chooses the answer; where no reply is left to give, something is made up.
    pub(super) fn answer(
        &mut self,
        request: &Request<'_>,
        client: Client<'_>,
        ids: &Ids,
    ) -> Chosen {
        let chosen = match &mut self.model {
            Model::Scripted(script) => script.answer(request, client.version, ids),
            Model::Shelf(scenarios) => scenarios.answer(request, client, ids),
            Model::Improvised => None,
        };
        chosen.unwrap_or_else(|| {
            let answer = self.improvise(improvise::answer(&request.newest()), ids);
            Chosen { answer, spared: false }
        })
    }

    fn improvise(&mut self, text: String, ids: &Ids) -> Arc<Answer> {
        match &self.improvised {
            Some((known, answer)) if *known == text => Arc::clone(answer),
            _ => {
                let answer = Arc::new(Answer::of_text(text.clone(), ids));
                self.improvised = Some((text, Arc::clone(&answer)));
                answer
            }
        }
    }
}
