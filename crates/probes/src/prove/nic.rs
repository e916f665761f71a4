//! The network's counters against datagrams of known number and size.
//!
//! They go back and forth over a pair of virtual interfaces between two network namespaces that only our two
//! threads have, so nothing else is counted, and nothing remains however this process ends. The truth is the
//! number of datagrams sent; `ip -s link` runs beside it.

use std::io;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::gettid;
use record::missing::{Maybe, Missing};
use record::nic::{LinkCounts, NicInterval};
use record::proof::{Proof, Unit};

use super::{Bench, Subject};
use crate::nic::{self, NicProbe};

pub(super) const SUBJECT: Subject = Subject {
    name: "nic",
    about: "datagrams of known number and size over a veth pair between two namespaces of its own",
    prove,
};

/// Datagrams each way, and the bytes in each.
const WORKLOADS: [(u64, usize); 2] = [(5_000, 18), (5_000, 1_400)];
/// Ethernet, IPv4 and UDP.
const HEADERS_BYTES: u64 = 14 + 20 + 8;
const PORT: u16 = 9;
/// An echo that takes longer is lost, and the proof is missing.
const ECHO_WITHIN: Duration = Duration::from_secs(10);
/// Number of readings that measure the cost of one.
const LOOKS: u32 = 20;

fn prove(bench: &mut Bench<'_>) {
    let names = WORKLOADS.map(|(count, bytes)| format!("{count} datagrams of {bytes} B"));
    for (number, (name, workload)) in (1..).zip(names.iter().zip(WORKLOADS)) {
        if !bench.begin(name, number, WORKLOADS.len()) {
            return;
        }
        let (count, bytes) = workload;
        // A separate thread, since it leaves its namespace for good.
        let seen = thread::scope(|scope| scope.spawn(|| exchange(count, bytes)).join());
        match seen.unwrap_or_else(|_| Err(Missing::because("the exchange was cut short"))) {
            Ok(seen) => {
                for proof in proofs(name, workload, &seen) {
                    bench.tell(proof);
                }
            }
            Err(why) => bench.tell(Proof {
                truth: Err(why.clone()),
                found: Err(Missing::because("there was no activity to observe")),
                remark: Some(why.reason),
                ..proof(name, "packets sent", Unit::Count)
            }),
        }
    }
}

/// Measurements of one exchange.
struct Exchange {
    interval: NicInterval,
    /// The difference that `ip -s link` shows.
    by_ip: LinkCounts,
    /// CPU time of a reading, as a share of one CPU at one reading a second.
    cost: Maybe<f64>,
}

fn proofs(workload: &str, (count, bytes): (u64, usize), seen: &Exchange) -> Vec<Proof> {
    let ours = seen.interval.interfaces.as_ref().map_err(Clone::clone).and_then(|interfaces| {
        let found = interfaces.iter().find(|i| i.name == NEAR);
        found.ok_or_else(|| Missing::because("the interface is not listed"))?.counts.clone()
    });
    let udp = &seen.interval.udp;
    let on_wire = count * (bytes as u64 + HEADERS_BYTES);
    let counted = |of: fn(&LinkCounts) -> u64| ours.as_ref().map(|c| of(c) as f64).map_err(Clone::clone);
    let sent = udp.as_ref().map(|c| c.out_datagrams as f64).map_err(Clone::clone);
    let values = [
        ("packets sent", Unit::Count, count, counted(|c| c.tx_packets), Some(seen.by_ip.tx_packets)),
        ("packets received", Unit::Count, count, counted(|c| c.rx_packets), Some(seen.by_ip.rx_packets)),
        ("bytes sent", Unit::Bytes, on_wire, counted(|c| c.tx_bytes), Some(seen.by_ip.tx_bytes)),
        ("bytes received", Unit::Bytes, on_wire, counted(|c| c.rx_bytes), Some(seen.by_ip.rx_bytes)),
        ("UDP datagrams", Unit::Count, count, sent, None),
    ];
    let mut proofs = Vec::new();
    for (instrument, unit, truth, found, by_ip) in values {
        let base = Proof { truth: Ok(truth as f64), ..proof(workload, instrument, unit) };
        proofs.push(Proof { found, cost_ratio: seen.cost.clone(), ..base.clone() });
        if let Some(by_ip) = by_ip {
            let instrument = format!("ip -s link, {instrument}");
            proofs.push(Proof { instrument, ours: false, found: Ok(by_ip as f64), ..base });
        }
    }
    proofs
}

/// An empty proof, which tolerates no difference.
fn proof(workload: &str, instrument: &str, unit: Unit) -> Proof {
    let none = || Err(Missing::because("not measured"));
    Proof {
        subject: SUBJECT.name.into(),
        instrument: instrument.into(),
        ours: true,
        workload: workload.into(),
        truth: none(),
        found: none(),
        limit: 0.0,
        unit,
        cost_ratio: none(),
        remark: None,
    }
}

/// The two ends.
const NEAR: &str = "near";
const FAR: &str = "far";
const NEAR_ADDRESS: &str = "198.18.0.1";
const FAR_ADDRESS: &str = "198.18.0.2";
const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";

/// Sends the datagrams to an echo in the other namespace and counts meanwhile.
fn exchange(count: u64, bytes: usize) -> Maybe<Exchange> {
    own_namespace()?;
    let (tell_tid, tid) = mpsc::channel();
    let (tell_linked, linked) = mpsc::channel::<()>();
    let (tell_bound, bound) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || {
            let made = own_namespace().map(|()| gettid().as_raw());
            let is_made = made.is_ok();
            if tell_tid.send(made).is_err() || !is_made || linked.recv().is_err() {
                return;
            }
            let socket = set_up(FAR, FAR_ADDRESS, (NEAR_ADDRESS, NEAR_MAC));
            let echo = socket.as_ref().ok().and_then(|socket| socket.try_clone().ok());
            if tell_bound.send(socket.map(drop)).is_ok()
                && let Some(echo) = echo
            {
                echo_until_silent(&echo, count);
            }
        });
        let gone = || Missing::because("the other end has gone");
        let far = tid.recv().map_err(|_| gone())??.to_string();
        let veth = ["link", "add", NEAR, "address", NEAR_MAC, "type", "veth", "peer", "name", FAR];
        ip(&[&veth[..], &["address", FAR_MAC, "netns", &far]].concat())?;
        tell_linked.send(()).map_err(|_| gone())?;
        bound.recv().map_err(|_| gone())??;
        let socket = set_up(NEAR, NEAR_ADDRESS, (FAR_ADDRESS, FAR_MAC))?;
        socket
            .connect((FAR_ADDRESS, PORT))
            .map_err(|e| Missing::because(format!("the other end cannot be reached: {e}")))?;

        let mut probe = nic::open(std::collections::BTreeMap::new());
        let before = link_counts()?;
        probe.start();
        send(&socket, count, bytes)?;
        let interval = probe.read();
        let by_ip = less(&link_counts()?, &before);
        Ok(Exchange { interval, by_ip, cost: cost(&mut probe) })
    })
}

fn own_namespace() -> Maybe<()> {
    unshare(CloneFlags::CLONE_NEWNET)
        .map_err(|e| Missing::because(format!("cannot create a network namespace ({e}): needs root")))?;
    // IPv6 messages of the interface itself would be counted. Without IPv6 the write fails, which is fine.
    for scope in ["all", "default"] {
        let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1");
    }
    Ok(())
}

/// Brings an end up, sets its neighbour, and binds a socket there.
fn set_up(name: &str, address: &str, (other, mac): (&str, &str)) -> Maybe<UdpSocket> {
    ip(&["address", "add", &format!("{address}/24"), "dev", name])?;
    ip(&["link", "set", name, "up"])?;
    ip(&["neighbour", "replace", other, "lladdr", mac, "dev", name, "nud", "permanent"])?;
    let refused = |e: io::Error| Missing::because(format!("cannot open a socket in the namespace: {e}"));
    let socket = UdpSocket::bind((address, PORT)).map_err(refused)?;
    socket.set_read_timeout(Some(ECHO_WITHIN)).map_err(refused)?;
    Ok(socket)
}

fn echo_until_silent(socket: &UdpSocket, count: u64) {
    let mut space = [0; 2048];
    for _ in 0..count {
        // A failure here shows at the other end.
        let Ok((n, from)) = socket.recv_from(&mut space) else { return };
        if socket.send_to(&space[..n], from).is_err() {
            return;
        }
    }
}

/// One at a time, so that no queue on the way can overflow.
fn send(socket: &UdpSocket, count: u64, bytes: usize) -> Maybe<()> {
    let lost = |e: io::Error| Missing::because(format!("a datagram did not come back: {e}"));
    let (message, mut space) = (vec![7; bytes], [0; 2048]);
    for _ in 0..count {
        socket.send(&message).map_err(lost)?;
        socket.recv(&mut space).map_err(lost)?;
    }
    Ok(())
}

/// Runs `ip` in the namespace of this thread.
fn ip(words: &[&str]) -> Maybe<String> {
    let output = Command::new("ip").args(words).output();
    let output = output.map_err(|e| Missing::because(format!("`ip` (iproute2) cannot be run: {e}")))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&output.stderr);
    let why = why.lines().next().unwrap_or("it printed nothing");
    Err(Missing::because(format!("`ip {}` failed: {why}", words.join(" "))))
}

fn link_counts() -> Maybe<LinkCounts> {
    let text = ip(&["-s", "link", "show", "dev", NEAR])?;
    counts_of(&text).ok_or_else(|| Missing::because("cannot read the counts of `ip -s link`"))
}

/// Bytes and packets stand first on the lines below `RX:` and `TX:`.
fn counts_of(text: &str) -> Option<LinkCounts> {
    let below = |head: &str| {
        let line = text.lines().skip_while(|line| !line.trim_start().starts_with(head)).nth(1)?;
        let mut numbers = line.split_ascii_whitespace().map_while(|n| n.parse::<u64>().ok());
        Some((numbers.next()?, numbers.next()?))
    };
    let ((rx_bytes, rx_packets), (tx_bytes, tx_packets)) = (below("RX:")?, below("TX:")?);
    Some(LinkCounts { rx_bytes, rx_packets, tx_bytes, tx_packets, ..LinkCounts::default() })
}

fn less(after: &LinkCounts, before: &LinkCounts) -> LinkCounts {
    LinkCounts {
        rx_bytes: after.rx_bytes - before.rx_bytes,
        tx_bytes: after.tx_bytes - before.tx_bytes,
        rx_packets: after.rx_packets - before.rx_packets,
        tx_packets: after.tx_packets - before.tx_packets,
        ..LinkCounts::default()
    }
}

/// CPU time of one reading a second.
fn cost(probe: &mut NicProbe) -> Maybe<f64> {
    let used = || {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        time.map(Duration::from).map_err(|e| Missing::because(format!("this thread's clock: {e}")))
    };
    let before = used()?;
    for _ in 0..LOOKS {
        probe.read();
    }
    Ok(used()?.saturating_sub(before).as_secs_f64() / f64::from(LOOKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_of_ip_is_read_by_its_heads() {
        let text = "\
2: near@if2: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default qlen 1000
    link/ether 02:00:00:00:00:01 brd ff:ff:ff:ff:ff:ff link-netnsid 0
    RX:  bytes packets errors dropped  missed   mcast
        300000    5000      0       0       0       0
    TX:  bytes packets errors dropped carrier collsns
        300001    5001      0       0       0       0
";
        let counts = counts_of(text).unwrap();
        assert_eq!((counts.rx_bytes, counts.rx_packets), (300_000, 5_000));
        assert_eq!((counts.tx_bytes, counts.tx_packets), (300_001, 5_001));
        assert_eq!(counts_of("RX: bytes\n"), None);
    }

    #[test]
    fn root_what_was_sent_is_what_was_counted() {
        if !nix::unistd::geteuid().is_root() || Command::new("ip").arg("-V").output().is_err() {
            return eprintln!("skipped: needs root and ip (iproute2)");
        }
        let seen = thread::scope(|scope| scope.spawn(|| exchange(300, 100)).join().unwrap());
        let seen = seen.unwrap();
        for proof in proofs("300 datagrams of 100 B", (300, 100), &seen) {
            assert_eq!(proof.error(), Ok(0.0), "{proof:?}");
        }
    }
}
