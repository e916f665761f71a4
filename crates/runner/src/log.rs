//! Output of a process of the plan: a file that stays open, so its name cannot be redirected to another file.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;
use nix::unistd::{UnlinkatFlags, unlinkat};

use crate::account::Account;
use crate::scratch;

/// Maximum length of the part of a log in a message.
const TAIL_BYTES: u64 = 600;
/// Maximum length of the part of a log that is searched for its last line.
const TEXT_BYTES_MAX: u64 = 64 << 10;

/// A log that processes append to.
#[derive(Debug)]
pub(crate) struct Log(File);

impl Log {
    /// Creates a log in `folder`. Replaces another file of that name, and follows no link.
    ///
    /// - `owner`: account of the process, which may open its own output again.
    pub(crate) fn make(folder: impl AsFd, name: &str, owner: Option<Account>) -> io::Result<Self> {
        match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
            Err(e) if e != Errno::ENOENT => return Err(e.into()),
            _ => {}
        }
        let flags = OFlag::O_RDWR
            | OFlag::O_APPEND
            | OFlag::O_CREAT
            | OFlag::O_EXCL
            | OFlag::O_NOFOLLOW
            | OFlag::O_CLOEXEC;
        let file = File::from(openat(&folder, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?);
        if let Some(Account { uid, gid }) = owner {
            scratch::chown(&file, uid, gid)?;
        }
        Ok(Self(file))
    }

    /// Returns the file, for the output of a process.
    pub(crate) fn file(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns the last 64 KiB. A command may have printed a server's output, which can have any length.
    pub(crate) fn text(&self) -> io::Result<String> {
        tail(&self.0, TEXT_BYTES_MAX)
    }

    /// Returns the part from offset `at` to the current end.
    pub(crate) fn since(&self, at: u64) -> io::Result<Since> {
        let end = self.0.metadata()?.len();
        Ok(Since { file: self.0.try_clone()?, at, end })
    }

    /// Returns the last part of the log, as the end of a sentence.
    pub(crate) fn last_words(&self) -> String {
        last_words(&self.0)
    }
}

/// A part of a log. Reading it does not move the offset at which processes write.
#[derive(Debug)]
pub(crate) struct Since {
    file: File,
    at: u64,
    end: u64,
}

impl Since {
    /// Returns the offset of its end in the log.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Returns at most about `bytes_max` bytes: the first and the last half, and between them a line that
    /// counts the bytes left out.
    ///
    /// A process may set the length of its log without writing to it.
    pub(crate) fn shortened(self, bytes_max: u64) -> io::Result<impl Read + use<>> {
        let Self { file, at, end } = self;
        let surplus = end.saturating_sub(at).saturating_sub(bytes_max);
        let cut = at + if surplus > 0 { bytes_max / 2 } else { end.saturating_sub(at) };
        let told = if surplus > 0 { format!("\n[{surplus} bytes left out]\n") } else { String::new() };
        let rest = Self { file: file.try_clone()?, at: cut + surplus, end };
        Ok(Self { file, at, end: cut }.chain(io::Cursor::new(told)).chain(rest))
    }
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

/// Returns the last lines of a log, as the end of a sentence.
pub(crate) fn last_words(log: &File) -> String {
    let tail = tail(log, TAIL_BYTES).unwrap_or_default();
    let lines: Vec<&str> = tail.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    match lines[..] {
        [] => "; it said nothing".to_owned(),
        _ => format!("; it said: {}", lines[lines.len().saturating_sub(3)..].join(" | ")),
    }
}

fn tail(log: &File, bytes_max: u64) -> io::Result<String> {
    let end = log.metadata()?.len();
    let at = end.saturating_sub(bytes_max);
    let mut bytes = Vec::new();
    Since { file: log.try_clone()?, at, end }.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
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
        let log = Log::make(File::open(folder.path()).unwrap(), "log", None).unwrap();
        log.file().unwrap().write_all(b"one\ntwo\n").unwrap();
        assert_eq!(log.text().unwrap(), "one\ntwo\n");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "x");
        assert_eq!(log.last_words(), "; it said: one | two");
        let shortened = |bytes_max| {
            let mut text = String::new();
            log.since(0).unwrap().shortened(bytes_max).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        assert_eq!(shortened(8), "one\ntwo\n");
        assert_eq!(shortened(4), "on\n[4 bytes left out]\no\n");
        // Output that a server made a command print is not read as a whole.
        log.file().unwrap().set_len(1 << 40).unwrap();
        log.file().unwrap().write_all(b"last\n").unwrap();
        assert!(log.text().unwrap().len() < 100_000 && log.text().unwrap().ends_with("last\n"));
        let mut rest = String::new();
        log.since(4).unwrap().take(4).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "two\n");
    }
}
