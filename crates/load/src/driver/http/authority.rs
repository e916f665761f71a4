//! Host and user of requests.

use crate::net::address::decoded;

/// Host of the requests, and the user that they authenticate.
#[derive(Debug, Clone)]
pub(super) struct Authority<'a> {
    /// `host:port`, as in the target.
    pub(super) host: &'a str,
    /// Credentials of the user in the target, for `Authorization`; `None` if the target names no user.
    pub(super) basic: Option<String>,
}

impl<'a> Authority<'a> {
    /// Reads `[user:password@]host[:port]`.
    pub(super) fn read(written: &'a str) -> Result<Self, String> {
        let Some((user_info, host)) = written.rsplit_once('@') else {
            return Ok(Self { host: written, basic: None });
        };
        let (user, password) = user_info.split_once(':').unwrap_or((user_info, ""));
        let proof = format!("{}:{}", decoded(user)?, decoded(password)?);
        Ok(Self { host, basic: Some(format!("Basic {}", base64(proof.as_bytes()))) })
    }
}

/// # Source
///
/// RFC 4648, section 4.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=three.len()].copy_from_slice(three);
        let bits = u32::from_be_bytes(group);
        for place in 0..4 {
            let index = (bits >> (18 - 6 * place)) as usize & 63;
            text.push(if place <= three.len() { char::from(LETTERS[index]) } else { '=' });
        }
    }
    text
}
