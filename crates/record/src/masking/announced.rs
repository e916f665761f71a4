//! Secrets that the word before them announces: `Authorization: ...`, `password=...`, `--token ...`, `-p...`,
//! `--user ...`.

use super::names::{self, announces_secret, is_header, is_secret, is_secret_field, takes_login};
use super::quotes::{Quotes, Value};

/// `Authorization: Basic ...`, up to the quote that ends it or the end of the line.
pub(super) fn headers(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let colon = from + line[from..].find(':')?;
    let begin = name_from(line, colon);
    if !is_header(&line[begin..colon]) {
        return Some((colon + 1, None));
    }
    quotes.advance(line, colon + 1);
    let start = colon + 1 + line[colon + 1..].len() - line[colon + 1..].trim_start_matches(' ').len();
    let end = quotes.enclosing_end(line, start).unwrap_or(line.trim_end_matches(['\r', '\n']).len());
    Some((colon + 1, Some(Value::plain(start.min(end)..end))))
}

/// `password=...`, `password = '...'`, `"password": "..."`, `PASSWORD('...')`.
pub(super) fn fields(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let sign = from + line[from..].find(['=', ':', '('])?;
    let bytes = line.as_bytes();
    let next = bytes.get(sign + 1);
    // `password := "s"`, `password => "s"`.
    let is_long = matches!((bytes[sign], next), (b':', Some(b'=')) | (b'=', Some(b'>')));
    let behind = sign + 1 + usize::from(is_long);
    let is_comparison =
        bytes[sign] == b'=' && next == Some(&b'=') || (sign > 0 && b"=!<>".contains(&bytes[sign - 1]));
    let before = without_gap(&line[..sign]);
    let name_end = before.trim_end_matches(['"', '\'', '\\', '`']).len();
    let begin = name_from(line, name_end);
    let name = line[begin..name_end].trim_start_matches('-');
    let name = name.rsplit('.').next().unwrap_or(name);
    if is_comparison || !is_secret(name) {
        return Some((behind, None));
    }
    let start = behind_gap(line, behind);
    quotes.advance(line, begin);
    // `"PGPASSWORD=a b"`: the quote before the name also ends the value.
    let is_whole =
        bytes[sign] == b'=' && start == sign + 1 && name_end == sign && quotes.has_just_opened(begin);
    // `Server=h;Password=a b;Database=d`.
    let is_part = bytes[sign] == b'=' && start == sign + 1 && begin > 0 && bytes[begin - 1] == b';';
    quotes.advance(line, start);
    let is_quoted = Quotes::at(line, start).is_some() && !quotes.closes_at(line, start);
    let value = match bytes[sign] {
        b'(' if !is_quoted => None,
        b':' if !is_quoted && !is_long && (start == sign + 1 || !is_secret_field(name)) => None,
        _ if is_part && !is_quoted => {
            let end = quotes.enclosing_end(line, start).map(|end| {
                let end = line[start..end].find(';').map_or(end, |at| start + at);
                Value::plain(start..end)
            });
            end.or_else(|| quotes.value(line, start))
        }
        _ if is_whole && !is_quoted => {
            let end = quotes.enclosing_end(line, start);
            end.map(|end| Value::plain(start..end)).or_else(|| quotes.value(line, start))
        }
        _ => quotes.value(line, start),
    };
    // `(using password: YES)` is a server's message.
    let value = value.filter(|value| {
        bytes[sign] != b':'
            || !matches!(line[value.inner.clone()].trim_end_matches([')', '.', ',']), "YES" | "NO")
    });
    Some((behind, value))
}

/// `--token SECRET`, `IDENTIFIED BY 'SECRET'`, `Bearer SECRET`.
pub(super) fn options(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let is_break =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | ',' | '[' | '(' | '{' | ';');
    let begin = from + line[from..].find(|c| !is_break(c))?;
    let end = line[begin..].find(is_break).map_or(line.len(), |at| begin + at);
    let word = &line[begin..end];
    if !announces_secret(&line[..begin], word) {
        return Some((end, None));
    }
    let Some(start) = value_start(line, end) else { return Some((end, None)) };
    quotes.advance(line, start);
    let value = quotes.value(line, start).filter(|_| {
        // In SQL, a quoted text follows `IDENTIFIED BY` and `PASSWORD`.
        word.starts_with('-')
            || !names::wants_quotes(&line[..begin], word)
            || Quotes::at(line, start).is_some()
    });
    let value = value.map(|value| if word == "AUTH" { with_next_word(line, value, quotes) } else { value });
    Some((end, value))
}

/// `-pSECRET` of a database client.
pub(super) fn attached(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let begin = from + line[from..].find('-')?;
    let option = line[begin + 1..].chars().next().filter(char::is_ascii_alphabetic);
    let start = begin + 2;
    let is_word = !line[..begin].ends_with(|c: char| c == '-' || c.is_ascii_alphanumeric());
    let has_value = |start: usize| line[start..].starts_with(|c: char| !c.is_whitespace() && c != '-');
    let Some(option) = option.filter(|_| is_word && has_value(start)) else { return Some((begin + 1, None)) };
    if !names::takes_attached(&line[..begin], option) {
        return Some((start, None));
    }
    quotes.advance(line, begin);
    let is_whole = quotes.has_just_opened(begin);
    quotes.advance(line, start);
    let end = if is_whole { quotes.enclosing_end(line, start) } else { None };
    let value = end.map(|end| Value::plain(start..end)).or_else(|| quotes.value(line, start));
    Some((start, value))
}

/// `-u user:SECRET`, `--user=user:SECRET`, `-U user%SECRET`.
pub(super) fn logins(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let begin = from + line[from..].find('-')?;
    let end = line[begin..]
        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .map_or(line.len(), |at| begin + at);
    let is_word = !line[..begin].ends_with(|c: char| c.is_ascii_alphanumeric());
    if !is_word || !takes_login(&line[..begin], &line[begin..end]) {
        return Some((end, None));
    }
    let start = if line[end..].starts_with('=') { Some(end + 1) } else { value_start(line, end) };
    let Some(start) = start else { return Some((end, None)) };
    quotes.advance(line, begin);
    quotes.advance(line, start);
    let value = quotes.value(line, start).and_then(|value| password_of(line, &value));
    Some((end, value))
}

/// Start of the value of the option that ends at `end`, including its quote; `None` if no value follows.
///
/// In between may be blanks, the closing quote of the option, the comma of a list, and escaped blanks and
/// line ends.
pub(super) fn value_start(line: &str, end: usize) -> Option<usize> {
    let bytes = line.as_bytes();
    let (mut at, mut start) = (end, None);
    while let Some(byte) = bytes.get(at) {
        let backslashes = bytes[at..].iter().take_while(|b| **b == b'\\').count();
        let behind = bytes.get(at + backslashes + 1);
        let is_escape =
            backslashes % 2 == 1 && matches!(bytes.get(at + backslashes), Some(b'n' | b'r' | b't'));
        match byte {
            b'\\' if is_escape && (start.is_none() || behind.is_some_and(u8::is_ascii_whitespace)) => {
                at += backslashes + 1;
                start = Some(at);
            }
            b'\\' => at += backslashes,
            b'"' | b'\'' => at += 1,
            b',' | b' ' | b'\t' | b'\r' | b'\n' => {
                at += 1;
                start = Some(at);
            }
            _ => break,
        }
    }
    start.filter(|_| at < line.len() && !line[at..].starts_with("--"))
}

/// `AUTH user password`: both words.
fn with_next_word(line: &str, first: Value, quotes: &Quotes) -> Value {
    let next = first.end + 1;
    let has_next = line[first.end..].starts_with(' ')
        && line[next..].starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '"' | '\''));
    match quotes.value(line, next).filter(|_| has_next) {
        Some(second) => Value::plain(first.inner.start..second.end),
        None => first,
    }
}

/// Password in `user:password`.
fn password_of(line: &str, login: &Value) -> Option<Value> {
    let text = &line[login.inner.clone()];
    let at = text.find([':', '%'])?;
    let (user, password) = (&text[..at], &text[at + 1..]);
    let is_name = |c: char| c.is_alphanumeric() || "_.-\\".contains(c);
    let is_plain = !user.is_empty() && user.chars().all(is_name) && !text.starts_with("***");
    // `docker run --user 1000:1000`.
    let is_id = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    let is_path = password.starts_with('/');
    (is_plain && !is_path && !(is_id(user) && is_id(password)))
        .then(|| Value { inner: login.inner.start + at + 1..login.inner.end, end: login.end })
}

/// Whether a name may contain this byte.
pub(super) fn in_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// Start of the name that ends at `end`.
fn name_from(line: &str, end: usize) -> usize {
    line.as_bytes()[..end].iter().rposition(|b| !in_name(*b)).map_or(0, |at| at + 1)
}

/// Text without blanks and tabs at its end, including escaped ones.
fn without_gap(text: &str) -> &str {
    let mut text = text;
    loop {
        let shorter = text.trim_end_matches([' ', '\t']);
        let shorter = shorter.strip_suffix("\\t").unwrap_or(shorter);
        if shorter.len() == text.len() {
            return text;
        }
        text = shorter;
    }
}

/// End of the blanks and tabs that begin at `from`.
fn behind_gap(line: &str, from: usize) -> usize {
    let mut rest = &line[from..];
    loop {
        let shorter = rest.trim_start_matches([' ', '\t']);
        let shorter = shorter.strip_prefix("\\t").unwrap_or(shorter);
        if shorter.len() == rest.len() {
            return line.len() - rest.len();
        }
        rest = shorter;
    }
}
