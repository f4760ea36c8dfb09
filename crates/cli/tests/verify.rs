//! `towpath verify` as a person runs it, with an agent made of a few lines of shell.

#[expect(dead_code, reason = "other commands need more of it")]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use program::{Output, Program};

/// A book in a directory of its own, and an agent beside it.
struct Book {
    directory: tempfile::TempDir,
}

const HELLO: &str = "# It says hello\n\n< system/init\n> user \"hi\"\n< result\neof\nexit 0\n";
const WRONG: &str = "# It says something else\n\n< system/init\n> user \"hi\"\n< result\n< bye\n";
const LATER: &str = "# Only later versions do this\n\nversions >=3.0.0\n\n< bye\n";

impl Book {
    fn with(scenarios: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let book = Self { directory };
        let agent = "#!/bin/sh\ncase \"$*\" in --version) echo '2.1.37 (Shell)'; exit;; esac\n\
            echo '{\"type\":\"system\",\"subtype\":\"init\"}'\n\
            while read -r line; do echo '{\"type\":\"result\",\"subtype\":\"success\"}'; done\n";
        fs::write(book.path("agent"), agent).expect("an agent");
        make_executable(&book.path("agent"));
        fs::create_dir(book.path("scenarios")).expect("a book");
        for (name, text) in scenarios {
            fs::write(book.path(&format!("scenarios/{name}.scenario")), text).expect("a scenario");
        }
        book
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs with the agent, from the directory of the book; paths and times are made the same.
    fn verify(&self, arguments: &[&str]) -> Output {
        let common = ["verify", "--claude", "./agent", "--timeout", "1", "--jobs", "1"];
        self.run(&[&common, arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.made_same(&Program::new(arguments).current_dir(self.directory.path()).run())
    }

    fn made_same(&self, output: &Output) -> Output {
        let here = self.directory.path().display().to_string();
        let same = |text: &str| {
            let text = text.replace(&*evidence(text), "(evidence)").replace(&here, "(here)");
            times_made_zero(&text)
        };
        Output { code: output.code, stdout: same(&output.stdout), stderr: same(&output.stderr) }
    }
}

/// The directory that captures were kept in, as the output names it.
fn evidence(text: &str) -> String {
    const NAME: &str = "/towpath-verify-";
    const RANDOM: usize = 6;
    let Some(place) = text.find(NAME) else { return "(none)".to_owned() };
    let start = text[..place].rfind(char::is_whitespace).map_or(0, |space| space + 1);
    text[start..place + NAME.len() + RANDOM].to_owned()
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// `1.4 s` is another time on every machine.
fn times_made_zero(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let number = word.trim_end();
        if number.contains('.') && number.parse::<f64>().is_ok() {
            word.replace(number, "0.0")
        } else {
            word.to_owned()
        }
    });
    // Where there is no namespace to be had, a note says so.
    let text: String = words.collect();
    text.split_inclusive('\n').filter(|line| !line.starts_with("note:")).collect()
}

#[test]
fn what_holds_is_told_in_a_table() {
    let book = Book::with(&[("hello", HELLO), ("later", LATER)]);
    insta::assert_snapshot!(book.verify(&[]));
}

#[test]
fn what_differs_is_shown_with_its_capture() {
    let book = Book::with(&[("hello", HELLO), ("wrong", WRONG)]);
    insta::assert_snapshot!(book.verify(&[]));
}

#[test]
fn scenarios_are_chosen_by_name_pattern_or_path() {
    let book = Book::with(&[("hello", HELLO), ("hello-again", HELLO), ("wrong", WRONG)]);
    assert_eq!(book.verify(&["hello*"]).code, 0);
    assert_eq!(book.verify(&["hello", "scenarios/wrong.scenario"]).code, 1);
    insta::assert_snapshot!(book.verify(&["--list"]));
    insta::assert_snapshot!(book.verify(&["nobody"]));
}

#[test]
fn a_scenario_that_cannot_be_read_does_not_stop_the_others() {
    let bad = "# Bad\n\n> user hello\n";
    let book = Book::with(&[("bad", bad), ("hello", HELLO)]);
    insta::assert_snapshot!(book.verify(&[]));
}

#[test]
fn reports_for_programs_are_on_stdout_or_in_files() {
    let book = Book::with(&[("hello", HELLO), ("wrong", WRONG)]);
    let output = book.verify(&["--json", "--junit", "report.xml", "--record", "kept"]);
    assert_eq!(output.code, 1);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(json["summary"]["holds"], 1);
    assert_eq!(json["results"][1]["difference"]["line"], 6);
    let report = fs::read_to_string(book.path("report.xml")).expect("a report");
    assert!(report.contains("failures=\"1\""), "{report}");
    for file in ["stdin.jsonl", "stdout.jsonl", "stderr.txt", "requests.jsonl", "run.json"] {
        assert!(book.path("kept/2.1.37/hello").join(file).exists(), "{file}");
    }
    let page = book.verify(&["--markdown"]);
    assert!(page.stdout.contains("### It says hello\n"), "{}", page.stdout);
    assert!(page.stderr.contains("scenarios/wrong.scenario:6"), "{}", page.stderr);
}

#[test]
fn what_cannot_be_tried_says_what_to_do() {
    let book = Book::with(&[("hello", HELLO)]);
    let with = |agent: &str| book.run(&["verify", "--claude", agent]);
    fs::write(book.path("mute"), "#!/bin/sh\necho hello\n").expect("an agent");
    make_executable(&book.path("mute"));
    insta::assert_snapshot!("no_release", with("npm:newest"));
    insta::assert_snapshot!("no_program", with("./nobody"));
    insta::assert_snapshot!("no_version", with("./mute"));
    fs::remove_dir_all(book.path("scenarios")).expect("no book");
    insta::assert_snapshot!("no_book", with("./agent"));
}

/// A stand-in for npm: packs an agent that says it is what was asked for, or 9.9.8.
const NPM: &str = "#!/bin/sh\n\
    version=${5##*@}; [ \"$version\" = 9.9.9 ] && version=9.9.8\n\
    case $5 in *claude-code-*-*) [ \"$version\" = 9.9.7 ] && exit 1;; esac\n\
    case $version in 9.9.6) echo 'npm error 404 no such version' >&2; exit 1;; esac\n\
    cd \"$4\" && mkdir package && cp ../../../../agent package/claude\n\
    sed -i.bak \"s/2.1.37/$version/\" package/claude && chmod +x package/claude\n\
    tar czf claude.tgz package && rm -r package\n";

#[test]
fn releases_are_fetched_once_and_checked() {
    let book = Book::with(&[("hello", HELLO)]);
    fs::create_dir(book.path("bin")).expect("a directory");
    fs::write(book.path("bin/npm"), NPM).expect("npm");
    make_executable(&book.path("bin/npm"));
    let with = |version: &str| {
        let path =
            format!("{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", book.path("bin").display());
        let cache = book.path("cache");
        let program = Program::new(&["verify", "--claude", &format!("npm:{version}")])
            .current_dir(book.directory.path())
            .env("PATH", &path)
            .env("XDG_CACHE_HOME", &cache.display().to_string());
        book.made_same(&program.run())
    };
    insta::assert_snapshot!("fetched", with("9.9.7"));
    insta::assert_snapshot!("fetched_before", with("9.9.7"));
    insta::assert_snapshot!("another_version", with("9.9.9"));
    insta::assert_snapshot!("no_such_version", with("9.9.6"));
    let kept = fs::read_dir(book.path("cache/towpath/claude")).expect("a cache").flatten();
    let mut kept: Vec<String> =
        kept.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    kept.sort();
    assert_eq!(kept, ["9.9.7", "9.9.9"]);
}

#[test]
fn an_agent_that_cannot_be_had_does_not_stop_the_others() {
    let book = Book::with(&[("hello", HELLO)]);
    insta::assert_snapshot!(book.verify(&["--claude", "./nobody"]));
}

#[test]
fn where_there_is_no_namespace_it_says_so() {
    let book = Book::with(&[("hello", HELLO)]);
    let program = Program::new(&["verify", "--claude", "./agent"]);
    let output = program.current_dir(book.directory.path()).env("PATH", "/nowhere").run();
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stderr.contains("note: agents can reach the network here: "), "{output}");
}
