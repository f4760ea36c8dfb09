//! The first prompt: its words from the command line and stdin, its pictures from files.

use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};

use session::machine::NewPrompt;
use uuid::Uuid;
use wire::note::{Actor, Delivery};
use wire::say::{Image, ImageError};

/// The API takes no larger picture; the CLI makes it smaller where it can.
const LARGEST_IMAGE: u64 = 30 << 20;

/// Words and pictures that are to be sent.
#[derive(Clone, Debug, Default)]
pub(super) struct Wording {
    pub(super) text: String,
    pub(super) images: Vec<Image>,
}

/// Why there is no prompt.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unworded {
    #[error("could not read stdin")]
    Stdin(#[source] io::Error),
    #[error("stdin is no text")]
    NoText,
    #[error("could not read the picture `{}`", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("`{}` cannot be sent", path.display())]
    NoImage { path: PathBuf, source: ImageError },
    #[error("the picture `{}` is too large", .0.display())]
    TooLarge(PathBuf),
}

impl Wording {
    /// What was given; nothing where nothing was.
    pub(super) fn given(
        prompt: Option<&str>,
        images: &[PathBuf],
    ) -> Result<Option<Self>, Unworded> {
        let piped = piped()?;
        let piped = piped.trim_end();
        let text = match prompt {
            Some(prompt) if piped.is_empty() => prompt.to_owned(),
            Some(prompt) => format!("{prompt}\n\n{piped}"),
            None => piped.to_owned(),
        };
        let images = images.iter().map(|path| image(path)).collect::<Result<Vec<_>, _>>()?;
        let nothing = text.trim().is_empty() && images.is_empty();
        Ok((!nothing).then_some(Self { text, images }))
    }

    /// The prompt it makes.
    pub(super) fn prompt(self, delivery: Delivery, by: Actor) -> NewPrompt {
        let Self { text, images } = self;
        NewPrompt { id: Uuid::new_v4(), text, images, delivery, by }
    }
}

/// What was piped into us; nothing on a terminal.
fn piped() -> Result<String, Unworded> {
    let mut stdin = io::stdin().lock();
    if stdin.is_terminal() {
        return Ok(String::new());
    }
    let mut bytes = Vec::new();
    match stdin.read_to_end(&mut bytes) {
        Ok(_) => String::from_utf8(bytes).map_err(|_| Unworded::NoText),
        // Nobody gave us one.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::BADF.raw_os_error()) => {
            Ok(String::new())
        }
        Err(error) => Err(Unworded::Stdin(error)),
    }
}

/// A picture in a file.
pub(super) fn image(path: &Path) -> Result<Image, Unworded> {
    let unreadable = |source| Unworded::Unreadable { path: path.to_owned(), source };
    if path.metadata().map_err(unreadable)?.len() > LARGEST_IMAGE {
        return Err(Unworded::TooLarge(path.to_owned()));
    }
    let bytes = std::fs::read(path).map_err(unreadable)?;
    Image::new(&bytes).map_err(|source| Unworded::NoImage { path: path.to_owned(), source })
}

/// The picture a pasted text is the path of: terminals paste the path of a file that is dropped on
/// them, in quotes or with backslashes before blanks.
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
        None => unescaped(text.strip_prefix("file://").unwrap_or(text)),
    };
    let path = Path::new(&plain);
    if !path.is_absolute() {
        return None;
    }
    let name = path.file_name()?.to_string_lossy().into_owned();
    Some((name, image(path).ok()?))
}

fn unescaped(text: &str) -> String {
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
    fn the_pasted_path_of_a_picture_is_that_picture() {
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
        std::fs::write(&text, "no picture").unwrap();
        for pasted in [&text.display().to_string(), "a cat.gif", "look: /a", "/nowhere.gif", ""] {
            assert!(pasted_image(pasted).is_none(), "{pasted}");
        }
    }
}
