//! Where a load goes. A password never reaches an archive, a report or a log: only a driver gets to see it.

use std::fmt;

use crate::masking::{is_reference, is_secret_parameter};
pub use crate::masking::{mask_text, whole_lines};

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
    // The colon of `{env:NAME}` is none.
    let Some(at) = at.filter(|at| !is_reference(&rest[..*at])) else { return text.to_owned() };
    let (user, password) = match rest[..at].split_once(':') {
        Some((user, password)) => (user, Some(password)),
        None => (&rest[..at], None),
    };
    // On the web, what stands alone is a token: `https://TOKEN@host`, `https://TOKEN:@host`.
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
    fn the_scheme_is_what_stands_before_the_colon() {
        assert_eq!(Target::new("exec:gzip -1 x").scheme(), "exec");
        assert_eq!(Target::new("nothing").scheme(), "");
    }
}
