//! Repositories whose configuration names programs.

use super::{DiffSide, GitError, GitRepository, TestRepository, executable, fs, key, succeeds_in};

/// Every way that is known by which reading a repository starts a program.
#[tokio::test]
async fn reading_starts_no_program_that_the_repository_names() {
    let repo = TestRepository::new().await;
    repo.write("second.evil", "text\n");
    repo.run(&["add", "."]);
    repo.run(&["commit", "-qm", "Second"]);
    let ran = repo.top.join("../ran");
    let program = repo.top.join("../program");
    executable(&program, &format!("#!/bin/sh\necho \"$0 $*\" >> {}\nexec cat\n", ran.display()));
    let program = program.to_str().unwrap();
    for name in ["evil", "e=v.il"] {
        for key in ["clean", "smudge", "process"] {
            repo.run(&["config", &format!("filter.{name}.{key}"), program]);
        }
        repo.run(&["config", &format!("filter.{name}.required"), "true"]);
    }
    for key in [
        "core.fsmonitor",
        "core.pager",
        "core.editor",
        "core.sshCommand",
        "core.alternateRefsCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "pager.log",
        "pager.diff",
        "pager.status",
        "pager.show",
        "gpg.program",
        "gpg.ssh.program",
        "credential.helper",
        "interactive.diffFilter",
    ] {
        repo.run(&["config", key, program]);
    }
    repo.run(&["config", "log.showSignature", "true"]);
    repo.run(&["config", "status.submoduleSummary", "true"]);
    for hook in ["post-index-change", "fsmonitor-watchman", "post-checkout"] {
        fs::copy(program, repo.top.join(".git/hooks").join(hook)).unwrap();
    }
    repo.write(".gitattributes", "*.evil filter=evil diff=evil\n*.txt filter=e=v.il diff=evil\n");
    repo.write("first.txt", "one\nTWO\nthree\n");
    repo.write("second.evil", "other\n");
    let git = GitRepository::open(&repo.top).await.unwrap();
    let status = git.status().await.unwrap();
    assert_eq!(status.files.len(), 3, "{status:?}");
    git.summary().await.unwrap();
    for path in ["first.txt", "second.evil", ".gitattributes"] {
        for side in [DiffSide::Unstaged, DiffSide::Staged, DiffSide::Head] {
            git.diff(&key(path), None, side).await.unwrap();
        }
    }
    let log = git.log(0, 10).await.unwrap();
    let (_, files) = git.show(&log[0].id).await.unwrap();
    git.commit_diff(&log[0].id, &files[0].path, None).await.unwrap();
    git.branches().await.unwrap();
    git.linked_worktree().await.unwrap();
    git.common_directory().await.unwrap();
    assert!(!ran.exists(), "{}", fs::read_to_string(&ran).unwrap());
    // The attack works where nothing protects from it, so the test would notice.
    succeeds_in(&repo.top, &["status"]);
    assert!(ran.exists());
}

#[tokio::test]
async fn reading_writes_nothing_and_waits_for_no_lock() {
    let repo = TestRepository::new().await;
    repo.write("first.txt", "changed\n");
    let index = repo.top.join(".git/index");
    let before = fs::read(&index).unwrap();
    fs::write(repo.top.join(".git/index.lock"), "").unwrap();
    assert_eq!(repo.changes().await, [".M first.txt"]);
    repo.diff("first.txt", DiffSide::Unstaged).await;
    assert_eq!(fs::read(&index).unwrap(), before);
    let locked = repo.git.stage(&[key("first.txt")]).await.unwrap_err().to_string();
    assert!(locked.contains("index.lock"), "{locked}");
}

#[tokio::test]
async fn configured_formats_do_not_change_what_is_read() {
    let repo = TestRepository::new().await;
    for (key, value) in [
        ("diff.noprefix", "true"),
        ("diff.mnemonicPrefix", "true"),
        ("diff.context", "0"),
        ("diff.interHunkContext", "50"),
        ("diff.wordRegex", "."),
        ("color.ui", "always"),
        ("color.diff", "always"),
        ("status.short", "true"),
        ("status.relativePaths", "true"),
        ("log.date", "relative"),
        ("format.pretty", "oneline"),
        ("apply.whitespace", "fix"),
        ("core.quotePath", "true"),
    ] {
        repo.run(&["config", key, value]);
    }
    repo.write("first.txt", "one\nTWO \nthree\n");
    let diff = repo.diff("first.txt", DiffSide::Unstaged).await;
    assert_eq!(diff.hunks[0].body, b" one\n-two\n+TWO \n three\n");
    let id = diff.hunks[0].id();
    let hunk = super::HunkId { path: key("first.txt"), from: None, id };
    repo.git.stage_hunk(&hunk).await.unwrap();
    assert_eq!(repo.staged("first.txt"), "one\nTWO \nthree\n");
    assert_eq!(repo.git.log(0, 5).await.unwrap()[0].subject, "First");
}

#[tokio::test]
async fn a_repository_of_another_user_is_refused_in_gits_own_words() {
    let repo = TestRepository::new().await;
    for path in [repo.top.clone(), repo.top.join(".git")] {
        if std::os::unix::fs::chown(path, Some(12345), None).is_err() {
            println!("skipped: only root can give a directory to another user");
            return;
        }
    }
    match GitRepository::open(&repo.top).await {
        Err(GitError::Refused(words)) => {
            assert!(
                words.contains("dubious ownership") && words.contains("safe.directory"),
                "{words}"
            );
        }
        Err(error) => panic!("{error}"),
        Ok(_) => println!("skipped: git is configured to trust every directory here"),
    }
}
