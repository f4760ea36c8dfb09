//! What keys do on the stage.

use std::time::Instant;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use view::terminal::{self, Look};
use wire::note::{Delivery, PromptState, QueueFate};

use super::footer::Attention;
use super::{Stage, help};
use crate::run::Failure;
use crate::run::asking::Reply;
use crate::run::composer::Composed;
use crate::run::telling::{Over, TWICE};
use crate::run::wording::Wording;
use crate::view::screen::Screen;

impl Stage<'_> {
    /// Takes a key, a paste or a new size; whether that was the end.
    pub(super) async fn event(&mut self, event: Event) -> Result<Option<Over>, Failure> {
        match event {
            Event::Key(key) if key.kind != KeyEventKind::Release => return self.key(key).await,
            Event::Paste(text) => match &mut self.asking {
                Some(asking) if self.answers && asking.takes_words() => asking.paste(&text),
                _ if self.goes_on => self.composer.paste(&text),
                _ => {}
            },
            Event::Resize(..) => {
                self.screen = Screen::of_stdout(None);
                self.teller.resize(self.screen);
            }
            Event::Key(_) | Event::FocusGained | Event::FocusLost | Event::Mouse(_) => {}
        }
        Ok(None)
    }

    async fn key(&mut self, key: KeyEvent) -> Result<Option<Over>, Failure> {
        self.hint = None;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c') if control => return self.stop().await,
            KeyCode::Char('d') if control && self.composer.is_empty() => {
                return Ok(Some(Over::Left));
            }
            KeyCode::Tab if self.goes_on && self.asking.is_some() => {
                self.answers = !self.answers;
                return Ok(None);
            }
            _ => {}
        }
        let attention = self.attention();
        if let Some(asking) = self.asking.as_mut().filter(|_| attention != Attention::Line) {
            if attention == Attention::Turning {
                return Ok(None);
            }
            match asking.key(key) {
                Reply::Nothing | Reply::Again => {}
                Reply::ShowAll => self.show_request()?,
                Reply::Answer(answer) => {
                    let request = asking.request.id.clone();
                    let answered = self.session.answer(&request, answer, self.by.clone()).await;
                    self.hint = answered.err().map(|error| error.to_string());
                }
            }
            return Ok(None);
        }
        if !self.goes_on {
            return Ok(None);
        }
        self.last_key = Some(Instant::now());
        match key.code {
            KeyCode::Char('?') if self.composer.is_empty() => {
                let lines = help::lines(self.screen.width);
                self.teller.add(&lines, &self.document).map_err(Failure::Write)?;
            }
            KeyCode::Up if self.composer.is_empty() && self.take_back().await => {}
            _ => {
                if self.composer.key(key) == Composed::Sent && !self.composer.is_empty() {
                    let wording = self.composer.take();
                    self.send(wording).await;
                }
            }
        }
        Ok(None)
    }

    /// Sends what was written: into the running turn with a `>` in front, after it otherwise.
    async fn send(&mut self, mut wording: Wording) {
        let mut delivery = Delivery::Queue;
        if self.is_busy()
            && let Some(words) = wording.text.strip_prefix('>')
        {
            wording.text = words.trim_start().to_owned();
            delivery = Delivery::Steer;
        }
        let text = wording.text.clone();
        if let Err(error) = self.session.prompt(wording.prompt(delivery, self.by.clone())).await {
            self.hint = Some(error.to_string());
            self.composer.fill(text);
        }
    }

    /// Takes back the last prompt that waits, to be written anew; whether there was one.
    async fn take_back(&mut self) -> bool {
        let waits = |it: &&view::WaitingPrompt| it.state == PromptState::Queued;
        let Some(prompt) = self.document.now.queue.iter().rfind(waits) else { return false };
        let Ok(id) = prompt.id.parse() else { return false };
        let text = prompt.text.clone();
        if self.session.remove_prompt(id).await.is_err() {
            return false;
        }
        self.composer.fill(text);
        true
    }

    /// Ctrl-C: stops the turn, or empties the line; twice leaves.
    pub(super) async fn stop(&mut self) -> Result<Option<Over>, Failure> {
        if self.stop_pressed.is_some_and(|at| at.elapsed() < TWICE) {
            return Ok(Some(Over::Left));
        }
        self.stop_pressed = Some(Instant::now());
        if self.is_busy() {
            self.session.interrupt(QueueFate::Keep, self.by.clone()).await?;
            self.hint = Some("Ctrl-C again leaves".to_owned());
        } else if self.composer.is_empty() {
            self.hint = Some("Ctrl-C again leaves; the session is kept".to_owned());
        } else {
            self.composer.clear();
        }
        Ok(None)
    }

    /// Shows all of what the request at hand is about.
    fn show_request(&mut self) -> Result<(), Failure> {
        let Some(item) = self.asking.as_ref().and_then(|asking| asking.request.item.as_ref())
        else {
            return Ok(());
        };
        let Some(item) = self.document.now.items.iter().find(|it| it.id == *item) else {
            return Ok(());
        };
        let base = self.document.now.head.cwd.as_deref();
        let lines = terminal::item(item, Look { width: self.screen.width, base, full: true });
        self.teller.add(&lines, &self.document).map_err(Failure::Write)
    }
}
