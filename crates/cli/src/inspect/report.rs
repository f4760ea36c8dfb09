//! The result of an inspection: a report for people, one JSON object for programs.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use view::AgentInfo;
use view::wording::grouped;
use wire::analysis::TokenTotals;

use super::statistics::{
    Anomalies, FileChangeCall, SessionStatistics, StreamStatistics, ToolCallCount,
};

/// How many anomalies, sessions and files are listed without `--all`.
const LISTED: usize = 12;

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default();
const WARNING: Style = AnsiColor::Yellow.on_default();

/// Writes the report, with all anomalies or the first few of each type.
pub(super) fn write_text(
    statistics: &StreamStatistics,
    all: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let listed = if all { usize::MAX } else { LISTED };
    writeln!(
        out,
        "{HEADING}{}{HEADING:#}, {}{}",
        plural(statistics.lines, "line"),
        size(statistics.bytes),
        dialects(statistics)
    )?;
    write_sessions(statistics, listed, out)?;
    write_files(statistics, listed, out)?;
    write_kinds(statistics, out)?;
    write_anomalies(statistics, listed, out)
}

fn dialects(statistics: &StreamStatistics) -> String {
    let names: Vec<_> = statistics.dialects.keys().map(|dialect| dialect.name()).collect();
    if names.is_empty() { String::new() } else { format!(", {}", names.join(" and ")) }
}

fn write_sessions(
    statistics: &StreamStatistics,
    listed: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let sessions: Vec<_> = statistics.known_sessions().collect();
    if sessions.len() > 1 {
        writeln!(out, "\n{HEADING}{}{HEADING:#}", plural(sessions.len() as u64, "session"))?;
        write_turns(
            sessions.iter().map(|it| it.turns).sum(),
            sessions.iter().map(|it| it.failed_turns).sum(),
            out,
        )?;
        write_tokens("  tokens  ", sessions.iter().map(|it| it.tokens()).sum(), out)?;
        write_cost(sessions.iter().filter_map(|it| it.cost.dollars()).reduce(|a, b| a + b), out)?;
    }
    for session in sessions.iter().take(listed) {
        write_session(session, listed, out)?;
    }
    write_more(sessions.len().saturating_sub(listed), out)
}

fn write_turns(turns: u64, failed: u64, out: &mut impl Write) -> io::Result<()> {
    write!(out, "  turns   {}", grouped(turns))?;
    if failed > 0 {
        write!(out, ", {BAD}{} failed{BAD:#}", grouped(failed))?;
    }
    writeln!(out)
}

fn write_tokens(label: &str, tokens: TokenTotals, out: &mut impl Write) -> io::Result<()> {
    let TokenTotals { input, output, cache_read, cache_write } = tokens;
    let [input, output, read, written] = [input, output, cache_read, cache_write].map(grouped);
    writeln!(out, "{label}{input} in, {output} out, {read} from cache, {written} to cache")
}

fn write_cost(dollars: Option<f64>, out: &mut impl Write) -> io::Result<()> {
    match dollars {
        Some(dollars) => writeln!(out, "  cost    ${dollars:.4}"),
        None => Ok(()),
    }
}

fn write_session(
    session: &SessionStatistics,
    listed: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let id = session.id.as_deref().unwrap_or("(no id)");
    write!(out, "\n{HEADING}session {id}{HEADING:#}")?;
    let mut origin: Vec<String> =
        session.versions.iter().map(|it| format!("{} {it}", session.program())).collect();
    if origin.is_empty() && session.program() != "claude" {
        origin.push(session.program().to_owned());
    }
    origin.extend(session.models().into_iter().map(str::to_owned));
    if !origin.is_empty() {
        write!(out, " {FAINT}({}){FAINT:#}", origin.join(", "))?;
    }
    writeln!(out)?;
    write_turns(session.turns, session.failed_turns, out)?;
    let tokens = session.tokens();
    write_tokens("  tokens  ", tokens, out)?;
    // The stream may lack the final count of output tokens, which comes last.
    if let Some(reported) = session.reported_tokens().filter(|it| it.output > tokens.output) {
        write_tokens("          reported by the CLI: ", reported, out)?;
    }
    write_cost(session.cost.dollars(), out)?;
    if !session.tools.is_empty() {
        let tools: Vec<String> = session
            .tools
            .iter()
            .map(|(tool, count)| match count.failed {
                0 => format!("{tool} {}", count.calls),
                failed => format!("{tool} {} ({BAD}{failed} failed{BAD:#})", count.calls),
            })
            .collect();
        writeln!(out, "  tools   {}", tools.join(", "))?;
    }
    if !session.denials.is_empty() {
        let denials: Vec<String> =
            session.denials.iter().map(|(tool, count)| format!("{tool} {count}")).collect();
        let total = plural(session.denials.values().sum(), "call");
        writeln!(out, "  {WARNING}denied{WARNING:#}  {total}: {}", denials.join(", "))?;
    }
    write_agent(session, listed, out)
}

/// What the agent says about itself beyond its version and model.
fn write_agent(session: &SessionStatistics, listed: usize, out: &mut impl Write) -> io::Result<()> {
    let facts = session.agent.iter().flat_map(|agent| agent.facts(listed));
    let mut facts = facts.filter(|fact| !matches!(fact.label, "version" | "model")).peekable();
    if facts.peek().is_none() {
        return Ok(());
    }
    writeln!(out, "  {FAINT}agent{FAINT:#}")?;
    for fact in facts {
        writeln!(out, "    {FAINT}{:<12}{FAINT:#}  {}", fact.label, fact.text)?;
    }
    Ok(())
}

/// Lists each file once, with the tools that change it.
fn write_files(
    statistics: &StreamStatistics,
    listed: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut files: Vec<(&str, Vec<&FileChangeCall>)> = Vec::new();
    let mut indexes = HashMap::new();
    for changed in &statistics.files {
        let index = *indexes.entry(changed.path.as_str()).or_insert_with(|| {
            files.push((&changed.path, Vec::new()));
            files.len() - 1
        });
        files[index].1.push(changed);
    }
    if files.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}files{HEADING:#}")?;
    let more = files.len().saturating_sub(listed);
    for (path, changes) in files.into_iter().take(listed) {
        let of = |ok| changes.iter().filter(|it| it.ok == ok).count();
        let mut tools: Vec<&str> = changes.iter().map(|it| it.tool.as_str()).collect();
        tools.sort_unstable();
        tools.dedup();
        write!(out, "  {path}  {FAINT}{} {}{FAINT:#}", tools.join(", "), changes.len())?;
        if of(Some(false)) > 0 {
            write!(out, ", {BAD}{} failed{BAD:#}", of(Some(false)))?;
        }
        if of(None) > 0 {
            write!(out, ", {WARNING}{} without a result{WARNING:#}", of(None))?;
        }
        writeln!(out)?;
    }
    write_more(more, out)
}

fn write_kinds(statistics: &StreamStatistics, out: &mut impl Write) -> io::Result<()> {
    if statistics.events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}kinds{HEADING:#}")?;
    let counts = statistics.events.by_frequency();
    let width = counts.iter().map(|(_, count)| grouped(*count).len()).max().unwrap_or(0);
    for (name, count) in counts {
        writeln!(out, "  {:>width$}  {name}", grouped(count))?;
    }
    Ok(())
}

fn write_anomalies(
    statistics: &StreamStatistics,
    listed: usize,
    out: &mut impl Write,
) -> io::Result<()> {
    let noise = statistics.noise.count - statistics.blank;
    if noise == 0 && !statistics.has_deviations() {
        let blank = if statistics.blank > 0 {
            format!(", {}", plural(statistics.blank, "blank line"))
        } else {
            String::new()
        };
        return writeln!(out, "\nno anomalies{blank}");
    }
    writeln!(out, "\n{HEADING}anomalies{HEADING:#}")?;
    write_positions(&statistics.mismatches, listed, out, |it, out| {
        write!(out, "{BAD}mismatch{BAD:#} {}: {}", it.kind, it.reason)
    })?;
    write_positions(&statistics.unknown_positions, listed, out, |kind, out| {
        write!(out, "{WARNING}unknown{WARNING:#}  {kind}")
    })?;
    write_positions(&statistics.noise, listed, out, |it, out| {
        write!(out, "{FAINT}noise{FAINT:#}    {}  {FAINT}{}{FAINT:#}", it.reason, it.excerpt)
    })?;
    if noise > 2 && statistics.events.is_empty() && statistics.lines < 100_000 {
        writeln!(out, "\nno events found; if they are split over several lines, try `--rejoin`")?;
    }
    Ok(())
}

fn write_positions<T, W: Write>(
    anomalies: &Anomalies<T>,
    listed: usize,
    out: &mut W,
    mut describe: impl FnMut(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    for anomaly in anomalies.listed.iter().take(listed) {
        let file = if anomaly.file == "-" { "stdin" } else { &anomaly.file };
        write!(out, "  {file}:{}  ", anomaly.line)?;
        describe(&anomaly.what, out)?;
        writeln!(out)?;
    }
    write_more(anomalies.listed.len().saturating_sub(listed), out)
}

fn write_more(more: usize, out: &mut impl Write) -> io::Result<()> {
    if more == 0 {
        return Ok(());
    }
    writeln!(out, "  {FAINT}and {} more; use `--all` to list them{FAINT:#}", grouped(more as u64))
}

fn plural(count: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => plural(bytes, "byte"),
        1_000..1_000_000 => format!("{}.{} kB", bytes / 1_000, bytes % 1_000 / 100),
        _ => format!("{}.{} MB", grouped(bytes / 1_000_000), bytes % 1_000_000 / 100_000),
    }
}

#[derive(Serialize)]
struct InspectionJson<'a> {
    lines: u64,
    bytes: u64,
    noise: u64,
    blank: u64,
    events: BTreeMap<String, u64>,
    unknown: BTreeMap<String, u64>,
    mismatch: Vec<MismatchJson<'a>>,
    /// More than the length of `mismatch` if there are thousands.
    mismatch_count: u64,
    dialects: BTreeMap<&'static str, u64>,
    sessions: Vec<SessionStatisticsJson<'a>>,
    files: Vec<FileChangeJson<'a>>,
}

#[derive(Serialize)]
struct MismatchJson<'a> {
    file: &'a str,
    line: u64,
    kind: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct SessionStatisticsJson<'a> {
    id: Option<&'a str>,
    /// The program that wrote it, if that is not Claude Code.
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<&'static str>,
    versions: &'a [String],
    models: Vec<&'a str>,
    turns: u64,
    failed_turns: u64,
    cost_usd: Option<f64>,
    tokens: TokenCountsJson,
    /// Reported by the CLI, including requests that are not in the stream.
    tokens_reported: Option<TokenCountsJson>,
    tools: BTreeMap<&'a str, ToolCallsJson>,
    /// Denied calls by tool.
    denials: &'a BTreeMap<String, u64>,
    /// What the agent says about itself.
    agent: Option<&'a AgentInfo>,
}

#[derive(Serialize)]
struct TokenCountsJson {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Serialize)]
struct ToolCallsJson {
    calls: u64,
    failed: u64,
}

#[derive(Serialize)]
struct FileChangeJson<'a> {
    path: &'a str,
    tool: &'a str,
    ok: Option<bool>,
}

impl From<TokenTotals> for TokenCountsJson {
    fn from(tokens: TokenTotals) -> Self {
        let TokenTotals { input, output, cache_read, cache_write } = tokens;
        Self { input, output, cache_read, cache_write }
    }
}

impl<'a> From<&'a SessionStatistics> for SessionStatisticsJson<'a> {
    fn from(session: &'a SessionStatistics) -> Self {
        let calls = |(tool, count): (&'a String, &ToolCallCount)| {
            (tool.as_str(), ToolCallsJson { calls: count.calls, failed: count.failed })
        };
        Self {
            id: session.id.as_deref(),
            program: Some(session.program()).filter(|program| *program != "claude"),
            versions: &session.versions,
            models: session.models(),
            turns: session.turns,
            failed_turns: session.failed_turns,
            cost_usd: session.cost.dollars(),
            tokens: session.tokens().into(),
            tokens_reported: session.reported_tokens().map(TokenCountsJson::from),
            tools: session.tools.iter().map(calls).collect(),
            denials: &session.denials,
            agent: session.agent.as_ref(),
        }
    }
}

/// Writes one JSON object.
pub(super) fn write_json(statistics: &StreamStatistics, out: &mut impl Write) -> io::Result<()> {
    let mismatch = statistics.mismatches.listed.iter().map(|anomaly| MismatchJson {
        file: &anomaly.file,
        line: anomaly.line,
        kind: &anomaly.what.kind,
        reason: &anomaly.what.reason,
    });
    let files = statistics.files.iter().map(|changed| FileChangeJson {
        path: &changed.path,
        tool: &changed.tool,
        ok: changed.ok,
    });
    let object = InspectionJson {
        lines: statistics.lines,
        bytes: statistics.bytes,
        noise: statistics.noise.count,
        blank: statistics.blank,
        events: statistics.events.by_name(),
        unknown: statistics.unknown.by_name(),
        mismatch: mismatch.collect(),
        mismatch_count: statistics.mismatches.count,
        dialects: statistics.dialects.iter().map(|(dialect, n)| (dialect.name(), *n)).collect(),
        sessions: statistics.known_sessions().map(SessionStatisticsJson::from).collect(),
        files: files.collect(),
    };
    serde_json::to_writer(&mut *out, &object)?;
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::size;

    #[test]
    fn sizes_have_units() {
        let sizes = [1, 999, 1_000, 15_990, 2_500_000_000].map(size);
        assert_eq!(sizes, ["1 byte", "999 bytes", "1.0 kB", "15.9 kB", "2,500.0 MB"]);
    }
}
