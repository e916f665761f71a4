//! Damaged, unfinished and misleading files, on the command line.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;
use std::io::{Cursor, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use tamp::{Format, Level, Options, ReadOptions, Writer};

/// Returns the output of `command` for `input`; `None`, after printing a skip, if it is not installed.
fn stock(command: &str, input: &[u8]) -> Option<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("input");
    fs::write(&path, input).unwrap();
    let mut words = command.split(' ');
    let output = Command::new(words.next().unwrap())
        .args(words)
        .stdin(fs::File::open(&path).unwrap())
        .stderr(Stdio::null())
        .output();
    #[expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]
    if output.is_err() {
        println!("skipped: {command}: not installed");
    }
    Some(output.ok()?.stdout)
}

/// Returns bytes that do not compress.
fn noise(bytes: u32) -> Vec<u8> {
    (0..bytes / 4)
        .map(|n| n.wrapping_mul(0x9E37_79B1) ^ (n << 7).wrapping_mul(0x85EB_CA6B))
        .flat_map(u32::to_le_bytes)
        .collect()
}

fn packed(content: &[u8], format: Format, block_bytes: usize) -> Vec<u8> {
    let mut options = Options::of(format, Level::USUAL);
    (options.threads, options.block_bytes) = (1, block_bytes);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

#[test]
fn salvage_keeps_the_damaged_file_writes_what_is_before_the_damage_and_fails() {
    let scratch = Scratch::new();
    for (tool, name) in [("zstd -qc", "d.zst"), ("gzip -c", "d.gz"), ("lz4 -qc", "d.lz4")] {
        let Some(mut file) = stock(tool, &sample()) else { continue };
        let at = file.len() * 9 / 10;
        // The decoder may ignore a single bit.
        file[at..at + 20].fill(0x55);
        for line in ["--salvage", "--salvage -f", "--salvage -q"] {
            fs::write(scratch.path(name), &file).unwrap();
            scratch.fails(&format!("{line} {name}"), 1, "");
            assert_eq!(scratch.read(name), file, "{tool}: {line}");
            let found = scratch.read("d");
            let right = found.iter().zip(sample()).take_while(|&(&a, b)| a == b).count();
            assert!(right > 2_000_000, "{tool}: {right} bytes are right");
            fs::remove_file(scratch.path("d")).unwrap();
        }
    }
    // An intact input is kept, too.
    scratch.ok("-k sample");
    scratch.ok("--salvage -f sample.zst");
    assert!(scratch.exists("sample.zst") && scratch.read("sample") == sample());
}

#[test]
fn the_output_of_a_killed_pipe_is_unfinished() {
    let scratch = Scratch::new();
    for (format, name) in [(Format::Zst, "x.zst"), (Format::Bgzf, "x.gz")] {
        let whole = packed(&sample(), format, 64 << 10);
        // Cut between two blocks, as by a kill between two writes.
        let cut = match format {
            Format::Zst => whole.len() - 28 - (8 + 49 * 12 + 9),
            _ => whole.len() - 28,
        };
        let file = &whole[..cut];
        fs::write(scratch.path(name), file).unwrap();
        scratch.fails(&format!("-t {name}"), 1, "unfinished");
        scratch.fails(&format!("-t -T1 -q {name}"), 1, "unfinished");
        scratch.fails(&format!("-l {name}"), 1, "unfinished");
        scratch.fails(&format!("-d {name}"), 2, "unfinished");
        assert!(scratch.exists(name) && scratch.read("x") == sample(), "{name}");
        scratch.fails(&format!("-d -f --no-sparse {name}"), 2, "unfinished");
        let piped = scratch.tamp_with("-d", file);
        assert_eq!((piped.status.code(), piped.stdout == sample()), (Some(2), true));
        scratch.fails(&format!("--salvage -f {name}"), 1, "unfinished");
        assert!(scratch.exists(name) && scratch.read("x") == sample(), "{name}");
        fs::write(scratch.path(name), &whole).unwrap();
        scratch.ok(&format!("-t {name}"));
        fs::remove_file(scratch.path("x")).unwrap();
    }
}

#[test]
fn a_file_without_a_readable_part_is_not_said_to_be_of_another_format() {
    let scratch = Scratch::new();
    let mut file = packed(&sample()[..100_000], Format::Zst, 1 << 20);
    // Its only frame has lost its beginning, and the list behind it its name.
    file[..16].fill(b'x');
    let tail = file.len() - 70;
    file[tail..].fill(b'x');
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("-t x.zst", 1, "not a .zst");
    scratch.fails("--salvage -o out x.zst", 1, "--salvage found no part of a .zst");
    assert!(!scratch.exists("out") && scratch.read("x.zst") == file);
}

#[test]
fn frames_that_changed_places_are_noticed_though_each_is_right() {
    let scratch = Scratch::new();
    // Frames of equal length.
    let whole = packed(&noise(1 << 20), Format::Zst, 64 << 10);
    let tail = 28 + 8 + 16 * 12 + 9;
    let frame = (whole.len() - tail) / 16;
    let mut file = whole.clone();
    let (first, second) = file.split_at_mut(5 * frame);
    first[2 * frame..3 * frame].swap_with_slice(&mut second[..frame]);
    assert!(file != whole);
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("-t x.zst", 1, "missing, repeated, changed");
    scratch.fails("-dk x.zst", 1, "missing, repeated, changed");
    scratch.fails("--range 131072:131080 x.zst", 1, "");
    scratch.fails("--salvage x.zst", 1, "no checksum proves them");
}

#[test]
fn salvage_copies_intact_files_unchanged() {
    let scratch = Scratch::new();
    let mut writer = {
        let mut options = Options::of(Format::Lz4, Level::USUAL);
        (options.threads, options.block_bytes) = (1, 64 << 10);
        Writer::new(Vec::new(), &options).unwrap()
    };
    // Short blocks between full ones.
    for piece in sample()[..400_000].chunks(50_000) {
        writer.write_all(piece).unwrap();
        writer.flush().unwrap();
    }
    let mut files = vec![("short.lz4", writer.finish().unwrap(), sample()[..400_000].to_vec())];
    let large = sample().repeat(13);
    if let Some(frame) = stock("zstd -qc", &large) {
        files.push((
            "row.zst",
            [packed(b"small", Format::Zst, 4096), frame].concat(),
            [&b"small"[..], &large].concat(),
        ));
    }
    if let Some(member) = stock("gzip -c", &sample()) {
        let row = [packed(&sample(), Format::Bgzf, 64 << 10), member].concat();
        files.push(("row.gz", row, sample().repeat(2)));
    }
    for (name, file, content) in files {
        fs::write(scratch.path(name), &file).unwrap();
        assert_eq!(scratch.ok(&format!("--salvage -f -o out {name}")), b"");
        assert!(scratch.read("out") == content, "{name}");
        // Damage at the front does not affect the rest.
        let mut damaged = file.clone();
        damaged[25] ^= 0x40;
        fs::write(scratch.path(name), &damaged).unwrap();
        scratch.fails(&format!("--salvage -f -o out {name}"), 1, name);
        let found = scratch.read("out");
        let last = content.len() / 3;
        assert!(found.ends_with(&content[content.len() - last..]), "{name}");
    }
}

#[test]
fn frames_inside_a_damaged_frame_are_not_taken_for_content() {
    let scratch = Scratch::new();
    let inner = packed(&sample()[..200_000], Format::Zst, 16 << 10);
    let content = [noise(300_000), inner, noise(300_000)].concat();
    let whole = packed(&content, Format::Zst, 256 << 10);
    for cut in [whole.len(), whole.len() - 250, whole.len() * 2 / 3, whole.len() / 2] {
        for at in [2, 5, 262_200, 300_000, 330_000] {
            let mut file = whole[..cut].to_vec();
            let end = (at + 20).min(file.len());
            if at >= end {
                continue;
            }
            file[at..end].fill(0);
            fs::write(scratch.path("x.zst"), &file).unwrap();
            let output = scratch.tamp("--salvage -f -o out x.zst");
            assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
            if !scratch.exists("out") {
                continue;
            }
            let found = scratch.read("out");
            let needle = &sample()[100_000..100_100];
            assert!(!found.windows(100).any(|window| window == needle), "cut {cut}, byte {at}");
            fs::remove_file(scratch.path("out")).unwrap();
        }
    }
}

/// Returns the offsets of the block headers of a Zstandard frame; the first is `first`.
fn block_headers(frame: &[u8], first: usize) -> Vec<usize> {
    let (mut at, mut found) = (first, Vec::new());
    loop {
        let header = u32::from_le_bytes([frame[at], frame[at + 1], frame[at + 2], 0]);
        found.push(at);
        if header & 1 == 1 {
            return found;
        }
        at += 3 + if header & 6 == 2 { 1 } else { usize::try_from(header >> 3).unwrap() };
    }
}

#[test]
fn a_large_file_inside_a_damaged_frame_is_not_taken_for_content() {
    let scratch = Scratch::new();
    let lines = |mark: char| -> Vec<u8> {
        (0..60_000_u32)
            .flat_map(|n| format!("{mark}{n} {:x}\n", n.wrapping_mul(0x9E37_79B1) >> 8).into_bytes())
            .collect()
    };
    let mut inner = lines('i');
    inner.extend(noise(600_000));
    inner.extend(lines('j'));
    let files = [
        packed(&inner, Format::Zst, 256 << 10),
        packed(&inner, Format::Lz4, 256 << 10),
        packed(&inner, Format::Bgzf, 64 << 10),
    ];
    for inner_file in files {
        assert!(inner_file.len() > 1 << 20);
        let content = [lines('a'), noise(300_000), inner_file, noise(300_000), lines('z')].concat();
        let Some(whole) = stock("zstd -qc", &content) else { return };
        // zstd does not state the size of content from a pipe: magic, descriptor, window.
        assert_eq!(whole[4] & 0xE3, 0);
        let headers = block_headers(&whole, 6);
        for number in [1, headers.len() / 4, headers.len() / 2, headers.len() - 2] {
            let at = headers[number];
            for cut in [whole.len(), usize::midpoint(at, whole.len())] {
                let mut file = whole[..cut].to_vec();
                // A reserved type of block.
                file[at] |= 6;
                fs::write(scratch.path("x.zst"), &file).unwrap();
                scratch.fails("--salvage -f -o out x.zst", 1, "");
                let found = scratch.read("out");
                let right = found.iter().zip(&content).take_while(|(a, b)| a == b).count();
                assert!(right >= number.min(headers.len() - 2) * (100 << 10), "{number}: {right}");
                assert!(found[right..].iter().all(|&byte| byte == 0), "block {number}, cut {cut}: {right}");
            }
        }
    }
}

#[test]
fn one_flipped_bit_in_a_header_loses_one_block_at_most() {
    let content = [&sample()[..100_000], &noise(50_000), &sample()[..50_000]].concat();
    let whole = packed(&content, Format::Zst, 16 << 10);
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let frames: Vec<usize> =
        whole.windows(4).enumerate().filter(|(_, found)| *found == magic).map(|(at, _)| at).collect();
    assert_eq!(frames.len(), content.len().div_ceil(16 << 10));
    for number in [0, 8, frames.len() - 1] {
        // Magic, descriptor, perhaps a window, size, header of the first block.
        for bit in 0..8 * 18 {
            let mut file = whole.clone();
            file[frames[number] + bit / 8] ^= 1 << (bit % 8);
            let mut found = Vec::new();
            let losses = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut found);
            let losses = losses.unwrap_or_else(|error| panic!("frame {number}, bit {bit}: {error}"));
            assert!(!losses.is_empty() || found == content, "frame {number}, bit {bit}");
            assert_eq!(found.len(), content.len(), "frame {number}, bit {bit}: {losses:?}");
            let others = |bytes: &[u8]| {
                let (from, to) = (number * (16 << 10), ((number + 1) * (16 << 10)).min(bytes.len()));
                [&bytes[..from], &bytes[to..]].concat()
            };
            assert!(others(&found) == others(&content), "frame {number}, bit {bit}: {losses:?}");
        }
    }
}

#[test]
fn a_flipped_bit_in_a_dictionary_id_loses_one_block_at_most() {
    let scratch = Scratch::new();
    let Some(dictionary) = dictionary(&scratch) else { return };
    fs::write(scratch.path("d"), dictionary).unwrap();
    let content = &sample()[..60_000];
    fs::write(scratch.path("x"), content).unwrap();
    scratch.ok("-D d --block-size 16KiB x");
    let whole = scratch.read("x.zst");
    let magic = 0xFD2F_B528_u32.to_le_bytes();
    let frames: Vec<usize> =
        whole.windows(4).enumerate().filter(|(_, found)| *found == magic).map(|(at, _)| at).collect();
    assert_eq!(frames.len(), 4);
    for number in 0..4 {
        let field = frames[number] + if whole[frames[number] + 4] & 0x20 == 0 { 6 } else { 5 };
        for bit in [0, 7, 13, 31] {
            let mut file = whole.clone();
            file[field + bit / 8] ^= 1 << (bit % 8);
            fs::write(scratch.path("x.zst"), &file).unwrap();
            scratch.fails("--salvage -f -D d -o out x.zst", 1, "unreadable");
            let (found, from) = (scratch.read("out"), number * (16 << 10));
            let to = (from + (16 << 10)).min(content.len());
            assert_eq!(found.len(), content.len(), "frame {number}, bit {bit}");
            assert!(found[..from] == content[..from] && found[to..] == content[to..], "{number}, {bit}");
        }
    }
    // Without the dictionary the error names its number.
    fs::write(scratch.path("x.zst"), &whole).unwrap();
    scratch.fails("--salvage -f -o out x.zst", 1, "needs the dictionary with the number");
}

#[test]
fn a_frame_that_needs_a_dictionary_does_not_take_the_others_with_it() {
    let scratch = Scratch::new();
    let Some(dictionary) = dictionary(&scratch) else { return };
    fs::write(scratch.path("d"), dictionary).unwrap();
    let part = |from: usize| sample()[from..from + 60_000].to_vec();
    let with = |from: usize, line: &str| {
        fs::write(scratch.path("part"), part(from)).unwrap();
        let mut words = line.split(' ');
        let mut command = Command::new(words.next().unwrap());
        let output = command.args(words).arg("part").current_dir(scratch.folder.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        output.stdout
    };
    let tamp = concat!(env!("CARGO_BIN_EXE_tamp"), " -c");
    for (plain, needy) in [("zstd -qc", "zstd -qc -D d"), (tamp, &*format!("{tamp} -D d"))] {
        let parts = [with(0, plain), with(100_000, needy), with(200_000, plain)];
        for order in [[0, 1, 2], [1, 0, 2], [0, 2, 1]] {
            let file: Vec<u8> = order.iter().flat_map(|&number| parts[number].clone()).collect();
            fs::write(scratch.path("x.zst"), &file).unwrap();
            let says = "unreadable without the dictionary with the number";
            scratch.fails("--salvage -f -o out x.zst", 1, says);
            let zeros = vec![0; 60_000];
            let expected = order
                .iter()
                .flat_map(|&number| if number == 1 { zeros.clone() } else { part(number * 100_000) });
            assert!(scratch.read("out") == expected.collect::<Vec<_>>(), "{plain}, {order:?}");
            let all: Vec<u8> = order.iter().flat_map(|&number| part(number * 100_000)).collect();
            assert!(scratch.ok("--salvage -c -D d x.zst") == all, "{plain}, {order:?}");
        }
        // If all content needs the dictionary, nothing is written.
        fs::write(scratch.path("x.zst"), &parts[1]).unwrap();
        let output = scratch.tamp("--salvage -c x.zst");
        assert!(output.stdout.is_empty() && text(&output.stderr).contains("-D"), "{}", text(&output.stderr));
    }
}

/// Trains a dictionary; `None`, after printing a skip, if zstd is not installed.
fn dictionary(scratch: &Scratch) -> Option<Vec<u8>> {
    let rows = scratch.path("rows");
    fs::create_dir(&rows).unwrap();
    for number in 0..500 {
        let row = format!("{{\"id\": {number}, \"name\": \"customer {}\"}}\n", number * 7919 % 1000);
        fs::write(rows.join(number.to_string()), row).unwrap();
    }
    let mut zstd = Command::new("sh");
    zstd.args(["-c", "zstd -q --train rows/* -o trained --maxdict=4096 2>/dev/null"]);
    zstd.current_dir(scratch.folder.path()).status().unwrap();
    let found = fs::read(scratch.path("trained")).ok();
    #[expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]
    if found.is_none() {
        println!("skipped: zstd: not installed");
    }
    found
}

#[test]
fn a_member_behind_a_damaged_one_is_found_wherever_the_damage_is() {
    let (first, second) = (&sample()[..100_000], &sample()[200_000..260_000]);
    let (Some(damaged), Some(good)) = (stock("gzip -nc", first), stock("gzip -nc", second)) else { return };
    for at in (0..damaged.len()).step_by(97) {
        for noise in [0x55, 0xff, 0] {
            let mut file = [&damaged[..], &good].concat();
            file[at..(at + 12).min(damaged.len())].fill(noise);
            let mut found = Vec::new();
            let losses = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut found).unwrap();
            assert!(!losses.is_empty() && found.ends_with(second), "{noise:x} at {at}: {losses:?}");
        }
    }
}

#[test]
fn a_file_with_several_names_is_salvaged_by_each_for_it_is_kept() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    fs::hard_link(scratch.path("sample.zst"), scratch.path("twin.zst")).unwrap();
    std::os::unix::fs::symlink("sample.zst", scratch.path("link.zst")).unwrap();
    for name in ["twin", "link"] {
        scratch.ok(&format!("--salvage {name}.zst"));
        assert!(scratch.read(name) == sample() && scratch.exists(&format!("{name}.zst")), "{name}");
    }
}

#[test]
fn no_more_is_invented_than_the_file_can_hold() {
    // 8 bytes are listed as a frame with 4 GiB, and the list is proven.
    let entry = [8_u32.to_le_bytes(), u32::MAX.to_le_bytes(), [0; 4]].concat();
    let hash = twox_hash::XxHash64::oneshot(0, &entry);
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0, 0, 0];
    file.extend([0x5d, 0x2a, 0x4d, 0x18, 20, 0, 0, 0]);
    file.extend(b"tamp");
    file.extend(1_u64.to_le_bytes());
    file.extend(hash.to_le_bytes());
    file.extend([0x5e, 0x2a, 0x4d, 0x18, 21, 0, 0, 0]);
    file.extend(&entry);
    file.extend([1, 0, 0, 0, 0x80, 0xb1, 0xea, 0x92, 0x8f]);
    assert_eq!(file.len(), 65);
    let mut counted = Counted(0);
    let salvaged = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut counted);
    assert!(salvaged.map_or(true, |losses| !losses.is_empty()));
    assert!(counted.0 <= 1 << 20, "{} bytes", counted.0);
    assert!(tamp::list(Cursor::new(&file), &ReadOptions::new(1)).is_err());
    // A frame that states 16 MB in its header; its first block does not decode.
    let mut file = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    file.extend(16_000_000_u32.to_le_bytes());
    file.extend([0x05, 0, 0, 0]);
    // The header of an LZ4 frame without blocks states 16 MB.
    let descriptor = [&[0x68, 0x70][..], &16_000_000_u64.to_le_bytes()].concat();
    let check = twox_hash::XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
    let lz4 = [&[0x04, 0x22, 0x4d, 0x18][..], &descriptor, &[check], &[0; 4]].concat();
    for file in [file, lz4] {
        let mut counted = Counted(0);
        let _ = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut counted);
        assert!(counted.0 <= 1 << 20, "{} bytes", counted.0);
    }
}

/// Counts the bytes written.
struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        assert!(self.0 < 64 << 20, "it writes without end");
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn zeros_in_the_place_of_lost_blocks_take_no_room() {
    let scratch = Scratch::new();
    let content = vec![b'a'; 64 << 20];
    let mut file = packed(&content, Format::Zst, 16 << 20);
    file[40] ^= 0xff;
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("--salvage -o out x.zst", 1, "");
    let found = fs::metadata(scratch.path("out")).unwrap();
    assert_eq!(found.len(), 64 << 20);
    assert!(found.blocks() * 512 <= 49 << 20, "{} sectors", found.blocks());
    scratch.fails("--salvage -f --no-sparse -o out x.zst", 1, "");
    assert!(fs::metadata(scratch.path("out")).unwrap().blocks() * 512 >= 64 << 20);
}

#[test]
fn an_lz4_frame_without_blocks_is_checked_like_any_other() {
    let scratch = Scratch::new();
    let frame = |flags: u8, stated: &[u8], ends: &[u8]| {
        let descriptor = [&[flags, 4 << 4][..], stated].concat();
        let check = twox_hash::XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
        [&[0x04, 0x22, 0x4D, 0x18][..], &descriptor, &[check], &[0; 4], ends].concat()
    };
    let sum = twox_hash::XxHash32::oneshot(0, b"").to_le_bytes();
    let wrong = [sum[0] ^ 1, sum[1], sum[2], sum[3]];
    // The header states 100,000 bytes; the checksum over no content is wrong.
    for file in [frame(0x68, &100_000_u64.to_le_bytes(), &[]), frame(0x64, &[], &wrong)] {
        fs::write(scratch.path("x.lz4"), &file).unwrap();
        scratch.fails("-t x.lz4", 1, "");
        assert_eq!(scratch.tamp_with("-t", &file).status.code(), Some(1));
        scratch.fails("--salvage -f -o out x.lz4", 1, "unreadable");
    }
    let file = frame(0x64, &[], &sum);
    fs::write(scratch.path("x.lz4"), &file).unwrap();
    scratch.ok("-t x.lz4");
    scratch.ok("--salvage -f -o out x.lz4");
}

#[test]
fn zeros_in_the_place_of_tiny_lz4_blocks_are_no_more_than_these_can_hold() {
    let scratch = Scratch::new();
    // Blocks of up to 4 MiB: a full one, a thousand that do not decode, a full one.
    let descriptor = [0x60_u8, 7 << 4];
    let check = twox_hash::XxHash32::oneshot(0, &descriptor).to_le_bytes()[1];
    let mut file = [&[0x04, 0x22, 0x4D, 0x18][..], &descriptor, &[check]].concat();
    let full = noise(4 << 20);
    let stored = |file: &mut Vec<u8>| {
        file.extend((1_u32 << 31 | 4 << 20).to_le_bytes());
        file.extend(&full);
    };
    stored(&mut file);
    for _ in 0..1000 {
        file.extend([5, 0, 0, 0, 0, 0, 0, 0, 0]);
    }
    stored(&mut file);
    file.extend([0; 4]);
    fs::write(scratch.path("x.lz4"), &file).unwrap();
    scratch.fails("--salvage -f -o out x.lz4", 1, "unknown amount");
    let bytes = fs::metadata(scratch.path("out")).unwrap().len();
    assert!(bytes <= (2 << 22) + 255 * 9000, "{bytes} bytes");
}

#[test]
fn only_a_file_that_ends_too_early_is_called_unfinished() {
    let scratch = Scratch::new();
    let whole = packed(&sample()[..200_000], Format::Zst, 16 << 10);
    let tail = 28 + 8 + 13 * 12 + 9;
    // Inside the list of frames, and inside the seek table: all content is there.
    for cut in [tail - 2, tail - 10, tail - 27, tail - 40, 5] {
        fs::write(scratch.path("x.zst"), &whole[..whole.len() - cut]).unwrap();
        let output = scratch.tamp("--salvage -f -o out x.zst");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("unfinished") && !said.contains("unknown amount"), "{cut}: {said}");
        assert!(scratch.read("out") == sample()[..200_000], "{cut}");
    }
    // A damaged frame in a whole file.
    for at in 0..16 {
        let mut file = whole.clone();
        file[at] ^= 0x80;
        fs::write(scratch.path("x.zst"), &file).unwrap();
        let said = text(&scratch.tamp("--salvage -f -o out x.zst").stderr);
        assert!(!said.contains("unfinished"), "byte {at}: {said}");
    }
}

#[test]
fn an_extra_field_that_looks_like_bgzf_does_not_mislead() {
    let scratch = Scratch::new();
    let Some(member) = stock("gzip -nc", &sample()) else { return };
    for stated in [40_u16, 3000, 0xffff] {
        let mut file = member[..3].to_vec();
        file.push(4);
        file.extend(&member[4..10]);
        file.extend([6, 0, b'B', b'C', 2, 0]);
        file.extend(stated.to_le_bytes());
        file.extend(&member[10..]);
        fs::write(scratch.path("x.gz"), &file).unwrap();
        for line in ["-dc x.gz", "-dc -T1 x.gz", "--salvage -c x.gz"] {
            assert!(scratch.ok(line) == sample(), "{stated}: {line}");
        }
    }
}

#[test]
fn names_that_move_the_cursor_are_escaped() {
    let scratch = Scratch::new();
    let name = "a\x1b]0;title\x07\nb";
    fs::write(scratch.path(name), b"not compressed").unwrap();
    fs::write(scratch.path("good"), b"content").unwrap();
    for arguments in [&["-dc"][..], &["-d"], &["-l"], &["-v", "-k"], &["-t"], &["--salvage", "-c"]] {
        let mut command = scratch.command("");
        let output = command.args(arguments).arg(name).output().unwrap();
        let said = [output.stderr, output.stdout].concat();
        assert!(!said.contains(&0x1b) && !said.contains(&7), "{arguments:?}: {}", text(&said));
        assert!(text(&said).contains("a\\x1b]0;title\\x07\\nb"), "{arguments:?}: {}", text(&said));
    }
}
