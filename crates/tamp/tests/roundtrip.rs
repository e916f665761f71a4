//! Content survives a round trip: at every size that matters, with any number of threads.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use tamp::{Format, Level, Options, Reader, Writer};

const FORMATS: [Format; 3] = [Format::Zst, Format::Lz4, Format::Bgzf];

/// Returns text with numbers: it compresses, and no two blocks are alike.
fn sample(bytes: usize) -> Vec<u8> {
    let mut text: Vec<u8> = (0..=bytes / 8).flat_map(|n| format!("{n:>7}\n").into_bytes()).collect();
    text.truncate(bytes);
    text
}

fn options(level: u8, threads: usize) -> Options {
    in_format(Format::Zst, level, threads)
}

fn in_format(format: Format, level: u8, threads: usize) -> Options {
    let mut options = Options::of(format, Level::new(level).unwrap());
    options.threads = threads;
    options
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
    for format in FORMATS {
        let block = in_format(format, 1, 1).block_bytes;
        for bytes in [0, 1, block - 1, block, block + 1, 9 * block + 7] {
            let content = sample(bytes);
            for threads in [1, 2, 5] {
                let file = packed(&content, &in_format(format, 1, threads));
                let found = unpacked(&file, threads).unwrap();
                assert!(found == content, "{format:?}, {bytes} bytes, {threads} threads");
            }
        }
    }
}

#[test]
fn small_and_empty_frames_among_others_return_in_order_up_to_the_damage() {
    let sizes = [0, 0, 1, 1_024, 1_025, 300, 0, 40_000, 7, 0];
    let (mut file, mut content, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..3_000 {
        let part: Vec<u8> =
            sample(sizes[i % sizes.len()]).iter().map(|byte| byte ^ u8::try_from(i % 13).unwrap()).collect();
        starts.push((file.len(), content.len()));
        file.extend(packed(&part, &options(1, 1)));
        content.extend(part);
    }
    for threads in [1, 2, 5] {
        assert!(unpacked(&file, threads).unwrap() == content, "{threads} threads");
        for damaged in [1_003, 1_005, 2_007, 2_992] {
            let (at, before) = starts[damaged];
            let mut file = file.clone();
            // A byte of the content, behind the header of 14 bytes and that of the block.
            file[at + 18] ^= 0x40;
            let mut found = Vec::new();
            let error = Reader::new(&file[..], threads).read_to_end(&mut found).unwrap_err().to_string();
            assert!(found == content[..before], "{threads} threads, frame {damaged}: {}", found.len());
            assert!(error.contains(&at.to_string()), "{error}: byte {at}");
        }
    }
}

#[test]
fn the_file_does_not_depend_on_the_number_of_threads() {
    let content = sample(3_000_000);
    for format in FORMATS {
        assert!(packed(&content, &in_format(format, 1, 1)) == packed(&content, &in_format(format, 1, 4)));
    }
}

#[test]
fn every_level_returns_what_went_in_and_verifies() {
    let content = sample(2_500_000);
    for format in FORMATS {
        for level in 0..=9 {
            let mut options = in_format(format, level, 2);
            options.verify = true;
            assert!(unpacked(&packed(&content, &options), 2).unwrap() == content, "{format:?} {level}");
        }
    }
}

#[test]
fn a_kept_up_file_returns_whatever_levels_it_went_through() {
    let content = sample(20_000_000);
    for format in FORMATS {
        let mut options = in_format(format, 5, 2);
        (options.keep_up, options.block_bytes) = (true, 64 << 10);
        assert!(unpacked(&packed(&content, &options), 2).unwrap() == content, "{format:?}");
    }
}

#[test]
fn concatenated_files_of_all_formats_read_as_one() {
    let mut file = Vec::new();
    for format in FORMATS {
        file.extend(packed(b"one ", &in_format(format, 1, 1)));
        file.extend(packed(b"", &in_format(format, 1, 1)));
        file.extend(packed(b"two ", &in_format(format, 3, 2)));
    }
    for threads in [1, 2] {
        assert_eq!(unpacked(&file, threads).unwrap(), b"one two one two one two ");
    }
}

#[test]
fn a_false_size_in_an_lz4_header_is_an_error_when_writing() {
    let mut options = in_format(Format::Lz4, 1, 2);
    options.content_bytes = Some(4);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(b"12345").unwrap();
    assert!(matches!(writer.finish(), Err(tamp::Error::SizeHint { stated: 4, found: 5 })));
    assert_eq!(unpacked(&packed(b"1234", &options), 1).unwrap(), b"1234");
}

#[test]
fn gzip_padded_with_zeros_or_garbage_reads_as_gzip_reads_it() {
    let mut file = packed(b"content", &in_format(Format::Bgzf, 1, 1));
    file.extend([0; 1000]);
    assert_eq!(unpacked(&file, 2).unwrap(), b"content");
    let garbage_at = file.len() as u64;
    file.extend(b"garbage");
    let mut reader = Reader::new(&file[..], 1);
    let mut found = Vec::new();
    reader.read_to_end(&mut found).unwrap();
    assert_eq!((&found[..], reader.trailing_garbage()), (&b"content"[..], Some(garbage_at)));
}

#[test]
fn after_a_flush_all_that_was_written_can_be_read() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::new(path.reopen().unwrap(), &options(1, 2)).unwrap();
    writer.write_all(b"first\n").unwrap();
    writer.flush().unwrap();
    // All content is returned, and then the error that the file is unfinished.
    let file = std::fs::read(path.path()).unwrap();
    let mut found = Vec::new();
    let error = Reader::new(&file[..], 1).read_to_end(&mut found).unwrap_err();
    assert_eq!((&found[..], error.kind()), (&b"first\n"[..], std::io::ErrorKind::UnexpectedEof));
    assert!(error.to_string().contains("unfinished"), "{error}");
    writer.write_all(b"second\n").unwrap();
    writer.finish().unwrap();
    assert_eq!(unpacked(&std::fs::read(path.path()).unwrap(), 1).unwrap(), b"first\nsecond\n");
}

#[test]
fn whole_blocks_before_a_cut_or_a_damage_are_delivered_before_the_error() {
    for format in FORMATS {
        let mut options = in_format(format, 1, 1);
        options.block_bytes = 64 << 10;
        let content = sample(1_000_000);
        let file = packed(&content, &options);
        let half = file.len() / 2;
        let mut damaged = file.clone();
        damaged[half] ^= 1;
        let cases =
            [(&file[..half], std::io::ErrorKind::UnexpectedEof), (&damaged, std::io::ErrorKind::InvalidData)];
        for (file, kind) in cases {
            for threads in [1, 3] {
                let mut found = Vec::new();
                let error = Reader::new(file, threads).read_to_end(&mut found).unwrap_err();
                assert_eq!(error.kind(), kind, "{format:?}: {error}");
                assert!(!found.is_empty() && content.starts_with(&found), "{format:?}");
            }
        }
    }
}

#[test]
fn a_frame_too_large_to_hold_is_streamed() {
    let content = sample(40 << 20);
    let mut options = options(0, 1);
    options.block_bytes = 40 << 20;
    let mut found = Vec::new();
    let file = packed(&content, &options);
    let mut reader = Reader::new(&file[..], 2);
    reader.read_to_end(&mut found).unwrap();
    assert!(found == content && reader.serial().is_some());
}

/// Returns a few bytes at a time, like a slow pipe.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.1.min(to.len());
        self.0.read(&mut to[..bytes])
    }
}

#[test]
fn a_large_frame_ends_where_it_ends_however_the_pipe_cuts_it() {
    let large = vec![b'a'; 17 << 20];
    let mut options = options(1, 1);
    options.block_bytes = 17 << 20;
    let row = [packed(&large, &options), packed(b"small", &options), packed(&large, &options)].concat();
    let content = [&large[..], b"small", &large].concat();
    for bytes in [1, 2, 3, 5, 7, 100] {
        let mut found = Vec::new();
        let read = Reader::new(Slow(&row, bytes), 1).read_to_end(&mut found);
        read.unwrap_or_else(|error| panic!("{bytes} bytes at a time: {error}"));
        assert!(found == content, "{bytes} bytes at a time");
        let (meter, mut found) = (tamp::Meter::new(), Vec::new());
        tamp::decompress_frame(&mut Slow(&row, bytes), &mut found, b"", 128 << 20, &meter, &mut || {})
            .unwrap();
        assert!(found == content, "{bytes} bytes at a time");
    }
}

#[test]
fn what_is_no_compressed_file_is_said_to_be_none() {
    for (bytes, offset) in [(&b"hello, world"[..], 0), (&b"x"[..], 0)] {
        let error = unpacked(bytes, 1).unwrap_err();
        assert_eq!(error.to_string(), format!("byte {offset}: not a .zst, .lz4, .gz or zlib file"));
    }
}

#[test]
fn options_that_cannot_be_are_an_error_not_a_panic() {
    let broken = |change: &dyn Fn(&mut Options)| {
        let mut options = in_format(Format::Lz4, 1, 1);
        change(&mut options);
        options
    };
    for options in [
        broken(&|options| options.threads = 0),
        broken(&|options| options.block_bytes = 0),
        broken(&|options| options.block_bytes = 300_000),
        broken(&|options| options.rsyncable = true),
        broken(&|options| options.block_bytes = 1 << 30),
    ] {
        assert!(matches!(Writer::new(Vec::new(), &options), Err(tamp::Error::Options(_))), "{options:?}");
    }
}

#[test]
fn a_file_without_its_end_is_unfinished_at_every_block_and_whole_with_it() {
    for format in [Format::Zst, Format::Bgzf, Format::Lz4] {
        let mut options = in_format(format, 1, 1);
        options.block_bytes = 64 << 10;
        let content = sample(300_000);
        let mut writer = Writer::new(Ends(Vec::new(), Vec::new()), &options).unwrap();
        for block in content.chunks(options.block_bytes) {
            writer.write_all(block).unwrap();
            writer.flush().unwrap();
        }
        let Ends(file, ends) = writer.finish().unwrap();
        assert!(unpacked(&file, 1).unwrap() == content);
        assert_eq!(ends.len(), 5, "{format:?}");
        for end in ends {
            for threads in [1, 3] {
                let mut found = Vec::new();
                let error = Reader::new(&file[..end], threads).read_to_end(&mut found).unwrap_err();
                assert!(error.to_string().contains("unfinished"), "{format:?} {end}: {error}");
                assert!(content.starts_with(&found) && !found.is_empty());
            }
            let listing = tamp::list(std::io::Cursor::new(&file[..end]), &tamp::ReadOptions::new(1)).unwrap();
            assert_eq!(listing.unfinished, Some(end as u64));
            let mut salvaged = Vec::new();
            let cut = std::io::Cursor::new(&file[..end]);
            let losses = tamp::salvage(cut, &tamp::ReadOptions::new(1), &mut salvaged).unwrap();
            assert!(losses.len() == 1 && content.starts_with(&salvaged), "{format:?} {end}: {losses:?}");
            // A whole file behind an unfinished one.
            let both = [&file[..end], &file].concat();
            if format == Format::Zst {
                assert!(unpacked(&both, 1).unwrap_err().to_string().contains("unfinished"));
            }
        }
    }
}

/// Records the length at each flush.
struct Ends(Vec<u8>, Vec<usize>);

impl Write for Ends {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.1.push(self.0.len());
        Ok(())
    }
}
