//! Parts of a line that every format has.

use super::reason::Reason;
use super::time::Stamp;

/// Parts of a line: time, method and status.
pub(super) type Parts = (Stamp, Vec<u8>, Option<u16>);

/// Splits `METHOD PATH HTTP/x.y` and copies the path.
pub(super) fn split_request(request: &[u8], path: &mut Vec<u8>) -> Result<Vec<u8>, Reason> {
    let first = request.iter().position(|b| *b == b' ').ok_or(Reason::NoRequest)?;
    let last = request.iter().rposition(|b| *b == b' ').ok_or(Reason::NoRequest)?;
    let (method, version) = (&request[..first], &request[last + 1..]);
    let is_method = !method.is_empty() && method.iter().all(|b| b.is_ascii_uppercase() || *b == b'-');
    if !is_method || !version.starts_with(b"HTTP/") || first == last {
        return Err(Reason::NoRequest);
    }
    path.clear();
    path.extend_from_slice(&request[first + 1..last]);
    Ok(method.to_vec())
}

/// Reads a status; `None` if it is not one.
pub(super) fn status(text: &[u8]) -> Option<u16> {
    let number: u16 = std::str::from_utf8(text).ok()?.parse().ok()?;
    (100..600).contains(&number).then_some(number)
}
