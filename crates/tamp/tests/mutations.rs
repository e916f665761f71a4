//! Files of all formats and of stock tools, damaged at random: never a wrong byte without a word.
//!
//! `TAMP_MUTATIONS` says how many (`scripts/prove-tamp` tries 20,000), `TAMP_MUTATION` a single one to look at. The counts are printed.
//! What must hold of each:
//!
//! - What the reader calls whole is the content, and salvage of it yields the same bytes without a loss.
//! - Of anything else salvage tells a loss. What it writes outside of the losses is content, byte for byte.
//! - Salvage yields at least the beginning that `zstd`, `lz4` or `gzip` yields of the same file. An older `zstd` may decode wrong content from
//!   a block that the linked libzstd refuses; salvage then yields at least all before that block. These cases are counted as `refused`.
//! - The file is still there, as it was.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the counts are what this test is for")]

use std::collections::BTreeMap;
use std::io::{Cursor, Read, Write};
use std::process::{Command, Stdio};
use tamp::{Format, Level, Loss, Lost, Options, ReadOptions, Reader, Writer};

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `limit`.
    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit.max(1) as u64).unwrap()
    }
}

/// Text, then what does not compress, then compressed files of all kinds, then text.
fn content() -> Vec<u8> {
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

fn packed(content: &[u8], format: Format, block_bytes: usize) -> Vec<u8> {
    let mut options = Options::of(format, Level::USUAL);
    options.threads = 1;
    options.block_bytes = if format == Format::Lz4 { 64 << 10 } else { block_bytes };
    options.content_bytes = Some(content.len() as u64);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// What `command` puts out for `input`, however it ends; `None`: it is not installed.
fn filter(command: &str, input: &[u8]) -> Option<Vec<u8>> {
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
struct Specimen {
    name: &'static str,
    file: Vec<u8>,
    /// The stock tool that reads it.
    stock: &'static str,
    /// Whether its checksums cover which blocks there are, and in which order.
    is_proven: bool,
}

fn specimens(content: &[u8]) -> Vec<Specimen> {
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
        ("lz4 -qc --no-frame-crc", "lz4 -dcq", false),
        ("lz4 -qcl", "lz4 -dcq", false),
        ("gzip -c", "gzip -dcq", true),
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

/// Damages `file` in one of several ways; yields how.
fn mutate(file: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let length = file.len();
    match random.below(8) {
        0 | 1 => {
            let at = random.below(length);
            file[at] ^= 1 << random.below(8);
            "a flipped bit"
        }
        2 => {
            for _ in 0..2 + random.below(5) {
                let at = random.below(length);
                file[at] ^= 1 << random.below(8);
            }
            "some flipped bits"
        }
        3 => {
            file.truncate(random.below(length));
            "a cut"
        }
        4 => {
            let at = random.below(length);
            let bytes: Vec<u8> = (0..=random.below(5000)).map(|_| random.next().to_le_bytes()[0]).collect();
            file.splice(at..at, bytes);
            "an insertion"
        }
        5 => {
            let pages = length.div_ceil(4096);
            let from = random.below(pages) * 4096;
            let to = (from + 4096 * (1 + random.below(3))).min(length);
            file[from..to].fill(0);
            "zeroed pages"
        }
        6 => {
            let bytes = (1 + random.below(length / 4)).min(length / 3);
            let first = random.below(length - 2 * bytes);
            let second = first + bytes + random.below(length - first - 2 * bytes);
            let (front, back) = file.split_at_mut(second);
            front[first..first + bytes].swap_with_slice(&mut back[..bytes]);
            "exchanged blocks"
        }
        _ => {
            file.truncate(1 + random.below(length));
            let at = random.below(file.len());
            file[at] ^= 1 << random.below(8);
            "a cut and a flipped bit"
        }
    }
}

struct Read1 {
    content: Vec<u8>,
    is_whole: bool,
    has_garbage: bool,
}

fn read(file: &[u8], threads: usize) -> Read1 {
    let mut content = Vec::new();
    let mut reader = Reader::new(file, threads);
    let is_whole = reader.read_to_end(&mut content).is_ok();
    let has_garbage = reader.trailing_garbage().is_some();
    Read1 { content, is_whole, has_garbage }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Whether all that stands outside of the losses is content.
fn is_content_outside(content: &[u8], output: &[u8], losses: &[Loss]) -> bool {
    let mut covered: Vec<(usize, usize)> = losses
        .iter()
        .map(|loss| {
            let from = usize::try_from(loss.content_at).unwrap();
            (from, from + usize::try_from(loss.content_bytes.unwrap_or(0)).unwrap())
        })
        .collect();
    covered.push((output.len(), output.len()));
    covered.sort_unstable();
    let mut at = 0;
    for (from, to) in covered {
        if from > at {
            let segment = &output[at..from.min(output.len())];
            let in_place = content.get(at..).is_some_and(|rest| rest.starts_with(segment));
            let key = &segment[..segment.len().min(24)];
            let mut places = content.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
            if !in_place && !places.any(|(place, _)| content[place..].starts_with(segment)) {
                return false;
            }
        }
        at = at.max(to);
    }
    true
}

#[derive(Default)]
struct Counts {
    tried: u32,
    unchanged: u32,
    told: u32,
    /// Wrong, and no checksum in the file could tell.
    undetectable: u32,
    better_than_stock: u32,
    /// The stock tool decodes a damaged block that the linked libzstd refuses.
    refused: u32,
}

/// How much the linked libzstd yields of `file` before it refuses a block, or stops for another reason.
fn linked_zstd(file: &[u8]) -> usize {
    let (mut context, mut room) = (zstd_safe::DCtx::create(), vec![0; 128 << 10]);
    let (mut input, mut made) = (zstd_safe::InBuffer::around(file), 0);
    loop {
        let before = input.pos();
        let mut output = zstd_safe::OutBuffer::around(&mut room[..]);
        let is_refused = context.decompress_stream(&mut output, &mut input).is_err();
        made += if is_refused { 0 } else { output.pos() };
        if is_refused || (input.pos() == before && output.pos() == 0) {
            return made;
        }
    }
}

fn check(specimen: &Specimen, content: &[u8], seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut random = Random(seed);
    let mut file = specimen.file.clone();
    let how = mutate(&mut file, &mut random);
    let fail = |what: &str| Err(format!("TAMP_MUTATION={seed}: {}, {how}: {what}", specimen.name));
    let one = read(&file, 1);
    if seed.is_multiple_of(4) {
        let three = read(&file, 3);
        if one.is_whole != three.is_whole {
            return fail("one thread and three disagree on whether it is whole");
        }
        if one.is_whole && one.content != three.content {
            return fail("one thread and three read differently");
        }
    }
    let mut output = Vec::new();
    let salvaged = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut output);
    let is_told = !matches!(&salvaged, Ok(losses) if losses.is_empty());
    counts.tried += 1;
    if one.is_whole && !one.has_garbage {
        if is_told {
            return fail(&format!("whole to the reader, not to salvage: {salvaged:?}"));
        }
        if output != one.content {
            return fail("salvage of what is whole differs");
        }
        if output == content {
            counts.unchanged += 1;
        } else if specimen.is_proven {
            return fail("wrong without a word");
        } else {
            counts.undetectable += 1;
        }
    } else if is_told {
        counts.told += 1;
    } else {
        return fail("not whole, and salvage tells no loss");
    }
    if let Ok(losses) = &salvaged {
        let is_exact = losses.iter().all(|loss| loss.what != Lost::Unproven) || !output.is_empty();
        if is_told && is_exact && specimen.is_proven && !is_content_outside(content, &output, losses) {
            return fail(&format!("wrong outside of the losses: {losses:?}"));
        }
    }
    let stock = filter(specimen.stock, &file).unwrap_or_default();
    let (ours, theirs) = (common(content, &output), common(content, &stock));
    if ours < theirs && specimen.stock == "zstd -dcq" && ours >= linked_zstd(&file) {
        counts.refused += 1;
    } else if ours < theirs {
        return fail(&format!(
            "{} of {} bytes, {}: {theirs}: {salvaged:?}",
            ours,
            content.len(),
            specimen.stock
        ));
    }
    let right = |output: &[u8]| content.iter().zip(output).filter(|(a, b)| a == b).count();
    counts.better_than_stock += u32::from(is_told && right(&output) > right(&stock) + 1000);
    if seed.is_multiple_of(16) {
        keeps_its_input(&file).or_else(|what| fail(&what))?;
    }
    Ok(())
}

fn keeps_its_input(file: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file.zst");
    std::fs::write(&path, file).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamp"));
    let output = command.args(["--salvage", "-q"]).arg(&path).output().unwrap();
    if std::fs::read(&path).is_ok_and(|found| found == file) {
        return Ok(());
    }
    Err(format!("the input is gone: {}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn a_damaged_file_is_never_wrong_without_a_word() {
    let content = content();
    let specimens = specimens(&content);
    for specimen in &specimens {
        let found = read(&specimen.file, 1);
        assert!(found.is_whole && found.content == content, "{}", specimen.name);
        let mut output = Vec::new();
        let losses = tamp::salvage(Cursor::new(&specimen.file), &ReadOptions::new(1), &mut output).unwrap();
        assert!(losses.is_empty() && output == content, "{}: {losses:?}", specimen.name);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TAMP_MUTATION") {
        Some(seed) => seed..seed + 1,
        None => 0..number("TAMP_MUTATIONS").unwrap_or(200),
    };
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in seeds {
        let specimen = &specimens[usize::try_from(seed).unwrap() % specimens.len()];
        let counts = counts.entry(specimen.name).or_default();
        failures.extend(check(specimen, &content, seed, counts).err());
    }
    println!(
        "file                                tried unchanged  told undetectable better-than-stock refused"
    );
    for (name, counts) in &counts {
        let Counts { tried, unchanged, told, undetectable, better_than_stock, refused } = counts;
        println!(
            "{name:34} {tried:>6} {unchanged:>9} {told:>5} {undetectable:>12} {better_than_stock:>17} {refused:>7}"
        );
    }
    let sum = |count: fn(&Counts) -> u32| counts.values().map(count).sum::<u32>();
    assert!(sum(|counts| counts.refused) <= 1 + sum(|counts| counts.tried) / 1000);
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}
