//! Parser of scripts: SQL statements that end with `;` or `\gset`, and lines that begin with a backslash.

use super::expression::{Expression, Function};
use super::position::{Problem, SourcePosition};
use super::value::Value;
use crate::workload::statement::StatementText;

/// A parsed script.
#[derive(Debug, PartialEq)]
pub(super) struct Written {
    pub(super) commands: Vec<(SourcePosition, Command)>,
    /// Names after colons inside the quotes of statements.
    pub(super) quoted: Vec<(SourcePosition, String)>,
}

/// One command of a script.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Sql { text: StatementText, parameters: Vec<(SourcePosition, usize)>, keep: Keep },
    Set { slot: usize, to: Expression },
    Sleep { amount: Expression, unit_ns: u64 },
    If(Expression),
    ElseIf(Expression),
    Else,
    EndIf,
}

/// The part of an answer that is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Keep {
    Nothing,
    /// The only row, in variables named after the columns, with a prefix.
    OneRow {
        prefix: String,
    },
    /// The last row, if there is one.
    LastRow {
        prefix: String,
    },
}

/// The variables of all scripts, by slot.
#[derive(Debug, Default)]
pub(super) struct Names(pub(super) Vec<String>);

impl Names {
    pub(super) fn slot(&mut self, name: &str) -> usize {
        self.find(name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        })
    }

    pub(super) fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known == name)
    }
}

/// Parses a script.
pub(super) fn parse(text: &str, names: &mut Names) -> Result<Written, Problem> {
    let mut reader = Reader { text, at: SourcePosition::START, names, quoted: Vec::new() };
    let mut commands = Vec::new();
    loop {
        reader.skip_blanks_and_comments()?;
        let at = reader.at;
        let command = match reader.peek() {
            None => return Ok(Written { commands, quoted: reader.quoted }),
            Some('\\') => reader.meta()?,
            Some(';') => {
                reader.next();
                continue;
            }
            Some(_) => reader.sql()?,
        };
        commands.push((at, command));
    }
}

/// Parses a standalone expression.
pub(super) fn expression(text: &str, names: &mut Names) -> Result<Expression, Problem> {
    let mut reader = Reader { text, at: SourcePosition::START, names, quoted: Vec::new() };
    let expression = reader.expression()?;
    reader.take_while(char::is_whitespace);
    match reader.peek() {
        None => Ok(expression),
        Some(_) => Err(reader.at.problem(format!("unexpected `{}` after the expression", reader.text))),
    }
}

/// The unread rest of a script.
struct Reader<'a> {
    text: &'a str,
    at: SourcePosition,
    names: &'a mut Names,
    quoted: Vec<(SourcePosition, String)>,
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<char> {
        self.text.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.text = &self.text[c.len_utf8()..];
        self.at = match c {
            '\n' => SourcePosition { line: self.at.line + 1, column: 1 },
            _ => SourcePosition { column: self.at.column + 1, ..self.at },
        };
        Some(c)
    }

    /// Consumes that many characters.
    fn take(&mut self, characters: usize) -> &'a str {
        let before = self.text;
        for _ in 0..characters {
            self.next();
        }
        &before[..before.len() - self.text.len()]
    }

    fn take_while(&mut self, is_wanted: impl Fn(char) -> bool) -> &'a str {
        self.take(self.text.chars().take_while(|c| is_wanted(*c)).count())
    }

    /// Consumes `wanted` if the text begins with it.
    fn eat(&mut self, wanted: &str) -> bool {
        let is_there = self.text.starts_with(wanted);
        if is_there {
            self.take(wanted.chars().count());
        }
        is_there
    }

    /// Consumes everything up to and including `end`.
    fn take_past(&mut self, end: &str, what: &str) -> Result<&'a str, Problem> {
        let found = self.text.find(end);
        let found =
            found.ok_or_else(|| self.at.problem(format!("{what} is not closed: `{end}` is missing")))?;
        Ok(self.take(self.text[..found + end.len()].chars().count()))
    }

    fn skip_blanks_and_comments(&mut self) -> Result<(), Problem> {
        loop {
            self.take_while(char::is_whitespace);
            if self.text.starts_with("--") {
                self.take_while(|c| c != '\n');
            } else if self.text.starts_with("/*") {
                self.take_past("*/", "the comment")?;
            } else {
                return Ok(());
            }
        }
    }

    fn sql(&mut self) -> Result<Command, Problem> {
        let (mut pieces, mut parameters, mut piece) = (Vec::new(), Vec::new(), String::new());
        let keep = loop {
            let at = self.at;
            let Some(c) = self.peek() else { break Keep::Nothing };
            match c {
                ';' => {
                    self.next();
                    break Keep::Nothing;
                }
                '\\' => break self.keep()?,
                '\'' | '"' | '`' => {
                    self.next();
                    piece.push(c);
                    let inner = self.take_past(c.encode_utf8(&mut [0; 4]), "the quoted text")?;
                    self.note_names(at, inner);
                    piece.push_str(inner);
                }
                '$' => piece.push_str(self.dollars()?),
                '-' if self.text.starts_with("--") => {
                    self.take_while(|c| c != '\n');
                }
                '/' if self.text.starts_with("/*") => piece.push_str(self.take_past("*/", "the comment")?),
                ':' if self.text.starts_with("::") => piece.push_str(self.take(2)),
                ':' if self.text[1..].starts_with(|c: char| c.is_alphabetic() || c == '_') => {
                    self.next();
                    let name = self.take_while(is_name);
                    pieces.push(std::mem::take(&mut piece));
                    parameters.push((at, self.names.slot(name)));
                }
                _ if is_name(c) => piece.push_str(self.take_while(is_name)),
                _ => piece.extend(self.next()),
            }
        };
        pieces.push(piece.trim_end().to_owned());
        Ok(Command::Sql { text: StatementText::new(&pieces), parameters, keep })
    }

    /// Notes the names in a quoted text that pgbench would replace if they are variables.
    fn note_names(&mut self, at: SourcePosition, quoted: &str) {
        for (index, _) in quoted.match_indices(':') {
            let name = quoted[index + 1..].split(|c| !is_name(c)).next().unwrap_or_default();
            // `::` is a cast.
            if !quoted[..index].ends_with(':') && !name.is_empty() {
                self.quoted.push((at, name.to_owned()));
            }
        }
    }

    /// A text between `$tag$` and `$tag$`, or a single dollar.
    fn dollars(&mut self) -> Result<&'a str, Problem> {
        let before = self.text;
        let tag_length = self.text[1..].find(|c: char| !is_name(c)).map(|n| n + 2);
        match tag_length.filter(|n| self.text[..*n].ends_with('$')) {
            Some(length) => {
                let tag = &before[..length];
                let at = self.at;
                self.take(tag.chars().count());
                let inner = self.take_past(tag, "the dollar-quoted text")?;
                self.note_names(at, inner);
            }
            None => {
                self.next();
            }
        }
        Ok(&before[..before.len() - self.text.len()])
    }

    /// Parses the command that ends a statement in place of a semicolon.
    fn keep(&mut self) -> Result<Keep, Problem> {
        let at = self.at;
        self.next();
        let command = self.take_while(is_name);
        self.blanks();
        let prefix = self.take_while(is_name).to_owned();
        match command {
            "gset" => self.end_of_line(Keep::OneRow { prefix }),
            "aset" => self.end_of_line(Keep::LastRow { prefix }),
            _ => Err(at.problem(
                "only \\gset and \\aset can end a statement: before another command, end it with `;`",
            )),
        }
    }

    /// Parses a line that begins with a backslash.
    fn meta(&mut self) -> Result<Command, Problem> {
        let at = self.at;
        self.next();
        let command = self.take_while(is_name);
        self.blanks();
        match command {
            "set" => {
                let name_at = self.at;
                let name = self.take_while(is_name);
                if name.is_empty() {
                    return Err(name_at.problem("expected a variable name: \\set NAME EXPRESSION"));
                }
                let to = self.expression()?;
                let slot = self.names.slot(name);
                self.end_of_line(Command::Set { slot, to })
            }
            "sleep" => {
                let amount = self.expression()?;
                let unit_at = self.at;
                let unit_ns = match self.take_while(is_name) {
                    "us" => 1_000,
                    "ms" => 1_000_000,
                    "" | "s" => 1_000_000_000,
                    other => return Err(unit_at.problem(format!("unknown unit `{other}`: expected us, ms or s"))),
                };
                self.end_of_line(Command::Sleep { amount, unit_ns })
            }
            "if" => {
                let condition = self.expression()?;
                self.end_of_line(Command::If(condition))
            }
            "elif" => {
                let condition = self.expression()?;
                self.end_of_line(Command::ElseIf(condition))
            }
            "else" => self.end_of_line(Command::Else),
            "endif" => self.end_of_line(Command::EndIf),
            "gset" | "aset" => Err(at.problem(format!("\\{command} must follow a statement, in place of its `;`"))),
            "setshell" | "shell" => Err(at.problem(format!("\\{command} is not supported: a script cannot run shell commands"))),
            "startpipeline" | "endpipeline" | "syncpipeline" => {
                Err(at.problem(format!("\\{command} is not supported: statements run one at a time, each with its own latency")))
            }
            other => Err(at.problem(format!(
                "unknown command `\\{other}`: expected \\set, \\sleep, \\if, \\elif, \\else, \\endif, or \\gset after a statement"
            ))),
        }
    }

    /// Skips blanks within a line, and a backslash that continues it.
    fn blanks(&mut self) {
        loop {
            self.take_while(|c| c == ' ' || c == '\t' || c == '\r');
            let is_continued = self.eat("\\\n") || self.eat("\\\r\n");
            if !is_continued {
                return;
            }
        }
    }

    fn end_of_line<T>(&mut self, result: T) -> Result<T, Problem> {
        self.blanks();
        if self.text.starts_with("--") {
            self.take_while(|c| c != '\n');
        }
        match self.peek() {
            None | Some('\n') => Ok(result),
            Some(_) => {
                let at = self.at;
                let rest = self.take_while(|c| c != '\n');
                Err(at.problem(format!("expected the end of the line, found `{}`", rest.trim_end())))
            }
        }
    }

    /// Parses an expression, from the loosest operator to the tightest.
    fn expression(&mut self) -> Result<Expression, Problem> {
        self.binary(0)
    }

    fn binary(&mut self, level: usize) -> Result<Expression, Problem> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        if level == NOT_LEVEL && self.eat_word("not") {
            let at = self.at;
            let argument = self.binary(level)?;
            return Ok(Expression::Call { function: Function::Not, arguments: vec![argument], at });
        }
        let mut left = self.binary(level + 1)?;
        loop {
            self.blanks();
            let at = self.at;
            if level == IS_LEVEL {
                let Some(test) = self.is_test()? else { return Ok(left) };
                left = test_of(test, left, at);
                continue;
            }
            let Some((function, is_turned)) = self.operator(operators) else { return Ok(left) };
            let right = self.binary(level + 1)?;
            let arguments = if is_turned { vec![right, left] } else { vec![left, right] };
            left = Expression::Call { function, arguments, at };
        }
    }

    fn operator(&mut self, operators: &[Operator]) -> Option<(Function, bool)> {
        let (_, function, is_turned) = operators.iter().copied().find(|(sign, ..)| {
            if sign.starts_with(char::is_alphabetic) {
                return self.eat_word(sign);
            }
            // A shorter operator must not match the beginning of a longer one.
            let is_longer =
                LONG_SIGNS.iter().any(|long| long.len() > sign.len() && self.text.starts_with(long));
            !is_longer && self.eat(sign)
        })?;
        Some((function, is_turned))
    }

    /// `IS [NOT] NULL|TRUE|FALSE`, `ISNULL`, `NOTNULL`: the test, and whether it is negated.
    fn is_test(&mut self) -> Result<Option<(Function, bool)>, Problem> {
        if self.eat_word("isnull") {
            return Ok(Some((Function::IsNull, false)));
        }
        if self.eat_word("notnull") {
            return Ok(Some((Function::IsNull, true)));
        }
        if !self.eat_word("is") {
            return Ok(None);
        }
        let is_turned = self.eat_word("not");
        let tests = [("null", Function::IsNull), ("true", Function::IsTrue), ("false", Function::IsFalse)];
        let test = tests.into_iter().find(|(word, _)| self.eat_word(word));
        let at = self.at;
        test.map(|(_, function)| Some((function, is_turned)))
            .ok_or_else(|| at.problem("expected NULL, TRUE or FALSE after IS"))
    }

    fn unary(&mut self) -> Result<Expression, Problem> {
        self.blanks();
        let at = self.at;
        if self.eat("-") {
            let zero = Expression::Value(Value::Integer(0));
            let arguments = vec![zero, self.unary()?];
            return Ok(Expression::Call { function: Function::Subtract, arguments, at });
        }
        if self.eat("+") {
            return self.unary();
        }
        if self.eat("~") {
            return Ok(Expression::Call { function: Function::BitNot, arguments: vec![self.unary()?], at });
        }
        if self.eat("(") {
            let inner = self.expression()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.eat(":") {
            let name = self.take_while(is_name);
            if name.is_empty() {
                return Err(self.at.problem("expected a variable name after `:`"));
            }
            return Ok(Expression::Variable { slot: self.names.slot(name), at });
        }
        match self.peek() {
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if is_name(c) => self.word(),
            _ => {
                let rest = self.take_while(|c| c != '\n');
                Err(at.problem(match rest.trim_end() {
                    "" => "expected an expression: a number, `:variable`, a function or `(`".to_owned(),
                    rest => {
                        format!("expected a number, `:variable`, a function or `(`, found `{rest}`")
                    }
                }))
            }
        }
    }

    fn number(&mut self) -> Result<Expression, Problem> {
        let at = self.at;
        let mut last = ' ';
        // A sign is part of the number only after an exponent.
        let length = self.text.chars().take_while(|c| {
            let is_part = c.is_ascii_alphanumeric()
                || *c == '.'
                || (matches!(c, '+' | '-') && matches!(last, 'e' | 'E'));
            last = *c;
            is_part
        });
        let count = length.count();
        let text = self.take(count);
        let integer = text.parse().map(Value::Integer);
        let value = integer.or_else(|_| text.parse().map(Value::Real));
        value.map(Expression::Value).map_err(|_| at.problem(format!("`{text}` is not a number")))
    }

    /// A constant, CASE, or a function with its arguments.
    fn word(&mut self) -> Result<Expression, Problem> {
        let at = self.at;
        let word = self.take_while(is_name).to_ascii_lowercase();
        match word.as_str() {
            "true" => return Ok(Expression::Value(Value::Boolean(true))),
            "false" => return Ok(Expression::Value(Value::Boolean(false))),
            "null" => return Ok(Expression::Value(Value::Null)),
            "case" => return self.case(),
            _ => {}
        }
        self.blanks();
        if !self.eat("(") {
            return Err(at.problem(format!(
                "`{word}` is not a value: write a variable as `:{word}`, a function as `{word}(...)`"
            )));
        }
        let mut arguments = Vec::new();
        self.blanks();
        if !self.eat(")") {
            loop {
                arguments.push(self.expression()?);
                self.blanks();
                if !self.eat(",") {
                    self.expect(")")?;
                    break;
                }
            }
        }
        let function = Function::named(&word, arguments.len(), at)?;
        Ok(Expression::Call { function, arguments, at })
    }

    fn case(&mut self) -> Result<Expression, Problem> {
        let mut arms = Vec::new();
        while self.eat_word("when") {
            let condition = self.expression()?;
            self.expect_word("then")?;
            arms.push((condition, self.expression()?));
        }
        if arms.is_empty() {
            return Err(self.at.problem("expected WHEN after CASE"));
        }
        let otherwise = if self.eat_word("else") { Some(Box::new(self.expression()?)) } else { None };
        self.expect_word("end")?;
        Ok(Expression::Case { arms, otherwise })
    }

    /// Consumes a word, in any case, if it is the next one.
    fn eat_word(&mut self, word: &str) -> bool {
        self.blanks();
        let end = self.text.find(|c| !is_name(c)).unwrap_or(self.text.len());
        let is_there = self.text[..end].eq_ignore_ascii_case(word);
        if is_there {
            self.take(word.chars().count());
        }
        is_there
    }

    fn expect_word(&mut self, word: &str) -> Result<(), Problem> {
        if self.eat_word(word) {
            return Ok(());
        }
        Err(self.at.problem(format!("expected {}", word.to_ascii_uppercase())))
    }

    fn expect(&mut self, sign: &str) -> Result<(), Problem> {
        self.blanks();
        if self.eat(sign) {
            return Ok(());
        }
        Err(self.at.problem(format!("expected `{sign}`")))
    }
}

fn test_of((function, is_turned): (Function, bool), argument: Expression, at: SourcePosition) -> Expression {
    let test = Expression::Call { function, arguments: vec![argument], at };
    if is_turned { Expression::Call { function: Function::Not, arguments: vec![test], at } } else { test }
}

/// An operator, its function, and whether its operands are swapped.
type Operator = (&'static str, Function, bool);

/// Operators by precedence, from the loosest to the tightest.
const LEVELS: [&[Operator]; 8] = [
    &[("or", Function::Or, false)],
    &[("and", Function::And, false)],
    &[], // NOT stands before its argument.
    &[], // IS stands behind it.
    &[
        ("<=", Function::LessOrEqual, false),
        (">=", Function::LessOrEqual, true),
        ("<>", Function::Unequal, false),
        ("!=", Function::Unequal, false),
        ("<", Function::Less, false),
        (">", Function::Less, true),
        ("=", Function::Equal, false),
    ],
    &[
        ("|", Function::BitOr, false),
        ("#", Function::BitXor, false),
        ("&", Function::BitAnd, false),
        ("<<", Function::ShiftLeft, false),
        (">>", Function::ShiftRight, false),
    ],
    &[("+", Function::Add, false), ("-", Function::Subtract, false)],
    &[("*", Function::Multiply, false), ("/", Function::Divide, false), ("%", Function::Remainder, false)],
];
const NOT_LEVEL: usize = 2;
const IS_LEVEL: usize = 3;
const LONG_SIGNS: [&str; 6] = ["<=", ">=", "<>", "!=", "<<", ">>"];
