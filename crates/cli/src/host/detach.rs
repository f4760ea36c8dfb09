//! Leaving what a background process must not have of the process that started it.

/// Leaves the session and the terminal, and closes all files but stdin, stdout and stderr.
///
/// The program that started the client may wait until a pipe is closed of which this process would
/// have a copy. Nothing is open yet but what was inherited.
pub(super) fn detach() {
    // It fails only for the leader of a process group, which is detached already.
    let _ = rustix::process::setsid();
    let _ = std::env::set_current_dir("/");
    close_inherited_files();
}

fn close_inherited_files() {
    let numbers: Vec<i32> = std::fs::read_dir("/dev/fd")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for number in numbers.into_iter().filter(|number| *number > 2) {
        // One of them was the directory, which is closed already.
        let _ = nix::unistd::close(number);
    }
}
