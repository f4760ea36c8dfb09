//! Items of a conversation, as they are sent.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use view::{Body, CallState, Item, Remark, Speaker, Verb};
use wire::note::{Actor, PromptState};

/// Something a person sees as one thing, ready to be put on a page.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownItem {
    /// What it is called for as long as the session exists.
    pub id: String,
    /// The turn it belongs to.
    pub turn: u64,
    /// The call whose sub-agent said or did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Where it stands: compare the first number, then the second.
    pub place: (u64, u32),
    /// When it last changed.
    pub rev: u64,
    /// The first entry of the journal that tells of it; `rev` is the last.
    pub first: u64,
    /// When it came, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// It is still being written.
    #[serde(default, skip_serializing_if = "is_false")]
    pub open: bool,
    /// What sort of thing it is: `text`, `call`, `prompt`, ….
    pub kind: ItemKind,
    /// The element that shows it; empty where there is nothing to show.
    pub html: String,
    /// How long the HTML in its `.settled` is, in UTF-16 code units, while it is being written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u64>,
    /// The element shows only a part.
    #[serde(default, skip_serializing_if = "is_false")]
    pub cut: bool,
    /// The call, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<ShownCall>,
    /// The prompt, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<ShownPrompt>,
    /// It tells of the machinery, and is worth hiding.
    #[serde(default, skip_serializing_if = "is_false")]
    pub housekeeping: bool,
}

/// What sort of thing an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "they are named as in the document, which has a word on each")]
pub enum ItemKind {
    Prompt,
    Text,
    Thinking,
    Call,
    Hook,
    Compaction,
    Retry,
    Failure,
    Interruption,
    Notice,
    Agent,
    Reset,
    Media,
    Raw,
}

/// What a page needs to know of a call beside its element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownCall {
    /// The tool, as the protocol spells it.
    pub tool: String,
    /// What it does, in a word.
    #[schema(value_type = String)]
    pub verb: Verb,
    /// What it does it to.
    pub target: String,
    /// Where it stands.
    #[schema(value_type = String)]
    pub state: CallState,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<u64>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<u64>,
    /// The request to a person it waits for, or waited for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<String>,
    /// How many pictures its result has.
    pub pictures: usize,
    /// The entry of the journal that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<u64>,
}

/// What a page needs to know of a prompt beside its element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ShownPrompt {
    /// Its id, where its sender gave it one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The words; cut where they are very long.
    pub text: String,
    /// How many pictures came with it.
    pub images: usize,
    /// Where it stands.
    #[schema(value_type = String)]
    pub state: PromptState,
    /// Who speaks.
    #[schema(value_type = String)]
    pub speaker: Speaker,
    /// Who sent it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<super::Person>)]
    pub by: Option<Actor>,
}

/// The longest words of a prompt that go beside its element.
const PROMPT_BYTES: usize = 8 << 10;

impl ShownItem {
    /// An item with its element.
    pub(crate) fn new(item: &Item, html: String) -> Self {
        let (call, prompt) = match &item.body {
            Body::Call(call) => (Some(ShownCall::of(call)), None),
            Body::Prompt(prompt) => (None, Some(ShownPrompt::of(item, prompt))),
            _ => (None, None),
        };
        Self {
            id: item.id.to_string(),
            turn: item.turn,
            parent: item.parent.as_ref().map(ToString::to_string),
            place: (item.place.0, item.place.1),
            rev: item.rev.0,
            first: item.first,
            at: item.at,
            open: item.open,
            kind: ItemKind::of(&item.body),
            html,
            settled: None,
            cut: item.shed,
            call,
            prompt,
            housekeeping: Remark::is_housekeeping(&item.body),
        }
    }
}

impl ItemKind {
    fn of(body: &Body) -> Self {
        match body {
            Body::Prompt(_) => Self::Prompt,
            Body::Text { .. } => Self::Text,
            Body::Thinking { .. } => Self::Thinking,
            Body::Call(_) => Self::Call,
            Body::Hook(_) => Self::Hook,
            Body::Compaction(_) => Self::Compaction,
            Body::Retry(_) => Self::Retry,
            Body::Failure { .. } => Self::Failure,
            Body::Interruption => Self::Interruption,
            Body::Notice(_) => Self::Notice,
            Body::Agent(_) => Self::Agent,
            Body::Reset => Self::Reset,
            Body::Media { .. } => Self::Media,
            Body::Raw(_) => Self::Raw,
        }
    }
}

impl ShownCall {
    fn of(call: &view::Call) -> Self {
        let outcome = call.outcome.as_ref();
        Self {
            tool: call.tool.clone(),
            verb: call.verb,
            target: call.target.clone(),
            state: call.state,
            began: call.began,
            ended: call.ended,
            request: call.permission.as_ref().and_then(|it| it.request.clone()),
            pictures: outcome.map_or(0, |it| it.pictures.len()),
            seq: outcome.filter(|it| !it.pictures.is_empty()).map(|it| it.seq),
        }
    }
}

impl ShownPrompt {
    fn of(item: &Item, prompt: &view::Prompt) -> Self {
        let text = prompt.text.as_str();
        let end = text.floor_char_boundary(PROMPT_BYTES.min(text.len()));
        Self {
            id: item.id.as_str().strip_prefix("p:").map(str::to_owned),
            text: text[..end].to_owned(),
            images: prompt.images,
            state: prompt.state,
            speaker: prompt.speaker,
            by: prompt.by.clone(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}
