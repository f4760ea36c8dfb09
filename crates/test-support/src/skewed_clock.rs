//! A clock that is wrong, for programs that use the C library's.
//!
//! Programs in Go, such as the NATS server, read the clock themselves and are not affected.

#![expect(clippy::disallowed_methods, reason = "the library is found by its program")]

use std::process::Command;

/// The library that changes what programs read as the time of day.
#[derive(Clone, Debug)]
pub struct SkewedClock {
    library: String,
}

impl SkewedClock {
    /// Finds the library. The error is the reason why there is none.
    pub fn find() -> Result<Self, String> {
        let print = ["-f", "+0", "sh", "-c", "printf %s \"$LD_PRELOAD\""];
        let output = Command::new("faketime").args(print).output();
        let output = output.map_err(|_| "`faketime` is not installed".to_owned())?;
        let library = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() && library.contains("faketime") {
            Ok(Self { library })
        } else {
            Err(format!("`faketime` failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }

    /// Makes a program and all that it starts see a time that is off, for example by `+1h`. Clocks that only go
    /// forward stay right, as on a machine whose time of day is wrong.
    pub fn set(&self, command: &mut Command, offset: &str) {
        command.env("LD_PRELOAD", &self.library).env("FAKETIME", offset);
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
    }
}
