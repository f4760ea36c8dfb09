//! Replies to `/search`.

use search::{FoundSession, SearchPage, SearchResult, SearchRole};
use session::Roots;
use view::telegram::TextFormat;
use wire::consent::visible;

use super::sessions::{age, short_path};
use super::{BotReply, resume_button, shortened};
use crate::bot::BotButton;

/// Characters of a session's title.
const TITLE: usize = 48;

/// `/search` without words.
pub fn search_usage() -> BotReply {
    super::formatted("What should I look for? Use `/search WORDS`.").into()
}

pub fn search_failed() -> BotReply {
    "The sessions could not be searched. Try again in a moment; the log of the bridge says why."
        .into()
}

/// What was found, with a button to continue each of the sessions. `now` is in milliseconds since 1970.
pub fn search_results(page: &SearchPage, roots: &Roots, now: u64) -> BotReply {
    let mut reply = BotReply::default();
    if page.results.is_empty() {
        reply.text.push("Nothing was found.");
    }
    let mut listed: Vec<FoundSession> = Vec::new();
    for result in &page.results {
        let known = listed.iter().position(|it| *it == result.session);
        let number = known.map_or(listed.len() + 1, |index| index + 1);
        let title = title(result);
        if known.is_none() {
            listed.push(result.session);
            reply.buttons.push(vec![continue_button(format!("{number}. {title}"), result.session)]);
        }
        if !reply.text.is_empty() {
            reply.text.push("\n\n");
        }
        reply.text.push(&format!("{number}. "));
        reply.text.push_formatted(TextFormat::Bold, &title);
        let who = match result.role {
            SearchRole::User => "prompt",
            SearchRole::Assistant => "answer",
            SearchRole::Tool => "tool",
        };
        let place = short_path(&result.directory, roots);
        reply.text.push(&format!(" · {place} · {who} · {}\n", age(now.saturating_sub(result.at))));
        for part in &result.snippet {
            let text = visible(&part.text);
            if part.is_match {
                reply.text.push_formatted(TextFormat::Bold, &text);
            } else {
                reply.text.push(&text);
            }
        }
    }
    if page.more.is_some() {
        reply.text.push("\n\n… and more. Use more words to narrow it down.");
    }
    if let Some(progress) = page.progress {
        let left = progress.total.saturating_sub(progress.done);
        reply.text.push(&format!("\n\n{left} sessions are not indexed yet."));
    }
    reply
}

fn title(result: &SearchResult) -> String {
    let title = result.title.as_deref().map(|it| shortened(&visible(it), TITLE));
    let id = match result.session {
        FoundSession::Own(id) => id.0,
        FoundSession::OfCli(id) => id,
    };
    let short: String = id.simple().to_string().chars().take(8).collect();
    title.filter(|it| !it.is_empty()).unwrap_or_else(|| format!("Session {short}"))
}

fn continue_button(label: String, session: FoundSession) -> BotButton {
    match session {
        FoundSession::Own(id) => resume_button(label, id),
        FoundSession::OfCli(id) => BotButton { label, data: format!("t:{}", id.simple()) },
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use journal::SessionId;
    use search::{FoundSession, SearchPage, SearchResult, SearchRole, SnippetPart};
    use session::Roots;
    use uuid::Uuid;

    use super::search_results;

    #[test]
    fn each_session_that_was_found_has_one_button() {
        let result = |session, title: Option<&str>| SearchResult {
            session,
            title: title.map(str::to_owned),
            directory: PathBuf::from("/"),
            at: 60_000,
            role: SearchRole::User,
            position: (1, 0),
            snippet: vec![
                SnippetPart { text: "a ".to_owned(), is_match: false },
                SnippetPart { text: "word".to_owned(), is_match: true },
            ],
        };
        let own = FoundSession::Own(SessionId(Uuid::from_u128(1)));
        let other = FoundSession::OfCli(Uuid::from_u128(2));
        let results =
            vec![result(own, Some("Mine")), result(other, None), result(own, Some("Mine"))];
        let page = SearchPage { results, ..SearchPage::default() };
        let roots = Roots::new(&["/".into()]).unwrap();
        let reply = search_results(&page, &roots, 120_000);
        let text = reply.plain_text();
        assert!(
            text.starts_with("1. Mine · ") && text.contains("\na word\n\n2. Session 0000"),
            "{text}"
        );
        assert!(text.contains("\n\n1. Mine"), "{text}");
        let data: Vec<&str> = reply.buttons.iter().flatten().map(|it| it.data.as_str()).collect();
        assert_eq!(data.len(), 2);
        assert!(data[0].starts_with("r:") && data[1].starts_with("t:"), "{data:?}");
        assert_eq!(
            search_results(&SearchPage::default(), &roots, 0).plain_text(),
            "Nothing was found."
        );
    }
}
