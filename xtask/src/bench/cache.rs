//! Corpora on disk, written once.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::num::NonZero;
use std::path::{Path, PathBuf};

use crate::corpus::{self, Mix};
use crate::failure::Failure;

/// Part of every file's name: raise it when the corpora change.
const EDITION: u32 = 1;

/// The folder of the corpora of one size.
pub(super) struct Cache {
    folder: PathBuf,
    programs: PathBuf,
    megabytes: NonZero<u64>,
}

impl Cache {
    /// `bench` in the target folder this program was built into.
    pub(super) fn beside_us(megabytes: NonZero<u64>) -> Result<Self, Failure> {
        let us = std::env::current_exe()
            .map_err(|error| Failure::could_not("find this program's file", &error))?;
        let programs = us.parent().unwrap_or(Path::new("."));
        let folder = programs.parent().unwrap_or(programs).join("bench");
        Ok(Self { folder, programs: programs.to_owned(), megabytes })
    }

    /// Where a program of this workspace is, built or not.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// Where something else is kept, or will be.
    pub(super) fn place(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// The file of a corpus, which is written if it is not there.
    pub(super) fn file(&self, mix: Mix) -> Result<PathBuf, Failure> {
        let Self { folder, megabytes, .. } = self;
        let path = folder.join(format!("{}-{megabytes}mb-v{EDITION}.ndjson", mix.name()));
        if !path.exists() {
            eprintln!("xtask: bench: writing {}", path.display());
            self.write(mix, &path).map_err(|error| {
                Failure::could_not(&format!("write `{}`", path.display()), &error)
            })?;
        }
        Ok(path)
    }

    /// The bytes of a corpus.
    pub(super) fn bytes(&self, mix: Mix) -> Result<Vec<u8>, Failure> {
        let path = self.file(mix)?;
        fs::read(&path)
            .map_err(|error| Failure::could_not(&format!("read `{}`", path.display()), &error))
    }

    fn write(&self, mix: Mix, path: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.folder)?;
        // Renamed when complete: a run that was interrupted leaves no short corpus behind.
        let partial = path.with_extension("partial");
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        corpus::write(mix, self.megabytes.get() * 1_000_000, &mut file)?;
        fs::rename(&partial, path)
    }
}

/// The lines of a corpus, split beforehand: the splitting is nobody's merit.
pub(super) fn lines(corpus: &[u8]) -> Vec<&[u8]> {
    corpus.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect()
}
