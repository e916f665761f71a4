//! Files that a bake-off begins with, each stored twice, because nothing else holds their content.
//!
//! A damaged file is read from its copy, and the damage is reported. `resume` rewrites it.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use crate::error::ArchiveError;
use crate::schema::manifest::StoredFile;
use crate::{checksum, disk};

/// Content of a file, and its damage if the content comes from its copy.
#[derive(Debug)]
pub(crate) struct CopiedFile {
    pub(crate) bytes: Vec<u8>,
    pub(crate) damage: Option<String>,
}

/// Number of hexadecimal digits of a checksum.
const SUM_DIGITS: usize = 64;

/// Name of the copy of a file.
pub(crate) fn name_of(name: &str) -> String {
    format!("{name}.copy")
}

/// Writes a new file in `folder` and its copy, durably; returns both.
pub(crate) fn store(folder: &Path, name: &str, bytes: &[u8]) -> Result<[StoredFile; 2], ArchiveError> {
    Ok([disk::store(folder, name, bytes)?, disk::store(folder, &name_of(name), bytes)?])
}

/// Reads a file with the given checksum, or its copy if it is damaged.
///
/// - `stated_in`: the file with the checksum, for the error message.
pub(crate) fn read(
    folder: &Path,
    name: &str,
    sha256: &str,
    stated_in: &str,
) -> Result<CopiedFile, ArchiveError> {
    let path = folder.join(name);
    match disk::read(&path) {
        Ok(bytes) if checksum::of(&bytes) == sha256 => Ok(CopiedFile { bytes, damage: None }),
        first => match disk::read(&folder.join(name_of(name))) {
            Ok(bytes) if checksum::of(&bytes) == sha256 => {
                Ok(CopiedFile { bytes, damage: Some(format!("{name} is damaged: its copy was used")) })
            }
            _ => first.and_then(|_| {
                let what = format!("it does not match its checksum in {stated_in}");
                Err(ArchiveError::damaged(&path, what))
            }),
        },
    }
}

/// Reads a file with its checksum in the line of `sum_name`, or its copy if it is damaged. If the line itself
/// is damaged, the file and its copy must be equal.
pub(crate) fn read_by_line(folder: &Path, name: &str, sum_name: &str) -> Result<CopiedFile, ArchiveError> {
    let line = disk::read(&folder.join(sum_name)).unwrap_or_default();
    let sha256 = String::from_utf8_lossy(&line[..line.len().min(SUM_DIGITS)]).into_owned();
    if line == disk::sum_line(&sha256, name).as_bytes()
        && let Ok(found) = read(folder, name, &sha256, sum_name)
    {
        return Ok(found);
    }
    let bytes = disk::read(&folder.join(name))?;
    if disk::read(&folder.join(name_of(name))).is_ok_and(|copy| copy == bytes) {
        return Ok(CopiedFile {
            bytes,
            damage: Some(format!("{sum_name} is damaged: {name} and its copy are identical")),
        });
    }
    let what = format!("it does not match its checksum in {sum_name}");
    Err(ArchiveError::damaged(&folder.join(name), what))
}

/// Rewrites a file and its copy unless both hold `bytes`; returns whether either was rewritten.
pub(crate) fn mend(folder: &Path, name: &str, bytes: &[u8]) -> Result<bool, ArchiveError> {
    let copy = name_of(name);
    let mut is_mended = false;
    for name in [name, &copy] {
        if disk::read(&folder.join(name)).is_ok_and(|found| found == bytes) {
            continue;
        }
        replace(folder, name, bytes)?;
        is_mended = true;
    }
    Ok(is_mended)
}

/// Replaces a file, durably.
pub(crate) fn replace(folder: &Path, name: &str, bytes: &[u8]) -> Result<(), ArchiveError> {
    let (path, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let written = (|| {
        match fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = disk::new_file().open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    })();
    written.map_err(ArchiveError::writing(&new))?;
    disk::sync_folder(folder)
}
