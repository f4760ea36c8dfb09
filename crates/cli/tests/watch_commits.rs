//! `towpath watch --commit`: just the agent's files, whatever else is going on in the repository.

#[expect(dead_code, reason = "other tests need more of it")]
mod pipeline;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use pipeline::{Project, SESSION};

#[test]
fn a_turn_is_one_commit_and_the_users_work_stays_as_it_is() {
    let project = Project::with_repository();
    project
        .write(".git/hooks/pre-commit", "#!/bin/sh\ngit diff --cached --name-only > ../hook.log\n");
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    let mut watch = project.watch(&["--commit"]);
    watch.says("user", "make it two");
    watch.says("assistant", "Sure. I make it two.");
    project.write("a.txt", "two\n");
    project.write(":(glob)*.txt", "odd\n");
    watch.change("t1", "Edit", "a.txt");
    watch.change("t2", "Write", ":(glob)*.txt");
    watch.says("assistant", "It was easy. Now it is two!");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 0, "{:?}", finished.remarks);
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
    assert_eq!(project.status(), Project::USERS);
    let seen = fs::read_to_string(project.beside("hook.log")).unwrap();
    assert_eq!(seen.lines().count(), files.lines().count(), "{seen}");
    assert_eq!(finished.report["commits"].as_array().unwrap().len(), 1);
    assert_eq!(
        finished.changes(),
        ["a.txt | Edit | pushed | git | -", ":(glob)*.txt | Write | pushed | git | -"]
    );
}

#[test]
fn each_change_is_a_commit_where_asked_for_and_a_deleted_file_is_one_too() {
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
    watch.hear("committed");
    fs::remove_file(project.root().join("a.txt")).unwrap();
    watch.change("t2", "Edit", "a.txt");
    watch.hear("committed");
    watch.change("t3", "Edit", "new.txt");
    let finished = watch.finish();
    assert_eq!(
        project.git(&["log", "--format=%an %s"]),
        "Agent Edit a.txt (1)\nAgent Write new.txt (1)\nUser first\n"
    );
    assert_eq!(project.status(), Project::USERS);
    assert_eq!(finished.changes()[2], "new.txt | Edit | skipped | git | it is as it was committed");
}

#[test]
fn what_the_user_staged_of_a_file_stays_staged() {
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
fn a_session_has_its_own_branch_where_asked_for() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    let before = project.status();
    let mut watch = project.watch(&["--commit=change", "--branch"]);
    watch.change("t1", "Edit", "a.txt");
    watch.hear("committed");
    project.write("a.txt", "three\n");
    watch.change("t2", "Edit", "a.txt");
    assert_eq!(watch.finish().code, 0);
    let branch = format!("towpath/{SESSION}");
    assert_eq!(project.git(&["log", "--format=%s", "main"]), "first\n");
    assert_eq!(project.git(&["rev-list", "--count", &branch]), "3\n");
    assert_eq!(project.git(&["show", &format!("{branch}:a.txt")]), "three\n");
    assert_eq!(project.status(), before);
    assert_eq!(project.git(&["worktree", "list"]).lines().count(), 1);
    // The next run goes on where this one ended.
    project.write("a.txt", "four\n");
    let mut watch = project.watch(&["--commit=change", "--branch"]);
    watch.change("t3", "Edit", "a.txt");
    assert_eq!(watch.finish().code, 0);
    assert_eq!(project.git(&["rev-list", "--count", &branch]), "4\n");
}

#[test]
fn a_session_has_its_own_working_tree_where_asked_for() {
    let project = Project::with_repository();
    project.write("a.txt", "two\n");
    project.write("deep/new.txt", "new\n");
    let before = project.status();
    let mut watch =
        project.watch(&["--commit", "--worktree", "../trees", "--branch=agents/{session}"]);
    watch.change("t1", "Edit", "a.txt");
    watch.change("t2", "Write", "deep/new.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 0, "{:?}", finished.remarks);
    let place = project.beside(&format!("trees/agents-{SESSION}"));
    assert_eq!(fs::read_to_string(place.join("deep/new.txt")).unwrap(), "new\n");
    let place = place.display().to_string();
    assert_eq!(project.git(&["-C", &place, "status", "--porcelain"]), "");
    assert_eq!(
        project.git(&["-C", &place, "show", "--format=", "--name-only"]),
        "a.txt\ndeep/new.txt\n"
    );
    assert_eq!(project.status(), before);
}

#[test]
fn what_git_ignores_or_is_in_the_middle_of_is_not_committed() {
    let project = Project::with_repository();
    project.write(".git/info/exclude", "*.env\n");
    project.write("a.env", "secret");
    project.write("a.txt", "two\n");
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Write", "a.env");
    watch.end_turn();
    watch.hear("skipped a.env: git ignores it");
    project.write(".git/MERGE_HEAD", &project.git(&["rev-parse", "HEAD"]));
    watch.change("t2", "Edit", "a.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 0);
    assert_eq!(
        finished.changes(),
        [
            "a.env | Write | skipped | git | git ignores it",
            "a.txt | Edit | skipped | git | a merge is under way"
        ]
    );
    assert_eq!(project.git(&["rev-list", "--count", "HEAD"]), "1\n");
}

#[test]
fn the_first_commit_of_a_repository_can_be_the_agents_and_no_repository_is_a_failure() {
    let project = Project::new();
    project.write("sub/a.txt", "x");
    let root = project.root().join("sub").display().to_string();
    let mut watch = project.watch(&["--commit", "--project", &root]);
    watch.change("t1", "Write", "sub/a.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 1);
    assert!(finished.changes()[0].contains("not a git repository"), "{:?}", finished.changes());
    project.git(&["init", "--quiet", "--initial-branch=main"]);
    project.git(&["config", "user.name", "User"]);
    project.git(&["config", "user.email", "user@example.org"]);
    let mut watch = project.watch(&["--commit", "--project", &root]);
    watch.change("t1", "Write", "sub/a.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 0, "{:?}", finished.remarks);
    assert_eq!(project.git(&["show", "--format=%s", "--name-only"]), "Write a.txt\n\nsub/a.txt\n");
    assert_eq!(project.status(), "");
}

#[test]
fn a_hook_that_refuses_is_reported_and_nothing_is_left_behind() {
    let project = Project::with_repository();
    project.write(".git/hooks/pre-commit", "#!/bin/sh\necho not like this >&2\nexit 1\n");
    let hook = project.root().join(".git/hooks/pre-commit");
    fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    project.write("a.txt", "two\n");
    let before = project.status();
    let mut watch = project.watch(&["--commit"]);
    watch.change("t1", "Edit", "a.txt");
    watch.end_turn();
    let finished = watch.finish();
    assert_eq!(finished.code, 1);
    assert!(finished.changes()[0].contains("not like this"), "{:?}", finished.changes());
    assert_eq!(project.status(), before);
    let left = fs::read_dir(project.root().join(".git")).unwrap().flatten();
    let left: Vec<_> = left.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    assert!(!left.iter().any(|name| name.contains("towpath")), "{left:?}");
}
