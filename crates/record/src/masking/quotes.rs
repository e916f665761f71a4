//! Nested quotes: a shell's words in a plan's text in a JSON document.
//!
//! A quote is its character and the number of backslashes before it; more backslashes mean deeper nesting. It
//! ends at the next equal quote, or at the end of an enclosing quote if that comes first.

use std::ops::Range;

/// Longest distance searched for a closing quote: a hostile line must not cost time quadratic in its length.
const LENGTH_MAX: usize = 4 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quote {
    backslashes: usize,
    character: u8,
}

/// Position of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Value {
    /// Range without its own quotes.
    pub(super) inner: Range<usize>,
    /// Position after its closing quote.
    pub(super) end: usize,
}

impl Value {
    pub(super) fn plain(range: Range<usize>) -> Self {
        Self { end: range.end, inner: range }
    }
}

/// Quotes that are open at a position of a line, outermost first.
#[derive(Debug, Default)]
pub(super) struct Quotes {
    at: usize,
    open: Vec<Quote>,
    /// Position after the quote that was opened last.
    opened_at: Option<usize>,
}

impl Quotes {
    /// Quote that begins at `at`, including its backslashes, and the position after it.
    pub(super) fn at(line: &str, at: usize) -> Option<(Quote, usize)> {
        let bytes = &line.as_bytes()[at..];
        let backslashes = bytes.iter().take_while(|b| **b == b'\\').count();
        let character = *bytes.get(backslashes)?;
        matches!(character, b'"' | b'\'' | b'`')
            .then(|| (Quote { backslashes, character }, at + backslashes + 1))
    }

    /// Continues up to `to`.
    pub(super) fn advance(&mut self, line: &str, to: usize) {
        while self.at < to {
            let at = self.at;
            match Self::at(line, at) {
                Some((_, next)) if next > to => self.at = to,
                Some((quote, next)) => {
                    self.at = if is_apostrophe(line, at, next) { next } else { self.pass(line, quote, next) };
                }
                None => {
                    let bytes = &line.as_bytes()[at..];
                    let backslashes = bytes.iter().take_while(|b| **b == b'\\').count();
                    self.at = (at + backslashes + 1).min(to.max(at + 1));
                }
            }
        }
    }

    fn pass(&mut self, line: &str, quote: Quote, next: usize) -> usize {
        match self.open.iter().position(|open| *open == quote) {
            Some(_) if let Some(behind) = behind_escaped(line, quote, next) => behind,
            Some(depth) => {
                self.open.truncate(depth);
                next
            }
            None => {
                self.open.push(quote);
                self.opened_at = Some(next);
                next
            }
        }
    }

    /// Whether a quote was opened directly before `at`.
    pub(super) fn has_just_opened(&self, at: usize) -> bool {
        self.at == at && self.opened_at == Some(at)
    }

    /// Whether the quote at `at` closes an open one.
    pub(super) fn closes_at(&self, line: &str, at: usize) -> bool {
        Self::at(line, at).is_some_and(|(quote, _)| self.open.contains(&quote))
    }

    /// Position of the first quote that closes an open one, before its backslashes.
    pub(super) fn enclosing_end(&self, line: &str, from: usize) -> Option<usize> {
        if self.open.is_empty() {
            return None;
        }
        let mut at = from;
        while at < line.len() {
            match Self::at(line, at) {
                Some((quote, next)) if self.open.contains(&quote) && !is_apostrophe(line, at, next) => {
                    match behind_escaped(line, quote, next) {
                        Some(behind) => at = behind,
                        None => return Some(at),
                    }
                }
                found => at = found.map_or_else(|| behind_plain(line, at), |(_, next)| next),
            }
        }
        None
    }

    /// Value that begins at `from`, as a shell reads the word.
    pub(super) fn value(&self, line: &str, from: usize) -> Option<Value> {
        let mut at = from;
        let mut parts: Vec<Range<usize>> = Vec::new();
        let mut has_bare = false;
        while at < line.len() {
            let is_behind_quote = parts.last().is_some_and(|part| part.end < at) && !has_bare;
            if is_behind_quote && b",;:)]}&|".contains(&line.as_bytes()[at]) {
                break;
            }
            if let Some((quote, next)) = Self::at(line, at) {
                if self.open.contains(&quote) {
                    break;
                }
                if let Some((inner_end, behind)) = self.close_of(line, quote, next) {
                    parts.push(next..inner_end);
                    at = behind;
                } else {
                    has_bare = true;
                    at = next;
                }
                continue;
            }
            if let Some(behind) = self.behind_substitution(line, at) {
                has_bare = true;
                at = behind;
                continue;
            }
            let bytes = &line.as_bytes()[at..];
            let backslashes = bytes.iter().take_while(|b| **b == b'\\').count();
            let next = bytes.get(backslashes).copied();
            let in_string = self.open.iter().any(|quote| quote.character == b'"');
            let is_line_end = backslashes % 2 == 1 && in_string && matches!(next, Some(b'n' | b'r' | b't'));
            if is_line_end || (backslashes == 0 && next.is_none_or(|b| b.is_ascii_whitespace())) {
                break;
            }
            has_bare = true;
            at = behind_plain(line, at);
        }
        let inner = match &parts[..] {
            [only] if !has_bare => only.clone(),
            _ => from..at,
        };
        (at > from).then_some(Value { inner, end: at })
    }

    /// Position after `$(...)`, `${...}` or `<(...)`, which may contain blanks.
    fn behind_substitution(&self, line: &str, from: usize) -> Option<usize> {
        let (open, close) = match line.as_bytes().get(from..from + 2)? {
            b"$(" | b"<(" => (b'(', b')'),
            b"${" => (b'{', b'}'),
            _ => return None,
        };
        let bytes = line.as_bytes();
        let (mut at, mut depth) = (from + 1, 0_u32);
        while at < line.len().min(from + LENGTH_MAX) {
            if let Some((quote, next)) = Self::at(line, at) {
                if self.open.contains(&quote) {
                    return None;
                }
                at = next;
                continue;
            }
            depth += u32::from(bytes[at] == open);
            depth -= u32::from(bytes[at] == close);
            if depth == 0 {
                return Some(at + 1);
            }
            at = behind_plain(line, at);
        }
        None
    }

    /// End of the text of a quote and end of its closing quote; `None` if an enclosing quote ends first.
    fn close_of(&self, line: &str, quote: Quote, from: usize) -> Option<(usize, usize)> {
        let mut at = from;
        while at < line.len().min(from + LENGTH_MAX) {
            match Self::at(line, at) {
                Some((found, next)) if found == quote => match behind_escaped(line, quote, next) {
                    Some(behind) => at = behind,
                    None => return Some((at, next)),
                },
                Some((found, _)) if self.open.contains(&found) => return None,
                found => at = found.map_or_else(|| behind_plain(line, at), |(_, next)| next),
            }
        }
        None
    }
}

/// Position after the backslashes at `at` and the character that follows them.
fn behind_plain(line: &str, at: usize) -> usize {
    let backslashes = line.as_bytes()[at..].iter().take_while(|b| **b == b'\\').count();
    let character = line[at + backslashes..].chars().next().map_or(0, char::len_utf8);
    at + backslashes + character
}

/// `it's`.
fn is_apostrophe(line: &str, at: usize, next: usize) -> bool {
    let bytes = line.as_bytes();
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphabetic);
    bytes[next - 1] == b'\''
        && next == at + 1
        && at > 0
        && is_letter(bytes.get(at - 1))
        && is_letter(bytes.get(next))
}

/// Position at which the text continues if the quote that ends at `next` is the first of `'\''`, an escaped
/// quote in a shell's single quotes.
fn behind_escaped(line: &str, quote: Quote, next: usize) -> Option<usize> {
    if quote.character != b'\'' {
        return None;
    }
    let bytes = &line.as_bytes()[next..];
    let backslashes = bytes.iter().take_while(|b| **b == b'\\').count();
    let is_escaped = backslashes > 0
        && bytes.get(backslashes) == Some(&b'\'')
        && bytes.get(backslashes + 1) == Some(&b'\'');
    is_escaped.then_some(next + backslashes + 2)
}
