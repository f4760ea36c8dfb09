//! Syntax highlighting: code as classified tokens.
//!
//! The scopes of a grammar are many and deep, but a reader distinguishes only a dozen kinds. Each part
//! of the code gets one [`SyntaxToken`], which is a short class in HTML (inline styles would violate the
//! page's content security policy) and a colour in a terminal.
//!
//! Grammars are loaded when the first block of code is coloured. Long code, and code with a long line,
//! stays plain: grammars are regular expressions that may backtrack. Of slow grammars, only the
//! beginning is coloured.

use std::sync::LazyLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

/// Longer code stays plain.
pub const MAX_CODE_BYTES: usize = 100 << 10;

/// Grammars that take more than 10 µs for a byte, where most take 1 to 5. Behind so many bytes their code
/// is plain, so that no block takes much more than half a second.
const SLOW_GRAMMARS: &[(&str, usize)] = &[
    ("Less", 24 << 10),
    ("Makefile", 24 << 10),
    // Code in it is read with the grammar of its own language, too.
    ("Markdown", 12 << 10),
    ("R", 24 << 10),
    ("SCSS", 24 << 10),
    ("Sass", 24 << 10),
    ("TypeScript", 24 << 10),
    ("TypeScriptReact", 24 << 10),
];

/// Code with a longer line stays plain.
const MAX_LINE_BYTES: usize = 2 << 10;

/// Scopes further out than this do not count: code that nests deeply must not cost the square of its
/// depth.
const MAX_SCOPES: usize = 64;

/// The kind of a part of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SyntaxToken {
    Comment,
    StringLiteral,
    /// A number, `true`, a constant, an escape in a string.
    Constant,
    Keyword,
    /// The name of a function or macro.
    Function,
    /// The name of a type, class or module.
    Type,
    /// A markup tag, or a key of a mapping.
    Tag,
    /// An attribute, a parameter, or a variable with a sigil.
    Attribute,
    Heading,
    /// An added line of a patch.
    Added,
    /// A removed line of a patch.
    Removed,
    Invalid,
}

impl SyntaxToken {
    /// Its HTML class.
    pub fn class(self) -> &'static str {
        match self {
            Self::Comment => "tc",
            Self::StringLiteral => "ts",
            Self::Constant => "tn",
            Self::Keyword => "tk",
            Self::Function => "tf",
            Self::Type => "tt",
            Self::Tag => "tg",
            Self::Attribute => "ta",
            Self::Heading => "th",
            Self::Added => "ti",
            Self::Removed => "td",
            Self::Invalid => "tx",
        }
    }
}

/// Calls `each` for the parts of the code, in order. If the language is unknown or the code too long,
/// all of it is one plain part.
///
/// `language` is the info string of a fence, or a file extension.
pub fn highlight<'a>(
    code: &'a str,
    language: &str,
    mut each: impl FnMut(Option<SyntaxToken>, &'a str),
) {
    let too_long =
        code.len() > MAX_CODE_BYTES || code.lines().any(|line| line.len() > MAX_LINE_BYTES);
    let Some(grammar) = (!too_long).then(|| grammar(language)).flatten() else {
        each(None, code);
        return;
    };
    let mut state = ParseState::new(grammar);
    let mut stack = ScopeStack::new();
    let mut run = TokenRun { code, start: 0, end: 0, token: None };
    let mut line_start = 0;
    let slow = SLOW_GRAMMARS.iter().find(|(name, _)| *name == grammar.name);
    let limit = slow.map_or(MAX_CODE_BYTES, |(_, limit)| *limit);
    for line in code.split_inclusive('\n') {
        if line_start + line.len() > limit {
            break;
        }
        #[cfg(test)]
        work::add(line.len());
        // If the grammar fails, the rest stays plain.
        let Ok(changes) = state.parse_line(line, &GRAMMARS) else { break };
        for (offset, change) in changes {
            run.extend(line_start + offset, token(&stack), &mut each);
            if stack.apply(&change).is_err() {
                stack = ScopeStack::new();
            }
        }
        line_start += line.len();
        run.extend(line_start, token(&stack), &mut each);
    }
    run.extend(code.len(), None, &mut each);
    run.emit(&mut each);
}

/// How many bytes this thread has parsed: the measure of what colouring costs, on any machine.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local!(static BYTES: Cell<usize> = const { Cell::new(0) });

    pub(crate) fn add(bytes: usize) {
        BYTES.set(BYTES.get() + bytes);
    }

    /// How many bytes are parsed by `work`.
    pub(crate) fn of(work: impl FnOnce()) -> usize {
        let before = BYTES.get();
        work();
        BYTES.get() - before
    }
}

/// A run of adjacent parts of the same kind.
struct TokenRun<'a> {
    code: &'a str,
    start: usize,
    end: usize,
    token: Option<SyntaxToken>,
}

impl<'a> TokenRun<'a> {
    /// Extends the run to `end`, with a part of kind `token`.
    fn extend(
        &mut self,
        end: usize,
        token: Option<SyntaxToken>,
        each: &mut impl FnMut(Option<SyntaxToken>, &'a str),
    ) {
        if end <= self.end {
            return;
        }
        if token != self.token {
            self.emit(each);
            self.start = self.end;
            self.token = token;
        }
        self.end = end;
    }

    fn emit(&self, each: &mut impl FnMut(Option<SyntaxToken>, &'a str)) {
        if self.start < self.end {
            each(self.token, &self.code[self.start..self.end]);
        }
    }
}

static GRAMMARS: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// The grammar for the first word of an info string, or a file extension.
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

/// The kind given by the innermost scope with a rule; among the rules of a scope, the longest wins.
fn token(stack: &ScopeStack) -> Option<SyntaxToken> {
    stack.as_slice().iter().rev().take(MAX_SCOPES).find_map(|&scope| {
        let rules = RULES.iter().filter(|(prefix, _)| prefix.is_prefix_of(scope));
        rules.max_by_key(|(prefix, _)| prefix.len()).map(|&(_, token)| token)
    })?
}

static RULES: LazyLock<Vec<(Scope, Option<SyntaxToken>)>> = LazyLock::new(|| {
    let rules = [
        // Code inside a string is code.
        ("source", None),
        ("text", None),
        ("meta.interpolation", None),
        ("meta.template.expression", None),
        ("comment", Some(SyntaxToken::Comment)),
        ("string", Some(SyntaxToken::StringLiteral)),
        ("constant", Some(SyntaxToken::Constant)),
        ("support.constant", Some(SyntaxToken::Constant)),
        ("keyword", Some(SyntaxToken::Keyword)),
        ("keyword.operator", None),
        ("keyword.operator.word", Some(SyntaxToken::Keyword)),
        ("keyword.operator.logical.python", Some(SyntaxToken::Keyword)),
        ("storage", Some(SyntaxToken::Keyword)),
        ("storage.type.numeric", Some(SyntaxToken::Constant)),
        ("variable.language", Some(SyntaxToken::Keyword)),
        ("variable.parameter", Some(SyntaxToken::Attribute)),
        ("variable.other.readwrite", Some(SyntaxToken::Attribute)),
        ("variable.other.readwrite.js", None),
        ("variable.function", Some(SyntaxToken::Function)),
        ("support.function", Some(SyntaxToken::Function)),
        ("entity.name.function", Some(SyntaxToken::Function)),
        ("entity.name.type", Some(SyntaxToken::Type)),
        ("entity.name.class", Some(SyntaxToken::Type)),
        ("entity.name.struct", Some(SyntaxToken::Type)),
        ("entity.name.enum", Some(SyntaxToken::Type)),
        ("entity.name.trait", Some(SyntaxToken::Type)),
        ("entity.name.impl", Some(SyntaxToken::Type)),
        ("entity.name.namespace", Some(SyntaxToken::Type)),
        ("entity.other.inherited-class", Some(SyntaxToken::Type)),
        ("support.type", Some(SyntaxToken::Type)),
        ("support.class", Some(SyntaxToken::Type)),
        ("entity.name.tag", Some(SyntaxToken::Tag)),
        ("meta.mapping.key", Some(SyntaxToken::Tag)),
        ("entity.other.attribute-name", Some(SyntaxToken::Attribute)),
        ("entity.name.section", Some(SyntaxToken::Heading)),
        ("markup.heading", Some(SyntaxToken::Heading)),
        ("markup.inserted", Some(SyntaxToken::Added)),
        ("markup.deleted", Some(SyntaxToken::Removed)),
        ("meta.diff.range", Some(SyntaxToken::Comment)),
        ("meta.diff.header", Some(SyntaxToken::Heading)),
        ("invalid", Some(SyntaxToken::Invalid)),
    ];
    rules.into_iter().filter_map(|(name, token)| Some((Scope::new(name).ok()?, token))).collect()
});

#[cfg(test)]
mod tests {
    use super::{GRAMMARS, MAX_CODE_BYTES, SLOW_GRAMMARS, SyntaxToken, highlight, work};
    use crate::{Fold, Item, html, terminal};

    fn tokens<'a>(code: &'a str, language: &str) -> Vec<(Option<SyntaxToken>, &'a str)> {
        let mut found = Vec::new();
        highlight(code, language, |token, text| found.push((token, text)));
        let whole: String = found.iter().map(|(_, text)| *text).collect();
        assert_eq!(whole, code);
        found
    }

    #[test]
    fn keywords_strings_and_comments_are_distinguished() {
        let found = tokens("fn main() { print(\"hi\"); } // done\n", "rust,ignore");
        assert!(found.contains(&(Some(SyntaxToken::Function), "main")), "{found:?}");
        assert!(found.contains(&(Some(SyntaxToken::StringLiteral), "\"hi\"")), "{found:?}");
        assert!(found.iter().any(|(token, _)| *token == Some(SyntaxToken::Keyword)), "{found:?}");
        assert!(
            found
                .iter()
                .any(|(token, text)| *token == Some(SyntaxToken::Comment) && text.contains("done"))
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

    /// 80 KB of the slowest language that agents write a lot of.
    fn long_tsx() -> String {
        let line = "export const Row = ({ id }: Props) => <li key={id}>{id.map((t) => <b>{t}</b>)}</li>;\n";
        line.repeat((80 << 10) / line.len())
    }

    #[test]
    fn of_code_in_a_slow_language_only_the_beginning_is_coloured() {
        for (name, limit) in SLOW_GRAMMARS {
            assert!(GRAMMARS.find_syntax_by_name(name).is_some(), "{name}");
            assert!(*limit < MAX_CODE_BYTES);
        }
        let code = long_tsx();
        let parsed = work::of(|| {
            let found = tokens(&code, "tsx");
            assert!(found[0].0.is_some(), "{:?}", &found[..3]);
            let (token, rest) = found.last().unwrap();
            assert!(token.is_none() && rest.len() > 50 << 10, "{} bytes are plain", rest.len());
        });
        assert!((20 << 10..=24 << 10).contains(&parsed), "{parsed} bytes");
        let code = "fn a() {}\n".repeat(8 << 10);
        assert_eq!(work::of(|| _ = tokens(&code, "rust")), code.len());
    }

    fn rendered(items: &[Item], full: bool) -> (usize, usize) {
        let shown: Vec<&Item> = items.iter().collect();
        let options = terminal::TerminalOptions { width: 100, base: None, full };
        let in_terminal = work::of(|| _ = terminal::items(&shown, options));
        let options = html::HtmlOptions { base: None, full };
        let in_html = work::of(|| html::items(items, options, &mut String::new()));
        (in_terminal, in_html)
    }

    /// What is not shown is not coloured: that took two seconds for a few lines.
    #[test]
    fn only_the_lines_of_a_long_file_that_are_shown_are_coloured() {
        let code = serde_json::to_string(&long_tsx()).unwrap();
        let mut fold = Fold::new();
        for line in [
            format!(
                r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"tool_use","id":"t","name":"Write","input":{{"file_path":"/p/a.tsx","content":{code}}}}}]}}}}"#
            ),
            r#"{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"ok"}]}}"#.to_owned(),
        ] {
            fold.push_line(1, line.as_bytes());
        }
        let items = fold.conversation(usize::MAX).items;
        let (in_terminal, in_html) = rendered(&items, false);
        assert!((1..8 << 10).contains(&in_terminal), "{in_terminal} bytes for a terminal");
        assert!((1..=24 << 10).contains(&in_html), "{in_html} bytes for a page");
        let (in_terminal, in_html) = rendered(&items, true);
        assert!(in_terminal.max(in_html) <= 24 << 10, "{in_terminal} and {in_html} bytes");
    }

    #[test]
    fn a_long_block_of_code_in_an_answer_is_not_coloured_whole() {
        let text = serde_json::to_string(&format!("```tsx\n{}```\n", long_tsx())).unwrap();
        let mut fold = Fold::new();
        let line = format!(
            r#"{{"type":"assistant","message":{{"id":"m","content":[{{"type":"text","text":{text}}}]}}}}"#
        );
        fold.push_line(1, line.as_bytes());
        let items = fold.conversation(usize::MAX).items;
        for full in [false, true] {
            let (in_terminal, in_html) = rendered(&items, full);
            assert!(in_terminal > 0 && in_html > 0);
            assert!(in_terminal.max(in_html) <= 24 << 10, "{in_terminal} and {in_html} bytes");
        }
    }

    #[test]
    fn unknown_languages_and_long_code_stay_plain() {
        assert_eq!(tokens("graph TD", "mermaid"), [(None, "graph TD")]);
        assert_eq!(tokens("fn", ""), [(None, "fn")]);
        assert_eq!(tokens("x", "\"><script>"), [(None, "x")]);
        let long = "fn a() {}\n".repeat(MAX_CODE_BYTES / 10 + 1);
        assert_eq!(tokens(&long, "rust"), [(None, long.as_str())]);
        let wide = "a".repeat(3000);
        assert_eq!(tokens(&wide, "rust"), [(None, wide.as_str())]);
    }
}
