//! Secrets that only their position reveals: the last word of `htpasswd -b FILE USER SECRET`, the fifth field
//! of a line of `.pgpass`, the input of a command with `--password-stdin`.

use super::announced::value_start;
use super::names::{is_behind, is_secret};
use super::quotes::{Quotes, Value};

/// Programs, a word of their command line, and the number of words between it and the secret. No program: the
/// word suffices.
const PLACES: [(&[&str], &[&str], usize); 7] = [
    (&["htpasswd"], &["-b", "-bc", "-cb", "-Bb", "-bB", "-Bbc", "-mb", "-bm"], 2),
    (&["htpasswd"], &["-nb", "-bn", "-nbB", "-nbm", "-Bbn", "-bnB"], 1),
    (&["mc"], &["set"], 3),
    (&["rabbitmqctl"], &["add_user", "change_password", "authenticate_user"], 1),
    (&["mysqladmin", "mariadb-admin"], &["password"], 0),
    (&[], &["auth-pass"], 1),
    (&["vault", "consul"], &["VAULT_TOKEN", "CONSUL_HTTP_TOKEN"], 0),
];

/// Secret at a fixed number of words after a known word.
pub(super) fn placed(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let (begin, end) = next_word(line, from)?;
    let word = &line[begin..end];
    let is_it = |(programs, triggers, _): &&(&[&str], &[&str], usize)| {
        triggers.contains(&word) && (programs.is_empty() || is_behind(&line[..begin], programs))
    };
    let skipped = match PLACES.iter().find(is_it) {
        Some((.., skipped)) => *skipped,
        None if is_of_netrc(line, begin, end) => 0,
        None => return Some((end, None)),
    };
    let mut at = end;
    let mut value = None;
    for _ in 0..=skipped {
        let Some(start) = value_start(line, at) else { return Some((end, None)) };
        quotes.advance(line, start);
        value = quotes.value(line, start);
        let Some(found) = &value else { return Some((end, None)) };
        at = found.end;
    }
    Some((end, value))
}

fn next_word(line: &str, from: usize) -> Option<(usize, usize)> {
    let is_break =
        |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | ',' | '[' | '(' | '{' | ';');
    let begin = from + line[from..].find(|c| !is_break(c))?;
    Some((begin, line[begin..].find(is_break).map_or(line.len(), |at| begin + at)))
}

/// `password SECRET` or `ldap_bind_password SECRET`, alone on its line.
fn is_of_netrc(line: &str, begin: usize, end: usize) -> bool {
    let is_first = line[..begin].trim().is_empty();
    is_first && is_secret(&line[begin..end]) && line[end..].split_whitespace().count() == 1
}

/// Words that show that a command reads a secret from its input.
const READERS: [&str; 7] =
    ["--password-stdin", "--stdin", "sudo -S", "chpasswd", "cryptsetup", "--with-token", "--passphrase-fd 0"];

/// Words after `echo`, `printf` and `<<<`, if the line has a command that reads a secret.
pub(super) fn piped(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    if !READERS.iter().any(|reader| line.contains(reader)) {
        return None;
    }
    let (at, word) = ["<<<", "echo ", "printf "]
        .into_iter()
        .filter_map(|word| Some((from + line[from..].find(word)?, word)))
        .min_by_key(|(at, _)| *at)?;
    let mut end = at + word.len();
    let mut value = None;
    while let Some(start) =
        value_start(line, end - usize::from(word.ends_with(' ') && end == at + word.len()))
    {
        quotes.advance(line, start);
        let Some(found) = quotes.value(line, start) else { break };
        end = found.end;
        let text = &line[found.inner.clone()];
        if text.starts_with(['|', '&', ';']) {
            break;
        }
        // Skips options of `echo` and formats of `printf`.
        if !text.starts_with(['-', '%']) {
            value = Some(found);
            break;
        }
    }
    Some((end, value))
}

/// `<password>SECRET</password>`.
pub(super) fn elements(line: &str, from: usize, _: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let close = from + line[from..].find('>')?;
    let open = line[..close].rfind('<');
    let name = open.map_or("", |open| line[open + 1..close].split(' ').next().unwrap_or_default());
    let start = close + 1;
    let value = is_secret(name.rsplit([':', '.']).next().unwrap_or(name))
        .then(|| line[start..].find('<'))
        .flatten()
        .map(|length| Value::plain(start..start + length));
    Some((start, value))
}

/// `SET PASSWORD FOR 'bob'@'%' = 'SECRET'`, and `name="password" value="SECRET"`: the next quoted text after
/// a sign.
pub(super) fn beside(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    const NAMED: [(&str, &str); 4] = [
        ("password for ", "="),
        ("name=\"password\"", "value="),
        (r#"name=\"password\""#, "value="),
        ("name='password'", "value="),
    ];
    let lower = line.to_ascii_lowercase();
    let found = NAMED.iter().filter_map(|(name, sign)| {
        let begin = from + lower[from..].find(name)? + name.len();
        Some((begin, begin + lower[begin..].find(sign)? + sign.len()))
    });
    let (begin, behind) = found.min()?;
    let start = line.len() - line[behind..].trim_start_matches(' ').len();
    let is_near = !line[begin..behind].contains([';', '<', '>']);
    quotes.advance(line, start);
    let value = quotes.value(line, start).filter(|_| is_near && Quotes::at(line, start).is_some());
    Some((behind, value))
}

/// `user NAME on >SECRET` of an access control list.
pub(super) fn granted(line: &str, from: usize, quotes: &mut Quotes) -> Option<(usize, Option<Value>)> {
    let at = from + line[from..].find('>')?;
    let before = &line[..at];
    let is_list =
        before.trim_start().starts_with("user ") || before.to_ascii_lowercase().contains("setuser ");
    let is_word = before.ends_with([' ', '"', '\'']);
    if !(is_list && is_word) {
        return Some((at + 1, None));
    }
    quotes.advance(line, at + 1);
    Some((at + 1, quotes.value(line, at + 1)))
}

/// A line of `.pgpass`: `host:port:database:user:SECRET`.
pub(super) fn of_pgpass(word: &str) -> Option<String> {
    let fields: Vec<&str> = word.splitn(5, ':').collect();
    let [host, port, database, user, secret] = fields[..] else { return None };
    let is_any = |text: &str| text == "*";
    let is_name =
        |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') || is_any(text);
    let is_host = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "._-/*".contains(c));
    let is_port = is_any(port) || (!port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    let is_line = is_host && is_port && is_name(database) && is_name(user) && !secret.is_empty();
    (is_line && secret != "***").then(|| format!("{host}:{port}:{database}:{user}:***"))
}

/// Programs that take `user/SECRET@place` as an argument.
const ORACLE: [&str; 6] = ["sqlplus", "sqlldr", "expdp", "impdp", "rman", "connect"];

/// `scott/SECRET@place` after a program of Oracle.
pub(super) fn of_oracle(word: &str, before: &str) -> Option<String> {
    let program = before.rsplit('/').next().unwrap_or(before).to_ascii_lowercase();
    let (user, rest) = word.split_once('/').filter(|_| ORACLE.contains(&program.as_str()))?;
    let place = rest.rfind('@').map_or("", |at| &rest[at..]);
    let is_user = !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    let secret = &rest[..rest.len() - place.len()];
    (is_user && !secret.is_empty() && secret != "***").then(|| format!("{user}/***{place}"))
}
