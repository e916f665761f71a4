//! Stock tools read files of tamp, and tamp reads files of stock tools.
//!
//! Needs the Debian packages zstd, lz4, gzip, pigz and tabix (for bgzip); the test prints a skip for a
//! missing tool.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use tamp::{Format, Level, Options, Reader, Writer};

fn sample(bytes: usize) -> Vec<u8> {
    let mut text: Vec<u8> = (0..=bytes / 8).flat_map(|n| format!("{n:>7}\n").into_bytes()).collect();
    text.truncate(bytes);
    text
}

fn options(format: Format, level: u8) -> Options {
    let mut options = Options::of(format, Level::new(level).unwrap());
    options.threads = 2;
    options
}

fn packed(content: &[u8], options: &Options) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), options).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

fn is_installed(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        #[expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]
        {
            println!("skipped: {tool} is not installed");
        }
    }
    found
}

/// Pipes `input` through `command`, a tool and its arguments.
fn filter(command: &str, input: &[u8]) -> Vec<u8> {
    let mut words = command.split(' ');
    let mut child = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(input).unwrap());
        let mut output = Vec::new();
        child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
        output
    });
    assert!(child.wait().unwrap().success(), "{command}");
    output
}

/// Checks that `tool` reads all levels and all sizes around a block's, from a pipe and from a file.
fn check_read_by(format: Format, tool: &str, decompress: &str, test_file: &str) {
    if !is_installed(tool) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(format!("sample.{}", format.suffix()));
    for level in 0..=9 {
        let options = options(format, level);
        let block = options.block_bytes;
        let large = if level == 9 { vec![] } else { vec![block - 1, block, block + 1, 3 * block + 5] };
        for bytes in [vec![0, 1, 100_000], large].concat() {
            let content = sample(bytes);
            let file = packed(&content, &options);
            assert!(filter(decompress, &file) == content, "{format:?} level {level}, {bytes} bytes");
            std::fs::write(&path, &file).unwrap();
            let mut words = test_file.split(' ');
            let status =
                Command::new(words.next().unwrap()).args(words).arg(&path).stderr(Stdio::null()).status();
            assert!(status.unwrap().success(), "{test_file}: level {level}, {bytes} bytes");
        }
    }
}

/// Checks that tamp reads the output of `compress`, with one thread and with several.
fn check_reads(tool: &str, compress: &str, parallel: bool) {
    if !is_installed(tool) {
        return;
    }
    for bytes in [0, 1, 100_000, 5_000_001] {
        let content = sample(bytes);
        let file = filter(compress, &content);
        for threads in [1, 3] {
            let mut found = Vec::new();
            let mut reader = Reader::new(&file[..], threads);
            reader.read_to_end(&mut found).unwrap_or_else(|error| panic!("{compress}: {error}"));
            assert!(found == content, "{compress}: {bytes} bytes, {threads} threads");
            if threads > 1 && bytes > 1_000_000 {
                assert_eq!(reader.serial().is_none(), parallel, "{compress}: {:?}", reader.serial());
            }
        }
    }
}

#[test]
fn zstd_reads_what_tamp_writes() {
    check_read_by(Format::Zst, "zstd", "zstd -dcq", "zstd -tq");
}

#[test]
fn lz4_reads_what_tamp_writes() {
    check_read_by(Format::Lz4, "lz4", "lz4 -dcq", "lz4 -tq");
}

#[test]
fn gzip_reads_what_tamp_writes() {
    check_read_by(Format::Bgzf, "gzip", "gzip -dcq", "gzip -tq");
}

#[test]
fn bgzip_reads_what_tamp_writes() {
    check_read_by(Format::Bgzf, "bgzip", "bgzip -dc", "bgzip -t");
}

#[test]
fn pigz_reads_what_tamp_writes() {
    check_read_by(Format::Bgzf, "pigz", "pigz -dc", "pigz -t");
}

#[test]
fn what_zstd_writes_is_read() {
    check_reads("zstd", "zstd -qc", true);
    check_reads("zstd", "zstd -qc --no-check -B65536", true);
    check_reads("zstd", "zstd -qc --long=27 -19", false);
}

#[test]
fn what_pzstd_writes_is_read_in_parallel() {
    check_reads("pzstd", "pzstd -qc -p 2", true);
}

#[test]
fn what_lz4_writes_is_read_in_parallel_where_blocks_are_independent() {
    check_reads("lz4", "lz4 -qc", true);
    check_reads("lz4", "lz4 -qc -B4 -BX", true);
    check_reads("lz4", "lz4 -qc --no-frame-crc -9", true);
    check_reads("lz4", "lz4 -qcl", true);
    check_reads("lz4", "lz4 -qc -BD -B5", false);
    check_reads("lz4", "lz4 -qc -BD -B4 -BX", false);
}

#[test]
fn what_gzip_writes_is_read() {
    check_reads("gzip", "gzip -c", false);
}

#[test]
fn what_bgzip_writes_is_read_in_parallel() {
    check_reads("bgzip", "bgzip -c", true);
}

#[test]
fn what_pigz_writes_is_read_in_parallel_where_blocks_are_independent() {
    check_reads("pigz", "pigz -ci", true);
    check_reads("pigz", "pigz -c", false);
    check_reads("pigz", "pigz -ci -b 64", true);
}
