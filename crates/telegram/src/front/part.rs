//! One message as part of a prompt.

use crate::deed::{Attachment, Left};
use crate::front::command::unescaped;
use crate::front::{Rules, attachment};
use crate::place::{ChatId, MessageId};
use crate::update::{ForwardOrigin, Message, User};

/// Characters of a message that are quoted when it is replied to.
const QUOTE: usize = 500;

/// UTF-16 units above which a text is probably the first half of one: clients cut what is pasted
/// into messages of 4,096, at the end of a line or a word.
const NEARLY_FULL: usize = 3_800;

/// One message as part of a prompt.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Part {
    pub(super) chat: ChatId,
    pub(super) message: MessageId,
    /// When it was sent, in seconds since 1970.
    pub(super) date: u64,
    /// The album it belongs to.
    pub(super) album: Option<String>,
    /// Its words.
    pub(super) text: String,
    /// Who wrote them, where somebody else did.
    pub(super) forwarded: Option<String>,
    pub(super) reply: Option<Reply>,
    pub(super) attachment: Option<Attachment>,
    pub(super) left: Option<Left>,
}

/// What a message replies to.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reply {
    pub(super) to: Option<MessageId>,
    pub(super) quote: Option<String>,
    /// Whether it is a message of ours: then it may answer a question of the agent.
    pub(super) ours: bool,
}

impl Part {
    /// What a message adds to a prompt; it may be nothing.
    pub(super) fn read(message: &Message, rules: &Rules) -> Self {
        let (attachment, mut left) = match attachment::of(message, rules) {
            Some(Ok(attachment)) => (Some(attachment), None),
            Some(Err(left)) => (None, Some(left)),
            None => (None, None),
        };
        let emoji = message.sticker.as_ref().and_then(|it| it.emoji.as_deref());
        let words = message.text.as_deref().or(message.caption.as_deref()).or(emoji);
        let words = words.unwrap_or_default().trim();
        let forwarded = message.forward_origin.as_ref().map(author);
        let text = match &forwarded {
            Some(_) => words,
            None => unescaped(without_mention(words, &rules.username)),
        };
        if text.is_empty() && attachment.is_none() && left.is_none() {
            left = unreadable(message).map(Left::Unreadable);
        }
        Self {
            chat: message.chat.id,
            message: message.message_id,
            date: message.date,
            album: message.media_group_id.clone(),
            text: text.to_owned(),
            forwarded,
            reply: reply(message, rules),
            attachment,
            left,
        }
    }

    /// Whether there is anything in it for the agent.
    pub(super) fn has_content(&self) -> bool {
        !self.text.is_empty() || self.attachment.is_some()
    }

    /// Whether it is words and nothing else, and all of them.
    pub(super) fn is_brief(&self) -> bool {
        self.attachment.is_none()
            && self.left.is_none()
            && self.forwarded.is_none()
            && self.album.is_none()
            && self.text.encode_utf16().count() < NEARLY_FULL
    }

    /// Whether it may answer a question of the agent.
    pub(super) fn may_answer(&self) -> bool {
        self.is_brief() && self.reply.as_ref().is_some_and(|it| it.ours)
    }

    pub(super) fn quote(&self) -> Option<&str> {
        self.reply.as_ref()?.quote.as_deref()
    }
}

/// All words of several parts.
///
/// The first one's quote is left out: what the first part replies to may be a question of the
/// agent, and then it is no part of the answer.
pub(super) fn joined(parts: &[Part]) -> String {
    let mut text = String::new();
    let mut before: Option<&Part> = None;
    let first = parts.first().and_then(|it| it.reply.clone());
    for part in parts {
        // Every part of an album replies to what the album replies to.
        let quote = part.quote().filter(|_| part.reply != first);
        let same_author = before.is_some_and(|it| it.forwarded == part.forwarded);
        let author = part.forwarded.as_deref().filter(|_| !same_author);
        let head = author.map(|name| format!("Forwarded from {name}:"));
        let words = match (part.text.as_str(), &part.attachment, author) {
            // A name with nothing under it would be taken to belong to what follows.
            ("", Some(attachment), Some(_)) => format!("({})", attachment.name),
            (text, _, _) => text.to_owned(),
        };
        let lines = [quote.map(ToOwned::to_owned), head, Some(words)];
        let block: Vec<_> = lines.into_iter().flatten().filter(|it| !it.is_empty()).collect();
        if block.is_empty() {
            continue;
        }
        if !text.is_empty() {
            let plain = quote.is_none() && part.forwarded.is_none() && same_author;
            text.push_str(if plain { "\n" } else { "\n\n" });
        }
        text.push_str(&block.join("\n"));
        before = Some(part);
    }
    text
}

/// A person's name in one line.
pub(super) fn name(user: &User) -> String {
    let name = plain(&user.first_name);
    match (name.is_empty(), &user.username) {
        (false, _) => name,
        (true, Some(username)) => format!("@{}", plain(username)),
        (true, None) => user.id.0.to_string(),
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !c.is_control()).take(64).collect::<String>().trim().to_owned()
}

fn author(origin: &ForwardOrigin) -> String {
    let chat = origin.sender_chat.as_ref().or(origin.chat.as_ref());
    let title = chat.and_then(|chat| chat.title.as_deref());
    let found = match (&origin.sender_user, origin.sender_user_name.as_deref().or(title)) {
        (Some(user), _) => name(user),
        (None, Some(name)) => plain(name),
        (None, None) => String::new(),
    };
    if found.is_empty() { "somebody".to_owned() } else { found }
}

/// Words without the name of the bot in front of them: in a group, that is how it is spoken to.
fn without_mention<'t>(text: &'t str, username: &str) -> &'t str {
    let Some(rest) = text.strip_prefix('@') else { return text };
    match rest.split_at_checked(username.len()) {
        Some((name, rest))
            if !username.is_empty()
                && name.eq_ignore_ascii_case(username)
                && !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') =>
        {
            rest.trim_start_matches([',', ':']).trim_start()
        }
        _ => text,
    }
}

fn reply(message: &Message, rules: &Rules) -> Option<Reply> {
    let replied = message.reply_to_message.as_deref().filter(|it| !is_root(it, message));
    let picked = message.quote.as_ref().map(|it| it.text.as_str());
    if replied.is_none() && picked.is_none() {
        return None;
    }
    let whole = replied.and_then(|it| it.text.as_deref().or(it.caption.as_deref()));
    let author = replied.and_then(|it| it.from.as_ref());
    let ours = author.is_some_and(|it| it.id == rules.bot);
    // Whose words they are is worth saying only of somebody else's.
    let own = author.map(|it| it.id) == message.from.as_ref().map(|it| it.id);
    let author = author.filter(|_| !ours && !own).map(name);
    let quote = picked.or(whole).map(str::trim).filter(|it| !it.is_empty());
    let quote = quote.map(|words| {
        let words = shortened(words);
        let words = match author {
            Some(name) => format!("{name}: {words}"),
            None => words,
        };
        words.lines().map(|line| format!("> {line}").trim_end().to_owned()).collect::<Vec<_>>()
    });
    Some(Reply {
        to: replied.map(|it| it.message_id),
        quote: quote.map(|lines| lines.join("\n")),
        ours,
    })
}

/// Whether a message only seems to be replied to: everything in a topic replies to the message that
/// opened it, in some clients.
fn is_root(replied: &Message, message: &Message) -> bool {
    replied.forum_topic_created.is_some()
        || message.is_topic_message
            && message.message_thread_id.is_some_and(|it| it.0 == replied.message_id.0)
}

fn shortened(words: &str) -> String {
    match words.char_indices().nth(QUOTE) {
        Some((end, _)) => format!("{}…", words[..end].trim_end()),
        None => words.to_owned(),
    }
}

/// What a message is that no prompt can be made of; nothing for what Telegram says by itself.
fn unreadable(message: &Message) -> Option<&'static str> {
    let sorts = [
        (message.sticker.is_some(), "that sticker"),
        (message.poll.is_some(), "polls"),
        (message.location.is_some(), "locations"),
        (message.contact.is_some(), "contacts"),
        (message.dice.is_some(), "dice"),
        (message.game.is_some(), "games"),
        (message.story.is_some(), "stories"),
        (message.checklist.is_some(), "checklists"),
        (message.paid_media.is_some(), "paid media"),
    ];
    sorts.into_iter().find_map(|(is, sort)| is.then_some(sort))
}
