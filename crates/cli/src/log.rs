//! The log of long-running commands, on stderr.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Starts logging to stderr. Dependencies log warnings only: their lower levels may contain
/// addresses that hold secrets.
pub(crate) fn init() {
    let own_crates = ["towpath_telegram", "towpath_session", "towpath_gateway", "towpath_journal"];
    let levels = Targets::new()
        .with_default(LevelFilter::WARN)
        .with_targets(own_crates.map(|name| (name, LevelFilter::INFO)));
    let lines = tracing_subscriber::fmt::layer().with_writer(io::stderr).with_target(false);
    // Fails only if a subscriber is already installed, which then stays.
    let _ = tracing_subscriber::registry().with(levels).with(lines.with_ansi(false)).try_init();
}
