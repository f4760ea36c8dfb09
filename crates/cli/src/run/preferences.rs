//! What a user of `towpath run` has chosen, for this run and the next.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use wire::note::Delivery;

/// The name of the file in the data directory.
const FILE: &str = "run.json";

/// What was chosen, and the file that has it.
#[derive(Debug)]
pub(super) struct RunPreferences {
    path: PathBuf,
    stored: StoredPreferences,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(default)]
struct StoredPreferences {
    /// What Enter does while a turn runs.
    delivery: Delivery,
}

impl Default for StoredPreferences {
    fn default() -> Self {
        // As on the page.
        Self { delivery: Delivery::Steer }
    }
}

impl RunPreferences {
    /// Reads the file. One that is missing or cannot be read is like an empty one: nothing in it is worth
    /// an error.
    pub(super) fn load(data_directory: &Path) -> Self {
        let path = data_directory.join(FILE);
        let text = std::fs::read(&path).unwrap_or_default();
        Self { path, stored: serde_json::from_slice(&text).unwrap_or_default() }
    }

    pub(super) fn delivery(&self) -> Delivery {
        self.stored.delivery
    }

    /// Chooses the other delivery, also for later runs if it can be stored.
    pub(super) fn switch_delivery(&mut self) {
        self.stored.delivery = match self.stored.delivery {
            Delivery::Steer => Delivery::Queue,
            Delivery::Queue => Delivery::Steer,
        };
        if let Ok(text) = serde_json::to_vec(&self.stored) {
            // The choice holds for this run in any case.
            let _ = std::fs::write(&self.path, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::note::Delivery;

    use super::RunPreferences;

    #[test]
    fn the_choice_is_remembered_and_a_damaged_file_is_like_none() {
        let directory = tempfile::tempdir().unwrap();
        let mut first = RunPreferences::load(directory.path());
        assert_eq!(first.delivery(), Delivery::Steer);
        first.switch_delivery();
        assert_eq!(RunPreferences::load(directory.path()).delivery(), Delivery::Queue);
        for damaged in ["", "{", "[]", "{\"delivery\":7}", &"x".repeat(1_000_000)] {
            std::fs::write(directory.path().join("run.json"), damaged).unwrap();
            assert_eq!(RunPreferences::load(directory.path()).delivery(), Delivery::Steer);
        }
    }
}
