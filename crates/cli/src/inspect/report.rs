//! The inspection as a person reads it.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

use wire::meaning::Tokens;

use super::census::Census;
use super::odd::{self, Oddities};
use super::session::{ChangedFile, Session};

const HEADING: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const BAD: Style = AnsiColor::Red.on_default();
const ODD: Style = AnsiColor::Yellow.on_default();

/// Writes the report; all that is odd, or the first few of each sort.
pub(super) fn write(census: &Census, all: bool, out: &mut impl Write) -> io::Result<()> {
    let listed = if all { usize::MAX } else { odd::LISTED };
    writeln!(
        out,
        "{HEADING}{}{HEADING:#}, {}{}",
        plural(census.lines, "line"),
        size(census.bytes),
        dialects(census)
    )?;
    write_sessions(census, listed, out)?;
    write_files(census, listed, out)?;
    write_kinds(census, out)?;
    write_oddities(census, listed, out)
}

fn dialects(census: &Census) -> String {
    let names: Vec<_> = census.dialects.keys().map(|dialect| dialect.name()).collect();
    if names.is_empty() { String::new() } else { format!(", {}", names.join(" and ")) }
}

fn write_sessions(census: &Census, listed: usize, out: &mut impl Write) -> io::Result<()> {
    let sessions: Vec<_> = census.known_sessions().collect();
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
        write_session(session, out)?;
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

fn write_tokens(label: &str, tokens: Tokens, out: &mut impl Write) -> io::Result<()> {
    let Tokens { input, output, cache_read, cache_write } = tokens;
    let [input, output, read, written] = [input, output, cache_read, cache_write].map(grouped);
    writeln!(out, "{label}{input} in, {output} out, {read} from cache, {written} to cache")
}

fn write_cost(dollars: Option<f64>, out: &mut impl Write) -> io::Result<()> {
    match dollars {
        Some(dollars) => writeln!(out, "  cost    ${dollars:.4}"),
        None => Ok(()),
    }
}

fn write_session(session: &Session, out: &mut impl Write) -> io::Result<()> {
    let id = session.id.as_deref().unwrap_or("without an id");
    write!(out, "\n{HEADING}session {id}{HEADING:#}")?;
    let mut origin: Vec<String> =
        session.versions.iter().map(|it| format!("claude {it}")).collect();
    origin.extend(session.models().into_iter().map(str::to_owned));
    if !origin.is_empty() {
        write!(out, " {FAINT}({}){FAINT:#}", origin.join(", "))?;
    }
    writeln!(out)?;
    write_turns(session.turns, session.failed_turns, out)?;
    let tokens = session.tokens();
    write_tokens("  tokens  ", tokens, out)?;
    // Output is told last of all, so what the stream shows of it may be less than the truth.
    if let Some(reported) = session.reported_tokens().filter(|it| it.output > tokens.output) {
        write_tokens("          the CLI counts ", reported, out)?;
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
    Ok(())
}

/// Files, each once, with the tools that were to change it.
fn write_files(census: &Census, listed: usize, out: &mut impl Write) -> io::Result<()> {
    let mut files: Vec<(&str, Vec<&ChangedFile>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for changed in &census.files {
        let place = *places.entry(changed.path.as_str()).or_insert_with(|| {
            files.push((&changed.path, Vec::new()));
            files.len() - 1
        });
        files[place].1.push(changed);
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
            write!(out, ", {ODD}{} without a result{ODD:#}", of(None))?;
        }
        writeln!(out)?;
    }
    write_more(more, out)
}

fn write_kinds(census: &Census, out: &mut impl Write) -> io::Result<()> {
    if census.events.is_empty() {
        return Ok(());
    }
    writeln!(out, "\n{HEADING}kinds{HEADING:#}")?;
    let counts = census.events.by_frequency();
    let width = counts.iter().map(|(_, count)| grouped(*count).len()).max().unwrap_or(0);
    for (name, count) in counts {
        writeln!(out, "  {:>width$}  {name}", grouped(count))?;
    }
    Ok(())
}

fn write_oddities(census: &Census, listed: usize, out: &mut impl Write) -> io::Result<()> {
    let noise = census.noise.count - census.blank;
    if noise == 0 && !census.is_odd() {
        let blank = if census.blank > 0 {
            format!(", {}", plural(census.blank, "blank line"))
        } else {
            String::new()
        };
        return writeln!(out, "\nnothing odd{blank}");
    }
    writeln!(out, "\n{HEADING}odd{HEADING:#}")?;
    write_places(&census.mismatches, listed, out, |odd, out| {
        write!(out, "{BAD}mismatch{BAD:#} {}: {}", odd.kind, odd.reason)
    })?;
    write_places(&census.unknown_places, listed, out, |kind, out| {
        write!(out, "{ODD}unknown{ODD:#}  {kind}")
    })?;
    write_places(&census.noise, listed, out, |odd, out| {
        write!(out, "{FAINT}noise{FAINT:#}    {}  {FAINT}{}{FAINT:#}", odd.why, odd.excerpt)
    })?;
    if noise > 2 && census.events.is_empty() && census.lines < 100_000 {
        writeln!(
            out,
            "\nno event was found; if one is spread over several lines, `--rejoin` puts it together"
        )?;
    }
    Ok(())
}

fn write_places<T, W: Write>(
    oddities: &Oddities<T>,
    listed: usize,
    out: &mut W,
    mut describe: impl FnMut(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    for odd in oddities.listed.iter().take(listed) {
        let file = if odd.file == "-" { "stdin" } else { &odd.file };
        write!(out, "  {file}:{}  ", odd.line)?;
        describe(&odd.what, out)?;
        writeln!(out)?;
    }
    write_more(oddities.listed.len().saturating_sub(listed), out)
}

fn write_more(more: usize, out: &mut impl Write) -> io::Result<()> {
    if more == 0 {
        return Ok(());
    }
    writeln!(out, "  {FAINT}and {} more; `--all` lists them{FAINT:#}", grouped(more as u64))
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

/// Digits in groups of three: `1,234,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{grouped, size};

    #[test]
    fn numbers_are_grouped_and_sizes_have_units() {
        let numbers = [0, 999, 1_000, 12_345, 1_234_567].map(grouped);
        assert_eq!(numbers, ["0", "999", "1,000", "12,345", "1,234,567"]);
        let sizes = [1, 999, 1_000, 15_990, 2_500_000_000].map(size);
        assert_eq!(sizes, ["1 byte", "999 bytes", "1.0 kB", "15.9 kB", "2,500.0 MB"]);
    }
}
