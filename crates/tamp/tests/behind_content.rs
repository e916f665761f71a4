//! The bytes behind the content of a file: the list of frames, the seek table, padding, garbage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;

/// Length of the list of frames and the seek table that tamp writes behind 16 frames.
const TAIL_BYTES: usize = 28 + 8 + 16 * 12 + 9;

/// Builds a file of 16 frames.
fn packed(scratch: &Scratch) -> Vec<u8> {
    fs::write(scratch.path("small"), content()).unwrap();
    scratch.ok("-c --block-size 64KiB small")
}

fn content() -> Vec<u8> {
    sample()[..1 << 20].to_vec()
}

#[test]
fn a_flipped_bit_in_the_list_of_frames_or_in_the_seek_table_is_told_and_loses_nothing() {
    let scratch = Scratch::new();
    let whole = packed(&scratch);
    let tail_at = whole.len() - TAIL_BYTES;
    for at in (tail_at..tail_at + 40)
        .chain((tail_at + 40..whole.len() - 9).step_by(11))
        .chain(whole.len() - 9..whole.len())
    {
        let mut file = whole.clone();
        file[at] ^= 1 << (at % 8);
        fs::write(scratch.path("x.zst"), &file).unwrap();
        let part = if at < tail_at + 28 { "the list of frames" } else { "the seek table" };
        let says = format!("{part} is damaged; all content");
        scratch.fails("-t x.zst", 1, &says);
        scratch.fails("-d -k -f --no-sync x.zst", 2, &says);
        assert!(scratch.read("x") == content(), "byte {at}");
        scratch.fails("-l x.zst", 1, "is damaged; all content");
        assert!(scratch.ok("--range 300000:800000 x.zst") == content()[300_000..800_000], "byte {at}");
        scratch.fails("--salvage -f x.zst", 1, &says);
        assert!(scratch.read("x") == content(), "byte {at}");
    }
    // From a pipe; the input stays.
    let mut file = whole.clone();
    file[tail_at + 60] ^= 1;
    let output = scratch.tamp_with("-d", &file);
    assert_eq!((output.status.code(), output.stdout == content()), (Some(2), true));
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("-d -f x.zst", 2, "the seek table is damaged");
    assert!(scratch.exists("x.zst"));
    // A file that is also unfinished is reported as such.
    fs::write(scratch.path("x.zst"), [&file[..], &whole[..tail_at]].concat()).unwrap();
    scratch.fails("-t x.zst", 1, "unfinished");
}

#[test]
fn damage_in_the_list_and_in_the_table_is_damage_of_the_frames() {
    let scratch = Scratch::new();
    let mut file = packed(&scratch);
    let tail_at = file.len() - TAIL_BYTES;
    file[tail_at + 21] ^= 1;
    file[tail_at + 60] ^= 1;
    fs::write(scratch.path("x.zst"), &file).unwrap();
    scratch.fails("-t x.zst", 1, "frames before it are missing, repeated");
    scratch.fails("-d x.zst", 1, "frames before it are missing, repeated");
}

#[test]
fn zeros_behind_a_zst_are_ignored_with_a_warning() {
    let scratch = Scratch::new();
    let whole = packed(&scratch);
    for zeros in [1, 7, 5000, 200_000] {
        let file = [&whole[..], &vec![0; zeros]].concat();
        fs::write(scratch.path("x.zst"), &file).unwrap();
        let says = format!("tamp: x.zst: trailing garbage ignored from byte {}\n", whole.len());
        for line in ["-t x.zst", "-t -T1 x.zst", "-d -f --no-sync x.zst", "--salvage -f x.zst"] {
            let output = scratch.tamp(line);
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), says.clone()), "{line}");
        }
        assert!(scratch.exists("x.zst") && scratch.read("x") == content());
        scratch.fails("-l x.zst", 2, &says);
        let mut damaged = file.clone();
        damaged[2000] ^= 1;
        fs::write(scratch.path("x.zst"), &damaged).unwrap();
        scratch.fails("-t x.zst", 1, "try --salvage");
        let output = scratch.tamp("--salvage -f x.zst");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(!said.contains("unfinished") && !said.contains("searching"), "{said}");
        let found = scratch.read("x");
        assert!(found.len() == content().len() && found[64 << 10..] == content()[64 << 10..]);
    }
    // In lz4, zeros could be the end of a frame that lost its blocks.
    scratch.ok("-f --lz4 -k small");
    fs::write(scratch.path("x.lz4"), [&scratch.read("small.lz4")[..], &[0; 100]].concat()).unwrap();
    scratch.fails("-t x.lz4", 1, "not a .zst");
    // A file with zeros in the place of its tail is unfinished.
    let mut cut = whole.clone();
    let end = cut.len();
    cut[end - TAIL_BYTES..].fill(0);
    fs::write(scratch.path("x.zst"), &cut).unwrap();
    scratch.fails("-t x.zst", 1, "unfinished");
    scratch.fails("--salvage -f x.zst", 1, "unfinished");
}

#[test]
fn garbage_behind_gzip_ends_every_mode_alike() {
    let scratch = Scratch::new();
    for garbage in ["g", "garbage", "\0\0garbage that is longer than a trailer"] {
        let file = [&scratch.ok("-c --bgzf sample")[..], garbage.as_bytes()].concat();
        fs::write(scratch.path("x.gz"), &file).unwrap();
        let at = file.len() - garbage.trim_start_matches('\0').len();
        let says = format!("tamp: x.gz: trailing garbage ignored from byte {at}\n");
        for line in ["-t x.gz", "-d -f --no-sync x.gz", "--salvage -f x.gz"] {
            let output = scratch.tamp(line);
            assert_eq!((output.status.code(), text(&output.stderr)), (Some(2), says.clone()), "{line}");
            assert!(scratch.exists("x.gz"));
        }
        scratch.fails("-l x.gz", 2, &says);
        assert!(scratch.read("x") == sample());
    }
}
