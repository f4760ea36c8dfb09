//! A small disk in memory, which a test can fill.

#![expect(clippy::disallowed_methods, reason = "the test mounts a small disk")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk that is mounted until this is dropped.
#[derive(Debug)]
pub struct SmallDisk {
    place: PathBuf,
}

impl SmallDisk {
    /// Mounts a disk of a size such as `1m` over a directory. The error is the reason why that is not possible.
    pub fn mount(place: &Path, size: &str) -> Result<Self, String> {
        let size = format!("size={size},mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(place);
        let mounted = mount.status().is_ok_and(|status| status.success());
        let mounted = mounted.then(|| Self { place: place.to_owned() });
        mounted.ok_or_else(|| "no small disk can be mounted here".to_owned())
    }

    /// Makes it larger.
    ///
    /// # Panics
    ///
    /// If that is not possible.
    pub fn grow(&self, size: &str) {
        let size = format!("remount,size={size}");
        let status = Command::new("mount").args(["-o", &size]).arg(&self.place).status();
        assert!(status.is_ok_and(|status| status.success()), "a larger disk");
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.place).status();
    }
}
