//! Running agents without a network: the program restarts itself in a network namespace.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// A shell script that enables the loopback interface and then runs its arguments.
const ENABLE_LOOPBACK: &str =
    "{ ip link set lo up || ifconfig lo up; } 2>/dev/null || exit 97; exec \"$@\"";

/// Replaces this process by the same program in a network namespace with loopback only. Returns the
/// reason if that is not possible.
#[expect(clippy::disallowed_methods, reason = "the program restarts itself")]
pub(super) fn restart_without_network() -> String {
    if !cfg!(target_os = "linux") {
        return "only Linux has network namespaces".to_owned();
    }
    let Ok(program) = std::env::current_exe() else {
        return "the path of this program is unknown".to_owned();
    };
    // The first works for root, the second for other users if the system allows it.
    for flags in ["-n", "-rn"] {
        let mut words: Vec<OsString> =
            [flags, "--", "sh", "-c", ENABLE_LOOPBACK, "sh"].map(Into::into).into();
        let status = Command::new("unshare")
            .args(&words)
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(_) => continue,
            Err(_) => return "`unshare` is not installed".to_owned(),
        }
        words.push(program.into());
        // The flag follows the name of the command, because after a `--` it would not be a flag.
        let mut arguments = std::env::args_os().skip(1);
        words.extend(arguments.next());
        words.push("--isolated".into());
        words.extend(arguments);
        return Command::new("unshare").args(words).exec().to_string();
    }
    "the system does not allow network namespaces".to_owned()
}
