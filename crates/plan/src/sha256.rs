//! Checksum of a plan's text.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// SHA-256 of a plan's text, in hexadecimal, as in the archive.
pub fn sha256(text: &str) -> String {
    hexadecimal(&Sha256::digest(text.as_bytes()))
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}
