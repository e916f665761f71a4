//! A server that records when each request arrived, for `scripts/bench-load`: a generator's offered load by
//! an independent clock.
//!
//! `arrivals serve FILE [SERVICE_US]` listens on a free port of the loopback and prints it; speaks enough of
//! HTTP/1.1 and of memcached's text protocol; and when its standard input ends, writes the stamps of all
//! requests to `FILE`, nanoseconds of `CLOCK_REALTIME`, one for each line. The stamps are the kernel's, of
//! the moment at which a request reached the server's socket: they exclude this program's wait for a CPU.
//! With `SERVICE_US` it serves one request after another and takes that long for each, from its stamp or the
//! end of the previous one: its capacity is known, and exact.
//!
//! `arrivals judge FILE RATE` prints the number of requests; their delay against an even stream of `RATE`
//! through the earliest of them, at p50, p99, p99.9 and at most, in microseconds; and for the gaps between
//! them Anderson and Darling's A^2 against the exponential distribution, with the mean estimated. Below 1.321
//! (Stephens, 1974, as modified for that) at 5 % they are Poisson arrivals.
#![expect(clippy::print_stdout, reason = "what it prints is what the script reads")]

use std::collections::VecDeque;
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::libc;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timer::{Expiration, TimerSetTimeFlags};
use nix::sys::timerfd::{ClockId, TimerFd, TimerFlags};
use socket2::{MaybeUninitSlice, MsgHdrMut, Socket};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", file] => serve(file, 0),
        ["serve", file, service_us] => serve(file, service_us.parse::<u64>()? * 1_000),
        ["judge", file, rate] => judge(file, rate.parse()?),
        _ => Err("usage: arrivals serve FILE [SERVICE_US] | arrivals judge FILE RATE".into()),
    }
}

/// A connection, and its bytes that are not a whole request yet.
struct Client {
    socket: Socket,
    said: Vec<u8>,
}

/// Tokens of the listener and the timer; clients are numbered from 0.
const LISTENER: u64 = u64::MAX;
const TIMER: u64 = u64::MAX - 1;

fn serve(file: &str, service_ns: u64) -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    // Accepted sockets inherit the option.
    let listener = Socket::from(listener);
    stamp_what_comes(&listener)?;
    println!("{}", listener.local_addr()?.as_socket().expect("it is one").port());
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    std::thread::spawn(move || {
        // The input's bytes do not matter: the run is over when it ends.
        let _ = io::stdin().read_to_end(&mut Vec::new());
        until.store(true, Ordering::Relaxed);
    });
    let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
    let timer = TimerFd::new(ClockId::CLOCK_REALTIME, TimerFlags::TFD_NONBLOCK)?;
    epoll.add(&listener, EpollEvent::new(EpollFlags::EPOLLIN, LISTENER))?;
    epoll.add(timer.as_fd(), EpollEvent::new(EpollFlags::EPOLLIN, TIMER))?;
    let (mut clients, mut stamps, mut answers) = (Vec::<Option<Client>>::new(), Vec::new(), VecDeque::new());
    let (mut room, mut ready, mut free_ns) = (vec![0; 64 * 1024], [EpollEvent::empty(); 64], 0);
    while !is_over.load(Ordering::Relaxed) {
        let count = match epoll.wait(&mut ready, EpollTimeout::from(100u8)) {
            Err(Errno::EINTR) => 0,
            waited => waited?,
        };
        for event in &ready[..count] {
            match event.data() {
                TIMER => drop(timer.wait()),
                LISTENER => clients.push(Some(accept(&listener, &epoll, clients.len() as u64)?)),
                number => {
                    let number = usize::try_from(number)?;
                    let Some(client) = &mut clients[number] else { continue };
                    let Some((bytes, stamp_ns)) = receive(&client.socket, &mut room) else {
                        // A closed socket is not watched any more.
                        clients[number] = None;
                        continue;
                    };
                    client.said.extend_from_slice(&room[..bytes]);
                    while let Some((bytes, answer, counts)) = request(&client.said) {
                        client.said.drain(..bytes);
                        if counts {
                            stamps.push(stamp_ns);
                            free_ns = stamp_ns.max(free_ns) + service_ns;
                        }
                        answers.push_back((free_ns, number, answer));
                    }
                }
            }
        }
        while let Some((at_ns, number, answer)) = answers.front() {
            if *at_ns > now_ns()? {
                let at =
                    Expiration::OneShot(TimeSpec::from_duration(std::time::Duration::from_nanos(*at_ns)));
                timer.set(at, TimerSetTimeFlags::TFD_TIMER_ABSTIME)?;
                break;
            }
            if let Some(client) = &clients[*number] {
                // The client may have gone.
                let _ = (&client.socket).write_all(answer);
            }
            answers.pop_front();
        }
    }
    let mut text = String::new();
    for stamp in stamps {
        writeln!(text, "{stamp}")?;
    }
    Ok(std::fs::write(file, text)?)
}

/// Accepts a client, and watches it under its number.
fn accept(listener: &Socket, epoll: &Epoll, number: u64) -> Result<Client, Box<dyn Error>> {
    let (socket, _) = listener.accept()?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    epoll.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, number))?;
    Ok(Client { socket, said: Vec::new() })
}

/// Makes the kernel stamp the arrival of a socket's data.
fn stamp_what_comes(socket: &Socket) -> io::Result<()> {
    let yes: libc::c_int = 1;
    // SAFETY: the option's value is an int, and lives through the call.
    let set = unsafe {
        let bytes = libc::socklen_t::try_from(size_of_val(&yes)).expect("four");
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_TIMESTAMPNS,
            (&raw const yes).cast(),
            bytes,
        )
    };
    Ok(Errno::result(set).map(drop)?)
}

/// Reads once: number of bytes, and arrival of the last of them; `None` at the connection's end.
fn receive(socket: &Socket, room: &mut [u8]) -> Option<(usize, u64)> {
    // SAFETY: initialized memory may be treated as uninitialized; only bytes are written to it.
    let room = unsafe { &mut *(std::ptr::from_mut(room) as *mut [MaybeUninit<u8>]) };
    let (mut parts, mut control) = ([MaybeUninitSlice::new(room)], [MaybeUninit::new(0); 128]);
    let mut message = MsgHdrMut::new().with_buffers(&mut parts).with_control(&mut control);
    let bytes = socket.recvmsg(&mut message, 0).ok().filter(|bytes| *bytes > 0)?;
    // SAFETY: it was filled with zeros.
    let control = control.map(|byte| unsafe { byte.assume_init() });
    // A header of 16 bytes, its length, level and kind; then seconds and nanoseconds. It is the only one.
    let word = |at: usize| i64::from_ne_bytes(control[at..at + 8].try_into().expect("eight bytes"));
    let is_stamp =
        control[8..16] == [libc::SOL_SOCKET.to_ne_bytes(), libc::SCM_TIMESTAMPNS.to_ne_bytes()].concat()[..];
    assert!(is_stamp, "the kernel stamps what comes");
    Some((bytes, u64::try_from(word(16) * 1_000_000_000 + word(24)).expect("after 1970")))
}

fn now_ns() -> nix::Result<u64> {
    let now = nix::time::clock_gettime(nix::time::ClockId::CLOCK_REALTIME)?;
    Ok(u64::try_from(now.tv_sec() * 1_000_000_000 + now.tv_nsec()).expect("after 1970"))
}

/// The first request in `said`: its bytes, its answer, and whether it is an event.
fn request(said: &[u8]) -> Option<(usize, &'static [u8], bool)> {
    if said.starts_with(b"GET ") || said.starts_with(b"HEAD ") {
        let bytes = said.windows(4).position(|w| w == b"\r\n\r\n")? + 4;
        return Some(if said.starts_with(b"GET ") {
            (bytes, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", true)
        } else {
            (bytes, b"HTTP/1.1 200 OK\r\nServer: arrivals\r\nContent-Length: 2\r\n\r\n", false)
        });
    }
    let line = said.iter().position(|b| *b == b'\n')? + 1;
    let words = String::from_utf8_lossy(&said[..line]);
    let mut words = words.split_whitespace();
    match words.next() {
        Some("get") => Some((line, b"END\r\n", true)),
        Some("set") => {
            let bytes = line + words.nth(3)?.parse::<usize>().ok()? + 2;
            (said.len() >= bytes).then_some((bytes, b"STORED\r\n", true))
        }
        Some("stats") => Some((line, b"STAT version 0\r\nEND\r\n", false)),
        _ => Some((line, b"VERSION 0\r\n", false)),
    }
}

fn judge(file: &str, rate: f64) -> Result<(), Box<dyn Error>> {
    let text = std::fs::read_to_string(file)?;
    let mut stamps = text.lines().map(str::parse).collect::<Result<Vec<u64>, _>>()?;
    stamps.sort_unstable();
    let [first, .., last] = stamps[..] else { return Err("fewer than two requests came".into()) };
    // The earliest event against the grid was at best on time: all others are late against it.
    let even_ns = |number: usize| number as f64 * 1e9 / rate;
    let off: Vec<f64> = stamps.iter().enumerate().map(|(k, ns)| (ns - first) as f64 - even_ns(k)).collect();
    let earliest = off.iter().copied().fold(f64::INFINITY, f64::min);
    let mut late_us: Vec<f64> = off.iter().map(|ns| (ns - earliest) / 1e3).collect();
    late_us.sort_by(f64::total_cmp);
    let at = |permille: usize| late_us[(late_us.len() - 1) * permille / 1_000];
    let mut gaps: Vec<f64> = stamps.windows(2).map(|w| (w[1] - w[0]) as f64).collect();
    gaps.sort_by(f64::total_cmp);
    println!(
        "{} {:.1} {:.1} {:.1} {:.1} {:.3} {:.3}",
        stamps.len(),
        at(500),
        at(990),
        at(999),
        at(1_000),
        (stamps.len() - 1) as f64 * 1e9 / (last - first) as f64,
        anderson_darling(&gaps)
    );
    Ok(())
}

/// Computes A^2 of sorted gaps against the exponential distribution of their mean.
fn anderson_darling(gaps: &[f64]) -> f64 {
    let n = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / n;
    // ln F(x) and ln (1 - F(x)); a gap of nothing would be infinitely unlikely.
    let logs: Vec<(f64, f64)> =
        gaps.iter().map(|gap| gap.max(1.0) / mean).map(|x| ((-(-x).exp_m1()).ln(), -x)).collect();
    let terms = logs.iter().zip(logs.iter().rev()).enumerate();
    let sum: f64 = terms.map(|(i, ((below, _), (_, above)))| (2 * i + 1) as f64 * (below + above)).sum();
    (-n - sum / n) * (1.0 + 0.6 / n)
}
