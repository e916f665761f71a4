//! Headers of gzip members and zlib streams.
//!
//! # Source
//!
//! RFC 1952 (gzip), RFC 1950 (zlib).

pub(crate) const MAGIC: [u8; 2] = [0x1f, 0x8b];
/// CRC and size.
pub(crate) const TRAILER_BYTES: usize = 8;

/// Fields of a member's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) own_bytes: usize,
    /// Length of the whole member, if it is a BGZF block.
    pub(crate) bgzf_bytes: Option<usize>,
}

/// Reads a member's header; `Ok(None)` if `bytes` end inside it.
///
/// # Errors
///
/// What is wrong with it.
pub(crate) fn header(bytes: &[u8]) -> Result<Option<Header>, &'static str> {
    let Some(fixed) = bytes.get(..10) else { return Ok(None) };
    if fixed[2] != 8 || fixed[3] & 0xE0 != 0 {
        return Err("a gzip header of an unknown kind");
    }
    let flags = fixed[3];
    let mut at = 10;
    let mut bgzf_bytes = None;
    if flags & 4 != 0 {
        let Some(length) = bytes.get(at..at + 2) else { return Ok(None) };
        let length = usize::from(u16::from_le_bytes([length[0], length[1]]));
        let Some(extra) = bytes.get(at + 2..at + 2 + length) else { return Ok(None) };
        bgzf_bytes = bgzf_size(extra);
        at += 2 + length;
    }
    // Name, then comment: each ends with a zero.
    for bit in [8, 16] {
        if flags & bit != 0 {
            let Some(length) = bytes[at..].iter().position(|&byte| byte == 0) else { return Ok(None) };
            at += length + 1;
        }
    }
    if flags & 2 != 0 {
        at += 2;
    }
    // A size too small for header and trailer is not that of a BGZF block.
    bgzf_bytes = bgzf_bytes.filter(|&bytes| bytes >= at + TRAILER_BYTES);
    Ok((at <= bytes.len()).then_some(Header { own_bytes: at, bgzf_bytes }))
}

/// Looks for the `BC` subfield.
fn bgzf_size(mut extra: &[u8]) -> Option<usize> {
    while let [a, b, low, high, rest @ ..] = extra {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        let field = rest.get(..length)?;
        if (*a, *b, length) == (b'B', b'C', 2) {
            return Some(usize::from(u16::from_le_bytes([field[0], field[1]])) + 1);
        }
        extra = &rest[length..];
    }
    None
}

/// Whether `bytes` begin like a zlib stream without a dictionary.
///
/// # Source
///
/// RFC 1950, section 2.2.
pub(crate) fn begins_zlib(bytes: &[u8]) -> bool {
    let Some(&[method, flags]) = bytes.first_chunk() else { return false };
    let check = u16::from_be_bytes([method, flags]);
    method & 0x0F == 8 && method >> 4 <= 7 && flags & 0x20 == 0 && check.is_multiple_of(31)
}

/// Bytes that a flush leaves: an empty stored block.
const FLUSH_MARKER: [u8; 4] = [0, 0, 0xff, 0xff];

/// Returns the end of the first flush marker.
pub(crate) fn find_marker(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|window| window == FLUSH_MARKER).map(|at| at + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_every_field_is_known_to_the_byte() {
        let mut bytes = vec![0x1f, 0x8b, 8, 4 | 8 | 16 | 2, 0, 0, 0, 0, 0, 3, 3, 0, 1, 2, 3];
        bytes.extend_from_slice(b"name\0comment\0cc");
        assert_eq!(header(&bytes), Ok(Some(Header { own_bytes: bytes.len(), bgzf_bytes: None })));
        for cut in 0..bytes.len() {
            assert_eq!(header(&bytes[..cut]), Ok(None), "cut at {cut}");
        }
    }
}
