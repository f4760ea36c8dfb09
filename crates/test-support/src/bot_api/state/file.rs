//! The files of the API, in memory, and which of them Telegram accepts as a photo.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::bot_api::call::BotApiError;

pub(crate) use imagesize::ImageSize;

/// The largest file that a bot can download.
const MAX_DOWNLOAD: usize = 20 << 20;

const ID_PREFIX: &str = "BQACAgQAAxkBAAI";

/// All files so far. The number of a file is its index.
#[derive(Debug, Default)]
pub(crate) struct BotApiFiles(Vec<BotApiFile>);

#[derive(Debug)]
struct BotApiFile {
    path: String,
    bytes: Bytes,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BotApiFileNumber(usize);

impl BotApiFileNumber {
    /// The `file_id`. A photo has several sizes, which share their bytes in this double.
    pub(crate) fn id(self, size: &str) -> String {
        format!("{ID_PREFIX}{}-{size}", self.0)
    }

    pub(crate) fn unique_id(self, size: &str) -> String {
        format!("AgAD{}{size}", self.0)
    }
}

impl BotApiFiles {
    pub(crate) fn add(&mut self, folder: &str, extension: &str, bytes: Bytes) -> BotApiFileNumber {
        let number = self.0.len();
        self.0.push(BotApiFile { path: format!("{folder}/file_{number}{extension}"), bytes });
        BotApiFileNumber(number)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The file with this `file_id`.
    pub(crate) fn find(&self, id: &str) -> Option<BotApiFileNumber> {
        let (number, _) = id.strip_prefix(ID_PREFIX)?.split_once('-')?;
        number.parse().ok().filter(|it| *it < self.0.len()).map(BotApiFileNumber)
    }

    pub(crate) fn bytes(&self, number: BotApiFileNumber) -> Bytes {
        self.0.get(number.0).map(|it| it.bytes.clone()).unwrap_or_default()
    }

    /// `getFile`
    pub(crate) fn get(&self, id: &str) -> Result<Value, BotApiError> {
        let reason = "wrong file_id or the file is temporarily unavailable";
        let not_found = || BotApiError::bad_request(reason);
        let number = self.find(id).ok_or_else(not_found)?;
        let file = self.0.get(number.0).ok_or_else(not_found)?;
        let size = file.bytes.len();
        if size > MAX_DOWNLOAD {
            return Err(BotApiError::bad_request("file is too big"));
        }
        let (unique_id, path) = (number.unique_id(""), &file.path);
        Ok(json!({
            "file_id": id,
            "file_unique_id": unique_id,
            "file_size": size,
            "file_path": path,
        }))
    }

    /// The file at a path that `getFile` returned.
    pub(crate) fn download(&self, path: &str) -> Option<Bytes> {
        let file = self.0.iter().find(|it| it.path == path)?;
        (file.bytes.len() <= MAX_DOWNLOAD).then(|| file.bytes.clone())
    }
}

/// The dimensions of an image in one of the formats that Telegram accepts for photos.
pub(crate) fn image_size(bytes: &[u8]) -> Option<ImageSize> {
    // The features of `imagesize` in `Cargo.toml` select the formats.
    imagesize::blob_size(bytes).ok()
}

/// Whether Telegram accepts an image of this size as a photo: width and height add up to at most
/// 10,000, and their ratio is at most 20.
pub(crate) fn fits_photo(ImageSize { width, height }: ImageSize) -> bool {
    let (longer, shorter) = (width.max(height), width.min(height));
    shorter > 0 && width + height <= 10_000 && longer <= shorter * 20
}

#[cfg(test)]
mod tests {
    use super::{ImageSize, fits_photo, image_size};

    #[test]
    fn the_size_of_every_photo_format_is_read() {
        let cases: [(&[u8], (usize, usize)); 5] = [
            (b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\x01\0\0\0\0\x80", (256, 128)),
            (b"GIF89a\x0a\x00\x14\x00\0\0", (10, 20)),
            (b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x00\x20\x00\x40", (64, 32)),
            (b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x3f\0\0\x1f\0\0", (64, 32)),
            (b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f\x3f\xc0\x07\0", (64, 32)),
        ];
        for (bytes, (width, height)) in cases {
            assert_eq!(image_size(bytes), Some(ImageSize { width, height }), "{bytes:?}");
        }
        for other in [&b"%PDF-1.7"[..], b"\xff\xd8\xff", b"BM\0\0\0\0\0\0\0\0\x1a\0\0\0\x0c\0\0\0"]
        {
            assert_eq!(image_size(other), None, "{other:?}");
        }
    }

    #[test]
    fn photos_are_limited_in_size_and_in_ratio() {
        let cases = [
            (100, 100, true),
            (5_000, 5_000, true),
            (5_001, 5_000, false),
            (2_000, 100, true),
            (2_001, 100, false),
            (0, 10, false),
        ];
        for (width, height, fits) in cases {
            assert_eq!(fits_photo(ImageSize { width, height }), fits, "{width}×{height}");
        }
    }
}
