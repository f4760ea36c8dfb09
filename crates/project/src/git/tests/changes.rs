//! Staging, discarding, committing, switching, working trees.

use super::{DiffSide, GitError, HunkId, TestRepository, executable, fs, key, lines};

async fn hunk(repo: &TestRepository, path: &str, side: DiffSide, number: usize) -> HunkId {
    let id = repo.diff(path, side).await.hunks[number].id();
    HunkId { path: key(path), from: None, id }
}

#[tokio::test]
async fn exactly_one_hunk_is_staged_unstaged_and_discarded() {
    let repo = TestRepository::new().await;
    // Every part of the file looks the same, so that a hunk without its place would match anywhere.
    let before = "a\nb\nc\nd\ne\nf\ng\nh\n".repeat(12);
    repo.write("a.txt", &before);
    repo.run(&["add", "."]);
    repo.run(&["commit", "-qm", "a"]);
    let mut changed: Vec<String> = before.lines().map(str::to_owned).collect();
    for (at, text) in [(10, "new\nnew\nnew"), (40, "forty"), (80, "eighty")] {
        changed[at] = text.to_owned();
    }
    let all = changed.join("\n") + "\n";
    repo.write("a.txt", &all);
    assert_eq!(repo.diff("a.txt", DiffSide::Unstaged).await.hunks.len(), 3);
    let second = hunk(&repo, "a.txt", DiffSide::Unstaged, 1).await;
    repo.git.stage_hunk(&second).await.unwrap();
    let mut expected: Vec<&str> = before.lines().collect();
    expected[40] = "forty";
    assert_eq!(repo.staged("a.txt"), expected.join("\n") + "\n");
    assert_eq!(repo.read("a.txt"), all, "the file itself is as it was");
    let error = repo.git.stage_hunk(&second).await.unwrap_err();
    assert!(matches!(error, GitError::Changed), "it is staged already: {error}");
    let last = hunk(&repo, "a.txt", DiffSide::Unstaged, 1).await;
    repo.git.stage_hunk(&last).await.unwrap();
    expected[80] = "eighty";
    assert_eq!(repo.staged("a.txt"), expected.join("\n") + "\n");
    let staged = hunk(&repo, "a.txt", DiffSide::Staged, 0).await;
    repo.git.unstage_hunk(&staged).await.unwrap();
    expected[40] = "a";
    assert_eq!(repo.staged("a.txt"), expected.join("\n") + "\n");
    let middle = hunk(&repo, "a.txt", DiffSide::Unstaged, 1).await;
    repo.git.discard_hunk(&middle).await.unwrap();
    changed[40] = "a".into();
    assert_eq!(repo.read("a.txt"), changed.join("\n") + "\n");
}

#[tokio::test]
async fn hunks_at_the_ends_of_files_and_without_newlines_are_exact() {
    let repo = TestRepository::new().await;
    for (before, after) in [
        ("a\nb\nc\n", "x\na\nb\nc\n"),
        ("a\nb\nc\n", "a\nb\nc\nd"),
        ("a\nb\nc", "a\nb\nc\n"),
        ("a\nb\nc\n", "b\nc\n"),
        ("", "a\nb\n"),
        ("a\nb\n", ""),
        ("a\r\nb\r\n", "a\r\nc\r\n"),
        ("@@ -1 +1 @@\n--- a\n+++ b\n", "@@ -1 +1 @@\n--- b\n+++ b\n-- \n"),
    ] {
        repo.write("ends", before);
        repo.run(&["add", "."]);
        repo.run(&["commit", "-qm", "ends", "--allow-empty"]);
        repo.write("ends", after);
        let one = hunk(&repo, "ends", DiffSide::Unstaged, 0).await;
        repo.git.stage_hunk(&one).await.unwrap_or_else(|it| panic!("{before:?}: {it}"));
        assert_eq!(repo.staged("ends"), after);
        let one = hunk(&repo, "ends", DiffSide::Staged, 0).await;
        repo.git.unstage_hunk(&one).await.unwrap_or_else(|it| panic!("{after:?}: {it}"));
        assert_eq!(repo.staged("ends"), before);
        let one = hunk(&repo, "ends", DiffSide::Unstaged, 0).await;
        repo.git.discard_hunk(&one).await.unwrap_or_else(|it| panic!("{after:?}: {it}"));
        assert_eq!(repo.read("ends"), before);
    }
}

#[tokio::test]
async fn a_hunk_of_a_renamed_file_is_unstaged() {
    let repo = TestRepository::new().await;
    repo.write("old", lines(0..40));
    repo.run(&["add", "."]);
    repo.run(&["commit", "-qm", "old"]);
    repo.run(&["mv", "old", "new"]);
    let changed = lines(0..40).replace("line 5\n", "five\n").replace("line 30\n", "thirty\n");
    repo.write("new", &changed);
    repo.run(&["add", "."]);
    let from = Some(key("old"));
    let diff = repo.git.diff(&key("new"), from.as_ref(), DiffSide::Staged).await.unwrap();
    assert_eq!(diff[0].hunks.len(), 2);
    let hunk = HunkId { path: key("new"), from, id: diff[0].hunks[0].id() };
    repo.git.unstage_hunk(&hunk).await.unwrap();
    assert_eq!(repo.staged("new"), lines(0..40).replace("line 30\n", "thirty\n"));
    assert_eq!(repo.read("new"), changed);
}

#[tokio::test]
async fn discarding_restores_files_and_removes_new_ones() {
    let repo = TestRepository::new().await;
    repo.write("first.txt", "changed\n");
    repo.write("new/one", "x");
    repo.write("new/two", "x");
    repo.git.discard(&[key("first.txt"), key("new/one")]).await.unwrap();
    assert_eq!(repo.read("first.txt"), "one\ntwo\nthree\n");
    assert_eq!(repo.changes().await, [".? new/two"]);
    fs::remove_file(repo.top.join("first.txt")).unwrap();
    repo.git.discard(&[key("first.txt")]).await.unwrap();
    assert_eq!(repo.changes().await, [".? new/two"]);
    repo.git.discard(&[]).await.unwrap();
    repo.git.stage(&[]).await.unwrap();
    repo.git.unstage(&[]).await.unwrap();
    assert_eq!(repo.changes().await, [".? new/two"], "nothing means nothing");
}

#[tokio::test]
async fn commits_run_the_users_hooks_and_say_why_they_fail() {
    let repo = TestRepository::new().await;
    let empty = repo.git.commit("Nothing").await.unwrap_err().to_string();
    assert!(empty.contains("nothing to commit"), "{empty}");
    repo.write("first.txt", "changed\n");
    repo.git.stage(&[key("first.txt")]).await.unwrap();
    let hook = repo.top.join(".git/hooks/pre-commit");
    executable(&hook, "#!/bin/sh\necho lint says no >&2\nexit 1\n");
    let refused = repo.git.commit("Change").await.unwrap_err().to_string();
    assert!(refused.contains("lint says no"), "{refused}");
    assert_eq!(repo.changes().await, ["M. first.txt"]);
    executable(&hook, "#!/bin/sh\ntouch ran\n");
    repo.git.commit("--amend\n\nBody # 1\n").await.unwrap();
    assert!(repo.top.join("ran").exists());
    let log = repo.git.log(0, 9).await.unwrap();
    assert_eq!((log.len(), &*log[0].subject, &*log[0].body), (2, "--amend", "Body # 1"));
    assert!(repo.git.commit("  \n").await.is_err());
}

#[tokio::test]
async fn branches_are_created_and_switched_to_unless_work_would_be_lost() {
    let repo = TestRepository::new().await;
    repo.git.switch("topic/one", true).await.unwrap();
    repo.write("first.txt", "topic\n");
    repo.git.stage(&[key("first.txt")]).await.unwrap();
    repo.git.commit("Topic").await.unwrap();
    repo.write("first.txt", "not committed\n");
    let refused = repo.git.switch("main", false).await.unwrap_err().to_string();
    assert!(refused.contains("first.txt") && refused.contains("overwritten"), "{refused}");
    repo.git.discard(&[key("first.txt")]).await.unwrap();
    repo.git.switch("main", false).await.unwrap();
    let branches = repo.git.branches().await.unwrap();
    let current: Vec<&str> = branches.iter().filter(|it| it.current).map(|it| &*it.name).collect();
    assert_eq!(current, ["main"]);
    for bad in ["", "-f", "--detach", "a..b", "a b", "@{-1}", "@", "x~1", ".x", "x.lock", "a\nb"] {
        for create in [true, false] {
            let error = repo.git.switch(bad, create).await.unwrap_err();
            assert!(matches!(error, GitError::InvalidBranch(_)), "{bad}: {error}");
        }
    }
    let unknown = repo.git.switch("nowhere", false).await.unwrap_err().to_string();
    assert!(unknown.contains("nowhere"), "{unknown}");
    let taken = repo.git.switch("main", true).await.unwrap_err().to_string();
    assert!(taken.contains("already exists"), "{taken}");
}

#[tokio::test]
async fn a_working_tree_is_added_and_removed_with_what_is_lost_known_before() {
    let repo = TestRepository::new().await;
    let path = repo.top.parent().unwrap().join("repo-worktrees/fix-1");
    repo.git.add_worktree(&path, "towpath/fix-1").await.unwrap();
    assert!(repo.git.has_branch("towpath/fix-1").await.unwrap());
    assert_eq!(repo.git.linked_worktree().await.unwrap(), None);
    let git = super::GitRepository::open(&path).await.unwrap();
    let linked = git.linked_worktree().await.unwrap().unwrap();
    assert_eq!((&linked.main, &linked.path), (&repo.top, &path));
    assert_eq!(linked.branch.as_deref(), Some("towpath/fix-1"));
    assert_eq!(git.common_directory().await.unwrap(), repo.top.join(".git"));
    assert_eq!(git.worktree_loss(&linked).await.unwrap(), super::super::WorktreeLoss::default());
    fs::write(path.join("new"), "x").unwrap();
    git.stage(&[key("new")]).await.unwrap();
    git.commit("Work").await.unwrap();
    fs::write(path.join("first.txt"), "x").unwrap();
    let loss = git.worktree_loss(&linked).await.unwrap();
    assert_eq!((loss.files, loss.commits), (1, 1));
    repo.git.remove_worktree(&linked).await.unwrap();
    assert!(!path.exists() && !repo.git.has_branch("towpath/fix-1").await.unwrap());
}
