//! Splits a command line as a POSIX shell does, without running anything.
//!
//! # Source
//!
//! POSIX.1-2017, Shell Command Language, sections 2.2 (quoting) and 2.3 (token recognition).

use super::error::{LikeError, TOOLS};

/// Maximum length of a command line; the kernel's limit for one argument is 128 KiB.
const LINE_BYTES_MAX: usize = 128 * 1024;

/// Parts of a command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Said {
    /// The tool, one of [`TOOLS`].
    pub(super) tool: &'static str,
    /// Words after the tool.
    pub(super) words: Vec<String>,
    /// Variables that are set before the tool.
    pub(super) variables: Vec<(String, String)>,
    /// Parts of the shell that do not reach the tool, each with an explanation.
    pub(super) left_out: Vec<(String, &'static str)>,
    /// Variables with unknown values among the words.
    pub(super) unknown_variables: Vec<String>,
}

impl Said {
    /// Value of a variable that is set before the tool.
    pub(super) fn variable(&self, name: &str) -> Option<&str> {
        self.variables.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Token of a shell.
#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// An operator outside of quotes, such as `|` or `>`.
    Operator(String),
}

/// Reads a command line: the first known tool in it, and the words up to the next operator.
pub(super) fn read(line: &str) -> Result<Said, LikeError> {
    let mut splitter = Splitter::new(line)?;
    let mut said = Said {
        tool: "",
        words: Vec::new(),
        variables: Vec::new(),
        left_out: Vec::new(),
        unknown_variables: Vec::new(),
    };
    let mut before = Vec::new();
    let (mut rest, mut unknown) = (String::new(), 0);
    while let Some(token) = splitter.next_token()? {
        match token {
            _ if !rest.is_empty() => {
                push(&mut rest, token.text());
                // What the shell does with a variable is not the tool's.
                splitter.unknown.truncate(unknown);
            }
            // An image or a folder may have the tool's name: the last name before the options counts.
            Token::Word(word)
                if said.words.is_empty() && !said.tool.is_empty() && tool_of(&word).is_some() =>
            {
                before.push(std::mem::replace(&mut said.tool, tool_of(&word).unwrap_or_default()).to_owned());
            }
            Token::Word(word) if !said.tool.is_empty() => said.words.push(word),
            Token::Operator(operator) if !said.tool.is_empty() => {
                (rest, unknown) = (operator, splitter.unknown.len());
            }
            // A command before the tool's own: `export PGPASSWORD=x; pgbench ...`.
            Token::Operator(_) => before.clear(),
            Token::Word(word) => match (tool_of(&word), assignment(&word)) {
                (Some(tool), _) => {
                    said.tool = tool;
                    // A variable in the commands before does not reach the tool as a word.
                    splitter.unknown.clear();
                }
                (None, Some((name, value))) => {
                    let value = (name.to_owned(), value.to_owned());
                    splitter.variables.push(value.clone());
                    said.variables.push(value);
                }
                // A prompt, or words that only set variables.
                (None, None) if matches!(word.as_str(), "$" | "#" | "export" | "env") => {}
                (None, None) => before.push(word),
            },
        }
    }
    if said.tool.is_empty() {
        return Err(LikeError::UnknownTool);
    }
    if !before.is_empty() {
        said.left_out.push((before.join(" "), "it starts the tool, and is not applied to bakeoff"));
    }
    if !rest.is_empty() {
        said.left_out.push((rest, "it belongs to the shell"));
    }
    said.unknown_variables = splitter.unknown;
    Ok(said)
}

/// Splits a line into words; operators are words.
pub(super) fn split(line: &str) -> Result<Vec<String>, LikeError> {
    let mut splitter = Splitter::new(line)?;
    let mut words = Vec::new();
    while let Some(token) = splitter.next_token()? {
        words.push(token.text().to_owned());
    }
    Ok(words)
}

fn push(rest: &mut String, text: &str) {
    if !rest.ends_with(">&") {
        rest.push(' ');
    }
    rest.push_str(text);
}

/// The tool that a word names, with or without a folder.
fn tool_of(word: &str) -> Option<&'static str> {
    // `http://host/hey` is a URL, `/tools/wrk:/wrk` a volume.
    if word.contains(":/") {
        return None;
    }
    let name = word.rsplit('/').next().unwrap_or(word);
    // An image in a registry has a version: `memtier_benchmark:edge`.
    let name = name.split(':').next().unwrap_or(name);
    TOOLS.into_iter().find(|tool| *tool == name)
}

/// The parts of `NAME=value`.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name.then_some((name, value))
}

impl Token {
    fn text(&self) -> &str {
        match self {
            Self::Word(text) | Self::Operator(text) => text,
        }
    }
}

/// State of the split.
struct Splitter<'a> {
    letters: std::iter::Peekable<std::str::Chars<'a>>,
    /// Known variables.
    variables: Vec<(String, String)>,
    /// Variables without a known value.
    unknown: Vec<String>,
}

impl<'a> Splitter<'a> {
    fn new(line: &'a str) -> Result<Self, LikeError> {
        if line.len() > LINE_BYTES_MAX {
            return Err(LikeError::TooLong);
        }
        Ok(Self { letters: line.chars().peekable(), variables: Vec::new(), unknown: Vec::new() })
    }
}

impl Splitter<'_> {
    fn next_token(&mut self) -> Result<Option<Token>, LikeError> {
        let mut word: Option<String> = None;
        while let Some(&letter) = self.letters.peek() {
            match letter {
                '|' | '&' | ';' | '<' | '>' | '\n' => {
                    let Some(word) = word else { return Ok(Some(self.operator())) };
                    return Ok(Some(self.redirected(word)));
                }
                '#' if word.is_none() && self.begins_comment() => self.skip_comment(),
                _ if letter.is_whitespace() => {
                    self.letters.next();
                    if let Some(word) = word {
                        return Ok(Some(Token::Word(word)));
                    }
                }
                _ => {
                    self.letters.next();
                    self.take_part(letter, &mut word)?;
                }
            }
        }
        Ok(word.map(Token::Word))
    }

    /// Takes one letter of a word, or a quoted part.
    fn take_part(&mut self, letter: char, word: &mut Option<String>) -> Result<(), LikeError> {
        match letter {
            '\\' => match self.letters.next() {
                // A continued line, also if it was written on Windows.
                Some('\n') => return Ok(()),
                Some('\r') if self.letters.peek() == Some(&'\n') => {
                    self.letters.next();
                    return Ok(());
                }
                Some(next) => word.get_or_insert_default().push(next),
                None => return Err(LikeError::Unclosed("an escape (\\)")),
            },
            '\'' => self.single_quoted(word.get_or_insert_default())?,
            '"' => self.double_quoted(word.get_or_insert_default())?,
            '$' => self.expand(word.get_or_insert_default()),
            _ => word.get_or_insert_default().push(letter),
        }
        Ok(())
    }

    fn single_quoted(&mut self, word: &mut String) -> Result<(), LikeError> {
        for letter in self.letters.by_ref() {
            if letter == '\'' {
                return Ok(());
            }
            word.push(letter);
        }
        Err(LikeError::Unclosed("a quote (')"))
    }

    fn double_quoted(&mut self, word: &mut String) -> Result<(), LikeError> {
        while let Some(letter) = self.letters.next() {
            match letter {
                '"' => return Ok(()),
                '\\' => match self.letters.next() {
                    Some(next @ ('$' | '`' | '"' | '\\')) => word.push(next),
                    Some('\n') => {}
                    Some(next) => word.extend(['\\', next]),
                    None => break,
                },
                '$' => self.expand(word),
                _ => word.push(letter),
            }
        }
        Err(LikeError::Unclosed("a quote (\")"))
    }

    /// Replaces a variable after its `$`; notes one without a known value, and leaves it as it was written.
    fn expand(&mut self, word: &mut String) {
        let mut name = String::new();
        let is_braced = self.letters.peek() == Some(&'{');
        if is_braced {
            self.letters.next();
        }
        while let Some(&letter) = self.letters.peek() {
            let belongs =
                if is_braced { letter != '}' } else { letter.is_ascii_alphanumeric() || letter == '_' };
            if !belongs {
                break;
            }
            name.push(letter);
            self.letters.next();
        }
        if is_braced {
            self.letters.next();
        }
        let written = if is_braced { format!("${{{name}}}") } else { format!("${name}") };
        if name.is_empty() && self.letters.peek() != Some(&'(') {
            word.push('$');
            return;
        }
        if let Some((_, value)) = self.variables.iter().rev().find(|(known, _)| *known == name) {
            word.push_str(value);
        } else {
            word.push_str(&written);
            self.unknown.push(if name.is_empty() { "(...)".to_owned() } else { name });
        }
    }

    fn operator(&mut self) -> Token {
        let mut operator = String::new();
        while let Some(letter) = self.letters.next_if(|c| matches!(c, '|' | '&' | ';' | '<' | '>' | '\n')) {
            operator.push(if letter == '\n' { ';' } else { letter });
        }
        Token::Operator(operator)
    }

    /// The word before an operator: the number of `2>file` belongs to the operator.
    fn redirected(&mut self, word: String) -> Token {
        let is_number = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
        if is_number && matches!(self.letters.peek(), Some('<' | '>')) {
            let operator = self.operator();
            return Token::Operator(format!("{word}{}", operator.text()));
        }
        Token::Word(word)
    }

    /// Whether a `#` is followed by a blank and text: a comment, or a prompt of root at the beginning.
    fn begins_comment(&self) -> bool {
        let rest: String = self.letters.clone().collect();
        let line = rest.split('\n').next().unwrap_or_default();
        // `# sysbench ...` is a prompt of root before the command.
        !line.split_whitespace().any(|word| tool_of(word).is_some())
    }

    fn skip_comment(&mut self) {
        while self.letters.next_if(|c| *c != '\n').is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use super::super::translation::quoted;
    use super::*;

    fn words(line: &str) -> String {
        read(line).map_or_else(|e| e.to_string(), |said| said.words.join("|"))
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        assert_eq!(words("wrk -t12  -c400 http://h/"), "-t12|-c400|http://h/");
        assert_eq!(words(r#"ab -H "a: \"b\" \n" -H 'c: "d"' e\ f ''"#), r#"-H|a: "b" \n|-H|c: "d"|e f|"#);
        assert_eq!(words("wrk \\\n  -t2 \\\r\n -c3\n"), "-t2|-c3");
        assert_eq!(words("wrk -H 'a: \\' x"), r"-H|a: \|x");
        assert_eq!(words("wrk a#b # the rest"), "a#b");
        assert_eq!(words("wrk 'a"), "the command line ends inside a quote ('): close it");
        assert_eq!(words("wrk \"a"), "the command line ends inside a quote (\"): close it");
        assert_eq!(words("wrk \\"), "the command line ends inside an escape (\\): close it");
    }

    #[test]
    fn what_stands_around_the_tool_is_found() {
        let said = read("sudo PGPASSWORD=x taskset -c 1 /usr/bin/pgbench -c 4 db 2>&1 | tee out").unwrap();
        assert_eq!((said.tool, said.words.join("|")), ("pgbench", "-c|4|db".to_owned()));
        assert_eq!(said.variable("PGPASSWORD"), Some("x"));
        let left_out: Vec<_> = said.left_out.iter().map(|(part, _)| part.as_str()).collect();
        assert_eq!(left_out, ["sudo taskset -c 1", "2>&1 | tee out"]);
        assert_eq!(read("# sysbench cpu run").unwrap().words.join("|"), "cpu|run");
        assert_eq!(read("$ wrk http://h").unwrap().words.join("|"), "http://h");
        assert_eq!(read("echo hey you").unwrap().tool, "hey");
        assert_eq!(read("sysbenchx run"), Err(LikeError::UnknownTool));
        assert_eq!(read(""), Err(LikeError::UnknownTool));
    }

    #[test]
    fn a_variable_is_replaced_where_its_value_is_known() {
        let said = read("T=8; sysbench --threads=$T --rate=${R} --time=\"$T\" '$T' $").unwrap();
        assert_eq!(said.words.join("|"), "--threads=8|--rate=${R}|--time=8|$T|$");
        assert_eq!(said.unknown_variables, ["R"]);
        let said = read("wrk -t$(nproc) http://h").unwrap();
        assert_eq!(said.unknown_variables, ["(...)"]);
    }

    #[test]
    fn a_quoted_word_is_read_as_it_was() {
        for text in ["", "a b", "it's", "$x", "a\"b", "--a=b", "x\\", "ä"] {
            assert_eq!(read(&format!("wrk {}", quoted(text))).unwrap().words, [text]);
        }
    }
}
