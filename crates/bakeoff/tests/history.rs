//! `history`, `periods` and `aa` as a user runs them.

mod lab;

use std::fmt::Write as _;

use lab::Lab;

/// Draws of a fixed generator, about normal, with standard deviation 1.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> f64 {
        let mut uniform = || {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..12).map(|_| uniform()).sum::<f64>() - 6.0
    }
}

const DAY: u64 = 86_400;

/// 60 days; p99 rises by 10 % on day 30, throughput stays. Noise of 1 %.
fn nightly() -> String {
    let (mut noise, mut text) = (Noise(7), "time,commit,p99_ms,throughput\n".to_owned());
    for day in 0..60 {
        let level = if day < 30 { 20.0 } else { 22.0 };
        let (p99, rate) = (level * (1.0 + 0.01 * noise.next()), 1_000.0 * (1.0 + 0.01 * noise.next()));
        writeln!(text, "{},c{day},{p99},{rate}", 1_780_000_000 + DAY * day).expect("a string");
    }
    text
}

fn write(lab: &Lab, name: &str, text: &str) -> String {
    let path = lab.path(name);
    std::fs::write(&path, text).expect("a file");
    path.to_str().expect("a plain path").to_owned()
}

#[test]
fn an_imported_history_has_its_change_and_the_commit_that_is_new_with_it() {
    let lab = Lab::new();
    let file = write(&lab, "nightly.csv", &nightly());
    let imported = lab.json(&["history", "import", &file]);
    assert_eq!((imported["values"].as_u64(), imported["is_new"].as_bool()), (Some(120), Some(true)));
    let found = lab.json(&["history"]);
    assert_eq!(found["schema"], "bakeoff.history/1");
    let series = found["series"].as_array().expect("a list");
    assert_eq!(series.len(), 2, "{found}");
    let (p99, rate) = (&series[0], &series[1]);
    assert_eq!((&p99["metric"], &p99["subject"]), (&"p99_ms".into(), &"nightly".into()));
    assert_eq!(rate["changes"].as_array().map(Vec::len), Some(0), "{rate}");
    let changes = p99["changes"].as_array().expect("a list");
    assert_eq!(changes.len(), 1, "{changes:?}");
    let change = &changes[0];
    let number = |name: &str| change[name].as_f64().expect("a number");
    assert!(number("low") < 1.1 && 1.1 < number("high") && number("p") <= 0.02, "{change}");
    assert_eq!(change["is_better"], false);
    assert_eq!(p99["points"][30]["at"], change["at"]);
    assert_eq!(change["suspects"][0]["what"], "commit");
    assert_eq!(change["suspects"][0]["after"], "c30");

    let text = lab.run(&["history", "p99_ms"]);
    let last = text.out.lines().last().expect("an answer");
    assert!(last.starts_with("p99_ms +") && last.contains("(worse)") && last.ends_with("(c30)"), "{last}");
    assert!(text.out.lines().all(|line| line.chars().count() <= 120), "{}", text.out);
    let csv = lab.run(&["history", "p99_ms", "--csv"]).out;
    assert_eq!((csv.lines().count(), csv.matches(",rise\n").count()), (61, 1), "{csv}");
}

/// 60 days of 20, the newest three 30 % higher.
#[test]
fn the_newest_runs_apart_are_in_the_last_line() {
    let lab = Lab::new();
    let mut noise = Noise(11);
    let mut row = |day: u64| {
        let level = if day < 57 { 20.0 } else { 26.0 };
        format!("{},{}\n", 1_780_000_000 + DAY * day, level * (1.0 + 0.01 * noise.next()))
    };
    let text = (0..60).map(&mut row).fold("time,p99_ms\n".to_owned(), |text, row| text + &row);
    lab.json(&["history", "import", &write(&lab, "nightly.csv", &text)]);
    let found = lab.json(&["history"]);
    let newest = &found["series"][0]["excursions"][0];
    assert_eq!((&newest["runs"], &newest["is_open"]), (&3.into(), &true.into()), "{found}");
    assert!(newest["missing"]["then"].is_string(), "{newest}");
    let text = lab.run(&["history"]).out;
    assert!(text.contains("excursion: newest 3 runs, since 2026-"), "{text}");
    let last = text.lines().last().expect("an answer");
    assert!(last.starts_with("no change in 60 values of 1 series; newest 3 runs of p99_ms +"), "{last}");
    assert!(last.ends_with(" (worse): too few to be a level, run it again"), "{last}");
}

/// The names are ours; the numbers are the file's, in a unit that only its author knows.
#[test]
fn numbers_of_a_csv_file_are_printed_as_they_are_whatever_their_name() {
    let lab = Lab::new();
    let (mut noise, mut text) = (Noise(5), "at,p99,cpu,time,lock-cpu\n".to_owned());
    for day in 0..40 {
        let level = if day < 20 { 1.0 } else { 1.2 };
        let mut value = |of: f64| (of * level * (1.0 + 0.005 * noise.next())).to_string();
        let cells = [value(12.5), value(85.0), value(9.0), value(1.5)].join(",");
        writeln!(text, "{},{cells}", 1_780_000_000 + DAY * day).expect("a string");
    }
    lab.json(&["history", "import", &write(&lab, "own.csv", &text)]);
    let has_unit = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
        digits.len() < word.len() && digits.contains('.') && digits.parse::<f64>().is_ok()
    };
    for words in [&["history"][..], &["history", "p99"], &["history", "cpu"], &["history", "lock-cpu"]] {
        let told = lab.run(words).out;
        assert!(!told.split_whitespace().any(has_unit) && !told.contains(" pp"), "{words:?}: {told}");
        assert!(told.contains("+2"), "there are changes: {told}");
    }
    let csv = lab.run(&["history", "p99", "--csv"]).out;
    assert!(csv.starts_with("time,metric,subject,environment,run,version,value,unit,low,"), "{csv}");
    let found = lab.json(&["history", "p99"]);
    assert!(
        found["series"][0]["unit"].is_null() && !found["series"][0]["missing"]["unit"].is_null(),
        "{found}"
    );
}

#[test]
fn the_long_form_keeps_apart_what_its_columns_tell_apart() {
    let lab = Lab::new();
    let text = "time,metric,subject,value\n1,p99,a,1\n1,p99,b,3\n";
    let found = |lab: &Lab| {
        let found = lab.json(&["history"]);
        let series = found["series"].as_array().expect("a list").clone();
        let of = |s: &serde_json::Value| {
            let word = |name: &str| s[name].as_str().expect("a text").to_owned();
            (word("subject"), word("environment"), s["points"][0]["value"].as_f64().expect("a number"))
        };
        series.iter().map(of).collect::<Vec<_>>()
    };
    lab.json(&["history", "import", &write(&lab, "x.csv", text)]);
    let unknown = || "unknown".to_owned();
    assert_eq!(found(&lab), [("a".to_owned(), unknown(), 1.0), ("b".to_owned(), unknown(), 3.0)]);
    // Our own form reads back with all its series.
    let again = Lab::new();
    let own = "time,metric,subject,environment,run,version,value,unit,low,high,event\n\
               1,p99,a,m1,r1,c1,1,s,0.9,1.1,\n1,p99,a,m2,r2,c1,2,s,,,rise\n";
    again.json(&["history", "import", &write(&again, "own.csv", own)]);
    let (m1, m2) = ("m1".to_owned(), "m2".to_owned());
    assert_eq!(found(&again), [("a".to_owned(), m1, 1.0), ("a".to_owned(), m2, 2.0)]);
    let wrong = write(&again, "wrong.csv", "time,metric,value,region\n1,p99,1,eu\n");
    let ended = again.run(&["history", "import", &wrong]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("wrong.csv:1:19: found `region`, expected"), "{}", ended.err);
    let periods = again.run(&["periods", &write(&again, "p.csv", text)]);
    assert!(periods.err.contains("one of `p99 a`, `p99 b`"), "{}", periods.err);
}

#[test]
fn an_import_is_a_run_like_any_other_and_is_stored_once() {
    let lab = Lab::new();
    let file = write(&lab, "nightly.csv", &nightly());
    let first = lab.json(&["history", "import", &file]);
    let again = lab.json(&["history", "import", &file]);
    assert_eq!((&again["run"], &again["is_new"]), (&first["run"], &false.into()));
    // A longer file of the same series: the earlier values count once.
    let longer = nightly() + &format!("{},c60,22,1000\n", 1_780_000_000 + DAY * 60);
    let file = write(&lab, "nightly.csv", &longer);
    assert_eq!(lab.json(&["history", "import", &file])["is_new"], true);
    let found = lab.json(&["history", "p99_ms"]);
    assert_eq!(found["series"][0]["points"].as_array().map(Vec::len), Some(61));

    let verified = lab.json(&["runs", "verify"]);
    assert_eq!((verified["verified"].as_u64(), verified["damaged"].as_u64()), (Some(2), Some(0)));
    assert_eq!(lab.json(&["runs", "reindex"])["same"], true);
    let run = first["run"].as_str().expect("an id");
    let shown = lab.json(&["runs", "show", run]);
    assert_eq!((&shown["kind"], shown["series"].as_array().map(Vec::len)), (&"import".into(), Some(2)));
    let exported = lab.run(&["runs", "export", run, "--format", "csv"]);
    assert_eq!(exported.code, Some(0), "{}", exported.err);
    assert!(exported.out.contains("p99_ms"), "{}", exported.out);
}

/// Subject, unit and values of each series.
fn series_of(lab: &Lab, metric: &str) -> Vec<(String, String, Vec<f64>)> {
    let found = lab.json(&["history", metric]);
    let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let values = |series: &serde_json::Value| {
        let points = series["points"].as_array().expect("a list");
        points.iter().map(|point| point["value"].as_f64().expect("a number")).collect()
    };
    let series = found["series"].as_array().expect("a list");
    series.iter().map(|one| (word(&one["subject"]), word(&one["unit"]), values(one))).collect()
}

/// The ids of two imports with the same first time end at random: neither they nor the order of the first
/// times tell which import is the newer.
#[test]
fn of_two_imports_of_a_value_the_newer_counts_whatever_their_first_times() {
    let lab = Lab::new();
    let import = |text: &str| lab.json(&["history", "import", &write(&lab, "x.csv", text)]);
    let numbers = |told: &serde_json::Value| (told["replaced"].as_u64(), told["unchanged"].as_u64());
    let told = import("time,v\n1000,1\n2000,2\n");
    assert_eq!(numbers(&told), (Some(0), Some(0)), "{told}");
    for correction in 1..=8 {
        // One of the two lines, then both: the newer import begins earlier.
        import(&format!("time,v\n2000,{correction}0\n"));
        let told = import(&format!("time,v\n1000,1\n2000,{correction}\n"));
        assert_eq!(numbers(&told), (Some(1), Some(1)), "{told}");
        assert_eq!(series_of(&lab, "v")[0].2, [1.0, f64::from(correction)]);
    }
    // The first file again takes the corrections back: it is not "already stored".
    let told = import("time,v\n1000,1\n2000,2\n");
    assert_eq!((&told["is_new"], numbers(&told)), (&true.into(), (Some(1), Some(1))), "{told}");
    assert_eq!(series_of(&lab, "v")[0].2, [1.0, 2.0]);
    let again = lab.run(&["history", "import", &write(&lab, "x.csv", "time,v\n1000,1\n2000,2.5\n3000,3\n")]);
    assert!(
        again.out.contains("3 values of v (csv): stored as ")
            && again.out.ends_with("; 1 replaces an earlier value, 1 is unchanged\n"),
        "{}",
        again.out
    );
}

#[test]
fn values_of_one_time_with_different_commits_or_labels_are_different_values() {
    let lab = Lab::new();
    let file = write(&lab, "x.csv", "time,commit,v\n2026-11-21,b,1\n2026-11-21,a,3\n");
    lab.json(&["history", "import", &file, "--zone", "UTC"]);
    assert_eq!(series_of(&lab, "v")[0].2, [1.0, 3.0]);
    let other = write(&lab, "y.csv", "time,metric,benchmark,unit,value\n2026-11-21,v,x,,5\n");
    for branch in ["commit=c", "commit=d", "branch=main"] {
        lab.json(&["history", "import", &other, "--zone", "UTC", "--label", branch]);
    }
    assert_eq!(series_of(&lab, "v")[0].2, [1.0, 3.0, 5.0, 5.0, 5.0]);
}

#[test]
fn values_of_one_time_on_different_hosts_are_different_values_of_any_host() {
    let lab = Lab::new();
    for rows in ["2026-11-21,v,lab1,1\n2026-11-21,v,lab2,3\n", "2026-11-21,v,lab3,5\n"] {
        let file = write(&lab, "x.csv", &format!("time,metric,host,value\n{rows}"));
        lab.json(&["history", "import", &file, "--zone", "UTC"]);
    }
    let csv = lab.run(&["history", "v", "--any-host", "--csv"]).out;
    assert!(csv.lines().skip(1).filter_map(|line| line.split(',').nth(6)).eq(["1", "3", "5"]), "{csv}");
}

#[test]
fn the_time_of_at_is_part_of_a_values_identity() {
    let lab = Lab::new();
    let result = r#"{"results":[{"command":"x","mean":0.5,"user":0.1,"system":0.1,"exit_codes":[0]}]}"#;
    let file = write(&lab, "x.json", result);
    let at = |time: &str| lab.json(&["history", "import", &file, "--at", time])["is_new"].clone();
    assert_eq!((at("2026-11-21T03:00:00Z"), at("2026-11-22T03:00:00Z")), (true.into(), true.into()));
    assert_eq!((at("2026-11-21T03:00:00Z"), at("2026-11-22T04:00:00+01:00")), (false.into(), false.into()));
    assert_eq!(series_of(&lab, "time")[0].2, [0.5, 0.5]);
    // A copy of an undated file is not a new measurement.
    let copy = write(&lab, "copy.json", result);
    assert_eq!(lab.json(&["history", "import", &copy])["is_new"], false);
    let labeled = lab.json(&["history", "import", &copy, "--label", "branch=main"]);
    assert_eq!(labeled["is_new"], true, "a label that the stored run lacks");
    let dated = write(&lab, "dated.csv", "time,v\n1,2\n");
    let refused = lab.run(&["history", "import", &dated, "--at", "2026-11-21T03:00:00Z"]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("leave out --at"), "{}", refused.err);
}

#[test]
fn units_of_one_kind_are_one_series_and_others_are_not() {
    let lab = Lab::new();
    let text = "time,metric,subject,unit,value\n1,p,a,ms,12.5\n2,p,a,s,0.0126\n3,p,a,us,12700\n4,p,a,\u{b5}s,12800\n\
                1,size,a,KiB,2\n2,size,a,B,2049\n3,size,a,kB,2\n1,p,b,ticks,7\n2,p,b,ms,1\n1,p,b,,8\n\
                1,rate,a,MB/s,1.5\n2,rate,a,B/min,60\n";
    lab.json(&["history", "import", &write(&lab, "x.csv", text)]);
    let known = |subject: &str, unit: &str, values: &[f64]| (subject.into(), unit.into(), values.to_vec());
    assert_eq!(
        series_of(&lab, "p"),
        [
            known("a", "s", &[0.0125, 0.0126, 0.0127, 0.0128]),
            known("b", "", &[8.0]),
            known("b", "s", &[0.001]),
            known("b", "ticks", &[7.0])
        ]
    );
    assert_eq!(series_of(&lab, "size"), [known("a", "bytes", &[2048.0, 2049.0, 2000.0])]);
    assert_eq!(series_of(&lab, "rate"), [known("a", "bytes/s", &[1.5e6, 1.0])]);
    // Each other view of the same numbers keeps the units apart, too.
    let run = lab.json(&["runs", "list"])["runs"][0]["run"].as_str().expect("an id").to_owned();
    let shown = lab.json(&["runs", "show", &run]);
    let means: Vec<f64> =
        shown["series"].as_array().expect("a list").iter().filter_map(|s| s["mean"].as_f64()).collect();
    assert!(means.contains(&7.0) && means.contains(&0.001), "{}", shown["series"]);
    for source in [&run, &write(&lab, "x.csv", text)] {
        let periods = lab.run(&["periods", source]);
        assert!(periods.err.contains("`p b ticks`") && periods.err.contains("`p b s`"), "{}", periods.err);
        assert!(periods.err.contains("`p a`"), "{}", periods.err);
    }
    let told = lab.run(&["history", "p"]).out;
    assert!(told.contains("12.80 ms") || told.contains("12.8 ms"), "{told}");
    assert!(told.contains("7.000 ticks"), "{told}");
    let one = lab.run(&["history", "size"]).out;
    assert!(one.contains("size (bytes) of a on unknown"), "{one}");
    let csv = lab.run(&["history", "--csv"]).out;
    let again = Lab::new();
    again.json(&["history", "import", &write(&again, "own.csv", &csv)]);
    assert_eq!(series_of(&again, "size"), series_of(&lab, "size"));
}

/// Changes of criterion are ratios, and a file without its folders has no name.
#[test]
fn a_file_of_criterion_is_named_by_its_folders_wherever_it_is_read_from() {
    let lab = Lab::new();
    let estimate = |ns: f64| format!("{{\"point_estimate\":{ns}}}");
    let file = |folder: &str, ns: f64, rest: &str| {
        std::fs::create_dir_all(lab.path(folder)).expect("a folder");
        let text = format!("{{\"mean\":{},\"median\":{}{rest}}}", estimate(ns), estimate(ns));
        write(&lab, &format!("{folder}/estimates.json"), &text)
    };
    let deviation = r#","std_dev":{"point_estimate":1.0}"#;
    for (folder, ns) in [("a/sort/10", 1e3), ("b/sort/10", 2e3), ("a/sort/20", 3e3)] {
        file(&format!("target/criterion/{folder}/new"), ns, deviation);
        let from = lab.path(&format!("target/criterion/{folder}"));
        let mut import = lab.command(&["history", "import", "new/estimates.json"]);
        assert!(import.current_dir(&from).status().expect("it starts").success());
    }
    let found = series_of(&lab, "time");
    let known = |subject: &str, ns: f64| (subject.to_owned(), "s".to_owned(), vec![ns / 1e9]);
    assert_eq!(found, [known("a/sort/10", 1e3), known("a/sort/20", 3e3), known("b/sort/10", 2e3)]);
    // Its folder's name is cut and cleaned; the file beside it has the true one.
    let named = file("target/criterion/a/x_y/new", 4e3, deviation);
    let beside = r#"{"group_id":"a","function_id":"x/y","value_str":null,"throughput":null,"full_id":"a/x/y","directory_name":"a/x_y","title":"a/x/y"}"#;
    write(&lab, "target/criterion/a/x_y/new/benchmark.json", beside);
    lab.json(&["history", "import", &named]);
    assert!(series_of(&lab, "time").contains(&known("a/x/y", 4e3)));
    let change = file("target/criterion/a/x_y/change", 0.02, "");
    let alone = file("elsewhere", 5e3, deviation);
    for (file, says) in [(&change, "changes"), (&alone, "--name")] {
        let refused = lab.run(&["history", "import", file]);
        assert!(refused.code == Some(2) && refused.err.contains(says), "{}", refused.err);
    }
    lab.json(&["history", "import", &alone, "--name", "mine"]);
    assert!(series_of(&lab, "time").contains(&known("mine", 5e3)));
}

#[test]
fn own_runs_have_their_metrics_and_invalid_ones_are_counted() {
    let lab = Lab::new();
    let words = ["load", "null:", "--rate", "2000", "--time", "300ms", "--warmup", "0", "--observe", "none"];
    for _ in 0..2 {
        lab.run(&words);
    }
    lab.run(&["record", "--", "true"]);
    lab.run(&["compare", "--blocks", "3", "--", "true", "sleep 0.01", "true"]);
    let compared = lab.json(&["history", "time", "--of", "compare"]);
    let of =
        |i: usize| (compared["series"][i]["subject"].clone(), compared["series"][i]["points"][0].clone());
    let ((first, one), (second, other), (third, _)) = (of(0), of(1), of(2));
    // What stands around each of two equal commands may differ (`--prepare`): they are two series.
    let subjects = [first, second, third].map(|subject| subject.as_str().expect("a name").to_owned());
    assert_eq!(subjects, ["compare: sleep 0.01", "compare: true", "compare: true #2"], "{compared}");
    let number = |of: &serde_json::Value, name: &str| of[name].as_f64().expect("a number");
    assert!(number(&one, "low") < number(&one, "value") && number(&one, "value") < number(&one, "high"));
    assert!(number(&one, "value") > 0.01, "{one}");
    assert!(number(&other, "value") > 0.0 && number(&other, "low") > 0.0, "{other}");
    let found = lab.json(&["history"]);
    let series = found["series"].as_array().expect("a list");
    let left: u64 =
        found["left_out"].as_array().expect("a list").iter().filter_map(|l| l["runs"].as_u64()).sum();
    let points: usize = series.iter().filter_map(|s| s["points"].as_array().map(Vec::len)).sum();
    assert!(points > 0 && left > 0, "{found}");
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    assert!(series.iter().all(|s| s["environment"] == host.trim()), "{found}");
    let text = lab.run(&["history"]);
    assert!(text.out.lines().last().expect("an answer").starts_with("cannot tell: "), "{}", text.out);
}

/// Two loads of one target under one label, in turn. They differ in a setting that decides the work of an
/// event.
#[test]
fn loads_in_turn_are_series_and_compare_names_their_difference() {
    let lab = Lab::new();
    let target = lab.sqlite();
    for selects in ["10", "5", "10", "5"] {
        let words = ["load", &target, "--workload", "oltp-read-only", "--point-selects", selects];
        let of_all =
            ["--tables", "1", "--rows", "100", "--threads", "1", "--time", "300ms", "--warmup", "300ms"];
        let labels = ["--observe", "none", "--label", "nightly=yes", "--label"];
        let own = format!("selects={selects}");
        let ended = lab.run(&[&words[..], &of_all, &labels, &[&own]].concat());
        assert_eq!(ended.code, Some(0), "{}{}", ended.out, ended.err);
    }
    let found = lab.json(&["history", "throughput", "--label", "nightly=yes"]);
    let series = found["series"].as_array().expect("a list");
    let told: Vec<(&str, usize, usize)> = series
        .iter()
        .map(|one| {
            let count = |name: &str| one[name].as_array().map_or(0, Vec::len);
            (one["subject"].as_str().expect("a name"), count("points"), count("breaks"))
        })
        .collect();
    let [first, second] = &told[..] else { panic!("{told:?}") };
    assert!(first.0.ends_with(" (closed loop), point-selects=10") && second.0.ends_with(", point-selects=5"));
    assert_eq!((first.1, first.2, second.1, second.2), (2, 0, 2, 0), "{told:?}");
    let text = lab.run(&["history", "throughput", "--label", "nightly=yes"]).out;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("has 2 series: point-selects=10 (2 runs); point-selects=5 (2 runs)."), "{text}");
    let compared = lab.run(&["compare", "selects=10", "selects=5"]);
    assert!(compared.out.contains("point-selects: 10 (selects=10), 5 (selects=5)"), "{}", compared.out);
}

#[test]
fn text_of_a_file_reaches_the_terminal_escaped() {
    let lab = Lab::new();
    let file = write(&lab, "x.csv", "time,metric,value\n1,a\u{1b}[2Jb,1\n2,a\u{1b}[2Jb,2\n");
    for words in [&["history", "import", &file][..], &["history"], &["history", "--csv"], &["runs", "list"]] {
        let ended = lab.run(words);
        assert!(!(ended.out + &ended.err).contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn wrong_files_and_options_end_with_what_to_do() {
    let lab = Lab::new();
    let wrong = write(&lab, "wrong.csv", "time,v\nyesterday,1\n");
    let json = write(&lab, "wrong.json", "{}");
    let several = write(&lab, "several.csv", "time,a,b\n1,2,3\n");
    let dated = write(&lab, "dated.csv", "time,value\n1,2\n");
    let hyperfine = write(&lab, "h.json", r#"{"results":[{"command":"a","mean":1.0,"times":[1.0,1.0]}]}"#);
    for (words, code, says) in [
        (&["history", "import", &wrong][..], 2, "wrong.csv:2:1: found `yesterday`, expected a time"),
        (&["history", "import", &json], 2, "JSON of an unknown form"),
        (&["history", "import", "/no/such/file"], 2, "No such file"),
        (&["history", "--alpha", "0"], 2, "more than 0 %"),
        (&["history", "--since", "soon"], 2, "`soon` is not a time: expected a time such as 2026-"),
        (&["history", "import", &hyperfine, "--at", "garbage"], 2, "--at: `garbage` is not a time: expected"),
        (&["history", "import", &hyperfine, "--at", "time"], 2, "--at: `time` is not a time: expected"),
        (
            &["history", "import", &dated, "--at", "2026-11-21"],
            2,
            "has the time of each value; leave out --at",
        ),
        (&["history", "import", &hyperfine, "--name", "x"], 2, "names the benchmark of each value"),
        (&["periods", &several], 2, "--metric NAME is needed: one of `a`, `b`"),
        (&["periods", &several, "--metric", "c"], 2, "there is no `c`, only `a`, `b`"),
        (&["periods", &several, "--metric", "a", "--zone", "Mars/Base"], 2, "no time zone `Mars/Base`"),
        (&["periods", "/no/such.csv"], 2, "there is no file"),
        (&["aa"], 2, "--simulate N"),
        (&["aa", "--simulate", "0"], 2, "0"),
        (&["aa", "/no/plan.toml"], 2, "/no/plan.toml"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(code), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{words:?}: {}", ended.err);
    }
}

#[test]
fn since_is_a_date_a_moment_or_a_duration() {
    let lab = Lab::new();
    let file = write(&lab, "x.csv", "time,v\n2026-11-01T12:00:00Z,1\n2026-11-02T12:00:00Z,2\n");
    assert_eq!(lab.run(&["history", "import", &file]).code, Some(0));
    let points = |since: &str| {
        let found = lab.json(&["history", "v", "--since", since]);
        let series = found["series"].as_array().expect("series");
        series.first().map_or(0, |one| one["points"].as_array().expect("points").len())
    };
    assert_eq!(["2026-10-01", "2026-11-02T12:00:00Z", "1793620800"].map(points), [2, 1, 1]);
    assert_eq!(["2026-11-02T12:00:01Z", "1ms", "3650d"].map(points), [0, 0, 2]);
}

#[test]
fn a_comparison_has_a_time_and_a_cpu_time_of_each_command_over_time() {
    let lab = Lab::new();
    let ended = lab.run(&["compare", "--blocks", "20", "--", "true", "false || true"]);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let asked = lab.run(&["periods", "latest"]);
    let said = "--metric NAME is needed: one of `cpu A`, `cpu B`, `time A`, `time B`";
    assert!(asked.code == Some(2) && asked.err.contains(said), "{}", asked.err);
    let of_time = lab.run(&["periods", "latest", "--metric", "time"]);
    assert!(of_time.err.contains("there is no `time`, only `time A`, `time B`"), "{}", of_time.err);
    // Warm-up and pilot are not measured rounds.
    assert_eq!(lab.json(&["periods", "latest", "--metric", "time B"])["n"], 20);
}

/// Four weeks every ten minutes, busy from nine to eleven by the clock of Berlin, over the end of summer
/// time.
fn by_the_clock() -> String {
    let (mut noise, mut text) = (Noise(3), "time,value\n".to_owned());
    let start = 1_792_000_000_u64; // 14 October 2026
    for i in 0..4_032 {
        let at = start + 600 * i;
        // Summer time ends on 25 October 2026, 01:00 UTC.
        let offset = if at < 1_792_890_000 { 7_200 } else { 3_600 };
        let hour = (at + offset) % DAY / 3_600;
        let value = 50.0 + 5.0 * noise.next() + if (9..11).contains(&hour) { 20.0 } else { 0.0 };
        writeln!(text, "{at},{value}").expect("a string");
    }
    text
}

#[test]
fn a_daily_cycle_is_told_in_local_time_over_a_change_of_the_clock() {
    let lab = Lab::new();
    let file = write(&lab, "busy.csv", &by_the_clock());
    let found = lab.json(&["periods", &file, "--zone", "Europe/Berlin"]);
    assert_eq!((&found["schema"], found["n"].as_u64()), (&"bakeoff.periods/1".into(), Some(4_032)));
    let periods = found["periods"].as_array().expect("a list");
    assert_eq!(periods.len(), 1, "{found}");
    let day = &periods[0];
    assert!((day["period_s"].as_f64().expect("a number") / 86_400.0 - 1.0).abs() < 0.01, "{day}");
    assert!(day["harmonics"].as_array().is_some_and(|all| all.contains(&2.into())), "{day}");
    let local = day["local"].as_str().expect("a text");
    // A value every ten minutes, 400 s after the full ones: from 09:06:40 to 10:56:40.
    assert_eq!(local, "highest 09:07 to 10:57");
    let gap = write(&lab, "gap.csv", &(by_the_clock() + "1800000000,NaN\n1800000600,\n"));
    assert_eq!(lab.json(&["periods", &gap, "--zone", "Europe/Berlin"])["missing"], 2);
    assert!(lab.run(&["periods", &gap]).out.contains("2 cells of the file without a number: left out."));
    let text = lab.run(&["periods", &file, "--zone", "Europe/Berlin"]);
    let last = text.out.lines().last().expect("an answer");
    assert!(
        last.starts_with("a daily cycle, highest 09:07 to 10:57 ") && last.contains("(Europe/Berlin)"),
        "{last}"
    );
}

#[test]
fn under_three_cycles_the_answer_is_that_nothing_can_be_told() {
    let lab = Lab::new();
    let mut noise = Noise(5);
    let mut table = |n: u64, step: u64| {
        (0..n).fold("time,v\n".to_owned(), |text, i| {
            text + &format!("{},{}\n", 1_792_000_000 + step * i, 50.0 + noise.next())
        })
    };
    let (few, short) = (table(20, 600), table(300, 600));
    let last = |text: &str| {
        let file = write(&lab, "v.csv", text);
        lab.run(&["periods", &file, "--zone", "UTC"]).out.lines().last().unwrap_or_default().to_owned()
    };
    assert!(last(&few).starts_with("cannot tell: 20 values"), "{}", last(&few));
    assert_eq!(last(&short), "no cycle at 1 %; cannot tell about 1 day");
}

#[test]
fn the_rule_alone_keeps_its_promise() {
    let lab = Lab::new();
    let found = lab.json(&["aa", "--simulate", "400", "--seed", "1"]);
    assert_eq!((&found["schema"], found["families"].as_u64()), (&"bakeoff.aa/1".into(), Some(400)));
    assert!(found["rate"].as_f64().expect("a number") < 0.08 && found["is_broken"] == false, "{found}");
    let text = lab.run(&["aa", "--simulate", "400", "--seed", "1"]);
    assert_eq!(text.code, Some(0), "{}", text.err);
    assert!(text.out.contains("400 simulated families (seed 1)"), "{}", text.out);
}

#[test]
fn a_plan_is_run_against_itself_by_the_code_that_runs_it() {
    let lab = Lab::new();
    let plan = r#"
schema = 1
title  = "Naps"
[factors.nap]
values    = ["0.001", "0.5"]
reference = "0.001"
level     = "whole-plot"
[design]
blocks = 6
[load]
target = "exec:sleep {nap}"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "200ms" }
cooldown = "0s"
[judge]
metrics = ["throughput"]
"#;
    let file = write(&lab, "plan.toml", plan);
    let ended = lab.run(&["aa", &file, "--times", "1", "--json"]);
    // A busy machine may make trials INVALID, and then the bake-off makes no claim.
    assert!(matches!(ended.code, Some(0 | 1 | 3)), "{}", ended.err);
    let runs = lab.json(&["runs", "list", "--label", "against-itself=1"]);
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(1), "{runs}");
    let id = runs["runs"][0]["run"].as_str().expect("an id");
    let shown = lab.json(&["runs", "show", id]);
    assert_eq!(shown["cells"]["planned"].as_u64().map(|n| n > 0), Some(true), "{shown}");
    assert!(!ended.err.contains("nap=0.5"), "{}", ended.err);
    assert!(ended.err.contains("copy=a") && ended.err.contains("copy=b"), "{}", ended.err);
    // The text of the plan has other trials: `resume` builds the same variant of it again.
    let resumed = lab.run(&["resume", id]);
    assert!(matches!(resumed.code, Some(0 | 3)), "{:?}: {}", resumed.code, resumed.err);
    let few = write(&lab, "few.toml", &plan.replace("blocks = 6", "blocks = 2"));
    let refused = lab.run(&["aa", &few]);
    assert_eq!(refused.code, Some(2), "{}", refused.err);
    assert!(refused.err.contains("2 blocks are too few for any verdict"), "{}", refused.err);
}
