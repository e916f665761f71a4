//! Files of text that the user names and a stranger may have written: read to a limit, before anything is made of them.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Of a plan.
pub(crate) const PLAN_BYTES_MAX: u64 = 1 << 20;
/// Of a document or a script: read as JSON, it takes up to 32 times as much memory.
pub(crate) const DOCUMENT_BYTES_MAX: u64 = 8 << 20;

/// The text of a file, also of a pipe or a device, whose size is known at its end only.
///
/// # Errors
///
/// Also where it has more than `bytes_max` bytes.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<String> {
    let mut text = String::new();
    let bytes = File::open(path)?.take(bytes_max + 1).read_to_string(&mut text)?;
    if bytes as u64 > bytes_max {
        let why = format!("it has more than {bytes_max} bytes, the most that such a file may have");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}
