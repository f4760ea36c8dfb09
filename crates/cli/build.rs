//! Links `towpath` at a fixed address where that is safe to do, and tells it which release of Claude
//! Code it has been proven with.
//!
//! A program that can be loaded at any address has all its tables of pointers changed when it starts.
//! That takes longer than everything else that `towpath --version` does, and it makes about a
//! megabyte of the program private to each shim. The stack, the heap and the libraries are still at
//! random addresses.

use std::env;
use std::fs;
use std::path::Path;

/// The results of the scenarios with releases of Claude Code, from the directory of this package.
const RESULTS: &str = "../../scenarios/results/claude";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={RESULTS}");
    println!("cargo::rustc-env=TOWPATH_PROVEN={}", newest_proven(Path::new(RESULTS)));
    #[expect(clippy::disallowed_methods, reason = "cargo describes the target in variables")]
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}

/// The newest release with which all scenarios were run, or nothing.
fn newest_proven(results: &Path) -> String {
    let files = fs::read_dir(results).into_iter().flatten().flatten();
    let versions = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        let version = name.strip_suffix(".jsonl")?;
        let text = fs::read_to_string(file.path()).ok()?;
        let is_whole = text.lines().next()?.contains("\"whole\":true");
        let numbers: Vec<u32> = version.split('.').map_while(|it| it.parse().ok()).collect();
        is_whole.then(|| (numbers, version.to_owned()))
    });
    versions.max().map(|(_, version)| version).unwrap_or_default()
}
