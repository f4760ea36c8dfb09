//! What this crate needs to know of a line of a session file.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use uuid::Uuid;
use wire::json::{Raw, Shape, Text};

/// A line of a session file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TranscriptLine<'a> {
    kind: Option<Text<'a>>,
    pub(crate) uuid: Option<Text<'a>>,
    /// The line it answers or follows.
    pub(crate) parent: ParentLink<'a>,
    /// The line before a compaction.
    pub(crate) logical_parent: Option<Text<'a>>,
    /// It belongs to a sub-agent.
    pub(crate) sidechain: bool,
    /// The CLI wrote it in the name of the user.
    pub(crate) synthetic: bool,
    /// The message that a title was made from.
    pub(crate) leaf: Option<Text<'a>>,
    pub(crate) title: Option<Text<'a>>,
    pub(crate) message: Option<Raw<'a>>,
    /// The cost of the session so far, in dollars.
    pub(crate) cost: Option<f64>,
    /// The git branch.
    pub(crate) branch: Option<Text<'a>>,
    cwd: Option<Text<'a>>,
}

/// What a line says about the one before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ParentLink<'a> {
    /// Nothing, as in lines of other programs.
    Unknown,
    /// It is the first one.
    None,
    Line(Text<'a>),
}

impl<'a> TranscriptLine<'a> {
    /// Reads a line. None if it is not a JSON object with a type.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<Self> {
        let object = Raw::parse(std::str::from_utf8(bytes).ok()?)?;
        let mut this = Self {
            kind: None,
            uuid: None,
            parent: ParentLink::Unknown,
            logical_parent: None,
            sidechain: false,
            synthetic: false,
            leaf: None,
            title: None,
            message: None,
            cost: None,
            branch: None,
            cwd: None,
        };
        for (key, value) in object.fields() {
            match &*key.decode() {
                "type" => this.kind = value.text(),
                "uuid" => this.uuid = value.text(),
                "parentUuid" => {
                    this.parent = value.text().map_or(ParentLink::None, ParentLink::Line);
                }
                "logicalParentUuid" => this.logical_parent = value.text(),
                "isSidechain" => this.sidechain = value.boolean() == Some(true),
                "isMeta" | "isSynthetic" | "isCompactSummary" => {
                    this.synthetic |= value.boolean() == Some(true);
                }
                "leafUuid" => this.leaf = value.text(),
                "summary" | "aiTitle" | "customTitle" | "title" => this.title = value.text(),
                "message" => this.message = Some(value),
                "totalCostUSD" => this.cost = value.number(),
                "gitBranch" => this.branch = value.text(),
                "cwd" => this.cwd = value.text().filter(|cwd| !cwd.is_empty()),
                _ => {}
            }
        }
        this.kind.map(|_| this)
    }

    pub(crate) fn is_kind(&self, name: &str) -> bool {
        self.kind.is_some_and(|kind| kind == *name)
    }

    /// Whether it is a message of the user or of the model, or a result of a tool.
    pub(crate) fn is_message(&self) -> bool {
        self.is_kind("user") || self.is_kind("assistant")
    }

    /// Whether it is text of the user, which begins a turn.
    pub(crate) fn is_prompt(&self) -> bool {
        let content = self.message.and_then(|message| message.get("content"));
        self.is_kind("user")
            && !self.sidechain
            && !self.synthetic
            && content.is_some_and(|content| match content.shape() {
                Shape::String => content.text().is_some_and(|text| !text.is_empty()),
                _ => content
                    .items()
                    .any(|block| kind_of(block).is_some_and(|it| it != *"tool_result")),
            })
    }

    /// The id of the model's message, which may be spread over several lines.
    pub(crate) fn message_id(&self) -> Option<u64> {
        let message = self.message.filter(|_| self.is_kind("assistant"))?;
        Some(hash(message.get("id")?.text()?))
    }

    /// The ids of the calls that the line makes, and of those whose results it has.
    pub(crate) fn calls(&self) -> impl Iterator<Item = CallMention> {
        let content = self.message.and_then(|message| message.get("content"));
        content.into_iter().flat_map(Raw::items).filter_map(|block| {
            let kind = kind_of(block)?;
            if kind == *"tool_use" {
                Some(CallMention { call: hash(block.get("id")?.text()?), is_result: false })
            } else if kind == *"tool_result" {
                Some(CallMention { call: hash(block.get("tool_use_id")?.text()?), is_result: true })
            } else {
                None
            }
        })
    }

    /// The model of a message, and the tokens it read and wrote for it.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "numbers of tokens are small, and a negative one is none"
    )]
    pub(crate) fn usage(&self) -> Option<(String, u64)> {
        let message = self.message.filter(|_| self.is_kind("assistant"))?;
        let model = message.get("model")?.text()?.decode().into_owned();
        let usage = message.get("usage")?;
        let count = |key| usage.get(key).and_then(Raw::number).unwrap_or(0.0) as u64;
        let keys = [
            "input_tokens",
            "cache_creation_input_tokens",
            "cache_read_input_tokens",
            "output_tokens",
        ];
        let context: u64 = keys.into_iter().map(count).sum();
        // What the CLI writes in place of the model took nothing.
        (context > 0).then_some((model, context))
    }

    /// The text of a prompt.
    pub(crate) fn text(&self) -> String {
        let Some(content) = self.message.and_then(|message| message.get("content")) else {
            return String::new();
        };
        if let Some(text) = content.text() {
            return text.decode().into_owned();
        }
        let texts = content.items().filter_map(|block| block.get("text")?.text());
        texts.map(|text| text.decode().into_owned()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn working_directory(&self) -> Option<PathBuf> {
        let cwd = self.cwd.filter(|_| !self.sidechain)?;
        Some(PathBuf::from(&*cwd.decode()))
    }
}

/// A call of a tool, or its result, in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CallMention {
    /// A hash of the call's id.
    pub(crate) call: u64,
    pub(crate) is_result: bool,
}

fn kind_of(block: Raw<'_>) -> Option<Text<'_>> {
    block.get("type")?.text()
}

/// The id of a line as a number.
pub(crate) fn line_id(text: Text<'_>) -> u128 {
    let text = text.decode();
    text.parse::<Uuid>().map_or_else(
        |_| {
            let mut hasher = DefaultHasher::new();
            text.hash(&mut hasher);
            let first = hasher.finish();
            text.len().hash(&mut hasher);
            u128::from(first) << 64 | u128::from(hasher.finish())
        },
        |id| id.as_u128(),
    )
}

fn hash(text: Text<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.decode().hash(&mut hasher);
    hasher.finish()
}
