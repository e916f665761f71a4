//! SHA-256 of data while it is written.

use std::fmt::Write as _;
use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};

/// A writer that counts and hashes the bytes that it passes on.
#[derive(Debug)]
pub(crate) struct Summing<W> {
    out: W,
    hash: Sha256,
    bytes: u64,
}

impl<W: Write> Summing<W> {
    pub(crate) fn new(out: W) -> Self {
        Self { out, hash: Sha256::new(), bytes: 0 }
    }

    /// The inner writer, the checksum in hexadecimal, and the number of bytes.
    pub(crate) fn finish(self) -> (W, String, u64) {
        (self.out, hex(&self.hash.finalize()), self.bytes)
    }
}

impl<W: Write> Write for Summing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        self.bytes += n as u64;
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// SHA-256 of `input` in hexadecimal, and its length in bytes.
pub(crate) fn of_stream(mut input: impl io::Read) -> io::Result<(String, u64)> {
    let mut summing = Summing::new(io::sink());
    let bytes = io::copy(&mut input, &mut summing)?;
    Ok((summing.finish().1, bytes))
}

/// SHA-256 in hexadecimal.
pub(crate) fn of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// SHA-256 of `source` in hexadecimal, and its length in bytes.
pub(crate) fn of_all(source: &mut dyn Read) -> io::Result<(String, u64)> {
    let mut sum = Summing::new(io::sink());
    io::copy(source, &mut sum)?;
    let (_, sha256, bytes) = sum.finish();
    Ok((sha256, bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        write!(text, "{byte:02x}").expect("a String takes all that is written to it");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_the_one_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(b"abc"), abc);
        assert_eq!(of_all(&mut &b"abc"[..]).unwrap(), (abc.to_owned(), 3));
        let mut summing = Summing::new(Vec::new());
        summing.write_all(b"a").unwrap();
        summing.write_all(b"bc").unwrap();
        assert_eq!(summing.finish(), (b"abc".to_vec(), abc.to_owned(), 3));
    }
}
