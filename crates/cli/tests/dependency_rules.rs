//! The crates depend on each other as `ARCHITECTURE.md` says, and not otherwise.

use std::collections::BTreeSet;

use cargo_metadata::{DependencyKind, MetadataCommand};

/// What each crate of the workspace may depend on. Tests of any may add `testbed` and `test-support`.
const RULES: &[(&str, &[&str])] = &[
    ("wire", &[]),
    ("testbed", &[]),
    ("test-support", &[]),
    ("journal", &["wire"]),
    ("view", &["wire"]),
    ("watch", &["wire"]),
    ("session", &["wire", "journal"]),
    ("gateway", &["wire", "journal", "session", "view"]),
    ("telegram", &["wire", "journal", "session", "view"]),
    ("cli", &["wire", "testbed", "journal", "view", "watch", "session", "gateway", "telegram"]),
    // Measures the product; nothing depends on it.
    ("xtask", &["wire", "journal", "session", "view"]),
];

#[test]
fn no_crate_depends_on_what_it_may_not_know() {
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
        let (_, allowed) = RULES
            .iter()
            .find(|(rule, _)| rule == name)
            .unwrap_or_else(|| panic!("`{name}` is in no rule: a new crate needs a decision"));
        let mut allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        for dependency in &package.dependencies {
            let Some(other) = directory_of(&dependency.name) else { continue };
            if dependency.kind == DependencyKind::Development {
                allowed.extend(["testbed", "test-support"]);
            }
            assert!(allowed.contains(other.as_str()), "`{name}` may not depend on `{other}`");
        }
    }
}
