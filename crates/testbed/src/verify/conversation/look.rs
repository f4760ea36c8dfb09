//! Looking at what is around the agent: requests, files, processes, its end.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep, timeout};

use super::super::child::ending;
use super::super::difference::{Difference, Stop};
use super::super::tape::{Way, is_kind};
use super::{Conversation, SETTLED};
use crate::api::Kind;
use crate::scenario::{Item, Step, holds_words, match_value, matches_text};

/// Files and processes have no gate to wait at; they are looked at this often.
const GLANCE: Duration = Duration::from_millis(20);

/// How long a file may take to get its content, once everything before it has happened.
const FILE_PATIENCE: Duration = Duration::from_secs(3);

impl Conversation<'_> {
    /// Looks at a file or at processes.
    pub(super) async fn look(&self, line: usize, step: &Step) -> Result<(), Stop> {
        match step {
            Step::FileIs { path, content } => self.file_is(line, path, content).await,
            Step::FileIsNot(path) => match self.sandbox.files(path, &self.names).first() {
                None => Ok(()),
                Some(file) => {
                    let seen = format!("`{}` is there", file.display());
                    Err(self.differs(line, &format!("no file `{path}`"), &seen))
                }
            },
            Step::WaitFile(path) => {
                let there = || !self.sandbox.files(path, &self.names).is_empty();
                if glance(self.patience, there).await {
                    return Ok(());
                }
                Err(self.late(line, &format!("a file `{path}`"), "there is none"))
            }
            Step::Gone(words) => {
                let gone = || self.processes_with(words).is_empty();
                if glance(self.patience, gone).await {
                    return Ok(());
                }
                let left = self.processes_with(words).join("\n");
                Err(self.late(line, &format!("no process with `{words}`"), &left))
            }
            Step::Left(words) => {
                sleep(SETTLED).await;
                // It is seen under its own name only once it has taken its parent's off.
                if glance(self.patience, || !self.processes_with(words).is_empty()).await {
                    return Ok(());
                }
                let seen = match self.processes_with("").join("\n") {
                    none if none.is_empty() => "no process at all".to_owned(),
                    others => others,
                };
                Err(self.differs(line, &format!("a process with `{words}`"), &seen))
            }
            _ => Ok(()),
        }
    }

    pub(super) async fn request(
        &mut self,
        line: usize,
        number: usize,
        pattern: &Value,
    ) -> Result<(), Stop> {
        let request = timeout(self.patience, self.server.main_request(number)).await;
        let Ok(Some(request)) = request else {
            let seen = format!("{} requests", self.main_requests());
            return Err(self.late(line, &format!("a request {number} to the API"), &seen));
        };
        match match_value(pattern, &request.body, &self.names) {
            Ok(names) => {
                self.names = names;
                Ok(())
            }
            Err(miss) => {
                let what = format!("request {number} is not as expected");
                let mut difference = Difference::new(line, &what);
                difference.expected = Some(pattern.to_string());
                difference.nearest = Some(self.normal().nearest(&miss, &request.body));
                Err(difference.into())
            }
        }
    }

    pub(super) async fn requests(&mut self, line: usize, count: usize) -> Result<(), Stop> {
        // That more come than that cannot be awaited, only that these do.
        let _ = timeout(self.patience, async {
            if count > 0 {
                self.server.main_request(count).await;
            }
        })
        .await;
        let seen = self.main_requests();
        if seen == count {
            return Ok(());
        }
        Err(self.differs(line, &format!("{count} requests to the API"), &seen.to_string()))
    }

    fn main_requests(&self) -> usize {
        let requests = self.server.requests();
        requests.iter().filter(|request| request.kind == Kind::Main).count()
    }

    pub(super) async fn exit(&mut self, line: usize, expected: &Step) -> Result<(), Stop> {
        let what = match expected {
            Step::Exit(Some(code)) => format!("exit code {code}"),
            Step::ExitBySignal(signal) => format!("signal {}", signal.number()),
            _ => "an end".to_owned(),
        };
        let patience = self.patience;
        let Ok(Some(status)) = timeout(patience, self.talk().child.end()).await else {
            return Err(self.late(line, &what, "it still runs"));
        };
        let seen = ending(status);
        if matches!(expected, Step::Exit(None)) || what == seen {
            return Ok(());
        }
        let errors = self.talk().child.errors();
        let Stop::Differs(mut difference) = self.differs(line, &what, &seen) else {
            return Ok(());
        };
        difference.stderr = errors;
        Err(Stop::Differs(difference))
    }

    async fn file_is(&self, line: usize, path: &str, content: &str) -> Result<(), Stop> {
        let read = || {
            let files = self.sandbox.files(path, &self.names);
            files.into_iter().map(|file: PathBuf| {
                let bytes = std::fs::read(file).unwrap_or_default();
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let holds = || read().any(|text| matches_text(content, &text, &self.names));
        if glance(FILE_PATIENCE.min(self.patience), holds).await {
            return Ok(());
        }
        let expected = format!("`{path}` holds {}", json!(content));
        let seen = read()
            .next()
            .map_or_else(|| "there is no such file".to_owned(), |text| json!(text).to_string());
        Err(self.differs(line, &expected, &seen))
    }

    fn processes_with(&self, words: &str) -> Vec<String> {
        let commands = self.sandbox.processes().into_iter().map(|process| process.command);
        commands.filter(|command| holds_words(words, command, &self.names)).collect()
    }

    pub(super) fn check_end(&self, item: &Item<Step>) -> Result<(), Stop> {
        let child = &self.talks[self.current].child;
        match &item.what {
            Step::Count { kind: wanted, times } => {
                let entries = self.tape.entries();
                let heard = entries.iter().filter(|entry| {
                    entry.process == child.number
                        && entry.way == Way::Heard
                        && is_kind(&entry.value, wanted)
                });
                let count = heard.count();
                drop(entries);
                if count == *times {
                    return Ok(());
                }
                let expected = format!("{times} × {wanted}");
                Err(self.differs(item.line, &expected, &format!("{count} × {wanted}")))
            }
            Step::Stderr(words) => {
                let errors = child.errors();
                if holds_words(words, &errors, &self.names) {
                    return Ok(());
                }
                let expected = format!("{} on stderr", json!(words));
                Err(self.differs(item.line, &expected, &json!(errors).to_string()))
            }
            _ => Ok(()),
        }
    }
}

/// Looks again and again until something is so, or the time is over.
async fn glance(patience: Duration, is_so: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        if is_so() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        sleep(GLANCE).await;
    }
}
