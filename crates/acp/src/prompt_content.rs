//! The content of a prompt as the agent gets it: text and images. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use wire::acp::{PromptBlock, RpcError};
use wire::outgoing::Image;

/// The text and images of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PromptParts {
    pub(crate) text: String,
    pub(crate) images: Vec<Image>,
}

impl PromptParts {
    /// Files that were attached with their text come behind everything else, and a link stays where
    /// they were mentioned.
    pub(crate) fn read(blocks: Vec<PromptBlock>) -> Result<Self, RpcError> {
        let mut this = Self::default();
        let mut attached = Vec::new();
        for block in blocks {
            match block {
                PromptBlock::Text(text) => this.text.push_str(&text),
                PromptBlock::Image { media_type, base64 } => {
                    this.images.push(image(&base64, Some(&media_type))?);
                }
                PromptBlock::ResourceLink { uri, name } => this.text.push_str(&link(&uri, &name)),
                PromptBlock::TextResource { uri, text } => {
                    this.text.push_str(&link(&uri, ""));
                    attached.push(format!("\n\n<context ref=\"{uri}\">\n{text}\n</context>"));
                }
                PromptBlock::BlobResource { uri, media_type, base64 } => {
                    let is_image = media_type.as_deref().is_some_and(|it| it.starts_with("image/"));
                    if is_image {
                        this.images.push(image(&base64, media_type.as_deref())?);
                    }
                    this.text.push_str(&link(&uri, ""));
                }
                PromptBlock::Unsupported(kind) => {
                    let message = format!("this agent takes no content of the type `{kind}`");
                    return Err(RpcError::invalid_params(message));
                }
            }
        }
        this.text.push_str(&attached.concat());
        if this.text.trim().is_empty() && this.images.is_empty() {
            return Err(RpcError::invalid_params("a prompt needs some text or an image"));
        }
        Ok(this)
    }
}

fn image(base64: &str, media_type: Option<&str>) -> Result<Image, RpcError> {
    let bytes = STANDARD.decode(base64);
    let bytes = bytes.map_err(|error| RpcError::invalid_params(format!("an image: {error}")))?;
    let image = match media_type {
        Some(media_type) => Image::declared(&bytes, media_type),
        None => Image::new(&bytes),
    };
    image.map_err(|error| RpcError::invalid_params(format!("an image: {error}")))
}

/// A reference that the agent can follow: files by their path, as users of the CLI write them.
fn link(uri: &str, name: &str) -> String {
    let name = if name.is_empty() { uri.rsplit('/').next().unwrap_or(uri) } else { name };
    match uri.strip_prefix("file://") {
        Some(path) if !path.contains([' ', '%', '#', '\n']) => format!("@{path}"),
        _ => format!("[{name}]({uri})"),
    }
}

#[cfg(test)]
mod tests {
    use super::PromptParts;
    use wire::acp::PromptBlock;

    #[test]
    fn files_are_linked_where_they_are_mentioned_and_their_text_comes_last() {
        let text = |it: &str| PromptBlock::Text(it.to_owned());
        let resource = PromptBlock::TextResource { uri: "file:///a.rs".into(), text: "fn".into() };
        let link = PromptBlock::ResourceLink { uri: "https://x/y".into(), name: "y".into() };
        let content = PromptParts::read(vec![text("see "), resource, text(" and "), link]).unwrap();
        assert_eq!(
            content.text,
            "see @/a.rs and [y](https://x/y)\n\n<context ref=\"file:///a.rs\">\nfn\n</context>"
        );
    }

    #[test]
    fn images_are_checked_and_what_was_not_offered_is_refused() {
        let image = |media_type: &str, base64: &str| PromptBlock::Image {
            media_type: media_type.to_owned(),
            base64: base64.to_owned(),
        };
        let gif = "R0lGODlhAQABAAAAACwAAAAAAQABAAA=";
        assert_eq!(PromptParts::read(vec![image("image/gif", gif)]).unwrap().images.len(), 1);
        for block in [
            image("image/png", gif),
            image("image/gif", "not base64"),
            PromptBlock::Unsupported("audio".to_owned()),
            PromptBlock::Text(" ".to_owned()),
        ] {
            assert!(PromptParts::read(vec![block.clone()]).is_err(), "{block:?}");
        }
    }
}
