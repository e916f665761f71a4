//! `redis:`: a Redis that the test starts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::filled::Filled;
use crate::support::cache::Cache;

pub(crate) fn start() -> Option<Filled> {
    Some(Filled::start(Cache::redis(&[])?, "redis", served))
}

fn served(port: u16) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    stream.get_mut().write_all(b"INFO commandstats\r\nPING\r\n").unwrap();
    let (mut served, mut line) = (0, String::new());
    while line.trim_end() != "+PONG" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        for counter in ["cmdstat_get:calls=", "cmdstat_set:calls="] {
            let calls = line.strip_prefix(counter).and_then(|rest| rest.split(',').next());
            served += calls.map_or(0, |n| n.parse().unwrap());
        }
    }
    served
}
