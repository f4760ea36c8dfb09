//! Signals that this process ignores because its parent did: `nohup` and the `&` of scripts start programs
//! that way. Everything that a test starts inherits it, so tests that send these signals fail.

use std::fs;

/// The bits of the signals that users send.
const SIGNALS: [(&str, u64); 3] = [("SIGHUP", 1), ("SIGINT", 1 << 1), ("SIGQUIT", 1 << 2)];

/// The names of the signals that are ignored. Empty if this system has no `/proc`.
pub(crate) fn ignored() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_in(&status)
}

fn ignored_in(status: &str) -> Vec<&'static str> {
    let field = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = field.and_then(|it| u64::from_str_radix(it.trim(), 16).ok()).unwrap_or(0);
    SIGNALS.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::ignored_in;

    #[test]
    fn ignored_signals_are_found_in_the_status_of_a_process() {
        let status = "Name:\txtask\nSigBlk:\t0000000000000007\nSigIgn:\t0000000080001005\n";
        assert_eq!(ignored_in(status), ["SIGHUP", "SIGQUIT"]);
        assert!(ignored_in("SigIgn:\t0000000000001000\n").is_empty());
        assert!(ignored_in("").is_empty());
    }
}
