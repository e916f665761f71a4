//! Time to read 64 KiB at a random offset: `tamp_seek FILE`, a compressed file of more than 64 KiB.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::time::Duration;

const BYTES: usize = 64 << 10;
const PLACES: u64 = 2000;

fn main() -> io::Result<()> {
    let path = std::env::args().nth(1).ok_or_else(|| io::Error::other("usage: tamp_seek FILE"))?;
    let begun = now();
    let mut reader = tamp::SeekReader::new(File::open(path)?)?;
    let opened = begun.elapsed();
    let mut took = Vec::new();
    let (mut at, mut buffer) = (0_u64, vec![0; BYTES]);
    for _ in 0..PLACES {
        // Adding a large odd step visits all parts of the file in scattered order.
        at = (at + 0x9E37_79B9_7F4A_7C15 % reader.content_bytes()) % (reader.content_bytes() - BYTES as u64);
        let begun = now();
        reader.seek(SeekFrom::Start(at))?;
        reader.read_exact(&mut buffer)?;
        took.push(begun.elapsed());
    }
    took.sort();
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    let (median, p99) = (took[took.len() / 2], took[took.len() * 99 / 100]);
    writeln!(
        io::stdout(),
        "- in one process: opening {:.2} ms, then {PLACES} reads of {BYTES} bytes: median {:.3} ms, 99 % within {:.3} ms",
        ms(opened),
        ms(median),
        ms(p99)
    )
}

#[expect(clippy::disallowed_methods, reason = "an example that measures")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}
