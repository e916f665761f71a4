//! Names that cannot be guessed.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Read as _;

/// Returns 128 bits from the kernel, in hexadecimal.
pub(crate) fn token() -> String {
    bytes::<16>().iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a String cannot fail");
        text
    })
}

/// Whether a text has the form of a [`token`].
pub(crate) fn is_token(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

/// Returns 32 bits from the kernel.
pub(crate) fn number() -> u32 {
    u32::from_ne_bytes(bytes())
}

fn bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut bytes));
    read.expect("Linux has /dev/urandom; without it, no name is safe");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_differ() {
        let (one, other) = (token(), token());
        assert_eq!(one.len(), 32);
        assert_ne!(one, other);
        assert!(is_token(&one) && !is_token("") && !is_token(&one[1..]) && !is_token(&one.to_uppercase()));
    }
}
