//! `towpath watch --commit`: only the agent's files, whatever the user does in the repository.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use crate::process::{Project, SESSION};

#[test]
fn a_turn_is_one_commit_and_the_users_work_is_not_touched() {
    let project = Project::with_repository();
    project
        .write(".git/hooks/pre-commit", "#!/bin/sh\ngit diff --cached --name-only > ../hook.log\n");
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut watch = project.watch(&["--commit"]);
    watch.text("user", "make it two");
    watch.text("assistant", "Sure. I make it two.");
    project.write("a.txt", "two\n");
    project.write(":(glob)*.txt", "odd\n");
    watch.change("t1", "Edit", "a.txt");
    watch.change("t2", "Write", ":(glob)*.txt");
    watch.text("assistant", "It was easy. Now it is two!");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    assert_eq!(
        project.git(&["log", "-1", "--format=%an%n%B"]),
        format!(
            "User\nNow it is two!\n\nPrompt: make it two\n\nAgent-Session: {SESSION}\n\
             Co-Authored-By: Claude <noreply@anthropic.com>\n\n"
        )
    );
    let files = "a.txt\n:(glob)*.txt\n";
    let mut names: Vec<String> = project
        .git(&["show", "-z", "--format=", "--name-only"])
        .split('\0')
        .map(str::to_owned)
        .collect();
    names.sort();
    assert_eq!(names, ["", ":(glob)*.txt", "a.txt"]);
    assert_eq!(project.status(), Project::USER_STATUS);
    let staged = fs::read_to_string(project.sibling("hook.log")).unwrap();
    assert_eq!(staged.lines().count(), files.lines().count(), "{staged}");
    assert_eq!(result.report["commits"].as_array().unwrap().len(), 1);
    assert_eq!(
        result.changes(),
        ["a.txt | Edit | pushed | git | -", ":(glob)*.txt | Write | pushed | git | -"]
    );
}

#[test]
fn neither_commands_nor_hooks_get_the_token_of_the_bot() {
    let project = Project::with_repository();
    project.write(".git/hooks/pre-commit", "#!/bin/sh\nenv > ../of-hook\n");
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut watch = project.watch_with(
        &["--commit", "--exec", "env > ../of-command"],
        &[("TOWPATH_TELEGRAM_TOKEN", "4711:secret"), ("TOWPATH_TEST_MARK", "inherited")],
    );
    project.write("a.txt", "two\n");
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    for name in ["of-hook", "of-command"] {
        let seen = fs::read_to_string(project.sibling(name)).expect(name);
        assert!(seen.contains("TOWPATH_TEST_MARK=inherited"), "{name}: {seen}");
        assert!(!seen.contains("4711:secret"), "{name}: {seen}");
    }
}

#[test]
fn with_commit_change_each_change_and_deletion_is_a_commit() {
    let project = Project::with_repository();
    let template = "{tool} {files} ({count})";
    let mut watch = project.watch(&[
        "--commit=change",
        "--message",
        template,
        "--no-trailers",
        "--author",
        "Agent <agent@example.org>",
    ]);
    project.write("new.txt", "new\n");
    watch.change("t1", "Write", "new.txt");
    watch.wait_for("committed");
    fs::remove_file(project.root().join("a.txt")).unwrap();
    watch.change("t2", "Edit", "a.txt");
    watch.wait_for("committed");
    watch.change("t3", "Edit", "new.txt");
    let result = watch.finish();
    assert_eq!(
        project.git(&["log", "--format=%an %s"]),
        "Agent Edit a.txt (1)\nAgent Write new.txt (1)\nUser first\n"
    );
    assert_eq!(project.status(), Project::USER_STATUS);
    assert_eq!(
        result.changes()[2],
        "new.txt | Edit | skipped | git | unchanged since the last commit"
    );
}

#[test]
fn changes_that_the_user_staged_stay_staged() {
    let project = Project::with_repository();
    project.write("a.txt", "staged by the user\n");
    project.git(&["add", "a.txt"]);
    project.write("a.txt", "and changed by the agent\n");
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    assert_eq!(watch.finish().code, 0);
    assert_eq!(project.git(&["show", "HEAD:a.txt"]), "and changed by the agent\n");
    assert_eq!(project.git(&["show", ":a.txt"]), "staged by the user\n");
}

#[test]
fn with_branch_a_session_has_its_own_branch() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    let before = project.status();
    let mut watch = project.watch(&["--commit=change", "--branch"]);
    watch.change("t1", "Edit", "a.txt");
    watch.wait_for("committed");
    project.write("a.txt", "three\n");
    watch.change("t2", "Edit", "a.txt");
    assert_eq!(watch.finish().code, 0);
    let branch = format!("towpath/{SESSION}");
    assert_eq!(project.git(&["log", "--format=%s", "main"]), "first\n");
    assert_eq!(project.git(&["rev-list", "--count", &branch]), "3\n");
    assert_eq!(project.git(&["show", &format!("{branch}:a.txt")]), "three\n");
    assert_eq!(project.status(), before);
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1);
    // The next run continues on the branch.
    project.write("a.txt", "four\n");
    let mut watch = project.watch(&["--commit=change", "--branch"]);
    watch.change("t3", "Edit", "a.txt");
    assert_eq!(watch.finish().code, 0);
    assert_eq!(project.git(&["rev-list", "--count", &branch]), "4\n");
}

#[test]
fn with_worktree_a_session_has_its_own_working_tree() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    project.write("deep/new.txt", "new\n");
    let before = project.status();
    let mut watch =
        project.watch(&["--commit", "--worktree", "../trees", "--branch=agents/{session}"]);
    watch.change("t1", "Edit", "a.txt");
    watch.change("t2", "Write", "deep/new.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    let path = project.sibling(&format!("trees/agents-{SESSION}"));
    assert_eq!(fs::read_to_string(path.join("deep/new.txt")).unwrap(), "new\n");
    let path = path.display().to_string();
    assert_eq!(project.git(&["-C", &path, "status", "--porcelain"]), "");
    assert_eq!(
        project.git(&["-C", &path, "show", "--format=", "--name-only"]),
        "a.txt\ndeep/new.txt\n"
    );
    assert_eq!(project.status(), before);
}

#[test]
fn ignored_files_and_a_merge_in_progress_are_not_committed() {
    let project = Project::with_repository();
    project.write(".git/info/exclude", "*.env\n");
    project.write("a.env", "secret");
    project.write("a.txt", "two\n");
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Write", "a.env");
    watch.end_turn();
    watch.wait_for("skipped a.env: ignored by git");
    project.write(".git/MERGE_HEAD", &project.git(&["rev-parse", "HEAD"]));
    watch.change("t2", "Edit", "a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0);
    assert_eq!(
        result.changes(),
        [
            "a.env | Write | skipped | git | ignored by git",
            "a.txt | Edit | skipped | git | a merge is in progress"
        ]
    );
    assert_eq!(project.git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn the_agent_can_make_the_first_commit_and_a_missing_repository_is_a_failure() {
    let project = Project::new();
    project.write("sub/a.txt", "x");
    let root = project.root().join("sub").display().to_string();
    let mut watch = project.watch(&["--commit", "--project", &root]);
    watch.change("t1", "Write", "sub/a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 1);
    assert!(result.changes()[0].contains("not a git repository"), "{:?}", result.changes());
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.git(&["config", "user.name", "User"]);
    project.git(&["config", "user.email", "user@example.org"]);
    let mut watch = project.watch(&["--commit", "--project", &root]);
    watch.change("t1", "Write", "sub/a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 0, "{:?}", result.log);
    assert_eq!(project.git(&["show", "--format=%s", "--name-only"]), "Write a.txt\n\nsub/a.txt\n");
    assert_eq!(project.status(), "");
}

#[test]
fn a_failing_git_hook_is_reported_and_leaves_no_files() {
    let project = Project::with_repository();
    project.write(".git/hooks/pre-commit", "#!/bin/sh\necho not like this >&2\nexit 1\n");
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    project.write("a.txt", "two\n");
    let before = project.status();
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    let result = watch.finish();
    assert_eq!(result.code, 1);
    assert!(result.changes()[0].contains("not like this"), "{:?}", result.changes());
    assert_eq!(project.status(), before);
    let left = fs::read_dir(project.root().join(".git")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|name| name.contains("towpath")), "{left:?}");
}
