//! `towpath verify` on the command line, with a small shell script as the agent.

#[expect(dead_code, reason = "other tests use the rest of it")]
mod program;

use std::fs;
use std::path::{Path, PathBuf};

use program::{Output, Program};

/// A directory with a scenario suite and an agent.
struct Project {
    directory: tempfile::TempDir,
}

const HELLO: &str = "# The agent answers\n\n< system/init\n> user \"hi\"\n< result\neof\nexit 0\n";
const WRONG: &str =
    "# The agent prints another line\n\n< system/init\n> user \"hi\"\n< result\n< bye\n";
const LATER: &str = "# Later versions only\n\nversions >=3.0.0\n\n< bye\n";

impl Project {
    fn new(scenarios: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let project = Self { directory };
        let agent = "#!/bin/sh\ncase \"$*\" in --version) echo '2.1.37 (Shell)'; exit;; esac\n\
            echo '{\"type\":\"system\",\"subtype\":\"init\"}'\n\
            while read -r line; do echo '{\"type\":\"result\",\"subtype\":\"success\"}'; done\n";
        fs::write(project.path("agent"), agent).expect("an agent");
        make_executable(&project.path("agent"));
        fs::create_dir(project.path("scenarios")).expect("a directory");
        for (name, text) in scenarios {
            fs::write(project.path(&format!("scenarios/{name}.scenario")), text)
                .expect("a scenario");
        }
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Runs `towpath verify` with the agent in the directory. Paths and times are normalized.
    fn verify(&self, arguments: &[&str]) -> Output {
        let common = ["verify", "--claude", "./agent", "--timeout", "1", "--jobs", "1"];
        self.run(&[&common, arguments].concat())
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.normalize(&Program::new(arguments).current_dir(self.directory.path()).run())
    }

    fn normalize(&self, output: &Output) -> Output {
        let here = self.directory.path().display().to_string();
        let normalized = |text: &str| {
            let text =
                text.replace(&*capture_directory(text), "(captures)").replace(&here, "(here)");
            zero_times(&text)
        };
        Output {
            code: output.code,
            stdout: normalized(&output.stdout),
            stderr: normalized(&output.stderr),
        }
    }
}

/// The temporary directory of the captures in the output.
fn capture_directory(text: &str) -> String {
    const NAME: &str = "/towpath-verify-";
    const RANDOM_LENGTH: usize = 6;
    let Some(index) = text.find(NAME) else { return "(none)".to_owned() };
    let is_before = |it: char| it.is_whitespace() || it == '"';
    let start = text[..index].rfind(is_before).map_or(0, |before| before + 1);
    text[start..index + NAME.len() + RANDOM_LENGTH].to_owned()
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("permissions");
}

/// Sets all durations such as `1.4 s` to zero.
fn zero_times(text: &str) -> String {
    let words = text.split_inclusive(char::is_whitespace).map(|word| {
        let number = word.trim_end();
        if number.contains('.') && number.parse::<f64>().is_ok() {
            word.replace(number, "0.0")
        } else {
            word.to_owned()
        }
    });
    // Without network namespaces there is an additional note.
    let text: String = words.collect();
    text.split_inclusive('\n').filter(|line| !line.starts_with("note:")).collect()
}

#[test]
fn results_are_printed_as_a_table() {
    let project = Project::new(&[("hello", HELLO), ("later", LATER)]);
    insta::assert_snapshot!(project.verify(&[]));
}

#[test]
fn a_difference_is_printed_with_its_capture() {
    let project = Project::new(&[("hello", HELLO), ("wrong", WRONG)]);
    insta::assert_snapshot!(project.verify(&[]));
}

#[test]
fn scenarios_are_chosen_by_name_pattern_or_path() {
    let project = Project::new(&[("hello", HELLO), ("hello-again", HELLO), ("wrong", WRONG)]);
    assert_eq!(project.verify(&["hello*"]).code, 0);
    assert_eq!(project.verify(&["hello", "scenarios/wrong.scenario"]).code, 1);
    insta::assert_snapshot!(project.verify(&["--list"]));
    insta::assert_snapshot!(project.verify(&["missing"]));
}

#[test]
fn an_invalid_scenario_does_not_stop_the_others() {
    let bad = "# Bad\n\n> user hello\n";
    let project = Project::new(&[("bad", bad), ("hello", HELLO)]);
    insta::assert_snapshot!(project.verify(&[]));
}

#[test]
fn reports_are_printed_or_written_to_files() {
    let project = Project::new(&[("hello", HELLO), ("wrong", WRONG)]);
    let output = project.verify(&["--json", "--junit", "report.xml", "--record", "captures"]);
    assert_eq!(output.code, 1);
    let json: serde_json::Value = serde_json::from_str(&output.stdout).expect("JSON");
    assert_eq!(json["summary"]["passed"], 1);
    assert_eq!(json["results"][1]["difference"]["line"], 6);
    let report = fs::read_to_string(project.path("report.xml")).expect("a report");
    assert!(report.contains("failures=\"1\""), "{report}");
    for file in ["stdin.jsonl", "stdout.jsonl", "stderr.txt", "requests.jsonl", "run.json"] {
        assert!(project.path("captures/2.1.37/hello").join(file).exists(), "{file}");
    }
    let page = project.verify(&["--markdown"]);
    assert!(page.stdout.contains("### The agent answers\n"), "{}", page.stdout);
    assert!(page.stderr.contains("scenarios/wrong.scenario:6"), "{}", page.stderr);
}

#[test]
fn an_unavailable_agent_or_suite_is_explained() {
    let acp = "# Of another protocol\n\nacp\nsession\n\n> user \"hi\"\nsays \"hi\"\n";
    let project = Project::new(&[("hello", HELLO), ("acp", acp)]);
    let with = |agent: &str| project.run(&["verify", "--claude", agent]);
    fs::write(project.path("no-version"), "#!/bin/sh\necho hello\n").expect("an agent");
    make_executable(&project.path("no-version"));
    insta::assert_snapshot!("invalid_version", with("npm:newest"));
    insta::assert_snapshot!("no_program", with("./missing"));
    for agent in ["codex", "codex@new", "cursor@1.0.0"] {
        let output = project.run(&["verify", "--agent", agent]);
        assert_eq!(output.code, 2, "{agent}");
        insta::assert_snapshot!(format!("agent_{}", agent.replace('@', "_")), output);
    }
    insta::assert_snapshot!(
        "other_protocol",
        project.run(&["verify", "--claude", "./agent", "acp"])
    );
    insta::assert_snapshot!("no_version", with("./no-version"));
    fs::remove_dir_all(project.path("scenarios")).expect("removed");
    insta::assert_snapshot!("no_suite", with("./agent"));
}

/// A fake npm that packs an agent with the requested version. For 9.9.9 it packs 9.9.8.
const NPM: &str = "#!/bin/sh\n\
    version=${5##*@}; [ \"$version\" = 9.9.9 ] && version=9.9.8\n\
    case $5 in *claude-code-*-*) [ \"$version\" = 9.9.7 ] && exit 1;; esac\n\
    case $version in 9.9.6) echo 'npm error 404 no such version' >&2; exit 1;; esac\n\
    cd \"$4\" && mkdir package && cp ../../../../agent package/claude\n\
    sed -i.bak \"s/2.1.37/$version/\" package/claude && chmod +x package/claude\n\
    tar czf claude.tgz package && rm -r package\n";

#[test]
fn releases_are_fetched_once_and_checked() {
    let project = Project::new(&[("hello", HELLO)]);
    fs::create_dir(project.path("bin")).expect("a directory");
    fs::write(project.path("bin/npm"), NPM).expect("npm");
    make_executable(&project.path("bin/npm"));
    let with = |version: &str| {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            project.path("bin").display()
        );
        let cache = project.path("cache");
        let program = Program::new(&["verify", "--claude", &format!("npm:{version}")])
            .current_dir(project.directory.path())
            .env("PATH", &path)
            .env("XDG_CACHE_HOME", &cache.display().to_string());
        project.normalize(&program.run())
    };
    insta::assert_snapshot!("fetched", with("9.9.7"));
    insta::assert_snapshot!("cached", with("9.9.7"));
    insta::assert_snapshot!("wrong_version", with("9.9.9"));
    insta::assert_snapshot!("no_such_version", with("9.9.6"));
    let cached = fs::read_dir(project.path("cache/towpath/claude")).expect("a cache").flatten();
    let mut cached: Vec<String> =
        cached.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    cached.sort();
    assert_eq!(cached, ["9.9.7", "9.9.9"]);
}

/// A fake npm that installs a Node.js, and a codex that is the player.
const NPM_INSTALL: &str = "#!/bin/sh\n\
    for package; do :; done; directory=$6/node_modules\n\
    case $package in\n\
    node-*) name=${package%@*}; mkdir -p \"$directory/$name/bin\"; cp /bin/true \"$directory/$name/bin/node\";;\n\
    *codex-acp@2.6.0) mkdir -p \"$directory/.bin\"; printf '#!/bin/sh\\nexec %s play --acp' \"$TOWPATH\" > \"$directory/.bin/codex-acp\"; chmod +x \"$directory/.bin/codex-acp\";;\n\
    *) echo 'npm error 404 no such version' >&2; exit 1;;\n\
    esac\n";

#[test]
fn other_agents_are_fetched_once() {
    let acp = "# It speaks\n\nacp\nsession\n\n> user \"hi there\"\n[codex >=2.6.0] says \"You said: hi\"\n[!codex] says \"no\"\n";
    let project = Project::new(&[("hello", HELLO), ("acp", acp)]);
    fs::create_dir(project.path("bin")).expect("a directory");
    fs::write(project.path("bin/npm"), NPM_INSTALL).expect("npm");
    make_executable(&project.path("bin/npm"));
    let with = |agent: &str| {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            project.path("bin").display()
        );
        let program = Program::new(&["verify", "--agent", agent])
            .current_dir(project.directory.path())
            .env("PATH", &path)
            .env("TOWPATH", env!("CARGO_BIN_EXE_towpath"))
            .env("XDG_CACHE_HOME", &project.path("cache").display().to_string());
        project.normalize(&program.run())
    };
    insta::assert_snapshot!("other_fetched", with("codex@2.6.0"));
    insta::assert_snapshot!("other_cached", with("codex@2.6.0"));
    insta::assert_snapshot!("other_unknown_version", with("codex@9.9.9"));
    let cached = fs::read_dir(project.path("cache/towpath/agents")).expect("a cache").flatten();
    assert_eq!(cached.count(), 2);
}

#[test]
fn an_unavailable_agent_does_not_stop_the_others() {
    let project = Project::new(&[("hello", HELLO)]);
    insta::assert_snapshot!(project.verify(&["--claude", "./missing"]));
}

#[test]
fn missing_network_isolation_is_reported() {
    let project = Project::new(&[("hello", HELLO)]);
    let program = Program::new(&["verify", "--claude", "./agent"]);
    let output = program.current_dir(project.directory.path()).env("PATH", "/nowhere").run();
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stderr.contains("note: the agents have network access: "), "{output}");
}

/// A fake npm that lists versions 9.9.0 to 9.9.9 and packs agents. From 9.9.6 on they end a turn with
/// another subtype; 9.9.4 cannot be fetched. Every package is noted in `fetched`.
const NPM_HISTORY: &str = "#!/bin/sh\n\
    case $1 in view)\n\
    [ -e offline ] && { echo 'npm error network' >&2; exit 1; }\n\
    [ -e first ] && { echo '[\"0.2.9\",\"1.0.23\",\"9.9.3\",\"9.9.7\"]'; exit; }\n\
    echo '[\"9.9.10\",\"9.9.0\",\"9.9.1\",\"9.9.2\",\"9.9.3\",\"9.9.4\",\"9.9.5\",\"9.9.6\",\"9.9.7\",\"9.9.8\",\"9.9.9\",\"9.9.11-beta\"]'; exit;;\n\
    esac\n\
    version=${5##*@}; echo $version >> fetched\n\
    case $version in 9.9.4) echo 'npm error 404 no such version' >&2; exit 1;; esac\n\
    case $version in 9.9.[0-5]) name=success;; *) name=finished;; esac\n\
    case $version in 0.*|1.*) name=other;; esac\n\
    agent=$PWD/agent; cd \"$4\" && mkdir package\n\
    sed \"s/2.1.37/$version/; s/success/$name/\" \"$agent\" > package/claude && chmod +x package/claude\n\
    tar czf claude.tgz package && rm -r package\n";

/// A project with that npm.
struct History {
    project: Project,
}

impl History {
    fn new(scenarios: &[(&str, &str)]) -> Self {
        let project = Project::new(scenarios);
        fs::create_dir(project.path("bin")).expect("a directory");
        fs::write(project.path("bin/npm"), NPM_HISTORY).expect("npm");
        make_executable(&project.path("bin/npm"));
        Self { project }
    }

    fn verify(&self, arguments: &[&str]) -> Output {
        let path = format!(
            "{}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            self.project.path("bin").display()
        );
        let program =
            Program::new(&[&["verify", "--timeout", "1", "--jobs", "1"], arguments].concat())
                .current_dir(self.project.directory.path())
                .env("PATH", &path)
                .env("XDG_CACHE_HOME", &self.project.path("cache").display().to_string());
        self.project.normalize(&program.run())
    }

    /// The versions that npm was asked for since the last time.
    fn fetched(&self) -> Vec<String> {
        let text = fs::read_to_string(self.project.path("fetched")).unwrap_or_default();
        let _ = fs::remove_file(self.project.path("fetched"));
        let mut versions: Vec<String> = text.lines().map(str::to_owned).collect();
        versions.dedup();
        versions
    }
}

/// Passes up to 9.9.5.
const ENDS: &str = "# A turn ends\n\n< system/init\n> user \"hi\"\n< result/success\neof\nexit 0\n";

#[test]
fn results_of_releases_are_kept_until_something_changes() {
    let history = History::new(&[("ends", ENDS), ("hello", HELLO)]);
    let both = ["--claude", "npm:9.9.5,9.9.6"];
    let first = history.verify(&both);
    insta::assert_snapshot!("kept_first", first);
    assert_eq!(history.fetched(), ["9.9.5", "9.9.6"]);

    // Nothing is run, and the programs are not even needed.
    fs::remove_dir_all(history.project.path("cache/towpath/claude")).expect("removed");
    insta::assert_snapshot!("kept_second", history.verify(&both));
    assert!(history.fetched().is_empty());

    // A changed scenario is run again, and only that one.
    let changed = HELLO.replace("hi", "hello");
    fs::write(history.project.path("scenarios/hello.scenario"), changed).expect("a scenario");
    let third = history.verify(&both);
    assert!(third.stdout.contains("(2 known from earlier runs)"), "{third}");
    assert!(third.stderr.contains("hello (9.9.5)"), "{third}");
    assert!(!third.stderr.contains("ends ("), "{third}");
    let all = history.verify(&[&both[..], &["--again"]].concat());
    assert!(!all.stdout.contains("known from earlier runs"), "{all}");
    assert!(all.stderr.contains("ends (9.9.5)"), "{all}");
}

#[test]
fn published_versions_are_compared_side_by_side() {
    let history = History::new(&[("ends", ENDS)]);
    insta::assert_snapshot!("since", history.verify(&["--since", "9.9.5"]));
    // Without npm the list of the last time is used.
    fs::write(history.project.path("offline"), "").expect("a file");
    let offline = history.verify(&["--since", "9.9.9", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&offline.stdout).expect("JSON");
    assert_eq!(json["agents"][0]["agent"], "9.9.9", "{offline}");
    assert_eq!(json["agents"][1]["agent"], "9.9.10", "{offline}");
    assert_eq!(json["results"][0]["kept"], true, "{offline}");
    fs::remove_dir_all(history.project.path("cache")).expect("removed");
    insta::assert_snapshot!("no_list", history.verify(&["--all"]));
}

#[test]
fn the_release_in_which_a_conversation_changed_is_found() {
    let history = History::new(&[("ends", ENDS), ("hello", HELLO)]);
    insta::assert_snapshot!("bisect", history.verify(&["--bisect", "ends"]));
    let fetched = history.fetched();
    assert!(fetched.contains(&"9.9.6".to_owned()) && fetched.len() <= 6, "{fetched:?}");
    // Everything is known now, and the ends may be given in either order.
    let given = history.verify(&["--bisect", "ends", "--good", "9.9.3", "--bad", "9.9.8"]);
    assert!(given.stdout.starts_with("ends changed in 9.9.6: "), "{given}");
    let near = history.verify(&["--bisect", "ends", "--good", "9.9.2", "--bad", "9.9.6"]);
    assert!(near.stdout.starts_with("ends changed in 9.9.6: "), "{near}");
    assert!(near.stderr.contains("9.9.4 is left out"), "{near}");

    insta::assert_snapshot!("bisect_nothing", history.verify(&["--bisect", "hello"]));
    insta::assert_snapshot!(
        "bisect_bad_passes",
        history.verify(&["--bisect", "ends", "--bad", "9.9.3"])
    );
    insta::assert_snapshot!("bisect_several", history.verify(&["--bisect", "*e*"]));
}

#[test]
fn releases_without_stream_json_are_no_end_of_a_search() {
    let history = History::new(&[("ends", ENDS)]);
    // These differ as the newest one does, so that there would be no change between both ends.
    fs::write(history.project.path("first"), "").expect("a file");
    let output = history.verify(&["--bisect", "ends"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(output.stdout.starts_with("ends changed in 9.9.7: it passes with 9.9.3"), "{output}");
    assert_eq!(history.fetched(), ["9.9.7", "9.9.3"]);
    let old = history.verify(&["--bisect", "ends", "--bad", "0.2.9"]);
    assert_eq!(old.code, 2, "{old}");
    assert!(old.stderr.contains("0.2.9 is not among the published versions"), "{old}");
}

#[test]
fn the_bound_that_was_found_is_written_into_the_scenario() {
    let history = History::new(&[("ends", ENDS)]);
    let output = history.verify(&["--bisect", "ends", "--write-bounds"]);
    assert_eq!(output.code, 0, "{output}");
    let file = history.project.path("scenarios/ends.scenario");
    let text = fs::read_to_string(&file).expect("a scenario");
    assert_eq!(text, ENDS.replace("< result/success", "[<9.9.6] < result/success"));
    assert_eq!(history.verify(&["--claude", "npm:9.9.5,9.9.6"]).code, 0);

    // A later step differs too, so that the whole scenario is bounded.
    let twice = ENDS.replace("eof\n", "> user \"again\"\n< result/success\neof\n");
    fs::write(&file, &twice).expect("a scenario");
    let output = history.verify(&["--bisect", "ends", "--write-bounds"]);
    assert_eq!(output.code, 0, "{output}");
    let text = fs::read_to_string(&file).expect("a scenario");
    assert_eq!(text, twice.replace("\n\n", "\n\nversions <9.9.6\n"));
}

#[test]
fn scenarios_that_differ_with_a_release_get_a_condition_at_one_that_passes() {
    // A turn ends in another way before 9.9.6, and the program greets only since.
    let step =
        "# A turn finishes\n\n< system/init\n> user \"hi\"\n< result/finished\neof\nexit 0\n";
    let whole = step.replace("eof\n", "> user \"again\"\n< result/finished\neof\n");
    let history = History::new(&[("step", step), ("whole", &whole), ("hello", HELLO)]);
    let results = ["--results", "scenarios/results"];
    let bound = ["--bound-differences", "--claude", "npm:9.9.3"];
    let unknown = history.verify(&[&bound[..], &results[..]].concat());
    assert!(unknown.stderr.contains("step is left out: it is not known to pass"), "{unknown}");
    let newer = [&["--claude", "npm:9.9.8"], &results[..]].concat();
    assert_eq!(history.verify(&newer).code, 0);

    let output = history.verify(&[&bound[..], &results[..]].concat());
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(output.stdout, "step: [>=9.9.8] at line 5\nwhole: versions >=9.9.8\n", "{output}");
    let text = |name: &str| {
        let file = history.project.path(&format!("scenarios/{name}.scenario"));
        fs::read_to_string(file).expect("a scenario")
    };
    assert_eq!(text("step"), step.replace("< result", "[>=9.9.8] < result"));
    assert_eq!(text("whole"), whole.replace("\n\n", "\n\nversions >=9.9.8\n"));
    assert_eq!(text("hello"), HELLO);
    assert_eq!(history.verify(&["--claude", "npm:9.9.3,9.9.8"]).code, 0);
    let refined = history.verify(&[&["--refine-bounds"], &results[..]].concat());
    assert!(refined.stdout.contains("whole: 9.9.8 became 9.9.6"), "{refined}");
}

impl History {
    /// Fetches a release and replaces its program.
    fn replace_release(&self, version: &str, turn: &str) {
        self.verify(&["--claude", &format!("npm:{version}")]);
        let program = self.project.path(&format!("cache/towpath/claude/{version}/package/claude"));
        assert!(program.exists(), "{}", program.display());
        let agent = format!(
            "#!/bin/sh\ncase \"$*\" in --version) echo '{version} (Shell)'; exit;; esac\n\
             echo '{{\"type\":\"system\",\"subtype\":\"init\"}}'\n\
             while read -r line; do {turn}; done\n"
        );
        fs::write(&program, agent).expect("a program");
        make_executable(&program);
    }
}

#[test]
fn a_release_between_others_that_pass_is_left_out_with_a_condition() {
    let history = History::new(&[("hello", HELLO)]);
    let results = ["--results", "scenarios/results"];
    let around = [&["--claude", "npm:9.9.3,9.9.8"], &results[..]].concat();
    assert_eq!(history.verify(&around).code, 0);
    history.replace_release("9.9.5", "echo '{\"type\":\"other\"}'");
    let bound = [&["--bound-differences", "--claude", "npm:9.9.5"], &results[..]].concat();
    let output = history.verify(&bound);
    assert_eq!(output.code, 0, "{output}");
    assert_eq!(output.stdout, "hello: [<9.9.5 >=9.9.8] at line 5\n", "{output}");
    let file = history.project.path("scenarios/hello.scenario");
    let text = || fs::read_to_string(&file).expect("a scenario");
    assert_eq!(text(), HELLO.replace("< result", "[<9.9.5 >=9.9.8] < result"));
    assert!(history.verify(&around).stdout.contains("(2 known from earlier runs)"));

    // Both ends are searched for.
    let refined = history.verify(&[&["--refine-bounds"], &results[..]].concat());
    let mut moved: Vec<&str> = refined.stdout.lines().collect();
    moved.sort_unstable();
    assert_eq!(moved, ["hello: 9.9.5 is right", "hello: 9.9.8 became 9.9.6"], "{refined}");
    assert_eq!(text(), HELLO.replace("< result", "[<9.9.5 >=9.9.6] < result"));
    assert_eq!(history.verify(&["--claude", "npm:9.9.3,9.9.5,9.9.6,9.9.8"]).code, 0);
}

#[test]
fn a_difference_that_is_not_seen_again_gets_no_condition() {
    let history = History::new(&[("hello", HELLO)]);
    let results = ["--results", "scenarios/results"];
    let older = [&["--claude", "npm:9.9.3"], &results[..]].concat();
    assert_eq!(history.verify(&older).code, 0);
    // It differs in the first run only.
    let turn = "if [ -e \"$0.ran\" ]; then echo '{\"type\":\"result\"}'; \
                else touch \"$0.ran\"; echo '{\"type\":\"other\"}'; fi";
    history.replace_release("9.9.5", turn);
    let bound = [&["--bound-differences", "--claude", "npm:9.9.5"], &results[..]].concat();
    let output = history.verify(&bound);
    assert_eq!((output.code, output.stdout.as_str()), (0, ""), "{output}");
    assert!(output.stderr.contains("hello is left out: its outcome is not certain"), "{output}");
    let ran = history.project.path("cache/towpath/claude/9.9.5/package/claude.ran");
    assert!(ran.exists(), "the program was not run");
    let file = history.project.path("scenarios/hello.scenario");
    assert_eq!(fs::read_to_string(file).expect("a scenario"), HELLO);
}

#[test]
fn conditions_are_moved_to_the_exact_release_of_their_change() {
    // The end of a turn changed in 9.9.6, but was seen with 9.9.8 first.
    let ends = ENDS
        .replace("< result/success\n", "[<9.9.8] < result/success\n[>=9.9.8] < result/finished\n");
    let only_new = "# A turn finishes\n\nversions >=9.9.9\n\
                    < system/init\n> user \"hi\"\n< result/finished\neof\nexit 0\n";
    let history = History::new(&[("ends", &ends), ("hello", HELLO), ("only-new", only_new)]);
    let results = ["--results", "scenarios/results"];
    let sampled = [&["--claude", "npm:9.9.2,9.9.9"], &results[..]].concat();
    assert_eq!(history.verify(&sampled).code, 0);
    history.fetched();

    let refined = history.verify(&[&["--refine-bounds"], &results[..]].concat());
    assert_eq!(refined.code, 0, "{refined}");
    let mut moved: Vec<&str> = refined.stdout.lines().collect();
    moved.sort_unstable();
    assert_eq!(moved, ["ends: 9.9.8 became 9.9.6", "only-new: 9.9.9 became 9.9.6"], "{refined}");
    let text = |name: &str| {
        let file = history.project.path(&format!("scenarios/{name}.scenario"));
        fs::read_to_string(file).expect("a scenario")
    };
    assert_eq!(text("ends"), ends.replace("9.9.8", "9.9.6"));
    assert_eq!(text("only-new"), only_new.replace("9.9.9", "9.9.6"));
    assert_eq!(text("hello"), HELLO);
    // Both searches used the same programs.
    let mut fetched = history.fetched();
    fetched.sort();
    fetched.dedup();
    assert!(fetched.len() <= 7, "{fetched:?}");

    let page = history.verify(&["--history"]);
    assert!(page.stdout.contains("[ends](../scenarios/ends.scenario) (exactly here)"), "{page}");
    let again = history.verify(&[&["--refine-bounds", "ends"], &results[..]].concat());
    assert_eq!(again.stdout, "every condition is at the exact release of its change\n", "{again}");
    assert_eq!(history.verify(&["--refine-bounds"]).code, 2, "the results are needed");
}

#[test]
fn a_check_that_was_only_added_is_searched_with_the_check() {
    // It passes with every release as it is, although turns end in this way only since 9.9.6.
    let adds = ENDS.replace("< result/success\n", "[>=9.9.9] < result/finished\n");
    let history = History::new(&[("adds", &adds)]);
    let results = ["--results", "scenarios/results"];
    let sampled = [&["--claude", "npm:9.9.2,9.9.8,9.9.9"], &results[..]].concat();
    assert_eq!(history.verify(&sampled).code, 0);
    let page = || history.verify(&["--history"]).stdout;
    assert!(page().contains("[adds](../scenarios/adds.scenario) (at the latest here)"));

    let refined = history.verify(&[&["--refine-bounds"], &results[..]].concat());
    assert_eq!(refined.stdout, "adds: 9.9.9 became 9.9.6\n", "{refined}");
    let file = history.project.path("scenarios/results/claude/9.9.5.jsonl");
    let before = fs::read_to_string(file).expect("results");
    assert!(before.contains("\"outcome\":\"passed\""), "{before}");
    assert!(before.contains("\"not_yet\":[\"9.9.6\"]"), "{before}");
    assert!(page().contains("[adds](../scenarios/adds.scenario) (exactly here)"), "{}", page());
    let again = history.verify(&[&["--refine-bounds"], &results[..]].concat());
    assert_eq!(again.stdout, "every condition is at the exact release of its change\n", "{again}");
}

#[test]
fn a_scenario_that_does_not_pass_is_run_once_if_that_is_wanted() {
    let history = History::new(&[("ends", ENDS)]);
    let verify = |arguments: &[&str]| {
        let output = history.verify(&[&["--claude", "npm:9.9.6", "--json"], arguments].concat());
        assert_eq!(output.code, 1, "{output}");
        assert!(output.stdout.contains("\"outcome\":\"differs\""), "{output}");
        output
    };
    let once = verify(&["--once"]);
    assert!(once.stdout.contains("\"runs\":1,"), "{once}");
    // What was seen once is not kept as certain.
    let certain = verify(&[]);
    assert!(certain.stdout.contains("\"runs\":2,"), "{certain}");
}

/// A project with one scenario that always does the same, and one whose turns end in another way every
/// second time.
fn alternating() -> Project {
    let sometimes = "# It comes and goes\n\n< system/init\n> user \"sometimes\"\n< result/success\neof\nexit 0\n";
    let project = Project::new(&[("hello", HELLO), ("sometimes", sometimes)]);
    let agent = "#!/bin/sh\ncase \"$*\" in --version) echo '2.1.37 (Shell)'; exit;; esac\n\
        echo '{\"type\":\"system\",\"subtype\":\"init\"}'\n\
        while read -r line; do name=success\n\
        case $line in *sometimes*) echo >> \"$0.turns\"\n\
        case $(wc -l < \"$0.turns\") in *[02468]) name=other;; esac;; esac\n\
        echo '{\"type\":\"result\",\"subtype\":\"'$name'\"}'; done\n";
    fs::write(project.path("agent"), agent).expect("an agent");
    project
}

#[test]
fn outcomes_of_several_runs_are_compared() {
    let project = alternating();
    insta::assert_snapshot!("times_equal", project.verify(&["--times", "2", "hello"]));
    insta::assert_snapshot!("times_varied", project.verify(&["--times", "3", "--once"]));
    // Each run confirms what it has seen: the third turn passes, then the fourth to the eighth
    // are one run that is flaky.
    let confirmed = project.verify(&["--times", "2", "--json"]);
    assert_eq!(confirmed.code, 3, "{confirmed}");
    let json: serde_json::Value = serde_json::from_str(&confirmed.stdout).expect("JSON");
    assert_eq!(json["times"], serde_json::json!({ "runs": 2, "varying": 1 }), "{confirmed}");
    let outcomes = |index: usize| json["results"][index]["outcomes"].clone();
    assert_eq!(outcomes(0), serde_json::json!({ "passed": 2 }), "{confirmed}");
    assert_eq!(outcomes(1), serde_json::json!({ "flaky": 1, "passed": 1 }), "{confirmed}");
    let once: serde_json::Value =
        serde_json::from_str(&project.verify(&["--json", "hello"]).stdout).expect("JSON");
    assert!(once["times"].is_null() && once["results"][0]["outcomes"].is_null(), "{once}");
    for refused in [["--times", "0"], ["--times=2", "--list"], ["--times=2", "--markdown"]] {
        assert_eq!(project.verify(&refused).code, 2, "{refused:?}");
    }
}

#[test]
fn several_runs_of_a_release_use_no_kept_results() {
    let history = History::new(&[("hello", HELLO)]);
    assert_eq!(history.verify(&["--claude", "npm:9.9.5"]).code, 0);
    let output = history.verify(&["--claude", "npm:9.9.5", "--times", "2"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(!output.stdout.contains("known from earlier runs"), "{output}");
    assert_eq!(output.stderr.matches("hello (9.9.5)").count(), 2, "{output}");
    assert!(output.stdout.ends_with("2 runs, all verdicts equal\n"), "{output}");
}

#[test]
fn results_of_releases_are_files_of_the_project() {
    let history = History::new(&[("ends", ENDS), ("hello", HELLO)]);
    let results = ["--results", "scenarios/results"];
    let file = |version: &str| {
        let path = history.project.path(&format!("scenarios/results/claude/{version}.jsonl"));
        fs::read_to_string(path).expect("results")
    };
    let both = [&["--claude", "npm:9.9.5,9.9.6"], &results[..]].concat();
    assert_eq!(history.verify(&both).code, 1);
    let (old, new) = (file("9.9.5"), file("9.9.6"));
    assert!(old.starts_with("{\"agent\":\"claude\",\"version\":\"9.9.5\",\"whole\":true}\n"));
    assert!(old.contains("{\"name\":\"ends\",\"outcome\":\"passed\",\"scenario\":\""), "{old}");
    assert!(new.contains("{\"name\":\"ends\",\"outcome\":\"differs\",\"scenario\":\""), "{new}");
    assert!(new.contains("\"step\":\"< result/success\""), "{new}");

    // With the files, neither the cache nor the programs are needed, and nothing is written anew.
    fs::remove_dir_all(history.project.path("cache")).expect("removed");
    history.fetched();
    let again = history.verify(&both);
    assert!(again.stdout.contains("(4 known from earlier runs)"), "{again}");
    assert!(history.fetched().is_empty(), "{again}");
    assert_eq!((file("9.9.5"), file("9.9.6")), (old.clone(), new));

    // A condition makes a new scenario only of those releases that it is about.
    let bounded = ENDS.replace("< result/success", "[<9.9.6] < result/success");
    fs::write(history.project.path("scenarios/ends.scenario"), bounded).expect("a scenario");
    let bounded = history.verify(&both);
    assert_eq!(bounded.code, 0, "{bounded}");
    assert!(bounded.stdout.contains("(3 known from earlier runs)"), "{bounded}");
    assert_eq!(file("9.9.5"), old);

    // Some scenarios are not the suite; the list of releases is written beside the results.
    let since = [&["--since", "9.9.10", "hello"], &results[..]].concat();
    assert_eq!(history.verify(&since).code, 0);
    assert!(file("9.9.10").contains("\"whole\":false}"), "{}", file("9.9.10"));
    let published = history.project.path("scenarios/results/claude/published.txt");
    let published = fs::read_to_string(published).expect("a list");
    assert!(published.ends_with("9.9.8\n9.9.9\n9.9.10\n"), "{published}");

    let page = history.verify(&["--history"]);
    assert_eq!(page.code, 0, "{page}");
    for expected in [
        "All 2 scenarios were run with 2 releases of the 11 published ones.",
        "| 9.9.6 | 2 | 0 | 0 | 0 | 0 |\n| 9.9.5 | 2 | 0 | 0 | 0 | 0 |\n",
        "[ends](../scenarios/ends.scenario) (exactly here): A turn ends\n\n\
         ```diff\n- < result/success\n```\n",
    ] {
        assert!(page.stdout.contains(expected), "{page}");
    }
}

#[test]
fn kinds_of_a_whole_run_are_kept_with_its_results() {
    let history = History::new(&[("ends", ENDS), ("hello", HELLO)]);
    let results = ["--results", "scenarios/results"];
    let file = history.project.path("scenarios/results/claude/kinds/9.9.5.jsonl");
    let kinds = || fs::read_to_string(&file).expect("kinds");
    let verify = |arguments: &[&str]| {
        let arguments = [&["--claude", "npm:9.9.5"], &results[..], arguments].concat();
        assert_eq!(history.verify(&arguments).code, 0);
    };
    verify(&["hello"]);
    assert!(!file.exists(), "some scenarios are not the suite");
    // What was run before is in the cache.
    verify(&[]);
    let known = "{\"agent\":\"claude\",\"version\":\"9.9.5\"}\n\
                 {\"kind\":\"result/success\",\"fields\":{\"ends\":[\"subtype\",\"type\"]}}\n\
                 {\"kind\":\"system/init\",\"fields\":{\"ends\":[\"subtype\",\"type\"]}}\n";
    assert_eq!(kinds(), known);
    // A scenario that is changed later adds to what is known, also without the cache.
    fs::remove_dir_all(history.project.path("cache")).expect("removed");
    let changed = HELLO.replace("hi", "hello");
    fs::write(history.project.path("scenarios/hello.scenario"), changed).expect("a scenario");
    verify(&["hello"]);
    assert_eq!(kinds(), known);
    // Without the file and the cache, the results say which scenarios are not at hand.
    fs::remove_file(&file).expect("removed");
    fs::remove_dir_all(history.project.path("cache")).expect("removed");
    let changed = HELLO.replace("hi", "once more");
    fs::write(history.project.path("scenarios/hello.scenario"), changed).expect("a scenario");
    verify(&[]);
    let without = known.replace("9.5\"}", "9.5\",\"without\":[\"ends\"]}");
    assert_eq!(kinds(), without.replace("{\"ends\"", "{\"hello\""));
}

#[test]
fn the_lines_of_a_release_are_recorded() {
    let history = History::new(&[("hello", HELLO), ("ends", ENDS)]);
    let file = history.project.path("lines.jsonl");
    let record = |arguments: &[&str]| {
        history.verify(&[&["--record-lines", "lines.jsonl"], arguments].concat())
    };
    assert_eq!(record(&["--claude", "npm:9.9.5"]).code, 0);
    let text = fs::read_to_string(&file).expect("lines");
    assert!(text.starts_with("{\"version\":\"9.9.5\"}\n{\"name\":\"ends\","), "{text}");
    assert!(text.ends_with("\"orders\":[\"system/init result/success\"]}\n"), "{text}");
    // What is known from earlier runs was not recorded.
    assert_eq!(record(&["--claude", "npm:9.9.5"]).code, 0);
    assert_eq!(fs::read_to_string(&file).expect("lines"), text);
    let other = record(&["--claude", "./agent"]);
    assert!(other.stderr.contains("`--record-lines` needs one release"), "{other}");
}

#[test]
fn the_lines_of_the_built_in_agent_are_compared_with_those_of_a_release() {
    let text = "# It answers\n\napi text \"Hi.\"\n\n> user \"hi\"\n< result\neof\nexit 0\n";
    let project = Project::new(&[("hi", text)]);
    let verify = |order: &str| {
        let lines = format!(
            "{{\"version\":\"2.1.325\"}}\n{{\"name\":\"hi\",\"scenario\":\"-\",\"orders\":[\"{order}\"]}}\n"
        );
        fs::write(project.path("lines.jsonl"), lines).expect("lines");
        project.run(&["verify", "--claude", "play", "--timeout", "30", "--lines", "lines.jsonl"])
    };
    assert_eq!(verify("system/init assistant result/success").code, 0);
    let other = verify("system/init system/status assistant result/success");
    assert_eq!(other.code, 1, "{other}");
    assert!(other.stdout.contains("the order of the lines is another one"), "{other}");
    assert!(other.stdout.contains("system/init system/status assistant"), "{other}");
    fs::write(project.path("lines.jsonl"), "no lines\n").expect("lines");
    let broken = project.run(&["verify", "--claude", "play", "--lines", "lines.jsonl"]);
    assert_eq!(broken.code, 2, "{broken}");
}

#[test]
fn kinds_and_fields_of_captures_are_compared() {
    let project = Project::new(&[]);
    for (version, line) in
        [("2.1.9", "{\"type\":\"a\",\"x\":1}\n"), ("2.1.10", "{\"type\":\"a\"}\n")]
    {
        let directory = project.path(&format!("captures/{version}/stdout"));
        fs::create_dir_all(&directory).expect("a directory");
        fs::write(directory.join("a.jsonl"), line).expect("a capture");
    }
    let output = project.run(&["inspect", "--history", "captures"]);
    assert_eq!(output.code, 0, "{output}");
    assert!(
        output.stdout.contains("### Between 2.1.9 and 2.1.10\n\n- `a`: went `x`\n"),
        "{output}"
    );
    assert_eq!(project.run(&["inspect", "--history", "missing"]).code, 2);
}

/// The scenarios of the project whose steps depend on the version.
fn version_dependent_scenarios() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = fs::read_dir(directory).expect("scenarios").flatten().map(|file| file.path());
    let is_dependent = |path: &PathBuf| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().any(|line| line.starts_with("[<") || line.starts_with("[>="))
    };
    let files = files.filter(|path| path.is_file() && is_dependent(path));
    let mut files: Vec<String> = files.map(|path| path.display().to_string()).collect();
    files.sort();
    files
}

#[test]
fn the_built_in_agent_is_as_older_releases_are() {
    let scenarios = version_dependent_scenarios();
    assert!(scenarios.len() > 50, "{scenarios:?}");
    let versions = "play@1.0.128,2.0.60,2.1.37";
    let mut arguments = vec!["verify", "--json", "--timeout", "60", "--claude", versions];
    arguments.extend(scenarios.iter().map(String::as_str));
    let output = Program::new(&arguments).run();
    let report: serde_json::Value = serde_json::from_str(&output.stdout).expect(&output.stderr);
    let results = report["results"].as_array().expect("results");
    let is_good =
        |it: &&serde_json::Value| it["outcome"] == "passed" || it["outcome"] == "not_applicable";
    let wrong: Vec<_> = results.iter().filter(|it| !is_good(it)).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    for version in ["play@1.0.128", "play@2.0.60", "play@2.1.37"] {
        let of_version = results.iter().filter(|it| it["agent"] == version);
        let passed = of_version.filter(|it| it["outcome"] == "passed").count();
        assert!(passed > 50, "only {passed} scenarios are for {version}");
    }
}

#[test]
fn only_releases_that_are_played_can_be_chosen() {
    let project = Project::new(&[("hello", HELLO)]);
    insta::assert_snapshot!("not_played", project.run(&["verify", "--claude", "play@2.1.36"]));
}

#[test]
fn captures_of_a_new_release_become_part_of_the_history_with_one_command() {
    let project = Project::new(&[]);
    let write = |path: &str, text: &str| {
        let path = project.path(path);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, text).expect("a file");
    };
    let init = r#"{"type":"system","subtype":"init","cwd":"/p","session_id":"s","tools":[]}"#;
    write("captures/2.1.325/stdout/a.jsonl", &format!("{init}\n"));
    write("new/9.9.9/text/stdout.jsonl", &format!("{init}\n{{\"type\":\"wibble\",\"deep\":1}}\n"));
    write("new/9.9.9/tool/stdout.jsonl", &format!("{init}\n"));
    let added = project.run(&["inspect", "--history", "captures", "--add", "new"]);
    assert_eq!(
        (added.code, added.stdout.as_str()),
        (0, "captures/9.9.9/stdout/text.jsonl: wibble\n")
    );
    assert!(!project.path("captures/9.9.9/stdout/tool.jsonl").exists());
    let page = project.run(&["inspect", "--history", "captures"]);
    assert!(
        page.stdout.contains("### Between 2.1.325 and 9.9.9\n\n- Kinds that came: `wibble`"),
        "{page}"
    );
    let again = project.run(&["inspect", "--history", "captures", "--add", "new"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""));
    let two = project.run(&["inspect", "--history", "captures", "new", "--add", "new"]);
    assert_eq!(two.code, 2);
}
