//! Target of a load. A password never reaches an archive, a report or a log: only drivers read it.

use std::fmt;

use crate::masking::is_reference;
pub use crate::masking::{is_secret_parameter, mask_text, whole_lines};

/// A target as the user wrote it: `mysql://app:secret@localhost/bench`.
///
/// `Display` and `Debug` mask the password; only drivers may call [`Target::expose`].
#[derive(Clone, PartialEq, Eq)]
pub struct Target(String);

impl Target {
    /// Wraps a target without a check; the driver checks it.
    pub fn new(written: impl Into<String>) -> Self {
        Self(written.into())
    }

    /// Whole text, including the password.
    pub fn expose(&self) -> &str {
        &self.0
    }

    /// Scheme, the text before the first colon: `mysql`; empty without a colon.
    pub fn scheme(&self) -> &str {
        self.0.split_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Targets of several servers, one on each line.
    pub fn lines(&self) -> impl Iterator<Item = Self> {
        self.0.lines().map(Self::new)
    }

    /// Text with the password masked, in the user-info part and in `password=` parameters; several servers
    /// are separated by commas.
    pub fn masked(&self) -> String {
        let masked = |line: &str| mask_parameters(&mask_user_info(line));
        self.0.split('\n').map(masked).collect::<Vec<_>>().join(", ")
    }

    /// Server message with the passwords of this target masked: a server may repeat them.
    pub fn hide_in(&self, said: &str) -> String {
        let mut secrets: Vec<String> = self.secrets().flat_map(|s| [s.to_owned(), decoded(s)]).collect();
        // One secret may be part of another.
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        secrets.iter().fold(said.to_owned(), |said, secret| hide(&said, secret))
    }

    fn secrets(&self) -> impl Iterator<Item = &str> {
        self.0.split('\n').flat_map(|line| {
            let password = password_in(line);
            let query = line.split_once('?').map_or("", |(_, query)| query);
            let parameters = query.split('&').filter_map(|pair| pair.split_once('='));
            let secret = parameters.filter(|(name, _)| is_secret_parameter(name)).map(|(_, value)| value);
            password.into_iter().chain(secret).filter(|secret| !secret.is_empty() && !is_reference(secret))
        })
    }
}

/// Masks every occurrence of a secret; of a short one, only whole words.
fn hide(said: &str, secret: &str) -> String {
    const SHORT_BYTES: usize = 4;
    let (mut hidden, mut rest) = (String::with_capacity(said.len()), said);
    while let Some(at) = rest.find(secret) {
        let (before, after) = (&rest[..at], &rest[at + secret.len()..]);
        let ends = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let is_word = ends(before.chars().next_back()) && ends(after.chars().next());
        hidden.push_str(before);
        hidden.push_str(if is_word || secret.len() >= SHORT_BYTES { "***" } else { secret });
        rest = after;
    }
    hidden.push_str(rest);
    hidden
}

/// Decodes a part of a URL as drivers do: `%40` is `@`.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        let byte = code.filter(|_| *first == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Password of a URL: the text between a colon and an `@`.
fn password_in(text: &str) -> Option<&str> {
    let rest = &text[text.find("://")? + 3..];
    let authority_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let at = rest[..authority_end].rfind('@').or_else(|| rest.rfind('@'))?;
    rest[..at].split_once(':').filter(|_| !is_reference(&rest[..at])).map(|(_, password)| password)
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
    // A password may contain an unescaped `@` or even a `/`: everything before the last `@` of the authority
    // is user information, or, if the authority has no `@`, before the last `@` of the whole text.
    let at = rest[..authority_end].rfind('@').or_else(|| rest.rfind('@'));
    // The colon in `{env:NAME}` does not separate user and password.
    let Some(at) = at.filter(|at| !is_reference(&rest[..*at])) else { return text.to_owned() };
    let (user, password) = match rest[..at].split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (&rest[..at], None),
    };
    // On the web, user information without a password is a token: `https://TOKEN@host`,
    // `https://TOKEN:@host`.
    let is_web =
        scheme.rsplit(['"', '\'', '=', '+', ' ']).next().is_some_and(|name| name.starts_with("http"));
    match password {
        Some(password) if is_reference(password) || user == "***" => text.to_owned(),
        Some("" | "x" | "x-oauth-basic") if is_web && !user.is_empty() => {
            format!("{scheme}://***{}", &rest[at..])
        }
        Some(_) => format!("{scheme}://{user}:***{}", &rest[at..]),
        None if is_web && at < authority_end && !user.is_empty() && user != "***" => {
            format!("{scheme}://***{}", &rest[at..])
        }
        None => text.to_owned(),
    }
}

fn mask_parameters(text: &str) -> String {
    let Some((path, query)) = text.split_once('?') else { return text.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if is_secret_parameter(name) && !is_reference(value) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

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
            ("https://secret@h/p", "https://***@h/p"),
            ("https://secret:@h/p", "https://***@h/p"),
            ("https://secret:x-oauth-basic@h/p", "https://***@h/p"),
            ("git+https://secret@h/p", "git+https://***@h/p"),
            ("https://{env:T}@h/@p", "https://{env:T}@h/@p"),
            ("http://h/p?a=1&X-Amz-Signature=secret", "http://h/p?a=1&X-Amz-Signature=***"),
            ("http://h/p?sig=secret&sv=1", "http://h/p?sig=***&sv=1"),
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
    fn what_a_server_repeats_of_a_password_is_masked() {
        let hidden = |target: &str, said: &str| Target::new(target).hide_in(said);
        let said = "ERR unknown command `AUTH`, with args: `bob`, `s3c@et`, `PING`";
        for target in ["redis://bob:s3c@et@h", "redis://bob:s3c%40et@h", "mysql://h/b?password=s3c@et"] {
            assert_eq!(hidden(target, said), said.replace("s3c@et", "***"), "{target}");
        }
        // A short secret is part of many words.
        assert_eq!(hidden("redis://:1@h", "error 1064 for `1`, 1"), "error 1064 for `***`, ***");
        assert_eq!(hidden("redis://:{env:PW}@h", "no {env:PW}"), "no {env:PW}");
        assert_eq!(hidden("redis://:abc%@h", "abc% abcd"), "*** abcd");
        assert_eq!(hidden("redis://h", said), said);
    }

    #[test]
    fn the_scheme_is_what_stands_before_the_colon() {
        assert_eq!(Target::new("exec:gzip -1 x").scheme(), "exec");
        assert_eq!(Target::new("nothing").scheme(), "");
    }
}
