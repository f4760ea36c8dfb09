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

fn levels() -> Targets {
    let own_crates = [
        "towpath",
        "towpath_acp",
        "towpath_telegram",
        "towpath_session",
        "towpath_gateway",
        "towpath_journal",
        "towpath_watch",
    ];
    Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(own_crates.map(|name| (name, LevelFilter::INFO)))
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
        context.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}
