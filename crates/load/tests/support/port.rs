//! Ports for servers that a test starts, kills and restarts.

use std::net::TcpListener;
use std::process;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below the ports that Linux gives to clients (`ip_local_port_range`): while a server is down, none of the
/// thousands of connections that tests make can take its port away.
const FIRST: u16 = 20_000;
const COUNT: u16 = 12_000;
/// Distance between the starting points of concurrent processes.
const STRIDE: u32 = 97;

static NEXT: AtomicU16 = AtomicU16::new(0);

/// A port without a listener that no other caller in this process gets.
pub(crate) fn free() -> u16 {
    for _ in 0..COUNT {
        let step = u32::from(NEXT.fetch_add(1, Ordering::Relaxed));
        let place = (process::id().wrapping_mul(STRIDE).wrapping_add(step)) % u32::from(COUNT);
        let port = FIRST + u16::try_from(place).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
    panic!("no free port from {FIRST} on");
}
