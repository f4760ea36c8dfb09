//! Files that benchmarks keep in the target directory: corpora, and the programs of others that
//! Towpath is compared with.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::corpus::Corpus;
use crate::error::BenchError;

/// Part of the name of every corpus file. Raise it when the corpora change.
const EDITION: u32 = 1;

/// The directory `bench` of the target directory.
pub(crate) struct BenchCache {
    directory: PathBuf,
    programs: PathBuf,
    megabytes: NonZero<u64>,
}

impl BenchCache {
    /// Opens the cache in the target directory that this program was built into.
    pub(crate) fn beside_executable(megabytes: NonZero<u64>) -> Result<Self, BenchError> {
        let executable = std::env::current_exe()
            .map_err(|error| BenchError::new("find this program's file", &error))?;
        let programs = executable.parent().unwrap_or(Path::new("."));
        let directory = programs.parent().unwrap_or(programs).join("bench");
        Ok(Self { directory, programs: programs.to_owned(), megabytes })
    }

    /// The size of each corpus.
    pub(crate) fn megabytes(&self) -> u64 {
        self.megabytes.get()
    }

    /// The path of a program of this workspace, which may not be built yet.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.programs.join(name).with_extension(std::env::consts::EXE_EXTENSION)
    }

    /// The path of another file or directory in the cache, which may not exist yet.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The file of a corpus, which is written first if it does not exist.
    pub(crate) fn file(&self, corpus: Corpus) -> Result<PathBuf, BenchError> {
        let Self { directory, megabytes, .. } = self;
        let path = directory.join(format!("{}-{megabytes}mb-v{EDITION}.ndjson", corpus.name()));
        if !path.exists() {
            eprintln!("bench: writing {}", path.display());
            self.write(corpus, &path)
                .map_err(|error| BenchError::new(&format!("write `{}`", path.display()), &error))?;
        }
        Ok(path)
    }

    /// The bytes of a corpus.
    pub(crate) fn bytes(&self, corpus: Corpus) -> Result<Vec<u8>, BenchError> {
        let path = self.file(corpus)?;
        fs::read(&path)
            .map_err(|error| BenchError::new(&format!("read `{}`", path.display()), &error))
    }

    fn write(&self, corpus: Corpus, path: &Path) -> io::Result<()> {
        fs::create_dir_all(&self.directory)?;
        // Renamed when complete: an interrupted run leaves no short corpus behind.
        let partial = path.with_extension("partial");
        let mut file = BufWriter::with_capacity(1 << 20, File::create(&partial)?);
        corpus.write(self.megabytes.get() * 1_000_000, &mut file)?;
        fs::rename(&partial, path)
    }
}

/// Splits a corpus into lines. Benchmarks do this before they start the clock.
pub(crate) fn lines(corpus: &[u8]) -> Vec<&[u8]> {
    corpus.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).collect()
}

/// Installs an npm package into a directory. The error says why it could not be installed.
pub(crate) fn install_with_npm(directory: &Path, package: &str) -> Result<(), String> {
    let failed = |cause: &str| format!("npm could not install `{package}`: {cause}");
    eprintln!("bench: npm install {package}");
    fs::create_dir_all(directory).map_err(|error| failed(&error.to_string()))?;
    let status = Command::new("npm")
        .args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix"])
        .args([directory.as_os_str(), package.as_ref()])
        .stdout(Stdio::null())
        .status()
        .map_err(|error| failed(&error.to_string()))?;
    if status.success() { Ok(()) } else { Err(failed(&status.to_string())) }
}
