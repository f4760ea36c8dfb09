//! `towpath watch` between two pipes, against `cat` and against the same in other languages.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use wait4::Wait4 as _;

use super::cache::Cache;
use super::cpu;
use super::program::{high_water_mark, prints};
use super::table::{Row, Target};
use crate::corpus::Mix;
use crate::failure::Failure;

/// What may be taken of `cat`'s time, through `tee(2)` and without it.
const TARGETS: [(Mix, f64, f64); 3] = [(Mix::A, 1.5, 2.2), (Mix::B, 1.1, 1.5), (Mix::C, 1.2, 1.6)];

/// What may be held, in megabytes, whatever the length of lines.
const MEMORY: Target = Target::AtMost(8.0);

/// The length of the longest line.
const LONG_LINE: usize = 100 << 20;

/// Others take so long that one round must do.
const ONCE: NonZero<u32> = NonZero::new(1).expect("not zero");

const PYTHON: &str = include_str!("pipe.py");
const NODE: &str = include_str!("pipe.mjs");

/// All rows of the job.
pub(super) fn watch(cache: &Cache, rounds: NonZero<u32>) -> Result<Vec<Row>, Failure> {
    let towpath = cache.program("towpath");
    if let Err(reason) = prints(&towpath, &["watch", "--help"], "--commit") {
        return Ok(vec![Row::skipped("watch", "", reason)]);
    }
    // A project that none of the files of a corpus are in, so that nothing is pushed.
    let ours = |way: &[&str]| {
        let mut command = Command::new(&towpath);
        command.args(["watch", "--quiet", "--to"]).arg(cache.place("watch-copy")).args(way);
        command
    };
    let mut rows = Vec::new();
    for (mix, through_tee, without) in TARGETS {
        let file = cache.file(mix)?;
        let [cat, tee, copy] = cpu::race(
            rounds,
            [
                &mut || between_pipes(&file, Command::new("cat")),
                &mut || between_pipes(&file, ours(&[])),
                &mut || between_pipes(&file, ours(&["--copy"])),
            ],
        )?;
        let cat = ("cat", cat);
        let name = mix.name();
        rows.push(Row::slowdown_on("watch", name, cat, tee, Target::AtMost(through_tee)));
        rows.push(Row::slowdown_on("watch, no tee", name, cat, copy, Target::AtMost(without)));
        for (others, command) in others() {
            rows.push(match cpu::race(ONCE, [&mut || between_pipes(&file, command())]) {
                Ok([theirs]) => Row::speedup("watch", name, (others, theirs), tee, None),
                Err(failure) => Row::skipped("watch", name, format!("{others}: {failure}")),
            });
        }
    }
    let long = long_line(cache)?;
    for (name, file) in [("C", cache.file(Mix::C)?), ("100 MB", long)] {
        let row = match peak_memory(&file, ours(&[])) {
            Ok(amount) => {
                Row::amount("watch, memory", name, String::new(), (amount, " MB"), Some(MEMORY))
            }
            Err(error) => Row::skipped("watch, memory", name, error.to_string()),
        };
        rows.push(row);
    }
    Ok(rows)
}

/// What a program that does the same is called, and how it is started.
type Other = (&'static str, fn() -> Command);

/// The same job as others would do it. `jq` cannot tell a change from another call, so it only
/// passes lines on.
fn others() -> [Other; 3] {
    [
        ("jq -c .", || with("jq", &["-c", "."])),
        ("python3", || with("python3", &["-c", PYTHON])),
        ("node", || with("node", &["--input-type=module", "-e", NODE])),
    ]
}

fn with(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// A program with a pipe before it that brings the file, and one behind it that is drained.
struct Between {
    feeder: Child,
    program: Child,
    drain: Child,
}

impl Between {
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

    /// Waits for those at the ends.
    fn end(mut feeder: Child, mut drain: Child) -> io::Result<()> {
        feeder.wait()?;
        drain.wait()?;
        Ok(())
    }
}

/// The CPU time of the program in the middle.
fn between_pipes(file: &Path, program: Command) -> Result<Duration, Failure> {
    let name = program.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| Failure::could_not(&format!("measure `{name}`"), &error);
    let Between { feeder, program, drain } = Between::start(file, program).map_err(failed)?;
    let used = program.wait4().map_err(failed)?;
    Between::end(feeder, drain).map_err(failed)?;
    if !used.status.success() {
        return Err(Failure::could_not(&format!("measure `{name}`"), &used.status));
    }
    Ok(used.rusage.utime + used.rusage.stime)
}

/// The most memory that the program in the middle held, in megabytes.
fn peak_memory(file: &Path, program: Command) -> io::Result<f64> {
    let Between { feeder, mut program, drain } = Between::start(file, program)?;
    let mut most = 0;
    while program.try_wait()?.is_none() {
        most = high_water_mark(&program)?.unwrap_or(most);
        thread::sleep(Duration::from_micros(500));
    }
    Between::end(feeder, drain)?;
    Ok(f64::from(most) / 1000.0)
}

/// A file with one call whose content is very long.
fn long_line(cache: &Cache) -> Result<PathBuf, Failure> {
    let path = cache.place("watch-long-line.ndjson");
    let write = || -> io::Result<()> {
        let mut file = BufWriter::new(File::create(&path)?);
        file.write_all(br#"{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Write","input":{"content":""#)?;
        for _ in 0..LONG_LINE / 16 {
            file.write_all(br"0123456789abcd\n")?;
        }
        file.write_all(br#"","file_path":"a.txt"}}]}}"#)?;
        file.write_all(b"\n")
    };
    write().map_err(|error| Failure::could_not(&format!("write `{}`", path.display()), &error))?;
    Ok(path)
}
