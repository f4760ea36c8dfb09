//! `towpath inspect --history`: the kinds and fields in the captures of several releases.

use std::io::{self, Write as _};
use std::path::PathBuf;

use testbed::history::CaptureKinds;

use crate::exit::{CommandStatus, report_error};

/// Prints what came and went between the releases in these directories.
pub(super) fn run(directories: &[PathBuf]) -> CommandStatus {
    let mut kinds = CaptureKinds::default();
    for directory in directories {
        if let Err(error) = kinds.add_directory(directory) {
            report_error(&error, Some("give directories of captures, as `captures/` of Towpath"));
            return CommandStatus::Error;
        }
    }
    let mut page = String::new();
    kinds.write_markdown(&mut page);
    match write!(io::stdout().lock(), "{page}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            report_error(&error, None);
            CommandStatus::Error
        }
        _ => CommandStatus::Success,
    }
}
