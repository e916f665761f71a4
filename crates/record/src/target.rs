//! Where a load goes. A password never reaches an archive, a report or a log: only a driver gets to see it.

use std::fmt;

/// A target as the user wrote it: `mysql://app:secret@localhost/bench`.
///
/// `Display` and `Debug` mask the password; [`Target::expose`] is for drivers alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Takes a target as written, without judging it: that is the driver's part.
    pub fn new(written: impl Into<String>) -> Self {
        Self(written.into())
    }

    /// The whole text, with the password in it.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// What stands before the first colon: `mysql`; empty where there is none.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// The text with the password masked, in the user-info part and in `password=` parameters.
    pub fn masked(&self) -> String {
        mask_parameters(&mask_user_info(&self.0))
    }
}

/// A text for people (a command line, a plan, a message) with the passwords masked that are seen to be such: in URLs,
/// in `password=...`, in `MYSQL_PWD = "..."`.
///
/// A password that holds blanks or quotes ends its URL too early to be seen: who knows the [`Target`] masks that.
pub fn mask_text(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let line = mask_headers(line);
        masked.push_str(&mask_assignment(&line).unwrap_or_else(|| mask_words(&line)));
    }
    masked
}

/// Headers of requests whose values are secrets, in lower case.
const SECRET_HEADERS: [&str; 10] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "set-cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-amz-security-token",
    "x-vault-token",
];

/// `Authorization: Basic ...`, up to the quote or the end of the line that ends it.
fn mask_headers(line: &str) -> String {
    let lower = line.to_ascii_lowercase();
    let mut masked = String::with_capacity(line.len());
    let mut from = 0;
    while let Some(colon) = lower[from..].find(':').map(|at| from + at) {
        let name_from =
            lower[..colon].rfind(|c: char| !c.is_ascii_alphanumeric() && c != '-').map_or(0, |at| at + 1);
        let is_header = name_from >= from && SECRET_HEADERS.contains(&&lower[name_from..colon]);
        let value = &line[colon + 1..];
        if !is_header || value.trim().is_empty() {
            masked.push_str(&line[from..=colon]);
            from = colon + 1;
            continue;
        }
        // The quote around header and value, if there is one: a quote within the value does not end it.
        let quote = line[..name_from].chars().next_back().filter(|c| matches!(c, '"' | '\'' | '`'));
        let escaped = quote.is_some() && line[..name_from].ends_with("\\\"");
        let end = match quote {
            Some(_) if escaped => value.find("\\\""),
            Some(quote) => value.find(quote),
            None => None,
        };
        let end = end.unwrap_or(value.trim_end_matches(['\r', '\n']).len());
        masked.push_str(&line[from..=colon]);
        if is_reference(value[..end].trim()) {
            masked.push_str(&value[..end]);
        } else {
            masked.push_str(" ***");
        }
        from = colon + 1 + end;
    }
    masked.push_str(&line[from..]);
    masked
}

/// `{env:NAME}` and `{file:PATH}` say where a secret is, and are none; a word before them is how it is used.
fn is_reference(value: &str) -> bool {
    let last = value.split_ascii_whitespace().next_back().unwrap_or_default();
    let is_one = |text: &str| {
        text.strip_suffix('}').is_some_and(|t| t.starts_with("{env:") || t.starts_with("{file:"))
    };
    is_one(last) && value.split_ascii_whitespace().count() <= 2
}

/// `NAME = "value"`, the form of a plan; `None` where it is none, or nothing secret.
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
    let secret = rest.strip_suffix(after).and_then(|r| r.strip_suffix(quote)).unwrap_or(rest);
    (is_secret(name_only) && !is_reference(secret) && !secret.is_empty())
        .then(|| format!("{name}={before}{quote}***{quote}{after}"))
}

/// Options of servers and of their clients whose next word is a secret.
const SECRET_OPTIONS: [&str; 12] = [
    "--requirepass",
    "requirepass",
    "--masterauth",
    "masterauth",
    "--pass",
    "--password",
    "--passwd",
    "--secret",
    "--token",
    "--auth",
    "--api-key",
    "--secret-key",
];

/// Whether the word after this one is a secret.
fn announces_secret(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    SECRET_OPTIONS.contains(&word.as_str())
        || (word.starts_with("--") && !word.contains('=') && is_secret(&word[2..]))
}

/// Arrivals that read like credentials: `burst:100-1000@1s/10s`.
const RATES: [&str; 4] = ["ramp", "step", "burst", "sine"];

/// `user:password` and `user:password@host`, without the password.
fn without_password(word: &str) -> Option<String> {
    let (user, rest) = word.split_once(':')?;
    let host = rest.rfind('@').map_or("", |at| &rest[at..]);
    let password = &rest[..rest.len() - host.len()];
    let plain = !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let is_path = password.starts_with('/') || password.is_empty();
    let is_rate = RATES.contains(&user);
    (plain && !is_path && !is_rate && !is_reference(password)).then(|| format!("{user}:***{host}"))
}

fn mask_words(line: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>');
    let mut masked = String::with_capacity(line.len());
    // Inside a quoted secret, up to the quote that closes it.
    let mut hidden_until = None;
    // The word before, where it says what this one is.
    let mut before = String::new();
    for word in line.split_inclusive(ends_word) {
        let (word, end) = word.split_at(word.trim_end_matches(ends_word).len());
        if let Some(quote) = hidden_until {
            hidden_until = (!end.ends_with(quote)).then_some(quote);
            continue;
        }
        let previous = std::mem::replace(&mut before, word.to_owned());
        if matches!(word, "" | ",") {
            // What a list has between its words.
            before = previous;
            masked.push_str(word);
            masked.push_str(end);
            continue;
        }
        if announces_secret(&previous) && !is_reference(word) && !word.starts_with("--") {
            masked.push_str("***");
            masked.push_str(end);
            continue;
        }
        let credentials = matches!(previous.as_str(), "-u" | "--user" | "-U" | "--proxy-user");
        let is_address = word.contains('@') && !word.contains("://") && !word.contains('=');
        if (credentials || is_address)
            && let Some(shown) = without_password(word)
        {
            masked.push_str(&shown);
            masked.push_str(end);
            continue;
        }
        match word.split_once('=') {
            _ if word.contains("://") || word.contains('?') => {
                masked.push_str(&Target::new(word).masked());
                masked.push_str(end);
            }
            Some((name, value)) if is_secret(name.trim_start_matches('-')) && !is_reference(value) => {
                masked.push_str(name);
                masked.push_str("=***");
                match end.chars().next().filter(|c| value.is_empty() && matches!(c, '"' | '\'')) {
                    Some(quote) if line.matches(quote).count() > 1 => hidden_until = Some(quote),
                    _ => masked.push_str(end),
                }
            }
            _ => {
                masked.push_str(word);
                masked.push_str(end);
            }
        }
    }
    masked
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.masked())
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({:?})", self.masked())
    }
}

fn mask_user_info(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    // A password may hold an unescaped `@` or even a `/`: whatever stands before the last `@` of the authority, or,
    // where the authority has none, before the last `@` of all, is user information.
    let at = rest[..authority_end].rfind('@').or_else(|| rest.rfind('@'));
    match at.and_then(|at| rest[..at].find(':').map(|colon| (colon, at))) {
        Some((colon, at)) if is_reference(&rest[colon + 1..at]) => text.to_owned(),
        Some((colon, at)) => format!("{scheme}://{}:***{}", &rest[..colon], &rest[at..]),
        None => text.to_owned(),
    }
}

fn mask_parameters(text: &str) -> String {
    let Some((path, query)) = text.split_once('?') else { return text.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if is_secret(name) && !is_reference(value) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name.ends_with("password")
        || SECRET_ENDS.iter().any(|s| name == *s || name.ends_with(&format!("_{s}")))
        || SECRET_NAMES.contains(&name.as_str())
}

/// How names of secrets end: `AWS_SECRET_ACCESS_KEY`, `db_pwd`, `api-key`.
const SECRET_ENDS: [&str; 17] = [
    "passwd",
    "pass",
    "passphrase",
    "pw",
    "pwd",
    "secret",
    "token",
    "credential",
    "credentials",
    "access_key",
    "secret_key",
    "private_key",
    "account_key",
    "encryption_key",
    "api_key",
    "apikey",
    "auth",
];
/// Names of secrets that end like no other.
const SECRET_NAMES: [&str; 6] =
    ["requirepass", "masterauth", "pgpass", "authorization", "cookie", "redisclient_auth"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_form_of_a_password_is_displayed() {
        for (written, shown) in [
            ("mysql://app:secret@localhost/bench", "mysql://app:***@localhost/bench"),
            ("mysql://app:sec@ret@localhost/bench", "mysql://app:***@localhost/bench"),
            ("mysql://app:sec/ret@localhost/bench", "mysql://app:***@localhost/bench"),
            (
                "mysql://app@localhost/bench?password=secret&x=1",
                "mysql://app@localhost/bench?password=***&x=1",
            ),
            ("redis://:secret@h:1", "redis://:***@h:1"),
            ("mysql://app@localhost:3306/bench", "mysql://app@localhost:3306/bench"),
            ("sqlite:/tmp/x.db?journal_mode=wal", "sqlite:/tmp/x.db?journal_mode=wal"),
            ("null:", "null:"),
        ] {
            let target = Target::new(written);
            assert_eq!(target.to_string(), shown);
            assert_eq!(format!("{target:?}"), format!("Target({shown:?})"));
        }
    }

    #[test]
    fn a_text_loses_its_passwords_and_nothing_else() {
        for (written, shown) in [
            ("load mysql://app:secret@h/b --rate 5\n", "load mysql://app:***@h/b --rate 5\n"),
            (
                "target = \"mysql://app:secret@h/b?x=1\" # here\n",
                "target = \"mysql://app:***@h/b?x=1\" # here\n",
            ),
            ("MYSQL_PWD = \"secret\"\n", "MYSQL_PWD = \"***\"\n"),
            ("server.env.PGPASSWORD = 'sec ret' # x", "server.env.PGPASSWORD = '***' # x"),
            ("mysql://app:secret@h/b?password=secret", "mysql://app:***@h/b?password=***"),
            ("mariadb --password=secret -e x", "mariadb --password=*** -e x"),
            ("{\"command\":\"load redis://:secret@h:1\"}", "{\"command\":\"load redis://:***@h:1\"}"),
            ("sqlite:x.db?password=secret", "sqlite:x.db?password=***"),
            ("{\"a\":\"password='x'\",\"b\":\"it's\"}", "{\"a\":\"password=***\",\"b\":\"it's\"}"),
            ("header = [\"Authorization: Basic c2VjcmV0\"]\n", "header = [\"Authorization: ***\"]\n"),
            ("-H 'Cookie: a=secret; b=secret' x", "-H 'Cookie: ***' x"),
            (
                "{\"headers\":[\"X-Api-Key: secret\",\"Accept: */*\"]}",
                "{\"headers\":[\"X-Api-Key: ***\",\"Accept: */*\"]}",
            ),
            ("redis-server --requirepass secret --port 1", "redis-server --requirepass *** --port 1"),
            ("tool --api-key secret --token secret x", "tool --api-key *** --token *** x"),
            ("AWS_SECRET_ACCESS_KEY=secret aws s3", "AWS_SECRET_ACCESS_KEY=*** aws s3"),
            ("env = [\"GITHUB_TOKEN=secret\"]", "env = [\"GITHUB_TOKEN=***\"]"),
            ("AZURE_STORAGE_ACCOUNT_KEY = 'secret'", "AZURE_STORAGE_ACCOUNT_KEY = '***'"),
            ("curl -u app:secret http://h", "curl -u app:*** http://h"),
            ("rsync app:secret@h", "rsync app:***@h"),
            ("requirepass secret", "requirepass ***"),
            // A reference is no secret.
            ("Authorization: Bearer {env:TOKEN}", "Authorization: Bearer {env:TOKEN}"),
            ("--password={file:/p} --token {env:T}", "--password={file:/p} --token {env:T}"),
            ("mysql://app:{env:PW}@h/b", "mysql://app:{env:PW}@h/b"),
            ("PGPASSWORD = \"{env:PW}\"", "PGPASSWORD = \"{env:PW}\""),
            // And what is none stays.
            ("arrivals = \"burst:100-1000@1s/10s\"", "arrivals = \"burst:100-1000@1s/10s\""),
            ("{\"kind\":\"sine:100-500@1m\"}", "{\"kind\":\"sine:100-500@1m\"}"),
            (
                "ready = \"tcp:127.0.0.1:3306\" at 12:30 me@example.org",
                "ready = \"tcp:127.0.0.1:3306\" at 12:30 me@example.org",
            ),
            ("taskset -u 1000 scp h:/path/x .", "taskset -u 1000 scp h:/path/x ."),
            ("a = b, c == d  \n\n  {\"x\": \"y\"}", "a = b, c == d  \n\n  {\"x\": \"y\"}"),
            ("", ""),
        ] {
            assert_eq!(mask_text(written), shown);
        }
    }

    #[test]
    fn the_scheme_is_what_stands_before_the_colon() {
        assert_eq!(Target::new("exec:gzip -1 x").scheme(), "exec");
        assert_eq!(Target::new("nothing").scheme(), "");
    }
}
