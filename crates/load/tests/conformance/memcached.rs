//! `memcached:`: a memcached that the test starts.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;

use crate::filled::Filled;
use crate::support::cache::Cache;

pub(crate) fn start() -> Option<Filled> {
    Some(Filled::start(Cache::memcached(64)?, "memcached", served))
}

fn served(port: u16) -> u64 {
    let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).unwrap());
    stream.get_mut().write_all(b"stats\r\n").unwrap();
    let (mut served, mut line) = (0, String::new());
    while line.trim_end() != "END" {
        line.clear();
        stream.read_line(&mut line).unwrap();
        for counter in ["STAT cmd_get ", "STAT cmd_set "] {
            served += line.strip_prefix(counter).map_or(0, |n| n.trim_end().parse().unwrap());
        }
    }
    served
}
