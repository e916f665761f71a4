//! RESP: encodes commands and finds the end of answers.

use std::io::Write as _;

use crate::connection::FailureClass;
use crate::net::line;

/// Length of the longest accepted line of an answer.
pub(super) const LINE_MAX: usize = 2048;

/// A command: an array of bulk strings.
pub(super) fn command(words: &[&str], out: &mut Vec<u8>) {
    // A write into memory cannot fail.
    let _ = write!(out, "*{}\r\n", words.len());
    for word in words {
        let _ = write!(out, "${}\r\n{word}\r\n", word.len());
    }
}

/// Class of an error, by the error's first word.
pub(super) fn class_of(text: &str) -> FailureClass {
    match text.split(' ').next().unwrap_or_default() {
        "LOADING" | "BUSY" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" => FailureClass::Transient,
        "NOAUTH" | "WRONGPASS" | "NOPERM" => FailureClass::Configuration,
        _ => FailureClass::Application,
    }
}

/// Reads the type and the first line of an answer, and the position after that line.
pub(super) fn first_line(input: &[u8]) -> Option<(u8, &[u8], usize)> {
    let (line, taken) = line(&input[..input.len().min(LINE_MAX)])?;
    let (kind, line) = line.split_first().unwrap_or((&0, line));
    Some((*kind, line, taken))
}

/// Limit of a nested answer. No request of ours has a longer one, and each new read parses it again from the
/// start.
pub(super) const NESTED_BYTES_MAX: usize = 64 << 10;

/// End of an answer that may have members.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    At(usize),
    More,
    /// Announced length above the limit.
    TooLong(usize),
    /// Not an answer of this protocol.
    Nowhere,
}

/// Finds the end of an answer of any type. The depth of nesting does not matter: the members still expected
/// are counted, and each has at least 3 bytes.
pub(super) fn end_of(input: &[u8], bytes_max: usize) -> End {
    const MEMBER_BYTES_MIN: usize = 3;
    let (mut at, mut members_left) = (0usize, 1usize);
    while members_left > 0 {
        let bytes = at.saturating_add(members_left.saturating_mul(MEMBER_BYTES_MIN));
        if bytes > bytes_max {
            return End::TooLong(bytes);
        }
        let Some(rest) = input.get(at..) else { return End::More };
        let Some((kind, line, taken)) = first_line(rest) else {
            return if rest.len() < LINE_MAX { End::More } else { End::Nowhere };
        };
        (at, members_left) = (at + taken, members_left - 1);
        let count = match (kind, line) {
            (b'*' | b'~' | b'>' | b'%' | b'$' | b'=', b"-1")
            | (b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(', _) => continue,
            (b'*' | b'~' | b'>' | b'%' | b'$' | b'=', digits) => match number(digits) {
                Some(count) => count,
                None => return End::Nowhere,
            },
            _ => return End::Nowhere,
        };
        match kind {
            b'$' | b'=' => at += count + 2,
            b'%' => members_left += 2 * count,
            _ => members_left += count,
        }
    }
    match at {
        at if at > bytes_max => End::TooLong(at),
        at if at > input.len() => End::More,
        at => End::At(at),
    }
}

pub(super) fn number(digits: &[u8]) -> Option<usize> {
    std::str::from_utf8(digits).ok()?.parse::<u32>().ok()?.try_into().ok()
}
