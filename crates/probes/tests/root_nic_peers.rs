//! TCP by peer against a network with known delay, losses and duplicates: a tunnel that ends in this test.
//!
//! A packet that leaves through it comes back with its two addresses exchanged, so a connection to the far
//! address arrives at this machine again. The truth of retransmits is the number of segments that the tunnel
//! saw twice.
//! address arrives at this machine again. The truth of retransmits is what the tunnel saw twice.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

use std::collections::{HashMap, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bakeoff_probes::nic::peers;
use nix::libc;
use nix::sched::{CloneFlags, unshare};
use record::clock::{Clock, Monotonic};
use record::tcp_peers::{Opened, TcpPeer};

const FAR: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
const PORT: u16 = 7;
/// Delay in each direction.
const DELAY_NS: u64 = 20_000_000;
/// One data segment in this number, of those that the client sends for the first time, is lost, and another
/// one duplicated.
const ONE_IN: u64 = 10;

/// Counts of the tunnel.
#[derive(Debug, Default)]
struct Truth {
    lost: AtomicU64,
    doubled: AtomicU64,
    /// Segments that it saw again.
    again: AtomicU64,
}

/// A tunnel in a network namespace of this thread; `None` if that is unavailable.
fn tunnel() -> Option<File> {
    if !nix::unistd::geteuid().is_root() || Command::new("ip").arg("-V").output().is_err() {
        eprintln!("skipped: it needs root and `ip`");
        return None;
    }
    // An interface belongs to the namespace in which its device was opened.
    unshare(CloneFlags::CLONE_NEWNET).unwrap();
    let Ok(tunnel) = OpenOptions::new().read(true).write(true).open("/dev/net/tun") else {
        eprintln!("skipped: this machine has no /dev/net/tun");
        return None;
    };
    // SAFETY: plain integers, bytes and a union of such: all zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"there") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_TUN | libc::IFF_NO_PI).unwrap();
    // SAFETY: the request is whole and lives as long as the call.
    let done = unsafe { libc::ioctl(tunnel.as_raw_fd(), libc::TUNSETIFF, &raw const request) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    for words in ["addr add 198.18.0.1/24 dev there", "link set lo up", "link set there up"] {
        assert!(Command::new("ip").args(words.split(' ')).status().unwrap().success(), "ip {words}");
    }
    Some(tunnel)
}

/// Carries packets for as long as the test runs.
fn carry(mut tunnel: File, truth: &Truth) {
    let mut under_way: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
    // Progress of each direction of each connection, by its two ports.
    let mut reached: HashMap<[u8; 4], u32> = HashMap::new();
    let (mut buffer, mut fresh) = (vec![0; 65_536], 0);
    loop {
        let mut wait = libc::pollfd { fd: tunnel.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one element, which lives through the call.
        let is_readable = unsafe { libc::poll(&raw mut wait, 1, 1) } > 0;
        while under_way.front().is_some_and(|(due_ns, _)| *due_ns <= Monotonic.now_ns()) {
            let (_, packet) = under_way.pop_front().unwrap();
            // An interface that is going down accepts nothing.
            let _ = tunnel.write_all(&packet);
        }
        if !is_readable {
            continue;
        }
        let n = tunnel.read(&mut buffer).unwrap();
        let mut packet = buffer[..n].to_vec();
        if packet[0] >> 4 != 4 || packet[9] != 6 {
            continue;
        }
        for i in 12..16 {
            packet.swap(i, i + 4);
        }
        let mut copies = 1;
        if let Some(is_again) = is_again(&packet, &mut reached) {
            truth.again.fetch_add(u64::from(is_again), Ordering::Relaxed);
            let to_port = u16::from_be_bytes([packet[22], packet[23]]);
            let has_data = packet[33] & 2 == 0;
            if !is_again && has_data && to_port == PORT {
                fresh += 1;
                match fresh % ONE_IN {
                    3 => copies = 0,
                    7 => copies = 2,
                    _ => {}
                }
                truth.lost.fetch_add(u64::from(copies == 0), Ordering::Relaxed);
                truth.doubled.fetch_add(u64::from(copies == 2), Ordering::Relaxed);
            }
        }
        for _ in 0..copies {
            under_way.push_back((Monotonic.now_ns() + DELAY_NS, packet.clone()));
        }
    }
}

/// Whether a segment with data or SYN was seen before; `None` for those with neither.
fn is_again(packet: &[u8], reached: &mut HashMap<[u8; 4], u32>) -> Option<bool> {
    let header = usize::from(packet[0] & 15) * 4;
    let segment = &packet[header..usize::from(u16::from_be_bytes([packet[2], packet[3]]))];
    let (flags, data) = (segment[13], segment.len() - usize::from(segment[12] >> 4) * 4);
    let length = u32::try_from(data).unwrap() + u32::from(flags & 2 != 0) + u32::from(flags & 1 != 0);
    if length == 0 {
        return None;
    }
    let sequence = u32::from_be_bytes(segment[4..8].try_into().unwrap());
    let end = sequence.wrapping_add(length);
    let reached = reached.entry(segment[..4].try_into().unwrap()).or_insert(sequence);
    let is_again = end.wrapping_sub(*reached).cast_signed() <= 0;
    if !is_again {
        *reached = end;
    }
    Some(is_again)
}

/// Sends messages and waits for the answer to each; returns the shortest round trip, in nanoseconds.
fn talk(stream: &mut TcpStream, messages: u32) -> u64 {
    let one = |stream: &mut TcpStream| {
        let began_ns = Monotonic.now_ns();
        stream.write_all(&[7; 1_000]).unwrap();
        stream.read_exact(&mut [0]).unwrap();
        Monotonic.now_ns() - began_ns
    };
    (0..messages).map(|_| one(stream)).min().unwrap()
}

/// Answers each message with a byte, one connection after the other, until the last is closed.
fn answer(listener: &TcpListener, connections: u32) {
    for _ in 0..connections {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        while stream.read_exact(&mut [0; 1_000]).is_ok() {
            stream.write_all(&[1]).unwrap();
        }
    }
}

fn client() -> TcpStream {
    let stream = TcpStream::connect((FAR, PORT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn of(peers: &[TcpPeer], opened: Opened) -> &TcpPeer {
    let found = peers.iter().find(|p| p.opened == opened && p.address == IpAddr::V4(FAR) && p.port == PORT);
    found.unwrap_or_else(|| panic!("{opened:?}: {peers:?}"))
}

#[test]
fn root_retransmits_round_trips_and_drops_of_a_peer_are_those_of_the_network() {
    let Some(carrier) = tunnel() else { return };
    let truth = Arc::new(Truth::default());
    let mut probe = peers::open();
    let listener = TcpListener::bind(("198.18.0.1", PORT)).unwrap();
    probe.start();
    // Detached, so that a failure does not wait for it.
    let of_carrier = Arc::clone(&truth);
    thread::spawn(move || carry(carrier, &of_carrier));
    thread::spawn(move || answer(&listener, 2));
    let mut stream = client();
    let shortest_ns = talk(&mut stream, 60);
    let seen = probe.read().unwrap();
    let (again, lost) = (truth.again.load(Ordering::Relaxed), truth.lost.load(Ordering::Relaxed));
    let (ours, theirs) = (of(&seen.peers, Opened::ByUs), of(&seen.peers, Opened::ByPeer));
    eprintln!("lost {lost}, seen again {again}, shortest {shortest_ns} ns: {ours:?} {theirs:?}");
    assert!(lost >= 5, "{lost}");
    assert_eq!((ours.connections, ours.ended), (1, 0));
    // The last of either may be on its way, or stay in the interface's queue for good.
    let sum = ours.retransmitted_segments + theirs.retransmitted_segments;
    assert!((again..=again + 1).contains(&sum), "{sum}, the tunnel saw {again}");
    assert!(ours.retransmitted_segments >= lost, "{ours:?}, {lost} were lost");
    // Each duplicated segment reaches the server twice, and so does each unneeded retransmit.
    let doubled = truth.doubled.load(Ordering::Relaxed);
    assert!((doubled..=doubled + again).contains(&theirs.dropped_segments), "{theirs:?}, {doubled} doubled");
    let rtt = ours.rtt.clone().unwrap();
    // The kernel reports whole microseconds.
    let at_most_ns = rtt.max_ns.min(shortest_ns + 1_000);
    assert!((2 * DELAY_NS..=at_most_ns).contains(&rtt.min_ns), "{rtt:?}, {shortest_ns}");
    drop(stream);

    // A connection that begins and ends between two readings.
    probe.read().unwrap();
    let before = truth.again.load(Ordering::Relaxed);
    let mut stream = client();
    talk(&mut stream, 30);
    drop(stream);
    let (mut sent_again, mut ended) = (0, 0);
    let give_up_ns = Monotonic.now_ns() + 30_000_000_000;
    while ended < 2 && Monotonic.now_ns() < give_up_ns {
        thread::sleep(Duration::from_millis(50));
        probe.listen();
        let seen = probe.read().unwrap();
        assert!(!seen.lost_ends);
        sent_again += seen.peers.iter().map(|p| p.retransmitted_segments).sum::<u64>();
        ended += seen.peers.iter().filter(|p| p.opened == Opened::ByUs).map(|p| p.ended).sum::<u64>();
    }
    let again = truth.again.load(Ordering::Relaxed) - before;
    eprintln!("{ended} ended, {sent_again} by the probe, the tunnel saw {again}");
    assert!(again >= 2 && (again..=again + 1).contains(&sent_again), "{sent_again} of {again}");
}
