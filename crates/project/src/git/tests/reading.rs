//! Status, diffs, history and branches.

use std::os::unix::ffi::OsStrExt as _;

use super::{
    DiffSide, FileChangeKind, GitError, GitRepository, GitStatus, Path, RepoPath, TestRepository,
    fs, key, lines, odd_names, run_in, succeeds_in, symlink,
};

#[tokio::test]
async fn an_empty_repository_has_a_branch_and_nothing_else() {
    let repo = TestRepository::empty().await;
    let status = repo.status().await;
    assert_eq!(status, GitStatus { branch: Some("main".into()), ..GitStatus::default() });
    assert_eq!(repo.git.log(0, 10).await.unwrap(), []);
    assert_eq!(repo.git.branches().await.unwrap(), []);
    repo.write("new.txt", "a\n");
    assert_eq!(repo.changes().await, [".? new.txt"]);
    assert_eq!(repo.diff("new.txt", DiffSide::Head).await.hunks[0].body, b"+a\n");
    repo.git.stage(&[key("new.txt")]).await.unwrap();
    assert_eq!(repo.changes().await, ["A. new.txt"]);
    repo.git.unstage(&[key("new.txt")]).await.unwrap();
    assert_eq!(repo.changes().await, [".? new.txt"]);
}

#[tokio::test]
async fn a_directory_without_a_repository_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let error = GitRepository::open(directory.path()).await.unwrap_err();
    assert!(matches!(error, GitError::NoRepository), "{error}");
}

#[tokio::test]
async fn every_kind_of_change_is_in_the_status() {
    let repo = TestRepository::new().await;
    for name in ["modified", "staged", "both", "gone", "removed", "becomes-link"] {
        repo.write(name, "text\n");
    }
    repo.write("moved", lines(0..30));
    repo.run(&["add", "."]);
    repo.run(&["commit", "-qm", "more"]);
    repo.write("modified", "other\n");
    repo.write("staged", "other\n");
    repo.write("both", "other\n");
    repo.run(&["add", "staged", "both"]);
    repo.write("both", "another\n");
    fs::remove_file(repo.top.join("gone")).unwrap();
    repo.run(&["rm", "-q", "removed"]);
    repo.run(&["mv", "moved", "elsewhere"]);
    fs::remove_file(repo.top.join("becomes-link")).unwrap();
    symlink("staged", repo.top.join("becomes-link")).unwrap();
    repo.write("new/deep", "x");
    repo.write(".gitignore", "*.log\n");
    repo.write("a.log", "x");
    let mut changes = repo.changes().await;
    changes.sort();
    assert_eq!(
        changes,
        [
            ".? .gitignore",
            ".? new/deep",
            ".D gone",
            ".M modified",
            ".T becomes-link",
            "D. removed",
            "M. staged",
            "MM both",
            "R. elsewhere",
        ]
    );
    let files = repo.status().await.files;
    let moved = files.iter().find(|it| it.staged == Some(FileChangeKind::Renamed)).unwrap();
    assert_eq!(moved.from, Some(key("moved")));
    let renamed = repo.git.diff(&moved.path, moved.from.as_ref(), DiffSide::Staged).await.unwrap();
    assert_eq!(renamed.len(), 1, "{renamed:?}");
    assert_eq!(renamed[0].hunks, [], "it has only moved");
    let typed = repo.git.diff(&key("becomes-link"), None, DiffSide::Unstaged).await.unwrap();
    assert_eq!(typed.len(), 2);
    assert!(typed[0].deleted && typed[1].added);
    assert!(!typed[0].can_split() && !typed[1].can_split());
    assert!(repo.diff("gone", DiffSide::Unstaged).await.deleted);
    let both = repo.diff("both", DiffSide::Head).await;
    assert_eq!(both.hunks[0].body, b"-text\n+another\n");
}

#[tokio::test]
async fn odd_names_survive_every_operation() {
    let repo = TestRepository::new().await;
    let names = odd_names();
    for name in &names {
        repo.write(name, lines(0..20));
    }
    let find = |status: &GitStatus, name: &std::ffi::OsStr| {
        status.files.iter().find(|it| it.path.as_bytes() == name.as_bytes()).cloned()
    };
    let status = repo.status().await;
    let paths: Vec<RepoPath> =
        names.iter().map(|name| find(&status, name).expect("listed").path).collect();
    for path in &paths {
        let diff = repo.git.diff(path, None, DiffSide::Unstaged).await.unwrap();
        assert_eq!(diff[0].hunks[0].new_lines, 20, "{path:?}");
    }
    repo.git.stage(&paths).await.unwrap();
    let status = repo.status().await;
    assert!(status.files.iter().all(|it| it.staged == Some(FileChangeKind::Added)), "{status:?}");
    repo.git.unstage(&paths[..1]).await.unwrap();
    assert_eq!(find(&repo.status().await, names[0]).unwrap().staged, None);
    repo.git.stage(&paths[..1]).await.unwrap();
    repo.git.commit("Odd names").await.unwrap();
    let [commit] = &repo.git.log(0, 1).await.unwrap()[..] else { panic!() };
    let (_, files) = repo.git.show(&commit.id).await.unwrap();
    assert_eq!(files.len(), names.len());
    for name in &names {
        repo.write(name, lines(0..20).replace("line 3\n", "three\n"));
    }
    for path in &paths {
        let diff = repo.git.diff(path, None, DiffSide::Unstaged).await.unwrap();
        let id = diff[0].hunks[0].id();
        let hunk = super::HunkId { path: path.clone(), from: None, id };
        repo.git.stage_hunk(&hunk).await.unwrap_or_else(|it| panic!("{path:?}: {it}"));
        let past = repo.git.commit_diff(&commit.id, path, None).await.unwrap();
        assert!(past[0].added, "{path:?}");
    }
    let status = repo.status().await;
    assert!(status.files.iter().all(|it| it.unstaged.is_none()), "{status:?}");
    repo.git.unstage(&paths).await.unwrap();
    repo.git.discard(&paths).await.unwrap();
    assert_eq!(repo.status().await.files, []);
    assert_eq!(repo.read("first.txt"), "one\ntwo\nthree\n", "a pattern is a name");
}

#[tokio::test]
async fn conflicts_detached_heads_and_upstreams_are_seen() {
    let repo = TestRepository::new().await;
    repo.run(&["switch", "-qc", "other"]);
    repo.write("first.txt", "one\n2\nthree\n");
    repo.run(&["commit", "-qam", "Other"]);
    repo.run(&["switch", "-q", "main"]);
    repo.run(&["branch", "-q", "--set-upstream-to=other"]);
    repo.write("first.txt", "one\nII\nthree\n");
    repo.run(&["commit", "-qam", "Mine"]);
    let status = repo.status().await;
    assert_eq!((status.ahead, status.behind), (1, 1));
    assert_eq!(status.upstream.as_deref(), Some("other"));
    assert!(!succeeds_in(&repo.top, &["merge", "-q", "other"]));
    let status = repo.status().await;
    assert!(status.files[0].conflicted, "{status:?}");
    assert_eq!(repo.changes().await, [".U first.txt"]);
    let diff = repo.diff("first.txt", DiffSide::Unstaged).await;
    assert!(String::from_utf8_lossy(&diff.hunks[0].body).contains("+<<<<<<<"), "{diff:?}");
    repo.run(&["merge", "--abort"]);
    repo.run(&["switch", "-q", "--detach"]);
    let status = repo.status().await;
    assert_eq!(status.branch, None);
    assert!(status.commit.is_some());
    let branches = repo.git.branches().await.unwrap();
    assert_eq!(branches.len(), 2);
    assert!(branches.iter().all(|it| !it.current && !it.remote));
}

#[tokio::test]
async fn submodules_are_entries_whose_own_configuration_does_nothing() {
    let repo = TestRepository::new().await;
    let inner = TestRepository::new().await;
    let source = inner.top.to_str().unwrap();
    repo.run(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "sub"]);
    repo.run(&["commit", "-qm", "Submodule"]);
    let sub = repo.top.join("sub");
    let marker = repo.top.join("../ran");
    let monitor = format!("touch {}; false", marker.display());
    run_in(&sub, &["config", "core.fsmonitor", &monitor]);
    fs::write(sub.join("first.txt"), "changed\n").unwrap();
    assert_eq!(repo.changes().await, Vec::<String>::new(), "what is dirty inside is not looked at");
    assert!(!marker.exists());
    run_in(&sub, &["-c", "core.fsmonitor=false", "config", "--unset", "core.fsmonitor"]);
    run_in(&sub, &["-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "Inner"]);
    let status = repo.status().await;
    assert!(status.files[0].submodule, "{status:?}");
    assert!(!repo.diff("sub", DiffSide::Unstaged).await.can_split());
}

#[tokio::test]
async fn history_is_paged_and_shows_what_commits_changed() {
    let repo = TestRepository::new().await;
    for number in 0..5 {
        repo.write("first.txt", format!("{number}\n"));
        repo.run(&["commit", "-qam", &format!("Commit {number}\n\nBody\nof {number}")]);
    }
    repo.run(&["mv", "first.txt", "moved.txt"]);
    repo.run(&["commit", "-qm", "Move"]);
    repo.run(&["tag", "v1"]);
    let all = repo.git.log(0, 50).await.unwrap();
    assert_eq!(all.len(), 7);
    assert_eq!(all[0].subject, "Move");
    assert!(all[0].names.iter().any(|it| it == "tag: v1"), "{:?}", all[0].names);
    assert_eq!(all[1].body, "Body\nof 4");
    assert_eq!(all[1].author, "Ada");
    let page = repo.git.log(2, 2).await.unwrap();
    assert_eq!(page, all[2..4]);
    let (commit, files) = repo.git.show(&all[0].id).await.unwrap();
    assert_eq!(commit.parents, [all[1].id.clone()]);
    assert_eq!((files.len(), files[0].state), (1, FileChangeKind::Renamed));
    assert_eq!(files[0].from, Some(key("first.txt")));
    let (root, files) = repo.git.show(&all[6].id).await.unwrap();
    assert_eq!((root.parents.len(), files[0].state), (0, FileChangeKind::Added));
    let diff = repo.git.commit_diff(&all[1].id, &key("first.txt"), None).await.unwrap();
    assert_eq!(diff[0].hunks[0].body, b"-3\n+4\n");
    for bad in ["", "HEAD", "--output=x", "-1", "main..other", "zzzz"] {
        let error = repo.git.show(bad).await.unwrap_err();
        assert!(matches!(error, GitError::InvalidCommit(_)), "{bad}: {error}");
    }
}

#[tokio::test]
async fn huge_changes_are_cut_and_said_to_be() {
    let repo = TestRepository::new().await;
    for number in 0..2000 {
        repo.write(format!("many/file-{number}"), "x\n");
    }
    let status = repo.status().await;
    assert_eq!((status.files.len(), status.cut), (2000, false));
    repo.write("huge.txt", "0123456789abcdef\n".repeat(400_000));
    let diff = repo.diff("huge.txt", DiffSide::Unstaged).await;
    assert!(diff.cut && !diff.can_split());
    repo.git.stage(&[key("huge.txt")]).await.unwrap();
    let diff = repo.diff("huge.txt", DiffSide::Staged).await;
    assert!(diff.cut && diff.hunks[0].body.len() > 1 << 20);
    let summary = repo.git.summary().await.unwrap();
    assert!(summary.files.len() < 10, "directories, not files");
}

#[test]
fn whatever_git_prints_is_read_without_a_panic() {
    let good = b"# branch.oid abc\0# branch.ab +1 -2\0\
        1 .M N... 100644 100644 100644 a b path with blank\0\
        2 R. N... 100644 100644 100644 a b R100 new\0old\0\
        u UU N... 1 2 3 4 a b c both\0? unknown\0";
    let status = GitStatus::parse(good);
    assert_eq!((status.ahead, status.behind, status.files.len()), (1, 2, 4));
    assert_eq!(status.files[0].path, key("path with blank"));
    assert_eq!(status.files[2].path, key("both"));
    let patch = b"diff --git a/x b/x\nindex 1..2 100644\n--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@ fn\n a\n-b\n+c\n\\ No newline at end of file\n";
    for bytes in [&good[..], &patch[..]] {
        for end in 0..bytes.len() {
            let mut odd = bytes[..end].to_vec();
            let _ = (GitStatus::parse(&odd), super::FilePatch::parse(&odd));
            odd.extend_from_slice(b"\0\xff @@ -99999999999999999999,1 +1 @@\n\0 \0");
            let _ = (GitStatus::parse(&odd), super::FilePatch::parse(&odd));
            let _ = (GitStatus::parse(&bytes[end..]), super::FilePatch::parse(&bytes[end..]));
        }
    }
    let whole = super::FilePatch::parse(patch);
    assert!(whole[0].can_split() && whole[0].hunks[0].body.ends_with(b"at end of file\n"));
}

#[tokio::test]
async fn links_of_untracked_files_lead_nowhere() {
    let repo = TestRepository::new().await;
    let outside = repo.top.join("../secret");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("key"), "secret\n").unwrap();
    symlink(&outside, repo.top.join("link")).unwrap();
    symlink(outside.join("key"), repo.top.join("file")).unwrap();
    let diff = repo.diff("file", DiffSide::Unstaged).await;
    let body = String::from_utf8_lossy(&diff.hunks[0].body).into_owned();
    assert!(
        body.ends_with("key\n\\ No newline at end of file\n"),
        "the target, as git has it: {body}"
    );
    let through = repo.git.diff(&key("link/key"), None, DiffSide::Unstaged).await;
    assert!(through.is_err() || through.unwrap().is_empty());
    assert!(Path::new(&outside.join("key")).exists());
}
