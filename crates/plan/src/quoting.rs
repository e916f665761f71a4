//! Position of a placeholder in a command line, and the quoting that makes its value one word.
//!
//! A level of a factor is data. In a text for a shell, `a; rm -r x` must reach the program unchanged; the
//! shell must not interpret it. Where quoting is impossible (in backticks, in a comment, in a here-document),
//! only values without special characters are accepted.

/// Interpreter of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    /// Plain text, not interpreted.
    Plain,
    /// `sh -c`.
    Shell,
    /// bakeoff's own splitting into words: blanks, quotes of either kind, backslashes.
    Words,
}

/// Context of a placeholder in a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Frame {
    /// Outside quotes, also within `$(...)`.
    Command,
    /// In `'...'`.
    Single,
    /// In `"..."`.
    Double,
    /// In backticks, `${...}`, `$((...))`, a comment.
    Unquotable(char),
}

/// Scanner of a command line, text by text.
#[derive(Debug, Clone)]
pub(crate) struct Scanner {
    language: Language,
    frames: Vec<Frame>,
    /// Whether a here-document has begun: the rest may be its content.
    is_lost: bool,
    /// Whether the text ends in a backslash, which escapes the next character.
    is_escaped: bool,
    /// Last character, which decides whether a comment begins.
    last: char,
    /// Beginning of the current word.
    word: String,
}

impl Scanner {
    pub(crate) fn new(language: Language) -> Self {
        Self {
            language,
            frames: vec![Frame::Command],
            is_lost: false,
            is_escaped: false,
            last: ' ',
            word: String::new(),
        }
    }

    /// Scans a text of the author.
    pub(crate) fn pass(&mut self, text: &str) {
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            let is_word_start = self.last.is_whitespace() || ";&|(".contains(self.last);
            self.last = c;
            self.note_word(c, is_word_start);
            if std::mem::take(&mut self.is_escaped) {
                continue;
            }
            let is_shell = self.language == Language::Shell;
            match (self.top(), c) {
                (Frame::Command | Frame::Double, '\\') => self.is_escaped = true,
                (Frame::Command, '\'') => self.frames.push(Frame::Single),
                (Frame::Command, '"') => self.frames.push(Frame::Double),
                (Frame::Single, '\'') | (Frame::Double, '"') => self.pop(),
                (Frame::Unquotable(end), c) if c == end => self.pop(),
                (Frame::Command | Frame::Double, '`') if is_shell => self.frames.push(Frame::Unquotable('`')),
                (Frame::Command, '#') if is_shell && is_word_start => {
                    self.frames.push(Frame::Unquotable('\n'));
                }
                (Frame::Command, '<') if is_shell && rest.peek() == Some(&'<') => self.is_lost = true,
                (Frame::Command | Frame::Double, '$') if is_shell => self.dollar(&mut rest),
                (Frame::Command, '(') if is_shell => self.frames.push(Frame::Command),
                // A `)` of a `case` closes no frame.
                (Frame::Command, ')') if is_shell && self.frames.len() > 1 => self.pop(),
                _ => {}
            }
        }
    }

    fn dollar(&mut self, rest: &mut std::iter::Peekable<std::str::Chars<'_>>) {
        match rest.peek() {
            Some('(') => {
                rest.next();
                self.last = '(';
                if rest.peek() == Some(&'(') {
                    // Arithmetic, or a subshell in a substitution: the scanner does not distinguish them.
                    self.is_lost = true;
                }
                self.frames.push(Frame::Command);
            }
            Some('{') => {
                rest.next();
                self.frames.push(Frame::Unquotable('}'));
            }
            // `$'...'` of bash has other escapes.
            Some('\'') => self.is_lost = true,
            _ => {}
        }
    }

    /// Follows the current word. After `case` in a substitution, a `)` may end a pattern or the substitution:
    /// the scanner does not distinguish them.
    fn note_word(&mut self, c: char, is_word_start: bool) {
        if is_word_start {
            self.word.clear();
        }
        // Longer words are no keyword.
        if self.word.len() <= "case".len() {
            self.word.push(c);
        }
        let is_case = self.word.strip_prefix("case").is_some_and(|end| end.starts_with(char::is_whitespace));
        if is_case && self.language == Language::Shell && self.frames.len() > 1 {
            self.is_lost = true;
        }
    }

    fn top(&self) -> Frame {
        *self.frames.last().expect("the first frame stays")
    }

    fn pop(&mut self) {
        if self.frames.len() > 1 {
            self.frames.pop();
        }
    }

    /// Whether this position is within quotes of the author.
    pub(crate) fn is_in_quotes(&self) -> bool {
        matches!(self.top(), Frame::Single | Frame::Double)
    }

    /// Quotes a value for this position; `None` if that is impossible.
    pub(crate) fn quote(&mut self, value: &str) -> Option<String> {
        self.last = 'x';
        if self.language == Language::Plain || is_harmless(value) {
            self.is_escaped = false;
            return Some(value.to_owned());
        }
        if self.is_lost || self.is_escaped {
            return None;
        }
        match self.top() {
            Frame::Command => Some(format!("'{}'", value.replace('\'', "'\\''"))),
            Frame::Single => Some(value.replace('\'', "'\\''")),
            Frame::Double => Some(value.chars().fold(String::new(), |mut text, c| {
                if matches!(c, '\\' | '"' | '$' | '`') {
                    text.push('\\');
                }
                text.push(c);
                text
            })),
            Frame::Unquotable(_) => None,
        }
    }
}

/// Whether every shell reads the value as one plain word.
pub(crate) fn is_harmless(value: &str) -> bool {
    !value.is_empty() && value.chars().all(|c| c.is_alphanumeric() || "_./:=@%+,-".contains(c))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    const NASTY: [&str; 9] = [
        "a; touch X; #",
        "$(touch X)",
        "`touch X`",
        "'; touch X; '",
        "\"; touch X; \"",
        "a\ntouch X",
        "\\",
        "* ~ $HOME ${HOME}",
        " ",
    ];

    fn written(before: &str, value: &str, after: &str, language: Language) -> Option<String> {
        let mut scanner = Scanner::new(language);
        scanner.pass(before);
        let value = scanner.quote(value)?;
        scanner.pass(after);
        Some(format!("{before}{value}{after}"))
    }

    #[test]
    fn a_shell_gets_every_value_as_one_word() {
        let folder = tempfile_folder();
        for value in NASTY {
            for (before, after) in [
                ("printf %s ", ""),
                ("printf %s '", "'"),
                ("printf %s \"", "\""),
                ("x=$(printf %s ", "; echo .); printf %s \"${x%.}\""),
                ("printf %s \"$(printf %s ", ")\""),
                ("echo 'it'\\''s' \"a 'b\" >/dev/null; printf %s ", ""),
                ("true # a comment's end\nprintf %s ", ""),
                ("(printf %s ", ")"),
            ] {
                let script = written(before, value, after, Language::Shell).expect("it can be quoted here");
                let said = Command::new("sh").args(["-c", &script]).current_dir(&folder).output().unwrap();
                let said = String::from_utf8(said.stdout).unwrap();
                assert_eq!(said.trim_end_matches('\n'), value.trim_end_matches('\n'), "{script}");
            }
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "nothing was executed");
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn where_no_quoting_helps_only_harmless_values_are_taken() {
        for (before, after) in [
            ("echo `echo ", "`"),
            ("echo ${x:-", "}"),
            ("true # ", ""),
            ("cat <<END\n", "\nEND"),
            ("echo $((1 + ", "))"),
            ("echo \\", ""),
            ("x=\"$(case x in x) echo ", ";; esac)\"; echo 1"),
            ("x=$(true;case x in (x) echo ", ";; esac)"),
            ("echo \"$(case\tx in x) echo ", ";; esac)\""),
            ("echo $'it\\'s ", "'"),
        ] {
            for value in NASTY {
                assert_eq!(written(before, value, after, Language::Shell), None, "{before}{value}");
            }
            assert_eq!(
                written(before, "jemalloc-5.3", after, Language::Shell),
                Some(format!("{before}jemalloc-5.3{after}"))
            );
        }
    }

    #[test]
    fn our_own_words_get_every_value_as_one_word() {
        for value in NASTY {
            for (before, after) in [("x ", ""), ("x '", "'"), ("x \"", "\""), ("x $( ` # ", "")] {
                let line = written(before, value, after, Language::Words).expect("only quotes matter");
                assert_eq!(
                    record::command_line::split(&line).unwrap().last().map(String::as_str),
                    Some(value),
                    "{line}"
                );
            }
        }
    }

    fn tempfile_folder() -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("bakeoff-plan-quoting-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        folder
    }
}
