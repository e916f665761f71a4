//! The common and combined formats: `ADDRESS IDENT USER [TIME] "REQUEST" STATUS BYTES ...`.
//!
//! # Source
//!
//! Apache httpd, `mod_log_config` (`common`, `combined`, `vhost_combined`); nginx, `ngx_http_log_module`.

use super::reason::Reason;
use super::request::{Parts, split_request, status};
use super::time;

/// Parses a line; its path goes to `path`.
pub(super) fn read(line: &[u8], path: &mut Vec<u8>) -> Result<Parts, Reason> {
    // A user's name may contain blanks and brackets: the time is the first that reads as one.
    let mut after_bracket = (0..line.len()).filter(|at| line[*at] == b'[').map(|at| &line[at + 1..]);
    let has_brackets = line.contains(&b'[') && line.contains(&b'"');
    let found = after_bracket.find_map(|text| {
        let end = text.iter().take(MOMENT_BYTES_MAX).position(|b| *b == b']')?;
        // nginx also has `$time_iso8601`.
        let stamp = time::clf(&text[..end]).or_else(|| time::iso(&text[..end]))?;
        Some((stamp, &text[end + 1..]))
    });
    let Some((stamp, rest)) = found else {
        return Err(if has_brackets { Reason::Time } else { Reason::Unreadable });
    };
    let rest = rest.trim_ascii_start().strip_prefix(b"\"").ok_or(Reason::Unreadable)?;
    let end = closing_quote(rest).ok_or(Reason::Unreadable)?;
    let request = unescaped(&rest[..end]);
    let method = split_request(&request, path)?;
    let after = rest[end + 1..].trim_ascii_start();
    let digits = after.iter().take_while(|b| b.is_ascii_digit()).count();
    Ok((stamp, method, status(&after[..digits])))
}

/// Longest text of a time between brackets.
const MOMENT_BYTES_MAX: usize = 64;

/// Position of the quote that ends a text; a backslash escapes the next character.
fn closing_quote(text: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => return Some(at),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    None
}

/// Text with the escapes of Apache and nginx decoded: `\x22`, `\"`, `\\`, `\n`.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'\\' {
            out.push(*first);
            continue;
        }
        match after {
            [b'x', high, low, tail @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                out.push(16 * digit(*high) + digit(*low));
                rest = tail;
            }
            [letter, tail @ ..] => {
                out.push(match letter {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    other => *other,
                });
                rest = tail;
            }
            [] => out.push(b'\\'),
        }
    }
    out
}

fn digit(hex: u8) -> u8 {
    match hex {
        b'0'..=b'9' => hex - b'0',
        b'a'..=b'f' => hex - b'a' + 10,
        _ => hex - b'A' + 10,
    }
}
