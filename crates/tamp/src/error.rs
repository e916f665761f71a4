//! What can go wrong, as far as a caller can act on it.

use std::io;

/// Why data could not be compressed or read back.
///
/// Offsets count bytes of the compressed stream from its beginning.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// There is nothing at all, as where a disk was full; every format needs some bytes even for no content.
    #[error("it is empty, which no compressed file is")]
    Empty,
    /// The bytes begin no format that tamp reads.
    #[error("byte {offset}: not a .zst, .lz4 or .gz file")]
    UnknownFormat {
        /// Where a frame should have begun.
        offset: u64,
    },
    /// The bytes contradict themselves: a checksum, a size, a code.
    #[error("byte {offset}: {what}; try --salvage")]
    Damaged {
        /// Where the damaged frame or block begins.
        offset: u64,
        /// What contradicts what.
        what: &'static str,
    },
    /// The stream ends inside a frame.
    #[error("byte {offset}: the file ends inside {what}; try --salvage")]
    Truncated {
        /// Where the unfinished frame or block begins.
        offset: u64,
        /// What is cut.
        what: &'static str,
    },
    /// Legal, but not for this program.
    #[error("byte {offset}: {what}")]
    Unsupported {
        /// Where the frame begins.
        offset: u64,
        /// What would be needed.
        what: &'static str,
    },
    /// A compressed block did not decode to what went in, so the machine or a codec is broken.
    #[error("block at input byte {offset} does not decode to its input; do not trust this machine")]
    Verify {
        /// Where the block begins in the input.
        offset: u64,
    },
    /// The input ended before the size it had when compressing began.
    #[error("the input became shorter meanwhile, ending at byte {offset}")]
    Changed {
        /// Where it ends now.
        offset: u64,
    },
    /// The header states a size that turned out wrong, so readers will refuse the file.
    #[error("the size hint was {stated} bytes, but {found} came; the output is not usable")]
    SizeHint {
        /// As the caller said.
        stated: u64,
        /// As it came.
        found: u64,
    },
    /// A worker thread panicked: our own mistake.
    #[error("a worker thread panicked; please report this")]
    Panicked,
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Io(inner) => return inner,
            Error::Empty | Error::Truncated { .. } => io::ErrorKind::UnexpectedEof,
            Error::Unsupported { .. } => io::ErrorKind::Unsupported,
            Error::UnknownFormat { .. } | Error::Damaged { .. } => io::ErrorKind::InvalidData,
            Error::Verify { .. } | Error::Changed { .. } | Error::SizeHint { .. } | Error::Panicked => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}
