//! Sizes that files state, against their blocks: every reader finds the same, or refuses.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs::{self, File};
use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use tamp::{Format, Level, Meter, Options, Places, ReadOptions, Reader, SeekReader, Writer};

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;
use scratch::{Scratch, sample, text};

/// Content larger than the largest entry of an index, with no two parts alike.
fn content() -> Vec<u8> {
    sample()[..400_000].to_vec()
}

fn packed(content: &[u8], format: Format) -> Vec<u8> {
    let mut options = Options::of(format, Level::USUAL);
    (options.threads, options.block_bytes) = (1, 64 << 10);
    options.content_bytes = Some(content.len() as u64);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// Builds a frame like `zstd --no-check`: no checksum, the content's size in the header.
fn stock_frame(content: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; zstd_safe::compress_bound(content.len())];
    let bytes = zstd_safe::CCtx::create().compress(&mut frame[..], content, 1).unwrap();
    frame.truncate(bytes);
    frame
}

/// Appends to two frames the table that zstd's `contrib/seekable_format` writes.
fn with_table(frames: &[u8], first: usize, second: usize) -> Vec<u8> {
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let second_at = frames[4..].windows(4).position(|bytes| bytes == magic).unwrap() + 4;
    let mut file = frames.to_vec();
    for number in [0x184D_2A5E, 2 * 8 + 9, second_at, first, frames.len() - second_at, second, 2] {
        file.extend(u32::try_from(number).unwrap().to_le_bytes());
    }
    file.push(0);
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    file
}

fn word(file: &[u8], at: usize) -> usize {
    u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize
}

/// Fields of each BGZF block with its length and the size of its content.
fn bgzf_sizes(file: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut found) = (0, Vec::new());
    while at < file.len() {
        let bytes = usize::from(u16::from_le_bytes([file[at + 16], file[at + 17]])) + 1;
        found.extend([at + 16..at + 18, at + bytes - 4..at + bytes]);
        at += bytes;
    }
    found
}

/// Fields of the content's size and of each block's length.
fn lz4_sizes(file: &[u8]) -> Vec<Range<usize>> {
    let (mut at, mut found) = (15, std::iter::once(4..15).collect::<Vec<_>>());
    while word(file, at) != 0 {
        found.push(at..at + 4);
        at += 4 + (word(file, at) & 0x7fff_ffff) + 4;
    }
    found.push(at..at + 4);
    found
}

/// The header of each frame, and all bytes behind the last one.
fn zst_sizes(file: &[u8]) -> Vec<Range<usize>> {
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let frames = file.windows(4).enumerate().filter(|(_, bytes)| *bytes == magic);
    let mut found: Vec<_> = frames.map(|(at, _)| at + 4..at + 17).collect();
    // The end frame of tamp, or else the seek table.
    for magic in [0x184D_2A5D_u32, 0x184D_2A5E] {
        let magic = magic.to_le_bytes();
        found.extend(file.windows(4).position(|bytes| bytes == magic).map(|at| at..file.len()));
    }
    found
}

/// Checks that random access returns the content if it does not refuse.
fn check_access(file: &[u8], content: &[u8]) -> Result<(), String> {
    if let Ok(listed) = tamp::list(Cursor::new(file), &ReadOptions::new(1))
        && listed.unfinished.is_none()
        && listed.content_bytes != content.len() as u64
    {
        return Err(format!("the list states {} bytes of content", listed.content_bytes));
    }
    for at in [content.len() - 1000, content.len() / 2, 0] {
        let Ok(mut reader) = SeekReader::new(Cursor::new(file)) else { continue };
        let mut found = Vec::new();
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        if reader.by_ref().take(1000).read_to_end(&mut found).is_ok() && found != content[at..at + 1000] {
            return Err(format!("{} wrong bytes from {at}", found.len()));
        }
        if let Ok(end) = reader.seek(SeekFrom::End(0))
            && end != content.len() as u64
        {
            return Err(format!("the end is at {end}"));
        }
        reader.seek(SeekFrom::Start(1 << 40)).unwrap();
        if content.len() as u64 != reader.content_bytes() && reader.read(&mut [0]).is_ok() {
            return Err("a wrong size is the end".into());
        }
    }
    Ok(())
}

#[test]
fn a_flipped_bit_in_a_stated_size_never_gives_other_bytes() {
    let content = content();
    let halves = content.split_at(200_000);
    let two = [stock_frame(halves.0), stock_frame(halves.1)].concat();
    let foreign = with_table(&two, halves.0.len(), halves.1.len());
    let (zst, lz4) = (packed(&content, Format::Zst), packed(&content, Format::Lz4));
    let bgzf = packed(&content, Format::Bgzf);
    let mut wrong = Vec::new();
    for (name, file, sizes) in [
        ("zst", &zst, zst_sizes(&zst)),
        ("two frames of zstd", &two, zst_sizes(&two)),
        ("two frames and the table of another tool", &foreign, zst_sizes(&foreign)),
        ("lz4", &lz4, lz4_sizes(&lz4)),
        ("bgzf", &bgzf, bgzf_sizes(&bgzf)),
    ] {
        assert!(sizes.len() >= 2, "{name}: {sizes:?}");
        assert_eq!(check_access(file, &content), Ok(()), "{name}");
        assert!(SeekReader::new(Cursor::new(file)).is_ok(), "{name}");
        for at in sizes.into_iter().flatten() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                wrong.extend(
                    check_access(&damaged, &content).err().map(|how| format!("{name}, {at}.{bit}: {how}")),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong[..wrong.len().min(20)].join("\n"));
}

#[test]
fn a_table_without_its_end_frame_is_unfinished_to_every_reader() {
    let (scratch, content) = (Scratch::new(), content());
    let mut file = packed(&content, Format::Zst);
    let end = 0x184D_2A5D_u32.to_le_bytes();
    let at = file.windows(4).position(|bytes| bytes == end).unwrap();
    file.drain(at..at + 28);
    fs::write(scratch.path("x.zst"), &file).unwrap();

    let mut found = Vec::new();
    let error = Reader::new(&file[..], 1).read_to_end(&mut found).unwrap_err();
    assert!(found == content && error.to_string().contains("unfinished"), "{error}");
    assert!(SeekReader::new(Cursor::new(&file)).is_err());
    assert!(tamp::list(Cursor::new(&file), &ReadOptions::new(1)).unwrap().unfinished.is_some());
    let input = File::open(scratch.path("x.zst")).unwrap();
    let places = Places {
        input: &input,
        input_at: 0,
        input_bytes: file.len() as u64,
        output: None,
        output_at: 0,
        sparse: false,
    };
    assert_eq!(tamp::decompress_file(&places, &ReadOptions::new(2), &Meter::new(), &|| {}).unwrap(), None);

    scratch.fails("-t x.zst", 1, "unfinished");
    scratch.fails("-l x.zst", 1, "unfinished");
    scratch.fails("--salvage x.zst -o salvaged", 1, "unfinished");
    scratch.fails("-d x.zst", 2, "unfinished");
    assert!(scratch.read("x") == content && scratch.read("salvaged") == content);
    assert!(scratch.exists("x.zst"), "the input of an unfinished file is removed");
}

#[test]
fn a_seek_table_of_millions_of_frames_that_are_not_there_takes_no_memory() {
    let scratch = Scratch::new();
    let (content, entries) = (b"the only frame".as_slice(), 1_u32 << 26);
    let frame = stock_frame(content);
    let file = File::create(scratch.path("x.zst")).unwrap();
    file.write_all_at(&frame, 0).unwrap();
    file.write_all_at(&0x184D_2A5E_u32.to_le_bytes(), frame.len() as u64).unwrap();
    file.write_all_at(&(entries * 8 + 9).to_le_bytes(), frame.len() as u64 + 4).unwrap();
    let footer = [&entries.to_le_bytes()[..], &[0], &0x8F92_EAB1_u32.to_le_bytes()].concat();
    file.write_all_at(&footer, frame.len() as u64 + 8 + u64::from(entries) * 8).unwrap();
    for (line, expected) in
        [("-t", &b""[..]), ("-dc", content), ("--range 4:8 -c", b"only"), ("--salvage -c", content)]
    {
        // The entries take 512 MiB in the file; 200 MiB of address space suffice for the program and its
        // libraries.
        let limited = format!("ulimit -v 204800; exec {} -T1 {line} x.zst", env!("CARGO_BIN_EXE_tamp"));
        let mut command = std::process::Command::new("sh");
        let output = command.args(["-c", &limited]).current_dir(scratch.folder.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {} {}", output.status, text(&output.stderr));
        assert!(output.stdout == expected, "{line}");
    }
}

#[test]
fn a_gzip_header_without_an_end_is_refused_early_by_any_number_of_threads() {
    let Some(mut file) = pigz(&sample()[..400_000]) else { return };
    let member_at = file.len();
    // Gzip's magic, deflate, the flag of a name.
    file.extend([0x1f, 0x8b, 8, 8, 0, 0, 0, 0, 0, 3]);
    file.resize(member_at + (40 << 20), b'n');
    let mut errors = Vec::new();
    for threads in [1, 2] {
        let mut source = Counted { source: &file[..], bytes: 0 };
        let error = std::io::copy(&mut Reader::new(&mut source, threads), &mut std::io::sink()).unwrap_err();
        // The limit is 16 MiB. A reader with threads reads a few MiB ahead.
        assert!(source.bytes < 32 << 20, "{threads} threads read {} bytes", source.bytes);
        errors.push(error.to_string());
    }
    assert_eq!(errors[0], errors[1]);
    assert!(errors[0].contains(&member_at.to_string()), "{errors:?}");
    for bytes in [5, 100, 1 << 20] {
        let cut = &file[..member_at + bytes];
        let error =
            |threads| std::io::copy(&mut Reader::new(cut, threads), &mut std::io::sink()).unwrap_err();
        assert_eq!(error(1).to_string(), error(2).to_string(), "{bytes}");
    }
}

struct Counted<R> {
    source: R,
    bytes: usize,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let read = self.source.read(to)?;
        self.bytes += read;
        Ok(read)
    }
}

/// Compresses `content` with `pigz -i`; `None` if it is not installed.
fn pigz(content: &[u8]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("content");
    fs::write(&path, content).unwrap();
    let output = std::process::Command::new("pigz").args(["-nci"]).arg(&path).output();
    let Ok(output) = output else {
        #[expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]
        {
            println!("skipped: pigz is not installed");
        }
        return None;
    };
    assert!(output.status.success());
    Some(output.stdout)
}

#[test]
fn bytes_are_counted_once_when_an_index_misleads() {
    let scratch = Scratch::new();
    let mut options = Options::of(Format::Lz4, Level::USUAL);
    (options.threads, options.block_bytes) = (1, 64 << 10);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    // The index assumes that every block but the last is full.
    writer.write_all(&sample()[..100_000]).unwrap();
    writer.flush().unwrap();
    writer.write_all(&sample()[100_000..]).unwrap();
    fs::write(scratch.path("short.lz4"), writer.finish().unwrap()).unwrap();
    let said = text(&scratch.tamp("-dvk short.lz4").stderr);
    assert!(said.contains("of 3.1 MiB"), "{said}");
    assert!(scratch.read("short") == sample());
}

/// Returns a member with an extra field of BGZF that states `bytes` in total, if given.
fn member(content: &[u8], bytes: Option<usize>) -> Vec<u8> {
    let mut file = vec![0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 6, 0, b'B', b'C', 2, 0, 0, 0];
    let length = u16::try_from(content.len()).unwrap();
    file.push(1);
    file.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
    file.extend(content);
    file.extend(libdeflater::crc32(content).to_le_bytes());
    file.extend(u32::from(length).to_le_bytes());
    let stated = u16::try_from(bytes.unwrap_or(file.len()) - 1).unwrap();
    file[16..18].copy_from_slice(&stated.to_le_bytes());
    file
}

#[test]
fn a_bgzf_block_hides_no_bytes_between_its_end_and_the_stated_one() {
    let scratch = Scratch::new();
    let end = member(b"", None);
    for second in [b"bbbbb", b"aaaaa"] {
        let (a, b) = (member(b"aaaaa", None), member(second, None));
        let hiding = member(b"aaaaa", Some(a.len() + b.len()));
        let content = [b"aaaaa", &second[..]].concat();
        for more in [&b""[..], &member(b"more", None)] {
            let file = [&hiding, &b, more, &end].concat();
            fs::write(scratch.path("x.gz"), &file).unwrap();
            let expected = if more.is_empty() { content.clone() } else { [&content, &b"more"[..]].concat() };
            let same = |found: Vec<u8>, line: &str| assert_eq!(text(&found), text(&expected), "{line}");
            for line in ["-dc x.gz", "-dc -T1 x.gz", "--salvage -c x.gz"] {
                same(scratch.ok(line), line);
            }
            scratch.ok("-dkf -o out x.gz");
            same(scratch.read("out"), "-o out");
            same(scratch.tamp_with("-d", &file).stdout, "a pipe");
            let listed = text(&scratch.ok("-l --json x.gz"));
            assert!(listed.contains(&format!("\"content_bytes\":{}", expected.len())), "{listed}");
            scratch.fails("--range 0: x.gz", 1, "BGZF");
        }
    }
    // Bytes that are no member.
    let junk = [&member(b"aaaaa", Some(72))[..], &[7; 32], &[5, 0, 0, 0], &end].concat();
    fs::write(scratch.path("x.gz"), junk).unwrap();
    scratch.fails("-t x.gz", 1, "BGZF");
}

#[test]
fn an_entry_over_two_frames_hides_nothing() {
    let content: Vec<u8> = (0..2_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let mut file = [stock_frame(&content[..1_000]), stock_frame(&content[1_000..])].concat();
    for number in [0x184D_2A5E, 8 + 9, u32::try_from(file.len()).unwrap(), 1_000, 1] {
        file.extend(number.to_le_bytes());
    }
    file.push(0);
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    check_access(&file, &content).unwrap();
    let listed = tamp::list(Cursor::new(&file), &ReadOptions::new(1)).unwrap();
    assert_eq!(listed.content_bytes, 2_000, "the table states 1,000");
}
