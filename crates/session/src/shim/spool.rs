//! What the agent printed, on disk until somebody has kept it.
//!
//! A spool is a row of files named by the offset they begin with; a file's end is the next one's
//! beginning. Files that are kept entirely are deleted, so a spool is about as long as its owner is
//! behind. It is not synced: it outlives processes, and a machine that fails takes the agent with it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use super::place::{Place, private_file, remove_file};
use super::plan::Run;

/// A file that is kept entirely is replaced by a fresh one from this length on.
const WORTH_DROPPING: u64 = 1 << 20;

/// Beyond this length a new file is begun even if nothing is kept: under a stream without a pause
/// there may never be a moment in which all of it is.
const LONGEST_FILE: u64 = 4 << 20;

/// The spool of a run, as its shim has it.
#[derive(Debug)]
pub(super) struct Spool {
    place: Place,
    run: Run,
    /// Where the files begin, in order; never empty.
    bases: VecDeque<u64>,
    end: u64,
    writing: File,
    /// The file last read from, by where it begins.
    reading: Option<(u64, File)>,
}

impl Spool {
    pub(super) fn create(place: &Place, run: Run) -> io::Result<Self> {
        let writing = create(place, run, 0)?;
        let place = place.clone();
        Ok(Self { place, run, bases: VecDeque::from([0]), end: 0, writing, reading: None })
    }

    /// The first offset it has.
    pub(super) fn start(&self) -> u64 {
        self.bases.front().copied().unwrap_or(self.end)
    }

    /// The offset behind the last byte it has.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    fn last_base(&self) -> u64 {
        self.bases.back().copied().unwrap_or(self.end)
    }

    /// Appends as much as there is room for; says how much that was, and what went wrong with the rest.
    pub(super) fn append(&mut self, bytes: &[u8]) -> (usize, io::Result<()>) {
        if self.end - self.last_base() >= LONGEST_FILE {
            // If no file can be made there may still be room in this one.
            let _ = self.begin_file();
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

    /// Reads some of what lies from `offset` on into `buffer`; says how much. 0 is the end.
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
                let file = File::open(self.place.spool(self.run, base))?;
                &self.reading.insert((base, file)).1
            }
        };
        file.read_at(&mut buffer[..most], offset - base)
    }

    /// Drops files that lie entirely before `offset`.
    pub(super) fn kept(&mut self, offset: u64) {
        if offset >= self.end && self.end - self.last_base() >= WORTH_DROPPING {
            // Without room for another file this one stays, which is no worse than before.
            let _ = self.begin_file();
        }
        while let Some(&next) = self.bases.get(1)
            && next <= offset
        {
            if let Some(base) = self.bases.pop_front() {
                // A file that cannot be removed now goes when the run is forgotten.
                let _ = remove_file(&self.place.spool(self.run, base));
            }
        }
        if self.reading.as_ref().is_some_and(|(base, _)| *base < self.start()) {
            self.reading = None;
        }
    }

    fn begin_file(&mut self) -> io::Result<()> {
        self.writing = create(&self.place, self.run, self.end)?;
        self.bases.push_back(self.end);
        Ok(())
    }
}

fn create(place: &Place, run: Run, base: u64) -> io::Result<File> {
    private_file().create_new(true).append(true).open(place.spool(run, base))
}

#[cfg(test)]
mod tests {
    use super::{LONGEST_FILE, Spool, WORTH_DROPPING};
    use crate::shim::place::Place;
    use crate::shim::plan::Run;

    fn files(place: &Place) -> Vec<u64> {
        place.spools(Run(1)).unwrap()
    }

    #[test]
    fn what_was_appended_can_be_read_from_anywhere_across_files() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path());
        let mut spool = Spool::create(&place, Run(1)).unwrap();
        let chunk: Vec<u8> = (0..100_003_u32).map(|n| n.to_le_bytes()[n as usize % 3]).collect();
        let mut all = Vec::new();
        while (all.len() as u64) < 2 * LONGEST_FILE + 400_000 {
            assert!(matches!(spool.append(&chunk), (100_003, Ok(()))));
            all.extend_from_slice(&chunk);
        }
        assert_eq!(files(&place).len(), 3);
        for from in [0, 1, files(&place)[1] - 1, files(&place)[1], files(&place)[2] + 1] {
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
    fn files_go_when_all_of_them_is_kept_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path());
        let mut spool = Spool::create(&place, Run(1)).unwrap();
        let _ = spool.append(b"short");
        spool.kept(5);
        assert_eq!(files(&place), [0], "a short file is not worth another");

        let long = vec![b'x'; usize::try_from(WORTH_DROPPING).unwrap()];
        let _ = spool.append(&long);
        let end = spool.end();
        spool.kept(end - 1);
        assert_eq!((files(&place), spool.start()), (vec![0], 0));
        spool.kept(end);
        assert_eq!((files(&place), spool.start()), (vec![end], end));
        let _ = spool.append(b"more");
        let mut buffer = [0; 8];
        assert_eq!(spool.read(end, &mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"more");
    }

    #[test]
    fn a_stream_that_is_never_kept_up_with_still_loses_its_kept_files() {
        let directory = tempfile::tempdir().unwrap();
        let place = Place::at(directory.path());
        let mut spool = Spool::create(&place, Run(1)).unwrap();
        let chunk = vec![b'x'; 1 << 20];
        for _ in 0..40 {
            let _ = spool.append(&chunk);
            spool.kept(spool.end() - 1000);
        }
        assert!(files(&place).len() <= 2, "{:?}", files(&place));
    }
}
