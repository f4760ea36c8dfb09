//! Measures how fast Towpath is, against what people use today.
//!
//! CPU time, not wall time: of the contestants in turn, the minimum of several rounds. Requests per
//! second alone are by the clock, and as good as the machine is idle. A miss is marked and changes
//! no exit code, for a benchmark informs.
//!
//! The default build only starts the one with the feature `bench`, optimised.

#[cfg(feature = "bench")]
mod aimock;
#[cfg(feature = "bench")]
mod allocations;
#[cfg(feature = "bench")]
mod cache;
#[cfg(feature = "bench")]
mod client;
#[cfg(feature = "bench")]
mod contestant;
#[cfg(feature = "bench")]
mod cpu;
#[cfg(feature = "bench")]
mod fold;
#[cfg(feature = "bench")]
mod followers;
#[cfg(feature = "bench")]
mod framing;
#[cfg(feature = "bench")]
mod journal;
#[cfg(feature = "bench")]
mod load;
#[cfg(feature = "bench")]
mod program;
#[cfg(feature = "bench")]
mod reading;
#[cfg(feature = "bench")]
mod reply;
#[cfg(feature = "bench")]
mod server;
#[cfg(feature = "bench")]
mod sessions;
mod settings;
#[cfg(feature = "bench")]
mod stub;
#[cfg(any(feature = "bench", test))]
mod table;
#[cfg(feature = "bench")]
mod watch;

use settings::Settings;

use crate::failure::Failure;

/// Builds what is measured, and starts the optimised build of this program to measure it.
#[cfg(not(feature = "bench"))]
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    use crate::cargo;

    Settings::from_options(options)?;
    let us = ["--release", "--package", "xtask", "--features", "bench"];
    let measure = [&["run"], &us[..], &["--bin", "xtask", "--", "bench"], options].concat();
    for arguments in [
        &["build", "--release", "--package", "towpath"],
        &[&["build"], &us[..]].concat()[..],
        &measure,
    ] {
        eprintln!("xtask: bench: cargo {}", arguments.join(" "));
        let status = cargo::run(arguments, &[])?;
        if !status.success() {
            return Err(Failure::could_not("measure", &format!("cargo: {status}")));
        }
    }
    Ok(())
}

/// Measures, and prints the table.
#[cfg(feature = "bench")]
pub(crate) fn run(options: &[&str]) -> Result<(), Failure> {
    use cache::Cache;
    use settings::Job;
    use table::Table;

    let settings = Settings::from_options(options)?;
    let cache = Cache::beside_us(settings.megabytes)?;
    let mut table = Table::default();
    for job in settings.jobs() {
        eprintln!("xtask: bench: {}", job.name());
        let rows = match job {
            Job::Kind => reading::kinds(&cache, settings.rounds)?,
            Job::Read => reading::typed(&cache, settings.rounds)?,
            Job::Allocations => allocations::per_text_delta(&cache)?,
            Job::Fold => fold::sessions(&cache, settings.rounds)?,
            Job::Inspect => program::inspect(&cache, settings.rounds)?,
            Job::Startup => program::startup(&cache)?,
            Job::Stub => stub::requests(&cache, settings.rounds)?,
            Job::Journal => journal::rows(&cache, settings.rounds)?,
            Job::Sessions => sessions::rows(&cache)?,
            Job::Watch => watch::watch(&cache, settings.rounds)?,
            Job::Followers => followers::rows(&cache)?,
        };
        table.extend(rows);
    }
    print!("{table}");
    Ok(())
}
