//! Every format that tamp ever wrote, and the formats of stock tools that it reads, stay readable.
//!
//! `testdata/formats` holds one file of each: the content below, packed by tamp and by stock tools. A new
//! format adds a file; existing files never change. `testdata/damaged` holds files that tamp once read wrong.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use tamp::{Dictionary, Listing, Meter, ReadOptions, Reader, SeekReader};

/// Content of each file.
fn content() -> Vec<u8> {
    (0..20_000).flat_map(|n| format!("{:>7}\n", n / 100 * 7919).into_bytes()).collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata")
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder().join("formats").join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Files with the container that `-l` prints, the number of their blocks if they state it, and whether they
/// allow random access.
const FILES: [(&str, &str, Option<u64>, bool); 25] = [
    // Without the list of frames that tamp writes since November 2026.
    ("tamp-no-end-frame.zst", "zst", Some(3), true),
    ("tamp.zst", "zst", Some(3), true),
    ("tamp-9.zst", "zst", Some(3), true),
    ("tamp-rsyncable.zst", "zst", Some(6), true),
    ("tamp-long.zst", "zst", Some(1), true),
    ("tamp-dictionary.zst", "zst", Some(1), true),
    ("tamp.lz4", "lz4", Some(3), true),
    ("tamp.gz", "gz", Some(3), true),
    ("zstd.zst", "zst", Some(1), true),
    ("zstd-no-check.zst", "zst", Some(1), true),
    ("zstd-long.zst", "zst", None, false),
    ("zstd-dictionary.zst", "zst", Some(1), true),
    ("pzstd.zst", "zst", None, false),
    ("lz4.lz4", "lz4", None, false),
    ("lz4-block-checksums.lz4", "lz4", None, false),
    ("lz4-content-size.lz4", "lz4", Some(3), true),
    ("lz4-linked.lz4", "lz4", None, false),
    ("lz4-no-checksum.lz4", "lz4", None, false),
    ("lz4-legacy.lz4", "lz4", None, false),
    ("gzip.gz", "gz", None, false),
    ("gzip-name.gz", "gz", None, false),
    ("pigz.gz", "gz", None, false),
    ("pigz-independent.gz", "gz", None, false),
    ("pigz.zz", "zlib", None, false),
    ("bgzip.gz", "gz", Some(3), true),
];

/// Options for reading the file of this name.
fn options(name: &str, threads: usize) -> ReadOptions {
    let mut options = ReadOptions::new(threads);
    if name.contains("dictionary") {
        options.dictionary = Some(Dictionary::new(file("dictionary")).unwrap());
    }
    options
}

fn check_reads(name: &str, file: &[u8], listed: (&str, Option<u64>, bool)) {
    let content = content();
    for threads in [1, 3] {
        let mut found = Vec::new();
        let mut reader = Reader::with_options(file, &options(name, threads), Arc::default());
        reader.read_to_end(&mut found).unwrap_or_else(|error| panic!("{name}, {threads} threads: {error}"));
        assert!(found == content, "{name}: {threads} threads");
    }
    let options = options(name, 1);
    let mut salvaged = Vec::new();
    let losses = tamp::salvage(Cursor::new(file), &options, &mut salvaged).unwrap();
    assert!(losses.is_empty() && salvaged == content, "{name}: {losses:?}");
    let Listing { container, blocks, is_seekable, content_bytes, unfinished, .. } =
        tamp::list(Cursor::new(file), &options).unwrap();
    assert_eq!((container, blocks, is_seekable), listed, "{name}");
    assert_eq!((content_bytes, unfinished), (content.len() as u64, None), "{name}");
    let reader = SeekReader::with_options(Cursor::new(file), &options);
    assert_eq!(reader.is_ok(), is_seekable, "{name}");
    if let Ok(mut reader) = reader {
        let (mut found, at) = ([0; 1000], 99_500);
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        reader.read_exact(&mut found).unwrap();
        assert!(found == content[at..at + 1000], "{name}");
    }
}

#[test]
fn every_format_that_was_ever_written_is_read() {
    for (name, container, blocks, is_seekable) in FILES {
        check_reads(name, &file(name), (container, blocks, is_seekable));
    }
}

#[test]
fn a_patch_is_read_with_the_file_that_it_refers_to() {
    let content = content();
    for name in ["tamp-patch.zst", "zstd-patch.zst"] {
        let (mut found, memory) = (Vec::new(), ReadOptions::MEMORY_BYTES_USUAL);
        let meter = Meter::new();
        tamp::decompress_frame(
            &mut &file(name)[..],
            &mut found,
            &content[..100_000],
            memory,
            &meter,
            &mut || {},
        )
        .unwrap();
        assert!(found == content, "{name}");
    }
}

#[test]
fn no_fixture_is_left_out() {
    let known: Vec<&str> = FILES.iter().map(|(name, ..)| *name).collect();
    for entry in std::fs::read_dir(folder().join("formats")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_other = name == "dictionary" || name.ends_with("-patch.zst");
        assert!(is_other || known.contains(&&*name), "{name} is in no test");
    }
}

#[test]
fn the_command_reads_each_of_them() {
    let dictionary = folder().join("formats/dictionary");
    for (name, ..) in FILES {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamp"));
        command.arg("-dc").arg(folder().join("formats").join(name));
        if name.contains("dictionary") {
            command.arg("-D").arg(&dictionary);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && output.stdout == content(), "{name}: {said}");
    }
}

#[test]
fn a_file_that_was_once_read_wrong_is_an_error_and_salvage_reports_a_loss() {
    let content = content();
    for entry in std::fs::read_dir(folder().join("damaged")).unwrap() {
        let path = entry.unwrap().path();
        let (name, file) = (path.display(), std::fs::read(&path).unwrap());
        let mut found = Vec::new();
        let error = Reader::new(&file[..], 1).read_to_end(&mut found).unwrap_err().to_string();
        let is_unfinished = path.file_name().unwrap().to_string_lossy().contains("unfinished");
        assert_eq!(error.contains("unfinished"), is_unfinished, "{name}: {error}");
        let mut salvaged = Vec::new();
        let losses = tamp::salvage(Cursor::new(&file), &ReadOptions::new(1), &mut salvaged).unwrap();
        assert!(!losses.is_empty(), "{name}");
        let right = content.iter().zip(&salvaged).filter(|(a, b)| a == b).count();
        assert!(right > content.len() / 4, "{name}: {right} bytes are right, {losses:?}");
    }
}
