use std::os::unix::net::UnixStream;
use std::thread;

use super::room::UNNEEDED_MAX;
use super::*;
use crate::net::READ_BYTES;
use crate::net::held::{self, FREE_BYTES};

/// Both ends; ours once as a socket of this machine, once as any other.
fn pairs() -> [(UnixStream, Wire); 2] {
    [true, false].map(|is_local| {
        let (theirs, ours) = UnixStream::pair().unwrap();
        let mut wire = Wire::new(OwnedFd::from(ours).into());
        wire.line.is_local = is_local;
        (theirs, wire)
    })
}

fn late(timeout: Duration) -> Failure {
    Failure::new(FailureClass::Connection, format!("too late: {timeout:?}"))
}

#[test]
fn messages_of_any_size_arrive_whole_and_large_rooms_are_given_back() {
    for (mut theirs, mut wire) in pairs() {
        let sizes = [1, READ_BYTES - 1, READ_BYTES, 3, 5 * READ_BYTES + 7, 3 * FREE_BYTES, 2];
        let sent = thread::spawn(move || {
            for (n, size) in (1u8..).zip(sizes) {
                theirs.write_all(&vec![n; size]).unwrap();
            }
        });
        let mut longest = 0;
        for (n, size) in (1u8..).zip(sizes) {
            let message = |input: &[u8], _: bool| match input.get(..size) {
                Some(found) => (size, Some(found.iter().all(|b| *b == n))),
                None => (0, None),
            };
            assert!(wire.hear(message).unwrap());
            longest = longest.max(size);
            let room = wire.room.bytes.len();
            assert!(room <= longest + FREE_BYTES + READ_BYTES, "{room} for {longest}");
        }
        sent.join().unwrap();
        let failure = wire.hear(|_, _| (0, None::<()>)).unwrap_err();
        assert_eq!(failure, closed());
    }
}

#[test]
fn a_large_room_stays_for_the_next_long_message_and_is_given_back_after_short_ones() {
    let _one = held::ONE_TEST.lock();
    for (theirs, mut wire) in pairs() {
        // Each message is sent when the one before was read.
        let mut hear = |size: usize| {
            let mut other = theirs.try_clone().unwrap();
            let sends = thread::spawn(move || other.write_all(&vec![1; size]).unwrap());
            let message =
                |input: &[u8], _: bool| (input.len() / size * size, (input.len() >= size).then_some(()));
            wire.hear(message).unwrap();
            sends.join().unwrap();
            wire.room.bytes.len()
        };
        let large = hear(3 * FREE_BYTES);
        assert!(large >= 3 * FREE_BYTES);
        for _ in 0..3 {
            for _ in 1..UNNEEDED_MAX {
                assert_eq!(hear(7), large);
            }
            assert_eq!(hear(3 * FREE_BYTES), large);
        }
        let rooms: Vec<usize> = (0..=UNNEEDED_MAX).map(|_| hear(7)).collect();
        assert!(rooms[usize::from(UNNEEDED_MAX)] <= FREE_BYTES, "{rooms:?}");
        theirs.shutdown(std::net::Shutdown::Both).unwrap();
    }
}

#[test]
fn a_server_that_says_something_again_and_again_has_no_more_time_than_one_that_says_nothing() {
    for (mut theirs, mut wire) in pairs() {
        // Until the other side closes; each message arrives well within the limit.
        let talks = thread::spawn(move || while theirs.write_all(b"N").is_ok() {});
        let timeout = Duration::from_millis(20);
        let hear = |wire: &mut Wire| wire.hear(|input, _| (input.len(), None::<()>));
        let failure = within(&mut wire, timeout, late, hear).unwrap_err();
        assert_eq!(failure, late(timeout));
        assert!(wire.line.deadline.is_none());
        drop(wire);
        talks.join().unwrap();
    }
}

#[test]
fn a_server_that_reads_nothing_is_not_waited_for_either() {
    for (_theirs, mut wire) in pairs() {
        let timeout = Duration::from_millis(5);
        let send = |wire: &mut Wire| wire.send(&vec![0; 64 << 20]);
        assert_eq!(within(&mut wire, timeout, late, send).unwrap_err(), late(timeout));
    }
}

#[test]
fn an_answer_may_take_as_long_as_it_takes_after_one_that_had_a_limit() {
    let echo = |wire: &mut Wire| {
        wire.send(b"x")?;
        wire.hear(|input, _| (input.len(), Some(input.len())))
    };
    for (theirs, mut wire) in pairs() {
        for timeout in [Some(Duration::from_mins(1)), None] {
            wire.line.set(Some(Duration::from_millis(2))).unwrap();
            // It sends nothing before our first call on the socket has returned too early, and the limit
            // was removed.
            let (mut slow, watched) = (theirs.try_clone().unwrap(), wire.line.socket.try_clone().unwrap());
            let is_local = wire.line.is_local;
            let says = thread::spawn(move || {
                while !is_local && watched.read_timeout().unwrap().is_some_and(|t| t.as_millis() < 1_000) {
                    thread::yield_now();
                }
                slow.write_all(b"y").unwrap();
            });
            let heard = match timeout {
                Some(timeout) => within(&mut wire, timeout, late, echo),
                None => echo(&mut wire),
            };
            assert_eq!(heard, Ok(1));
            says.join().unwrap();
            wire.settle().unwrap();
            assert_eq!(wire.line.socket.read_timeout().unwrap(), None);
        }
    }
}

#[test]
fn exchanges_that_may_take_equally_long_set_the_sockets_limit_once() {
    for (mut theirs, mut wire) in pairs() {
        let echoes = thread::spawn(move || {
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        });
        let mut limits = Vec::new();
        for _ in 0..1_000 {
            let echo = |wire: &mut Wire| {
                wire.send(b"x")?;
                wire.hear(|input, _| (input.len(), Some(())))
            };
            within(&mut wire, Duration::from_hours(1), late, echo).unwrap();
            limits.push(wire.line.of_socket);
        }
        limits.dedup();
        // An overrun of 3.6 s in an hour is tolerated.
        assert_eq!(limits.len(), 1, "{limits:?}");
        drop(wire);
        echoes.join().unwrap();
    }
}
