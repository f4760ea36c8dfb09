//! Projects that are ordinary, huge, strange, and hostile.

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::{
    ContentKind, FileError, ItemType, LineEnding, MAX_EDIT_BYTES, ProjectFiles, ProjectPath,
    SaveCondition, WriteAccess,
};

const ORDINARY: WriteAccess = WriteAccess::Ordinary;

/// A project beside a directory with a secret.
struct Project {
    _directory: TempDir,
    path: PathBuf,
    secret: PathBuf,
    files: ProjectFiles,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path().canonicalize().unwrap();
        let (path, secret) = (base.join("project"), base.join("outside/secret"));
        fs::create_dir_all(path.join("src")).unwrap();
        fs::create_dir_all(base.join("outside")).unwrap();
        fs::write(&secret, "secret").unwrap();
        fs::write(path.join("src/main.rs"), "fn main() {}\n").unwrap();
        let files = ProjectFiles::open(&path).unwrap();
        Self { _directory: directory, path, secret, files }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, name: &str) -> Result<Vec<u8>, FileError> {
        self.files.open_file(&path(name))?.read(1 << 20)
    }

    fn tag(&self, name: &str) -> String {
        self.files.open_file(&path(name)).unwrap().tag().unwrap()
    }

    /// Saves over what is there now.
    fn save(&self, name: &str, content: &str, access: WriteAccess) -> Result<String, FileError> {
        let condition = SaveCondition::Unchanged(self.tag(name));
        self.files.save(&path(name), content.as_bytes(), &condition, access)
    }

    fn create(&self, name: &str, access: WriteAccess) -> Result<String, FileError> {
        self.files.save(&path(name), b"new", &SaveCondition::New, access)
    }

    fn names(&self, directory: &str) -> Vec<String> {
        let page = self.files.list(&path(directory), None, 1000).unwrap();
        page.items.into_iter().map(|it| it.name).collect()
    }

    fn upload(&self, name: &str, pieces: &[&[u8]]) -> Result<ProjectPath, FileError> {
        let mut upload = self.files.begin_upload(&path(name), None, 1 << 20, ORDINARY)?;
        for piece in pieces {
            upload.write(piece)?;
        }
        upload.finish()
    }
}

fn path(text: &str) -> ProjectPath {
    ProjectPath::parse(text).unwrap()
}

fn make_pipe(at: &Path) {
    mknodat(CWD, at, FileType::Fifo, Mode::RWXU, 0).unwrap();
}

#[test]
fn directories_come_first_and_names_are_in_order_whatever_they_contain() {
    let project = Project::new();
    for name in ["b.txt", "A.txt", "a\nb", "\u{202e}x", "Zoo/x", "apple/x", ".hidden", ".git/HEAD"]
    {
        project.write(name, "x");
    }
    fs::write(project.path.join(OsStr::from_bytes(b"caf\xe9")), "latin").unwrap();
    let names = project.names("");
    let expected =
        ["apple", "src", "Zoo", ".hidden", "a\nb", "A.txt", "b.txt", "caf\\xe9", "\u{202e}x"];
    assert_eq!(names, expected);
    assert_eq!(project.read("caf\\xe9").unwrap(), b"latin");
    assert_eq!(project.read("a\nb").unwrap(), b"x");
}

#[test]
fn a_huge_directory_is_listed_page_by_page_without_gaps() {
    let project = Project::new();
    fs::create_dir(project.path.join("many")).unwrap();
    for number in 0..2345 {
        fs::write(project.path.join(format!("many/file-{number}")), "").unwrap();
    }
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = project.files.list(&path("many"), after.as_deref(), 500).unwrap();
        assert!(page.items.len() <= 500 && page.total == 2345);
        names.extend(page.items.into_iter().map(|it| it.name));
        // A file that is gone meanwhile, even the last one of the page, moves nothing.
        if names.len() == 500 {
            fs::remove_file(project.path.join("many").join(&names[499])).unwrap();
            fs::write(project.path.join("many/file-x"), "").unwrap();
        }
        after = page.more;
        if after.is_none() {
            break;
        }
    }
    names.dedup();
    assert_eq!(names.len(), 2346);
    assert!(names.is_sorted());
}

#[test]
fn what_git_ignores_is_marked() {
    let project = Project::new();
    project.write(".gitignore", "target\n*.log\n!keep.log\n/build/\n");
    project.write("src/.gitignore", "generated.rs\n!other.log\n");
    for name in [
        "target/x",
        "src/target/x",
        "build/out/x",
        "src/build/x",
        "a.log",
        "keep.log",
        "src/other.log",
        "src/generated.rs",
    ] {
        project.write(name, "");
    }
    let ignored = |directory: &str| -> Vec<String> {
        let page = project.files.list(&path(directory), None, 100).unwrap();
        page.items.into_iter().filter(|it| it.is_ignored).map(|it| it.name).collect()
    };
    assert_eq!(ignored(""), ["build", "target", "a.log"]);
    assert_eq!(ignored("src"), ["target", "generated.rs"]);
    assert_eq!(ignored("build"), ["out"], "all of an ignored directory");
    assert_eq!(ignored("build/out"), ["x"]);
    // A project that is a part of a repository has the rules of the repository.
    let part = ProjectFiles::open(&project.path.join("src")).unwrap();
    let other = |files: &ProjectFiles| {
        let page = files.list(&path(""), None, 100).unwrap();
        page.items.into_iter().filter(|it| it.is_ignored).map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(other(&part), ["generated.rs"], "there is no repository");
    project.write(".git/info/exclude", "main.rs\n");
    assert_eq!(other(&part), ["target", "generated.rs", "main.rs"]);
    fs::remove_file(project.path.join(".git/info/exclude")).unwrap();
    make_pipe(&project.path.join(".git/info/exclude"));
    assert_eq!(other(&part), ["target", "generated.rs"], "a pipe has no rules");
}

#[test]
fn no_link_leads_out_of_the_project() {
    let project = Project::new();
    symlink(&project.secret, project.path.join("file")).unwrap();
    symlink(project.secret.parent().unwrap(), project.path.join("directory")).unwrap();
    symlink("../outside/secret", project.path.join("relative")).unwrap();
    symlink("src/main.rs", project.path.join("inside")).unwrap();
    symlink("loop", project.path.join("loop")).unwrap();
    for name in ["file", "relative", "directory/secret", "loop"] {
        let result = project.read(name);
        assert!(
            matches!(result, Err(FileError::Outside | FileError::NotFound)),
            "{name}: {result:?}"
        );
        let condition = SaveCondition::Unchanged(super::content::content_tag(b"secret"));
        let result = project.files.save(&path(name), b"evil", &condition, ORDINARY);
        assert!(result.is_err(), "{name}: {result:?}");
    }
    assert!(project.files.list(&path("directory"), None, 10).is_err());
    for name in ["directory/new", "file", "relative"] {
        assert!(project.create(name, ORDINARY).is_err(), "{name}");
    }
    assert!(project.upload("directory/new", &[b"x"]).is_err());
    assert!(project.files.create_directory(&path("directory/new"), ORDINARY).is_err());
    assert!(project.files.rename(&path("src/main.rs"), &path("directory/x"), ORDINARY).is_err());
    assert!(project.files.rename(&path("directory/secret"), &path("x"), ORDINARY).is_err());
    assert!(project.files.delete(&path("directory/secret"), true, ORDINARY).is_err());
    assert_eq!(fs::read(&project.secret).unwrap(), b"secret");
    let page = project.files.list(&path(""), None, 10).unwrap();
    let of = |name: &str| page.items.iter().find(|it| it.name == name).unwrap();
    assert_eq!((of("file").item_type, of("file").is_link), (ItemType::Other, true));
    assert_eq!(of("directory").item_type, ItemType::Other);
    assert_eq!((of("inside").item_type, of("inside").is_link), (ItemType::File, true));
    // A link inside is followed, and stays one.
    project.save("inside", "fn other() {}\n", ORDINARY).unwrap();
    assert_eq!(project.read("src/main.rs").unwrap(), b"fn other() {}\n");
    assert!(project.path.join("inside").is_symlink());
    // Deleting a link deletes nothing else.
    project.files.delete(&path("directory"), true, ORDINARY).unwrap();
    assert!(project.secret.exists());
}

#[test]
fn a_link_that_is_exchanged_all_the_time_leads_nowhere() {
    let project = Project::new();
    let stop = AtomicBool::new(false);
    fs::create_dir(project.path.join("real")).unwrap();
    fs::write(project.path.join("real/secret"), "harmless").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (swapped, kept) = (project.path.join("real"), project.path.join("kept"));
            while !stop.load(Ordering::Relaxed) {
                fs::rename(&swapped, &kept).unwrap();
                symlink(project.secret.parent().unwrap(), &swapped).unwrap();
                fs::remove_file(&swapped).unwrap();
                fs::rename(&kept, &swapped).unwrap();
            }
        });
        for _ in 0..2000 {
            if let Ok(content) = project.read("real/secret") {
                assert_eq!(content, b"harmless");
            }
            let _ = project.create("real/new", ORDINARY);
            let _ = project.files.delete(&path("real/new"), false, ORDINARY);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let outside: Vec<_> = fs::read_dir(project.secret.parent().unwrap()).unwrap().collect();
    assert_eq!(outside.len(), 1, "{outside:?}");
    assert_eq!(fs::read(&project.secret).unwrap(), b"secret");
}

#[test]
fn pipes_sockets_and_directories_are_no_files_and_nothing_waits_for_them() {
    let project = Project::new();
    make_pipe(&project.path.join("pipe"));
    make_pipe(&project.path.join(".gitignore"));
    let _socket = UnixListener::bind(project.path.join("socket")).unwrap();
    for name in ["pipe", "socket", "src"] {
        assert!(matches!(project.read(name), Err(FileError::NotAFile)), "{name}");
        let condition = SaveCondition::Unchanged(String::new());
        assert!(project.files.save(&path(name), b"x", &condition, ORDINARY).is_err(), "{name}");
        assert!(matches!(project.create(name, ORDINARY), Err(FileError::Exists)), "{name}");
    }
    assert!(project.files.list(&path("pipe"), None, 10).is_err());
    let page = project.files.list(&path(""), None, 10).unwrap();
    let pipe = page.items.iter().find(|it| it.name == "pipe").unwrap();
    assert_eq!(pipe.item_type, ItemType::Other);
    assert!(project.files.open_file(&path("")).is_err());
}

#[test]
fn a_file_is_saved_only_over_what_was_read_and_keeps_its_mode() {
    let project = Project::new();
    project.write("run.sh", "one");
    fs::set_permissions(project.path.join("run.sh"), Permissions::from_mode(0o750)).unwrap();
    let read = SaveCondition::Unchanged(project.tag("run.sh"));
    let save = |content: &[u8]| project.files.save(&path("run.sh"), content, &read, ORDINARY);
    let tag = save(b"two").unwrap();
    assert_eq!(project.tag("run.sh"), tag);
    assert_eq!(fs::metadata(project.path.join("run.sh")).unwrap().mode() & 0o777, 0o750);
    assert!(matches!(save(b"three"), Err(FileError::Changed)), "it is not what was read");
    fs::remove_file(project.path.join("run.sh")).unwrap();
    assert!(matches!(save(b"three"), Err(FileError::Changed)), "it is gone");
    assert!(matches!(project.create("src/main.rs", ORDINARY), Err(FileError::Exists)));
    project.create("src/new.rs", ORDINARY).unwrap();
    let huge = vec![b'x'; usize::try_from(MAX_EDIT_BYTES).unwrap() + 1];
    assert!(matches!(save(&huge), Err(FileError::TooLarge(_))));
    project.write("huge", &huge);
    let condition = SaveCondition::Unchanged(project.tag("huge"));
    let saved = project.files.save(&path("huge"), b"", &condition, ORDINARY);
    assert!(matches!(saved, Err(FileError::Changed)));
    assert_eq!(project.names("src"), ["main.rs", "new.rs"], "no temporary files");
}

#[test]
fn what_git_and_the_agent_run_is_not_written_through_any_path() {
    let project = Project::new();
    project.write(".git/config", "[core]");
    project.write(".claude/settings.json", "{}");
    symlink(".git", project.path.join("alias")).unwrap();
    symlink(".git/config", project.path.join("config")).unwrap();
    symlink(".claude/settings.json", project.path.join("settings")).unwrap();
    for access in [ORDINARY, WriteAccess::Admin] {
        for name in [".git/hooks-x", ".git", "alias/new", "src/.git"] {
            let result = project.create(name, access);
            assert!(matches!(result, Err(FileError::Git)), "{name}: {result:?}");
        }
        assert!(matches!(project.save("config", "evil", access), Err(FileError::Git)));
        let delete = project.files.delete(&path(".git"), true, access);
        assert!(matches!(delete, Err(FileError::Git)));
        let rename = project.files.rename(&path("src"), &path(".git"), access);
        assert!(matches!(rename, Err(FileError::Git)));
        let upload = project.files.begin_upload(&path("alias/x"), None, 9, access);
        assert!(matches!(upload, Err(FileError::Git)));
    }
    for name in [".mcp.json", ".claude/settings.local.json", ".claude/hooks"] {
        assert!(matches!(project.create(name, ORDINARY), Err(FileError::NeedsAdmin)), "{name}");
        project.create(name, WriteAccess::Admin).unwrap();
    }
    assert!(matches!(project.save("settings", "{ }", ORDINARY), Err(FileError::NeedsAdmin)));
    let rename = project.files.rename(&path(".claude"), &path("x"), ORDINARY);
    assert!(matches!(rename, Err(FileError::NeedsAdmin)));
    // What matters is where the project is, not how its paths look from inside.
    let inner = ProjectFiles::open(&project.path.join(".claude")).unwrap();
    let saved = inner.save(&path("settings.x.json"), b"", &SaveCondition::New, ORDINARY);
    assert!(matches!(saved, Err(FileError::NeedsAdmin)));
    assert_eq!(fs::read(project.path.join(".git/config")).unwrap(), b"[core]");
}

#[test]
fn files_are_renamed_and_deleted_and_nothing_is_replaced() {
    let project = Project::new();
    project.write("a/one", "1");
    project.write("b/two", "2");
    let rename = |from: &str, to: &str| project.files.rename(&path(from), &path(to), ORDINARY);
    assert!(matches!(rename("a/one", "b/two"), Err(FileError::Exists)));
    assert!(matches!(rename("a", "a/b"), Err(FileError::Exists)));
    assert!(matches!(rename("none", "x"), Err(FileError::NotFound)));
    assert!(matches!(rename("a/one", "none/x"), Err(FileError::NotFound)));
    assert!(matches!(rename("a/one", "a/new\nline"), Err(FileError::InvalidName(_))));
    assert!(rename("a/one", &format!("a/{}", "x".repeat(300))).is_err());
    rename("a/one", "b/one").unwrap();
    rename("b", "c").unwrap();
    assert_eq!(project.names("c"), ["one", "two"]);
    let delete = |name: &str, all| project.files.delete(&path(name), all, ORDINARY);
    assert!(matches!(delete("c", false), Err(FileError::NotEmpty)));
    assert!(matches!(delete("none", true), Err(FileError::NotFound)));
    assert!(project.files.delete(&ProjectPath::default(), true, ORDINARY).is_err());
    delete("a", false).unwrap();
    delete("c", true).unwrap();
    project.files.create_directory(&path("d"), ORDINARY).unwrap();
    assert_eq!(project.names(""), ["d", "src"]);
}

#[test]
fn an_upload_replaces_nothing_and_leaves_nothing_behind() {
    let project = Project::new();
    project.write("data.csv", "old");
    assert_eq!(project.upload("data.csv", &[b"a", b"b"]).unwrap().to_string(), "data (2).csv");
    assert_eq!(project.upload("data.csv", &[]).unwrap().to_string(), "data (3).csv");
    assert_eq!(project.upload("src/x", &[b"x"]).unwrap().to_string(), "src/x");
    assert_eq!(project.read("data (2).csv").unwrap(), b"ab");
    assert_eq!(project.read("data.csv").unwrap(), b"old");
    let piece = vec![0; 600 << 10];
    assert!(matches!(project.upload("large", &[&piece, &piece]), Err(FileError::TooLarge(_))));
    let begin = |announced| project.files.begin_upload(&path("y"), announced, u64::MAX, ORDINARY);
    assert!(matches!(begin(Some(1 << 60)), Err(FileError::NoSpace)));
    let mut given_up = begin(None).unwrap();
    given_up.write(b"half").unwrap();
    drop(given_up);
    assert!(project.upload("new\tname", &[b"x"]).is_err());
    assert_eq!(project.names(""), ["src", "data (2).csv", "data (3).csv", "data.csv"]);
    let place = project.files.create_upload_directory().unwrap();
    assert_eq!(place.to_string(), ".towpath/files");
    assert_eq!(project.read(".towpath/.gitignore").unwrap(), b"*\n");
    assert_eq!(project.files.create_upload_directory().unwrap(), place);
}

#[test]
fn a_link_in_the_project_redirects_no_upload() {
    let project = Project::new();
    fs::create_dir(project.path.join("elsewhere")).unwrap();
    for target in ["../outside", "elsewhere"] {
        symlink(target, project.path.join(".towpath")).unwrap();
        assert!(project.files.create_upload_directory().is_err(), "{target}");
        fs::remove_file(project.path.join(".towpath")).unwrap();
    }
}

#[test]
fn texts_are_read_in_parts_of_whole_lines() {
    let project = Project::new();
    let line = "a line of ordinary length\n";
    project.write("long", line.repeat(20_000));
    let file = project.files.open_file(&path("long")).unwrap();
    assert_eq!(file.size(), 520_000);
    let (mut text, mut next, mut parts) = (String::new(), Some(0), 0);
    while let Some(offset) = next {
        let part = file.text_part(offset, 100_000).unwrap();
        assert!(part.text.ends_with('\n') && part.omitted == 0);
        text += &part.text;
        next = part.next;
        parts += 1;
    }
    assert_eq!((text, parts), (line.repeat(20_000), 6));
    // One line of 3 MB, then an ordinary one.
    project.write("wide", format!("{}\nend", "ä".repeat(1_500_000)));
    let file = project.files.open_file(&path("wide")).unwrap();
    let part = file.text_part(0, 100_001).unwrap();
    assert_eq!((part.omitted, part.next), (2_900_000, Some(3_000_001)));
    assert_eq!(file.text_part(3_000_001, 100_000).unwrap().text, "end");
    project.write("empty", "");
    let part = project.files.open_file(&path("empty")).unwrap().text_part(0, 10).unwrap();
    assert_eq!((part.text.as_str(), part.next), ("", None));
}

#[test]
fn contents_are_recognised() {
    let project = Project::new();
    let mut cut = "ä".repeat(5000).into_bytes();
    cut.insert(0, b'x');
    for (content, kind) in [
        (&b"fn main() {}\n"[..], ContentKind::Text),
        (b"", ContentKind::Text),
        (b"caf\xe9 au lait, a text in Latin-1", ContentKind::Text),
        (b"\x1b[31mred\x1b[0m\n", ContentKind::Text),
        (&cut, ContentKind::Text),
        (b"\x89PNG\r\n\x1a\n....", ContentKind::Image("image/png")),
        (b"%PDF-1.7\n\x00", ContentKind::Pdf),
        (b"\x7fELF\x02\x01\x01\x00", ContentKind::Binary),
        (b"\xff\xfeh\x00i\x00", ContentKind::Binary),
        (b"\x90\x91\x92\x93\x94\x95", ContentKind::Binary),
        (b"<svg onload=alert(1)>", ContentKind::Text),
    ] {
        project.write("x", content);
        let file = project.files.open_file(&path("x")).unwrap();
        assert_eq!(file.kind().unwrap(), kind, "{content:?}");
    }
    for (text, ending) in [
        ("a\nb\n", LineEnding::Lf),
        ("", LineEnding::Lf),
        ("a\r\nb\r\n", LineEnding::Crlf),
        ("a\r\nb\n", LineEnding::Mixed),
        ("a\rb", LineEnding::Mixed),
    ] {
        assert_eq!(LineEnding::of(text), ending, "{text:?}");
    }
}
