//! A prompt before it is sent: text from the command line, stdin or the editor, and images.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use session::NewPrompt;
use uuid::Uuid;
use wire::note::{Actor, Delivery};
use wire::outgoing::{Image, ImageError};

/// The API accepts no larger image; the CLI scales images down if it can.
const MAX_IMAGE_BYTES: u64 = 30 << 20;

/// No prompt can be longer: this is the limit of a line on its way to the agent.
const MAX_PROMPT_BYTES: u64 = 64 << 20;

/// What an agent that continues a conversation does if nothing else is asked.
const NO_TASK: &str = "Say in a sentence or two where things stand, and wait for the user.";

/// The prompt that stands for what is piped in.
const STDIN: &str = "-";

/// The text and images of a prompt.
#[derive(Clone, Debug, Default)]
pub(super) struct RunPromptDraft {
    pub(super) text: String,
    pub(super) images: Vec<Image>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PromptReadError {
    #[error("could not read stdin")]
    Stdin(#[source] io::Error),
    #[error("stdin is not UTF-8 text")]
    NotText,
    #[error("the prompt on stdin is longer than {} MiB, the limit", MAX_PROMPT_BYTES >> 20)]
    TooLong,
    #[error("could not read the image `{}`", path.display())]
    ReadImage { path: PathBuf, source: io::Error },
    #[error("cannot attach `{}`", path.display())]
    NotAnImage { path: PathBuf, source: ImageError },
    #[error("the image `{}` is larger than 30 MiB", .0.display())]
    ImageTooLarge(PathBuf),
}

impl PromptReadError {
    pub(super) fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotAnImage { .. } => Some("convert it to PNG, JPEG, GIF or WebP"),
            Self::TooLong => Some(
                "save it as a file that the agent can read, and name the file in the prompt: \
                 `towpath run 'summarise big.log'`",
            ),
            Self::NotText => {
                Some("save it as a file that the agent can read, and name the file in the prompt")
            }
            Self::Stdin(_) | Self::ReadImage { .. } | Self::ImageTooLarge(_) => None,
        }
    }
}

impl RunPromptDraft {
    /// The prompt of the command line and stdin; none if there is neither text nor an image.
    pub(super) fn from_arguments(
        prompt: Option<&str>,
        images: &[PathBuf],
    ) -> Result<Option<Self>, PromptReadError> {
        let piped = read_piped_stdin()?;
        let piped = piped.trim_end();
        let text = match prompt.filter(|prompt| *prompt != STDIN) {
            Some(prompt) if piped.is_empty() => prompt.to_owned(),
            Some(prompt) => format!("{prompt}\n\n{piped}"),
            None => piped.to_owned(),
        };
        let images = images.iter().map(|path| read_image(path)).collect::<Result<Vec<_>, _>>()?;
        let is_empty = text.trim().is_empty() && images.is_empty();
        Ok((!is_empty).then_some(Self { text, images }))
    }

    /// A prompt that begins with a summary of an earlier conversation.
    pub(super) fn with_summary(draft: Option<Self>, summary: &str) -> Self {
        let Self { text, images } = draft.unwrap_or_default();
        let text = if text.trim().is_empty() { NO_TASK } else { &text };
        Self { text: format!("{summary}\n{text}"), images }
    }

    pub(super) fn into_prompt(self, delivery: Delivery, by: Actor) -> NewPrompt {
        let Self { text, images } = self;
        NewPrompt { id: Uuid::new_v4(), text, images, delivery, by }
    }
}

/// The text that was piped in; empty if stdin is a terminal.
fn read_piped_stdin() -> Result<String, PromptReadError> {
    let stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    // Stdin may be endless, so no more of it is read than can be used.
    match stdin.take(MAX_PROMPT_BYTES + 1).read_to_end(&mut bytes) {
        Ok(length) if length as u64 > MAX_PROMPT_BYTES => Err(PromptReadError::TooLong),
        Ok(_) => String::from_utf8(bytes).map_err(|_| PromptReadError::NotText),
        // Stdin is closed.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            Ok(String::new())
        }
        Err(error) => Err(PromptReadError::Stdin(error)),
    }
}

fn read_image(path: &Path) -> Result<Image, PromptReadError> {
    let unreadable = |source| PromptReadError::ReadImage { path: path.to_owned(), source };
    if path.metadata().map_err(unreadable)?.len() > MAX_IMAGE_BYTES {
        return Err(PromptReadError::ImageTooLarge(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    Image::new(&bytes)
        .map_err(|source| PromptReadError::NotAnImage { path: path.to_owned(), source })
}

/// The image whose path was pasted. Terminals paste the path of a file that is dropped on them, in
/// quotes or with backslashes before spaces.
pub(super) fn pasted_image(pasted: &str) -> Option<(String, Image)> {
    let text = pasted.trim();
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    let quoted = ['\'', '"']
        .into_iter()
        .find_map(|quote| text.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    let plain = match quoted {
        Some(path) => path.to_owned(),
        None => unescape(text.strip_prefix("file://").unwrap_or(text)),
    };
    let path = Path::new(&plain);
    if !path.is_absolute() {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some((name, read_image(path).ok()?))
}

fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        plain.extend(if character == '\\' { characters.next() } else { Some(character) });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::pasted_image;

    #[test]
    fn a_pasted_path_of_an_image_attaches_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a cat.gif");
        std::fs::write(&path, b"GIF89a\x01\x00\x01\x00").unwrap();
        let path = path.display().to_string();
        for pasted in [
            path.clone(),
            format!("'{path}'"),
            format!("{} ", path.replace(' ', "\\ ")),
            format!("file://{path}"),
        ] {
            assert_eq!(
                pasted_image(&pasted).map(|it| it.0).as_deref(),
                Some("a cat.gif"),
                "{pasted}"
            );
        }
        let text = directory.path().join("a.gif");
        std::fs::write(&text, "not an image").unwrap();
        for pasted in [&text.display().to_string(), "a cat.gif", "look: /a", "/nowhere.gif", ""] {
            assert!(pasted_image(pasted).is_none(), "{pasted}");
        }
    }
}
