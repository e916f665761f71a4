//! Files for the user: whole, or as they were.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Whether a file could be written under that name, without touching what is there.
pub(crate) fn check(path: &Path) -> io::Result<()> {
    if !writes_through(path) {
        let beside = beside(path);
        File::create(&beside)?;
        fs::remove_file(&beside)?;
    }
    Ok(())
}

/// Writes beside and renames: a full disk leaves what was there, and never half a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if writes_through(path) {
        return fs::write(path, bytes);
    }
    let beside = beside(path);
    let written = fs::write(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A pipe or a device keeps nothing that could be lost, and must not be replaced by a file.
fn writes_through(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|m| !m.is_file())
}

fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".partial");
    PathBuf::from(name)
}
