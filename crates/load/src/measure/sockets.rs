//! The connections of this process as the kernel knows them, to compare with those that the workers report.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The state of a TCP connection that both sides have open, as `/proc/net/tcp` writes it.
const TCP_ESTABLISHED: &str = "01";
/// The same of a local stream, in `/proc/net/unix`.
const UNIX_CONNECTED: &str = "03";

/// Inodes of the sockets of this process at one moment.
#[derive(Debug, Default)]
pub(crate) struct Sockets(BTreeSet<u64>);

impl Sockets {
    /// The sockets that this process has now; `None` if `/proc` does not say.
    pub(crate) fn of_this_process() -> Option<Self> {
        let files = fs::read_dir("/proc/self/fd").ok()?;
        // A file closed meanwhile has no link any more.
        let links = files.flatten().filter_map(|file| fs::read_link(file.path()).ok());
        Some(Self(links.filter_map(|link| inode(&link)).collect()))
    }

    /// Number of connected sockets that were opened since `before`; `None` if `/proc` does not say.
    ///
    /// # Source
    ///
    /// `/proc/self/net/tcp`, `tcp6`: `Documentation/networking/proc_net_tcp.rst`; `unix`: proc(5). They show
    /// the sockets of this process's network namespace.
    pub(crate) fn connected_since(&self, before: &Self) -> Option<u32> {
        let opened = || self.0.difference(&before.0);
        // Without IPv6 there is no such file.
        let table = |name: &str| fs::read_to_string(format!("/proc/self/net/{name}"));
        let unix = table("unix").ok()?;
        let mut found = connected(&unix, 5, UNIX_CONNECTED, 6).collect::<BTreeSet<_>>();
        // The kernel walks its whole hash table to print TCP's sockets, 1 % of the CPU of a load of 3 s:
        // not for local ones.
        if !opened().all(|inode| found.contains(inode)) {
            let (tcp, tcp6) = (table("tcp").ok()?, table("tcp6").unwrap_or_default());
            found.extend([tcp, tcp6].iter().flat_map(|table| connected(table, 3, TCP_ESTABLISHED, 9)));
        }
        u32::try_from(opened().filter(|inode| found.contains(inode)).count()).ok()
    }
}

/// Reads the inode from a link such as `socket:[12345]`.
fn inode(link: &Path) -> Option<u64> {
    link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

/// The inodes of a table's sockets in that state.
fn connected<'a>(
    table: &'a str,
    state_at: usize,
    state: &'a str,
    inode_at: usize,
) -> impl Iterator<Item = u64> + 'a {
    table.lines().skip(1).filter_map(move |line| {
        let mut fields = line.split_ascii_whitespace();
        let found = fields.nth(state_at)?;
        (found == state).then(|| fields.nth(inode_at - state_at - 1)?.parse().ok())?
    })
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::net::UnixStream;

    use super::*;

    // One test: other tests of this process open sockets too, so the count of all has only a lower bound.
    #[test]
    fn sockets_that_the_other_side_has_closed_are_not_connected() {
        let before = Sockets::of_this_process().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        let (one, other) = UnixStream::pair().unwrap();
        let inodes = |found: &Sockets| found.0.difference(&before.0).count();
        let after = Sockets::of_this_process().unwrap();
        assert!(inodes(&after) >= 5, "{after:?}");
        let ours: BTreeSet<u64> =
            [inode_of(&client), inode_of(&server), inode_of(&one), inode_of(&other)].into();
        let only = Sockets(ours.clone());
        assert_eq!(only.connected_since(&Sockets::default()), Some(4));
        assert_eq!(
            only.connected_since(&Sockets([inode_of(&client)].into())),
            Some(3),
            "one was there before"
        );
        let listening = Sockets([inode_of(&listener)].into());
        assert_eq!(listening.connected_since(&Sockets::default()), Some(0), "a listener is not a connection");
        drop(server);
        assert_eq!((&client).read(&mut [0]).unwrap(), 0, "the end of its stream has come");
        assert_eq!(Sockets([inode_of(&client)].into()).connected_since(&Sockets::default()), Some(0));
    }

    fn inode_of(socket: &impl std::os::fd::AsRawFd) -> u64 {
        inode(&fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap()).unwrap()
    }
}
