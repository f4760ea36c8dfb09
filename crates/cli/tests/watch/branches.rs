//! `towpath watch --branch` and `--worktree` after a kill, beside worktrees of the user and beside each
//! other.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use rustix::process::Signal;

use crate::interrupted::{KillMode, run_to_end, turn};
use crate::process::Project;

/// Changes the time of a file, as if it had been left an hour ago.
fn make_old(file: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_hours(1);
    fs::File::options()
        .write(true)
        .open(file)
        .expect("a file")
        .set_modified(hour_ago)
        .expect("a time of change");
}

/// Runs one turn that writes a file.
fn run_turn(project: &Project, arguments: &[&str], file: &str) {
    let lines = turn(&[file]);
    let lines: Vec<&str> = lines.iter().map(|it| &**it).collect();
    run_to_end(project.watch(arguments), &lines);
}

/// Kills the watcher in many turns, at changing calls of git, and repeats each turn as a server does.
fn kill_in_many_turns(arguments: &[&str], branch: &str) {
    let project = Project::with_repository();
    // A worktree of the user on a disk that is not mounted.
    let unmounted = project.sibling("unmounted");
    project.git(&[
        "worktree",
        "add",
        "--quiet",
        unmounted.to_str().expect("a path in UTF-8"),
        "-b",
        "users",
    ]);
    fs::rename(&unmounted, project.sibling("away")).expect("a renamed directory");
    let mut kills = 0;
    for round in 0..20_u32 {
        let file = format!("file {round}.txt");
        project.write(&file, &format!("{round}\n"));
        let lines = turn(&[&file]);
        let lines: Vec<&str> = lines.iter().map(|it| &**it).collect();
        let mode = if round % 2 == 0 { KillMode::Instead } else { KillMode::Orphaned };
        kills += u32::from(project.run_killed(arguments, 1 + round * 7 % 17, mode, &lines));
        run_to_end(project.watch(arguments), &lines);
    }
    assert!(kills > 10, "killed {kills} times");
    assert_eq!(project.git(&["rev-list", "--count", branch]), "21\n");
    for round in 0..20 {
        let content = project.git(&["show", &format!("{branch}:file {round}.txt")]);
        assert_eq!(content, format!("{round}\n"));
    }
    assert_eq!(project.git(&["rev-list", "--count", "main"]), "1\n");
    fs::rename(project.sibling("away"), &unmounted).expect("a renamed directory");
    let status =
        ["-C", unmounted.to_str().expect("a path in UTF-8"), "status", "--porcelain", "--branch"];
    assert_eq!(project.git(&status), "## users\n", "the user's worktree has survived");
}

#[test]
fn every_turn_of_a_branch_is_one_commit_however_often_the_watcher_is_killed() {
    kill_in_many_turns(&["--commit", "--branch=agents/all"], "agents/all");
}

#[test]
fn every_turn_of_a_worktree_is_one_commit_however_often_the_watcher_is_killed() {
    kill_in_many_turns(&["--commit", "--worktree", "../trees", "--branch=agents"], "agents");
}

#[test]
fn what_earlier_versions_left_of_a_branch_does_not_block_it() {
    type Damage = fn(&Project, &Path);
    let damages: [Damage; 5] = [
        |_, _| {},
        |project, tree| drop(project.git(&["worktree", "lock", tree.to_str().unwrap()])),
        |_, tree| fs::remove_dir_all(tree).unwrap(),
        |project, _| fs::remove_file(project.root().join(".git/worktrees/b/gitdir")).unwrap(),
        |project, _| {
            fs::write(project.root().join(".git/worktrees/b/index.lock"), "").unwrap();
            fs::write(project.root().join(".git/worktrees/b/HEAD.lock"), "").unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let project = Project::with_repository();
        let tree = project.root().join(".git/towpath/b");
        let path = tree.to_str().unwrap();
        project.git(&["worktree", "add", "--quiet", "--no-checkout", "-b", "b", path]);
        damage(&project, &tree);
        project.write("a.txt", "two\n");
        run_turn(&project, &["--commit", "--branch=b"], "a.txt");
        let show = ["show", "--format=", "--name-only", "b"];
        assert_eq!(project.git(&show), "a.txt\n", "damage {number}");
        assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1, "damage {number}");
        assert!(!project.root().join(".git/towpath").exists(), "damage {number}");
    }
}

#[test]
fn a_half_made_directory_and_old_locks_of_a_branch_do_not_block_it() {
    type Damage = fn(&Path);
    let damages: [Damage; 4] = [
        |_| {},
        |git| fs::write(git.join("towpath/b/HEAD"), "").unwrap(),
        |git| {
            for lock in ["towpath/b/HEAD.lock", "towpath/b/index.lock", "refs/heads/b.lock"] {
                fs::write(git.join(lock), "").unwrap();
                make_old(&git.join(lock));
            }
        },
        |git| {
            fs::create_dir_all(git.join("towpath/b/towpath-commit/old")).unwrap();
            fs::write(git.join("towpath/b/towpath-commit/staged"), "half").unwrap();
        },
    ];
    for (number, damage) in damages.into_iter().enumerate() {
        let project = Project::with_repository();
        project.git(&["branch", "b"]);
        let git = project.root().join(".git");
        fs::create_dir_all(git.join("towpath/b")).unwrap();
        damage(&git);
        project.write("a.txt", "two\n");
        run_turn(&project, &["--commit", "--branch=b"], "a.txt");
        assert_eq!(project.git(&["rev-list", "--count", "b"]), "2\n", "damage {number}");
    }
}

#[test]
fn a_worktree_whose_directory_was_deleted_or_not_finished_is_made_again() {
    let project = Project::with_repository();
    let arguments = ["--commit", "--worktree", "../trees", "--branch=b"];
    project.write("a.txt", "two\n");
    run_turn(&project, &arguments, "a.txt");
    fs::remove_dir_all(project.sibling("trees/b")).unwrap();
    project.write("a.txt", "three\n");
    run_turn(&project, &arguments, "a.txt");
    let lock = project.root().join(".git/worktrees/b/locked");
    fs::write(&lock, "initializing").unwrap();
    make_old(&lock);
    fs::remove_file(project.sibling("trees/b/a.txt")).unwrap();
    project.write("mine.txt", "four\n");
    run_turn(&project, &arguments, "mine.txt");
    assert_eq!(project.git(&["rev-list", "--count", "b"]), "4\n");
    assert_eq!(fs::read_to_string(project.sibling("trees/b/a.txt")).unwrap(), "three\n");
}

#[test]
fn a_second_watcher_of_a_branch_does_not_commit_until_the_first_has_ended() {
    let project = Project::with_repository();
    let arguments = ["--commit=change", "--branch=b"];
    let mut first = project.watch(&arguments);
    project.write("0.txt", "x");
    first.change("t", "Write", "0.txt");
    first.wait_for("committed");
    let mut second = project.watch(&arguments);
    project.write("1.txt", "x");
    second.change("t1", "Write", "1.txt");
    second.wait_for("commits to the branch `b`, and only one may");
    project.write("2.txt", "x");
    first.change("t2", "Write", "2.txt");
    first.wait_for("committed");
    assert_eq!(project.git(&["rev-list", "--count", "b"]), "3\n");
    assert_eq!(first.finish().code, 0);
    project.write("3.txt", "x");
    second.change("t3", "Write", "3.txt");
    second.wait_for("committed");
    let result = second.finish();
    assert_eq!(result.code, 1, "what it did not commit is a failure: {:?}", result.log);
    assert_eq!(project.git(&["rev-list", "--count", "b"]), "4\n");
    assert!(!project.root().join(".git/towpath").exists());
}

#[test]
fn a_watcher_takes_over_the_branch_of_one_that_was_killed() {
    let project = Project::with_repository();
    let arguments = ["--commit=change", "--branch=b"];
    let mut first = project.watch(&arguments);
    project.write("0.txt", "x");
    first.change("t", "Write", "0.txt");
    first.wait_for("committed");
    first.signal(Signal::KILL);
    first.wait_for_kill();
    let mut second = project.watch(&arguments);
    project.write("1.txt", "x");
    second.change("t1", "Write", "1.txt");
    second.wait_for("committed");
    assert_eq!(second.finish().code, 0);
    assert_eq!(project.git(&["rev-list", "--count", "b"]), "3\n");
}

#[test]
fn a_branch_that_is_checked_out_is_not_committed_to() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    let mut watch = project.watch(&["--commit", "--branch=main"]);
    watch.change("t", "Edit", "a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 1);
    assert!(result.changes()[0].contains("is checked out at"), "{:?}", result.changes());
    assert_eq!(project.git(&["rev-list", "--count", "main"]), "1\n");
}
