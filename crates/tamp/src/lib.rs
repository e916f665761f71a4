//! Parallel compression that is never the bottleneck, in files that stock tools read.
//!
//! [`Writer`] compresses all bytes written to it; [`Reader`] decompresses them. Both use as many threads as
//! the data rate needs, up to a limit; with a limit of one, only the caller's thread. A `.zst` file of tamp
//! consists of many small frames, each with its size and checksum, and the seek table of the seekable format;
//! `zstd -d` reads it.

#![forbid(unsafe_code)]

mod buffer;
mod cut;
mod decode;
mod dictionary;
mod ending;
mod envelope;
mod error;
mod file;
mod format;
mod holes;
mod index;
mod input;
mod join;
mod keep_up;
mod level;
mod list;
mod meter;
mod one_frame;
mod pack;
mod placer;
mod reader;
mod ring;
mod salvage;
mod seek;
mod split;
mod turn;
mod writer;

pub use dictionary::Dictionary;
pub use error::Error;
pub use file::{Places, Watch, compress_file, decompress_file};
pub use format::suffix::Suffix;
pub use holes::SparseWriter;
pub use level::{BLOCK_BYTES_MAX, Format, Level, Options};
pub use list::{Listing, list, list_frame};
pub use meter::{Meter, Reading};
pub use one_frame::{FrameOptions, compress_frame, decompress_frame};
pub use reader::{Content, ReadOptions, Reader};
pub use salvage::{Loss, Lost, salvage, salvage_frame};
pub use seek::SeekReader;
pub use writer::Writer;

/// Returns the number of threads that this process may use, limited by affinity and cgroup.
pub fn threads_allowed() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
