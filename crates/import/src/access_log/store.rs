//! Requests on disk, so that a log of any size needs no memory for them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt as _;

use record::replay::{Logged, Method, ReplaySource};

/// Requests while they are written: one file for texts, one for their ends.
#[derive(Debug)]
pub struct Store {
    texts: BufWriter<File>,
    ends: BufWriter<File>,
    end: u64,
    requests: u64,
}

/// Requests that were written.
#[derive(Debug)]
pub struct Stored {
    texts: File,
    ends: File,
    requests: u64,
}

/// Bytes of a request before its path: the method's number and the status.
const HEAD_BYTES: usize = 3;
const END_BYTES: usize = 8;

impl Store {
    /// Writes into two files, which must be empty, readable and writable.
    pub fn new(texts: File, ends: File) -> Self {
        Self { texts: BufWriter::new(texts), ends: BufWriter::new(ends), end: 0, requests: 0 }
    }

    pub(super) fn push(&mut self, logged: Logged, path: &[u8]) -> io::Result<()> {
        let method = Method::ALL.iter().position(|method| *method == logged.method);
        let method = u8::try_from(method.unwrap_or_default()).unwrap_or_default();
        self.texts.write_all(&[method])?;
        self.texts.write_all(&logged.status.unwrap_or(0).to_le_bytes())?;
        self.texts.write_all(path)?;
        self.end += (HEAD_BYTES + path.len()) as u64;
        self.requests += 1;
        self.ends.write_all(&self.end.to_le_bytes())
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.texts.flush()?;
        self.ends.flush()
    }

    /// The requests that were written.
    ///
    /// # Errors
    ///
    /// The last of them could not be written.
    pub fn finish(self) -> io::Result<Stored> {
        let texts = self.texts.into_inner().map_err(io::IntoInnerError::into_error)?;
        let ends = self.ends.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(Stored { texts, ends, requests: self.requests })
    }
}

impl Stored {
    /// Offsets of the beginning and the end of request `number` among the texts.
    fn span(&self, number: u64) -> io::Result<(u64, u64)> {
        let mut ends = [0; 2 * END_BYTES];
        let (skipped, from) = if number == 0 { (END_BYTES, 0) } else { (0, (number - 1) * END_BYTES as u64) };
        self.ends.read_exact_at(&mut ends[skipped..], from)?;
        let [from, until] = [0, END_BYTES].map(|at| {
            let bytes: [u8; END_BYTES] = ends[at..at + END_BYTES].try_into().expect("eight bytes");
            u64::from_le_bytes(bytes)
        });
        Ok((from, until))
    }

    fn read_into(&self, number: u64, path: &mut Vec<u8>) -> io::Result<Logged> {
        let (from, until) = self.span(number)?;
        let mut head = [0; HEAD_BYTES];
        self.texts.read_exact_at(&mut head, from)?;
        let bytes = usize::try_from(until - from).map_err(io::Error::other)?;
        path.clear();
        path.resize(bytes.saturating_sub(HEAD_BYTES), 0);
        self.texts.read_exact_at(path, from + HEAD_BYTES as u64)?;
        let method = *Method::ALL.get(usize::from(head[0])).ok_or(io::ErrorKind::InvalidData)?;
        let status = u16::from_le_bytes([head[1], head[2]]);
        Ok(Logged { method, status: (status > 0).then_some(status) })
    }
}

impl ReplaySource for Stored {
    fn read(&self, number: u64, path: &mut Vec<u8>) -> Result<Logged, String> {
        assert!(number < self.requests, "the log has this request");
        self.read_into(number, path).map_err(|e| format!("cannot read the stored request {number}: {e}"))
    }
}
