//! What a process of the plan prints: a file that is held open, so that its name cannot be turned into another file.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::libc;

use crate::account::Account;
use crate::scratch;

/// As much of a log as a message can hold.
const TAIL_BYTES: u64 = 600;

/// A log that processes append to.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// A new log in `folder`; another file of that name is replaced, and no link is followed.
    ///
    /// - `owner`: the account of the process, which may open its own output again.
    pub(crate) fn make(folder: &Path, name: &str, owner: Option<Account>) -> io::Result<Self> {
        let path = folder.join(name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create_new(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path)?;
        if let Some(Account { uid, gid }) = owner {
            scratch::chown(&file, uid, gid)?;
        }
        Ok(Self(file))
    }

    /// The file, for the output of a process.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Everything in it.
    pub(crate) fn text(&self) -> io::Result<String> {
        let mut bytes = Vec::new();
        self.since(0)?.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What was written from there on, up to now.
    pub(crate) fn since(&self, at: u64) -> io::Result<Since> {
        let end = self.0.metadata()?.len();
        Ok(Since { file: self.0.try_clone()?, at, end })
    }

    /// The last of it, as the end of a sentence.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.0)
    }
}

/// A part of a log. Reading it does not move the place at which processes write.
#[derive(Debug)]
pub(crate) struct Since {
    file: File,
    at: u64,
    pub(crate) end: u64,
}

impl Read for Since {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// The last lines of a log, as the end of a sentence.
pub(crate) fn last_words(log: &File) -> String {
    let tail = || -> io::Result<String> {
        let end = log.metadata()?.len();
        let at = end.saturating_sub(TAIL_BYTES);
        let mut bytes = Vec::new();
        Since { file: log.try_clone()?, at, end }.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let tail = tail().unwrap_or_default();
    let lines: Vec<&str> = tail.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    match lines[..] {
        [] => "; it said nothing".to_owned(),
        _ => format!("; it said: {}", lines[lines.len().saturating_sub(3)..].join(" | ")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_planted_link_is_replaced_and_its_target_stays() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        std::fs::write(&precious, "x").unwrap();
        std::os::unix::fs::symlink(&precious, folder.path().join("log")).unwrap();
        let log = Log::make(folder.path(), "log", None).unwrap();
        log.file().unwrap().write_all(b"one\ntwo\n").unwrap();
        assert_eq!(log.text().unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "x");
        assert_eq!(log.last_words(), "; it said: one | two");
        let mut rest = String::new();
        log.since(4).unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
    }
}
