//! Files of all formats and of stock tools, to be damaged.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use tamp::{Format, Level, Options, Writer};

/// splitmix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// Text, then what does not compress, then compressed files of all kinds, then text.
pub(crate) fn content() -> Vec<u8> {
    let mut random = Random(1);
    let mut text = |lines: u32, mark: char| -> Vec<u8> {
        (0..lines).flat_map(|n| format!("{mark}{n:>6} {:x}\n", random.next() % 4096).into_bytes()).collect()
    };
    let (first, inner, last) = (text(12_000, 'a'), text(9000, 'i'), text(12_000, 'z'));
    let mut content = first;
    let mut random = Random(2);
    content.extend((0..60_000).map(|_| random.next().to_le_bytes()[0]));
    for format in [Format::Zst, Format::Lz4, Format::Bgzf] {
        content.extend(packed(&inner, format, 16 << 10));
    }
    content.extend(last);
    content
}

pub(crate) fn packed(content: &[u8], format: Format, block_bytes: usize) -> Vec<u8> {
    let mut options = Options::of(format, Level::USUAL);
    options.threads = 1;
    options.block_bytes = if format == Format::Lz4 { 64 << 10 } else { block_bytes };
    options.content_bytes = Some(content.len() as u64);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// What `command` puts out for `input`, however it ends; `None`: it is not installed.
pub(crate) fn filter(command: &str, input: &[u8]) -> Option<Vec<u8>> {
    let mut words = command.split(' ');
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input));
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        output
    });
    child.wait().unwrap();
    Some(output)
}

/// A file to damage.
pub(crate) struct Specimen {
    pub(crate) name: &'static str,
    pub(crate) file: Vec<u8>,
    /// The stock tool that reads it.
    pub(crate) stock: &'static str,
    /// Whether its checksums cover which blocks there are, and in which order.
    pub(crate) is_proven: bool,
}

pub(crate) fn specimens(content: &[u8]) -> Vec<Specimen> {
    let own = |format| packed(content, format, 48 << 10);
    let (zst, lz4, bgzf) = (own(Format::Zst), own(Format::Lz4), own(Format::Bgzf));
    let mut found = vec![
        Specimen { name: "tamp --zst", file: zst.clone(), stock: "zstd -dcq", is_proven: true },
        Specimen { name: "tamp --lz4", file: lz4, stock: "lz4 -dcq", is_proven: false },
        Specimen { name: "tamp --bgzf", file: bgzf.clone(), stock: "gzip -dcq", is_proven: false },
    ];
    for (name, stock, is_proven) in [
        ("zstd -qc", "zstd -dcq", true),
        ("zstd -qc --no-check", "zstd -dcq", false),
        ("zstd -qc -B65536 --single-thread", "zstd -dcq", true),
        ("pzstd -qc -p 2", "zstd -dcq", false),
        ("lz4 -qc", "lz4 -dcq", true),
        ("lz4 -qc -B4 -BX", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4 -BX", "lz4 -dcq", true),
        ("lz4 -qc -BD -B4 -9 --no-frame-crc", "lz4 -dcq", false),
        ("lz4 -qc --no-frame-crc", "lz4 -dcq", false),
        ("lz4 -qcl", "lz4 -dcq", false),
        ("gzip -c", "gzip -dcq", true),
        ("gzip -1c", "gzip -dcq", true),
        ("pigz -ci", "gzip -dcq", true),
        ("bgzip -c", "gzip -dcq", false),
        ("pigz -cz", "pigz -dcq", true),
    ] {
        match filter(name, content).filter(|file| !file.is_empty()) {
            Some(file) => found.push(Specimen { name, file, stock, is_proven }),
            None => println!("skipped: {name}: not installed"),
        }
    }
    let halves = content.split_at(content.len() / 2);
    let stock = |command, content: &[u8]| filter(command, content).unwrap_or_default();
    let rows = [
        (
            "tamp, then zstd",
            [packed(halves.0, Format::Zst, 16 << 10), stock("zstd -qc", halves.1)],
            "zstd -dcq",
        ),
        ("bgzip, then gzip", [stock("bgzip -c", halves.0), stock("gzip -c", halves.1)], "gzip -dcq"),
        (
            "tamp twice",
            [packed(halves.0, Format::Zst, 16 << 10), packed(halves.1, Format::Zst, 32 << 10)],
            "zstd -dcq",
        ),
    ];
    for (name, parts, stock) in rows {
        if parts.iter().all(|part| !part.is_empty()) {
            found.push(Specimen { name, file: parts.concat(), stock, is_proven: false });
        }
    }
    found
}

/// How many bytes are the same at the beginning of both.
pub(crate) fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// A block decodes to no more.
const ZSTD_BLOCK_BYTES: usize = 128 << 10;

/// How much the linked libzstd yields of `file` before the block that it refuses; `None`: it refuses none.
fn linked_zstd(file: &[u8]) -> Option<usize> {
    let (mut context, mut room) = (zstd_safe::DCtx::create(), vec![0; ZSTD_BLOCK_BYTES]);
    let (mut at, mut step, mut made) = (0, 1, 0);
    while at < file.len() {
        // No more than it asks for: one block, so that none of a call that fails was decoded right.
        let mut input = zstd_safe::InBuffer::around(&file[at..file.len().min(at + step)]);
        let mut output = zstd_safe::OutBuffer::around(&mut room[..]);
        let Ok(wanted) = context.decompress_stream(&mut output, &mut input) else { return Some(made) };
        (at, made, step) = (at + input.pos(), made + output.pos(), wanted.max(1));
    }
    None
}

/// Whether salvage may yield less than the stock `zstd` does: an older `zstd` may decode wrong content from a block
/// that the linked libzstd refuses; salvage then yields at least all before that block, and the older `zstd` goes wrong inside it.
pub(crate) fn is_refused(file: &[u8], ours: usize, theirs: usize, stock: &[u8]) -> bool {
    // The next byte of the stock tool is wrong: `theirs` are right, and it has more.
    linked_zstd(file).is_some_and(|made| {
        (made..made + ZSTD_BLOCK_BYTES).contains(&theirs) && ours >= made && theirs < stock.len()
    })
}
