//! What goes in comes out: every size at which something changes, every number of threads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use tamp::{Level, Options, Reader, Writer};

/// Text with numbers: compresses, and no two blocks are alike.
fn sample(bytes: usize) -> Vec<u8> {
    let mut text: Vec<u8> = (0..=bytes / 8).flat_map(|n| format!("{n:>7}\n").into_bytes()).collect();
    text.truncate(bytes);
    text
}

fn options(level: u8, threads: usize) -> Options {
    Options { threads, ..Options::zst(Level::new(level).unwrap()) }
}

fn packed(content: &[u8], options: &Options) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

fn unpacked(file: &[u8], threads: usize) -> std::io::Result<Vec<u8>> {
    let mut content = Vec::new();
    Reader::new(file, threads).read_to_end(&mut content).map(|_| content)
}

#[test]
fn every_size_at_a_block_border_returns_with_any_number_of_threads() {
    let block = options(1, 1).block_bytes;
    for bytes in [0, 1, block - 1, block, block + 1, 9 * block + 7] {
        let content = sample(bytes);
        for threads in [1, 2, 5] {
            let file = packed(&content, &options(1, threads));
            assert!(unpacked(&file, threads).unwrap() == content, "{bytes} bytes, {threads} threads");
        }
    }
}

#[test]
fn the_file_does_not_depend_on_the_number_of_threads() {
    let content = sample(3_000_000);
    assert!(packed(&content, &options(1, 1)) == packed(&content, &options(1, 4)));
}

#[test]
fn every_level_returns_what_went_in_and_verifies() {
    let content = sample(2_500_000);
    for level in 0..=9 {
        let options = Options { verify: true, ..options(level, 2) };
        assert!(unpacked(&packed(&content, &options), 2).unwrap() == content, "level {level}");
    }
}

#[test]
fn concatenated_files_read_as_one() {
    let mut file = packed(b"one ", &options(1, 1));
    file.extend(packed(b"", &options(1, 1)));
    file.extend(packed(b"two", &options(3, 2)));
    assert_eq!(unpacked(&file, 2).unwrap(), b"one two");
}

#[test]
fn after_a_flush_all_that_was_written_can_be_read() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::new(path.reopen().unwrap(), &options(1, 2)).unwrap();
    writer.write_all(b"first\n").unwrap();
    writer.flush().unwrap();
    assert_eq!(unpacked(&std::fs::read(path.path()).unwrap(), 1).unwrap(), b"first\n");
    writer.write_all(b"second\n").unwrap();
    writer.finish().unwrap();
    assert_eq!(unpacked(&std::fs::read(path.path()).unwrap(), 1).unwrap(), b"first\nsecond\n");
}

#[test]
fn whole_blocks_before_a_cut_or_a_damage_are_delivered_before_the_error() {
    let content = sample(1_000_000);
    let file = packed(&content, &options(1, 1));
    let (block, half) = (options(1, 1).block_bytes, file.len() / 2);
    let mut damaged = file.clone();
    damaged[half] ^= 1;
    for (file, kind) in
        [(&file[..half], std::io::ErrorKind::UnexpectedEof), (&damaged[..], std::io::ErrorKind::InvalidData)]
    {
        for threads in [1, 3] {
            let mut found = Vec::new();
            let error = Reader::new(file, threads).read_to_end(&mut found).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(found.len() >= block && found.len() % block == 0, "{} bytes", found.len());
            assert!(content.starts_with(&found));
        }
    }
}

#[test]
fn a_frame_too_large_to_hold_is_streamed() {
    let content = sample(40 << 20);
    let options = Options { block_bytes: 40 << 20, ..options(0, 1) };
    let mut found = Vec::new();
    let file = packed(&content, &options);
    let mut reader = Reader::new(&file[..], 2);
    reader.read_to_end(&mut found).unwrap();
    assert!(found == content && reader.was_serial());
}

#[test]
fn what_is_no_compressed_file_is_said_to_be_none() {
    for (bytes, offset) in [(&b"hello, world"[..], 0), (&b"x"[..], 0)] {
        let error = unpacked(bytes, 1).unwrap_err();
        assert_eq!(error.to_string(), format!("byte {offset}: not a .zst, .lz4 or .gz file"));
    }
}
