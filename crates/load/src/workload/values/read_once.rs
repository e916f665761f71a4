//! Data files that several drivers share: of each host, and of each load of a process.
//!
//! A file is read once for all hosts of a load. A pipe is read once for the process: what it had is gone.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::data::Data;

static READ: Mutex<Vec<(Identity, Stored)>> = Mutex::new(Vec::new());

/// Device, inode, and for a file its size and the time of its last change.
type Identity = (u64, u64, u64, i64, i64);

enum Stored {
    /// A file may be read again: it is stored while a driver has it.
    File(Weak<Data>),
    Pipe(Arc<Data>),
}

/// The rows of a data file, which may be a pipe. May block for as long as the pipe has no writer.
pub(crate) fn data_of(file: &str) -> Result<Arc<Data>, String> {
    // The path of a pipe may lead to another one later; the pipe itself is known by its number.
    let Ok(found) = fs::metadata(file) else { return Data::read_file(file).map(Arc::new) };
    let is_file = found.is_file();
    let changes = if is_file { (found.size(), found.mtime(), found.mtime_nsec()) } else { (0, 0, 0) };
    let identity = (found.dev(), found.ino(), changes.0, changes.1, changes.2);
    if let Some(data) = stored(&identity) {
        return Ok(data);
    }
    let data = Arc::new(Data::read_file(file)?);
    let entry = if is_file { Stored::File(Arc::downgrade(&data)) } else { Stored::Pipe(Arc::clone(&data)) };
    READ.lock().unwrap_or_else(PoisonError::into_inner).push((identity, entry));
    Ok(data)
}

/// Data that was read before; forgets files that no driver has.
fn stored(identity: &Identity) -> Option<Arc<Data>> {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    read.retain(|(_, stored)| !matches!(stored, Stored::File(data) if data.strong_count() == 0));
    read.iter().find(|(of, _)| of == identity).and_then(|(_, stored)| match stored {
        Stored::File(data) => data.upgrade(),
        Stored::Pipe(data) => Some(Arc::clone(data)),
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use nix::sys::stat::Mode;

    use super::*;

    #[test]
    fn a_pipe_is_read_once_and_a_file_as_long_as_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (pipe, file) = (path("pipe"), path("file"));
        nix::unistd::mkfifo(pipe.as_str(), Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        let to = pipe.clone();
        let writer = thread::spawn(move || fs::write(to, "id\n1\n2\n").unwrap());
        let first = data_of(&pipe).unwrap();
        writer.join().unwrap();
        assert_eq!(first.rows.len(), 2);
        drop(first);
        assert_eq!(data_of(&pipe).unwrap().rows.len(), 2, "a second host, or the next load");
        fs::write(&file, "id\n1\n").unwrap();
        let first = data_of(&file).unwrap();
        assert!(Arc::ptr_eq(&first, &data_of(&file).unwrap()));
        fs::write(&file, "id\n1\n2\n3\n").unwrap();
        assert_eq!(data_of(&file).unwrap().rows.len(), 3);
        assert!(data_of(&path("none")).unwrap_err().contains("cannot read"));
    }
}
