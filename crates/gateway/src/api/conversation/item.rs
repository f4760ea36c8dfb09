//! Items of a conversation as clients see them: their HTML, and how much of a long one.

use serde::Serialize;
use utoipa::ToSchema;
use view::html::{self, HtmlOptions};
use view::{CallState, Item, ItemBody, PromptAuthor, SystemMessage, ToolAction};

use super::parts::{CallStateName, PromptStateName};
use super::streamed_text::StreamedText;
use crate::problem::ActorResponse;

/// A longer element is truncated until the client asks for the whole item.
const MAX_ELEMENT_BYTES: usize = 32 << 10;

/// How much of a long text a truncated element shows.
const EXCERPT_BYTES: usize = 4 << 10;

/// How much of a prompt's text is sent beside its element.
const MAX_PROMPT_BYTES: usize = 8 << 10;

/// One thing in a conversation, ready to be put on a page.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Item)]
pub(crate) struct ItemResponse {
    /// Stable for as long as the session exists.
    id: String,
    turn: u64,
    /// The item of the call whose sub-agent wrote or did it.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    /// Its place in the conversation: compare the first number, then the second.
    position: (u64, u32),
    /// The revision of its last change.
    rev: u64,
    /// The first entry of the journal that belongs to it; `rev` is the last.
    first: u64,
    /// When it was added, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    at: Option<u64>,
    /// It is still being written.
    #[serde(skip_serializing_if = "is_false")]
    open: bool,
    kind: ItemKind,
    /// The element that shows it; empty if there is nothing to show.
    pub(super) html: String,
    /// The length of the HTML in its `.stable`, in UTF-16 code units, while it is being written.
    #[serde(skip_serializing_if = "Option::is_none")]
    stable_length: Option<u64>,
    /// The element shows only a part.
    #[serde(skip_serializing_if = "is_false")]
    truncated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<CallResponse>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt: Option<PromptItemResponse>,
    /// It is about the agent's process and the like, and worth hiding by default.
    #[serde(skip_serializing_if = "is_false")]
    housekeeping: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ItemKind {
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
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Call)]
pub(crate) struct CallResponse {
    /// The tool, as the protocol spells it.
    tool: String,
    /// What the tool does: `read`, `edit`, `run`, ….
    #[schema(value_type = String)]
    action: ToolAction,
    /// What it does it to.
    target: String,
    state: CallStateName,
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<u64>,
    /// The request it waits for, or waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<String>,
    /// How many images its result has.
    images: usize,
    /// The entry of the journal that has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    seq: Option<u64>,
}

/// What a page needs to know of a prompt beside its element.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Prompt)]
pub(crate) struct PromptItemResponse {
    /// Its id, if its sender gave it one.
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    /// The text; truncated if it is very long.
    text: String,
    images: usize,
    state: PromptStateName,
    author: PromptAuthorName,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<ActorResponse>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = PromptAuthor)]
pub(crate) enum PromptAuthorName {
    User,
    /// The CLI, which sends the texts of skills, hooks and notifications this way.
    Cli,
    /// The main agent, to its sub-agent.
    Agent,
}

impl ItemResponse {
    /// An item in a conversation. A long one is truncated.
    pub(crate) fn new(item: &Item, base: Option<&str>) -> Self {
        let look = HtmlOptions { base, full: false };
        // Text never becomes shorter as HTML, so a long one need not be rendered to know that.
        let mut truncated = item.text_bytes() > 2 * MAX_ELEMENT_BYTES;
        let mut html = String::new();
        if !truncated {
            html = element(item, look);
            truncated = html.len() > MAX_ELEMENT_BYTES;
        }
        if truncated {
            html = element(&excerpt(item), look);
        }
        if html.len() > MAX_ELEMENT_BYTES {
            // The markup alone is too long, so only the heading is shown.
            html = element(&without_content(item), look);
        }
        let mut response = Self::with_html(item, html);
        response.truncated |= truncated;
        response
    }

    /// An item with its whole element.
    pub(crate) fn whole(item: &Item, base: Option<&str>) -> Self {
        Self::with_html(item, element(item, HtmlOptions { base, full: true }))
    }

    /// An item that is being written, with the elements its text is appended to.
    pub(super) fn streamed(item: &Item, text: &mut StreamedText) -> Self {
        let mut out = String::from("<div class=\"item ");
        let thinking = matches!(item.body, ItemBody::Thinking { .. });
        out.push_str(if thinking { "thinking" } else { "text" });
        out.push_str("\" data-item=\"");
        html::escape(item.id.as_str(), &mut out);
        out.push_str("\">");
        if thinking {
            out.push_str("<details><summary>Thinking</summary><div class=\"words\">");
        }
        out.push_str("<div class=\"stable\">");
        out.push_str(text.stable());
        out.push_str("</div><div class=\"tail\">");
        out.push_str(text.tail());
        out.push_str("</div>");
        out.push_str(if thinking { "</div></details></div>" } else { "</div>" });
        let mut response = Self::with_html(item, out);
        response.stable_length = Some(text.stable_length());
        response
    }

    fn with_html(item: &Item, html: String) -> Self {
        let (call, prompt) = match &item.body {
            ItemBody::Call(call) => (Some(CallResponse::from(&**call)), None),
            ItemBody::Prompt(prompt) => (None, Some(PromptItemResponse::new(item, prompt))),
            _ => (None, None),
        };
        Self {
            id: item.id.to_string(),
            turn: item.turn,
            parent: item.parent.as_ref().map(ToString::to_string),
            position: (item.position.0, item.position.1),
            rev: item.rev.0,
            first: item.first,
            at: item.at,
            open: item.open,
            kind: ItemKind::of(&item.body),
            html,
            stable_length: None,
            truncated: item.trimmed,
            call,
            prompt,
            housekeeping: SystemMessage::is_housekeeping(&item.body),
        }
    }
}

impl ItemKind {
    fn of(body: &ItemBody) -> Self {
        match body {
            ItemBody::Prompt(_) => Self::Prompt,
            ItemBody::Text { .. } => Self::Text,
            ItemBody::Thinking { .. } => Self::Thinking,
            ItemBody::Call(_) => Self::Call,
            ItemBody::Hook(_) => Self::Hook,
            ItemBody::Compaction(_) => Self::Compaction,
            ItemBody::Retry(_) => Self::Retry,
            ItemBody::Failure { .. } => Self::Failure,
            ItemBody::Interruption => Self::Interruption,
            ItemBody::Notice(_) => Self::Notice,
            ItemBody::Agent(_) => Self::Agent,
            ItemBody::Reset => Self::Reset,
            ItemBody::Media { .. } => Self::Media,
            ItemBody::Raw(_) => Self::Raw,
        }
    }
}

impl From<&view::Call> for CallResponse {
    fn from(call: &view::Call) -> Self {
        let result = call.result.as_ref();
        Self {
            tool: call.tool.clone(),
            action: call.action,
            target: call.target.clone(),
            state: call.state.into(),
            started: call.started,
            ended: call.ended,
            request: call.permission.as_ref().and_then(|it| it.request.clone()),
            images: result.map_or(0, |it| it.images.len()),
            seq: result.filter(|it| !it.images.is_empty()).map(|it| it.seq),
        }
    }
}

impl PromptItemResponse {
    fn new(item: &Item, prompt: &view::PromptItem) -> Self {
        let text = prompt.text.as_str();
        let end = text.floor_char_boundary(MAX_PROMPT_BYTES.min(text.len()));
        Self {
            id: item.id.as_str().strip_prefix("p:").map(str::to_owned),
            text: text[..end].to_owned(),
            images: prompt.images,
            state: prompt.state.into(),
            author: match prompt.author {
                PromptAuthor::User => PromptAuthorName::User,
                PromptAuthor::Cli => PromptAuthorName::Cli,
                PromptAuthor::Agent => PromptAuthorName::Agent,
            },
            by: prompt.by.clone().map(ActorResponse::from),
        }
    }
}

fn element(item: &Item, look: HtmlOptions<'_>) -> String {
    let mut out = String::new();
    let unfinished;
    let (item, children) = match &item.body {
        // Half of an input shows nothing, and would be sent again with every character.
        ItemBody::Call(call) if call.state == CallState::Writing => {
            unfinished = without_content(item);
            (&unfinished, "")
        }
        // The element for a sub-agent's items must exist before the first of them.
        ItemBody::Call(call) if call.agent.is_some() || call.action == ToolAction::Delegate => {
            (item, "\n")
        }
        _ => (item, ""),
    };
    html::item(item, look, children, &mut out);
    out
}

/// An item with excerpts of its long texts.
fn excerpt(item: &Item) -> Item {
    let mut item = item.clone();
    match &mut item.body {
        ItemBody::Prompt(prompt) => truncate(&mut prompt.text),
        ItemBody::Text { text }
        | ItemBody::Thinking { text, .. }
        | ItemBody::Failure { text, .. } => {
            truncate(text);
        }
        ItemBody::Call(call) => {
            if let Some(outcome) = &mut call.result {
                let before = outcome.text.len();
                truncate(&mut outcome.text);
                outcome.omitted_bytes += (before - outcome.text.len()) as u64;
            }
        }
        ItemBody::Hook(hook) => truncate(&mut hook.output),
        ItemBody::Compaction(compaction) => truncate(&mut compaction.summary),
        ItemBody::Notice(notice) => truncate(&mut notice.text),
        ItemBody::Raw(raw) => truncate(&mut raw.text),
        ItemBody::Retry(retry) => truncate(&mut retry.error),
        ItemBody::Interruption | ItemBody::Agent(_) | ItemBody::Reset | ItemBody::Media { .. } => {}
    }
    item
}

/// An item without the input and the diff of its call.
fn without_content(item: &Item) -> Item {
    let mut item = excerpt(item);
    if let ItemBody::Call(call) = &mut item.body {
        call.input.clear();
        if let Some(outcome) = &mut call.result {
            outcome.hunks = None;
        }
    }
    item
}

fn truncate(text: &mut String) {
    text.truncate(text.floor_char_boundary(EXCERPT_BYTES.min(text.len())));
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
pub(super) fn is_false(flag: &bool) -> bool {
    !*flag
}
