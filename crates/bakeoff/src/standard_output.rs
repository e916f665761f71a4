//! Standard output, named in its errors: `No space left on device` alone could be any file's.

use std::io::{self, ErrorKind, Write};

/// A writer to standard output.
#[derive(Debug)]
pub(crate) struct StandardOutput<W: Write>(W);

impl StandardOutput<io::StdoutLock<'static>> {
    /// Locks standard output.
    pub(crate) fn lock() -> Self {
        Self(io::stdout().lock())
    }
}

impl<W: Write> Write for StandardOutput<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

/// The error with the stream's name; its kind stays the same, so callers retry and give up as before.
fn named(error: io::Error) -> io::Error {
    match error.kind() {
        ErrorKind::Interrupted | ErrorKind::BrokenPipe => error,
        kind => io::Error::new(kind, format!("cannot write to standard output: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_standard_output_and_keeps_its_kind() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
        let error = StandardOutput(full).write_all(b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::StorageFull);
        assert!(error.to_string().starts_with("cannot write to standard output: No space left"), "{error}");
    }
}
