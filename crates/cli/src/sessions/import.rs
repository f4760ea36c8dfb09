//! `towpath sessions import`: makes sessions of the CLI sessions of Towpath.

use std::path::{Path, PathBuf};

use clap::Args;
use session::{SessionOptions, SessionSpec, Sessions};
use transcripts::TranscriptFile;

use super::{SessionsError, report_unstored, short_id};
use crate::exit::{CommandStatus, report_error};

#[derive(Args, Clone, Debug)]
pub(super) struct ImportArgs {
    /// The CLI's ids of the sessions, the beginnings of ids, or their files
    #[arg(required_unless_present = "all_in", value_name = "ID|FILE")]
    sessions: Vec<String>,
    /// Import every session of the CLI that began in this directory or below it
    #[arg(long, value_name = "DIR", conflicts_with = "sessions")]
    all_in: Option<PathBuf>,
}

/// A session file that is to be imported.
struct ImportedFile {
    file: TranscriptFile,
    directory: PathBuf,
    title: Option<String>,
}

/// Imports sessions. Their journals begin with what was said in them.
pub(super) async fn import(
    sessions: &Sessions,
    args: ImportArgs,
) -> Result<CommandStatus, SessionsError> {
    let mut status = CommandStatus::Success;
    let mut files = Vec::new();
    match &args.all_in {
        Some(directory) => files = find_in(sessions, directory).await,
        None => {
            for name in &args.sessions {
                match find(sessions, name).await {
                    Ok(file) => files.push(file),
                    Err(error) => {
                        report_error(&error, error.hint().as_deref());
                        status = CommandStatus::Error;
                    }
                }
            }
        }
    }
    if files.is_empty() && status == CommandStatus::Success {
        anstream::eprintln!("there is nothing to import");
        return Ok(CommandStatus::Negative);
    }
    for file in files {
        status = status.max(import_file(sessions, file).await?);
    }
    report_unstored(&sessions.release().await);
    Ok(status)
}

async fn import_file(
    sessions: &Sessions,
    imported: ImportedFile,
) -> Result<CommandStatus, SessionsError> {
    let ImportedFile { file, directory, title } = imported;
    let conversation = file.id.to_string();
    let title = title.as_deref().unwrap_or("untitled");
    if let [known, ..] = sessions.journal().find(&conversation).await?.as_slice() {
        anstream::eprintln!("{} is already session {} ({title})", file.id, short_id(*known));
        return Ok(CommandStatus::Success);
    }
    let options = SessionOptions { directory, ..SessionOptions::default() };
    let spec = SessionSpec { options, resume: Some(conversation), ..SessionSpec::default() };
    match sessions.create(spec).await {
        Ok(session) => {
            anstream::eprintln!(
                "imported {} as session {} ({title})",
                file.id,
                short_id(session.id())
            );
            Ok(CommandStatus::Success)
        }
        Err(error) => {
            let id = file.id;
            report_error(&SessionsError::Import { id, source: error }, None);
            Ok(CommandStatus::Error)
        }
    }
}

/// The sessions of the CLI in a directory, the oldest first, so that the newest is the last active one.
async fn find_in(sessions: &Sessions, directory: &Path) -> Vec<ImportedFile> {
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let entries = sessions.list_transcripts().await;
    let found = entries.iter().rev().filter_map(|entry| {
        let began = entry.summary.directory.as_deref()?;
        let began = began.canonicalize().unwrap_or_else(|_| began.to_owned());
        began.starts_with(&directory).then(|| ImportedFile {
            file: entry.file.clone(),
            directory: began,
            title: entry.summary.title.clone(),
        })
    });
    found.collect()
}

/// A session file by its path, or by the beginning of its id.
async fn find(sessions: &Sessions, name: &str) -> Result<ImportedFile, SessionsError> {
    let not_found = || SessionsError::NoTranscript(name.to_owned());
    let path = Path::new(name);
    let of_path = path.extension().is_some_and(|it| it == "jsonl").then(|| path.file_stem());
    let prefix = of_path.flatten().and_then(|it| it.to_str()).unwrap_or(name).to_lowercase();
    let entries = sessions.list_transcripts().await;
    let mut found = entries.iter().filter(|entry| entry.file.id.to_string().starts_with(&prefix));
    let entry = found.next().filter(|_| !prefix.is_empty()).ok_or_else(not_found)?;
    if found.next().is_some() {
        return Err(SessionsError::AmbiguousTranscript(name.to_owned()));
    }
    if path.is_file() && path.canonicalize().ok() != entry.file.path.canonicalize().ok() {
        return Err(not_found());
    }
    let directory = entry.summary.directory.clone().ok_or_else(not_found)?;
    let title = entry.summary.title.clone();
    Ok(ImportedFile { file: entry.file.clone(), directory, title })
}
