//! What there is to say while something runs for long: lines on stderr.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Has everything that is worth a line written to stderr from here on. Of others' crates only
/// warnings: what they say of their work could name addresses that hold secrets.
pub(crate) fn begin() {
    let ours = ["towpath_telegram", "towpath_session", "towpath_gateway", "towpath_journal"];
    let mut wanted = Targets::new().with_default(LevelFilter::WARN);
    wanted = wanted.with_targets(ours.map(|it| (it, LevelFilter::INFO)));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    // Somebody who set up another log before knows better.
    let _ = tracing_subscriber::registry().with(wanted).with(lines.with_ansi(false)).try_init();
}
