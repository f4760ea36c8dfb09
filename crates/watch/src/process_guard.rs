//! A process that ends the programs of this process when it is killed.
//!
//! Nothing that this process could do itself works then. So a small shell script reads from a pipe which
//! programs run. When this process ends, in whatever way, the pipe ends, and the script ends what still
//! runs. On a normal end there is nothing left.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use rustix::process::Pid;

/// Reads `kill GROUP`, `finish GROUP` and `done GROUP`. Programs of the first kind are killed at once,
/// those of the second kind may take another 10 s. A group that has ended is not looked at again, because
/// its number may be used by another one.
const SCRIPT: &str = r#"
trap '' HUP INT QUIT TERM PIPE
kill= finish=
without() {
    rest=
    for group in $1; do [ "$group" = "$2" ] || rest="$rest $group"; done
}
while read -r word id; do
    case $word in
    kill) kill="$kill $id" ;;
    finish) finish="$finish $id" ;;
    done)
        without "$kill" "$id"; kill=$rest
        without "$finish" "$id"; finish=$rest
        ;;
    esac
done
for group in $kill; do kill -9 -"$group"; done
for second in 1 2 3 4 5 6 7 8 9 10; do
    for group in $finish; do kill -0 -"$group" || { without "$finish" "$group"; finish=$rest; }; done
    [ -z "$finish" ] && exit
    sleep 1
done
for group in $finish; do kill -15 -"$group"; done
sleep 2
for group in $finish; do kill -9 -"$group"; done
"#;

static GUARD: Mutex<ProcessGuard> =
    Mutex::new(ProcessGuard { pipe: None, running: BTreeMap::new() });

/// What happens to a program when this process is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OrphanPolicy {
    Kill,
    /// It has some seconds to finish.
    Finish,
}

struct ProcessGuard {
    pipe: Option<ChildStdin>,
    running: BTreeMap<i32, OrphanPolicy>,
}

/// Starts the guard, unless it runs. A program that is started next is then known to it at once.
pub(crate) fn prepare() {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    if guard.pipe.is_none() {
        guard.pipe = start().ok();
    }
}

/// A program was started.
pub(crate) fn add(group: Pid, policy: OrphanPolicy) {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    let group = group.as_raw_nonzero().get();
    guard.running.insert(group, policy);
    if guard.send(line(group, policy).as_bytes()).is_err() {
        // It was killed, or could not be started.
        let lines = guard.running.iter().map(|(&group, &policy)| line(group, policy));
        let lines: String = lines.collect();
        guard.pipe = start().ok();
        // Without it, everything else still works.
        let _ = guard.send(lines.as_bytes());
    }
}

/// A program has ended, or has been killed.
pub(crate) fn remove(group: Pid) {
    let mut guard = GUARD.lock().unwrap_or_else(PoisonError::into_inner);
    let group = group.as_raw_nonzero().get();
    guard.running.remove(&group);
    // If this fails, the guard is gone, and so is what it knew.
    let _ = guard.send(format!("done {group}\n").as_bytes());
}

impl ProcessGuard {
    fn send(&mut self, line: &[u8]) -> io::Result<()> {
        self.pipe.as_mut().ok_or(io::ErrorKind::NotConnected)?.write_all(line)
    }
}

fn line(group: i32, policy: OrphanPolicy) -> String {
    let word = match policy {
        OrphanPolicy::Kill => "kill",
        OrphanPolicy::Finish => "finish",
    };
    format!("{word} {group}\n")
}

#[expect(clippy::disallowed_methods, reason = "it guards the programs that `process` starts")]
fn start() -> io::Result<ChildStdin> {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "towpath-guard"]).process_group(0).current_dir("/");
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn()?;
    let pipe = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    // It lives as long as this process, so there is nothing to wait for.
    drop(child);
    Ok(pipe)
}
