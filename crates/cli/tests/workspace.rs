//! Rules for the whole workspace: which crate may depend on which, and that a type name has one
//! meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand};
use testbed::verify::report::anchor;

/// The crates that each crate of the workspace may depend on. Tests of every crate may also use
/// `testbed` and `test-support`.
const DEPENDENCIES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("testbed", &[]),
    ("test-support", &[]),
    ("journal", &["wire"]),
    ("view", &["wire"]),
    ("watch", &["wire"]),
    ("transcripts", &["wire"]),
    ("session", &["wire", "journal", "transcripts"]),
    ("project", &[]),
    ("push", &[]),
    ("terminal", &[]),
    ("search", &["wire", "journal", "session", "transcripts"]),
    (
        "gateway",
        &[
            "wire",
            "journal",
            "project",
            "push",
            "search",
            "session",
            "terminal",
            "transcripts",
            "view",
            "acp",
        ],
    ),
    ("telegram", &["wire", "journal", "search", "session", "view"]),
    ("acp", &["wire", "journal", "session", "transcripts", "view"]),
    ("fleet", &["wire", "journal", "session"]),
    (
        "cli",
        &[
            "wire",
            "testbed",
            "journal",
            "view",
            "watch",
            "project",
            "search",
            "session",
            "transcripts",
            "gateway",
            "telegram",
            "acp",
            "fleet",
        ],
    ),
    // It measures the product; no crate depends on it.
    ("bench", &["wire", "journal", "search", "session", "transcripts", "view", "fleet"]),
    ("xtask", &[]),
];

/// Type names that are declared more than once because they mean the same everywhere.
const SHARED: &[(&str, &str)] = &[
    ("Error", "the error of a crate at its public boundary"),
    ("StoreTarget", "an object store, with and without the feature that supports them"),
];

#[test]
fn no_crate_depends_on_one_that_it_may_not_know() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let directories: Vec<(String, String)> = metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let directory = package.manifest_path.parent().and_then(|path| path.file_name());
            (package.name.to_string(), directory.expect("a directory").to_owned())
        })
        .collect();
    let directory_of = |name: &str| {
        directories.iter().find(|(package, _)| package == name).map(|(_, directory)| directory)
    };

    for package in metadata.workspace_packages() {
        let name = directory_of(&package.name).expect("a package of the workspace");
        let (_, allowed) = DEPENDENCIES
            .iter()
            .find(|(known, _)| known == name)
            .unwrap_or_else(|| panic!("`{name}` has no rule: a new crate needs a decision"));
        let mut allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        for dependency in &package.dependencies {
            let Some(other) = directory_of(&dependency.name) else { continue };
            if dependency.kind == DependencyKind::Development {
                // `view` shows whether two journals hold the same conversation.
                allowed.extend(["testbed", "test-support", "view"]);
            }
            assert!(allowed.contains(other.as_str()), "`{name}` may not depend on `{other}`");
        }
    }
}

#[test]
fn no_type_name_has_two_meanings() {
    let root = root();
    let types = declared_types(&root);
    let mut problems = Vec::new();
    for (name, files) in &types {
        if files.len() > 1 && !SHARED.iter().any(|(shared, _)| shared == name) {
            problems.push(format!("`{name}` is declared in {}", files.join(", ")));
        }
    }
    for (name, _) in SHARED {
        if types.get(*name).is_none_or(|files| files.len() < 2) {
            problems.push(format!("`{name}` is in SHARED, but is not declared more than once"));
        }
    }
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).expect("ARCHITECTURE.md");
    match glossary_types(&architecture) {
        Some(named) => {
            let missing = named.iter().filter(|name| !types.contains_key(**name));
            problems.extend(
                missing.map(|name| format!("the glossary names `{name}`, which does not exist")),
            );
        }
        None => problems.push("ARCHITECTURE.md has no section `## Glossary`".to_owned()),
    }
    assert!(problems.is_empty(), "\n{}\n", problems.join("\n"));
}

#[test]
fn every_message_of_the_protocol_page_is_explained_and_every_link_leads_somewhere() {
    let page = fs::read_to_string(root().join("docs/protocol.md")).expect("the page");
    let mut anchors = BTreeSet::new();
    let mut is_code = false;
    for line in page.lines() {
        is_code ^= line.starts_with("```");
        if !is_code && line.starts_with('#') {
            let anchor = anchor(line.trim_start_matches('#').trim_start());
            assert!(anchors.insert(anchor), "two headings have the anchor of `{line}`");
        }
        let is_row = ["| → |", "| ← |", "| · |"].iter().any(|start| line.starts_with(start));
        let message = line.split(" | ").nth(1).unwrap_or_default();
        assert!(!is_row || message.contains("](#"), "a row without a link: {line}");
    }
    let links = page.split("](#").skip(1).filter_map(|rest| rest.split(')').next());
    let dead: BTreeSet<_> = links.filter(|link| !anchors.contains(*link)).collect();
    assert!(dead.is_empty(), "dead links: {dead:#?}");
    assert!(!page.contains("## Not explained"), "a message has no explanation");
    for explanation in wire::explanation::explanations() {
        let command = "towpath verify --claude npm:2.1.325 --markdown > docs/protocol.md";
        assert!(page.contains(explanation.name), "{}; run `{command}`", explanation.name);
        assert!(page.contains(&explanation.text), "{}; run `{command}`", explanation.name);
    }
}

/// What a test leaves behind is found by a variable, so no test may start a program without it.
#[test]
fn no_test_clears_an_environment_without_passing_the_mark_of_the_run_on() {
    let crates = fs::read_dir(root().join("crates")).expect("crates").flatten();
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.path().join("tests")).collect();
    folders.push(root().join("crates/test-support/src"));
    let (mut files, mut problems) = (0, Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(&folder).into_iter().flatten().flatten().map(|it| it.path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files += 1;
                let source = fs::read_to_string(&path).expect("a source file");
                let passes_it_on = path.ends_with("test-support/src/test_run.rs");
                if source.contains(concat!(".env_", "clear()")) && !passes_it_on {
                    problems.push(path.display().to_string());
                }
            }
        }
    }
    assert!(files > 100, "only {files} files found");
    assert!(problems.is_empty(), "use `test_run::clear_environment` in {problems:#?}");
}

#[test]
fn declarations_are_found_outside_tests_only() {
    let source = "pub struct Line<'a> {\npub(crate) enum Kind {\n    struct Inner;\ntype Pair = ();\n\
                  structure();\nfn f() {}\npub(in crate::x) trait Walk {\nunion Bits {\n\
                  #[cfg(test)]\nuse std::fmt;\nstruct Last;\n#[cfg(test)]\nmod tests {\nstruct Test;\n";
    assert_eq!(declarations(source), ["Line", "Kind", "Pair", "Walk", "Bits", "Last"]);
    let page = "## Glossary\n\n| Term | Meaning |\n|---|---|\n| segment (`Segment`) | `other` |\n\
                | `crate::Versioned<T>`, `state` | x |\n\n## Next\n| `Outside` | |\n";
    assert_eq!(glossary_types(page), Some(vec!["Segment", "Versioned"]));
    assert_eq!(glossary_types("# Architecture\n"), None);
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace")
}

/// The names of all types outside tests, with the files that declare them.
fn declared_types(root: &Path) -> BTreeMap<String, Vec<String>> {
    let crates = fs::read_dir(root.join("crates")).expect("crates").flatten();
    let mut folders: Vec<PathBuf> = crates.map(|entry| entry.path().join("src")).collect();
    folders.push(root.join("xtask/src"));
    let mut types: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.file_stem().is_some_and(|stem| stem == "tests") {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 100, "only {} files found", files.len());
    files.sort();
    for path in files {
        let source = fs::read_to_string(&path).expect("a source file");
        let file = path.strip_prefix(root).expect("below the root").display().to_string();
        for name in declarations(&source) {
            types.entry(name.to_owned()).or_default().push(file.clone());
        }
    }
    types
}

/// The types that a file declares at its top level, up to its tests.
fn declarations(source: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let is_test_module = |next: &&str| next.starts_with("mod ") && next.ends_with('{');
        if line == "#[cfg(test)]" && lines.peek().is_some_and(is_test_module) {
            break;
        }
        let item = match line.strip_prefix("pub(") {
            Some(rest) => rest.split_once(") ").map_or(line, |(_, item)| item),
            None => line.strip_prefix("pub ").unwrap_or(line),
        };
        let keywords = ["struct ", "enum ", "trait ", "union ", "type "];
        let Some(rest) = keywords.iter().find_map(|keyword| item.strip_prefix(keyword)) else {
            continue;
        };
        let end = rest.find(|it: char| !it.is_alphanumeric() && it != '_').unwrap_or(rest.len());
        names.push(&rest[..end]);
    }
    names
}

/// The types in backticks in the first column of the glossary; none if there is no glossary.
fn glossary_types(page: &str) -> Option<Vec<&str>> {
    let mut lines = page.lines().skip_while(|line| *line != "## Glossary");
    lines.next()?;
    let rows = lines.take_while(|line| !line.starts_with("## ")).filter(|it| it.starts_with('|'));
    let mut types = Vec::new();
    for row in rows {
        let column = row.split('|').nth(1).unwrap_or_default();
        for quoted in column.split('`').skip(1).step_by(2) {
            let path = quoted.split('<').next().unwrap_or_default();
            let name = path.rsplit("::").next().unwrap_or_default();
            if name.starts_with(|it: char| it.is_ascii_uppercase()) {
                types.push(name);
            }
        }
    }
    Some(types)
}
