//! `towpath watch --commit` that is killed at any moment, or finds the repository in use: no commit is
//! missing, none is made twice, and the user's index is right.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::process::{Project, TIMEOUT, WatchProcess, WatchResult};

/// A stand-in for git that counts its calls and at one of them kills the process that started it.
const KILLING_GIT: &str = r#"#!/bin/sh
calls=$(($(cat "$CALLS" 2> /dev/null || echo 0) + 1))
echo $calls > "$CALLS"
if [ $calls = "$KILL_AT" ]; then
    kill -9 $PPID
    [ "$KILL_MODE" = instead ] && exit 1
fi
PATH=${PATH#*:} exec git "$@"
"#;

/// Whether the call of git at which the process is killed takes place after all.
#[derive(Clone, Copy, Debug)]
pub(crate) enum KillMode {
    Instead,
    Orphaned,
}

impl Project {
    fn killing_git(&self, call: u32, mode: KillMode) -> [(&'static str, String); 4] {
        let folder = self.sibling("bin");
        fs::create_dir_all(&folder).expect("a directory");
        let git = folder.join("git");
        fs::write(&git, KILLING_GIT).expect("a file");
        fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).expect("permissions");
        let path = std::env::var("PATH").expect("a search path");
        let mode = match mode {
            KillMode::Instead => "instead",
            KillMode::Orphaned => "orphaned",
        };
        [
            ("PATH", format!("{}:{path}", folder.display())),
            ("CALLS", self.sibling("calls").display().to_string()),
            ("KILL_AT", call.to_string()),
            ("KILL_MODE", mode.to_owned()),
        ]
    }

    /// Runs a watcher that is killed at a call of git. Returns whether it was killed.
    pub(crate) fn run_killed(
        &self,
        arguments: &[&str],
        call: u32,
        mode: KillMode,
        lines: &[&str],
    ) -> bool {
        let _ = fs::remove_file(self.sibling("calls"));
        let environment = self.killing_git(call, mode);
        let environment: Vec<(&str, &str)> =
            environment.iter().map(|(name, value)| (*name, &**value)).collect();
        let mut watch = self.watch_with(arguments, &environment);
        watch.try_lines(lines);
        let status = watch.wait_for_kill();
        assert!(status.signal() == Some(9) || status.success(), "{status}");
        status.signal() == Some(9)
    }

    fn left_in_git_directory(&self) -> Vec<String> {
        let left = fs::read_dir(self.root().join(".git")).expect("a repository").flatten();
        let names = left.map(|it| it.file_name().to_string_lossy().into_owned());
        names.filter(|it| it.contains("towpath") || it.contains(".lock")).collect()
    }
}

/// The lines of a turn that writes these files.
pub(crate) fn turn(files: &[&str]) -> Vec<String> {
    let call = |(n, path): (usize, &&str)| {
        [
            format!(
                r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","id":"t{n}","name":"Write","input":{{"file_path":"{path}","content":"…"}}}}]}}}}"#
            ),
            format!(
                r#"{{"type":"user","message":{{"content":[{{"type":"tool_result","tool_use_id":"t{n}","content":"so","is_error":false}}]}}}}"#
            ),
        ]
    };
    let end = r#"{"type":"result","subtype":"success","is_error":false,"result":"done"}"#;
    files.iter().enumerate().flat_map(call).chain([end.to_owned()]).collect()
}

pub(crate) fn run_to_end(mut watch: WatchProcess, lines: &[&str]) -> WatchResult {
    for line in lines {
        watch.line(line);
    }
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:#?}", result.log);
    result
}

/// Kills a watcher at every call of git, lets another one do the same again, and checks the repository.
fn kill_at_every_call(mode: KillMode, changed_meanwhile: bool) {
    let lines = turn(&["a.txt", "b.txt", "gone.txt"]);
    let lines: Vec<&str> = lines.iter().map(|it| &**it).collect();
    let mut call = 1;
    loop {
        let project = Project::with_repository();
        project.write("gone.txt", "x");
        project.git(&["add", "gone.txt"]);
        project.git(&["commit", "--quiet", "--message", "second", "gone.txt"]);
        fs::remove_file(project.root().join("gone.txt")).expect("a file");
        project.write("a.txt", "two\n");
        project.write("b.txt", "new\n");
        let killed = project.run_killed(&["--commit"], call, mode, &lines);
        if changed_meanwhile {
            project.write("a.txt", "three\n");
        }
        let result = run_to_end(project.watch(&["--commit"]), &lines);
        let context = format!("killed at call {call} ({mode:?}): {:#?}", result.log);
        assert_eq!(project.status(), Project::USER_STATUS, "{context}");
        let commits = project.git(&["rev-list", "--count", "HEAD"]);
        if changed_meanwhile {
            assert_eq!(project.git(&["show", "HEAD:a.txt"]), "three\n", "{context}");
            assert!(["3\n", "4\n"].contains(&&*commits), "{commits} {context}");
        } else {
            assert_eq!(commits, "3\n", "{context}");
            let files = project.git(&["show", "--format=", "--name-only"]);
            assert_eq!(files, "a.txt\nb.txt\ngone.txt\n", "{context}");
        }
        assert_eq!(project.left_in_git_directory(), Vec::<String>::new(), "{context}");
        if !killed {
            break;
        }
        call += 1;
    }
    assert!(call > 8, "the watcher was killed only {call} times");
}

#[test]
fn a_kill_between_two_calls_of_git_leaves_one_commit_and_a_correct_index() {
    kill_at_every_call(KillMode::Instead, false);
}

#[test]
fn a_kill_during_a_call_of_git_leaves_one_commit_and_a_correct_index() {
    kill_at_every_call(KillMode::Orphaned, false);
}

#[test]
fn files_that_change_after_a_kill_are_committed_as_they_are() {
    kill_at_every_call(KillMode::Instead, true);
}

#[test]
fn a_killed_commit_that_is_never_repeated_is_taken_back_by_the_next_one() {
    let lines = turn(&["a.txt"]);
    let lines: Vec<&str> = lines.iter().map(|it| &**it).collect();
    let others = turn(&["other.txt"]);
    let others: Vec<&str> = others.iter().map(|it| &**it).collect();
    for call in 1.. {
        let project = Project::with_repository();
        project.write("a.txt", "two\n");
        if !project.run_killed(&["--commit"], call, KillMode::Instead, &lines) {
            break;
        }
        let committed = project.git(&["rev-list", "--count", "HEAD"]) == "2\n";
        project.write("other.txt", "x\n");
        run_to_end(project.watch(&["--commit"]), &others);
        let expected = if committed { "" } else { " M a.txt\n" }.to_owned() + Project::USER_STATUS;
        assert_eq!(project.status(), expected, "killed at call {call}");
        assert_eq!(project.left_in_git_directory(), Vec::<String>::new());
    }
}

#[test]
fn a_lock_that_the_users_git_holds_is_waited_for() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    let lock: PathBuf = project.root().join(".git/index.lock");
    fs::write(&lock, "").unwrap();
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    // The next step after this record is to change the index.
    let start = Instant::now();
    while !project.root().join(".git/towpath-commit/staged").exists() {
        assert!(start.elapsed() < TIMEOUT, "no attempt to commit");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(project.git(&["rev-list", "--count", "HEAD"]), "1\n");
    fs::remove_file(lock).unwrap();
    watch.wait_for("committed");
    assert_eq!(watch.finish().code, 0);
    assert_eq!(project.status(), Project::USER_STATUS);
}

#[test]
fn a_commit_of_the_user_at_the_same_time_is_not_reverted() {
    let project = Project::with_repository();
    // A git that commits a file of the user just before our commit.
    let folder = project.sibling("bin");
    fs::create_dir_all(&folder).unwrap();
    let script = r#"#!/bin/sh
PATH=${PATH#*:}
if [ "$1" = commit ] && mkdir "$ONCE" 2> /dev/null; then
    (unset GIT_INDEX_FILE; git commit --quiet --message users mine.txt)
fi
exec git "$@"
"#;
    fs::write(folder.join("git"), script).unwrap();
    fs::set_permissions(folder.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let once = project.sibling("once").display().to_string();
    project.write("a.txt", "two\n");
    let mut watch = project.watch_with(&["--commit"], &[("PATH", &path), ("ONCE", &once)]);
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    assert_eq!(project.git(&["log", "--format=%s"]), "Edit a.txt\nusers\nfirst\n");
    assert_eq!(project.git(&["show", "--format=", "--name-only"]), "a.txt\n");
    assert_eq!(project.status(), "A  staged.txt\n");
}
