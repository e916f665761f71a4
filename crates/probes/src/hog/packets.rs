//! Packets that one CPU sends and another one receives by softirq: work that is no thread's.
//!
//! They go over the loopback interface of a network namespace that only the sending thread has. Receive packet steering
//! (RPS) hands each packet to the CPU of choice, which is interrupted for it and takes it in by a softirq.

use std::io;
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::thread;

use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use record::clock::{Clock as _, Monotonic};

use super::{Began, HogError, Truth, Work, burn_until, nanoseconds, on_cpu};

/// What to send, and where to.
#[derive(Debug, Clone, Copy)]
pub struct Packets {
    /// The CPU that receives.
    pub cpu: u32,
    /// The CPU that sends: another one.
    pub from_cpu: u32,
    /// Packets per second; 0: as many as can be sent.
    pub per_s: u64,
    /// Whether a thread spins on the receiving CPU meanwhile: [`super::seen_ns`] then tells what is left of that CPU.
    pub beside_spinner: bool,
}

/// The name of the thread that spins on the receiving CPU.
pub const SPINNER: &str = "hog-spinner";

/// Bursts per second: so that the interrupts take little time beside the softirqs.
const BURSTS_PER_S: u64 = 500;

/// Sends packets to that CPU.
///
/// # Errors
///
/// [`HogError`] where a CPU cannot be had, or no namespace with a loopback interface (it needs root).
pub fn packets(packets: Packets, work: &Work<'_>) -> Result<Truth, HogError> {
    let began = Began::now();
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

/// Finds out whether [`packets`] can work here.
///
/// # Errors
///
/// As there.
pub fn can_be_sent(cpu: u32) -> Result<(), HogError> {
    let attempt = || -> io::Result<()> { steered_loopback(cpu).map(drop) };
    thread::scope(|scope| scope.spawn(attempt).join().expect("it does not panic")).map_err(HogError::from)
}

fn send_until(until_ns: u64, packets: Packets, work: &Work<'_>) -> io::Result<()> {
    let sockets = steered_loopback(packets.cpu)?;
    let bytes = [7; 1_200];
    let per_burst = if packets.per_s == 0 { 1_000 } else { (packets.per_s / BURSTS_PER_S).max(1) };
    let every_ns = (per_burst * 1_000_000_000).checked_div(packets.per_s).unwrap_or(0);
    let mut due_ns = Monotonic.now_ns();
    while due_ns < until_ns && !work.stopped() {
        for _ in 0..per_burst {
            match sockets.sender.send(&bytes) {
                // The receiver takes nothing out of its queue: what does not fit is dropped when it has been received.
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

/// Moves this thread to a namespace with a loopback interface whose packets that CPU receives.
fn steered_loopback(cpu: u32) -> io::Result<Sockets> {
    unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS)?;
    let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
    mount(None::<&str>, "/", None::<&str>, private, None::<&str>)?;
    // /sys shows the interfaces of the namespace in which it was mounted.
    mount(Some("sysfs"), "/sys", Some("sysfs"), MsFlags::empty(), None::<&str>)?;
    std::fs::write("/sys/class/net/lo/queues/rx-0/rps_cpus", mask(cpu))?;
    let receiver = UdpSocket::bind(("0.0.0.0", 0))?;
    bring_up_loopback(&receiver)?;
    let sender = UdpSocket::bind(("127.0.0.1", 0))?;
    sender.connect(("127.0.0.1", receiver.local_addr()?.port()))?;
    Ok(Sockets { sender, _receiver: receiver })
}

/// One CPU as the kernel writes a mask: groups of 32, the highest first.
fn mask(cpu: u32) -> String {
    let mut groups = vec![format!("{:08x}", 1_u32 << (cpu % 32))];
    groups.resize((cpu / 32 + 1) as usize, "00000000".to_owned());
    groups.join(",")
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
