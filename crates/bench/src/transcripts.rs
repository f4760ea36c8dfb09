//! The CLI's session files: listing a home with thousands of them, opening a large one, and searching
//! them all.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use cpu_time::ProcessTime;
use journal::Journal;
use search::{Search, SearchRequest, SearchScope};
use session::{
    AgentProgram, SessionLimits, Sessions, SessionsConfig, UnattendedLimits, WatchPolicy,
};
use tokio::runtime::Builder;
use transcripts::{ActiveBranch, TranscriptCatalog, TranscriptDirectory};
use view::{Fold, OlderItems, Position};
use wire::{Origin, RecordedLine};

use crate::cache::BenchCache;
use crate::error::BenchError;
use crate::followers::AnyError;
use crate::measure::memory_field;
use crate::sessions::{SessionsSetup, first_lines};
use crate::table::{BenchRow, BenchTarget};
use crate::transcript_home::TranscriptHome;

/// The home of someone who has used the CLI every day for a year has 2 GB, with corpora of 200 MB.
const FILES_PER_MEGABYTE: u64 = 25;
const HOME_MEGABYTES: u64 = 10;

/// How much of a conversation is kept in memory.
const FOLD_BYTES: usize = 8 << 20;

const QUERIES: usize = 500;
const RESULTS: usize = 30;

/// How many turns are measured, and how many words the agent answers with.
const TURNS: usize = 30;
const WORDS: u32 = 20;

pub(crate) fn rows(cache: &BenchCache) -> Result<Vec<BenchRow>, BenchError> {
    measure(cache).map_err(|error| BenchError::new("measure session files", &error))
}

fn measure(cache: &BenchCache) -> Result<Vec<BenchRow>, AnyError> {
    let megabytes = cache.megabytes();
    let files = usize::try_from(megabytes * FILES_PER_MEGABYTE)?;
    let home = cache.path("transcripts-v2");
    let home = TranscriptHome::write(&home, files, megabytes * HOME_MEGABYTES)?;
    let mut rows = Vec::from(list_rows(&home));
    show_memory("list")?;
    rows.extend(open_rows(&home.large)?);
    show_memory("open")?;
    rows.extend(search_rows(cache, &home)?);
    show_memory("search")?;
    rows.extend(turn_rows(cache, &home)?);
    if let Some(memory) = memory_field(std::process::id(), "VmHWM:")? {
        let what = "list, open and index".to_owned();
        rows.push(row("transcripts, peak memory", what, f64::from(memory) / 1000.0, " MB", 150.0));
    }
    Ok(rows)
}

/// Says how much memory the process has taken so far.
fn show_memory(after: &str) -> Result<(), AnyError> {
    if let Some(memory) = memory_field(std::process::id(), "VmHWM:")? {
        eprintln!("bench: transcripts, peak memory after {after}: {} MB", memory / 1000);
    }
    Ok(())
}

fn list_rows(home: &TranscriptHome) -> [BenchRow; 3] {
    let store = TranscriptDirectory::new(home.config.join("projects"));
    let mut catalog = TranscriptCatalog::new(store, Vec::new());
    let first = milliseconds(|| drop(catalog.refresh()));
    let later = milliseconds(|| drop(catalog.refresh()));
    let mut counted = 0;
    let count = milliseconds(|| {
        for entry in catalog.uncounted(usize::MAX) {
            if let Ok(count) = entry.file.count_messages(entry.summary.counted.unwrap_or_default())
            {
                counted += count.offset;
            }
        }
    });
    #[expect(clippy::cast_precision_loss, reason = "it is a size")]
    let rate = counted as f64 / 1000.0 / count.max(0.001);
    let what = format!("{} files, {} MB", home.files, home.bytes / 1_000_000);
    [
        row("transcripts, first list", what.clone(), first, " ms", 1_000.0),
        row("transcripts, later list", what, later, " ms", 20.0),
        BenchRow::amount(
            "transcripts, count messages",
            "",
            "in the background".to_owned(),
            (rate, " MB/s"),
            Some(BenchTarget::AtLeast(100.0)),
        ),
    ]
}

/// Opening a large session: which lines belong to it, and the newest items; then older ones.
fn open_rows(large: &Path) -> Result<[BenchRow; 3], AnyError> {
    let mut file = File::open(large)?;
    let mut branch = ActiveBranch::default();
    let mut fold = Fold::with_budget(FOLD_BYTES);
    let scan = try_milliseconds(|| {
        branch = ActiveBranch::scan(&mut file)?;
        Ok(())
    })?;
    let open = try_milliseconds(|| push_lines(&mut fold, &mut file, &branch, 0, u64::MAX))?;
    let middle = branch.lines.get(branch.lines.len() / 2).map_or(0, |line| line.offset);
    let older = try_milliseconds(|| {
        if let OlderItems::Page(page) = fold.older(Position(middle + 1, 0), 50) {
            let mut part = Fold::for_page(&page);
            push_lines(&mut part, &mut file, &branch, page.first, page.last)?;
            part.page_items(&page);
        }
        Ok(())
    })?;
    let lines = format!("{} lines, 100 MB", branch.lines.len());
    Ok([
        row("transcripts, branch", lines.clone(), scan, " ms", 1_000.0),
        row("transcripts, first page", lines.clone(), scan + open, " ms", 2_000.0),
        row("transcripts, older page", lines, older, " ms", 100.0),
    ])
}

fn push_lines(
    fold: &mut Fold,
    file: &mut File,
    branch: &ActiveBranch,
    first: u64,
    last: u64,
) -> Result<(), AnyError> {
    let mut bytes = Vec::new();
    for line in branch.lines.iter().filter(|line| (first..=last).contains(&(line.offset + 1))) {
        bytes.resize(line.length, 0);
        file.seek(SeekFrom::Start(line.offset))?;
        file.read_exact(&mut bytes)?;
        let (seq, origin) = (line.offset + 1, Origin::Transcript);
        fold.push_recorded(RecordedLine { seq, at: 0, origin, bytes: &bytes });
    }
    Ok(())
}

fn search_rows(cache: &BenchCache, home: &TranscriptHome) -> Result<Vec<BenchRow>, AnyError> {
    let data = cache.path("transcripts-data");
    let _ = fs::remove_dir_all(&data);
    fs::create_dir_all(&data)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let search = Search::new(sessions(&data, &home.config)?);
        let start = ProcessTime::now();
        search.update().await?;
        let build = start.elapsed();
        let mut size = 0;
        for ending in ["", "-wal"] {
            size += fs::metadata(data.join(format!("search.db{ending}"))).map_or(0, |it| it.len());
        }
        let again = ProcessTime::now();
        search.update().await?;
        let again = again.elapsed();
        let (mut times, mut all_times, mut found, mut partial) = (Vec::new(), Vec::new(), 0, 0);
        for text in TranscriptHome::queries(QUERIES) {
            let (scope, limit) = (SearchScope::default(), RESULTS);
            let mut request = SearchRequest { text, scope, limit, after: None };
            let start = Instant::now();
            let page = search.find(request.clone()).await?;
            times.push(start.elapsed());
            // A page may have fewer results because of the time that it takes.
            let mut results = page.results.len();
            partial += usize::from(results < RESULTS && page.more.is_some());
            request.after = page.more;
            while results < RESULTS && request.after.is_some() {
                let next = search.find(request.clone()).await?;
                results += next.results.len();
                request.after = next.more;
            }
            all_times.push(start.elapsed());
            found += usize::from(results > 0);
        }
        #[expect(clippy::cast_precision_loss, reason = "they are sizes")]
        let (bytes, size) = (home.bytes as f64, size as f64);
        let what = format!("{:.0} MB", bytes / 1e6);
        let queries = format!("{QUERIES} queries, {found} with results");
        let pages = format!("{RESULTS} results or all, {partial} with more than one page");
        let rate = bytes / 1e6 / build.as_secs_f64();
        let target = Some(BenchTarget::AtLeast(10.0));
        let speed = (rate, " MB/s of CPU");
        Ok(vec![
            BenchRow::amount("search, build the index", "", what.clone(), speed, target),
            row("search, size of the index", what.clone(), 100.0 * size / bytes, " %", 33.0),
            row("search, nothing new", what, milliseconds_of(again), " ms", 200.0),
            row("search, query, median", queries.clone(), percentile(&mut times, 50), " ms", 20.0),
            row("search, query, 99 %", queries, percentile(&mut times, 99), " ms", 50.0),
            row(
                "search, whole answer, 99 %",
                pages,
                percentile(&mut all_times, 99),
                " ms",
                1_000.0,
            ),
        ])
    })
}

/// How long a turn takes to begin while everything is indexed, and while nothing is.
fn turn_rows(cache: &BenchCache, home: &TranscriptHome) -> Result<[BenchRow; 2], AnyError> {
    let data = cache.path("transcripts-data");
    let _ = fs::remove_dir_all(&data);
    fs::create_dir_all(&data)?;
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let setup = SessionsSetup::new(cache, WORDS)?;
        let session = setup.create().await?;
        session.wake().await?;
        let mut alone = first_lines(&session, TURNS + 1).await?;
        let search = Search::new(sessions(&data, &home.config)?);
        let mut progress = search.progress();
        let indexing = tokio::spawn(search.clone().run());
        progress.wait_for(Option::is_some).await?;
        let mut beside = first_lines(&session, TURNS + 1).await?;
        let is_indexing = progress.borrow().is_some();
        indexing.abort();
        setup.close().await;
        let what = |when: &str| format!("median of {TURNS} turns {when}");
        let during = if is_indexing { "while it indexes" } else { "until all was indexed" };
        Ok([
            row("search, turn begins", what("alone"), percentile(&mut alone, 50), " ms", 50.0),
            row("search, turn begins", what(during), percentile(&mut beside, 50), " ms", 50.0),
        ])
    })
}

fn percentile(times: &mut [Duration], part: usize) -> f64 {
    times.sort();
    milliseconds_of(times[(times.len() - 1) * part / 100])
}

fn sessions(data: &Path, config: &Path) -> Result<Sessions, AnyError> {
    let journal = Journal::open(&data.join("journal.db"))?.journal;
    let config = SessionsConfig {
        data: data.to_owned(),
        allow_bypass: false,
        config_file: None,
        runtime: data.to_owned(),
        agent: AgentProgram { program: "claude".into(), arguments: Vec::new() },
        towpath: "towpath".into(),
        agents: session::AgentCatalog::default(),
        environment: vec![("CLAUDE_CONFIG_DIR".into(), config.into())],
        limits: SessionLimits::default(),
        unattended: UnattendedLimits::LONG,
        takeover_delay: Duration::ZERO,
        prompt_gate: session::PromptGate::default(),
        watch: WatchPolicy::default(),
    };
    Ok(Sessions::new(config, journal))
}

fn row(job: &'static str, what: String, amount: f64, unit: &'static str, most: f64) -> BenchRow {
    eprintln!("bench: {job}: {amount:.1}{unit}");
    BenchRow::amount(job, "", what, (amount, unit), Some(BenchTarget::AtMost(most)))
}

fn milliseconds_of(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn milliseconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    milliseconds_of(start.elapsed())
}

fn try_milliseconds(work: impl FnOnce() -> Result<(), AnyError>) -> Result<f64, AnyError> {
    let start = Instant::now();
    work()?;
    Ok(milliseconds_of(start.elapsed()))
}
