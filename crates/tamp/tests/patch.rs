//! Frames that refer to another file, by `--patch-from`: ranges, lists, and salvage.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;

/// Creates `old`, `new` and the patch between them, `new.zst`; returns `new`.
fn patch(scratch: &Scratch) -> Vec<u8> {
    let old = sample();
    let added: Vec<u8> = (0..60_000_u32)
        .flat_map(|n| {
            format!("{:x} {:x}\n", n.wrapping_mul(0x9E37_79B1), n.wrapping_mul(0x85EB_CA6B)).into_bytes()
        })
        .collect();
    let new = [&old[..1 << 20], &added, &old[2 << 20..]].concat();
    fs::write(scratch.path("old"), old).unwrap();
    fs::write(scratch.path("new"), &new).unwrap();
    scratch.ok("-k --patch-from old new");
    new
}

#[test]
fn a_range_and_a_list_of_a_patch() {
    let scratch = Scratch::new();
    let new = patch(&scratch);
    let bytes = new.len();
    for (range, expected) in [
        ("0:10", &new[..10]),
        ("1000000:2300000", &new[1_000_000..2_300_000]),
        (":", &new[..]),
        ("1500000:1500000", &[]),
        ("1500000:", &new[1_500_000..]),
    ] {
        assert!(scratch.ok(&format!("--range {range} --patch-from old new.zst")) == expected, "{range}");
    }
    scratch.fails(&format!("--range {}: --patch-from old new.zst", bytes + 1), 2, "before the range begins");
    let listed = text(&scratch.ok("-lq --patch-from old new.zst"));
    assert!(listed.contains(&format!(" {bytes} ")), "{listed}");
    let listed = text(&scratch.ok("-l --json --patch-from old new.zst"));
    assert!(listed.contains(&format!("\"content_bytes\":{bytes}")), "{listed}");
}

#[test]
fn of_a_damaged_patch_all_before_the_damage_is_written() {
    let scratch = Scratch::new();
    let new = patch(&scratch);
    assert!(scratch.ok("--salvage -c --patch-from old new.zst") == new);
    let whole = scratch.read("new.zst");
    let mut file = whole.clone();
    let at = file.len() * 3 / 4;
    file[at..at + 20].fill(0x55);
    for damaged in [&file, &whole[..at].to_vec()] {
        fs::write(scratch.path("x.zst"), damaged).unwrap();
        let output = scratch.tamp("--salvage -c --patch-from old x.zst");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("no checksum proves them"), "{said}");
        assert_eq!(said.contains("unfinished"), damaged.len() < whole.len(), "{said}");
        let right = output.stdout.iter().zip(&new).take_while(|(a, b)| a == b).count();
        assert!(right > 1 << 20, "{right} of {} bytes", output.stdout.len());
        assert!(scratch.exists("x.zst"));
    }
}

#[test]
fn a_damaged_patch_does_not_take_the_next_one_with_it() {
    let scratch = Scratch::new();
    let new = patch(&scratch);
    let patch = scratch.read("new.zst");
    let mut damaged = patch.clone();
    let at = patch.len() / 2;
    damaged[at..at + 20].fill(0x55);
    for parts in [[&damaged[..], &patch], [&patch, &damaged]] {
        fs::write(scratch.path("x.zst"), parts.concat()).unwrap();
        let output = scratch.tamp("--salvage -c --patch-from old x.zst");
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        let is_last = parts[1] == patch;
        let has_good = if is_last { output.stdout.ends_with(&new) } else { output.stdout.starts_with(&new) };
        assert!(has_good && said.contains("no checksum proves them"), "{said}");
        // Zeros replace lost content, because the frame states its size.
        assert_eq!(output.stdout.len(), 2 * new.len(), "{said}");
    }
}

#[test]
fn zeros_behind_a_patch_are_ignored_as_behind_every_zst() {
    let scratch = Scratch::new();
    let new = patch(&scratch);
    let padded = [scratch.read("new.zst"), vec![0; 5000]].concat();
    let at = padded.len() - 5000;
    fs::write(scratch.path("x.zst"), &padded).unwrap();
    let says = format!("trailing garbage ignored from byte {at}");
    scratch.fails("-t --patch-from old x.zst", 2, &says);
    scratch.fails("-l --patch-from old x.zst", 2, &says);
    for line in ["-d -o out", "--salvage -f -o out"] {
        scratch.fails(&format!("{line} --patch-from old x.zst"), 2, &says);
        assert!(scratch.read("out") == new, "{line}");
    }
    assert!(scratch.ok("--range 7: --patch-from old x.zst") == new[7..]);
    let listed = scratch.tamp("-l --json --patch-from old x.zst").stdout;
    let listed: serde_json::Value = serde_json::from_slice(&listed).unwrap();
    assert_eq!(listed["files"][0]["trailing_garbage_at"], at);
    // Only zeros are ignored.
    fs::write(scratch.path("x.zst"), [&padded[..], b"x"].concat()).unwrap();
    scratch.fails("-t --patch-from old x.zst", 1, &format!("byte {at}"));
}

#[test]
fn the_file_that_the_output_needs_is_neither_removed_nor_replaced() {
    let scratch = Scratch::new();
    let new = patch(&scratch);
    let old = scratch.read("old");
    let dictionary = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/formats/dictionary");
    fs::create_dir(scratch.path("logs")).unwrap();
    fs::copy(dictionary, scratch.path("logs/dict")).unwrap();
    fs::write(scratch.path("logs/log"), b"a line\n").unwrap();
    let removes = [
        ("--patch-from old old", "old: is the file of --patch-from -- unchanged"),
        ("--patch-from old --rm -o x.zst old", "old: is the file of --patch-from -- unchanged"),
        ("-f --patch-from ./old ../$/old", "old: is the file of --patch-from -- unchanged"),
        ("-r -D logs/dict logs", "logs/dict: is the file of -D -- unchanged"),
        ("-d --patch-from new.zst new.zst", "new.zst: is the file of --patch-from -- unchanged"),
    ];
    let folder = scratch.folder.path().file_name().unwrap().to_str().unwrap();
    for (line, says) in removes {
        scratch.fails(&line.replace('$', folder), 2, says);
        assert!(scratch.read("old") == old && scratch.exists("logs/dict"), "{line}");
        assert!(!scratch.exists("old.zst") && !scratch.exists("x.zst"), "{line}");
    }
    // The other files of the folder are compressed.
    assert!(scratch.exists("logs/log.zst") && !scratch.exists("logs/log"));
    fs::copy(scratch.path("old"), scratch.path("new.zst")).unwrap();
    for line in
        ["-f --patch-from old new -o old", "-f --patch-from new.zst new", "-f -D logs/dict new -o logs/dict"]
    {
        scratch.fails(line, 1, "reading the output needs that file");
        assert!(
            scratch.read("old") == old && scratch.read("new.zst") == old && scratch.read("new") == new,
            "{line}"
        );
    }
    assert_eq!(scratch.read("logs/dict"), fs::read(dictionary).unwrap());
    let appended = fs::OpenOptions::new().append(true).open(scratch.path("old")).unwrap();
    let status = scratch.command("-c --patch-from old new").stdout(appended).output().unwrap().status;
    assert!(status.code() == Some(1) && scratch.read("old") == old);
    // Content may replace it: no compressed file that is left needs it.
    fs::remove_file(scratch.path("new.zst")).unwrap();
    scratch.ok("--patch-from old new");
    scratch.ok("-d -f --patch-from old -o old new.zst");
    assert!(scratch.read("old") == new);
}
