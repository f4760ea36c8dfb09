//! Doing without the network: the program runs itself once more where there is only loopback.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

/// Switches loopback on and becomes the command behind it.
const LOOPBACK: &str =
    "{ ip link set lo up || ifconfig lo up; } 2>/dev/null || exit 97; exec \"$@\"";

/// Runs this program again, isolated, in place of this process. Returns only where that cannot be
/// done, and says why not.
#[expect(clippy::disallowed_methods, reason = "this program starts itself")]
pub(super) fn enter() -> String {
    if !cfg!(target_os = "linux") {
        return "only Linux has network namespaces".to_owned();
    }
    let Ok(program) = std::env::current_exe() else {
        return "this program could not be found again".to_owned();
    };
    // The first is for root, the second for others where the system lets them.
    for way in ["-n", "-rn"] {
        let mut words: Vec<OsString> =
            [way, "--", "sh", "-c", LOOPBACK, "sh"].map(Into::into).into();
        let tried = Command::new("unshare")
            .args(&words)
            .arg("true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        match tried {
            Ok(status) if status.success() => {}
            Ok(_) => continue,
            Err(_) => return "there is no `unshare`".to_owned(),
        }
        words.push(program.into());
        // Right behind the name of the command: what follows a `--` would not be taken as a flag.
        let mut arguments = std::env::args_os().skip(1);
        words.extend(arguments.next());
        words.push("--isolated".into());
        words.extend(arguments);
        return Command::new("unshare").args(words).exec().to_string();
    }
    "the system allows no network namespace".to_owned()
}
