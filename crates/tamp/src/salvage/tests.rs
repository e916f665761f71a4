use super::*;
use crate::format::lz4::{self, Lz4};
use crate::format::{Container, Setting};
use crate::{Format, Level, Options, Writer};
use std::io::Cursor;

const BLOCK_BYTES: usize = 64 << 10;

/// Builds a frame like `lz4` by default: with only a content checksum. The blocks are stored.
fn lz4_frame(content: &[u8], content_bytes: Option<u64>) -> Vec<u8> {
    let mut descriptor = vec![0b0110_0100 | if content_bytes.is_some() { 8 } else { 0 }, 4 << 4];
    descriptor.extend(content_bytes.into_iter().flat_map(u64::to_le_bytes));
    let check = twox_hash::XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
    let mut file = [&lz4::MAGIC.to_le_bytes()[..], &descriptor, &[check]].concat();
    for block in content.chunks(BLOCK_BYTES) {
        file.extend((1 << 31 | u32::try_from(block.len()).unwrap()).to_le_bytes());
        file.extend(block);
    }
    file.extend(lz4::END_MARK);
    file.extend(twox_hash::XxHash32::oneshot(0, content).to_le_bytes());
    file
}

fn content() -> Vec<u8> {
    (0..30_000_u32).flat_map(u32::to_be_bytes).collect()
}

fn check_salvages(file: &[u8], expected: &[u8], losses: &[Loss]) {
    let mut found = Vec::new();
    assert_eq!(salvage(Cursor::new(file), &ReadOptions::new(1), &mut found).unwrap(), losses);
    assert!(found == expected, "{} bytes", found.len());
}

#[test]
fn content_whose_only_checksum_is_missed_is_written_and_in_doubt() {
    let good = lz4_frame(&content(), None);
    let (mut bad, mut wrong) = (good.clone(), content());
    bad[5000] ^= 1;
    wrong[5000 - 11] ^= 1;
    let (frame_end, bytes) = (good.len() as u64, content().len() as u64);
    let doubt = |file, content_at| {
        let content_bytes = Some(bytes);
        Loss { file, content_at, content_bytes, what: Lost::Unproven }
    };
    check_salvages(&good, &content(), &[]);
    check_salvages(&bad, &wrong, &[doubt(0..frame_end, 0)]);
    check_salvages(
        &[&bad[..], &good].concat(),
        &[wrong.clone(), content()].concat(),
        &[doubt(0..frame_end, 0)],
    );
    // A cut file, so blocks have to be searched for.
    let file = [&bad[..], &good[..good.len() - 8]].concat();
    let end = file.len() as u64;
    let cut = Loss { file: end..end, content_at: 2 * bytes, content_bytes: None, what: Lost::Unfinished };
    let losses = [doubt(0..frame_end, 0), cut, doubt(frame_end..end, bytes)];
    check_salvages(&file, &[wrong, content()].concat(), &losses);
}

#[test]
fn what_a_damaged_last_lz4_block_had_is_known_where_the_frame_states_its_size() {
    let options = |content_bytes| Options {
        block_bytes: BLOCK_BYTES,
        threads: 1,
        content_bytes,
        ..Options::of(Format::Lz4, Level::USUAL)
    };
    let bytes = content().len() as u64;
    for stated in [Some(bytes), None] {
        let mut writer = Writer::new(Vec::new(), &options(stated)).unwrap();
        writer.write_all(&content()).unwrap();
        let mut file = writer.finish().unwrap();
        let end = file.len();
        file[end - 4000..end - 2000].fill(0);
        let mut found = Vec::new();
        let losses = salvage(Cursor::new(file), &ReadOptions::new(1), &mut found).unwrap();
        let block = BLOCK_BYTES as u64;
        assert!(losses.iter().all(|loss| loss.content_at >= block), "{losses:?}");
        assert!(found[..BLOCK_BYTES] == content()[..BLOCK_BYTES]);
        if stated.is_some() {
            assert_eq!(found.len(), content().len());
            assert_eq!(losses.iter().filter_map(|loss| loss.content_bytes).sum::<u64>(), bytes - block);
        } else {
            assert_eq!(losses.last().unwrap().content_bytes, None, "{losses:?}");
        }
    }
}

#[test]
fn a_legacy_lz4_file_is_salvaged_as_far_as_it_decodes() {
    let mut block = Buffer::default();
    Lz4.encoder(None).encode(&[b'a'; 1000], Setting(-1), &mut block).unwrap();
    // Size and block, without the checksum behind them.
    let file = [&lz4::LEGACY_MAGIC.to_le_bytes(), &block[..block.len() - 4]].concat();
    check_salvages(&file, &[b'a'; 1000], &[]);
    let cut = [&file[..], &block[..10]].concat();
    let (from, end) = (file.len() as u64, cut.len() as u64);
    let lost = Loss { file: from..end, content_at: 1001, content_bytes: None, what: Lost::Gone };
    let unproven = |file, content_at, bytes| {
        let content_bytes = Some(bytes);
        Loss { file, content_at, content_bytes, what: Lost::Unproven }
    };
    let losses = [unproven(from..end, 1000, 1), lost, unproven(0..end, 0, 1001)];
    check_salvages(&cut, &[b'a'; 1001], &losses);
}

/// A sequence with a literal for each byte of `content`.
fn lz4_literals(content: &[u8]) -> Vec<u8> {
    let more = content.len() - 15;
    let length = std::iter::repeat_n(255, more / 255).chain([u8::try_from(more % 255).unwrap()]);
    [0xf0].into_iter().chain(length).chain(content.iter().copied()).collect()
}

#[test]
fn the_length_of_a_legacy_lz4_block_may_begin_like_a_gzip_member() {
    const LENGTH: usize = 0x0008_8b1f;
    let content = vec![b'a'; LENGTH - 2 - (LENGTH - 17) / 256];
    let block = lz4_literals(&content);
    assert_eq!(block.len(), LENGTH);
    let file = [&lz4::LEGACY_MAGIC.to_le_bytes()[..], &[0x1f, 0x8b, 8, 0], &block].concat();
    check_salvages(&file, &content, &[]);
    // The bytes behind the last block are not a length, because they are too large for one.
    check_salvages(&[&file[..], &file].concat(), &content.repeat(2), &[]);
}

#[test]
fn a_stored_lz4_block_may_be_empty() {
    let file = lz4_frame(b"content", None);
    let block_at = 7;
    let file = [&file[..block_at], &(1_u32 << 31).to_le_bytes(), &file[block_at..]].concat();
    check_salvages(&file, b"content", &[]);
}

#[test]
fn zeros_behind_a_skippable_frame_are_trailing_garbage() {
    let frame = zstd_frame(&content(), 17);
    let skippable = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let file = [&frame[..], &skippable, &[0; 5000]].concat();
    let at = (frame.len() + skippable.len()) as u64;
    let garbage = Loss {
        file: at..file.len() as u64,
        content_at: content().len() as u64,
        content_bytes: None,
        what: Lost::Trailing,
    };
    check_salvages(&file, &content(), &[garbage]);
}

/// Builds a frame that does not state its size, with a window of 2^`window_log` bytes.
fn zstd_frame(content: &[u8], window_log: u8) -> Vec<u8> {
    let mut file = [&zst::MAGIC.to_le_bytes()[..], &[0, (window_log - 10) << 3]].concat();
    let blocks = content.chunks(zst::BLOCK_OUT_MAX);
    let last = blocks.len() - 1;
    for (number, block) in blocks.enumerate() {
        let header = u32::try_from(block.len() << 3 | usize::from(number == last)).unwrap();
        file.extend(&header.to_le_bytes()[..3]);
        file.extend(block);
    }
    file
}

#[test]
fn a_frame_needs_no_more_memory_than_its_blocks_can_hold() {
    for window_log in [17, 27, 28, 31] {
        let frame = zstd_frame(&content(), window_log);
        let mut read = Vec::new();
        crate::Reader::new(&frame[..], 1).read_to_end(&mut read).unwrap();
        assert!(read == content());
        check_salvages(&frame, &content(), &[]);
        check_salvages(&frame.repeat(2), &content().repeat(2), &[]);
    }
    // A damaged frame is not decoded in pieces, which would need memory for the window.
    let mut frame = zstd_frame(&content(), 28);
    frame.truncate(frame.len() - 5);
    let mut found = Vec::new();
    let losses = salvage(Cursor::new(&frame), &ReadOptions::new(1), &mut found).unwrap();
    assert!(matches!(losses[0].what, Lost::TooLarge { needed_bytes: 0x1000_0000 }), "{losses:?}");
}

/// Frames or blocks of tamp without the end of a file.
fn parts(format: Format) -> Vec<Vec<u8>> {
    let tail_bytes = if format == Format::Zst { zst::END_BYTES + 8 + 12 + 9 } else { 28 };
    let options = Options { threads: 1, ..Options::of(format, Level::USUAL) };
    let part = |piece: &[u8]| {
        let mut writer = Writer::new(Vec::new(), &options).unwrap();
        writer.write_all(piece).unwrap();
        let mut file = writer.finish().unwrap();
        file.truncate(file.len() - tail_bytes);
        file
    };
    content().chunks(20_000).map(part).collect()
}

#[test]
fn a_missing_end_is_reported_beside_damage() {
    for format in [Format::Zst, Format::Bgzf] {
        let mut parts = parts(format);
        for damaged in 0..parts.len() {
            let part = &mut parts[damaged];
            let at = part.len() / 2;
            part[at] ^= 1;
            let file = parts.concat();
            let mut found = Vec::new();
            let losses = salvage(Cursor::new(&file), &ReadOptions::new(1), &mut found).unwrap();
            let ends: Vec<_> = losses.iter().filter(|loss| loss.what == Lost::Unfinished).collect();
            let is_reported = ends.len() == 1 && ends[0].file.start == file.len() as u64;
            assert!(is_reported && losses.len() > 1, "{format:?}, {damaged}: {losses:?}");
            parts[damaged][at] ^= 1;
        }
    }
}

#[test]
fn a_missing_frame_is_reported_beside_damage() {
    let mut writer =
        Writer::new(Vec::new(), &Options { block_bytes: 20_000, threads: 1, ..Options::zst(Level::USUAL) })
            .unwrap();
    writer.write_all(&content()).unwrap();
    let file = writer.finish().unwrap();
    let frames: Vec<usize> = file
        .windows(4)
        .enumerate()
        .filter(|(_, word)| *word == zst::MAGIC.to_le_bytes())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(frames.len(), 6);
    let list_at = file.len() - zst::END_BYTES - (8 + 6 * 12 + 9);
    for (damaged, missing) in [(0, 3), (4, 1), (2, 5)] {
        let mut short = file.clone();
        short[frames[damaged] + 2000] ^= 1;
        short.drain(frames[missing]..*frames.get(missing + 1).unwrap_or(&list_at));
        let mut found = Vec::new();
        let losses = salvage(Cursor::new(&short), &ReadOptions::new(1), &mut found).unwrap();
        let (end, bytes) = ((list_at - (file.len() - short.len())) as u64, found.len() as u64);
        let unproven = Loss { file: 0..end, content_at: 0, content_bytes: Some(bytes), what: Lost::Unproven };
        assert!(losses.len() > 1 && losses.contains(&unproven), "{damaged}, {missing}: {losses:?}");
    }
    // Damage alone does not affect the others.
    let mut damaged = file.clone();
    damaged[frames[2] + 2000] ^= 1;
    let losses = salvage(Cursor::new(&damaged), &ReadOptions::new(1), &mut Vec::new()).unwrap();
    assert_eq!(losses.len(), 1, "{losses:?}");
}

#[test]
fn gzip_that_misses_its_checksum_is_written_and_in_doubt() {
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 3, 0, 0xfc, 0xff];
    file.extend(b"abc");
    file.extend([0; 4]);
    file.extend(3_u32.to_le_bytes());
    let mut found = Vec::new();
    let losses = salvage(Cursor::new(file), &ReadOptions::new(1), &mut found).unwrap();
    assert_eq!(found, b"abc");
    assert!(
        losses.iter().any(|loss| loss.what == Lost::Unproven && loss.content_bytes == Some(3)),
        "{losses:?}"
    );
}

#[test]
fn gzip_that_does_not_decode_is_lost_if_as_many_bytes_follow_as_a_trailer_has() {
    // A block of the reserved type, and eight bytes.
    let mut file = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 7];
    file.extend([1; 8]);
    let mut found = Vec::new();
    let losses = salvage(Cursor::new(file), &ReadOptions::new(1), &mut found).unwrap();
    let lost = Loss { file: 11..19, content_at: 0, content_bytes: None, what: Lost::Gone };
    assert_eq!((found, losses), (Vec::new(), vec![lost]));
}

/// Returns the size of the content that the decoder returns before it refuses a block; `None` if it refuses
/// none, whatever its checksum.
fn refused_after(file: &[u8]) -> Option<usize> {
    let (mut decoder, mut content) = (zst::Decoder::new(None), Buffer::default());
    let (mut rest, mut made) = (&file[..file.len() - 4], 0);
    loop {
        let Ok((eaten, _)) = decoder.stream(rest, zst::BLOCK_OUT_MAX, &mut content) else {
            return Some(made);
        };
        if eaten == 0 && content.is_empty() {
            return None;
        }
        rest = &rest[eaten..];
        made += content.len();
    }
}

#[test]
fn of_a_zst_block_that_is_refused_the_content_before_its_damage_is_written() {
    let content: Vec<u8> = (0..30_000_u32)
        .flat_map(|n| format!("{n} {:x}\n", n.wrapping_mul(0x9E37_79B1) >> 20).into_bytes())
        .collect();
    let mut frame = Buffer::default();
    zst::Zst.encoder(None).encode(&content, Setting(3), &mut frame).unwrap();
    let mut gained = 0;
    for at in (frame.len() / 4..frame.len() - 10).step_by(frame.len() / 200) {
        let mut file = frame.to_vec();
        file[at] ^= 0x10;
        let Some(made) = refused_after(&file) else { continue };
        let mut found = Vec::new();
        let losses = salvage(Cursor::new(&file), &ReadOptions::new(1), &mut found).unwrap();
        assert!(!losses.is_empty() && found.len() <= content.len(), "byte {at}: {} bytes", found.len());
        let right = found.iter().zip(&content).take_while(|(a, b)| a == b).count();
        assert!(right >= made, "byte {at}: {right} and {made}");
        gained = gained.max(right - made);
    }
    assert!(gained > 1000, "{gained} bytes");
}

/// Counts the bytes read.
struct Counted<R>(R, u64);

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.0.read(to)?;
        self.1 += read as u64;
        Ok(read)
    }
}

impl<R: Seek> Seek for Counted<R> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        self.0.seek(to)
    }
}

/// Salvages `file`; returns the result and the number of bytes read.
fn counted(file: &[u8]) -> (Result<Vec<Loss>, Error>, u64) {
    let mut source = Counted(Cursor::new(file), 0);
    let salvaged = salvage(&mut source, &ReadOptions::new(1), &mut io::sink());
    (salvaged, source.1)
}

#[test]
fn beginnings_that_lead_nowhere_are_not_searched_without_end() {
    // The names in these headers reach to the end of the file.
    let (salvaged, read) = counted(&[0x1f, 0x8b, 8, 8].repeat(16 << 10));
    assert!(matches!(salvaged, Err(Error::UnknownFormat { offset: 0 })), "{salvaged:?}");
    assert!(read <= 64 << 20, "{read} bytes");
    // Members that begin in stored blocks of one another and share a long rest, which does not end.
    let mut members = vec![b'?'];
    for _ in 0..1 << 13 {
        members.extend([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0, 10, 0, 0xf5, 0xff]);
    }
    members.extend([0; 10]);
    let stored = [&[0, 0xff, 0x7f, 0, 0x80][..], &vec![b'y'; 0x7fff]].concat();
    members.extend(stored.repeat(16));
    members.push(7);
    let (salvaged, read) = counted(&members);
    assert!(matches!(salvaged, Err(Error::UnknownFormat { offset: 0 })), "{salvaged:?}");
    assert!(read <= 64 << 20, "{read} bytes");
    // Damaged BGZF blocks of 31 bytes, each of which decodes to the end of the file.
    let mut blocks = Vec::new();
    for _ in 0..1 << 12 {
        blocks.extend(&crate::format::bgzf::END[..16]);
        blocks.extend([30, 0, 0, 26, 0, 0xe5, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    let rest = &members[1 + (15 << 13) + 10..];
    let (salvaged, read) = counted(&[&blocks, &[0; 18][..], rest].concat());
    assert!(salvaged.is_ok_and(|losses| !losses.is_empty()));
    assert!(read <= 64 << 20, "{read} bytes");
}

#[test]
fn frames_behind_one_that_does_not_decode_are_found_though_damage_follows_them() {
    let noise: Vec<u8> = (0..200_000_u32)
        .flat_map(|n| (n.wrapping_mul(n) ^ n >> 3).wrapping_mul(0x9E37_79B1).to_le_bytes())
        .collect();
    let mut options = Options::of(Format::Zst, Level::USUAL);
    (options.threads, options.block_bytes) = (1, BLOCK_BYTES);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(&noise).unwrap();
    let whole = writer.finish().unwrap();
    let starts: Vec<usize> =
        (0..whole.len() - 4).filter(|&at| whole[at..].starts_with(&[0x28, 0xb5, 0x2f, 0xfd])).collect();
    assert_eq!(starts.len(), 13);
    let mut file = whole[..starts[12]].to_vec();
    // The lengths in the first and in the tenth frame are wrong, and content of the second.
    for at in [starts[0], starts[9]] {
        file[at + 14..at + 17].fill(0xff);
    }
    file[starts[1] + 1000] ^= 1;
    let mut found = Vec::new();
    let losses = salvage(Cursor::new(&file), &ReadOptions::new(1), &mut found).unwrap();
    let good = &noise[2 * BLOCK_BYTES..9 * BLOCK_BYTES];
    let is_there = found.windows(good.len()).any(|window| window == good);
    assert!(is_there, "{} bytes, {losses:?}", found.len());
}
