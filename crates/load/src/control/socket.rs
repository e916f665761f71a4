//! A local socket that answers lines.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use nix::sys::stat::{Mode, fchmod};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use super::error::ControlError;

/// The maximum number of connections: one person and a few scripts.
const CONNECTIONS_MAX: usize = 16;
/// The maximum length of a line in bytes; longer lines are refused.
const LINE_MAX: u64 = 256;
const BACKLOG: i32 = 16;

type Answer = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// A listener that ends when it is dropped.
#[derive(Debug)]
pub(super) struct Listening {
    path: PathBuf,
    /// Device and inode of our socket file, if it could be read.
    file: Option<(u64, u64)>,
    listener: Arc<UnixListener>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    pub(super) fn begin(path: &Path, answer: Answer) -> Result<Self, ControlError> {
        make_room(path)?;
        let listener = Arc::new(bind(path)?);
        let file = identity(path);
        let is_over = Arc::new(AtomicBool::new(false));
        let (theirs, accepts) = (Arc::clone(&is_over), Arc::clone(&listener));
        let thread = thread::Builder::new()
            .name("load-control".to_owned())
            .spawn(move || accept(&accepts, &theirs, &answer))
            .map_err(|source| ControlError::Listen { path: path.to_owned(), source })?;
        Ok(Self { path: path.to_owned(), file, listener, is_over, thread: Some(thread) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection, whatever is at the path by now.
        if SockRef::from(&*self.listener).shutdown(Shutdown::Both).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
        // Another process may have replaced our file with its own.
        if self.file.is_some() && identity(&self.path) == self.file {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of the file at `path`.
fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Removes a socket without a listener.
fn make_room(path: &Path) -> Result<(), ControlError> {
    let here = || path.to_owned();
    let found = match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(ControlError::Listen { path: here(), source }),
        Ok(found) => found,
    };
    if !found.file_type().is_socket() {
        return Err(ControlError::NotASocket { path: here() });
    }
    if found.uid() != nix::unistd::geteuid().as_raw() {
        return Err(ControlError::OfAnother { path: here() });
    }
    match knock(path) {
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|source| ControlError::Listen { path: here(), source })
        }
        // A listener with a full backlog is still a listener.
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(ControlError::InUse { path: here() }),
        Err(source) => Err(ControlError::Listen { path: here(), source }),
        Ok(()) => Err(ControlError::InUse { path: here() }),
    }
}

/// Connects and disconnects, without waiting for a place in the listener's backlog.
fn knock(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// A listener with a file that only its owner may use, from its first moment on: the kernel creates the file
/// with the mode of the socket.
fn bind(path: &Path) -> Result<UnixListener, ControlError> {
    let failed = |source: io::Error| ControlError::Listen { path: path.to_owned(), source };
    let address = SockAddr::unix(path).map_err(|_| ControlError::TooLong { path: path.to_owned() })?;
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR).map_err(|e| failed(e.into()))?;
    socket.bind(&address).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)?;
    Ok(UnixListener::from(std::os::fd::OwnedFd::from(socket)))
}

/// The open connections, ordered by their latest request.
#[derive(Debug, Default)]
struct Open(Mutex<Vec<Connection>>);

#[derive(Debug)]
struct Connection {
    number: u64,
    stream: UnixStream,
    /// A line of it is being answered.
    is_busy: bool,
}

impl Open {
    fn lock(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection. If there are too many, the one that has been idle longest is dropped; `false` if
    /// all are busy.
    fn enter(&self, number: u64, stream: &UnixStream) -> io::Result<bool> {
        let mut all = self.lock();
        if all.len() >= CONNECTIONS_MAX {
            let Some(idle) = all.iter().position(|connection| !connection.is_busy) else { return Ok(false) };
            let dropped = all.remove(idle);
            // The peer may have gone, or may not read: do not wait for it.
            let _ = dropped.stream.set_nonblocking(true);
            let _ = (&dropped.stream)
                .write_all(b"error: closed because it was idle and another connection needed its place\n");
            let _ = dropped.stream.shutdown(Shutdown::Both);
        }
        all.push(Connection { number, stream: stream.try_clone()?, is_busy: false });
        Ok(true)
    }

    /// Marks whether a line of this connection is being answered; `false` if the connection was dropped.
    fn set_busy(&self, number: u64, is_busy: bool) -> bool {
        let mut all = self.lock();
        let Some(at) = all.iter().position(|connection| connection.number == number) else { return false };
        let connection = all.remove(at);
        all.push(Connection { is_busy, ..connection });
        true
    }

    fn leave(&self, number: u64) {
        self.lock().retain(|connection| connection.number != number);
    }
}

fn accept(listener: &UnixListener, is_over: &AtomicBool, answer: &Answer) {
    let open = Arc::new(Open::default());
    for (number, stream) in (0..).zip(listener.incoming()) {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let Ok(mut stream) = stream else { continue };
        match open.enter(number, &stream) {
            Ok(true) => {}
            Ok(false) => {
                // The peer may have gone.
                let _ = stream.write_all(b"error: too many connections\n");
                continue;
            }
            Err(_) => continue,
        }
        let (theirs, answer) = (Arc::clone(&open), Arc::clone(answer));
        let body = move || {
            // An error means that the connection broke: it is over.
            let _ = converse(&stream, &theirs, number, &*answer);
            theirs.leave(number);
        };
        if thread::Builder::new().name("load-control".to_owned()).spawn(body).is_err() {
            open.leave(number);
        }
    }
}

/// Answers line by line until the peer closes.
///
/// A command ends with its newline. Without one it may be the first part of a longer command, left by a
/// client that died: `rate 20` of `rate 2000/s`.
fn converse(
    stream: &UnixStream,
    open: &Open,
    number: u64,
    answer: &dyn Fn(&str) -> String,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line)?;
        if bytes == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            let why =
                if bytes as u64 == LINE_MAX { "is too long" } else { "does not end with a newline: ignored" };
            return (&*stream).write_all(format!("error: the line {why}\n").as_bytes());
        }
        if !open.set_busy(number, true) {
            return Ok(());
        }
        let text = answer(&String::from_utf8_lossy(&line));
        open.set_busy(number, false);
        (&*stream).write_all(format!("{text}\n").as_bytes())?;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn echo() -> Answer {
        Arc::new(|line: &str| format!("ok {}", line.trim()))
    }

    fn ask(path: &Path, line: &str) -> String {
        let mut stream = UnixStream::connect(path).unwrap();
        stream.write_all(line.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        io::read_to_string(stream).unwrap()
    }

    #[test]
    fn lines_are_answered_one_by_one_and_the_file_goes_with_the_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let listening = Listening::begin(&path, echo()).unwrap();
        assert_eq!(ask(&path, "one\ntwo\n"), "ok one\nok two\n");
        assert_eq!(ask(&path, &"x".repeat(300)), "error: the line is too long\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "others may not talk to it");
        drop(listening);
        assert!(!path.exists());
    }

    #[test]
    fn a_line_without_its_end_is_no_command() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&heard);
        let note: Answer = Arc::new(move |line: &str| {
            theirs.lock().unwrap().push(line.to_owned());
            "ok".to_owned()
        });
        let _listening = Listening::begin(&path, note).unwrap();
        // A client that dies in the middle of `rate 2000/s`.
        let said = ask(&path, "status\nrate 20");
        assert_eq!(said, "ok\nerror: the line does not end with a newline: ignored\n");
        assert_eq!(*heard.lock().unwrap(), ["status\n"]);
    }

    #[test]
    fn idle_connections_make_room_for_one_that_asks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let _listening = Listening::begin(&path, echo()).unwrap();
        let idle: Vec<UnixStream> =
            (0..CONNECTIONS_MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
        assert_eq!(ask(&path, "still there\n"), "ok still there\n");
        // One of them was dropped, and learns why; the others are open.
        let dropped = io::read_to_string(&idle[0]).unwrap();
        assert_eq!(dropped, "error: closed because it was idle and another connection needed its place\n");
        (&idle[1]).write_all(b"me too\n").unwrap();
        let mut answer = String::new();
        BufReader::new(&idle[1]).read_line(&mut answer).unwrap();
        assert_eq!(answer, "ok me too\n");
    }

    #[test]
    fn a_socket_with_a_full_backlog_or_of_another_user_is_refused_and_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let address = SockAddr::unix(&path).unwrap();
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        socket.bind(&address).unwrap();
        socket.listen(0).unwrap();
        let waiting: Vec<Socket> = std::iter::repeat_with(|| {
            let next = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            next.set_nonblocking(true).unwrap();
            next.connect(&address).map(|()| next)
        })
        .map_while(Result::ok)
        .collect();
        assert!(!waiting.is_empty());
        assert!(matches!(Listening::begin(&path, echo()), Err(ControlError::InUse { .. })));
        if nix::unistd::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
            assert!(matches!(Listening::begin(&path, echo()), Err(ControlError::OfAnother { .. })));
        } else {
            println!("skipped: another user's socket, for want of root");
        }
    }

    #[test]
    fn a_listener_whose_file_was_replaced_ends_and_leaves_the_other_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        let first = Listening::begin(&path, echo()).unwrap();
        std::fs::remove_file(&path).unwrap();
        let second = Listening::begin(&path, echo()).unwrap();
        drop(first);
        assert_eq!(ask(&path, "still there\n"), "ok still there\n");
        std::fs::remove_file(&path).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_was_left_behind_is_replaced_and_anything_else_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("control");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists(), "as after a kill");
        let listening = Listening::begin(&path, echo()).unwrap();
        assert!(matches!(Listening::begin(&path, echo()), Err(ControlError::InUse { .. })));
        assert_eq!(ask(&path, "still there\n"), "ok still there\n");
        drop(listening);
        std::fs::write(&path, "mine").unwrap();
        assert!(matches!(Listening::begin(&path, echo()), Err(ControlError::NotASocket { .. })));
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        let long = folder.path().join("x".repeat(120));
        assert!(matches!(Listening::begin(&long, echo()), Err(ControlError::TooLong { .. })));
        let nowhere = folder.path().join("missing/control");
        assert!(matches!(Listening::begin(&nowhere, echo()), Err(ControlError::Listen { .. })));
    }
}
