//! Colours for code, as classes of tokens.
//!
//! A grammar's scopes are many and deep; people tell apart a dozen kinds of tokens. So each stretch
//! of code gets one [`Token`], which is a short class in HTML (no inline styles: a page's content
//! security policy forbids them) and a colour in a terminal.
//!
//! Grammars are loaded once, when the first block of code is coloured. Code that is long, or has a
//! line that is, stays plain: grammars are regular expressions that may backtrack, and nobody reads
//! a minified file for its colours.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Code beyond this many bytes stays plain.
pub const LONGEST_CODE: usize = 100 << 10;

/// Code with a line beyond this many bytes stays plain.
pub const LONGEST_LINE: usize = 2 << 10;

/// What a stretch of code is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Token {
    /// A remark.
    Comment,
    /// A string or what stands in one.
    Text,
    /// A number, `true`, a constant, an escape in a string.
    Constant,
    /// A word of the language.
    Keyword,
    /// The name of a function or macro.
    Function,
    /// The name of a type, class or module.
    Type,
    /// A tag of markup, a key of a mapping.
    Tag,
    /// An attribute, a parameter, a variable with a mark.
    Attribute,
    /// A heading in markup.
    Heading,
    /// A line that was added, in a patch.
    Added,
    /// A line that was removed, in a patch.
    Removed,
    /// What the grammar calls wrong.
    Wrong,
}

impl Token {
    /// Its class in HTML.
    pub fn class(self) -> &'static str {
        match self {
            Self::Comment => "tc",
            Self::Text => "ts",
            Self::Constant => "tn",
            Self::Keyword => "tk",
            Self::Function => "tf",
            Self::Type => "tt",
            Self::Tag => "tg",
            Self::Attribute => "ta",
            Self::Heading => "th",
            Self::Added => "ti",
            Self::Removed => "td",
            Self::Wrong => "tx",
        }
    }
}

/// Tells `each` the stretches of the code in order, with what they are; all of it as one plain
/// stretch where the language is unknown or the code too long.
///
/// `language` is what stands behind a fence or the end of a file's name.
pub fn highlight<'a>(code: &'a str, language: &str, mut each: impl FnMut(Option<Token>, &'a str)) {
    let too_long = code.len() > LONGEST_CODE || code.lines().any(|line| line.len() > LONGEST_LINE);
    let Some(grammar) = (!too_long).then(|| grammar(language)).flatten() else {
        each(None, code);
        return;
    };
    let mut state = ParseState::new(grammar);
    let mut stack = ScopeStack::new();
    let mut run = Run { code, start: 0, end: 0, token: None };
    let mut line_start = 0;
    for line in code.split_inclusive('\n') {
        // A grammar that fails in the middle leaves the rest plain.
        let Ok(changes) = state.parse_line(line, &GRAMMARS) else { break };
        for (offset, change) in changes {
            run.reach(line_start + offset, token(&stack), &mut each);
            if stack.apply(&change).is_err() {
                stack = ScopeStack::new();
            }
        }
        line_start += line.len();
        run.reach(line_start, token(&stack), &mut each);
    }
    run.reach(code.len(), None, &mut each);
    run.tell(&mut each);
}

/// The stretch that is being put together from neighbours of the same sort.
struct Run<'a> {
    code: &'a str,
    start: usize,
    end: usize,
    token: Option<Token>,
}

impl<'a> Run<'a> {
    /// What lies between the run's end and `end` is a `token`.
    fn reach(
        &mut self,
        end: usize,
        token: Option<Token>,
        each: &mut impl FnMut(Option<Token>, &'a str),
    ) {
        if end <= self.end {
            return;
        }
        if token != self.token {
            self.tell(each);
            self.start = self.end;
            self.token = token;
        }
        self.end = end;
    }

    fn tell(&self, each: &mut impl FnMut(Option<Token>, &'a str)) {
        if self.start < self.end {
            each(self.token, &self.code[self.start..self.end]);
        }
    }
}

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The grammar for what stands behind a fence: the first word, or the end of a file's name.
fn grammar(language: &str) -> Option<&'static SyntaxReference> {
    let word = language.split([' ', ',', '{', ':', '\t']).next().unwrap_or_default();
    let word = word.trim_start_matches('.').to_ascii_lowercase();
    let name = match word.as_str() {
        "" | "text" | "txt" | "plain" | "plaintext" | "output" => return None,
        "shell" | "console" | "shell-session" | "zsh" | "shellscript" => "bash",
        "jsonc" | "json5" | "jsonl" | "ndjson" => "json",
        "golang" => "go",
        "c++" => "cpp",
        "c#" | "csharp" => "cs",
        "jsx" | "mjs" | "cjs" | "node" => "js",
        "docker" => "dockerfile",
        "patch" => "diff",
        "objective-c" => "m",
        other => other,
    };
    GRAMMARS.find_syntax_by_token(name)
}

/// What the innermost scope that has a rule says; among the rules of a scope the longest wins.
fn token(stack: &ScopeStack) -> Option<Token> {
    stack.as_slice().iter().rev().find_map(|&scope| {
        let rules = RULES.iter().filter(|(prefix, _)| prefix.is_prefix_of(scope));
        rules.max_by_key(|(prefix, _)| prefix.len()).map(|&(_, token)| token)
    })?
}

static RULES: LazyLock<Vec<(Scope, Option<Token>)>> = LazyLock::new(|| {
    let rules = [
        // Code inside a string is code.
        ("source", None),
        ("text", None),
        ("meta.interpolation", None),
        ("meta.template.expression", None),
        ("comment", Some(Token::Comment)),
        ("string", Some(Token::Text)),
        ("constant", Some(Token::Constant)),
        ("support.constant", Some(Token::Constant)),
        ("keyword", Some(Token::Keyword)),
        ("keyword.operator", None),
        ("keyword.operator.word", Some(Token::Keyword)),
        ("keyword.operator.logical.python", Some(Token::Keyword)),
        ("storage", Some(Token::Keyword)),
        ("storage.type.numeric", Some(Token::Constant)),
        ("variable.language", Some(Token::Keyword)),
        ("variable.parameter", Some(Token::Attribute)),
        ("variable.other.readwrite", Some(Token::Attribute)),
        ("variable.other.readwrite.js", None),
        ("variable.function", Some(Token::Function)),
        ("support.function", Some(Token::Function)),
        ("entity.name.function", Some(Token::Function)),
        ("entity.name.type", Some(Token::Type)),
        ("entity.name.class", Some(Token::Type)),
        ("entity.name.struct", Some(Token::Type)),
        ("entity.name.enum", Some(Token::Type)),
        ("entity.name.trait", Some(Token::Type)),
        ("entity.name.impl", Some(Token::Type)),
        ("entity.name.namespace", Some(Token::Type)),
        ("entity.other.inherited-class", Some(Token::Type)),
        ("support.type", Some(Token::Type)),
        ("support.class", Some(Token::Type)),
        ("entity.name.tag", Some(Token::Tag)),
        ("meta.mapping.key", Some(Token::Tag)),
        ("entity.other.attribute-name", Some(Token::Attribute)),
        ("entity.name.section", Some(Token::Heading)),
        ("markup.heading", Some(Token::Heading)),
        ("markup.inserted", Some(Token::Added)),
        ("markup.deleted", Some(Token::Removed)),
        ("meta.diff.range", Some(Token::Comment)),
        ("meta.diff.header", Some(Token::Heading)),
        ("invalid", Some(Token::Wrong)),
    ];
    rules.into_iter().filter_map(|(name, token)| Some((Scope::new(name).ok()?, token))).collect()
});

#[cfg(test)]
mod tests {
    use super::{LONGEST_CODE, Token, highlight};

    fn tokens<'a>(code: &'a str, language: &str) -> Vec<(Option<Token>, &'a str)> {
        let mut found = Vec::new();
        highlight(code, language, |token, text| found.push((token, text)));
        let whole: String = found.iter().map(|(_, text)| *text).collect();
        assert_eq!(whole, code);
        found
    }

    #[test]
    fn words_strings_and_remarks_are_told_apart() {
        let found = tokens("fn main() { print(\"hi\"); } // done\n", "rust,ignore");
        assert!(found.contains(&(Some(Token::Function), "main")), "{found:?}");
        assert!(found.contains(&(Some(Token::Text), "\"hi\"")), "{found:?}");
        assert!(found.iter().any(|(token, _)| *token == Some(Token::Keyword)), "{found:?}");
        assert!(
            found
                .iter()
                .any(|(token, text)| *token == Some(Token::Comment) && text.contains("done"))
        );
    }

    #[test]
    fn common_names_of_languages_are_known() {
        for (language, code) in [
            ("ts", "const a: number = 1"),
            ("tsx", "const a = <b>c</b>"),
            ("typescript", "let a = 'b'"),
            ("javascript", "let a = 'b'"),
            ("python", "def f(): return 1"),
            ("sh", "echo \"a\""),
            ("console", "echo \"a\""),
            ("toml", "a = 1"),
            ("yaml", "a: 1"),
            ("json", "{\"a\": 1}"),
            ("jsonl", "{\"a\": 1}"),
            ("go", "func main() {}"),
            ("diff", "-a\n+b\n"),
            ("html", "<p class=\"a\">"),
            ("css", "a { color: red }"),
            ("sql", "select 1"),
            ("dockerfile", "FROM a"),
            ("c", "int a = 1;"),
            ("cpp", "int a = 1;"),
            ("java", "class A {}"),
            ("ruby", "def a; end"),
            (".rs", "fn a() {}"),
        ] {
            assert!(tokens(code, language).iter().any(|(token, _)| token.is_some()), "{language}");
        }
    }

    #[test]
    fn what_is_unknown_or_long_stays_plain() {
        assert_eq!(tokens("graph TD", "mermaid"), [(None, "graph TD")]);
        assert_eq!(tokens("fn", ""), [(None, "fn")]);
        assert_eq!(tokens("x", "\"><script>"), [(None, "x")]);
        let long = "fn a() {}\n".repeat(LONGEST_CODE / 10 + 1);
        assert_eq!(tokens(&long, "rust"), [(None, long.as_str())]);
        let wide = "a".repeat(3000);
        assert_eq!(tokens(&wide, "rust"), [(None, wide.as_str())]);
    }
}
