//! Prompts that wait for their turn.

use serde_json::{Map, Value};

/// Something to be answered.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Prompt {
    /// Its id; made up where the host gave none.
    pub(crate) uuid: String,
    /// Whether the host gave it.
    pub(crate) stamped: bool,
    /// A text or blocks.
    pub(crate) content: Value,
    /// How urgent it is.
    pub(crate) priority: Priority,
    /// Whether it is to be answered, or only remembered.
    pub(crate) query: bool,
    /// Whence it comes, where no host said it.
    pub(crate) origin: Option<Value>,
    /// Whether it may be a slash command.
    pub(crate) command: bool,
}

/// How urgent a prompt is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Ends what runs.
    Now,
    /// Joins what runs as soon as it can.
    Next,
    /// Waits until it is done.
    Later,
}

impl Prompt {
    /// Reads a `user` line; `fresh` is its id where the host gave none.
    pub(crate) fn read(line: &Map<String, Value>, fresh: String) -> Self {
        let given = line.get("uuid").and_then(Value::as_str).map(str::to_owned);
        let priority = match line.get("priority").and_then(Value::as_str) {
            Some("now") => Priority::Now,
            Some("later") => Priority::Later,
            _ => Priority::Next,
        };
        let content = line.get("message").map_or(Value::Null, |it| it["content"].clone());
        Self {
            stamped: given.is_some(),
            uuid: given.unwrap_or(fresh),
            content,
            priority,
            query: line.get("shouldQuery") != Some(&Value::Bool(false)),
            origin: None,
            command: line.get("client_composed") != Some(&Value::Bool(true)),
        }
    }

    /// A prompt that is a text.
    pub(crate) fn text(text: &str, uuid: String) -> Self {
        Self {
            uuid,
            stamped: false,
            content: text.into(),
            priority: Priority::Next,
            query: true,
            origin: None,
            command: true,
        }
    }

    /// Its text, without pictures.
    pub(crate) fn words(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => {
                let texts = blocks.iter().filter_map(|block| block["text"].as_str());
                texts.collect::<Vec<_>>().join("\n")
            }
            _ => String::new(),
        }
    }

    /// The command it names, and what stands behind it.
    pub(crate) fn slash(&self) -> Option<(String, String)> {
        let words = self.words();
        let rest = words.strip_prefix('/').filter(|_| self.command)?;
        let (name, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        Some((name.to_owned(), rest.trim().to_owned()))
    }
}

/// Prompts in the order they came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Queue {
    prompts: Vec<Prompt>,
}

impl Queue {
    /// Lets a prompt wait.
    pub(crate) fn push(&mut self, prompt: Prompt) {
        self.prompts.push(prompt);
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.prompts.is_empty()
    }

    /// Whether something is too urgent to wait for the end of the turn.
    pub(crate) fn is_urgent(&self) -> bool {
        self.prompts.iter().any(|prompt| prompt.priority == Priority::Now)
    }

    /// Ids of waiting prompts that a host knows.
    pub(crate) fn known(&self) -> Vec<String> {
        let stamped = self.prompts.iter().filter(|prompt| prompt.stamped);
        stamped.map(|prompt| prompt.uuid.clone()).collect()
    }

    /// Takes a prompt back.
    pub(crate) fn cancel(&mut self, uuid: &str) -> bool {
        let before = self.prompts.len();
        self.prompts.retain(|prompt| prompt.uuid != uuid);
        self.prompts.len() < before
    }

    /// Takes every prompt of a host back.
    pub(crate) fn cancel_all(&mut self) -> Vec<Prompt> {
        let (kept, gone) =
            std::mem::take(&mut self.prompts).into_iter().partition(|it| it.origin.is_some());
        self.prompts = kept;
        gone
    }

    /// What the next turn answers: the most urgent prompt, and those behind it that can join it.
    pub(crate) fn next_turn(&mut self) -> Vec<Prompt> {
        let urgent = self.prompts.iter().position(|prompt| prompt.priority == Priority::Now);
        let usual = || self.prompts.iter().position(|prompt| prompt.priority == Priority::Next);
        let Some(first) = urgent.or_else(usual).or((!self.prompts.is_empty()).then_some(0)) else {
            return Vec::new();
        };
        let mut turn = vec![self.prompts.remove(first)];
        while turn[0].joins() && self.prompts.get(first).is_some_and(Prompt::joins) {
            turn.push(self.prompts.remove(first));
        }
        turn
    }

    /// What joins a turn that runs tools.
    pub(crate) fn folded(&mut self) -> Vec<Prompt> {
        let (folded, kept) = std::mem::take(&mut self.prompts).into_iter().partition(Prompt::joins);
        self.prompts = kept;
        folded
    }
}

impl Prompt {
    /// Whether it can be answered together with others.
    fn joins(&self) -> bool {
        self.priority == Priority::Next
            && self.query
            && self.origin.is_none()
            && self.slash().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::{Priority, Prompt, Queue};

    fn queue(prompts: &[(&str, Priority)]) -> Queue {
        let mut queue = Queue::default();
        for (text, priority) in prompts {
            queue.push(Prompt { priority: *priority, ..Prompt::text(text, (*text).to_owned()) });
        }
        queue
    }

    fn next(queue: &mut Queue) -> Vec<String> {
        queue.next_turn().into_iter().map(|prompt| prompt.uuid).collect()
    }

    #[test]
    fn prompts_that_wait_are_answered_together_but_for_commands_and_later_ones() {
        use Priority::{Later, Next};
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
    fn what_is_urgent_comes_first() {
        let mut queue = queue(&[("one", Priority::Next), ("now", Priority::Now)]);
        assert!(queue.is_urgent());
        assert_eq!(next(&mut queue), ["now"]);
        assert_eq!(next(&mut queue), ["one"]);
    }
}
