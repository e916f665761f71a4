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
        masked.push_str(&mask_assignment(line).unwrap_or_else(|| mask_words(line)));
    }
    masked
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
    is_secret(name_only).then(|| format!("{name}={before}{quote}***{quote}{after}"))
}

fn mask_words(line: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>');
    let mut masked = String::with_capacity(line.len());
    // Inside a quoted secret, up to the quote that closes it.
    let mut hidden_until = None;
    for word in line.split_inclusive(ends_word) {
        let (word, end) = word.split_at(word.trim_end_matches(ends_word).len());
        if let Some(quote) = hidden_until {
            hidden_until = (!end.ends_with(quote)).then_some(quote);
            continue;
        }
        match word.split_once('=') {
            _ if word.contains("://") || word.contains('?') => {
                masked.push_str(&Target::new(word).masked());
                masked.push_str(end);
            }
            Some((name, value)) if is_secret(name.trim_start_matches('-')) => {
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
        Some((colon, at)) => format!("{scheme}://{}:***{}", &rest[..colon], &rest[at..]),
        None => text.to_owned(),
    }
}

fn mask_parameters(text: &str) -> String {
    let Some((path, query)) = text.split_once('?') else { return text.to_owned() };
    let masked = query.split('&').map(|pair| match pair.split_once('=') {
        Some((name, _)) if is_secret(name) => format!("{name}=***"),
        _ => pair.to_owned(),
    });
    format!("{path}?{}", masked.collect::<Vec<_>>().join("&"))
}

pub(crate) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    name.ends_with("password")
        || ["passwd", "pw", "pwd", "secret", "token"]
            .iter()
            .any(|s| name == *s || name.ends_with(&format!("_{s}")))
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
