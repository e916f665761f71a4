//! Masks passwords in text for people: command lines, plans, messages, logs.
//!
//! This is a second line of defense: it recognizes a secret by the word before it or by its form. A value in
//! quotes is masked up to its closing quote, also in JSON, which escapes that quote. Masking too much is
//! better than too little.

mod announced;
mod forms;
mod names;
mod places;
mod quotes;
mod words;

use self::announced::{attached, fields, headers, logins, options};
use self::forms::mask_forms;
use self::names::announces_secret;
use self::quotes::{Quotes, Value};
use self::words::mask_words;

pub use self::names::is_secret_parameter;
pub(crate) use self::names::{is_reference, is_secret};

/// Masks the passwords that are recognizable in a text: in URLs, in `password=...`, in `MYSQL_PWD = "..."`,
/// after `--token`, in `Authorization: ...`.
///
/// A password that contains blanks or quotes ends its URL too early to be recognized: a caller that knows the
/// [`Target`](crate::target::Target) masks it.
pub fn mask_text(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    // Text that ends a secret of several lines, while inside one.
    let mut hidden_until: Option<&str> = None;
    for line in whole_lines(text) {
        if let Some(end) = hidden_until {
            let Some(at) = line.find(end) else { continue };
            hidden_until = None;
            masked.push_str(&line[at..]);
            continue;
        }
        if let Some((quote, head)) = opens_block(line) {
            hidden_until = Some(quote);
            masked.extend([head, "***\n"]);
            continue;
        }
        let line = mask_keys(line, &mut hidden_until);
        masked.push_str(&mask_assignment(&line).unwrap_or_else(|| mask_line(&line)));
    }
    masked
}

/// Lines of a text, including line ends. A line that ends with a backslash, or with an option that takes a
/// secret, includes the next one.
pub fn whole_lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let mut end = line_end(rest, 0)?;
        while let (true, Some(next)) = (goes_on(&rest[..end]), line_end(rest, end)) {
            end = next;
        }
        let (line, behind) = rest.split_at(end);
        rest = behind;
        Some(line)
    })
}

fn line_end(text: &str, from: usize) -> Option<usize> {
    (from < text.len()).then(|| text[from..].find('\n').map_or(text.len(), |at| from + at + 1))
}

/// - `line`: may consist of several lines.
fn goes_on(line: &str) -> bool {
    let last = &line[line.trim_end_matches(['\r', '\n']).rfind('\n').map_or(0, |at| at + 1)..];
    let last = last.trim_end_matches(['\r', '\n']);
    // `title = "the cost of --token"`: the text ends here, and the option has no value.
    if last.trim_end().ends_with(['"', '\'']) {
        return false;
    }
    let text = last.trim_end_matches([' ', '\t', '"', '\'', ',']);
    let begin = text.rfind([' ', '\t', '"', '\'', '[', ',']).map_or(0, |at| at + 1);
    let word = &text[begin..];
    last.ends_with('\\') || (word.starts_with('-') && announces_secret(&text[..begin], word))
}

/// Quotes that end the block, and the line up to them, if the line is `NAME = """` and the secret follows
/// below.
fn opens_block(line: &str) -> Option<(&'static str, &str)> {
    let (name, value) = line.split_once('=')?;
    let quote = ["\"\"\"", "'''"].into_iter().find(|quote| value.trim_start().starts_with(quote))?;
    let is_open = value.matches(quote).count() == 1;
    let name = name.trim().trim_matches('"').rsplit('.').next()?;
    (is_open && is_secret(name)).then(|| (quote, &line[..line.find(quote).map_or(0, |at| at + quote.len())]))
}

const KEY_BEGINS: &str = "-----BEGIN ";
const KEY_ENDS: &str = "-----END ";
const KEY_NAME: &str = "PRIVATE KEY-----";

/// Masks private keys in PEM, on one line, as in JSON, or on several.
fn mask_keys(line: &str, hidden_until: &mut Option<&str>) -> String {
    let mut masked = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find(KEY_BEGINS) {
        let head = rest[at..].find(KEY_NAME).map(|name| at + name + KEY_NAME.len());
        let Some(head) = head.filter(|head| head - at < 64) else {
            masked.push_str(&rest[..at + KEY_BEGINS.len()]);
            rest = &rest[at + KEY_BEGINS.len()..];
            continue;
        };
        masked.push_str(&rest[..head]);
        masked.push_str("***");
        let Some(end) = rest[head..].find(KEY_ENDS) else {
            *hidden_until = Some(KEY_ENDS);
            masked.push('\n');
            return masked;
        };
        rest = &rest[head + end..];
    }
    masked.push_str(rest);
    masked
}

/// Masks `NAME = "value"`, the form of a plan; `None` for another form or a value that is not secret.
fn mask_assignment(line: &str) -> Option<String> {
    let (name, value) = line.split_once('=')?;
    let name_only = name.trim().trim_matches('"');
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if !name_only.chars().all(plain) {
        return None;
    }
    let name_only = name_only.rsplit('.').next().unwrap_or(name_only);
    let quote = value.trim_start().chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let (before, rest) = value.split_once(quote)?;
    let (_, after) = rest.rsplit_once(quote)?;
    if !matches!(after.trim_start().chars().next(), None | Some('#' | ',')) {
        // A command after a variable.
        return None;
    }
    let secret = rest.strip_suffix(after).and_then(|r| r.strip_suffix(quote)).unwrap_or(rest);
    (is_secret(name_only) && !is_reference(secret) && !secret.is_empty())
        .then(|| format!("{name}={before}{quote}***{quote}{after}"))
}

/// Masks the secrets of one line that a word before them announces.
fn mask_line(line: &str) -> String {
    let line = mask_values(line, headers);
    let line = mask_values(&line, fields);
    let line = mask_values(&line, options);
    let line = mask_values(&line, attached);
    let line = mask_values(&line, logins);
    let line = mask_values(&line, places::placed);
    let line = mask_values(&line, places::piped);
    let line = mask_values(&line, places::elements);
    let line = mask_values(&line, places::granted);
    let line = mask_values(&line, places::beside);
    let line = mask_words(&line);
    mask_forms(&line)
}

/// Finds the next value after an offset: returns the offset at which to continue, and the value if there is
/// one.
type Find = fn(&str, usize, &mut Quotes) -> Option<(usize, Option<Value>)>;

/// Masks the values that `find` yields.
fn mask_values(line: &str, find: Find) -> String {
    let mut masked = String::with_capacity(line.len());
    let (mut from, mut done) = (0, 0);
    let mut quotes = Quotes::default();
    while let Some((next, value)) = find(line, from, &mut quotes) {
        from = next;
        let Some(value) = value else { continue };
        let text = &line[value.inner.clone()];
        if text.is_empty() || text.starts_with("***") || is_reference(text.trim()) {
            from = from.max(value.end);
            continue;
        }
        masked.push_str(&line[done..value.inner.start]);
        masked.push_str("***");
        done = value.inner.end;
        from = value.end;
    }
    masked.push_str(&line[done..]);
    masked
}

#[cfg(test)]
mod tests;
