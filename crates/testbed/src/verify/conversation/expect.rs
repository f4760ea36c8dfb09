//! Waiting for lines, and noticing those that must not come.

use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, timeout, timeout_at};

use super::super::child::ending;
use super::super::difference::{Difference, Stop};
use super::super::tape::{Entry, Way, is_kind, kind};
use super::Conversation;
use crate::scenario::{Expectation, Mismatch, Names, Order, match_value};

/// How long an agent may take to end once its output has.
const LAST_WORDS: Duration = Duration::from_secs(2);

impl Conversation<'_> {
    /// Waits for a line that is as expected, behind what was awaited before.
    pub(super) async fn expect(
        &mut self,
        line: usize,
        expectation: &Expectation,
        name: Option<&str>,
        order: Order,
    ) -> Result<(), Stop> {
        let passed = self.talk().passed;
        let (from, taken) = match order {
            Order::InOrder => (passed, Vec::new()),
            Order::AnyOrder => self.talk().loose.clone().unwrap_or((passed, Vec::new())),
        };
        let deadline = Instant::now() + self.patience;
        let mut news = self.tape.watch();
        let mut looked = from;
        let mut nearest: Option<(Mismatch, Value)> = None;
        loop {
            // Whether it is silent is asked first: what it said before that is then on the tape.
            let silent = self.talks[self.current].child.is_silent();
            let found = self.search(expectation, &mut looked, &taken, &mut nearest);
            if let Some((place, value, names)) = found {
                self.names = names;
                self.found(name, place, &value, (order, from, taken));
                return self.check_forbidden(place);
            }
            if silent {
                // What ends its output is about to end, and how it does belongs to the story.
                let child = &self.talks[self.current].child;
                let _ = timeout(LAST_WORDS, child.end()).await;
                return Err(self.missed(line, expectation, from, nearest));
            }
            if timeout_at(deadline, news.changed()).await.is_err() {
                return Err(self.missed(line, expectation, from, nearest));
            }
        }
    }

    /// The first line from `looked` on that is as expected; `looked` moves behind what is not.
    fn search(
        &self,
        expectation: &Expectation,
        looked: &mut usize,
        taken: &[usize],
        nearest: &mut Option<(Mismatch, Value)>,
    ) -> Option<(usize, Value, Names)> {
        let process = self.talks[self.current].child.number;
        let entries = self.tape.entries();
        while let Some(entry) = entries.get(*looked) {
            let place = *looked;
            *looked += 1;
            let ours = entry.process == process && entry.way == Way::Heard;
            if !ours || taken.contains(&place) || !is_kind(&entry.value, &expectation.kind) {
                continue;
            }
            match match_value(&expectation.pattern, &entry.value, &self.names) {
                Ok(names) => return Some((place, entry.value.clone(), names)),
                Err(miss) => {
                    if nearest.as_ref().is_none_or(|(it, _)| it.nearness() < miss.nearness()) {
                        *nearest = Some((miss, entry.value.clone()));
                    }
                }
            }
        }
        None
    }

    fn found(
        &mut self,
        name: Option<&str>,
        place: usize,
        value: &Value,
        (order, from, mut taken): (Order, usize, Vec<usize>),
    ) {
        if let Some(name) = name {
            let id = value["request_id"].as_str().or(value["uuid"].as_str());
            self.names.set(name, id.unwrap_or_default());
        }
        let talk = self.talk();
        if is_kind(value, "control_request") {
            talk.asks.push((name.map(str::to_owned), value.clone()));
        }
        talk.passed = talk.passed.max(place + 1);
        if order == Order::AnyOrder {
            taken.push(place);
            talk.loose = Some((from, taken));
        }
    }

    /// Whether something came before this place that must not.
    pub(super) fn check_forbidden(&mut self, before: usize) -> Result<(), Stop> {
        let process = self.talk().child.number;
        let forbidden = std::mem::take(&mut self.talk().forbidden);
        for (line, from, expectation) in forbidden {
            let entries = self.tape.entries();
            let came = entries.iter().take(before).skip(from).find(|entry| {
                entry.process == process
                    && entry.way == Way::Heard
                    && is_kind(&entry.value, &expectation.kind)
                    && match_value(&expectation.pattern, &entry.value, &self.names).is_ok()
            });
            if let Some(entry) = came {
                let (shown, value) = (shown(&expectation), entry.value.clone());
                drop(entries);
                let mut difference = Difference::new(line, "this must not come, but came");
                difference.expected = Some(format!("no {shown}"));
                difference.seen = Some(self.normal().line(&value));
                return Err(difference.into());
            }
        }
        Ok(())
    }

    fn missed(
        &self,
        line: usize,
        expectation: &Expectation,
        from: usize,
        nearest: Option<(Mismatch, Value)>,
    ) -> Stop {
        let child = &self.talks[self.current].child;
        let what = match child.status() {
            Some(status) => format!("it ended ({}) before this came", ending(status)),
            None => format!("this did not come within {} s", self.patience.as_secs()),
        };
        let entries = self.tape.entries();
        let heard = |entry: &&Entry| entry.process == child.number && entry.way == Way::Heard;
        let mut before = entries.iter().take(from).filter(heard);
        let early = before.any(|entry| {
            is_kind(&entry.value, &expectation.kind)
                && match_value(&expectation.pattern, &entry.value, &self.names).is_ok()
        });
        let what = if early { format!("{what}; it came earlier") } else { what };
        let mut difference = Difference::new(line, &what);
        difference.expected = Some(shown(expectation));
        difference.nearest = nearest.map(|(miss, value)| self.normal().nearest(&miss, &value));
        difference.stderr = child.errors();
        let came = entries.iter().skip(from).filter(heard);
        difference.came = came.map(|entry| kind(&entry.value)).collect();
        difference.into()
    }
}

/// An expectation as its line in the file.
fn shown(expectation: &Expectation) -> String {
    match &expectation.pattern {
        Value::Object(fields) if fields.is_empty() => expectation.kind.clone(),
        pattern => format!("{} {pattern}", expectation.kind),
    }
}
