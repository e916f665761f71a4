//! `bakeoff import` as a user runs it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn bakeoff() -> Command {
    Command::new(env!("CARGO_BIN_EXE_bakeoff"))
}

fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/testdata").join(name)
}

fn import(words: &[&str], files: &[&str]) -> Output {
    let files = files.iter().map(|file| sample(file));
    bakeoff().arg("import").args(words).args(files).stdin(Stdio::null()).output().unwrap()
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_lock_table_of_a_large_machine_prints_to_the_letter() {
    let output = import(&["lockstat", "-n", "512"], &["lockstat/solaris-10-kWP-512-cpus.txt"]);
    let expected = std::fs::read_to_string(sample("lockstat/solaris-10-kWP-512-cpus.expected")).unwrap();
    assert_eq!(out(&output), expected);
    assert!(err(&output).contains("1635208 of 1713116 events"), "{}", err(&output));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn lost_records_are_said_first_wherever_lockstat_told_them() {
    let said = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(said.path(), "lockstat: warning: ran out of data records (use -n for more)\n").unwrap();
    let words = ["lockstat", "-n", "4", "--stderr", said.path().to_str().unwrap()];
    let apart = import(&words, &["lockstat/solaris-10-n10-tables-only.txt"]);
    let within = import(&["lockstat", "-n", "4"], &["lockstat/solaris-10-n10-records-lost.txt"]);
    for output in [&apart, &within] {
        assert!(out(output).starts_with("TAINTED: "), "{}", out(output));
    }
}

#[test]
fn a_word_behind_saturated_is_a_percentage_or_a_file() {
    let file = sample("mpstat/256-cpus-one-full.txt");
    let file = file.to_str().unwrap();
    let full = |words: &[&str]| {
        let output = bakeoff().args(["import", "mpstat"]).args(words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", err(&output));
        out(&output).lines().filter(|line| line.starts_with("full: CPU ")).count()
    };
    assert_eq!(full(&["--saturated", file]), 2);
    assert_eq!(full(&[file, "--saturated"]), 2);
    assert_eq!(full(&["--saturated", "100%", file]), 2);
    assert_eq!(full(&["--saturated", "0", file]), 256);
    assert_eq!(full(&[file]), 0);
}

#[test]
fn each_sample_comes_as_its_block_ends_although_the_tool_still_runs() {
    let mut child = bakeoff()
        .args(["import", "mpstat", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut tool = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let block = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n\
                 \x20 0    1   0    0     1    0    0    0    0    0    0     0    0   0   0 100\n\
                 \x20 1    2   0    0     1    0    0    0    0    0    0     0    0   0   0 100\n";
    for sample in 0..3 {
        tool.write_all(block.as_bytes()).unwrap();
        if sample == 0 {
            assert!(lines.next().unwrap().unwrap().starts_with("CPUs minf"));
        }
        // The pipe is open: this line is printed only because the block is complete.
        assert!(lines.next().unwrap().unwrap().starts_with("   2  1.5"));
    }
    drop(tool);
    assert!(lines.next().is_none());
    assert!(child.wait().unwrap().success());
}

#[test]
fn an_error_names_file_line_column_and_what_was_expected() {
    let output = import(&["mpstat"], &["mpstat/cut-in-mid-row.txt"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "cut-in-mid-row.txt:8:38: found the end of the line, expected a number in column `migr`\n";
    assert!(err(&output).ends_with(expected), "{}", err(&output));

    let mut packed = tempfile::NamedTempFile::new().unwrap();
    packed.write_all(b"\x1f\x8b\x08\x00").unwrap();
    let output = bakeoff().args(["import", "lockstat"]).arg(packed.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(err(&output).contains("zcat FILE | bakeoff import lockstat -"), "{}", err(&output));

    let output = import(&["vmstat"], &["vmstat_s/no-such-file.txt"]);
    assert_eq!(output.status.code(), Some(6), "{}", err(&output));
}

#[test]
fn one_bad_file_among_several_does_not_keep_the_others_from_being_read() {
    let output = import(&["mpstat"], &["mpstat/four-cpus-114-25.txt", "mpstat/empty.txt", "mpstat/crlf.txt"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(out(&output).matches("==> ").count(), 3);
    assert!(out(&output).contains(" 114.25 ") && out(&output).contains("   2 "));
    assert!(err(&output).contains("empty.txt:1:1: found the end of the input"), "{}", err(&output));
}

#[test]
fn two_snapshots_give_exact_utilisation_and_one_gives_an_error() {
    let both = ["vmstat_s/solaris-before.txt", "vmstat_s/solaris-after.txt"];
    let output = import(&["vmstat", "-n", "2", "--elapsed", "104", "--json"], &both);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["schema"], "bakeoff.import-vmstat/1");
    let interval = &document["intervals"][0];
    assert_eq!(interval["busy_ratio"], 19_200.0 / 20_800.0);
    assert_eq!(interval["unaccounted_ratio"], 0.0);

    assert_eq!(import(&["vmstat"], &both[..1]).status.code(), Some(2));
    let swapped = import(&["vmstat"], &[both[1], both[0]]);
    assert_eq!(swapped.status.code(), Some(3), "ticks that go back make no measurement");
}

#[test]
fn the_text_of_every_file_is_kept_and_a_pipe_is_not_read_twice() {
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("archive");
    let keep = |words: &[&str]| {
        let mut keep = bakeoff();
        keep.arg("--archive").arg(&archive).args(["import", "--json"]).args(words);
        keep.stdin(Stdio::null());
        keep
    };
    let stored = || {
        let run = std::fs::read_dir(archive.join("runs")).unwrap().next().unwrap().unwrap().path();
        let names = std::fs::read_dir(&run).unwrap().map(|f| f.unwrap().file_name().into_string().unwrap());
        let mut texts: Vec<String> = names.filter(|name| name.contains(".txt")).collect();
        texts.sort();
        std::fs::remove_dir_all(run).unwrap();
        texts
    };
    let both = ["before", "after"].map(|which| sample(&format!("vmstat_s/solaris-{which}.txt")));
    let output = keep(&["vmstat", "--elapsed", "104", "--keep"]).args(both).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert_eq!(stored(), ["vmstat-1.txt.zst", "vmstat-2.txt.zst"]);

    let pipe = folder.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = {
        let pipe = pipe.clone();
        std::thread::spawn(move || {
            std::fs::write(pipe, std::fs::read(sample("mpstat/T-d-date-lines.txt")).unwrap()).unwrap();
        })
    };
    let output = keep(&["mpstat", "--keep", pipe.to_str().unwrap()]).output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    assert!(err(&output).contains("is not stored: it is not a regular file"), "{}", err(&output));
    assert!(stored().is_empty());
}

#[test]
fn this_machine_is_watched_and_its_books_balance_nearly() {
    let output = import(&["vmstat", "--watch", "0.1", "--count", "3", "--json"], &[]);
    assert_eq!(output.status.code(), Some(0), "{}", err(&output));
    let text = out(&output);
    let documents: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(documents.len(), 3);
    for document in documents {
        let interval = &document["intervals"][0];
        let ratios = ["user", "system", "idle", "wait", "stolen"];
        let sum: f64 = ratios.iter().filter_map(|name| interval[format!("{name}_ratio")].as_f64()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{interval}");
        assert!(interval["elapsed_s"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn an_import_that_is_kept_is_a_run_of_the_archive_with_its_series() {
    let archive = tempfile::tempdir().unwrap();
    let keep = |words: &[&str], file: &str| {
        let output = bakeoff()
            .arg("--archive")
            .arg(archive.path())
            .arg("import")
            .args(words)
            .arg(sample(file))
            .output()
            .unwrap();
        (output.status.code(), err(&output))
    };
    let (code, said) = keep(&["mpstat", "--keep", "--label", "case=1"], "mpstat/T-d-date-lines.txt");
    assert!(code == Some(0) && said.contains("stored as "), "{said}");
    let (code, said) = keep(&["lockstat", "-n", "512", "--keep"], "lockstat/solaris-10-kWP-512-cpus.txt");
    assert!(code == Some(0) && said.contains("stored as "), "{said}");
    // Without dates, the distance between samples is unknown; a single sample needs none.
    let (code, said) = keep(&["mpstat", "--keep"], "mpstat/eight-cpus-three-samples.txt");
    assert!(code == Some(2) && said.contains("--interval SECONDS"), "{said}");
    let (code, said) = keep(&["mpstat", "--keep"], "mpstat/256-cpus-one-full.txt");
    assert!(code == Some(2) && said.contains("--boot"), "{said}");
    let (code, said) = keep(&["mpstat", "--keep", "--boot"], "mpstat/256-cpus-one-full.txt");
    assert!(code == Some(0) && said.contains("stored as "), "{said}");

    let listed =
        bakeoff().arg("--archive").arg(archive.path()).args(["runs", "list", "--json"]).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let kinds: Vec<&str> =
        document["runs"].as_array().unwrap().iter().filter_map(|run| run["kind"].as_str()).collect();
    assert_eq!(kinds, ["import"; 3]);

    let of_run = |words: &[&str], run: &str| {
        let output = bakeoff().arg("--archive").arg(archive.path()).args(words).arg(run).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", err(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    for run in document["runs"].as_array().unwrap() {
        let id = run["run"].as_str().unwrap();
        let recorded: serde_json::Value =
            serde_json::from_str(&of_run(&["runs", "show", "--json"], id)).unwrap();
        let series = recorded["series"].as_array().unwrap();
        assert!(!series.is_empty());
        let (table, page) = (of_run(&["runs", "show"], id), of_run(&["report"], id).replace('\\', ""));
        for series in series {
            let name = series["name"].as_str().unwrap();
            assert!(table.contains(name) && page.contains(name), "{name}:\n{table}\n{page}");
        }
    }
}

#[test]
fn a_pause_amid_a_block_costs_no_sample_of_what_is_kept() {
    let archive = tempfile::tempdir().unwrap();
    let mut child = bakeoff()
        .arg("--archive")
        .arg(archive.path())
        .args(["import", "mpstat", "--keep", "--interval", "3", "--mean", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut tool = child.stdin.take().unwrap();
    let header = "CPU  intr  usr sys  wt idl\n";
    let row = |cpu: u32, intr: u32| format!("{cpu:3} {intr:5}   10   0   0  90\n");
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    // The first block comes in two pieces: the first piece is printed, then the whole block again.
    tool.write_all((header.to_owned() + &row(0, 100)).as_bytes()).unwrap();
    assert!(lines.next().unwrap().unwrap().starts_with("CPUs"));
    assert!(lines.next().unwrap().unwrap().starts_with("   1 "));
    tool.write_all(row(1, 200).as_bytes()).unwrap();
    assert!(lines.next().unwrap().unwrap().starts_with("   2 "));
    for _ in 0..2 {
        tool.write_all((header.to_owned() + &row(0, 100) + &row(1, 300)).as_bytes()).unwrap();
        let line = lines.next().unwrap().unwrap();
        assert!(line.starts_with("   2 ") && !line.contains("since boot"), "{line}");
    }
    drop(tool);
    assert!(lines.next().unwrap().unwrap().contains("of 2 samples"));
    assert!(child.wait().unwrap().success());
    let shown =
        bakeoff().arg("--archive").arg(archive.path()).args(["runs", "show", "latest"]).output().unwrap();
    let of = |name: &str| {
        let line = out(&shown).lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        line.split_whitespace().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of("mpstat_intr_per_s"), ["2", "200", "200", "200"]);
    assert_eq!(of("mpstat_cpus"), ["2", "2", "2", "2"]);
}

/// Writes `text` to a file, and returns its name; the file lives as long as the folder.
fn written(folder: &tempfile::TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn samples_without_a_date_are_not_kept_at_the_beginning_of_those_that_have_one() {
    let folder = tempfile::tempdir().unwrap();
    let block = "CPU  intr  usr sys  wt idl\n  0   586   10   5   0  85\n";
    let (first, second) = ("2008-03-04 09:05:01\n", "2008-03-04 09:05:04\n");
    for (name, dates, line) in [
        ("last", [first, second, ""], "8: "),
        ("first", ["", first, second], "5: "),
        ("all", ["", "", ""], "the log has no dates"),
    ] {
        let file = written(&folder, name, &dates.map(|date| date.to_owned() + block).concat());
        for words in [&[][..], &["--interval", "3"]] {
            let archive = folder.path().join("archive");
            let words = [&["import", "mpstat", "--keep", "--boot"], words, &[file.as_str()]].concat();
            let kept = bakeoff().arg("--archive").arg(&archive).args(&words).output().unwrap();
            let is_good = name == "all" && words.contains(&"--interval");
            assert_eq!(kept.status.code(), Some(if is_good { 0 } else { 2 }), "{name}: {}", err(&kept));
            assert!(is_good || err(&kept).contains(line), "{name}: {}", err(&kept));
        }
    }
}

#[test]
fn runs_of_lockstat_whose_length_is_not_known_are_not_kept_at_one_moment() {
    let folder = tempfile::tempdir().unwrap();
    let text = |name: &str| std::fs::read_to_string(sample(&format!("lockstat/{name}"))).unwrap();
    // The first output contains its length, that of `lockstat -p` does not.
    let (long, unknown) = (text("illumos.txt"), text("illumos-p.txt"));
    for (name, text, code) in
        [("one", unknown.clone(), 0), ("before", unknown.clone() + &long, 2), ("after", long + &unknown, 2)]
    {
        let file = written(&folder, name, &text);
        let mut keep = bakeoff();
        keep.arg("--archive")
            .arg(folder.path().join("archive"))
            .args(["import", "lockstat", "--keep", &file]);
        let kept = keep.output().unwrap();
        assert_eq!(kept.status.code(), Some(code), "{name}: {}", err(&kept));
        assert!(code == 0 || err(&kept).contains("--elapsed SECONDS"), "{name}: {}", err(&kept));
    }
}

/// The seconds at which `mpstat --keep` stores the samples of blocks with these dates, and its messages.
fn kept_at(dates: &[&str], words: &[&str]) -> (Vec<f64>, String) {
    let folder = tempfile::tempdir().unwrap();
    let block = |date: &&str| {
        format!(
            "{date}\nCPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n  \
             0   16   0  586   274  482 1469   17  152   26    4  1406   10   5   0  85\n"
        )
    };
    let file = written(&folder, "mpstat.txt", &dates.iter().map(block).collect::<String>());
    let archive = folder.path().join("archive");
    let of = |words: &[&str]| bakeoff().arg("--archive").arg(&archive).args(words).output().unwrap();
    let kept = of(&[&["import", "mpstat", "--keep", "--boot"][..], words, &[file.as_str()]].concat());
    assert_eq!(kept.status.code(), Some(0), "{}", err(&kept));
    let exported = out(&of(&["runs", "export", "latest", "--format", "csv"]));
    let stored = exported.lines().filter(|line| line.contains(",mpstat_usr")).map(|line| {
        let t_ms = line.split(',').nth(9).unwrap();
        t_ms.parse::<f64>().unwrap_or_else(|_| panic!("{line}")) / 1e3
    });
    (stored.collect(), err(&kept))
}

#[test]
fn samples_over_a_change_of_the_clock_are_kept_a_second_apart() {
    let spring = ["01:59:58", "01:59:59", "03:00:00", "03:00:01"];
    let autumn = ["01:59:58", "01:59:59", "01:00:00", "01:00:01"];
    let with = |day: &str, times: [&str; 4], zones: [&str; 4]| -> Vec<String> {
        times
            .iter()
            .zip(zones)
            .map(|(time, zone)| format!("{day} {time} {zone} 2008").replace("  2008", " 2008"))
            .collect()
    };
    let none = [""; 4];
    let (la, berlin) = (&["--zone", "America/Los_Angeles"][..], &["--zone", "Europe/Berlin"][..]);
    let iso = |text: [&str; 4]| text.map(str::to_owned).to_vec();
    for (dates, words, said) in [
        (with("Sun Mar  9", spring, ["PST", "PST", "PDT", "PDT"]), &[][..], "PST is read as UTC-8"),
        (with("Sun Nov  2", autumn, ["PDT", "PDT", "PST", "PST"]), &[], ""),
        (with("Sun Mar  9", spring, none), la, ""),
        (with("Sun Nov  2", autumn, none), la, "this hour occurs twice in the zone"),
        // Without a zone, a clock that goes back is the end of daylight saving, and an hour that took one
        // second is its beginning.
        (with("Sun Mar  9", spring, none), &[], "the start of daylight saving time"),
        (with("Sun Nov  2", autumn, none), &[], "the clock went back"),
        (
            iso([
                "2008-03-30T01:59:58+0100",
                "2008-03-30T01:59:59+01:00",
                "2008-03-30T03:00:00+0200",
                "2008-03-30T01:00:01Z",
            ]),
            &[],
            "",
        ),
        (
            iso([
                "2008-10-26T02:59:58+0200",
                "2008-10-26T02:59:59+0200",
                "2008-10-26T02:00:00+0100",
                "2008-10-26T02:00:01+0100",
            ]),
            &[],
            "",
        ),
        (
            with("Sun Oct 26", ["02:59:58", "02:59:59", "02:00:00", "02:00:01"], none),
            berlin,
            "this hour occurs twice in the zone",
        ),
    ] {
        let dates: Vec<&str> = dates.iter().map(String::as_str).collect();
        let (at_s, told) = kept_at(&dates, words);
        assert_eq!(at_s, [0.0, 1.0, 2.0, 3.0], "{dates:?} {words:?}: {told}");
        assert!(told.contains(said), "{dates:?} {words:?}: {told}");
    }
}

#[test]
fn two_snapshots_over_a_change_of_the_clock_are_a_second_apart() {
    let folder = tempfile::tempdir().unwrap();
    let snapshot =
        |user: u32, idle: u32| format!("{user} user   cpu\n0 system cpu\n{idle} idle   cpu\n0 wait   cpu\n");
    for (before, after, words) in [
        ("Sun Mar  9 01:59:59 PST 2008", "Sun Mar  9 03:00:00 PDT 2008", &[][..]),
        ("Sun Nov  2 01:59:59 PDT 2008", "Sun Nov  2 01:00:00 PST 2008", &[]),
        ("Sun Mar  9 01:59:59 2008", "Sun Mar  9 03:00:00 2008", &["--zone", "America/Los_Angeles"]),
        ("2008-10-26T02:59:59+0200", "2008-10-26T02:00:00+0100", &[]),
        // Without a zone, the ticks show that the hour did not pass.
        ("Sun Mar  9 01:59:59 2008", "Sun Mar  9 03:00:00 2008", &[]),
    ] {
        let text = format!("{before}\n{}{after}\n{}", snapshot(0, 0), snapshot(50, 50));
        let file = written(&folder, "vmstat.txt", &text);
        let words = [&["import", "vmstat", "-n", "1", "--json"][..], words, &[file.as_str()]].concat();
        let output = bakeoff().args(words).output().unwrap();
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let interval = &document["intervals"][0];
        assert_eq!(
            (&interval["elapsed_s"], &interval["unaccounted_ratio"]),
            (&1.0.into(), &0.0.into()),
            "{before}: {document}"
        );
    }
}

#[test]
fn snapshots_without_a_zone_that_may_be_an_hour_less_apart_are_not_believed_in_silence() {
    // The ticks match neither a second nor an hour and a second: the hour remains, with a warning.
    let folder = tempfile::tempdir().unwrap();
    let snapshot = |idle: u32| format!("0 user   cpu\n0 system cpu\n{idle} idle   cpu\n0 wait   cpu\n");
    let dates = ["Sun Mar  9 01:59:59 2008", "Sun Mar  9 03:00:00 2008"];
    let text = format!("{}\n{}{}\n{}", dates[0], snapshot(0), dates[1], snapshot(90_000));
    let file = written(&folder, "vmstat.txt", &text);
    for words in [&["-n", "1"][..], &[]] {
        let output = bakeoff().args(["import", "vmstat"]).args(words).arg(&file).output().unwrap();
        assert!(err(&output).contains("1 s if daylight saving time began"), "{}", err(&output));
    }
    let dates: Vec<&str> = dates.to_vec();
    let (at_s, told) = kept_at(&dates, &[]);
    assert_eq!(at_s, [0.0, 3601.0]);
    assert!(told.contains("1 s if daylight saving time began"), "{told}");
}

/// Logs of numbers that no machine can have, and some of the largest that one can: the tool, the options, the
/// log, and the message.
fn impossible_and_large() -> Vec<(&'static str, Vec<&'static str>, String, &'static str)> {
    let lockstat = |count: u64, nsec: u64| {
        format!(
            "Adaptive mutex spin: {count} events in 10.000 seconds (1 events/sec)\n\nCount indv cuml rcnt     nsec Lock                   Caller\n\
             -------------------------------------------------------------------------------\n\
             {count} 100% 100% 0.00 {nsec} a_lock a_caller+0x1c4\n\
             -------------------------------------------------------------------------------\n"
        )
    };
    let plockstat = |kind: &str, rows: &str| {
        format!("{kind}\n\nCount     nsec Lock                         Caller\n{}\n{rows}", "-".repeat(80))
    };
    vec![
        // 5 CPUs' worth of spinning: with -n 1, the number of CPUs is wrong.
        ("lockstat", vec!["-n", "1"], lockstat(1_000_000, 50_000), "5: CPU-util 5.000 exceeds all 1 CPUs"),
        ("lockstat", vec!["-n", "8"], lockstat(1_000_000, 50_000), ""),
        ("lockstat", vec![], lockstat(4_500_000_000, 100_000_000_000), "5: 4.500e10 threads at once"),
        (
            "plockstat",
            vec!["-n", "1", "--elapsed", "10"],
            plockstat("Mutex spin", "1000000 50000 app`a_lock app`a_caller+0x1c\n"),
            "5: CPU-util 5.000 exceeds all 1 CPUs",
        ),
        (
            "plockstat",
            vec!["-n", "1", "--elapsed", "10"],
            // Each fits the CPU; the sum, 240 % of it, does not.
            plockstat("Mutex spin", &"100000 80000 app`a_lock app`a_caller+0x1c\n".repeat(3)),
            "5: in all, CPU-util 2.400 exceeds all 1 CPUs",
        ),
        (
            "plockstat",
            vec!["--elapsed", "10"],
            plockstat("Mutex block", "4500000000 100000000000 app`a_lock app`a_caller+0x1c\n"),
            "5: 4.500e10 threads at once",
        ),
        (
            "plockstat",
            vec!["-n", "1", "--elapsed", "10"],
            // Ten threads that sleep on one CPU are normal.
            plockstat("Mutex block", "1000000 100000 app`a_lock app`a_caller+0x1c\n"),
            "",
        ),
    ]
}

#[test]
fn what_no_machine_can_have_is_named_with_its_line_and_taints_the_result() {
    let folder = tempfile::tempdir().unwrap();
    for (tool, words, text, said) in impossible_and_large() {
        let file = written(&folder, "log.txt", &text);
        let run = |more: &[&str]| {
            bakeoff().args(["import", tool]).args(&words).args(more).arg(&file).output().unwrap()
        };
        let (plain, as_json, as_csv) = (run(&[]), run(&["--json"]), run(&["--csv"]));
        let is_tainted = !said.is_empty();
        for output in [&plain, &as_json, &as_csv] {
            assert_eq!(
                output.status.code(),
                Some(i32::from(is_tainted)),
                "{tool} {words:?}: {}",
                err(output)
            );
            assert!(err(output).contains(said), "{tool} {words:?}: {}", err(output));
        }
        let document: serde_json::Value = serde_json::from_slice(&as_json.stdout).unwrap();
        assert_eq!(document["tainted"], is_tainted, "{document}");
        assert!(document["tainted_by"].to_string().contains(said), "{document}");
        assert_eq!(out(&as_csv).contains(",true,"), is_tainted, "{}", out(&as_csv));
        // The archived run is not fit for comparison.
        let archive = folder.path().join(format!("archive-{tool}-{is_tainted}-{}", words.len() + text.len()));
        let mut keep = bakeoff();
        keep.arg("--archive").arg(&archive).args(["import", tool, "--keep"]).args(&words).arg(&file);
        assert_eq!(keep.output().unwrap().status.code(), Some(i32::from(is_tainted)));
        let listed =
            bakeoff().arg("--archive").arg(&archive).args(["runs", "list", "--json"]).output().unwrap();
        let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
        let state = if is_tainted { "invalid" } else { "sealed" };
        assert_eq!(listed["runs"][0]["state"], state, "{tool} {words:?}: {listed}");
    }
}
