//! A command that is run for each file.

use std::time::Duration;

use super::PushError;
use crate::delivery::PendingFile;
use crate::process::Program;
use crate::project::Project;

/// The command.
#[derive(Debug)]
pub struct CommandTarget {
    line: String,
    limit: Duration,
}

impl CommandTarget {
    /// A line for the shell. It finds the path below the project as `$1` and more in the variables
    /// `TOWPATH_FILE`, `TOWPATH_CHANGE`, `TOWPATH_TOOL` and `TOWPATH_SESSION`; none of them is part
    /// of the line, so no name of a file can be taken for a command.
    pub fn new(line: String, limit: Duration) -> Self {
        Self { line, limit }
    }

    pub(super) fn name(&self) -> &str {
        &self.line
    }

    pub(super) async fn run(
        &self,
        project: &Project,
        pending: &PendingFile,
        change: &str,
    ) -> Result<(), PushError> {
        let session = pending.session.as_ref().map(ToString::to_string).unwrap_or_default();
        Program::shell(&self.line, &[pending.file.relative.as_os_str()])
            .directory(project.root())
            .env("TOWPATH_FILE", project.absolute(&pending.file))
            .env("TOWPATH_CHANGE", change)
            .env("TOWPATH_TOOL", &pending.tool)
            .env("TOWPATH_SESSION", session)
            .succeed(self.limit)
            .await
            .map(drop)
            .map_err(|error| PushError::Temporary(error.to_string()))
    }
}
