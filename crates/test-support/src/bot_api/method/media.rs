//! Photos, documents and albums.

use bytes::Bytes;
use serde_json::Value;

use crate::bot_api::image;
use crate::bot_api::limiter::Load;
use crate::bot_api::markup::Markup;
use crate::bot_api::message::{Content, Media, MediaKind, Message, Sender};
use crate::bot_api::params::{Params, Upload};
use crate::bot_api::refusal::Refusal;
use crate::bot_api::rich::Rich;
use crate::bot_api::world::World;

const LONGEST_CAPTION: usize = 1_024;
const LARGEST_PHOTO: usize = 10 << 20;
/// The largest file a bot can upload.
pub(in crate::bot_api) const LARGEST_UPLOAD: usize = 50 << 20;

impl World {
    pub(super) fn send_photo(&mut self, params: &Params) -> Result<Value, Refusal> {
        self.send_file("sendPhoto", MediaKind::Photo, "photo", params)
    }

    pub(super) fn send_document(&mut self, params: &Params) -> Result<Value, Refusal> {
        self.send_file("sendDocument", MediaKind::Document, "document", params)
    }

    fn send_file(
        &mut self,
        method: &str,
        kind: MediaKind,
        field: &str,
        params: &Params,
    ) -> Result<Value, Refusal> {
        let caption = caption(params)?;
        let markup = Markup::read(params)?;
        let place = self.place(params)?;
        let file = given(params, field)
            .ok_or_else(|| Refusal::bad(format!("there is no {field} in the request")))?;
        let checked = self.check(kind, &file)?;
        self.admit(method, place.chat, Load::Messages(1))?;
        let media = self.store(kind, checked);
        let content = Content::Media { media, caption };
        let mut message = Message::new(Sender::Bot, place.thread, content);
        message.markup = markup;
        let id = self.post(&place, message);
        Ok(self.message_json(place.chat, id))
    }

    pub(super) fn send_media_group(&mut self, params: &Params) -> Result<Value, Refusal> {
        let items = params.json("media")?.unwrap_or_default();
        let items = items.as_array().map(Vec::as_slice).unwrap_or_default();
        match items.len() {
            0 | 1 => return Err(Refusal::bad("media group must include 2-10 items")),
            2..=10 => {}
            _ => return Err(Refusal::bad("too many messages to send as an album")),
        }
        let place = self.place(params)?;
        let mut checked = Vec::new();
        for item in items {
            let kind = match item["type"].as_str() {
                Some("photo") => MediaKind::Photo,
                Some("document") => MediaKind::Document,
                _ => return Err(Refusal::bad("can't parse InputMedia: invalid type specified")),
            };
            let file = named(params, item["media"].as_str().unwrap_or_default())
                .ok_or_else(|| Refusal::bad("can't parse InputMedia: media not found"))?;
            checked.push((kind, self.check(kind, &file)?, item_caption(item)?));
        }
        if checked.iter().any(|(kind, ..)| *kind != checked[0].0) {
            return Err(Refusal::bad("document can't be mixed with other media types"));
        }
        let count = u32::try_from(checked.len()).unwrap_or(u32::MAX);
        self.admit("sendMediaGroup", place.chat, Load::Messages(count))?;
        let mut sent = Vec::new();
        let mut album = None;
        let mut place = place;
        for (kind, file, caption) in checked {
            let media = self.store(kind, file);
            let content = Content::Media { media, caption };
            let mut message = Message::new(Sender::Bot, place.thread, content);
            let next = self.log.len();
            let album = album.get_or_insert_with(|| format!("14{next:015}"));
            message.album = Some(album.clone());
            sent.push(self.post(&place, message));
            // A phone rings once for an album.
            place.silent = true;
        }
        Ok(sent.into_iter().map(|id| self.message_json(place.chat, id)).collect())
    }

    /// Whether a file may be sent as this kind.
    fn check(&self, kind: MediaKind, file: &Given<'_>) -> Result<Checked, Refusal> {
        let (name, mime, bytes) = match file {
            Given::New(upload) => {
                let mime = upload.mime.clone();
                let mime = mime.unwrap_or_else(|| "application/octet-stream".to_owned());
                (upload.name.clone(), mime, upload.bytes.clone())
            }
            Given::Known(id) => {
                let number = self
                    .files
                    .find(id)
                    .ok_or_else(|| Refusal::bad("wrong file identifier/HTTP URL specified"))?;
                let mime = "application/octet-stream".to_owned();
                ("file".to_owned(), mime, self.files.bytes(number))
            }
        };
        if bytes.is_empty() {
            return Err(Refusal::bad("file must be non-empty"));
        }
        if bytes.len() > LARGEST_UPLOAD {
            return Err(Refusal::too_large());
        }
        let mut size = None;
        if kind == MediaKind::Photo {
            let length = bytes.len();
            if length > LARGEST_PHOTO {
                return Err(Refusal::bad(format!(
                    "file of size {length} bytes is too big for a photo; the maximum size is \
                     {LARGEST_PHOTO} bytes"
                )));
            }
            let found = image::size(&bytes).ok_or_else(|| Refusal::bad("IMAGE_PROCESS_FAILED"))?;
            if !found.is_a_photos() {
                return Err(Refusal::bad("PHOTO_INVALID_DIMENSIONS"));
            }
            size = Some(found);
        }
        Ok(Checked { name, mime, bytes, size })
    }

    fn store(&mut self, kind: MediaKind, file: Checked) -> Media {
        match (kind, file.size) {
            (MediaKind::Photo, Some(size)) => Media::photo(&mut self.files, file.bytes, size),
            _ => Media::document(&mut self.files, &file.name, &file.mime, file.bytes),
        }
    }
}

/// A file that a call names: sent along, or known already.
enum Given<'a> {
    New(&'a Upload),
    Known(String),
}

struct Checked {
    name: String,
    mime: String,
    bytes: Bytes,
    size: Option<image::Size>,
}

fn given<'a>(params: &'a Params, field: &str) -> Option<Given<'a>> {
    match params.upload(field) {
        Some(upload) => Some(Given::New(upload)),
        None => named(params, &params.text(field)),
    }
}

fn named<'a>(params: &'a Params, name: &str) -> Option<Given<'a>> {
    match name.strip_prefix("attach://") {
        Some(field) => params.upload(field).map(Given::New),
        None => (!name.is_empty()).then(|| Given::Known(name.to_owned())),
    }
}

pub(super) fn caption(params: &Params) -> Result<Rich, Refusal> {
    let rich = Rich::read(params, "caption", "caption_entities")?;
    if rich.units() > LONGEST_CAPTION {
        return Err(Refusal::bad("message caption is too long"));
    }
    Ok(rich)
}

/// The caption of one picture of an album, which says itself how it is to be read.
fn item_caption(item: &Value) -> Result<Rich, Refusal> {
    caption(&Params::of(item))
}
