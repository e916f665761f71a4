//! Opening a database file: links, owners, and bounds of the memory that a statement may cost.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use record::load::LoadSettings;
use rusqlite::{Connection as Database, OpenFlags, ffi};

use crate::connection::{Failure, FailureClass};
use crate::net::writers::is_way_shared;

/// Suffixes of the files that SQLite reads beside the database: a journal that is played back may name
/// another file, which is then removed.
pub(super) const BESIDE: [&str; 3] = ["-journal", "-wal", "-shm"];
/// Links that the name of a database may lead through.
const LINKS_MAX: usize = 40;
/// Limit of a value and of a row in bytes, as for the answers of servers.
const VALUE_BYTES_MAX: u64 = LoadSettings::ANSWER_BYTES_MAX;

/// Opens a database that no other user has planted.
pub(super) fn open(path: &Path, flags: OpenFlags) -> Result<Database, Failure> {
    let found = without_links(path)?;
    refuse_planted(&found)?;
    // A link that is planted from now on is an error.
    let flags = flags | OpenFlags::SQLITE_OPEN_NOFOLLOW;
    let database = Database::open_with_flags(&found, flags)
        .map_err(|e| failure(format!("cannot open {}: {e}", path.display())))?;
    let bytes_max = i32::try_from(VALUE_BYTES_MAX).unwrap_or(i32::MAX);
    // SAFETY: the handle of a connection that is open; the other arguments are integers.
    unsafe { ffi::sqlite3_limit(database.handle(), ffi::SQLITE_LIMIT_LENGTH, bytes_max) };
    Ok(database)
}

/// The file that a name leads to, by a path without links. The name may be the user's own link, in a folder
/// that no other user can write.
fn without_links(path: &Path) -> Result<PathBuf, Failure> {
    let unreadable = |e: io::Error| failure(format!("cannot open {}: {e}", path.display()));
    let mut found = path.to_owned();
    for _ in 0..LINKS_MAX {
        let name = found.file_name().ok_or_else(|| failure(format!("{} is not a file", path.display())))?;
        let folder = match found.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let folder = fs::canonicalize(folder).map_err(unreadable)?;
        let at = folder.join(name);
        let Some(link) = fs::symlink_metadata(&at).ok().filter(fs::Metadata::is_symlink) else {
            return Ok(at);
        };
        refuse_stranger(&at, link.uid())?;
        if is_way_shared(&folder) {
            return Err(failure(format!(
                "{} is a link in a folder that other users can write: name the database itself",
                at.display()
            )));
        }
        found = folder.join(fs::read_link(&at).map_err(unreadable)?);
    }
    Err(failure(format!("{} leads through too many links", path.display())))
}

/// Refuses files beside the database that another user has created, as every user can in `/tmp`; for root,
/// also a database of another user, which may have triggers.
fn refuse_planted(path: &Path) -> Result<(), Failure> {
    let database = geteuid().is_root().then_some("");
    for end in BESIDE.into_iter().chain(database) {
        let mut beside = path.to_owned().into_os_string();
        beside.push(end);
        if let Ok(found) = fs::symlink_metadata(&beside) {
            refuse_stranger(Path::new(&beside), found.uid())?;
        }
    }
    Ok(())
}

fn refuse_stranger(path: &Path, owner: u32) -> Result<(), Failure> {
    if [0, geteuid().as_raw()].contains(&owner) {
        return Ok(());
    }
    let text = format!(
        "{} belongs to another user (user id {owner}), and SQLite would trust it: remove it, use a database in your \
         own directory, or run bakeoff as that user",
        path.display()
    );
    Err(failure(text))
}

fn failure(text: String) -> Failure {
    Failure::new(FailureClass::Machine, text)
}
