//! Links `towpath` at a fixed address where that is safe to do.
//!
//! A program that can be loaded at any address has all its tables of pointers changed when it starts.
//! That takes longer than everything else that `towpath --version` does, and it makes about a
//! megabyte of the program private to each shim. The stack, the heap and the libraries are still at
//! random addresses.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[expect(clippy::disallowed_methods, reason = "cargo describes the target in variables")]
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" && target("ARCH") == "x86_64" {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
