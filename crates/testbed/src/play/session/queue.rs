//! Prompts and the queue in which they wait for their turn.

use serde_json::{Map, Value};

/// A message for the model, from the host or from a background task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct PlayerPrompt {
    /// Its id, which is generated if the host gave none.
    pub(crate) uuid: String,
    /// Whether the id is the host's.
    pub(crate) has_host_id: bool,
    /// A text or blocks.
    pub(crate) content: Value,
    pub(crate) priority: PlayerPromptPriority,
    /// Whether the model is to reply. Otherwise the prompt is only added to the history.
    pub(crate) wants_reply: bool,
    /// The origin of a prompt that is not from the host.
    pub(crate) origin: Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlayerPromptPriority {
    /// Ends the running turn.
    Now,
    /// Joins the running turn as soon as possible.
    Next,
    /// Waits until the running turn has ended.
    Later,
}

impl PlayerPrompt {
    /// Parses a `user` line. `new_id` is used if the host gave no id.
    pub(crate) fn parse(line: &Map<String, Value>, new_id: String) -> Self {
        let given = line.get("uuid").and_then(Value::as_str).map(str::to_owned);
        let priority = match line.get("priority").and_then(Value::as_str) {
            Some("now") => PlayerPromptPriority::Now,
            Some("later") => PlayerPromptPriority::Later,
            _ => PlayerPromptPriority::Next,
        };
        let content = line.get("message").map_or(Value::Null, |it| it["content"].clone());
        Self {
            has_host_id: given.is_some(),
            uuid: given.unwrap_or(new_id),
            content,
            priority,
            wants_reply: line.get("shouldQuery") != Some(&Value::Bool(false)),
            origin: None,
        }
    }

    pub(crate) fn from_text(text: &str, uuid: String) -> Self {
        Self {
            uuid,
            has_host_id: false,
            content: text.into(),
            priority: PlayerPromptPriority::Next,
            wants_reply: true,
            origin: None,
        }
    }

    /// The text without images.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }

    /// The name and the arguments of the slash command, if the prompt is one.
    pub(crate) fn slash_command(&self) -> Option<(String, String)> {
        let text = self.text();
        let rest = text.strip_prefix('/')?;
        let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Some((name.to_owned(), rest.trim().to_owned()))
    }

    /// Whether the prompt can share a turn with others.
    fn joins(&self) -> bool {
        self.priority == PlayerPromptPriority::Next
            && self.wants_reply
            && self.origin.is_none()
            && self.slash_command().is_none()
    }
}

/// Waiting prompts in their order of arrival.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlayerQueue {
    prompts: Vec<PlayerPrompt>,
}

impl PlayerQueue {
    pub(crate) fn push(&mut self, prompt: PlayerPrompt) {
        self.prompts.push(prompt);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.prompts.is_empty()
    }

    /// Whether a prompt is to end the running turn.
    pub(crate) fn is_urgent(&self) -> bool {
        self.prompts.iter().any(|prompt| prompt.priority == PlayerPromptPriority::Now)
    }

    /// Ids of the waiting prompts whose id is the host's.
    pub(crate) fn host_ids(&self) -> Vec<String> {
        let known = self.prompts.iter().filter(|prompt| prompt.has_host_id);
        known.map(|prompt| prompt.uuid.clone()).collect()
    }

    /// Removes a prompt. Returns whether it was waiting.
    pub(crate) fn cancel(&mut self, uuid: &str) -> bool {
        let before = self.prompts.len();
        self.prompts.retain(|prompt| prompt.uuid != uuid);
        self.prompts.len() < before
    }

    /// Removes and returns all prompts of the host.
    pub(crate) fn cancel_all(&mut self) -> Vec<PlayerPrompt> {
        let (kept, removed) =
            std::mem::take(&mut self.prompts).into_iter().partition(|it| it.origin.is_some());
        self.prompts = kept;
        removed
    }

    /// Removes and returns the prompts of the next turn: the most urgent one and, if prompts are
    /// merged, those behind it that can join it.
    pub(crate) fn next_turn(&mut self, merges: bool) -> Vec<PlayerPrompt> {
        let urgent =
            self.prompts.iter().position(|prompt| prompt.priority == PlayerPromptPriority::Now);
        let usual =
            || self.prompts.iter().position(|prompt| prompt.priority == PlayerPromptPriority::Next);
        let Some(first) = urgent.or_else(usual).or((!self.prompts.is_empty()).then_some(0)) else {
            return Vec::new();
        };
        let mut turn = vec![self.prompts.remove(first)];
        while merges && turn[0].joins() && self.prompts.get(first).is_some_and(PlayerPrompt::joins)
        {
            turn.push(self.prompts.remove(first));
        }
        turn
    }

    /// Removes and returns the prompts that join the running turn.
    pub(crate) fn take_joining(&mut self) -> Vec<PlayerPrompt> {
        let (joining, kept) =
            std::mem::take(&mut self.prompts).into_iter().partition(PlayerPrompt::joins);
        self.prompts = kept;
        joining
    }
}

#[cfg(test)]
mod tests {
    use super::{PlayerPrompt, PlayerPromptPriority, PlayerQueue};

    fn queue(prompts: &[(&str, PlayerPromptPriority)]) -> PlayerQueue {
        let mut queue = PlayerQueue::default();
        for (text, priority) in prompts {
            queue.push(PlayerPrompt {
                priority: *priority,
                ..PlayerPrompt::from_text(text, (*text).to_owned())
            });
        }
        queue
    }

    fn next(queue: &mut PlayerQueue) -> Vec<String> {
        queue.next_turn(true).into_iter().map(|prompt| prompt.uuid).collect()
    }

    #[test]
    fn waiting_prompts_share_a_turn_except_for_commands_and_later_ones() {
        use PlayerPromptPriority::{Later, Next};
        let mut queue = queue(&[
            ("one", Next),
            ("two", Next),
            ("/cost", Next),
            ("later", Later),
            ("three", Next),
        ]);
        assert_eq!(next(&mut queue), ["one", "two"]);
        assert_eq!(next(&mut queue), ["/cost"]);
        assert_eq!(next(&mut queue), ["three"]);
        assert_eq!(next(&mut queue), ["later"]);
        assert!(next(&mut queue).is_empty());
    }

    #[test]
    fn an_urgent_prompt_comes_first() {
        let mut queue =
            queue(&[("one", PlayerPromptPriority::Next), ("now", PlayerPromptPriority::Now)]);
        assert!(queue.is_urgent());
        assert_eq!(next(&mut queue), ["now"]);
        assert_eq!(next(&mut queue), ["one"]);
    }
}
