//! Snapshots of working trees, and restoring them elsewhere.

use std::fs;

use super::{GitError, GitRepository, TestRepository, executable, run_in};

const REFERENCE: &str = "refs/towpath/one";

/// A repository with a staged, a changed, a deleted, an untracked and an ignored file.
async fn changed() -> TestRepository {
    let it = TestRepository::new().await;
    it.write("gone.txt", "gone\n");
    it.write(".gitignore", "secret\n");
    it.run(&["add", "."]);
    it.run(&["commit", "-qm", "Second"]);
    it.write("staged.txt", "staged\n");
    it.run(&["add", "staged.txt"]);
    it.write("first.txt", "changed\n");
    it.write("inside/new.txt", "untracked\n");
    it.write("secret", "ignored\n");
    fs::remove_file(it.top.join("gone.txt")).unwrap();
    it
}

#[tokio::test]
async fn a_snapshot_has_untracked_files_and_changes_neither_index_nor_branch() {
    let it = changed().await;
    let scratch = tempfile::tempdir().unwrap();
    let before = (it.changes().await, it.run(&["rev-parse", "HEAD"]), it.run(&["branch"]));
    let snapshot = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    let after = (it.changes().await, it.run(&["rev-parse", "HEAD"]), it.run(&["branch"]));
    assert_eq!(before, after);
    assert_eq!(snapshot.branch.as_deref(), Some("main"));
    let files = it.run(&["ls-tree", "-r", "--name-only", REFERENCE]);
    let files: Vec<&str> = files.lines().collect();
    assert_eq!(files, [".gitignore", "first.txt", "inside/new.txt", "staged.txt"]);
    let again = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    assert_eq!(again, snapshot, "nothing has changed");
    it.write("first.txt", "changed again\n");
    assert_ne!(it.git.snapshot(REFERENCE, scratch.path()).await.unwrap(), snapshot);
}

#[tokio::test]
async fn a_snapshot_is_restored_from_a_bundle_as_uncommitted_changes() {
    let it = changed().await;
    let scratch = tempfile::tempdir().unwrap();
    let snapshot = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    let bundle = scratch.path().join("bundle");
    it.git.write_bundle(REFERENCE, &bundle).await.unwrap();

    let place = scratch.path().join("elsewhere");
    fs::create_dir(&place).unwrap();
    let other = GitRepository::init(&place).await.unwrap();
    other.read_bundle(&bundle, REFERENCE, &snapshot.commit).await.unwrap();
    let head = snapshot.head.as_deref().unwrap();
    other.check_out_first(snapshot.branch.as_deref(), head).await.unwrap();
    other.restore_snapshot(REFERENCE).await.unwrap();
    let status = run_in(&place, &["status", "--porcelain", "--branch", "-uall"]);
    let lines: Vec<&str> = status.lines().collect();
    assert_eq!(
        lines,
        ["## main", " M first.txt", " D gone.txt", "?? inside/new.txt", "?? staged.txt"]
    );
    assert_eq!(other.write_tree(scratch.path()).await.unwrap(), snapshot.tree);

    // Another working tree beside a checkout that has other changes.
    it.write("first.txt", "mine\n");
    let beside = scratch.path().join("beside");
    it.git.add_detached_worktree(&beside, head).await.unwrap();
    let worktree = GitRepository::open(&beside).await.unwrap();
    worktree.restore_snapshot(REFERENCE).await.unwrap();
    assert_eq!(fs::read_to_string(beside.join("first.txt")).unwrap(), "changed\n");
    assert_eq!(it.read("first.txt"), "mine\n");
}

#[tokio::test]
async fn a_repository_without_commits_has_a_snapshot_too() {
    let it = TestRepository::empty().await;
    it.write("only.txt", "only\n");
    let scratch = tempfile::tempdir().unwrap();
    let snapshot = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    assert_eq!(snapshot.head, None);
    let bundle = scratch.path().join("bundle");
    it.git.write_bundle(REFERENCE, &bundle).await.unwrap();
    let place = scratch.path().join("elsewhere");
    fs::create_dir(&place).unwrap();
    let other = GitRepository::init(&place).await.unwrap();
    other.read_bundle(&bundle, REFERENCE, &snapshot.commit).await.unwrap();
    other.restore_snapshot(REFERENCE).await.unwrap();
    assert_eq!(run_in(&place, &["status", "--porcelain"]), "?? only.txt\n");
}

#[tokio::test]
async fn a_snapshot_goes_over_a_remote_without_hooks_and_only_as_the_commit_that_was_pushed() {
    let it = changed().await;
    let scratch = tempfile::tempdir().unwrap();
    let remote = scratch.path().join("remote.git");
    let shown = remote.display().to_string();
    it.run(&["init", "-q", "--bare", &shown]);
    assert_eq!(it.git.remote_url("team").await.unwrap(), None);
    it.run(&["remote", "add", "team", &shown]);
    assert_eq!(it.git.remote_url("team").await.unwrap(), Some(shown.clone()));
    fs::create_dir_all(it.top.join(".git/hooks")).unwrap();
    executable(&it.top.join(".git/hooks/pre-push"), "#!/bin/sh\nexit 1\n");
    let snapshot = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    let elsewhere = "refs/towpath/one/w1";
    for _ in 0..2 {
        it.git.push_commit("team", &snapshot.commit, elsewhere).await.unwrap();
    }

    let place = scratch.path().join("elsewhere");
    fs::create_dir(&place).unwrap();
    let other = GitRepository::init(&place).await.unwrap();
    other.add_remote("team", &shown).await.unwrap();
    other.fetch_commit("team", elsewhere, REFERENCE, &snapshot.commit).await.unwrap();
    other.check_out_first(Some("main"), snapshot.head.as_deref().unwrap()).await.unwrap();
    other.restore_snapshot(REFERENCE).await.unwrap();
    assert_eq!(other.write_tree(scratch.path()).await.unwrap(), snapshot.tree);

    it.write("first.txt", "and again\n");
    let later = it.git.snapshot(REFERENCE, scratch.path()).await.unwrap();
    it.git.push_commit("team", &later.commit, elsewhere).await.unwrap();
    for (remote, commit) in
        [("team", &snapshot.commit), ("ext::sh -c true", &later.commit), ("--all", &later.commit)]
    {
        let fetched = other.fetch_commit(remote, elsewhere, REFERENCE, commit).await;
        assert!(matches!(fetched, Err(GitError::Refused(_))), "{remote}: {fetched:?}");
    }
    other.fetch_commit(&shown, elsewhere, REFERENCE, &later.commit).await.unwrap();
}
