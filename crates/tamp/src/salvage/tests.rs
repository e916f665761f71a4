use super::*;
use crate::format::lz4::{self, Lz4};
use crate::format::{Container, Setting};
use crate::{Format, Level, Options, Writer};
use std::io::Cursor;

const BLOCK_BYTES: usize = 64 << 10;

/// What `lz4` writes unless told otherwise: no checksum but one over all content. Its blocks are stored here.
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
    // Cut, so that blocks have to be searched for.
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

/// How much the decoder yields of a frame before it refuses a block; `None`: it refuses none, whatever its checksum says.
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
