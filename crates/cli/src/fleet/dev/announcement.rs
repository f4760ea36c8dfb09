//! What `towpath fleet dev` prints when everything is ready.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use serde::Serialize;

const LABEL: Style = AnsiColor::Cyan.on_default().bold();

/// A fleet whose processes are all ready.
#[derive(Debug)]
pub(super) struct ReadyFleet {
    pub(super) url: String,
    pub(super) token: String,
    /// Of the gateway.
    pub(super) pid: u32,
    pub(super) nats: Vec<String>,
    /// Names and process ids.
    pub(super) workers: Vec<(String, u32)>,
    pub(super) roots: Vec<PathBuf>,
    /// The data directory, if it is kept.
    pub(super) data: Option<PathBuf>,
}

/// The line that `--json` prints.
#[derive(Serialize)]
struct ReadyFleetLine<'a> {
    url: &'a str,
    token: &'a str,
    pid: u32,
    nats: &'a [String],
    workers: Vec<ReadyWorker<'a>>,
}

#[derive(Serialize)]
struct ReadyWorker<'a> {
    name: &'a str,
    pid: u32,
}

impl ReadyFleet {
    pub(super) fn print(&self, json: bool) -> io::Result<()> {
        if json {
            let mut line = serde_json::to_vec(&self.line())?;
            line.push(b'\n');
            let mut stdout = io::stdout().lock();
            stdout.write_all(&line)?;
            return stdout.flush();
        }
        let mut out = anstream::stdout().lock();
        write!(out, "{}", self.text())?;
        out.flush()
    }

    fn line(&self) -> ReadyFleetLine<'_> {
        let workers = self.workers.iter().map(|(name, pid)| ReadyWorker { name, pid: *pid });
        ReadyFleetLine {
            url: &self.url,
            token: &self.token,
            pid: self.pid,
            nats: &self.nats,
            workers: workers.collect(),
        }
    }

    fn text(&self) -> String {
        let paths = |paths: &[PathBuf]| paths.iter().map(|it| it.display().to_string()).collect();
        let workers = self.workers.iter().map(|(name, pid)| format!("{name}, process {pid}"));
        let data = match &self.data {
            Some(data) => data.display().to_string(),
            None => "temporary; keep it with `--data DIR`".to_owned(),
        };
        let rows: [(&str, Vec<String>); 6] = [
            ("Open", vec![format!("{}/#token={}", self.url, self.token)]),
            ("Gateway", vec![format!("process {}", self.pid)]),
            ("Workers", workers.collect()),
            ("NATS", self.nats.clone()),
            ("Folders", paths(&self.roots)),
            ("Data", vec![data]),
        ];
        let mut text = "\n".to_owned();
        for (label, lines) in rows {
            for (index, line) in lines.iter().enumerate() {
                let label = if index == 0 { label } else { "" };
                // Writing to a string does not fail.
                let _ = writeln!(text, "  {LABEL}{label:<10}{LABEL:#}{line}");
            }
        }
        text.push_str("\n  Ctrl-C stops everything.\n\n");
        text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ReadyFleet;

    #[test]
    fn programs_get_one_object_and_people_get_the_link() {
        let fleet = ReadyFleet {
            url: "http://127.0.0.1:4280".to_owned(),
            token: "t".to_owned(),
            pid: 7,
            nats: vec!["nats://fleet:p@127.0.0.1:4222".to_owned()],
            workers: vec![("w1".to_owned(), 8), ("w2".to_owned(), 9)],
            roots: vec!["/src".into()],
            data: None,
        };
        let line = serde_json::to_value(fleet.line()).unwrap();
        let expected = json!({
            "url": "http://127.0.0.1:4280", "token": "t", "pid": 7,
            "nats": ["nats://fleet:p@127.0.0.1:4222"],
            "workers": [{ "name": "w1", "pid": 8 }, { "name": "w2", "pid": 9 }],
        });
        assert_eq!(line, expected);
        let text = anstream::adapter::strip_str(&fleet.text()).to_string();
        assert!(text.contains("Open      http://127.0.0.1:4280/#token=t\n"), "{text}");
        assert!(text.contains("Workers   w1, process 8\n            w2, process 9\n"), "{text}");
    }
}
