//! Errors, distinguished as far as a caller can act on them.

use crate::format::zst;
use std::io;

/// Reason that data could not be compressed or read back.
///
/// Offsets count bytes of the compressed stream from its beginning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file has no bytes, as after a full disk; every format needs some bytes even for no content.
    #[error("the file is empty")]
    Empty,
    /// The bytes do not begin a format that tamp reads.
    #[error("byte {offset}: not a .zst, .lz4, .gz or zlib file")]
    UnknownFormat {
        /// Expected beginning of a frame.
        offset: u64,
    },
    /// The data contradicts itself: a checksum, a size, a code.
    #[error("byte {offset}: {what}{}", if *what == zst::OTHER_DICTIONARY { "" } else { "; try --salvage" })]
    Damaged {
        /// Beginning of the damaged frame or block.
        offset: u64,
        /// Kind of damage.
        what: &'static str,
    },
    /// The stream ends inside a frame.
    #[error("byte {offset}: the file ends inside {what}; try --salvage")]
    Truncated {
        /// Beginning of the unfinished frame or block.
        offset: u64,
        /// Part that is cut.
        what: &'static str,
    },
    /// All blocks are intact, but the end of the file is missing: its writer was interrupted.
    ///
    /// Returned after all content was read.
    #[error("byte {offset}: unfinished: the end that the writer adds after the last block is missing")]
    Unfinished {
        /// End of the file, or of the part before another file. The missing end belongs at or before this
        /// byte.
        offset: u64,
    },
    /// All content is intact, but the list of frames or the seek table behind it is damaged. The other one
    /// proves the content.
    ///
    /// Returned after all content was read.
    #[error("byte {offset}: {what} is damaged; all content before it is intact")]
    Index {
        /// Beginning of the list or the table.
        offset: u64,
        /// Name of the damaged part.
        what: &'static str,
    },
    /// A frame needs more memory than the limit.
    #[error("byte {offset}: this frame needs {} MiB of memory, and the limit is {}; raise it with --memory={}MiB",
        needed_bytes.div_ceil(1 << 20), granted(*granted_bytes), needed_bytes.div_ceil(1 << 20))]
    Memory {
        /// Beginning of the frame.
        offset: u64,
        /// The frame's window.
        needed_bytes: u64,
        /// [`crate::ReadOptions::memory_bytes`].
        granted_bytes: u64,
    },
    /// A frame was compressed with a dictionary that was not given.
    #[error("byte {offset}: this frame needs the dictionary with the number {id}; name its file with -D")]
    NeedsDictionary {
        /// Beginning of the frame.
        offset: u64,
        /// The dictionary's number.
        id: u32,
    },
    /// Not a dictionary made by zstd.
    #[error(
        "not a dictionary made by zstd --train, or a damaged one; to use any other file, pass it with --patch-from"
    )]
    Dictionary,
    /// The options contradict each other, or the format does not support them.
    #[error("{0}")]
    Options(&'static str),
    /// Valid, but not supported by tamp.
    #[error("byte {offset}: {what}")]
    Unsupported {
        /// Beginning of the frame.
        offset: u64,
        /// Unsupported feature.
        what: &'static str,
    },
    /// A compressed block did not decode to its input: the machine or a codec is broken.
    #[error("block at input byte {offset} does not decode to its input; do not trust this machine")]
    Verify {
        /// Beginning of the block in the input.
        offset: u64,
    },
    /// The input is shorter than when compressing began.
    #[error("the input shrank to {offset} bytes while it was read")]
    Changed {
        /// End of the input now.
        offset: u64,
    },
    /// The header states a wrong size, so readers will refuse the file.
    #[error(
        "the size hint was {stated} bytes, but the input had {found}; readers reject the output; \
         --salvage reads it"
    )]
    SizeHint {
        /// Size hint.
        stated: u64,
        /// Size of the input.
        found: u64,
    },
    /// A worker thread panicked: a bug in tamp.
    #[error("a worker thread panicked; please report this")]
    Panicked,
}

impl Error {
    /// Whether all content was returned before this error: nothing before its offset is missing or wrong.
    pub fn is_behind_content(&self) -> bool {
        matches!(self, Self::Unfinished { .. } | Self::Index { .. })
    }
}

/// Formats a memory limit, in bytes if a user chose less than whole MiB.
fn granted(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match error {
            Error::Io(inner) => return inner,
            Error::Empty | Error::Truncated { .. } | Error::Unfinished { .. } => io::ErrorKind::UnexpectedEof,
            Error::Unsupported { .. } | Error::NeedsDictionary { .. } => io::ErrorKind::Unsupported,
            Error::UnknownFormat { .. } | Error::Damaged { .. } | Error::Index { .. } => {
                io::ErrorKind::InvalidData
            }
            Error::Memory { .. } => io::ErrorKind::OutOfMemory,
            Error::Dictionary | Error::Options(_) => io::ErrorKind::InvalidInput,
            Error::Verify { .. } | Error::Changed { .. } | Error::SizeHint { .. } | Error::Panicked => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, error)
    }
}
