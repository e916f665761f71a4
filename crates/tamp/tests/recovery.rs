//! Damaged, unfinished and misleading files, on the command line.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use tamp::{Format, Level, Options, Writer};

/// Output of `command` for `input`; `None`, with a printed skip, if it is not installed.
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

/// Bytes that do not compress.
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
        // Cut at the end of a block, as by a kill between two writes.
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
fn a_flipped_bit_in_the_seek_table_never_misleads() {
    let scratch = Scratch::new();
    let whole = packed(&sample()[..1 << 20], Format::Zst, 64 << 10);
    let tail = whole.len() - (28 + 8 + 16 * 12 + 9);
    for at in (tail..whole.len()).step_by(3) {
        let mut file = whole.clone();
        file[at] ^= 1 << (at % 8);
        fs::write(scratch.path("x.zst"), &file).unwrap();
        let output = scratch.tamp("--range 300000:800000 x.zst");
        let is_right = output.stdout == sample()[300_000..800_000];
        assert!(is_right || !output.status.success(), "byte {at}: {}", text(&output.stderr));
        scratch.tamp("--salvage -f x.zst");
        assert!(scratch.read("x") == sample()[..1 << 20], "byte {at}");
    }
}

#[test]
fn frames_that_changed_places_are_noticed_though_each_is_right() {
    let scratch = Scratch::new();
    // Frames of the same length each.
    let whole = packed(&noise(1 << 20), Format::Zst, 64 << 10);
    let tail = 28 + 8 + 16 * 12 + 9;
    let frame = (whole.len() - tail) / 16;
    let mut file = whole.clone();
    let (first, second) = file.split_at_mut(5 * frame);
    first[2 * frame..3 * frame].swap_with_slice(&mut second[..frame]);
    assert!(file != whole);
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("-t x.zst", 1, "not those that were written");
    scratch.fails("-dk x.zst", 1, "not those that were written");
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
    // Short blocks amid full ones.
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
        // Damage at the front leaves everything behind it unchanged.
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

#[test]
fn a_closed_descriptor_is_an_error_not_a_success() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    let tamp = env!("CARGO_BIN_EXE_tamp");
    for (line, says) in [
        (format!("{tamp} -c sample >&-"), "standard output is closed"),
        (format!("{tamp} -dc sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} -l sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} --range 1:5 sample.zst >&-"), "standard output is closed"),
        (format!("{tamp} <&-"), "standard input is closed"),
        (format!("{tamp} -d <&-"), "standard input is closed"),
    ] {
        let output =
            Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(text(&output.stderr).contains(says), "{line}: {}", text(&output.stderr));
    }
    // A descriptor that is not needed may be closed.
    let line = format!("{tamp} -t sample.zst >&- <&- && {tamp} -kf sample >&- <&-");
    let output = Command::new("sh").args(["-c", &line]).current_dir(scratch.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn root_the_links_in_dev_are_written_through_not_replaced() {
    if !rustix_is_root() {
        println!("skipped: a folder of devices to try it on needs root");
        return;
    }
    let scratch = Scratch::new();
    let tamp = env!("CARGO_BIN_EXE_tamp");
    let script = format!(
        "mount -t tmpfs none /dev && ln -s /proc/self/fd /dev/fd && ln -s /proc/self/fd/1 /dev/stdout && \
         {tamp} -f -o /dev/stdout sample >out.zst && cp sample three.zst && \
         {tamp} -kf -o /dev/fd/3 sample 3<>three.zst && ! {tamp} -kq -o /dev/fd/3 sample 3<>three.zst && \
         test -L /dev/stdout && test -L /dev/fd && ls -A /dev"
    );
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .current_dir(scratch.folder.path())
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "fd\nstdout\n");
    for name in ["out.zst", "three.zst"] {
        assert!(scratch.ok(&format!("-dc {name}")) == sample(), "{name}");
    }
}

fn rustix_is_root() -> bool {
    fs::metadata("/proc/self").unwrap().uid() == 0
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
fn bytes_are_counted_once_when_an_index_misleads() {
    let scratch = Scratch::new();
    let mut options = Options::of(Format::Lz4, Level::USUAL);
    (options.threads, options.block_bytes) = (1, 64 << 10);
    let mut writer = Writer::new(Vec::new(), &options).unwrap();
    // The index takes every block but the last for a full one.
    writer.write_all(&sample()[..100_000]).unwrap();
    writer.flush().unwrap();
    writer.write_all(&sample()[100_000..]).unwrap();
    fs::write(scratch.path("short.lz4"), writer.finish().unwrap()).unwrap();
    let said = text(&scratch.tamp("-dvk short.lz4").stderr);
    assert!(said.contains("of 3.1 MiB"), "{said}");
    assert!(scratch.read("short") == sample());
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
