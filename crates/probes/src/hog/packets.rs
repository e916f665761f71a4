//! Packets that one CPU sends and another one receives by softirq: work that belongs to no thread.
//!
//! They go over the loopback interface of a network namespace that only the sending thread has. Receive
//! packet steering (RPS) hands each packet, or several that were sent together, to the chosen CPU: one
//! interrupt and a softirq.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::thread;

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::socket::{setsockopt, sockopt};
use record::clock::{Clock as _, Monotonic};

use super::{HogError, Stopwatch, Truth, Work, burn_until, nanoseconds, on_cpu};

/// Rate, CPUs and bursts of the packets.
#[derive(Debug, Clone, Copy)]
pub struct Packets {
    /// The CPU that receives.
    pub cpu: u32,
    /// The CPU that sends: must differ from `cpu`.
    pub from_cpu: u32,
    /// Packets per second; 0: as many as possible.
    pub per_s: u64,
    /// Packets that one system call hands over, 1 to [`TOGETHER_MAX`]. They arrive under one interrupt.
    pub together: u16,
    /// Whether a thread spins on the receiving CPU meanwhile: [`super::seen_ns`] then measures the rest of
    /// that CPU.
    pub beside_spinner: bool,
}

/// The name of the thread that spins on the receiving CPU.
pub const SPINNER: &str = "hog-spinner";

/// The largest [`Packets::together`]: 50 packets of 1,200 bytes fit in one UDP send (64 KiB).
pub const TOGETHER_MAX: u16 = 50;

const PACKET_BYTES: u16 = 1_200;
/// Length of the receiver's filter. At 8 bytes each they fit in `net.core.optmem_max`, which is 20,480 before
/// Linux 6.8.
const FILTER_INSTRUCTIONS: u16 = 2_000;
const BURSTS_PER_S: u64 = 500;
/// Bytes under way if as many packets as possible are sent: fewer than the backlog of a CPU holds
/// (`net.core.netdev_max_backlog`, 1,000 sends).
const SENT_BYTES_MAX: usize = 16 << 20;

/// Sends packets to that CPU.
///
/// # Errors
///
/// [`HogError`] if a CPU is unavailable, or a namespace with a loopback interface (needs root).
pub fn packets(packets: Packets, work: &Work<'_>) -> Result<Truth, HogError> {
    let began = Stopwatch::now();
    let until_ns = began.wall_ns + nanoseconds(work.length);
    let switches = thread::scope(|scope| -> Result<u64, HogError> {
        let spinner = packets.beside_spinner.then(|| {
            let spin = move || on_cpu(packets.cpu, || burn_until(until_ns, work));
            thread::Builder::new().name(SPINNER.to_owned()).spawn_scoped(scope, spin)
        });
        let spinner = spinner.transpose()?;
        let sender = scope.spawn(|| on_cpu(packets.from_cpu, || send_until(until_ns, packets, work)));
        let of_spinner = spinner.map_or(Ok(0), |thread| thread.join().expect("it does not panic"))?;
        Ok(of_spinner + sender.join().expect("it does not panic")?)
    })?;
    Ok(began.until_now(switches))
}

/// Checks whether [`packets`] can work here.
///
/// # Errors
///
/// Same as [`packets`].
pub fn can_be_sent(cpu: u32) -> Result<(), HogError> {
    let attempt = || -> io::Result<()> { steered_loopback(cpu).map(drop) };
    thread::scope(|scope| scope.spawn(attempt).join().expect("it does not panic")).map_err(HogError::from)
}

fn send_until(until_ns: u64, packets: Packets, work: &Work<'_>) -> io::Result<()> {
    let sockets = steered_loopback(packets.cpu)?;
    // The kernel cuts it into packets only when the receiving CPU takes it in (UDP segmentation offload).
    // Packets that are sent singly cause one interrupt each if the receiver is faster than the sender. Under
    // a hypervisor (AMD EPYC, Linux 6.18, 23 November 2026), such an interrupt took 2.8 us outside of every
    // handler, beside a softirq of 1.4 us.
    setsockopt(&sockets.sender, sockopt::UdpGsoSegment, &i32::from(PACKET_BYTES))?;
    assert!((1..=TOGETHER_MAX).contains(&packets.together), "checked by the caller");
    if packets.per_s == 0 {
        // The usual buffer holds three sends: the receiver would wait for the sender to wake up.
        setsockopt(&sockets.sender, sockopt::SndBufForce, &(SENT_BYTES_MAX / 2))?;
    }
    let together = u64::from(packets.together);
    let bytes = vec![7; usize::from(PACKET_BYTES) * usize::from(packets.together)];
    let per_burst = match packets {
        Packets { per_s: 0, .. } => 1_000,
        // In a burst, packets that are sent singly would still share interrupts.
        Packets { together: 1, .. } => 1,
        Packets { per_s, .. } => per_s / BURSTS_PER_S,
    };
    let sends = (per_burst / together).max(1);
    let every_ns = (sends * together * 1_000_000_000).checked_div(packets.per_s).unwrap_or(0);
    let mut due_ns = Monotonic.now_ns();
    while due_ns < until_ns && !work.stopped() {
        for _ in 0..sends {
            match sockets.sender.send(&bytes) {
                Ok(_) => {}
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(e) => return Err(e),
            }
        }
        due_ns = (due_ns + every_ns).max(Monotonic.now_ns());
        Monotonic.sleep_until_ns(due_ns);
    }
    Ok(())
}

struct Sockets {
    sender: UdpSocket,
    _receiver: UdpSocket,
}

/// Moves this thread to a namespace with a loopback interface; that CPU receives its packets.
fn steered_loopback(cpu: u32) -> io::Result<Sockets> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    // /sys shows the interfaces of the namespace in which it was mounted.
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>)?;
    std::fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", mask(cpu))?;
    let receiver = UdpSocket::bind(("0.0.0.0", 0))?;
    drop_after_work(&receiver)?;
    bring_up_loopback(&receiver)?;
    let sender = UdpSocket::bind(("127.0.0.1", 0))?;
    sender.connect(("127.0.0.1", receiver.local_addr()?.port()))?;
    Ok(Sockets { sender, _receiver: receiver })
}

/// Mask of one CPU as the kernel writes it: groups of 32, the highest first.
fn mask(cpu: u32) -> String {
    let mut groups = vec![format!("{:08x}", 1_u32 << (cpu % 32))];
    groups.resize((cpu / 32 + 1) as usize, "00000000".to_owned());
    groups.join(",")
}

/// Makes every packet cost about a microsecond of the softirq that delivers it, and drops it.
///
/// Otherwise the segments of one send cost 0.3 us each, and the interrupt itself would be a large part of the
/// time that it causes.
fn drop_after_work(receiver: &UdpSocket) -> io::Result<()> {
    let add_one = libc::sock_filter { code: 0x04, jt: 0, jf: 0, k: 1 };
    let return_nothing = libc::sock_filter { code: 0x06, jt: 0, jf: 0, k: 0 };
    let mut filter = [add_one; FILTER_INSTRUCTIONS as usize];
    filter[filter.len() - 1] = return_nothing;
    let program = libc::sock_fprog { len: FILTER_INSTRUCTIONS, filter: filter.as_mut_ptr() };
    let length = libc::socklen_t::try_from(size_of_val(&program)).expect("a small structure");
    // SAFETY: the program and its instructions live as long as the call; the kernel copies them.
    let result = unsafe {
        let program = (&raw const program).cast();
        libc::setsockopt(receiver.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program, length)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn bring_up_loopback(socket: &UdpSocket) -> io::Result<()> {
    // SAFETY: plain integers, bytes and a union of such: all zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP).expect("it is 1");
    // SAFETY: the request is whole and lives as long as the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_has_one_bit_in_groups_of_32() {
        assert_eq!(mask(0), "00000001");
        assert_eq!(mask(5), "00000020");
        assert_eq!(mask(33), "00000002,00000000");
        assert_eq!(mask(95), "80000000,00000000,00000000");
    }
}
