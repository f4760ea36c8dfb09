//! What a shim that is gone left behind: the rest of the agent's output, and how it ended.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom};
use std::path::Path;

use super::exit::Exit;
use super::place::Place;
use super::plan::Run;

/// What is left of a run. Reading it gives the agent's output from [`start`](Self::start) on.
#[derive(Debug)]
pub struct Remains {
    /// The offset of the first byte that is read; behind the one asked for only if what is between
    /// was given up before, on an owner's word.
    pub start: u64,
    /// How the agent ended; nothing if the shim died before it, or never was.
    pub exit: Option<Exit>,
    /// The last the agent complained of.
    pub stderr: Vec<u8>,
    files: VecDeque<File>,
}

/// What is left of a run's output from `from` on, in the session's live directory.
///
/// What a shim that still lives appends later is not in it: ask for a [`Link`](super::Link) first.
pub fn remains(directory: &Path, run: Run, from: u64) -> io::Result<Remains> {
    let place = Place::at(directory);
    let bases = place.spools(run)?;
    let first = bases.partition_point(|base| *base <= from).saturating_sub(1);
    let mut files = VecDeque::new();
    for base in &bases[first.min(bases.len())..] {
        files.push_back(File::open(place.spool(run, *base))?);
    }
    let mut start = from;
    if let (Some(file), Some(base)) = (files.front_mut(), bases.get(first)) {
        start = from.max(*base);
        let end = base + file.metadata()?.len();
        // Nobody has had what was never printed.
        start = start.min(end);
        file.seek(SeekFrom::Start(start - base))?;
    }
    let exit = place.ended(run)?.map(|ended| ended.exit);
    Ok(Remains { start, exit, stderr: place.stderr_tail(run)?, files })
}

impl Read for Remains {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(file) = self.files.front_mut() {
            let read = file.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            self.files.pop_front();
        }
        Ok(0)
    }
}

/// Whether anything of a run lies in the session's live directory.
pub fn leaves(directory: &Path, run: Run) -> bool {
    let place = Place::at(directory);
    place.spools(run).is_ok_and(|spools| !spools.is_empty())
        || place.ended(run).is_ok_and(|ended| ended.is_some())
}
