//! Blocks of content in a prompt.

use super::client_call::Params;
use super::rpc::RpcError;

/// A part of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromptBlock {
    Text(String),
    Image {
        media_type: String,
        base64: String,
    },
    /// A reference to a file or page, which the agent can read itself.
    ResourceLink {
        uri: String,
        name: String,
    },
    /// A file or page with its text.
    TextResource {
        uri: String,
        text: String,
    },
    /// A file with other content.
    BlobResource {
        uri: String,
        media_type: Option<String>,
        base64: String,
    },
    /// Something that the agent has not offered to take, by its type.
    Unsupported(String),
}

impl PromptBlock {
    pub(super) fn read(block: &Params<'_>) -> Result<Self, RpcError> {
        let kind = block.text("type")?;
        Ok(match &*kind {
            "text" => Self::Text(block.text("text")?),
            "image" => {
                Self::Image { media_type: block.text("mimeType")?, base64: block.text("data")? }
            }
            "resource_link" => {
                Self::ResourceLink { uri: block.text("uri")?, name: block.text("name")? }
            }
            "resource" => {
                let resource = block.object("resource")?;
                let uri = resource.text("uri")?;
                match resource.optional_text("text")? {
                    Some(text) => Self::TextResource { uri, text },
                    None => Self::BlobResource {
                        uri,
                        media_type: resource.optional_text("mimeType")?,
                        base64: resource.text("blob")?,
                    },
                }
            }
            _ => Self::Unsupported(kind),
        })
    }
}
