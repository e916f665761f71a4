//! Text files that the user names and that may be untrusted: their size is limited before they are parsed.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;

/// Maximum size of a plan.
pub(crate) const PLAN_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a document or a script. Parsed as JSON, it takes up to 32 times as much memory.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 8 << 20;

/// Reads the text of a file, or of a pipe or device, which has no size in advance.
///
/// # Errors
///
/// Fails if reading fails, if the file has more than `bytes_max` bytes, or if it is another user's pipe.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let found = std::fs::metadata(path)?;
    let is_trusted = found.uid() == 0 || found.uid() == nix::unistd::geteuid().as_raw();
    if found.file_type().is_fifo() && !is_trusted {
        // Opening it would wait until that user writes.
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "it is a pipe of another user"));
    }
    let bytes = File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if bytes as u64 > bytes_max {
        let why = format!("it has more than {bytes_max} bytes, the limit for this kind of file");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}
