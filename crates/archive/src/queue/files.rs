//! Files beside the queue: the folder of an entry with its plan and its output, and the audit log.

use std::fs::{self, File};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use nix::libc;
use record::run::RunId;
use serde_json::Value;

use super::{Queue, QueueError};
use crate::error::ArchiveError;
use crate::{disk, masking};

/// Longest part of an entry's output that is read.
const OUTPUT_BYTES_MAX: u64 = 64 << 10;

impl Queue {
    /// Folder of an entry, created if missing, with its plan in `plan.toml`.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn workplace(&self, id: RunId) -> Result<PathBuf, QueueError> {
        let folder = self.folder.join(id.to_string());
        disk::make_folder(&folder).map_err(ArchiveError::writing(&folder))?;
        let plan = folder.join("plan.toml");
        let text = self.plan(id)?;
        crate::whole_file::write(&plan, text.as_bytes()).map_err(ArchiveError::writing(&plan))?;
        Ok(folder)
    }

    /// File for the output of an entry's process, opened for appending.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn output(&self, id: RunId) -> Result<File, QueueError> {
        let path = self.output_path(id);
        let mut options = fs::OpenOptions::new();
        options.append(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        Ok(options.open(&path).map_err(ArchiveError::writing(&path))?)
    }

    /// End of the output of an entry's process, at most 64 KiB; empty if it printed nothing.
    pub fn output_text(&self, id: RunId) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = disk::open(&self.output_path(id))?;
            let end = file.metadata()?.len();
            file.seek(SeekFrom::Start(end.saturating_sub(OUTPUT_BYTES_MAX)))?;
            let mut bytes = Vec::new();
            file.take(OUTPUT_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        record::target::mask_text(&read().unwrap_or_default())
    }

    /// Appends a line to `audit.jsonl`, passwords masked; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn audit(&self, line: &Value) -> Result<(), ArchiveError> {
        let line = masking::mask(line.to_string().into_bytes(), None);
        let append = || {
            let mut options = fs::OpenOptions::new();
            let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
            options.read(true).append(true).create(true).mode(0o600).custom_flags(flags);
            let mut file = options.open(&self.audit)?;
            // A full disk or a power failure may have left half a line, which must not swallow this one.
            let mut last = [b'\n'];
            if file.seek(SeekFrom::End(-1)).is_ok() {
                file.read_exact(&mut last)?;
            }
            let begin: &[u8] = if last == [b'\n'] { b"" } else { b"\n" };
            file.write_all(&[begin, &line, b"\n"].concat())?;
            file.sync_data()
        };
        append().map_err(ArchiveError::writing(&self.audit))
    }

    fn output_path(&self, id: RunId) -> PathBuf {
        self.folder.join(id.to_string()).join("output.log")
    }
}
