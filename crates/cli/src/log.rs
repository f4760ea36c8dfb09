//! The log of long-running commands: on stderr, and in a file of the data directory.
//!
//! It has no secrets and no messages: Towpath's own crates log events, ids and errors, and
//! dependencies log warnings only, because their lower levels may contain addresses with secrets.

mod rotating_file;

use std::fmt;
use std::io::{self, IsTerminal as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use rotating_file::RotatingFile;

/// Starts logging to stderr.
pub(crate) fn init() {
    // Fails only if a subscriber is already installed, which then stays.
    let layer = stderr_layer(LevelFilter::INFO);
    let _ = tracing_subscriber::registry().with(levels()).with(layer).try_init();
}

/// Starts logging to stderr and to a file. Returns the file; without it the command runs all the
/// same.
pub(crate) fn init_with_file(path: &Path) -> Option<PathBuf> {
    let (file, problem) = match RotatingFile::open(path) {
        Ok(file) => (Some(file), None),
        Err(error) => (None, Some(error)),
    };
    let lines = file.map(|file| {
        let lines = tracing_subscriber::fmt::layer().with_writer(Mutex::new(file));
        lines.with_ansi(false).with_target(false)
    });
    let has_file = lines.is_some();
    let registry = tracing_subscriber::registry().with(levels()).with(lines);
    // On a terminal the command itself says what the user needs; the file has the rest.
    let on_terminal = has_file && io::stderr().is_terminal();
    let level = if on_terminal { LevelFilter::WARN } else { LevelFilter::INFO };
    let _ = registry.with(stderr_layer(level)).try_init();
    if let Some(error) = problem {
        warn!(path = %path.display(), %error, "the log file cannot be used");
    }
    has_file.then(|| path.to_owned())
}

/// All crates of the program: their events have been written for this log.
const OWN_CRATES: &[&str] = &[
    "towpath",
    "towpath_acp",
    "towpath_fleet",
    "towpath_gateway",
    "towpath_journal",
    "towpath_project",
    "towpath_push",
    "towpath_search",
    "towpath_session",
    "towpath_telegram",
    "towpath_terminal",
    "towpath_testbed",
    "towpath_transcripts",
    "towpath_view",
    "towpath_watch",
    "towpath_wire",
];

fn levels() -> Targets {
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(OWN_CRATES.iter().map(|name| (*name, LevelFilter::INFO)))
}

/// Lines without colours, which would take a feature that nothing else needs.
fn stderr_layer<S>(level: LevelFilter) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'a> LookupSpan<'a> + Send + Sync,
{
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    let lines = lines.with_ansi(false);
    if is_journald() {
        lines.event_format(JournaldFormat).with_filter(level).boxed()
    } else {
        lines.with_filter(level).boxed()
    }
}

/// Whether stderr is connected to systemd's journal, which adds the time itself.
#[expect(clippy::disallowed_methods, reason = "decides how this process writes its log")]
fn is_journald() -> bool {
    let Some(journal) = std::env::var_os("JOURNAL_STREAM") else { return false };
    // Programs inherit the variable also when their stderr goes elsewhere.
    match std::fs::metadata("/proc/self/fd/2") {
        Ok(stderr) => journal == *format!("{}:{}", stderr.dev(), stderr.ino()),
        Err(_) => !io::stderr().is_terminal(),
    }
}

/// Lines for systemd's journal: the priority in front, and no time.
struct JournaldFormat;

impl<S, N> FormatEvent<S, N> for JournaldFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let priority = match *event.metadata().level() {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            Level::DEBUG | Level::TRACE => 7,
        };
        write!(writer, "<{priority}>")?;
        let mut one_line = OneLine(writer.by_ref());
        context.field_format().format_fields(Writer::new(&mut one_line), event)?;
        writeln!(writer)
    }
}

/// Writes line breaks as `\n`: every line is a record of its own for systemd's journal, so the end of an
/// error would lose its priority, and a text from outside could forge a record.
struct OneLine<'a>(Writer<'a>);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some(at) = rest.find(['\n', '\r', '\0']) {
            self.0.write_str(&rest[..at])?;
            self.0.write_str(match rest.as_bytes()[at] {
                b'\n' => "\\n",
                b'\r' => "\\r",
                _ => "\\0",
            })?;
            rest = &rest[at + 1..];
        }
        self.0.write_str(rest)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::io;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::layer::SubscriberExt as _;

    use super::{JournaldFormat, OWN_CRATES, levels};

    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn logged(log: impl FnOnce()) -> String {
        let output = Output::default();
        let writer = output.clone();
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(move || writer.clone())
            .with_ansi(false)
            .event_format(JournaldFormat);
        let subscriber = tracing_subscriber::registry().with(levels()).with(lines);
        tracing::subscriber::with_default(subscriber, log);
        String::from_utf8(output.0.lock().unwrap().clone()).unwrap()
    }

    #[test]
    fn a_record_of_the_journal_is_one_line_whatever_an_error_says() {
        let log = logged(|| {
            let error = "first\n<0>forged\r\nlast\0";
            tracing::warn!(%error, quoted = ?error, "{error}");
        });
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.starts_with("<4>") && log.contains("first\\n<0>forged\\r\\nlast\\0"), "{log}");
    }

    #[test]
    fn the_events_of_all_crates_of_the_program_are_logged() {
        // `bench` and `test-support` are not part of it.
        let others = ["bench", "cli", "test-support"];
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let names = std::fs::read_dir(crates).unwrap().filter_map(|it| {
            let name = it.unwrap().file_name().into_string().unwrap();
            (!others.contains(&name.as_str()))
                .then(|| format!("towpath_{}", name.replace('-', "_")))
        });
        let expected: BTreeSet<String> = names.chain(["towpath".to_owned()]).collect();
        let listed: BTreeSet<String> = OWN_CRATES.iter().map(|it| (*it).to_owned()).collect();
        assert_eq!(listed, expected);
        let log = logged(|| {
            tracing::info!(target: "towpath_fleet::lease", "kept");
            tracing::info!(target: "hyper", "left out");
            tracing::warn!(target: "hyper", "also kept");
        });
        assert_eq!(log, "<6>kept\n<4>also kept\n");
    }
}
