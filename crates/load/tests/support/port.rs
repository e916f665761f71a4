//! Ports for servers that a test starts, kills and restarts.

use std::mem;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux gives to clients (`ip_local_port_range`): while a server is down, none of the
/// thousands of connections that tests make can take its port away.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// Distance between the starting points of concurrent processes.
const STRIDE: u32 = 97;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port without a listener that no other caller gets while this process runs, in any test program: a killed
/// server must find its port free.
pub(crate) fn free() -> u16 {
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let place = (process::id().wrapping_mul(STRIDE).wrapping_add(step)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(place).unwrap();
        // A name that is taken until this process ends, however it ends.
        let name = SocketAddr::from_abstract_name(format!("bakeoff-test-port-{port}")).unwrap();
        if let Ok(taken) = UnixListener::bind_addr(&name)
            && TcpListener::bind(("127.0.0.1", port)).is_ok()
        {
            mem::forget(taken);
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}
