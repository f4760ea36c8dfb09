//! The agent's output on disk, until an owner has stored it.
//!
//! A spool is a row of files named after the offset at which they start; a file ends where the next
//! one starts. Files that an owner has acknowledged are deleted, so a spool is about as long as its
//! owner is behind. It is not synced: it outlives processes, and a machine that fails takes the
//! agent with it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use super::launch::RunId;
use super::live_directory::{LiveDirectory, private_file, remove_file};

/// An acknowledged file of at least this length is replaced by a new one.
const MIN_DROP: u64 = 1 << 20;

/// Beyond this length a new file is started even if nothing is acknowledged: in a stream without a
/// pause there may never be a moment in which all of it is.
const MAX_FILE: u64 = 4 << 20;

/// The spool of a run, as its shim writes it.
#[derive(Debug)]
pub(super) struct Spool {
    live: LiveDirectory,
    run: RunId,
    /// The offsets at which the files start, in order; never empty.
    bases: VecDeque<u64>,
    end: u64,
    writing: File,
    /// The file that was read last, with its start.
    reading: Option<(u64, File)>,
}

impl Spool {
    pub(super) fn create(live: &LiveDirectory, run: RunId) -> io::Result<Self> {
        let writing = create(live, run, 0)?;
        let live = live.clone();
        Ok(Self { live, run, bases: VecDeque::from([0]), end: 0, writing, reading: None })
    }

    /// The offset of the first byte.
    pub(super) fn start(&self) -> u64 {
        self.bases.front().copied().unwrap_or(self.end)
    }

    /// The offset behind the last byte.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn last_base(&self) -> u64 {
        self.bases.back().copied().unwrap_or(self.end)
    }

    /// Appends as much as fits. Returns how much that was, and the error that stopped it.
    pub(super) fn append(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        if self.end - self.last_base() >= MAX_FILE {
            // If no file can be created, there may still be space in this one.
            let _ = self.start_file();
        }
        let mut written = 0;
        while written < bytes.len() {
            match self.writing.write(&bytes[written..]) {
                Ok(0) => return (written, Err(io::ErrorKind::WriteZero.into())),
                Ok(more) => {
                    written += more;
                    self.end += more as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return (written, Err(error)),
            }
        }
        (written, Ok(()))
    }

    /// Reads some bytes from `offset` on into `buffer` and returns how many; 0 at the end.
    pub(super) fn read(&mut self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let at = self.bases.partition_point(|base| *base <= offset);
        let Some(base) = at.checked_sub(1).and_then(|at| self.bases.get(at)).copied() else {
            return Ok(0);
        };
        let end = self.bases.get(at).copied().unwrap_or(self.end);
        let left = usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let most = buffer.len().min(left);
        let file = match &self.reading {
            Some((open, file)) if *open == base => file,
            _ => {
                let file = File::open(self.live.spool(self.run, base))?;
                &self.reading.insert((base, file)).1
            }
        };
        file.read_at(&mut buffer[..most], offset - base)
    }

    /// Deletes the files that end before `offset`.
    pub(super) fn acknowledge(&mut self, offset: u64) {
        if offset >= self.end && self.end - self.last_base() >= MIN_DROP {
            // If no file can be created, this one stays.
            let _ = self.start_file();
        }
        while let Some(&next) = self.bases.get(1)
            && next <= offset
        {
            if let Some(base) = self.bases.pop_front() {
                // A file that cannot be removed now goes with the run.
                let _ = remove_file(&self.live.spool(self.run, base));
            }
        }
        if self.reading.as_ref().is_some_and(|(base, _)| *base < self.start()) {
            self.reading = None;
        }
    }

    fn start_file(&mut self) -> io::Result<()> {
        self.writing = create(&self.live, self.run, self.end)?;
        self.bases.push_back(self.end);
        Ok(())
    }
}

fn create(live: &LiveDirectory, run: RunId, base: u64) -> io::Result<File> {
    private_file().create_new(true).append(true).open(live.spool(run, base))
}

#[cfg(test)]
mod tests {
    use super::{MAX_FILE, MIN_DROP, Spool};
    use crate::shim::launch::RunId;
    use crate::shim::live_directory::LiveDirectory;

    fn files(live: &LiveDirectory) -> Vec<u64> {
        live.spools(RunId(1)).unwrap()
    }

    #[test]
    fn output_can_be_read_from_any_offset_across_files() {
        let directory = tempfile::tempdir().unwrap();
        let live = LiveDirectory::new(directory.path());
        let mut spool = Spool::create(&live, RunId(1)).unwrap();
        let chunk: Vec<u8> = (0..100_003_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let mut all = Vec::new();
        while (all.len() as u64) < 2 * MAX_FILE + 400_000 {
            assert!(matches!(spool.append(&chunk), (100_003, Ok(()))));
            all.extend_from_slice(&chunk);
        }
        assert_eq!(files(&live).len(), 3);
        for from in [0, 1, files(&live)[1] - 1, files(&live)[1], files(&live)[2] + 1] {
            let mut read = Vec::new();
            let mut buffer = vec![0; 70_000];
            loop {
                let more = spool.read(from + read.len() as u64, &mut buffer).unwrap();
                if more == 0 {
                    break;
                }
                read.extend_from_slice(&buffer[..more]);
            }
            assert!(read == all[usize::try_from(from).unwrap()..], "from {from}");
        }
    }

    #[test]
    fn a_file_is_deleted_only_once_all_of_it_is_acknowledged() {
        let directory = tempfile::tempdir().unwrap();
        let live = LiveDirectory::new(directory.path());
        let mut spool = Spool::create(&live, RunId(1)).unwrap();
        let _ = spool.append(b"short");
        spool.acknowledge(5);
        assert_eq!(files(&live), [0], "a short file is not worth another");

        let long = vec![b'x'; usize::try_from(MIN_DROP).unwrap()];
        let _ = spool.append(&long);
        let end = spool.end();
        spool.acknowledge(end - 1);
        assert_eq!((files(&live), spool.start()), (vec![0], 0));
        spool.acknowledge(end);
        assert_eq!((files(&live), spool.start()), (vec![end], end));
        let _ = spool.append(b"more");
        let mut buffer = [0; 8];
        assert_eq!(spool.read(end, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"more");
    }

    #[test]
    fn a_stream_that_is_never_fully_acknowledged_still_loses_its_old_files() {
        let directory = tempfile::tempdir().unwrap();
        let live = LiveDirectory::new(directory.path());
        let mut spool = Spool::create(&live, RunId(1)).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            let _ = spool.append(&chunk);
            spool.acknowledge(spool.end() - 1000);
        }
        assert!(files(&live).len() <= 2, "{:?}", files(&live));
    }
}
