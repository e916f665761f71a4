//! Options of zstd, lz4, pigz and bgzip: long ranges, dictionaries, patches, zlib, suffixes, lists.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "other tests use the rest")]
mod scratch;

use scratch::{Scratch, sample, text};
use std::fs;
use std::process::{Command, Stdio};

/// Whether `tool` is installed; prints a skip if not.
fn has(tool: &str) -> bool {
    let found =
        Command::new(tool).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    #[expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]
    if !found {
        println!("skipped: {tool} is not installed");
    }
    found
}

fn run(scratch: &Scratch, line: &str) -> Vec<u8> {
    let output = Command::new("sh").args(["-c", line]).current_dir(scratch.folder.path()).output().unwrap();
    assert!(output.status.success(), "{line}: {}", text(&output.stderr));
    output.stdout
}

/// Returns bytes that compress only where they repeat.
fn noise(bytes: u64) -> Vec<u8> {
    let mut state = 7_u64;
    (0..bytes / 8)
        .flat_map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state ^ (state >> 29)).to_le_bytes()
        })
        .collect()
}

#[test]
fn a_long_range_finds_what_came_megabytes_ago() {
    let scratch = Scratch::new();
    let content = noise(1_500_000).repeat(8);
    fs::write(scratch.path("x"), &content).unwrap();
    scratch.ok("-k --long x");
    let long = scratch.read("x.zst").len();
    assert!(long < 1_700_000, "{long}");
    assert!(scratch.ok("-dc x.zst") == content);
    let piped = scratch.tamp_with("--long=23 -c", &content).stdout;
    assert!(piped.len() < 1_700_000 && scratch.tamp_with("-d", &piped).stdout == content);
    // The input is removed after the frame was verified.
    scratch.ok("-f --long x");
    assert!(!scratch.exists("x") && scratch.read("x.zst").len() == long);
    if has("zstd") {
        assert!(run(&scratch, "zstd -dcq x.zst") == content);
        let zstd = run(&scratch, "zstd -dcq x.zst | zstd -qc --long -1 --single-thread").len();
        assert!(long * 100 <= zstd * 102, "{long} and zstd {zstd}");
    }
}

#[test]
fn a_large_window_is_read_only_with_the_memory_for_it() {
    let scratch = Scratch::new();
    if !has("zstd") {
        return;
    }
    // From a stream, so the header states the window and not the content.
    let large = sample().repeat(7);
    fs::write(scratch.path("large"), &large).unwrap();
    run(&scratch, "cat large | zstd -qc --long=30 >x.zst");
    scratch.fails("-dc x.zst", 1, "--memory=1024MiB");
    scratch.fails("--salvage -c x.zst", 1, "--memory");
    scratch.fails("-dc --long=29 x.zst", 1, "--memory=1024MiB");
    // A typed limit overrides the window that --long allows, as in zstd.
    scratch.fails("-dc --long=30 --memory=512MiB x.zst", 1, "--memory=1024MiB");
    for line in ["--memory=1GiB", "--long=30", "--long=31 -T1"] {
        assert!(scratch.ok(&format!("-dc {line} x.zst")) == large, "{line}");
    }
    scratch.ok("-t --long=30 x.zst");
    // A window below the default does not lower the limit.
    run(&scratch, "cat large | zstd -qc --long=26 >y.zst");
    assert!(scratch.ok("-dc --long=20 y.zst") == large);
    let limited = scratch.command("-dc --long=30 x.zst").env("TAMP_MEMORY", "64MiB").output().unwrap();
    assert!(limited.stdout == large, "{}", text(&limited.stderr));
    assert!(scratch.ok("--salvage -c --memory=1GiB x.zst") == large);
}

#[test]
fn a_long_range_is_verified_wherever_it_goes() {
    let scratch = Scratch::new();
    let content = noise(600_000).repeat(3);
    fs::write(scratch.path("x"), &content).unwrap();
    for line in ["--long --verify -c x", "--long=20 --verify -c -9 x", "--patch-from sample --verify -c x"] {
        let piped = scratch.ok(line);
        let file = fs::File::create(scratch.path("out")).unwrap();
        let output = scratch.command(line).stdout(file).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
        assert!(scratch.read("out") == piped, "{line}");
        let patch = if line.contains("patch") { "--patch-from sample" } else { "" };
        assert!(scratch.ok(&format!("-dc {patch} out")) == content, "{line}");
    }
    let empty = scratch.tamp_with("--long --verify", b"");
    assert!(empty.status.success() && scratch.tamp_with("-d", &empty.stdout).stdout.is_empty());
}

#[test]
fn a_suffix_that_names_a_format_chooses_it_unless_an_option_does() {
    let scratch = Scratch::new();
    for (suffix, magic) in [
        ("lz4", [4, 0x22, 0x4d, 0x18]),
        (".tlz4", [4, 0x22, 0x4d, 0x18]),
        ("old.gz", [0x1f, 0x8b, 8, 4]),
        ("zst", [0x28, 0xb5, 0x2f, 0xfd]),
        ("packed", [0x28, 0xb5, 0x2f, 0xfd]),
    ] {
        scratch.ok(&format!("-k -S {suffix} sample"));
        assert_eq!(
            scratch.read(&format!("sample.{}", suffix.trim_start_matches('.')))[..4],
            magic,
            "{suffix}"
        );
    }
    for line in ["--zst -S lz4", "--long -S lz4", "--lz4 -S gz", "-S zz", "-o x.zlib"] {
        let output = scratch.tamp(&format!("-f -k {line} sample"));
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("but its name is that of a"), "{line}: {said}");
    }
    // Only the name of the output file counts.
    assert_eq!(scratch.ok("-c -S lz4 sample")[..4], [0x28, 0xb5, 0x2f, 0xfd]);
    scratch.ok("-k -f -S lz4 -o x.zst sample");
    assert_eq!(scratch.read("x.zst")[..4], [0x28, 0xb5, 0x2f, 0xfd]);
}

#[test]
fn suffixes_of_compressed_files_are_known_in_both_directions() {
    let scratch = Scratch::new();
    for (suffix, content) in [
        ("zst", "x"),
        ("tzst", "x.tar"),
        ("lz4", "x"),
        ("tlz4", "x.tar"),
        ("gz", "x"),
        ("tgz", "x.tar"),
        ("bgz", "x"),
        ("GZ", "x"),
    ] {
        let name = format!("x.{suffix}");
        scratch.ok(&format!("-f -o {name} sample"));
        scratch.fails(&name, 2, "already has");
        scratch.ok(&format!("-d -f {name}"));
        assert!(scratch.read(content) == sample(), "{name}");
    }
    fs::write(scratch.path("y.a.b"), b"").unwrap();
    scratch.fails("-S a.b y.a.b", 2, "already has .a.b suffix");
}

#[test]
fn a_folder_does_not_go_to_one_file() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    for name in ["a", "b"] {
        fs::write(scratch.path(&format!("folder/{name}")), name).unwrap();
    }
    scratch.fails("-r -f --rm -o out folder", 2, "--output needs exactly one FILE, not a folder");
    assert!(scratch.exists("folder/a") && scratch.exists("folder/b") && !scratch.exists("out"));
}

#[test]
fn dictionaries_of_zstd_work_both_ways() {
    let scratch = Scratch::new();
    if !has("zstd") {
        return;
    }
    fs::create_dir(scratch.path("rows")).unwrap();
    for number in 0..2000 {
        let row = format!(
            "{{\"id\": {number}, \"name\": \"customer {}\", \"city\": \"Wien\"}}\n",
            number * 7919 % 1000
        );
        fs::write(scratch.path(&format!("rows/{number}")), row).unwrap();
    }
    run(&scratch, "zstd -q --train rows/* -o d --maxdict=4096 2>/dev/null; cat rows/12 rows/77 >x");
    let content = scratch.read("x");
    scratch.ok("-k -D d x");
    let (with, without) = (scratch.read("x.zst").len(), scratch.ok("-c x").len());
    assert!(with < without, "{with} and {without}");
    assert!(run(&scratch, "zstd -dcq -D d x.zst") == content && scratch.ok("-dc -D d x.zst") == content);
    scratch.fails("-dc x.zst", 1, "needs the dictionary with the number");
    scratch.fails("--salvage -c x.zst", 1, "needs the dictionary with the number");
    scratch.ok("-t -D d x.zst");
    scratch.ok("-l -D d x.zst");
    assert_eq!(scratch.ok("--range 3:9 -D d x.zst"), content[3..9]);
    assert!(scratch.ok("--salvage -c -D d x.zst") == content);
    run(&scratch, "zstd -qf -D d x -o y.zst");
    assert!(scratch.ok("-dc -D d y.zst") == content);
    scratch.fails("-c -D x x", 2, "not a dictionary made by zstd");
    scratch.fails("-c -D missing x", 2, "missing");
    scratch.ok("-f --verify -D d --long x");
    assert!(run(&scratch, "zstd -dcq -D d x.zst") == content);
}

#[test]
fn a_patch_is_small_and_needs_its_file() {
    let scratch = Scratch::new();
    let old = noise(3_000_000);
    let mut new = old.clone();
    new.splice(1_000_000..1_000_010, *b"something else altogether");
    fs::write(scratch.path("old"), &old).unwrap();
    fs::write(scratch.path("new"), &new).unwrap();
    scratch.ok("-k --patch-from old new");
    assert!(scratch.read("new.zst").len() < 3000, "{}", scratch.read("new.zst").len());
    assert!(scratch.ok("-dc --patch-from old new.zst") == new);
    scratch.ok("-t --patch-from old new.zst");
    scratch.fails("-dc --patch-from sample new.zst", 1, "--patch-from");
    if has("zstd") {
        assert!(run(&scratch, "zstd -dcq --patch-from=old new.zst") == new);
        run(&scratch, "zstd -q --patch-from=old new -o y.zst");
        assert!(scratch.ok("-dc --patch-from old y.zst") == new);
    }
    scratch.ok("-f --patch-from old new");
    assert!(!scratch.exists("new"));
    scratch.ok("-d --patch-from old new.zst");
    assert!(scratch.read("new") == new && !scratch.exists("new.zst"));
}

#[test]
fn zlib_streams_are_read() {
    let scratch = Scratch::new();
    if !has("pigz") {
        return;
    }
    run(&scratch, "pigz -kz sample");
    for line in ["-dc sample.zz", "-dc -T1 sample.zz", "--salvage -c sample.zz"] {
        assert!(scratch.ok(line) == sample(), "{line}");
    }
    assert!(text(&scratch.ok("-l sample.zz")).contains("zlib"));
    scratch.ok("-d -f sample.zz");
    assert!(scratch.read("sample") == sample());
    fs::write(scratch.path("text"), b"x^2 is not compressed").unwrap();
    assert_eq!(scratch.ok("-dcf text"), b"x^2 is not compressed");
}

#[test]
fn suffixes_removal_and_threads_are_as_asked_for() {
    let scratch = Scratch::new();
    scratch.ok("-p 2 -S .packed sample");
    scratch.holds_only(&["sample.packed"]);
    scratch.ok("-d -S packed --processes 1 sample.packed");
    scratch.holds_only(&["sample"]);
    scratch.ok("-o kept.zst sample");
    scratch.holds_only(&["kept.zst", "sample"]);
    scratch.ok("--rm -f -o kept.zst sample");
    scratch.holds_only(&["kept.zst"]);
    scratch.ok("-d --rm -o sample kept.zst");
    scratch.holds_only(&["sample"]);
    // A device does not store the output.
    scratch.ok("--rm -o /dev/null sample");
    scratch.holds_only(&["sample"]);
}

#[test]
fn lists_have_totals_and_a_form_for_programs() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    scratch.ok("-k --lz4 sample");
    let listed = text(&scratch.ok("-l sample.zst sample.lz4"));
    assert!(listed.lines().count() == 4 && listed.lines().last().unwrap().contains("6400000"), "{listed}");
    assert!(listed.ends_with("2 files\n"), "{listed}");
    let listed: serde_json::Value =
        serde_json::from_slice(&scratch.ok("-l --json sample.zst sample.lz4")).unwrap();
    assert_eq!(listed["schema"], "tamp.list/1");
    assert_eq!(listed["total"]["content_bytes"], 6_400_000);
    assert_eq!((&listed["files"][1]["format"], &listed["files"][0]["blocks"]), (&"lz4".into(), &13.into()));
    assert!(listed["files"][0]["unfinished_at"].is_null());
}

#[test]
fn defaults_come_from_the_environment() {
    let scratch = Scratch::new();
    let output =
        scratch.command("-k sample").env("TAMP_FORMAT", "bgzf").env("TAMP_LEVEL", "9").output().unwrap();
    assert!(output.status.success() && scratch.exists("sample.gz"));
    let output = scratch.command("-k sample").env("TAMP_LEVEL", "19").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("TAMP_LEVEL in the environment: expected 0 to 9"));
}

#[test]
fn the_man_page_and_completions_are_generated() {
    let scratch = Scratch::new();
    assert!(text(&scratch.ok("--generate man")).contains(".TH tamp 1"));
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = text(&scratch.ok(&format!("--generate {shell}")));
        assert!(script.contains("patch-from"), "{shell}");
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_an_error_with_its_reason() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("locked")).unwrap();
    fs::set_permissions(scratch.path("locked"), fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(scratch.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let binary = scratch.path("binary");
    assert!(Command::new("cp").arg(env!("CARGO_BIN_EXE_tamp")).arg(&binary).status().unwrap().success());
    let mut command = Command::new(&binary);
    command.args(["-r", "locked"]).current_dir(scratch.folder.path());
    if fs::metadata("/proc/self").unwrap().uid() == 0 {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    fs::set_permissions(scratch.path("locked"), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(
        output.status.code() == Some(1) && said.contains("reading the folder: Permission denied"),
        "{said}"
    );
}

#[test]
fn root_file_capabilities_are_kept() {
    let scratch = Scratch::new();
    let is_root =
        Command::new("setcap").args(["cap_net_raw+ep", "sample"]).current_dir(scratch.folder.path()).output();
    if !is_root.is_ok_and(|output| output.status.success()) {
        println!("skipped: setcap is not installed, or not allowed here");
        return;
    }
    scratch.ok("sample");
    scratch.ok("-d sample.zst");
    assert!(text(&run(&scratch, "getcap sample")).contains("cap_net_raw"));
}

#[test]
fn several_patches_in_a_row_are_read_as_zstd_reads_them() {
    let scratch = Scratch::new();
    let (old, new) = (noise(3_000_000), [noise(2_000_000), b"more".to_vec()].concat());
    fs::write(scratch.path("old"), &old).unwrap();
    fs::write(scratch.path("new"), &new).unwrap();
    let row = scratch.ok("--patch-from old -c new old new");
    let content = [&new[..], &old, &new].concat();
    fs::write(scratch.path("row.zst"), &row).unwrap();
    assert!(row.len() < 10_000, "{}", row.len());
    assert!(scratch.ok("-dc --patch-from old row.zst") == content);
    scratch.ok("-t --patch-from old row.zst");
    // Between them, frames that do not need the reference, and skippable frames.
    let mixed = [&scratch.ok("-c sample"), &row[..], &scratch.ok("-c new")].concat();
    fs::write(scratch.path("mixed.zst"), &mixed).unwrap();
    let found = scratch.ok("-dc --patch-from old mixed.zst");
    assert!(found == [&sample()[..], &content, &new].concat());
    if has("zstd") {
        assert!(run(&scratch, "zstd -dcq --patch-from=old row.zst") == content);
        assert!(run(&scratch, "zstd -dcq --patch-from=old mixed.zst") == found);
    }
    // Each way to end too early, or to continue with other data.
    let unfinished = &mixed[..mixed.len() - 28 - 17 - 12 * 8];
    for (bytes, code, says) in [
        (&row[..row.len() - 3], 1, "the file ends inside a zstd frame"),
        (&[&row[..], b"garbage"].concat()[..], 1, "not a .zst"),
        (
            &[&row[..], b"\x50\x2a\x4d\x18\x09\0\0\0four"].concat()[..],
            1,
            "the file ends inside a skippable frame",
        ),
        (unfinished, 1, "unfinished"),
    ] {
        fs::write(scratch.path("wrong.zst"), bytes).unwrap();
        scratch.fails("-t --patch-from old wrong.zst", code, says);
    }
    let output = scratch.tamp("-d --patch-from old -k -o out wrong.zst");
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(scratch.read("out") == found);
}

#[test]
fn a_limit_of_memory_holds_for_every_frame() {
    let scratch = Scratch::new();
    scratch.ok("-k sample");
    for line in ["-t", "-T1 -t", "-dc", "--range 0:5", "-d -o out"] {
        scratch.fails(&format!("{line} --memory 1KiB sample.zst"), 1, "--memory=1MiB");
        let limited =
            scratch.command(&format!("{line} sample.zst")).env("TAMP_MEMORY", "200KiB").output().unwrap();
        assert_eq!(limited.status.code(), Some(1), "{line}");
        scratch.ok(&format!("{line} -f --memory 256KiB sample.zst"));
    }
    if has("zstd") {
        // A window of 2 MiB, and larger content; the header states no size.
        run(&scratch, "zstd -qc -3 <sample >stream.zst");
        for line in ["-t", "-T1 -t", "-dc"] {
            scratch.fails(&format!("{line} --memory 1MiB stream.zst"), 1, "--memory=2MiB");
            scratch.ok(&format!("{line} --memory 2MiB stream.zst"));
        }
        // A frame needs at most the memory for its content.
        run(&scratch, "echo small | zstd -qc --long=30 >small.zst");
        assert_eq!(scratch.ok("-dc small.zst"), b"small\n");
    }
    // The input can still be replaced: the limit applies only to reading.
    scratch.ok("--rm --memory 1KiB --patch-from sample.zst -o patch.zst sample");
}

#[test]
fn below_folders_only_files_are_opened() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("folder")).unwrap();
    fs::write(scratch.path("folder/file"), b"content").unwrap();
    std::os::unix::fs::symlink("../sample", scratch.path("folder/link")).unwrap();
    assert!(Command::new("mkfifo").arg(scratch.path("folder/pipe")).status().unwrap().success());
    let output = scratch.tamp("-rc folder");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("folder/link: is a symbolic link -- ignored"), "{said}");
    assert!(said.contains("folder/pipe: is not a directory or a regular file -- ignored"), "{said}");
    assert_eq!(scratch.tamp_with("-d", &output.stdout).stdout, b"content");
    fs::write(scratch.path("folder/file.zst"), output.stdout).unwrap();
    // Files that do not look compressed are skipped without a message, as by gzip.
    for (line, printed) in [("-rdc", "content"), ("-rt", ""), ("-rl -q", "folder/file.zst\n")] {
        let output = scratch.tamp(&format!("{line} folder"));
        let said = text(&output.stderr);
        assert!(output.status.success() && said.is_empty(), "{line}: {said}");
        assert!(text(&output.stdout).ends_with(printed), "{line}");
    }
    // A named file is read whatever its name.
    scratch.fails("-rt folder/file", 1, "not a .zst");
    scratch.fails("-rd folder/file", 2, "unknown suffix -- ignored");
}

#[test]
fn the_form_for_programs_has_real_names_and_the_files_that_fail() {
    let scratch = Scratch::new();
    let name = "a\n\u{1b}\"\\\u{9b}\u{202e}ö.zst";
    fs::write(scratch.path("packed"), scratch.ok("-c sample")).unwrap();
    fs::rename(scratch.path("packed"), scratch.path(name)).unwrap();
    let output = scratch.command("-l --json sample missing").arg(name).output().unwrap();
    let listed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1));
    let is_order = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
    assert!(!listed.contains(is_order) && listed.lines().count() == 1, "{listed:?}");
    let listed: serde_json::Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["files"].as_array().unwrap().len(), 1);
    assert_eq!(listed["files"][0]["file"], name);
    assert_eq!((&listed["total"]["files"], &listed["total"]["failed"]), (&1.into(), &2.into()));
    assert_eq!(listed["failed"][0]["file"], "sample");
    assert!(listed["failed"][0]["error"].as_str().unwrap().contains("not a .zst"), "{listed}");
    assert_eq!(listed["failed"][1]["file"], "missing");
    let output = scratch.command("-t --stats=json").arg(name).output().unwrap();
    let stats: serde_json::Value = serde_json::from_slice(&output.stderr).unwrap();
    assert_eq!(stats["file"], name);
}

#[test]
fn a_hint_is_only_a_hint_to_a_single_frame() {
    let scratch = Scratch::new();
    for line in ["--long --size-hint 5", "--long --size-hint 5000000", "--patch-from sample --size-hint 7"] {
        let packed = scratch.tamp_with(line, &sample());
        assert!(packed.status.success(), "{line}: {}", text(&packed.stderr));
        fs::write(scratch.path("x.zst"), packed.stdout).unwrap();
        let line = if line.starts_with("--patch") { "-dc --patch-from sample x.zst" } else { "-dc x.zst" };
        assert!(scratch.ok(line) == sample(), "{line}");
    }
}

#[test]
fn a_file_that_shrinks_while_it_becomes_one_frame_is_an_error_that_says_so() {
    use std::io::Read;
    let scratch = Scratch::new();
    fs::write(scratch.path("log"), noise(25_000_000)).unwrap();
    let mut child =
        scratch.command("-c --long log").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The output exceeds a pipe's capacity: after the first byte the command is still running.
    let mut packed = vec![0];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut packed).unwrap();
    fs::OpenOptions::new().write(true).open(scratch.path("log")).unwrap().set_len(1000).unwrap();
    stdout.read_to_end(&mut packed).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("while it was read"), "{said}");
}

#[test]
fn what_a_file_was_compressed_with_is_asked_for() {
    let scratch = Scratch::new();
    if !has("zstd") {
        return;
    }
    run(
        &scratch,
        "mkdir rows; for i in $(seq 500); do echo \"id $i, city Wien, customer $((i * 7919 % 1000))\" >rows/$i; done",
    );
    run(&scratch, "zstd -q --train rows/* -o d --maxdict=4096 2>/dev/null; cat rows/1? >x");
    scratch.ok("-k -D d x");
    for line in ["-t", "-dc", "--range 1:5"] {
        scratch.fails(&format!("{line} x.zst"), 1, "-D");
        let said = text(&scratch.tamp(&format!("{line} x.zst")).stderr);
        assert!(!said.contains("--salvage"), "{line}: {said}");
    }
    fs::write(scratch.path("old"), noise(1_000_000)).unwrap();
    fs::write(scratch.path("new"), [&b"new"[..], &noise(1_000_000)].concat()).unwrap();
    scratch.ok("-k --patch-from old new");
    for line in ["-t", "-t -T1", "-dc", "--range 1:5"] {
        scratch.fails(&format!("{line} new.zst"), 1, "--patch-from");
    }
}

#[test]
fn the_name_of_the_output_chooses_the_format_unless_an_option_does() {
    let scratch = Scratch::new();
    for (line, magic) in [
        ("-o x.lz4", [4, 0x22, 0x4d, 0x18]),
        ("-o x.gz", [0x1f, 0x8b, 8, 4]),
        ("-o x.zst", [0x28, 0xb5, 0x2f, 0xfd]),
        ("-o x.out", [0x28, 0xb5, 0x2f, 0xfd]),
    ] {
        let output =
            scratch.command(&format!("-f {line} sample")).env("TAMP_FORMAT", "zst").output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{line}: {}", text(&output.stderr));
        assert_eq!(scratch.read(&line[3..])[..4], magic, "{line}");
    }
    for line in ["--zst -o x.lz4", "--long -o x.lz4", "--rsyncable -o x.lz4", "--lz4 -o x.gz"] {
        let output = scratch.tamp(&format!("-f {line} sample"));
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("but its name is that of a"), "{line}: {said}");
    }
    scratch.fails("-o y.lz4 --block-size 300K sample", 2, "--block-size of a .lz4 is one of 64KiB");
}

#[test]
fn of_quiet_and_verbose_the_last_counts() {
    let scratch = Scratch::new();
    for (line, speaks) in [("-qv", true), ("-vq", false), ("-v", true), ("-q", false)] {
        let said = scratch.tamp(&format!("{line} -k -f sample")).stderr;
        assert_eq!(!said.is_empty(), speaks, "{line}: {}", text(&said));
    }
}

#[test]
fn blocks_are_those_with_content() {
    let scratch = Scratch::new();
    fs::write(scratch.path("empty"), b"").unwrap();
    for (format, blocks) in [("--zst", 13), ("--lz4", 13), ("--bgzf", 50)] {
        for (file, blocks) in [("empty", 0), ("sample", blocks)] {
            scratch.ok(&format!("-k -f -o x {format} {file}"));
            let listed: serde_json::Value = serde_json::from_slice(&scratch.ok("-l --json x")).unwrap();
            assert_eq!(listed["files"][0]["blocks"], blocks, "{format} {file}");
        }
    }
    // Frames without a table are counted, too.
    let row = scratch.ok("-c sample empty sample");
    fs::write(scratch.path("row.zst"), row).unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&scratch.ok("-l --json row.zst")).unwrap();
    assert_eq!(listed["files"][0]["blocks"], 26);
}

#[test]
fn the_man_page_has_what_a_man_page_has() {
    let scratch = Scratch::new();
    let page = text(&scratch.ok("--generate man")).replace('\\', "");
    for part in [
        "fBtampfR [OPTION]... [FILE]...",
        "EXIT STATUS",
        "ENVIRONMENT",
        "TAMP_MEMORY",
        "EXAMPLES",
        "powers of 1024",
        "--to-stdout",
        "--uncompress",
        "-p, --processes",
        ".gz and zlib",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let help = text(&scratch.ok("--help"));
    assert!(help.contains("TAMP_THREADS") && help.contains("EXIT STATUS"), "{help}");
    scratch.fails("--json -t sample", 2, "Usage: tamp [OPTION]... [FILE]...");
    if has("man") {
        fs::write(scratch.path("tamp.1"), scratch.ok("--generate man")).unwrap();
        let shown = text(&run(&scratch, "LC_ALL=C man --warnings ./tamp.1 2>&1 >/dev/null"));
        assert!(!shown.contains("warning"), "{shown}");
    }
}
