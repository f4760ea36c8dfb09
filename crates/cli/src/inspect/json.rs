//! The inspection as one JSON object.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;
use wire::meaning::Tokens;

use super::census::Census;
use super::session::Session;

#[derive(Serialize)]
struct Inspection<'a> {
    lines: u64,
    bytes: u64,
    noise: u64,
    blank: u64,
    events: BTreeMap<String, u64>,
    unknown: BTreeMap<String, u64>,
    mismatch: Vec<Mismatch<'a>>,
    /// More than `mismatch` lists where an input has thousands.
    mismatch_count: u64,
    dialects: BTreeMap<&'static str, u64>,
    sessions: Vec<SessionObject<'a>>,
    files: Vec<File<'a>>,
}

#[derive(Serialize)]
struct Mismatch<'a> {
    file: &'a str,
    line: u64,
    kind: &'a str,
    reason: &'a str,
}

#[derive(Serialize)]
struct SessionObject<'a> {
    id: Option<&'a str>,
    versions: &'a [String],
    models: Vec<&'a str>,
    turns: u64,
    failed_turns: u64,
    cost_usd: Option<f64>,
    tokens: TokenCounts,
    /// What the CLI counts itself, requests that never show in the stream included.
    tokens_reported: Option<TokenCounts>,
    tools: BTreeMap<&'a str, ToolCalls>,
}

#[derive(Serialize)]
struct TokenCounts {
    input: u64,
    output: u64,
    cache_read: u64,
    cache_write: u64,
}

#[derive(Serialize)]
struct ToolCalls {
    calls: u64,
    failed: u64,
}

#[derive(Serialize)]
struct File<'a> {
    path: &'a str,
    tool: &'a str,
    ok: Option<bool>,
}

impl From<Tokens> for TokenCounts {
    fn from(tokens: Tokens) -> Self {
        let Tokens { input, output, cache_read, cache_write } = tokens;
        Self { input, output, cache_read, cache_write }
    }
}

impl<'a> From<&'a Session> for SessionObject<'a> {
    fn from(session: &'a Session) -> Self {
        let calls = |(tool, count): (&'a String, &super::session::ToolCount)| {
            (tool.as_str(), ToolCalls { calls: count.calls, failed: count.failed })
        };
        Self {
            id: session.id.as_deref(),
            versions: &session.versions,
            models: session.models(),
            turns: session.turns,
            failed_turns: session.failed_turns,
            cost_usd: session.cost.dollars(),
            tokens: session.tokens().into(),
            tokens_reported: session.reported_tokens().map(TokenCounts::from),
            tools: session.tools.iter().map(calls).collect(),
        }
    }
}

pub(super) fn write(census: &Census, out: &mut impl Write) -> io::Result<()> {
    let mismatch = census.mismatches.listed.iter().map(|odd| Mismatch {
        file: &odd.file,
        line: odd.line,
        kind: &odd.what.kind,
        reason: &odd.what.reason,
    });
    let files = census.files.iter().map(|changed| File {
        path: &changed.path,
        tool: &changed.tool,
        ok: changed.ok,
    });
    let inspection = Inspection {
        lines: census.lines,
        bytes: census.bytes,
        noise: census.noise.count,
        blank: census.blank,
        events: census.events.by_name(),
        unknown: census.unknown.by_name(),
        mismatch: mismatch.collect(),
        mismatch_count: census.mismatches.count,
        dialects: census.dialects.iter().map(|(dialect, n)| (dialect.name(), *n)).collect(),
        sessions: census.known_sessions().map(SessionObject::from).collect(),
        files: files.collect(),
    };
    serde_json::to_writer(&mut *out, &inspection)?;
    writeln!(out)
}
