//! A disk in a file, whose power a test can cut.
//!
//! `EXT4_IOC_SHUTDOWN` without a flush of the log is what a power cut is for a file system: what was synced is there
//! afterwards, and nothing else is sure to be.

#![expect(
    clippy::disallowed_methods,
    reason = "disks are made and mounted by programs of the system"
)]

use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::packages;

/// The size of a disk. Its file takes only what is written.
const SIZE: u64 = 512 << 20;

/// How long a file system may be busy after the last process that used it has ended.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// Opens all file systems before the first one is shut down, so that they fail at nearly the same time. The number is
/// `_IOR('X', 125, __u32)`, and 2 is `EXT4_GOING_FLAGS_NOLOGFLUSH`. Workspace code cannot call `ioctl` itself,
/// because that is unsafe.
const SHUT_DOWN: &str = "import fcntl, os, struct, sys
files = [os.open(path, os.O_RDONLY) for path in sys.argv[1:]]
for file in files:
    fcntl.ioctl(file, 0x8004587d, struct.pack('I', 2))";

/// A disk with an ext4 file system. It is unmounted when this is dropped.
#[derive(Debug)]
pub struct LoopDisk {
    directory: TempDir,
}

impl LoopDisk {
    /// Makes and mounts a disk. The error is the reason why that is not possible.
    pub fn mount() -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
        let disk = Self { directory };
        std::fs::create_dir(disk.path()).map_err(|error| error.to_string())?;
        let image = File::create(disk.image()).and_then(|it| it.set_len(SIZE));
        image.map_err(|error| error.to_string())?;
        packages::run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(disk.image()))?;
        disk.mount_image().map_err(|why| format!("no disk can be mounted here: {why}"))?;
        Ok(disk)
    }

    fn image(&self) -> PathBuf {
        self.directory.path().join("image")
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.directory.path().join("disk")
    }

    fn mount_image(&self) -> Result<(), String> {
        let mut mount = Command::new("mount");
        packages::run(mount.args(["-o", "loop"]).arg(self.image()).arg(self.path()))
    }

    /// Cuts the power of disks at the same time. What uses them must have been stopped: with power, it could still
    /// answer.
    ///
    /// # Panics
    ///
    /// If that is not possible.
    pub fn cut_power(disks: &[Self]) {
        let mut python = Command::new("python3");
        let cut = packages::run(python.args(["-c", SHUT_DOWN]).args(disks.iter().map(Self::path)));
        cut.unwrap_or_else(|why| panic!("{why}"));
    }

    /// Mounts the disk again, with what it had when its power was cut.
    ///
    /// # Panics
    ///
    /// If that is not possible.
    pub fn mount_again(&self) {
        let deadline = Instant::now() + UNMOUNT_TIMEOUT;
        while let Err(why) = packages::run(Command::new("umount").arg(self.path())) {
            assert!(Instant::now() < deadline, "{why}");
            sleep(Duration::from_millis(50));
        }
        self.mount_image().unwrap_or_else(|why| panic!("{why}"));
    }
}

impl Drop for LoopDisk {
    fn drop(&mut self) {
        // The loop device goes away with its file system. A process of a test that failed may still use it.
        let _ = Command::new("umount").arg("-l").arg(self.path()).output();
    }
}
