//! The methods that send photos, documents and albums.

use bytes::Bytes;
use serde_json::Value;

use crate::bot_api::call::{BotApiError, BotApiParams, BotApiUpload};
use crate::bot_api::limiter::BotApiLoad;
use crate::bot_api::state::{
    BotApiContent, BotApiMarkup, BotApiMedia, BotApiMediaKind, BotApiMessage, BotApiSender,
    BotApiState, ImageSize, fits_photo, image_size,
};
use crate::bot_api::text::BotApiText;

const MAX_CAPTION: usize = 1_024;
const MAX_PHOTO: usize = 10 << 20;
/// The largest file that a bot can upload.
pub(crate) const MAX_UPLOAD: usize = 50 << 20;

impl BotApiState {
    pub(super) fn send_photo(&mut self, params: &BotApiParams) -> Result<Value, BotApiError> {
        self.send_file("sendPhoto", BotApiMediaKind::Photo, "photo", params)
    }

    pub(super) fn send_document(&mut self, params: &BotApiParams) -> Result<Value, BotApiError> {
        self.send_file("sendDocument", BotApiMediaKind::Document, "document", params)
    }

    fn send_file(
        &mut self,
        method: &str,
        kind: BotApiMediaKind,
        field: &str,
        params: &BotApiParams,
    ) -> Result<Value, BotApiError> {
        let caption = read_caption(params)?;
        let markup = BotApiMarkup::read(params)?;
        let destination = self.destination(params)?;
        let file = file_source(params, field).ok_or_else(|| {
            BotApiError::bad_request(format!("there is no {field} in the request"))
        })?;
        let checked = self.check_file(kind, &file)?;
        self.check_rate(method, destination.chat, BotApiLoad::Messages(1))?;
        let media = self.add_file(kind, checked);
        let content = BotApiContent::Media { media, caption };
        let mut message = BotApiMessage::new(BotApiSender::Bot, destination.thread, content);
        message.markup = markup;
        let id = self.post(&destination, message);
        Ok(self.message_json(destination.chat, id))
    }

    pub(super) fn send_media_group(&mut self, params: &BotApiParams) -> Result<Value, BotApiError> {
        let items = params.json("media")?.unwrap_or_default();
        let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
        match items.len() {
            0 | 1 => return Err(BotApiError::bad_request("media group must include 2-10 items")),
            2..=10 => {}
            _ => return Err(BotApiError::bad_request("too many messages to send as an album")),
        }
        let mut destination = self.destination(params)?;
        let mut checked = Vec::new();
        for item in items {
            let kind = match item["type"].as_str() {
                Some("photo") => BotApiMediaKind::Photo,
                Some("document") => BotApiMediaKind::Document,
                _ => {
                    return Err(BotApiError::bad_request(
                        "can't parse InputMedia: invalid type specified",
                    ));
                }
            };
            let file = named_source(params, item["media"].as_str().unwrap_or_default())
                .ok_or_else(|| {
                    BotApiError::bad_request("can't parse InputMedia: media not found")
                })?;
            let caption = read_caption(&BotApiParams::of_object(item));
            checked.push((kind, self.check_file(kind, &file)?, caption?));
        }
        if checked.iter().any(|(kind, ..)| *kind != checked[0].0) {
            return Err(BotApiError::bad_request("document can't be mixed with other media types"));
        }
        let count = u32::try_from(checked.len()).unwrap_or(u32::MAX);
        self.check_rate("sendMediaGroup", destination.chat, BotApiLoad::Messages(count))?;
        let mut sent = Vec::new();
        // Every album adds files, so no other album starts at the same number of files.
        let album = format!("14{:015}", self.files.len());
        for (kind, file, caption) in checked {
            let media = self.add_file(kind, file);
            let content = BotApiContent::Media { media, caption };
            let mut message = BotApiMessage::new(BotApiSender::Bot, destination.thread, content);
            message.album = Some(album.clone());
            sent.push(self.post(&destination, message));
            // An album causes only one notification.
            destination.silent = true;
        }
        Ok(sent.into_iter().map(|id| self.message_json(destination.chat, id)).collect())
    }

    /// Reads a file and checks that it may be sent as this kind.
    fn check_file(
        &self,
        kind: BotApiMediaKind,
        file: &BotApiFileSource<'_>,
    ) -> Result<BotApiCheckedFile, BotApiError> {
        let (name, mime, bytes) = match file {
            BotApiFileSource::Upload(upload) => {
                let mime = upload.mime.clone();
                let mime = mime.unwrap_or_else(|| "application/octet-stream".to_owned());
                (upload.name.clone(), mime, upload.bytes.clone())
            }
            BotApiFileSource::FileId(id) => {
                let number = self.files.find(id).ok_or_else(|| {
                    BotApiError::bad_request("wrong file identifier/HTTP URL specified")
                })?;
                let mime = "application/octet-stream".to_owned();
                ("file".to_owned(), mime, self.files.bytes(number))
            }
        };
        if bytes.is_empty() {
            return Err(BotApiError::bad_request("file must be non-empty"));
        }
        if bytes.len() > MAX_UPLOAD {
            return Err(BotApiError::too_large());
        }
        let mut dimensions = None;
        if kind == BotApiMediaKind::Photo {
            let length = bytes.len();
            if length > MAX_PHOTO {
                return Err(BotApiError::bad_request(format!(
                    "file of size {length} bytes is too big for a photo; the maximum size is \
                     {MAX_PHOTO} bytes"
                )));
            }
            let size = image_size(&bytes)
                .ok_or_else(|| BotApiError::bad_request("IMAGE_PROCESS_FAILED"))?;
            if !fits_photo(size) {
                return Err(BotApiError::bad_request("PHOTO_INVALID_DIMENSIONS"));
            }
            dimensions = Some(size);
        }
        Ok(BotApiCheckedFile { name, mime, bytes, dimensions })
    }

    fn add_file(&mut self, kind: BotApiMediaKind, file: BotApiCheckedFile) -> BotApiMedia {
        match (kind, file.dimensions) {
            (BotApiMediaKind::Photo, Some(dimensions)) => {
                BotApiMedia::photo(&mut self.files, file.bytes, dimensions)
            }
            _ => BotApiMedia::document(&mut self.files, &file.name, &file.mime, file.bytes),
        }
    }
}

/// Where a call takes a file from: its own body, or an earlier message.
enum BotApiFileSource<'a> {
    Upload(&'a BotApiUpload),
    FileId(String),
}

struct BotApiCheckedFile {
    name: String,
    mime: String,
    bytes: Bytes,
    dimensions: Option<ImageSize>,
}

fn file_source<'a>(params: &'a BotApiParams, field: &str) -> Option<BotApiFileSource<'a>> {
    match params.upload(field) {
        Some(upload) => Some(BotApiFileSource::Upload(upload)),
        None => named_source(params, &params.text(field)),
    }
}

fn named_source<'a>(params: &'a BotApiParams, name: &str) -> Option<BotApiFileSource<'a>> {
    match name.strip_prefix("attach://") {
        Some(field) => params.upload(field).map(BotApiFileSource::Upload),
        None => (!name.is_empty()).then(|| BotApiFileSource::FileId(name.to_owned())),
    }
}

pub(super) fn read_caption(params: &BotApiParams) -> Result<BotApiText, BotApiError> {
    let caption = BotApiText::read(params, "caption", "caption_entities")?;
    if caption.utf16_length() > MAX_CAPTION {
        return Err(BotApiError::bad_request("message caption is too long"));
    }
    Ok(caption)
}
