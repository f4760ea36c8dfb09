//! The directories that questions name. Only the worker knows which of its own exist, so it checks them,
//! whatever a gateway has checked.

use std::path::PathBuf;

use serde_json::Value;
use session::SessionCommand;
use wire::note::Setting;

use super::SharedWorker;
use crate::question::WorkerFailure;

/// The option with directories that the agent may use too.
const EXTRA_DIRECTORIES: &str = "extra_directories";

impl SharedWorker {
    /// Refuses directories that are not below a root of this worker.
    pub(super) async fn require_directories(
        &self,
        directories: Vec<PathBuf>,
    ) -> Result<(), WorkerFailure> {
        if directories.is_empty() {
            return Ok(());
        }
        let roots = self.config.roots.clone();
        let find = move || directories.into_iter().find(|it| roots.resolve(it).is_none());
        let missing = tokio::task::spawn_blocking(find).await;
        let missing = missing.map_err(|error| WorkerFailure::Failed(error.to_string()))?;
        let Some(missing) = missing else { return Ok(()) };
        let (worker, directory) = (self.id.name.clone(), missing.display().to_string());
        Err(WorkerFailure::NoDirectory { worker, directory })
    }
}

/// The directories that a command gives to an agent.
pub(super) fn extra_directories(command: &SessionCommand) -> Vec<PathBuf> {
    let SessionCommand::Set { setting: Setting::Options(options), .. } = command else {
        return Vec::new();
    };
    let paths = options.get(EXTRA_DIRECTORIES).and_then(Value::as_array).into_iter().flatten();
    // What is not text is refused with the option.
    paths.filter_map(Value::as_str).map(PathBuf::from).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use session::SessionCommand;
    use wire::note::{Actor, Setting};

    use super::extra_directories;

    #[test]
    fn directories_of_options_are_found() {
        let set = |options: serde_json::Value| SessionCommand::Set {
            setting: Setting::Options(serde_json::from_value(options).unwrap()),
            by: Actor { name: "ann".to_owned(), via: "api".to_owned() },
        };
        let found = extra_directories(&set(json!({ "extra_directories": ["/a", "/b"], "x": 1 })));
        assert_eq!(found, ["/a", "/b"].map(std::path::PathBuf::from));
        assert!(extra_directories(&set(json!({ "extra_directories": null }))).is_empty());
        assert!(extra_directories(&SessionCommand::Wake).is_empty());
    }
}
