//! `towpath watch` between two pipes, compared with `cat` and with the same in other languages.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wait4::Wait4 as _;

use crate::cache::BenchCache;
use crate::corpus::Corpus;
use crate::error::BenchError;
use crate::measure::{check_prints, least_times, peak_memory_of};
use crate::table::{BenchRow, BenchTarget};

/// The most CPU time allowed, as a multiple of `cat`'s: with `tee(2)` and without it.
const TARGETS: [(Corpus, f64, f64); 3] =
    [(Corpus::A, 1.5, 2.2), (Corpus::B, 1.1, 1.5), (Corpus::C, 1.2, 1.6)];

/// The most memory allowed, in megabytes, for lines of any length.
const MEMORY: BenchTarget = BenchTarget::AtMost(8.0);

/// The length of the longest line.
const LONG_LINE: usize = 100 << 20;

/// The other programs are so slow that one round must do.
const ONCE: NonZero<u32> = NonZero::new(1).expect("not zero");

const PYTHON: &str = include_str!("scripts/pipe.py");
const NODE: &str = include_str!("scripts/pipe.mjs");

pub(crate) fn rows(cache: &BenchCache, rounds: NonZero<u32>) -> Result<Vec<BenchRow>, BenchError> {
    let towpath = cache.program("towpath");
    if let Err(reason) = check_prints(&towpath, &["watch", "--help"], "--commit") {
        return Ok(vec![BenchRow::skipped("watch", "", reason)]);
    }
    // No file of a corpus lies in this project, so nothing is copied.
    let ours = |options: &[&str]| {
        let mut command = Command::new(&towpath);
        command.args(["watch", "--quiet", "--to"]).arg(cache.path("watch-copy")).args(options);
        command
    };
    let mut rows = Vec::new();
    for (corpus, with_tee, without_tee) in TARGETS {
        let file = cache.file(corpus)?;
        let [cat, tee, copy] = least_times(
            rounds,
            [
                &mut || between_pipes(&file, Command::new("cat")),
                &mut || between_pipes(&file, ours(&[])),
                &mut || between_pipes(&file, ours(&["--copy"])),
            ],
        )?;
        let cat = ("cat", cat);
        let name = corpus.name();
        rows.push(BenchRow::slowdown_on("watch", name, cat, tee, BenchTarget::AtMost(with_tee)));
        rows.push(BenchRow::slowdown_on(
            "watch, no tee",
            name,
            cat,
            copy,
            BenchTarget::AtMost(without_tee),
        ));
        for (other, command) in other_programs() {
            rows.push(match least_times(ONCE, [&mut || between_pipes(&file, command())]) {
                Ok([theirs]) => BenchRow::speedup("watch", name, (other, theirs), tee, None),
                Err(error) => BenchRow::skipped("watch", name, format!("{other}: {error}")),
            });
        }
    }
    let long = long_line(cache)?;
    for (name, file) in [("C", cache.file(Corpus::C)?), ("100 MB", long)] {
        let row = match peak_memory(&file, ours(&[])) {
            Ok(amount) => BenchRow::amount(
                "watch, memory",
                name,
                String::new(),
                (amount, " MB"),
                Some(MEMORY),
            ),
            Err(error) => BenchRow::skipped("watch, memory", name, error.to_string()),
        };
        rows.push(row);
    }
    Ok(rows)
}

/// The name of a program that does the same, and how it is started.
type OtherProgram = (&'static str, fn() -> Command);

/// The same job in other languages. `jq` cannot tell a change from another call, so it only copies
/// lines.
fn other_programs() -> [OtherProgram; 3] {
    [
        ("jq -c .", || command("jq", &["-c", "."])),
        ("python3", || command("python3", &["-c", PYTHON])),
        ("node", || command("node", &["--input-type=module", "-e", NODE])),
    ]
}

fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A program that reads a file from one pipe and writes to another, which is drained.
struct Pipeline {
    feeder: Child,
    program: Child,
    drain: Child,
}

impl Pipeline {
    fn start(file: &Path, mut program: Command) -> io::Result<Self> {
        let mut feeder = Command::new("cat").arg(file).stdout(Stdio::piped()).spawn()?;
        if let Some(stdout) = feeder.stdout.take() {
            program.stdin(stdout);
        }
        let mut program = program.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut drain = Command::new("cat");
        if let Some(stdout) = program.stdout.take() {
            drain.stdin(stdout);
        }
        let drain = drain.stdout(Stdio::null()).spawn()?;
        Ok(Self { feeder, program, drain })
    }

    /// Waits for the processes at both ends.
    fn wait(mut feeder: Child, mut drain: Child) -> io::Result<()> {
        feeder.wait()?;
        drain.wait()?;
        Ok(())
    }
}

/// The CPU time of the program in the middle.
fn between_pipes(file: &Path, program: Command) -> Result<Duration, BenchError> {
    let name = program.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| BenchError::new(&format!("measure `{name}`"), &error);
    let Pipeline { feeder, program, drain } = Pipeline::start(file, program).map_err(failed)?;
    let used = program.wait4().map_err(failed)?;
    Pipeline::wait(feeder, drain).map_err(failed)?;
    if !used.status.success() {
        return Err(BenchError::new(&format!("measure `{name}`"), &used.status));
    }
    Ok(used.rusage.utime + used.rusage.stime)
}

/// The peak memory of the program in the middle, in megabytes.
fn peak_memory(file: &Path, program: Command) -> io::Result<f64> {
    let Pipeline { feeder, program, drain } = Pipeline::start(file, program)?;
    let peak = peak_memory_of(program)?;
    Pipeline::wait(feeder, drain)?;
    Ok(peak)
}

/// Writes a file with one tool call whose content is very long.
fn long_line(cache: &BenchCache) -> Result<PathBuf, BenchError> {
    let path = cache.path("watch-long-line.ndjson");
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&path)?);
        file.write_all(br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Write","input":{"content":""#)?;
        for _ in 0..LONG_LINE / 16 {
            file.write_all(br"0123456789abcd\n")?;
        }
        file.write_all(br#"","file_path":"a.txt"}}]}}"#)?;
        file.write_all(b"\n")
    };
    write().map_err(|error| BenchError::new(&format!("write `{}`", path.display()), &error))?;
    Ok(path)
}
