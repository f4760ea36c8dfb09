//! What a shell command would do, as far as its text shows.

use std::path::{Path, PathBuf};

use super::rules::absolute;

/// A command, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    /// Its parts between `&&`, `||`, `;`, `|` and newlines.
    pub(crate) parts: Vec<Part>,
    /// Why it cannot be judged.
    pub(crate) unclear: Option<&'static str>,
}

/// A part of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// Its text, without redirections.
    pub(crate) text: String,
    /// What it does.
    pub(crate) does: Does,
}

/// What a part does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    /// Reads below the working directory.
    Reads,
    /// Reads elsewhere.
    ReadsOutside(String, PathBuf),
    /// Changes files with a command of which that is known.
    Changes(String, PathBuf),
    /// Writes its output to a file.
    Redirects(PathBuf),
    /// Anything.
    Anything,
}

const READERS: &[&str] = &[
    "ls", "cat", "head", "tail", "echo", "pwd", "grep", "rg", "find", "wc", "sort", "uniq", "true",
    "false", "date", "which", "printf", "sleep", "stat", "file", "du", "df", "basename", "dirname",
    "realpath", "diff", "cut", "tr", "test", "[", "tree", "cd", "whoami", "uname", "id", "seq",
];
const CHANGERS: &[&str] = &["touch", "mkdir", "rm", "rmdir", "mv", "cp", "sed"];
const GIT_READERS: &[&str] = &["status", "log", "diff", "show", "branch", "rev-parse", "blame"];

impl Command {
    /// Takes a command apart.
    pub(crate) fn read(text: &str, cwd: &Path, directories: &[PathBuf]) -> Self {
        let unclear = unclear(text);
        let parts = split(text).into_iter().filter(|part| !part.trim().is_empty());
        let parts = parts.map(|part| Part::read(part.trim(), cwd, directories)).collect();
        Self { parts, unclear }
    }
}

impl Part {
    fn read(text: &str, cwd: &Path, directories: &[PathBuf]) -> Self {
        let mut words = words(text);
        let redirection = words.iter().position(|word| {
            let word = word.trim_start_matches(|letter: char| letter.is_ascii_digit());
            word.starts_with('>') && !word.starts_with(">&")
        });
        if let Some(place) = redirection {
            let inline =
                words[place].trim_start_matches(|it: char| it.is_ascii_digit() || it == '>');
            let target = if inline.is_empty() { words.get(place + 1) } else { None };
            let target = target.map_or(inline, String::as_str);
            if target != "/dev/null" {
                let before = words[..place].join(" ");
                return Self { text: before, does: Does::Redirects(absolute(target, cwd)) };
            }
            words.truncate(place);
        }
        let inside = |path: &Path| {
            path.starts_with(cwd) || directories.iter().any(|directory| path.starts_with(directory))
        };
        let paths = || {
            let operands = words.iter().skip(1).filter(|word| !word.starts_with('-'));
            operands.map(|word| absolute(word.trim_matches(['\'', '"']), cwd)).collect::<Vec<_>>()
        };
        let mut name = words.first().map_or("", String::as_str);
        if name == "timeout" {
            name = words.get(2).map_or("", String::as_str);
        }
        let does = match name {
            "sed" if !words.iter().any(|word| word == "-i") => Does::Reads,
            "sed" => Does::Changes(name.to_owned(), paths().pop().unwrap_or_default()),
            "find" if words.iter().any(|it| it == "-exec" || it == "-delete") => Does::Anything,
            "git" if words.get(1).is_some_and(|it| GIT_READERS.contains(&it.as_str())) => {
                Does::Reads
            }
            _ if CHANGERS.contains(&name) => {
                Does::Changes(name.to_owned(), paths().first().cloned().unwrap_or_default())
            }
            "echo" | "printf" | "date" | "seq" | "sleep" | "test" | "[" => Does::Reads,
            _ if READERS.contains(&name) => {
                let mut operands = words.iter().filter(|word| word.starts_with('/'));
                let outside = operands.find(|word| !inside(Path::new(word.as_str())));
                outside.map_or(Does::Reads, |path| {
                    Does::ReadsOutside(name.to_owned(), PathBuf::from(path))
                })
            }
            _ => Does::Anything,
        };
        Self { text: text.to_owned(), does }
    }

    /// The rule that would allow it: up to a word that looks like a subcommand, or the whole.
    pub(crate) fn rule(&self) -> String {
        let words = words(&self.text);
        let subcommand = |word: &String| {
            word.starts_with(|it: char| it.is_ascii_lowercase())
                && word
                    .chars()
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || it == '-')
        };
        match words.as_slice() {
            [name, second, ..] if subcommand(second) => format!("{name} {second} *"),
            _ => self.text.clone(),
        }
    }
}

/// Why a command cannot be judged by its text.
fn unclear(text: &str) -> Option<&'static str> {
    let (mut quoted, mut letters) = (false, text.chars().peekable());
    let mut variable = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\'' => quoted = !quoted,
            '`' if !quoted => {
                return Some("A nested command in this command can't be checked before it runs");
            }
            '$' if !quoted => match letters.peek() {
                Some('(') => {
                    return Some(
                        "A nested command in this command can't be checked before it runs",
                    );
                }
                Some(next) if next.is_alphabetic() || *next == '{' || *next == '_' => {
                    variable = true;
                }
                _ => {}
            },
            _ => {}
        }
    }
    variable.then_some("A variable in this command can't be checked before it runs")
}

/// The parts of a command line.
fn split(text: &str) -> Vec<String> {
    let (mut parts, mut part, mut quote) = (Vec::new(), String::new(), None);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '&') if part.ends_with('>') || letters.peek() == Some(&'>') => {}
            (None, ';' | '\n' | '|' | '&') => {
                while letters.next_if(|next| matches!(next, '|' | '&')).is_some() {}
                parts.push(std::mem::take(&mut part));
                continue;
            }
            _ => {}
        }
        part.push(letter);
    }
    parts.push(part);
    parts
}

/// The words of a part; quotes hold a word together and stay.
fn words(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, letter) if letter.is_whitespace() => {
                words.push(std::mem::take(&mut word));
                continue;
            }
            _ => {}
        }
        word.push(letter);
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Command, Does};

    fn read(text: &str) -> Command {
        Command::read(text, Path::new("/project"), &[])
    }

    #[test]
    fn parts_are_judged_one_by_one() {
        let path = |path: &str| PathBuf::from(path);
        let does = |text: &str| read(text).parts.into_iter().map(|it| it.does).collect::<Vec<_>>();
        assert_eq!(does("ls -la && cat a.txt | wc -l"), [Does::Reads, Does::Reads, Does::Reads]);
        assert_eq!(does("echo 'a && b; c'"), [Does::Reads]);
        assert_eq!(does("git status"), [Does::Reads]);
        assert_eq!(does("git commit -m x"), [Does::Anything]);
        assert_eq!(does("touch p1"), [Does::Changes("touch".into(), path("/project/p1"))]);
        assert_eq!(does("echo x >> /tmp/z"), [Does::Redirects(path("/tmp/z"))]);
        assert_eq!(does("ls 2>&1"), [Does::Reads]);
        assert_eq!(does("ls > /dev/null"), [Does::Reads]);
        let outside = Does::ReadsOutside("cat".into(), path("/etc/passwd"));
        assert_eq!(does("cat /etc/passwd | head -1"), [outside, Does::Reads]);
    }

    #[test]
    fn rules_are_suggested_as_2_1_325_suggests_them() {
        let rules = [
            ("npm install left-pad", "npm install *"),
            ("git commit -m 'x'", "git commit *"),
            ("touch p1", "touch p1 *"),
            ("touch made.txt", "touch made.txt"),
            ("mkdir -p zzz", "mkdir -p zzz"),
            ("./run.sh arg", "./run.sh arg *"),
            ("make", "make"),
            ("python3 -c 'print(1)'", "python3 -c 'print(1)'"),
        ];
        for (command, rule) in rules {
            assert_eq!(read(command).parts[0].rule(), rule, "{command}");
        }
    }

    #[test]
    fn what_only_the_shell_can_know_is_unclear() {
        assert!(read("echo $(date)").unclear.is_some_and(|it| it.starts_with("A nested command")));
        assert!(read("echo $HOME").unclear.is_some_and(|it| it.starts_with("A variable")));
        assert!(read("echo '$HOME'").unclear.is_none());
    }
}
