//! The command line: gzip's behavior, and errors.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "the tests of processes use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;
use std::io::{Seek, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[test]
fn a_file_is_replaced_and_comes_back_with_mode_and_time() {
    let scratch = Scratch::new();
    let path = scratch.path("sample");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::metadata(&path).unwrap();
    for (format, packed) in [("--zst", "sample.zst"), ("--lz4", "sample.lz4"), ("--bgzf", "sample.gz")] {
        scratch.ok(&format!("{format} sample"));
        scratch.holds_only(&[packed]);
        scratch.ok(&format!("-d {packed}"));
        scratch.holds_only(&["sample"]);
        assert!(scratch.read("sample") == sample());
        let after = fs::metadata(&path).unwrap();
        assert_eq!(
            (after.mode(), after.mtime(), after.mtime_nsec()),
            (before.mode(), before.mtime(), before.mtime_nsec())
        );
    }
}

#[test]
fn pipes_and_files_in_any_combination_give_the_same_content() {
    let scratch = Scratch::new();
    scratch.ok("-k sample -o file-to-file.zst");
    let from_file = scratch.ok("-c sample");
    let from_pipe = scratch.tamp_with("", &sample()).stdout;
    assert!(from_file == scratch.read("file-to-file.zst") && from_pipe == from_file);
    for line in ["-d -o out file-to-file.zst", "-d -T1 -f -o out file-to-file.zst"] {
        scratch.ok(line);
        assert!(scratch.read("out") == sample());
    }
    assert!(scratch.ok("-dc file-to-file.zst") == sample());
    assert!(scratch.tamp_with("-d", &from_pipe).stdout == sample());
    assert!(scratch.tamp_with("-d -T1 -", &from_pipe).stdout == sample());
}

#[test]
fn redirected_files_are_written_where_they_stand_and_holes_stay_out_of_old_bytes() {
    let scratch = Scratch::new();
    let content = [vec![b'a'; 100_000], vec![0; 1 << 20], vec![b'z'; 10]].concat();
    fs::write(scratch.path("zeros"), &content).unwrap();
    scratch.ok("-k zeros");
    let target = scratch.path("target");
    fs::write(&target, vec![7; 3 << 20]).unwrap();
    let mut file = fs::OpenOptions::new().read(true).write(true).open(&target).unwrap();
    std::io::Seek::seek(&mut file, std::io::SeekFrom::Start(5)).unwrap();
    let mut command = scratch.command("-dc zeros.zst");
    assert!(command.stdout(file.try_clone().unwrap()).status().unwrap().success());
    file.write_all(b"next").unwrap();
    let found = fs::read(&target).unwrap();
    assert!(found[..5] == [7; 5] && found[5..5 + content.len()] == content);
    assert_eq!(&found[5 + content.len()..9 + content.len()], b"next");
    assert_eq!(found.len(), 3 << 20);
    // Appending behind existing content.
    let appending = fs::OpenOptions::new().append(true).open(&target).unwrap();
    assert!(scratch.command("-dc zeros.zst").stdout(appending).status().unwrap().success());
    assert!(fs::read(&target).unwrap()[3 << 20..] == content);
}

#[test]
fn a_pipe_with_a_name_is_opened_once_so_that_a_quick_writer_is_not_missed() {
    let scratch = Scratch::new();
    assert!(Command::new("mkfifo").arg(scratch.path("pipe")).status().unwrap().success());
    for _ in 0..50 {
        let writing = std::thread::spawn({
            let path = scratch.path("pipe");
            move || fs::write(path, b"quick").unwrap()
        });
        let packed = scratch.ok("-c pipe");
        writing.join().unwrap();
        assert_eq!(scratch.tamp_with("-d", &packed).stdout, b"quick");
    }
}

#[test]
fn a_file_that_says_it_is_empty_is_read_to_its_end() {
    let scratch = Scratch::new();
    let content = fs::read("/proc/self/limits").unwrap();
    for line in ["--zst", "--lz4", "--bgzf"] {
        scratch.ok(&format!("{line} -k -f -o out /proc/self/limits"));
        assert!(scratch.ok("-d -c out").starts_with(&content[..20]), "{line}");
    }
}

#[test]
fn the_input_is_never_the_output() {
    let scratch = Scratch::new();
    symlink("sample", scratch.path("link")).unwrap();
    for line in [
        "-f -o sample sample",
        "-f -o link sample",
        "-d -f -o sample sample",
        "--salvage -f -o sample sample",
    ] {
        scratch.fails(line, 1, "sample: the output is the input itself");
    }
    let appending = fs::OpenOptions::new().append(true).open(scratch.path("sample")).unwrap();
    let output = scratch.command("-c sample").stdout(appending).output().unwrap();
    assert_eq!(text(&output.stderr), "tamp: sample: the output is the input itself\n");
    assert!(scratch.read("sample") == sample());
    fs::create_dir(scratch.path("folder")).unwrap();
    scratch.fails("-f -o folder sample", 1, "folder is a directory");
    scratch.holds_only(&["folder", "link", "sample"]);
}

#[test]
fn compressed_data_goes_to_a_terminal_only_by_force() {
    let scratch = Scratch::new();
    let tamp = env!("CARGO_BIN_EXE_tamp");
    fs::write(scratch.path("small"), b"content").unwrap();
    let on_terminal = |line: &str| {
        let mut script = Command::new("script");
        let line = format!("{tamp} {line}");
        script.args(["-qec", &line, "/dev/null"]).stdin(Stdio::null()).current_dir(scratch.folder.path());
        script.output()
    };
    for line in ["-c small", "-k -o /dev/stdout small", "-k -o /dev/fd/1 small", "-k -o /dev/tty small"] {
        let Ok(output) = on_terminal(line) else { return eprintln!("skipped: script is not installed") };
        let said = text(&output.stdout);
        assert!(said.contains("not written to a terminal"), "{line}: {said}");
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        let forced = on_terminal(&format!("-f {line}")).unwrap();
        assert!(forced.status.success(), "{line}: {}", text(&forced.stdout));
    }
    scratch.ok("-k small");
    assert_eq!(text(&on_terminal("-d -o /dev/stdout small.zst").unwrap().stdout), "content");
}

#[test]
fn an_existing_output_stays_unless_forced() {
    let scratch = Scratch::new();
    fs::write(scratch.path("sample.zst"), b"mine").unwrap();
    scratch.fails("sample", 2, "sample.zst already exists");
    assert_eq!(scratch.read("sample.zst"), b"mine");
    scratch.ok("-f sample");
    scratch.holds_only(&["sample.zst"]);
}

#[test]
fn what_gzip_passes_over_is_passed_over() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    symlink("sample", scratch.path("link")).unwrap();
    fs::hard_link(scratch.path("sample"), scratch.path("twin")).unwrap();
    fs::write(scratch.path("x.zst"), b"").unwrap();
    scratch.fails("folder", 2, "is a directory -- ignored");
    scratch.fails("link", 2, "is a symbolic link -- ignored");
    scratch.fails("sample", 2, "has 1 other link(s) -- unchanged");
    scratch.fails("x.zst", 2, "already has .zst suffix -- unchanged");
    fs::write(scratch.path("plain"), b"").unwrap();
    scratch.fails("-d plain", 2, "unknown suffix -- ignored");
    scratch.fails("missing", 1, "No such file");
    scratch.holds_only(&["folder", "link", "plain", "sample", "twin", "x.zst"]);
    scratch.fails("missing -c sample", 1, "missing");
    assert!(!scratch.ok("-c link").is_empty());
}

#[test]
fn wrong_options_are_told_with_exit_code_2() {
    let scratch = Scratch::new();
    for line in
        ["--nonsense", "-T", "-T x sample", "--range 5 sample", "--lz4 --bgzf sample", "-o a sample sample"]
    {
        let output = scratch.tamp(line);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(text(&output.stderr).starts_with("error: "), "{line}: {}", text(&output.stderr));
    }
    scratch.holds_only(&["sample"]);
}

#[test]
fn folders_are_walked_when_asked_and_walked_back() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.path("folder/deep")).unwrap();
    fs::write(scratch.path("folder/a"), b"a").unwrap();
    fs::write(scratch.path("folder/deep/b"), b"b").unwrap();
    fs::write(scratch.path("folder/done.zst"), b"kept as it is").unwrap();
    symlink("/", scratch.path("folder/deep/root")).unwrap();
    let output = scratch.tamp("-rq folder");
    assert_eq!(output.status.code(), Some(2), "the link is passed over: {}", text(&output.stderr));
    assert!(
        scratch.exists("folder/a.zst") && scratch.exists("folder/deep/b.zst") && !scratch.exists("folder/a")
    );
    fs::remove_file(scratch.path("folder/deep/root")).unwrap();
    fs::remove_file(scratch.path("folder/done.zst")).unwrap();
    scratch.ok("-dr folder");
    assert_eq!((scratch.read("folder/a"), scratch.read("folder/deep/b")), (b"a".to_vec(), b"b".to_vec()));
}

#[test]
fn testing_and_listing_tell_good_from_damaged() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    scratch.ok("-t sample.zst");
    let listed = text(&scratch.ok("-l sample.zst"));
    assert!(listed.contains("3200000") && listed.contains("yes  sample.zst"), "{listed}");
    let mut bytes = scratch.read("sample.zst");
    bytes[200_000] ^= 1;
    fs::write(scratch.path("sample.zst"), &bytes).unwrap();
    scratch.fails("-t sample.zst", 1, "sample.zst: byte ");
    scratch.fails("-d -o out sample.zst", 1, "try --salvage");
    scratch.holds_only(&["sample", "sample.zst"]);
}

#[test]
fn empty_input_and_trailing_garbage_are_what_they_are_for_gzip() {
    let scratch = Scratch::new();
    fs::write(scratch.path("empty"), b"").unwrap();
    for format in ["--zst", "--lz4", "--bgzf"] {
        for packed in [scratch.ok(&format!("-c {format} empty")), scratch.tamp_with(format, b"").stdout] {
            assert!(!packed.is_empty());
            let output = scratch.tamp_with("-d", &packed);
            assert!(output.status.success() && output.stdout.is_empty(), "{format}");
        }
    }
    scratch.ok("-k --bgzf sample");
    let garbage = [scratch.read("sample.gz"), b"garbage".to_vec()].concat();
    let output = scratch.tamp_with("-d", &garbage);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout == sample() && text(&output.stderr).contains("trailing garbage ignored"));
    let garbage = [scratch.ok("-c sample"), b"garbage".to_vec()].concat();
    let output = scratch.tamp_with("-d", &garbage);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout == sample() && text(&output.stderr).contains("not a .zst"));
    fs::write(scratch.path("cut.zst"), b"").unwrap();
    for line in ["-d cut.zst", "-t cut.zst", "-l cut.zst", "--salvage cut.zst", "-t"] {
        scratch.fails(line, 1, "the file is empty");
    }
    assert!(scratch.exists("cut.zst") && !scratch.exists("cut"));
}

#[test]
fn a_range_is_the_same_bytes_whatever_the_file() {
    let scratch = Scratch::new();
    scratch.ok("-k --zst sample");
    scratch.ok("-k --lz4 sample");
    scratch.ok("-k --bgzf sample");
    let linked = scratch.tamp_with("--lz4", &sample()).stdout;
    fs::write(scratch.path("unsized.lz4"), linked).unwrap();
    for file in ["sample.zst", "sample.lz4", "sample.gz", "unsized.lz4"] {
        for (range, expected) in [
            ("0:1", 0..1),
            ("262143:262145", 262_143..262_145),
            ("1MiB:2MiB", 1 << 20..2 << 20),
            ("3199990:", 3_199_990..3_200_000),
            ("3199999:9999999", 3_199_999..3_200_000),
            ("5:5", 5..5),
            ("3200000:", 3_200_000..3_200_000),
        ] {
            let found = scratch.ok(&format!("--range {range} {file}"));
            assert!(found == sample()[expected], "{file} {range}");
        }
        scratch.fails(&format!("--range 3200001: {file}"), 2, "the content ends at byte 3200000");
    }
}

#[test]
fn one_flipped_byte_loses_one_block_wherever_it_is() {
    let scratch = Scratch::new();
    for (make, file, block) in [
        ("-k --block-size 64KiB sample", "sample.zst", 64 << 10),
        ("-k --lz4 --block-size 64KiB sample", "sample.lz4", 64 << 10),
        ("-k --bgzf --block-size 64KiB sample", "sample.gz", 64 << 10),
    ] {
        scratch.ok(make);
        let whole = scratch.read(file);
        let step = whole.len() / 5;
        for at in (20..whole.len() - 64).step_by(step) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(scratch.path(file), &bytes).unwrap();
            let output = scratch.tamp(&format!("--salvage -f -k -o out {file}"));
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{file}, byte {at}: {said}");
            let found = scratch.read("out");
            // The content of the lost block is zeros, or missing if its size is unknown.
            let same = |a: &[u8], b: &[u8]| a.iter().zip(b).take_while(|(a, b)| a == b).count();
            let front = same(&found, &sample());
            let reversed = |bytes: &[u8]| bytes.iter().rev().copied().collect::<Vec<_>>();
            let back = same(&reversed(&found), &reversed(&sample()));
            assert!(front + back >= 3_200_000 - block, "{file}, byte {at}: {front} + {back}: {said}");
            assert!(said.contains("lost") || said.contains("no checksum proves"), "{said}");
        }
        fs::write(scratch.path(file), &whole).unwrap();
        assert_eq!(scratch.ok(&format!("--salvage -f -k -o out {file}")), b"");
        assert!(scratch.read("out") == sample());
    }
}

#[test]
fn of_a_cut_file_salvage_gives_all_whole_blocks() {
    let scratch = Scratch::new();
    for (make, file) in [
        ("-k --block-size 64KiB sample", "sample.zst"),
        ("-k --lz4 --block-size 64KiB sample", "sample.lz4"),
        ("-k --bgzf sample", "sample.gz"),
    ] {
        scratch.ok(make);
        let whole = scratch.read(file);
        fs::write(scratch.path(file), &whole[..whole.len() / 2]).unwrap();
        let output = scratch.tamp(&format!("--salvage -f -k -o out {file}"));
        assert_eq!(output.status.code(), Some(1), "{file}");
        let found = scratch.read("out");
        assert!(found.len() > 1_400_000 && sample().starts_with(&found), "{file}: {}", found.len());
        scratch.fails(&format!("-t {file}"), 1, "the file ends inside");
    }
}

#[test]
fn several_lz4_in_a_row_are_warned_of_because_old_lz4_reads_the_first_only() {
    let scratch = Scratch::new();
    let says = "several .lz4 files in a row";
    let warned = |line: &str, file: fs::File| {
        let output = scratch.command(line).stdout(file).output().unwrap();
        assert!(output.status.success(), "{line}");
        text(&output.stderr).matches(says).count()
    };
    let open = || fs::OpenOptions::new().append(true).create(true).open(scratch.path("row.lz4")).unwrap();
    assert_eq!(warned("-c --lz4 sample", open()), 0);
    assert_eq!(warned("-c --lz4 sample", open()), 1);
    assert_eq!(warned("-qc --lz4 sample", open()), 0);
    assert_eq!(warned("-c --zst sample", open()), 0);
    fs::copy(scratch.path("sample"), scratch.path("other")).unwrap();
    fs::create_dir(scratch.path("folder")).unwrap();
    for name in ["a", "b", "c"] {
        fs::copy(scratch.path("sample"), scratch.path(&format!("folder/{name}"))).unwrap();
    }
    for (line, count) in [
        ("-c --lz4 sample sample", 1),
        ("-c --lz4 sample other", 1),
        ("-rc --lz4 folder", 2),
        ("-rc --lz4 folder/a", 0),
        ("-c --lz4 missing sample", 0),
        ("-k --lz4 sample other", 0),
    ] {
        assert_eq!(text(&scratch.tamp(line).stderr).matches(says).count(), count, "{line}");
    }
    assert!(scratch.ok("-dc row.lz4") == sample().repeat(4));
}

#[test]
fn a_seek_table_that_lies_leaves_nothing_of_what_it_said() {
    let scratch = Scratch::new();
    fs::write(scratch.path("small"), b"0123456789").unwrap();
    let frame = |scratch: &Scratch| {
        let file = scratch.ok("-c small");
        file[..file.len() - 28 - 29].to_vec()
    };
    let mut file = [frame(&scratch), frame(&scratch)].concat();
    let frame_bytes = u32::try_from(file.len() / 2).unwrap();
    let words = [0x184D_2A5E, 25, frame_bytes, 1_000_000, frame_bytes, 10, 2];
    file.extend(words.into_iter().flat_map(u32::to_le_bytes));
    file.extend([0, 0xb1, 0xea, 0x92, 0x8f]);
    fs::write(scratch.path("lying.zst"), file).unwrap();
    for line in ["-f -k lying.zst", "-f -k --no-sparse lying.zst"] {
        // There is no end frame, either.
        scratch.fails(&format!("-d {line}"), 2, "unfinished");
        assert_eq!(scratch.read("lying"), b"01234567890123456789", "{line}");
    }
}

#[test]
fn the_file_that_a_killed_run_left_does_not_disturb_the_next_run() {
    let scratch = Scratch::new();
    let script = format!("touch .sample.zst.tamp-{:032x}; exec {} -k sample", 0, env!("CARGO_BIN_EXE_tamp"));
    let output =
        Command::new("sh").args(["-c", &script]).current_dir(scratch.folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(scratch.exists("sample.zst"));
}

#[test]
fn a_planted_link_is_replaced_and_never_followed() {
    let scratch = Scratch::new();
    for output in ["sample.zst", "other.zst"] {
        fs::write(scratch.path("victim"), "precious").unwrap();
        std::os::unix::fs::symlink("victim", scratch.path(output)).unwrap();
        scratch.ok(&format!("-f -k -o {output} sample"));
        assert_eq!(scratch.read("victim"), b"precious");
        assert!(!scratch.path(output).is_symlink());
    }
    // Another user's link to a device, which only root can create here.
    let device = scratch.path("device");
    std::os::unix::fs::symlink("/dev/null", &device).unwrap();
    if std::os::unix::fs::lchown(&device, Some(65_534), Some(65_534)).is_err() {
        return eprintln!("skipped: only root can make another user's link");
    }
    scratch.ok("-f -k -o device sample");
    assert!(!device.is_symlink());
}

#[test]
fn no_name_is_an_order_to_the_terminal() {
    let scratch = Scratch::new();
    let name = "a\u{1b}]0;owned\u{7}\u{9b}31m\u{202e}\nb";
    fs::write(scratch.path(name), sample()).unwrap();
    let run = |words: &[&str]| {
        let output = scratch.command("").args(words).stdin(Stdio::null()).output().unwrap();
        let printed = text(&output.stdout) + &text(&output.stderr);
        let is_order = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!printed.contains(is_order), "{words:?}: {printed:?}");
        assert!(printed.lines().all(|line| line != "b" && !line.starts_with("b:")), "{words:?}: {printed:?}");
    };
    let packed = format!("{name}.zst");
    run(&["-v", "-k", "--stats", name]);
    run(&["-k", name]);
    run(&["-l", &packed]);
    run(&["-t", "-v", &packed]);
    run(&["-d", name]);
    run(&[&format!("{name}-absent")]);
}

#[test]
fn holes_come_back_as_holes() {
    let scratch = Scratch::new();
    let path = scratch.path("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(256 << 20).unwrap();
    file.write_all_at(b"in the middle", 100 << 20).unwrap();
    drop(file);
    scratch.ok("sparse");
    assert!(fs::metadata(scratch.path("sparse.zst")).unwrap().len() < 1 << 20);
    scratch.ok("-d sparse.zst");
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 256 << 20);
    assert!(metadata.blocks() * 512 < 1 << 20, "{} sectors", metadata.blocks());
    let mut found = [0; 13];
    fs::File::open(&path).unwrap().read_exact_at(&mut found, 100 << 20).unwrap();
    assert_eq!(&found, b"in the middle");
}

#[test]
fn around_the_page_cache_everything_is_as_through_it() {
    let scratch = Scratch::new();
    for (line, packed) in [
        ("--zst", "sample.zst"),
        ("--zst --block-size 5000", "sample.zst"),
        ("--zst --keep-up", "sample.zst"),
        ("--lz4", "sample.lz4"),
        ("--bgzf", "sample.gz"),
    ] {
        scratch.ok(&format!("-k -f --direct {line} sample"));
        scratch.ok(&format!("-t --direct {packed}"));
        scratch.ok(&format!("-d -f --direct {packed} -o out"));
        assert!(scratch.read("out") == sample(), "{line}");
        assert!(scratch.ok(&format!("-dc --direct {packed}")) == sample(), "{line}");
        let range = scratch.ok(&format!("--direct --range 1000:1000001 {packed}"));
        assert!(range == sample()[1000..1_000_001], "{line}");
        assert!(scratch.ok(&format!("--direct --salvage -c {packed}")) == sample(), "{line}");
    }
}

#[test]
fn a_size_hint_that_proves_wrong_is_an_error_of_a_pipe_and_corrected_in_a_file() {
    let scratch = Scratch::new();
    let output = scratch.tamp_with("--lz4 --size-hint 5", b"123456");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("the size hint was 5 bytes, but the input had 6"));
    assert!(scratch.tamp_with("--lz4 --size-hint 6", b"123456").status.success());

    // In a file the header is written again.
    for hint in [0, 5, 600] {
        let output = scratch.tamp_with(&format!("-f -o hinted.lz4 --size-hint {hint}"), b"123456");
        assert!(output.status.success(), "{hint}: {}", text(&output.stderr));
        fs::write(scratch.path("onto.lz4"), scratch.ok("--lz4 -c sample")).unwrap();
        let onto = fs::OpenOptions::new().write(true).open(scratch.path("onto.lz4")).unwrap();
        (&onto).seek(std::io::SeekFrom::End(0)).unwrap();
        let mut command = scratch.command(&format!("-q --lz4 --size-hint {hint}"));
        let mut child = command.stdin(Stdio::piped()).stdout(onto).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"123456").unwrap();
        assert!(child.wait().unwrap().success(), "{hint}");
        assert_eq!(scratch.ok("-dc hinted.lz4"), b"123456", "{hint}");
        assert_eq!(scratch.ok("--range 4: hinted.lz4"), b"56", "{hint}");
        assert!(scratch.ok("-dc onto.lz4") == [&sample()[..], b"123456"].concat(), "{hint}");
    }
}

#[test]
fn an_error_of_the_output_is_one_line_and_leaves_the_input() {
    let scratch = Scratch::new();
    for line in ["-c sample", "-c -T1 sample", "-c --lz4 sample"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = scratch.command(line).stdout(full).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert_eq!(said, "tamp: sample: No space left on device (os error 28)\n");
    }
    scratch.holds_only(&["sample"]);
}

#[test]
fn a_folder_without_permission_is_one_line() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("locked")).unwrap();
    fs::write(scratch.path("locked/file"), b"content").unwrap();
    fs::set_permissions(scratch.path("locked/file"), fs::Permissions::from_mode(0o444)).unwrap();
    fs::set_permissions(scratch.path("locked"), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(scratch.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = scratch.path("binary");
    fs::copy(env!("CARGO_BIN_EXE_tamp"), &binary).unwrap();
    let mut command = Command::new(&binary);
    command.arg("locked/file").current_dir(scratch.folder.path());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        // Root may write everywhere, so run as another user.
        command.uid(65534).gid(65534);
    }
    // Between fork and exec, a child of another test has the copy open for writing.
    let mut tries = std::iter::repeat_with(|| command.output());
    let started = |tried: &std::io::Result<Output>| !matches!(tried, Err(error) if error.kind() == std::io::ErrorKind::ExecutableFileBusy);
    let output = tries.find(started).unwrap().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text(&output.stderr).contains("creating locked/file.zst: Permission denied"),
        "{}",
        text(&output.stderr)
    );
    assert!(Path::new(&scratch.path("locked/file")).exists());
    fs::set_permissions(scratch.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn called_by_other_names_it_does_what_they_say() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    for (name, arguments) in [("tampcat", "sample.zst"), ("untamp", "-c sample.zst")] {
        let mut command = scratch.command(arguments);
        command.arg0(name);
        assert!(command.output().unwrap().stdout == sample(), "{name}");
    }
    let output = scratch.command("-o named sample.zst").arg0("tampcat").output().unwrap();
    assert!(output.stdout.is_empty() && scratch.read("named") == sample(), "{}", text(&output.stderr));
    let plain = scratch.command("-f sample").arg0("tampcat").output().unwrap();
    assert!(plain.stdout == sample(), "as zcat -f: {}", text(&plain.stderr));
    assert!(scratch.tamp_with("-dcf", &sample()).stdout == sample(), "from a pipe, too");
    let empty = scratch.tamp_with("-dcf", b"");
    assert!(empty.status.success() && empty.stdout.is_empty(), "{}", text(&empty.stderr));
}

#[test]
fn no_list_follows_the_output_of_another_command() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    for line in
        ["-c --stats sample", "-c --stats=json sample", "--range 0:9 sample.zst", "--salvage -c sample.zst"]
    {
        let output = scratch.tamp(&format!("--json {line}"));
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(2), &b""[..]), "{line}");
        assert!(text(&output.stderr).contains("--json needs --list"), "{line}: {}", text(&output.stderr));
    }
}

#[test]
fn a_file_of_sysfs_has_the_size_that_is_read() {
    let Ok(content) = fs::read("/sys/class/net/lo/mtu") else {
        return println!("skipped: no sysfs");
    };
    let scratch = Scratch::new();
    for options in ["", "--lz4", "--bgzf", "--long", "--direct", "-T1"] {
        scratch.ok(&format!("{options} -f -o out /sys/class/net/lo/mtu"));
        assert_eq!(scratch.ok("-dc out"), content, "{options}");
    }
}
