//! Traffic of the network interfaces in exact counts, with the counters of TCP and UDP.
//!
//! *Traces* nothing: reads the kernel's counters at the edges of each interval, all interfaces in one answer
//! (`RTM_GETLINK`, 64-bit counters), and `/proc/net/{snmp,netstat}`; of the network namespace of the calling
//! thread. *Yields*, per interface and interval: bytes, packets, errors, drops, collisions (counts), speed
//! (bit/s) and duplex from the driver (`ETHTOOL_GLINKSETTINGS`) or the user; TCP and UDP counts of the
//! namespace. *Differs from* `nicstat`, which reads `/proc/net/dev`, drops speeds beyond 65 Gbit/s, shows 0 %
//! for an unknown speed, adds the time of each reading to the interval, and takes a recreated interface for
//! the old one. *Blind to* what a device does without telling its driver, and to when in an interval a speed
//! changed: %Util uses the speed at the interval's end, or up to half a second before. A virtual device's
//! speed is the one that its driver names, and nothing enforces it. *Costs* a dump of all interfaces an
//! interval: some 0.1 ms with ten of them.

mod diag;
mod ethtool;
mod netlink;
mod observe;
pub mod peers;
mod snmp;

use std::collections::BTreeMap;
use std::fs;

use record::clock::{Clock, Monotonic};
use record::missing::{Maybe, Missing};
use record::nic::{Duplex, InterfaceSample, LinkCounts, NicInterval, TcpCounts, UdpCounts};

use self::ethtool::{Ethtool, Settings};
use self::netlink::{Link, Netlink};

pub(crate) use self::observe::KIND;

/// Watches the interfaces of the namespace of the thread that opened it.
#[derive(Debug)]
pub struct NicProbe {
    netlink: Maybe<Netlink>,
    ethtool: Maybe<Ethtool>,
    /// Speeds that the user set, by name; they override the driver's.
    speeds: BTreeMap<String, u64>,
    /// Last settings from the driver, by interface.
    settings: BTreeMap<u32, DriverSettings>,
    last: Option<Snapshot>,
}

/// Settings from a driver, and when they were read.
#[derive(Debug)]
struct DriverSettings {
    at_ns: u64,
    /// Number of carrier changes by then.
    carrier_changes: u32,
    settings: Settings,
}

/// A speed may change while the link stays up; but some drivers take milliseconds to report it.
const ASKED_AGAIN_AFTER_NS: u64 = 500_000_000;

/// Readings at one edge of an interval.
#[derive(Debug)]
struct Snapshot {
    at_ns: u64,
    links: Maybe<Vec<Link>>,
    tcp: Maybe<TcpCounts>,
    udp: Maybe<UdpCounts>,
}

/// Opens the probe. Never fails: an unavailable value has a reason.
///
/// - `speeds`: in bits per second, by the name of the interface.
pub fn open(speeds: BTreeMap<String, u64>) -> NicProbe {
    let netlink = Netlink::open().map_err(|e| Missing::because(format!("no netlink socket: {e}")));
    let ethtool = Ethtool::open().map_err(|e| Missing::because(format!("cannot query drivers: {e}")));
    NicProbe { netlink, ethtool, speeds, settings: BTreeMap::new(), last: None }
}

impl NicProbe {
    /// Starts the first interval and returns its start on `CLOCK_MONOTONIC`.
    pub fn start(&mut self) -> u64 {
        let look = self.look();
        let at_ns = look.at_ns;
        self.last = Some(look);
        at_ns
    }

    /// Counts since the last reading, or since the start.
    ///
    /// The next interval starts where this one ends. The caller checks whether it missed a deadline.
    pub fn read(&mut self) -> NicInterval {
        let after = self.look();
        let before = self.last.take();
        let never = || Missing::because("the probe was not started before it was read");
        let interval = match &before {
            Some(before) => self.between(before, &after),
            None => NicInterval {
                from_ns: after.at_ns,
                until_ns: after.at_ns,
                missed_deadline: false,
                interfaces: Err(never()),
                tcp: Err(never()),
                udp: Err(never()),
            },
        };
        self.last = Some(after);
        interval
    }

    fn look(&mut self) -> Snapshot {
        let before_ns = Monotonic.now_ns();
        let links = match &mut self.netlink {
            Ok(netlink) => {
                netlink.links().map_err(|e| Missing::because(format!("the interfaces cannot be listed: {e}")))
            }
            Err(missing) => Err(missing.clone()),
        };
        // The counters were read in between; TCP's and UDP's a little later.
        let at_ns = before_ns.midpoint(Monotonic.now_ns());
        let snmp = text("/proc/thread-self/net/snmp");
        let netstat = text("/proc/thread-self/net/netstat");
        let tcp = both(&snmp, &netstat).and_then(|(snmp, netstat)| snmp::tcp(snmp, netstat));
        let udp = snmp.as_deref().map_err(Clone::clone).and_then(snmp::udp);
        Snapshot { at_ns, links, tcp, udp }
    }

    fn between(&mut self, before: &Snapshot, after: &Snapshot) -> NicInterval {
        let interfaces = match (&before.links, &after.links) {
            (Ok(before), Ok(after)) => Ok(self.samples(before, after)),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        let tcp = both(&before.tcp, &after.tcp).and_then(|(b, a)| snmp::tcp_since(b, a));
        let udp = both(&before.udp, &after.udp).and_then(|(b, a)| snmp::udp_since(b, a));
        let (from_ns, until_ns) = (before.at_ns, after.at_ns);
        NicInterval { from_ns, until_ns, missed_deadline: false, interfaces, tcp, udp }
    }

    fn samples(&mut self, before: &[Link], after: &[Link]) -> Vec<InterfaceSample> {
        let of = |links: &[Link], index: u32| links.iter().find(|l| l.index == index).cloned();
        let mut samples = Vec::new();
        for link in after {
            let counts = match of(before, link.index) {
                Some(before) => since(&before.counts, &link.counts),
                None => Err(Missing::because("it appeared in this interval")),
            };
            samples.push(sample(link, self.settings_of(link), counts));
        }
        for gone in before.iter().filter(|b| of(after, b.index).is_none()) {
            let why = Missing::because("it disappeared in this interval");
            self.settings.remove(&gone.index);
            let settings = Settings { speed_bits_per_s: Err(why.clone()), duplex: Err(why.clone()) };
            samples.push(InterfaceSample { up: false, ..sample(gone, settings, Err(why)) });
        }
        samples
    }

    /// Asks the driver, unless its last answer is recent and the link has not gone down or up since.
    fn settings_of(&mut self, link: &Link) -> Settings {
        let now_ns = Monotonic.now_ns();
        let is_new = |told: &DriverSettings| {
            told.carrier_changes == link.carrier_changes
                && now_ns.saturating_sub(told.at_ns) < ASKED_AGAIN_AFTER_NS
        };
        let known =
            self.settings.get(&link.index).filter(|told| is_new(told)).map(|told| told.settings.clone());
        let told = known.unwrap_or_else(|| {
            let settings = match &self.ethtool {
                Ok(ethtool) => ethtool.settings(&link.name),
                Err(why) => Settings { speed_bits_per_s: Err(why.clone()), duplex: Err(why.clone()) },
            };
            let carrier_changes = link.carrier_changes;
            self.settings.insert(
                link.index,
                DriverSettings { at_ns: now_ns, carrier_changes, settings: settings.clone() },
            );
            settings
        });
        match self.speeds.get(&link.name) {
            // As every link of today but a hub's.
            Some(speed) => {
                Settings { speed_bits_per_s: Ok(*speed), duplex: Ok(told.duplex.unwrap_or(Duplex::Full)) }
            }
            None => told,
        }
    }
}

fn sample(link: &Link, settings: Settings, counts: Maybe<LinkCounts>) -> InterfaceSample {
    InterfaceSample {
        index: link.index,
        name: link.name.clone(),
        kind: link.kind.clone(),
        loopback: link.loopback,
        up: link.up,
        speed_bits_per_s: settings.speed_bits_per_s,
        duplex: settings.duplex,
        counts,
    }
}

/// Counts between two readings of the same interface.
fn since(before: &LinkCounts, after: &LinkCounts) -> Maybe<LinkCounts> {
    let less = |of: fn(&LinkCounts) -> u64| {
        of(after).checked_sub(of(before)).ok_or_else(|| Missing::because("its counters went back"))
    };
    Ok(LinkCounts {
        rx_bytes: less(|c| c.rx_bytes)?,
        tx_bytes: less(|c| c.tx_bytes)?,
        rx_packets: less(|c| c.rx_packets)?,
        tx_packets: less(|c| c.tx_packets)?,
        rx_errors: less(|c| c.rx_errors)?,
        tx_errors: less(|c| c.tx_errors)?,
        rx_dropped: less(|c| c.rx_dropped)?,
        tx_dropped: less(|c| c.tx_dropped)?,
        collisions: less(|c| c.collisions)?,
    })
}

fn text(path: &str) -> Maybe<String> {
    fs::read_to_string(path).map_err(|e| Missing::because(format!("{path}: {e}")))
}

fn both<'a, A, B>(a: &'a Maybe<A>, b: &'a Maybe<B>) -> Maybe<(&'a A, &'a B)> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(why), _) | (_, Err(why)) => Err(why.clone()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, name: &str, rx_bytes: u64) -> Link {
        Link {
            index,
            name: name.into(),
            kind: None,
            loopback: false,
            up: true,
            carrier_changes: 1,
            counts: LinkCounts { rx_bytes, ..LinkCounts::default() },
        }
    }

    fn deaf(speeds: &[(&str, u64)]) -> NicProbe {
        let why = || Missing::because("nobody is asked");
        let speeds = speeds.iter().map(|(name, speed)| ((*name).to_owned(), *speed)).collect();
        NicProbe { netlink: Err(why()), ethtool: Err(why()), speeds, settings: BTreeMap::new(), last: None }
    }

    #[test]
    fn an_interface_made_anew_under_the_same_name_is_another_one() {
        let samples = deaf(&[]).samples(&[link(2, "eth0", 700)], &[link(3, "eth0", 900)]);
        let reasons: Vec<&str> =
            samples.iter().map(|s| s.counts.as_ref().unwrap_err().reason.as_str()).collect();
        assert_eq!(reasons, ["it appeared in this interval", "it disappeared in this interval"]);
    }

    #[test]
    fn counters_that_went_back_are_no_count() {
        let samples = deaf(&[]).samples(&[link(2, "eth0", 700)], &[link(2, "eth0", 699)]);
        assert_eq!(samples[0].counts, Err(Missing::because("its counters went back")));
    }

    #[test]
    fn what_the_user_says_of_a_speed_goes_before_what_nobody_says() {
        let samples = deaf(&[("eth0", 400_000_000_000)])
            .samples(&[link(2, "eth0", 0), link(3, "eth1", 0)], &[link(2, "eth0", 5), link(3, "eth1", 0)]);
        assert_eq!(samples[0].speed_bits_per_s, Ok(400_000_000_000));
        assert_eq!(samples[0].counts.as_ref().unwrap().rx_bytes, 5);
        assert!(samples[1].speed_bits_per_s.is_err());
    }

    #[test]
    fn a_speed_from_the_user_is_of_each_direction_unless_the_driver_says_half() {
        let mut probe = deaf(&[("eth0", 100_000_000), ("eth1", 100_000_000)]);
        let half = Settings { speed_bits_per_s: Err(Missing::because("unknown")), duplex: Ok(Duplex::Half) };
        let at_ns = Monotonic.now_ns() + 3_600_000_000_000;
        probe.settings.insert(3, DriverSettings { at_ns, carrier_changes: 1, settings: half });
        let links = [link(2, "eth0", 0), link(3, "eth1", 0)];
        let samples = probe.samples(&links, &links);
        assert_eq!((&samples[0].duplex, &samples[1].duplex), (&Ok(Duplex::Full), &Ok(Duplex::Half)));
    }

    #[test]
    fn a_driver_is_asked_again_after_a_while_and_what_it_said_goes_with_the_interface() {
        let now_ns = Monotonic.now_ns();
        let fast = Settings { speed_bits_per_s: Ok(10_000_000_000), duplex: Ok(Duplex::Full) };
        let told = |at_ns| DriverSettings { at_ns, carrier_changes: 1, settings: fast.clone() };
        let mut probe = deaf(&[]);
        // An hour ahead: recent, however slow this machine is.
        probe.settings.insert(2, told(now_ns + 3_600_000_000_000));
        probe.settings.insert(3, told(now_ns.saturating_sub(ASKED_AGAIN_AFTER_NS)));
        let links = [link(2, "eth0", 0), link(3, "eth1", 0)];
        let samples = probe.samples(&links, &links);
        assert_eq!(samples[0].speed_bits_per_s, Ok(10_000_000_000));
        assert_eq!(samples[1].speed_bits_per_s, Err(Missing::because("nobody is asked")));
        probe.samples(&links, &[]);
        assert!(probe.settings.is_empty());
    }

    #[test]
    fn this_machine_has_a_loopback_that_counts_what_is_sent_over_it() {
        let mut probe = open(BTreeMap::new());
        probe.start();
        let receiver = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for _ in 0..10 {
            receiver.send_to(&[7; 1000], receiver.local_addr().unwrap()).unwrap();
        }
        let interval = probe.read();
        let interfaces = interval.interfaces.unwrap();
        let lo = interfaces.iter().find(|i| i.loopback).unwrap();
        let counts = lo.counts.clone().unwrap();
        // Other processes may use it too.
        assert!(counts.tx_packets >= 10 && counts.tx_bytes >= 10_280, "{counts:?}");
        assert!(interval.udp.unwrap().out_datagrams >= 10);
        assert!(interval.tcp.is_ok());
    }
}
