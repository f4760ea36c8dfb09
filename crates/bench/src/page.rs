//! Opening a session in Chromium: how soon the page is painted and the end of the conversation is shown, and
//! how many bytes the page itself takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::Deserialize;
use tokio::runtime::Builder;
use tokio::time::sleep;

use crate::cache::{BenchCache, install_with_npm};
use crate::error::BenchError;
use crate::followers::AnyError;
use crate::followers::server::ServeSetup;
use crate::table::{BenchRow, BenchTarget};

const SCRIPT: &str = include_str!("scripts/page.mjs");
const PLAYWRIGHT_VERSION: &str = "1.56.1";
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// How many turns the session has, and how many words each answer.
const TURNS: u32 = 160;
const WORDS: u32 = 40;

/// How often the page is loaded; the median counts.
const LOADS: usize = 7;

/// One load of the page.
#[derive(Debug, Deserialize)]
struct PageLoad {
    /// The compressed files of the page, in bytes.
    files: f64,
    /// Everything over HTTP with headers, and answers of the API. The conversation comes over a WebSocket.
    traffic: f64,
    /// The first contentful paint, in milliseconds.
    paint: f64,
    /// When the end of the conversation was shown, in milliseconds.
    shown: f64,
}

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    let skipped = |reason| Ok(vec![BenchRow::skipped("page", "", reason)]);
    let Some(browser) = browser() else {
        return skipped("no Chromium is installed".to_owned());
    };
    let directory = cache.path("page").join(PLAYWRIGHT_VERSION);
    if !directory.join("node_modules/playwright-core/package.json").exists()
        && let Err(reason) =
            install_with_npm(&directory, &format!("playwright-core@{PLAYWRIGHT_VERSION}"))
    {
        return skipped(reason);
    }
    let loads = measure(cache, &directory, &browser);
    let loads = loads.map_err(|error| BenchError::new("open the page", &error))?;
    let median = |figure: fn(&PageLoad) -> f64| {
        let mut figures: Vec<f64> = loads.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let row = |name, amount, unit, most: Option<f64>| {
        let what = format!("{TURNS} turns, the median of {LOADS} loads");
        BenchRow::amount(name, "", what, (amount, unit), most.map(BenchTarget::AtMost))
    };
    Ok(vec![
        row("page, its files", median(|it| it.files) / 1000.0, " KB", Some(50.0)),
        row("page, all over HTTP", median(|it| it.traffic) / 1000.0, " KB", None),
        row("page, first paint", median(|it| it.paint), " ms", Some(800.0)),
        row("page, conversation shown", median(|it| it.shown), " ms", Some(800.0)),
    ])
}

fn measure(
    cache: &BenchCache,
    directory: &Path,
    browser: &Path,
) -> Result<Vec<PageLoad>, AnyError> {
    let script = directory.join("page.mjs");
    fs::write(&script, SCRIPT)?;
    let setup = ServeSetup::new(cache)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let server = setup.serve()?;
    let session = runtime.block_on(async {
        let session = server.create_session(&setup).await?;
        for turn in 2..=TURNS {
            // The agent numbers the words of each answer. Only the last one has one more.
            server.prompt(session, WORDS + u32::from(turn == TURNS), 0).await?;
            while !server.is_idle(session).await? {
                sleep(Duration::from_millis(5)).await;
            }
        }
        Ok::<_, AnyError>(session)
    })?;
    let last = format!("q{:07}z", WORDS + 1);
    let mut node = Command::new("node");
    node.arg(script).arg(browser).arg(format!("http://{}", server.address()));
    node.arg(server.token()).arg(session.to_string()).arg(last).arg(LOADS.to_string());
    let output = node.output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok(lines.map(serde_json::from_slice).collect::<Result<_, _>>()?)
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let mut found = BROWSERS.iter().flat_map(|name| places.iter().map(move |it| it.join(name)));
    found.find(|program| program.is_file())
}
