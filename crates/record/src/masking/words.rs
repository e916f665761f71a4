//! Words that are secrets by their form alone.

use super::announced::in_name;
use super::names::is_reference;
use super::places;
use crate::target::Target;

/// Masks words that are secrets by their form: URLs, `user:password@host`, `pass:SECRET`.
pub(super) fn mask_words(line: &str) -> String {
    let ends_word = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '\\' | '<' | '>');
    let mut masked = String::with_capacity(line.len());
    // The previous word, which may determine what this one is.
    let mut before = "";
    for piece in line.split_inclusive(ends_word) {
        let (word, end) = piece.split_at(piece.trim_end_matches(ends_word).len());
        masked.push_str(mask_word(word, before).as_deref().unwrap_or(word));
        masked.push_str(end);
        if !matches!(word, "" | ",") {
            before = word;
        }
    }
    masked
}

fn mask_word(word: &str, before: &str) -> Option<String> {
    if word.contains("://") {
        return Some(Target::new(word).masked());
    }
    if let Some(shown) = places::of_pgpass(word).or_else(|| places::of_oracle(word, before)) {
        return Some(shown);
    }
    if let Some(shown) = word.contains('@').then(|| without_password(word)).flatten() {
        return Some(shown);
    }
    if word.contains('?') {
        return Some(Target::new(word).masked());
    }
    if let Some(attached) = word.strip_prefix("-u").filter(|rest| rest.contains(':')) {
        return without_password(attached).map(|shown| format!("-u{shown}"));
    }
    let secret = word.strip_prefix("pass:").filter(|_| before.starts_with("-pass"))?;
    (!secret.is_empty() && secret != "***" && !is_reference(secret)).then(|| "pass:***".to_owned())
}

/// Arrivals that look like credentials: `burst:100-1000@1s/10s`.
const RATES: [&str; 4] = ["ramp", "step", "burst", "sine"];

/// Masks the password of `user:password@host` and `user:password`.
fn without_password(word: &str) -> Option<String> {
    // `--dsn=user:password@host`.
    let (before, word) = match word.split_once('=') {
        Some((name, rest)) if name.bytes().all(in_name) && rest.contains(':') => (&word[..=name.len()], rest),
        _ => ("", word),
    };
    let (user, rest) = word.split_once(':')?;
    let host = rest.rfind('@').map_or("", |at| &rest[at..]);
    let password = &rest[..rest.len() - host.len()];
    let plain = !user.is_empty() && user.chars().all(|c| c.is_ascii_alphanumeric() || "_.-".contains(c));
    let is_path = password.starts_with('/') || password.is_empty();
    let is_rate = RATES.contains(&user);
    let is_masked = password.starts_with("***");
    (plain && !is_path && !is_rate && !is_masked && !is_reference(password))
        .then(|| format!("{before}{user}:***{host}"))
}
