//! Files that the formats allow and stock tools rarely write: empty blocks, odd headers, skippable frames,
//! any sequence of these.
//!
//! Each is built together with its content. Every reader must return the content, and salvage must report no
//! loss.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]

#[expect(dead_code, reason = "other tests use the rest")]
mod specimens;

use specimens::{Random, decompressed_file};
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use tamp::{Meter, ReadOptions, Reader, SeekReader};

/// A file and its content.
#[derive(Default)]
struct File {
    packed: Vec<u8>,
    content: Vec<u8>,
}

impl File {
    fn add(&mut self, packed: &[u8], content: &[u8]) {
        self.packed.extend(packed);
        self.content.extend(content);
    }
}

fn any_of<T: Clone>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len())].clone()
}

fn chance(random: &mut Random) -> bool {
    random.below(2) == 0
}

fn noise(random: &mut Random, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|_| random.next().to_le_bytes()[3]).collect()
}

fn skippable(random: &mut Random) -> Vec<u8> {
    let bytes = any_of(random, &[0, 1, 20, 5000]);
    let kind = 0x50 + u8::try_from(random.below(16)).unwrap();
    [&[kind, 0x2a, 0x4d, 0x18][..], &u32::try_from(bytes).unwrap().to_le_bytes(), &noise(random, bytes)]
        .concat()
}

/// Builds a Zstandard frame of stored and repeated blocks, perhaps empty ones.
fn zst(random: &mut Random) -> File {
    let (mut blocks, mut content) = (Vec::<u8>::new(), Vec::new());
    let count = 1 + random.below(4);
    for number in 1..=count {
        let (bytes, repeats) = (any_of(random, &[0_usize, 1, 100, 5000, 128 << 10]), chance(random));
        let header = bytes << 3 | usize::from(repeats) << 1 | usize::from(number == count);
        blocks.extend(&header.to_le_bytes()[..3]);
        let block = if repeats { vec![b'r'; bytes] } else { noise(random, bytes) };
        blocks.extend(if repeats { b"r" } else { &block[..] });
        content.extend(block);
    }
    // The width of the content's size: absent, or enough for it.
    let width = any_of(random, &[0, 2, 3_u8]);
    // A window of 128 KiB up to 2 GiB.
    let window = (any_of(random, &[17, 20, 27, 28, 31_u8]) - 10) << 3;
    let mut packed = vec![0x28, 0xb5, 0x2f, 0xfd, width << 6, window];
    match width {
        2 => packed.extend(u32::try_from(content.len()).unwrap().to_le_bytes()),
        3 => packed.extend((content.len() as u64).to_le_bytes()),
        _ => {}
    }
    packed.extend(blocks);
    File { packed, content }
}

/// Builds an LZ4 frame of stored blocks, perhaps empty ones.
fn lz4(random: &mut Random) -> File {
    let [checks_blocks, checks_content, states_bytes, is_independent] = [(); 4].map(|()| chance(random));
    let sum = |bytes: &[u8]| twox_hash::XxHash32::oneshot(0, bytes).to_le_bytes();
    let (mut blocks, mut content) = (Vec::new(), Vec::new());
    for _ in 0..random.below(4) {
        let bytes = any_of(random, &[0, 1, 100, 64 << 10]);
        let block = noise(random, bytes);
        blocks.extend((1 << 31 | u32::try_from(block.len()).unwrap()).to_le_bytes());
        blocks.extend(&block);
        blocks.extend(sum(&block).iter().filter(|_| checks_blocks));
        content.extend(block);
    }
    let flag = |is_set, bit: u32| u8::from(is_set) << bit;
    let flags = 0x40
        | flag(is_independent, 5)
        | flag(checks_blocks, 4)
        | flag(states_bytes, 3)
        | flag(checks_content, 2);
    let mut descriptor = vec![flags, 4 << 4];
    descriptor.extend((content.len() as u64).to_le_bytes().iter().filter(|_| states_bytes));
    let sum_of_all = sum(&content);
    let end = if checks_content { &sum_of_all[..] } else { &[] };
    let packed =
        [&[4, 0x22, 0x4d, 0x18][..], &descriptor, &sum(&descriptor)[1..2], &blocks, &[0; 4], end].concat();
    File { packed, content }
}

/// Builds a frame like `lz4 -l`: its last block may be short.
fn lz4_legacy(random: &mut Random) -> File {
    let bytes = 15 + random.below(5000);
    let content = noise(random, bytes);
    let more = content.len() - 15;
    let mut block = vec![0xf0];
    block.extend(vec![255; more / 255]);
    block.push(u8::try_from(more % 255).unwrap());
    block.extend(&content);
    let packed =
        [&[2, 0x21, 0x4c, 0x18][..], &u32::try_from(block.len()).unwrap().to_le_bytes(), &block].concat();
    File { packed, content }
}

/// Builds a gzip member with any header, perhaps with parts that end in a flush.
fn gzip(random: &mut Random) -> File {
    let flags = any_of(random, &[0, 4, 8, 16, 2, 4 | 8 | 16 | 2_u8]);
    let mut packed = vec![0x1f, 0x8b, 8, flags, 0, 0, 0, 0, 0, 3];
    if flags & 4 != 0 {
        // The last one looks like the length of a BGZF block.
        let length = any_of(random, &[0, 27, 40, 100, 65_535_u16]).to_le_bytes();
        let extra = any_of(
            random,
            &[vec![], vec![b'A', b'B', 1, 0, 9], vec![b'B', b'C', 2, 0, length[0], length[1]]],
        );
        packed.extend(u16::try_from(extra.len()).unwrap().to_le_bytes());
        packed.extend(extra);
    }
    for _ in 0..(flags >> 3 & 1) + (flags >> 4 & 1) {
        packed.extend(vec![b'n'; any_of(random, &[0_usize, 5, 80_000])]);
        packed.push(0);
    }
    packed.extend(vec![0; usize::from(flags & 2)]);
    // Behind an empty member, the following bytes may look like a part of it.
    let least = if flags & 4 == 0 { 0 } else { 1000 };
    let bytes = any_of(random, &[0, 1, 1000, 200_000]).max(least);
    let content = if chance(random) { noise(random, bytes) } else { vec![b'a'; bytes] };
    let mut deflate = flate2::Compress::new(flate2::Compression::fast(), false);
    let half = content.len() / 2;
    let flush = if chance(random) { flate2::FlushCompress::Full } else { flate2::FlushCompress::None };
    for (part, flush) in [(&content[..half], flush), (&content[half..], flate2::FlushCompress::Finish)] {
        packed.reserve(2 * part.len() + 1000);
        deflate.compress_vec(part, &mut packed, flush).unwrap();
    }
    packed.extend(crc32fast::hash(&content).to_le_bytes());
    packed.extend(u32::try_from(content.len()).unwrap().to_le_bytes());
    File { packed, content }
}

fn tamp(random: &mut Random, format: tamp::Format) -> File {
    let bytes = any_of(random, &[0, 1, 70_000]);
    let content = noise(random, bytes);
    let mut options = tamp::Options::of(format, tamp::Level::USUAL);
    (options.threads, options.block_bytes) = (1, 64 << 10);
    let mut writer = tamp::Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(&content).unwrap();
    File { packed: writer.finish().unwrap(), content }
}

/// Builds a sequence of parts that may occur in one file.
fn row(random: &mut Random) -> File {
    let (mut row, is_gzip) = (File::default(), random.below(4) == 0);
    for number in 0..=random.below(4) {
        let part = match random.below(6) {
            0 | 1 if is_gzip => tamp(random, tamp::Format::Bgzf),
            // Padding, but not at the beginning.
            2 if is_gzip && number > 0 => {
                File { packed: vec![0; 1 + random.below(600)], content: Vec::new() }
            }
            _ if is_gzip => gzip(random),
            0 | 1 => zst(random),
            2 => lz4(random),
            3 => lz4_legacy(random),
            4 => File { packed: skippable(random), content: Vec::new() },
            _ => {
                let format = any_of(random, &[tamp::Format::Zst, tamp::Format::Lz4]);
                tamp(random, format)
            }
        };
        row.add(&part.packed, &part.content);
    }
    row
}

fn check(file: &File) -> Result<(), String> {
    let options = ReadOptions::new(1);
    for threads in [1, 3] {
        let mut found = Vec::new();
        let read = Reader::new(&file.packed[..], threads).read_to_end(&mut found);
        read.map_err(|error| format!("{threads} threads: {error}"))?;
        if found != file.content {
            return Err(format!("{threads} threads read {} bytes", found.len()));
        }
    }
    let mut salvaged = Vec::new();
    let losses = tamp::salvage(Cursor::new(&file.packed), &options, &mut salvaged);
    let losses = losses.map_err(|error| format!("salvage: {error}"))?;
    if !losses.is_empty() || salvaged != file.content {
        return Err(format!("salvage: {} bytes, {losses:?}", salvaged.len()));
    }
    let listed = tamp::list(Cursor::new(&file.packed), &options).map_err(|error| format!("list: {error}"))?;
    if listed.content_bytes != file.content.len() as u64 || listed.unfinished.is_some() {
        return Err(format!("{listed:?}"));
    }
    let input = tempfile::tempfile().unwrap();
    input.write_all_at(&file.packed, 0).unwrap();
    if decompressed_file(&input, &options).unwrap().is_some_and(|found| found != file.content) {
        return Err("decompress_file yields something else".into());
    }
    let Ok(mut reader) = SeekReader::new(Cursor::new(&file.packed)) else { return Ok(()) };
    let (at, mut found) = (file.content.len() / 3, Vec::new());
    reader.seek(SeekFrom::Start(at as u64)).unwrap();
    reader.read_to_end(&mut found).map_err(|error| format!("random access: {error}"))?;
    if found == file.content[at..] { Ok(()) } else { Err("random access yields something else".into()) }
}

#[test]
fn what_the_formats_allow_is_read_and_salvaged_without_a_loss() {
    let first: u64 = std::env::var("TAMP_ROW").map_or(0, |text| text.parse().unwrap());
    let mut failures = Vec::new();
    for seed in first..first + 400 {
        let file = row(&mut Random(seed));
        // A file without frames is empty.
        if !file.packed.is_empty()
            && let Err(what) = check(&file)
        {
            failures.push(format!("TAMP_ROW={seed}, {} bytes: {what}", file.packed.len()));
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn lz4_behind_skippable_frames_is_lz4() {
    let file = [skippable(&mut Random(1)), tamp(&mut Random(5), tamp::Format::Lz4).packed].concat();
    let listed = tamp::list(Cursor::new(&file), &ReadOptions::new(1)).unwrap();
    assert_eq!((listed.container, listed.format), ("lz4", tamp::Format::Lz4));
}

#[test]
fn a_large_frame_needs_no_more_memory_than_the_content_that_it_states() {
    // 17 MiB of one byte, and a window of 1 GiB.
    let blocks = 136_u32;
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0xc0, 20 << 3];
    file.extend((u64::from(blocks) << 17).to_le_bytes());
    for number in 1..=blocks {
        file.extend(&(1_u32 << 20 | 2 | u32::from(number == blocks)).to_le_bytes()[..3]);
        file.push(b'a');
    }
    let bytes = std::io::copy(&mut Reader::new(&file[..], 1), &mut std::io::sink()).unwrap();
    assert_eq!(bytes, u64::from(blocks) << 17);
    let (meter, mut out) = (Meter::new(), Vec::new());
    tamp::decompress_frame(&mut &file[..], &mut out, b"", 128 << 20, &meter, &mut || {}).unwrap();
    assert_eq!(out.len() as u64, bytes);
}
