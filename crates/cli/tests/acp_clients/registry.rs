//! The entry for the registry that editors install agents from.

use std::path::Path;

use serde_json::Value;

/// The platforms that the registry knows.
const PLATFORMS: [&str; 6] = [
    "darwin-aarch64",
    "darwin-x86_64",
    "linux-aarch64",
    "linux-x86_64",
    "windows-aarch64",
    "windows-x86_64",
];

#[test]
fn the_registry_entry_is_of_this_version_and_starts_the_agent() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/acp-registry/towpath");
    let read = |name: &str| std::fs::read_to_string(directory.join(name)).expect("a file");
    let entry: Value = serde_json::from_str(&read("agent.json")).expect("JSON");
    assert_eq!(entry["id"], "towpath");
    assert_eq!(entry["version"], env!("CARGO_PKG_VERSION"));
    let targets = entry["distribution"]["binary"].as_object().expect("programs");
    assert!(!targets.is_empty());
    for (platform, target) in targets {
        assert!(PLATFORMS.contains(&platform.as_str()), "{platform}");
        let archive = target["archive"].as_str().expect("an address");
        let version = format!("/v{}/", env!("CARGO_PKG_VERSION"));
        assert!(archive.contains(&version) && archive.ends_with(".tar.gz"), "{archive}");
        assert_eq!((&target["cmd"], &target["args"]), (&"./towpath".into(), &vec!["acp"].into()));
    }
    // The registry takes no colours and no other size.
    let icon = read("icon.svg");
    assert!(icon.contains("width=\"16\" height=\"16\""), "{icon}");
    for attribute in ["fill=\"", "stroke=\""] {
        for value in icon.split(attribute).skip(1) {
            assert!(value.starts_with("none") || value.starts_with("currentColor"), "{value}");
        }
    }
}
