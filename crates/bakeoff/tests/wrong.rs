//! Mistakes of a user: one clear line, the right exit code, no partial files.

mod lab;

use lab::Lab;

/// Runs the words, and returns standard error.
#[track_caller]
fn fails(lab: &Lab, words: &[&str], code: i32) -> String {
    let ended = lab.run(words);
    assert_eq!(ended.code, Some(code), "{words:?}: {}{}", ended.err, ended.out);
    assert_eq!(ended.out, "", "{words:?}");
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    let archived = lab.archived_bytes();
    assert!(archived.iter().all(|(path, _)| !path.to_string_lossy().contains(".partial")), "{archived:?}");
    ended.err
}

#[test]
fn a_wrong_command_line_is_told_and_ends_with_2() {
    let lab = Lab::new();
    for (words, word) in [
        (&["load", "null:", "--rate", "0"][..], "over 0"),
        (&["load", "null:", "--rate", "-5"], "over 0"),
        (&["load", "null:", "--time", "-1s"], "`-1s` is not a duration"),
        (&["load", "null:", "--rate", "5", "--time", "500000d"], "at most 3650d (ten years)"),
        (&["load", "null:", "--rate", "fast"], "500/s"),
        (&["load", "null:", "--time", "10"], "200ms"),
        (&["load", "null:", "--workload", "tpcc"], "oltp-read-write"),
        (&["load", "null:", "--workload", "oltp-read-only"], "native"),
        (&["load", "oracle://x"], "sqlite:PATH"),
        (&["load", "nothing"], "sqlite:PATH"),
        (&["load", "null:", "--late", "wait"], "skip=DURATION"),
        (&["load", "null:", "--late", "drop"], "--late needs --rate"),
        (&["load", "null:", "--schedule", "own"], "--schedule needs --rate"),
        (&["load", "null:", "--fifo"], "--fifo needs --rate"),
        (&["load", "null:", "--arrivals", "poisson"], "--arrivals needs --rate"),
        (&["load", "null:", "--jitter", "5%"], "--jitter needs --rate"),
        (&["load", "null:", "--spin-budget", "0%"], "--spin-budget needs --rate"),
        (&["load", "null:", "--spin-us", "9"], "--spin-us needs --rate"),
        (&["load", "null:", "--rate", "9", "--think", "1s"], "--think cannot be combined with --rate"),
        (
            &["load", "null:", "--rate", "9", "--arrivals", "poisson", "--jitter", "5%"],
            "--jitter cannot be combined with --arrivals",
        ),
        (
            &["load", "null:", "--rate", "9", "--arrivals", "ramp:1-9"],
            "--arrivals cannot be combined with --rate",
        ),
        (&["load", "null:", "--arrivals", "ramp:1"], "ramp:100-1000"),
        (&["load", "null:", "--arrivals", "file:no-such-file"], "no-such-file"),
        (&["load", "null:", "--rate", "99999999"], "at most 10000000"),
        (&["load", "null:", "--jitter", "0.1"], "percentage"),
        (&["load", "sqlite:/tmp/x.db?journal_mode=wall"], "wall"),
        (&["load", "null:", "--label", "x"], "KEY=VALUE"),
        (&["prepare", "sqlite:no.db", "--script", "/dev/null"], "leave --script out"),
        (&["cleanup", "sqlite:no.db", "--script", "/dev/null"], "leave --script out"),
        (&["cpu", "0"], "100ms"),
        (&["runs", "list", "--state", "good"], "sealed"),
        (&["plan", "check", "no-such-plan.toml"], "no-such-plan.toml"),
        (&["frobnicate"], "frobnicate"),
    ] {
        let err = fails(&lab, words, 2);
        assert!(err.contains(word), "{words:?}: {err}");
        // The problem is on the first line, hints are on indented lines.
        assert!(err.starts_with("bakeoff: ") && err.lines().skip(1).all(|l| l.starts_with("  ")), "{err}");
    }
    assert_eq!(lab.run(&["load", "--help"]).code, Some(0));
}

#[test]
fn a_misspelled_name_gets_a_suggestion() {
    let lab = Lab::new();
    for (words, meant) in [
        (&["laod", "null:"][..], "`load`"),
        (&["load", "nul:"], "`null:`"),
        (&["load", "nul"], "`null:`"),
        (&["load", "mysq://u@h/b"], "`mysql:`"),
        (&["load", "null:", "--rat", "5"], "`--rate`"),
        (&["load", "null:", "--observe", "cpu,lokcs"], "`locks`"),
        (&["load", "sqlite:x?jurnal_mode=wal"], "`journal_mode`"),
        (&["load", "null:", "--prepare", "neverr"], "`never`"),
        (&["prove", "lcoks"], "`locks`"),
        (&["runs", "lst"], "`list`"),
        (&["runs", "list", "--kind", "laod"], "`load`"),
        (&["runs", "export", "latest", "--format", "cvs"], "`csv`"),
        (&["generate", "man", "laod"], "`load`"),
    ] {
        let err = fails(&lab, words, 2);
        assert!(err.contains(&format!("did you mean {meant}")), "{words:?}: {err}");
    }
    // A password is not repeated, and nothing similar is not suggested.
    let err = fails(&lab, &["load", "mysq://u:secret@h/b"], 2);
    assert!(!err.contains("secret"), "{err}");
    assert!(!fails(&lab, &["load", "oracle://x"], 2).contains("did you mean"));
}

#[test]
fn a_load_that_fails_leaves_the_users_files_as_they_were() {
    let lab = Lab::new();
    let (hlog, database) = (lab.path("old.hlog"), lab.path("typo.db"));
    std::fs::write(&hlog, "precious").unwrap();
    let target = format!("sqlite:{}", database.display());
    fails(&lab, &["load", &target, "--prepare", "never", "--hlog", hlog.to_str().unwrap()], 2);
    fails(&lab, &["load", "mysql://u@127.0.0.1:1/b", "--hlog", hlog.to_str().unwrap()], 5);
    fails(&lab, &["load", &format!("{target}?journal_mode=wall")], 2);
    assert_eq!(std::fs::read_to_string(&hlog).unwrap(), "precious");
    assert!(!database.exists());
}

#[test]
fn a_run_that_is_not_there_is_told_and_ends_with_2() {
    let lab = Lab::new();
    assert_eq!(lab.run(&["load", "null:", "--time", "200ms", "--warmup", "0"]).code, Some(0));
    for command in [&["runs", "show"][..], &["runs", "rm"], &["report"], &["resume"], &["runs", "verify"]] {
        let err = fails(&lab, &[command, &["01ZZZZZZZZ"]].concat(), 2);
        assert!(err.contains("01ZZZZZZZZ") && err.contains("runs list"), "{err}");
    }
    let err = fails(&lab, &["resume", "latest"], 2);
    assert!(err.contains("no run of kind bakeoff, scale, dder in this archive"), "{err}");
    let err = fails(&lab, &["report", "latest", "-o", "page.pdf"], 2);
    assert!(err.contains(".html or .md"), "{err}");
}

#[test]
fn an_archive_that_cannot_be_used_is_told_before_anything_is_measured() {
    let lab = Lab::new();
    std::fs::write(lab.path("file"), "").unwrap();
    let in_a_file = lab.path("file").join("archive");
    let err = fails(&lab, &["load", "null:", "--archive", in_a_file.to_str().unwrap()], 6);
    assert!(err.contains("--archive") && err.lines().count() == 1, "{err}");
    let err = fails(&lab, &["runs", "list", "--archive", lab.path("none").to_str().unwrap()], 6);
    assert!(err.contains("no archive in"), "{err}");
}

#[test]
fn data_that_is_missing_and_may_not_be_built_is_told() {
    let lab = Lab::new();
    let target = lab.sqlite();
    let err = fails(&lab, &["load", &target, "--prepare", "never", "--rate", "10"], 2);
    assert!(err.contains("bench.db does not exist") && err.contains("prepare"), "{err}");
}

#[test]
fn a_typo_in_a_plan_is_told_with_line_and_column() {
    let lab = Lab::new();
    let plan = lab.path("typo.toml");
    let text = "schema = 1\ntitle = \"x\"\n[load]\ntarget = \"null:\"\nthreds = 4\n[phases]\nmeasure = { time = \"1s\" }\n";
    std::fs::write(&plan, text).unwrap();
    for command in [&["plan", "check"][..], &["run"]] {
        let err = fails(&lab, &[command, &[plan.to_str().unwrap()]].concat(), 2);
        assert!(err.contains("typo.toml:5:1") && err.contains("threads"), "{err}");
    }
}

#[test]
fn every_example_plan_is_checked_without_a_note() {
    let lab = Lab::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plans");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let checked = lab.run(&["plan", "check", path.to_str().unwrap()]);
        let text = format!("{}{}", checked.out, checked.err);
        assert_eq!(checked.code, Some(0), "{text}");
        assert!(!text.contains("note:"), "{text}");
    }
}

#[test]
fn a_misspelled_instrument_or_target_of_a_plan_is_told_before_anything_runs() {
    let lab = Lab::new();
    let plan = lab.path("names.toml");
    let text = |target: &str, instrument: &str| {
        format!(
            "schema = 1\ntitle = \"x\"\n[design]\nblocks = 1\n[load]\ntarget = \"{target}\"\n[phases]\nmeasure = {{ time = \"1s\" }}\n\
             [observe]\ninstruments = [\"cpu\", \"{instrument}\"]\n"
        )
    };
    for (target, instrument, meant) in [
        ("null:", "memroy", "did you mean `memory`?"),
        ("redsi://localhost", "memory", "did you mean `redis:`?"),
    ] {
        std::fs::write(&plan, text(target, instrument)).unwrap();
        for command in [&["plan", "check"][..], &["plan", "explain"], &["run"]] {
            let err = fails(&lab, &[command, &[plan.to_str().unwrap()]].concat(), 2);
            assert!(err.contains("names.toml") && err.contains(meant), "{command:?}: {err}");
        }
    }
}

#[test]
fn a_full_disk_costs_neither_the_result_nor_the_archive() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: a small file system can be mounted by root only");
        return;
    }
    let lab = Lab::new();
    let disk = lab.path("disk");
    std::fs::create_dir(&disk).unwrap();
    let mount = |words: &[&str]| std::process::Command::new(words[0]).args(&words[1..]).status();
    let mounted = mount(&["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", disk.to_str().unwrap()]);
    if !mounted.is_ok_and(|s| s.success()) {
        eprintln!("skipped: no tmpfs can be mounted here");
        return;
    }
    let archive = disk.join("archive");
    let words = ["load", "null:", "--rate", "2000", "--time", "1s", "--interval", "100ms", "--archive"];
    let ended = lab.run(&[&words[..], &[archive.to_str().unwrap()]].concat());
    let left = std::fs::read_dir(archive.join("runs")).into_iter().flatten().flatten();
    let left: Vec<_> = left.map(|entry| entry.path()).collect();
    assert!(mount(&["umount", disk.to_str().unwrap()]).unwrap().success());
    assert_eq!(ended.code, Some(6), "{}", ended.err);
    assert!(ended.err.lines().last().unwrap().contains("no space left"), "{}", ended.err);
    assert!(left.is_empty(), "{left:?}");
    assert!(ended.out.contains(" events, "), "what was measured is still told: {}", ended.out);
}

#[test]
fn an_option_that_could_only_be_ignored_is_refused_with_whom_it_is_for() {
    let lab = Lab::new();
    for (words, says) in [
        (&["load", "null:", "--verify"][..], "--verify is for caches"),
        (&["load", "http://h/", "--env", "A=B"], "--env is for commands (exec:), not for http:"),
        (&["load", "sqlite:/x", "--keys", "5"], "--keys is for caches"),
        (&["prepare", "memcached://h", "--rows", "5"], "--rows is for databases"),
        (&["load", "exec:true", "--insecure"], "--insecure is for web servers"),
    ] {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(2), "{words:?}: {}", ended.err);
        assert!(ended.err.contains(says), "{words:?}: {}", ended.err);
    }
}

#[test]
fn an_option_without_effect_in_a_mode_of_its_command_is_refused() {
    let lab = Lab::new();
    let plan = lab.path("plan.toml");
    let plan = plan.to_str().unwrap();
    let text = "schema = 1\ntitle = \"t\"\n[design]\nblocks = 1\n[load]\ntarget = \"null:\"\n[phases]\n\
                measure = { time = \"1s\" }\n";
    std::fs::write(plan, text).unwrap();
    for (words, says) in [
        (&["aa", "--simulate", "9", "--beside-others"][..], "--beside-others has no effect"),
        (&["plan", "explain", plan, "--beside-others"], "--beside-others has no effect without --pilot"),
        (&["locks", "--csv", "--histogram"], "cannot be used with"),
        (&["profile", "--folded", "--top", "5"], "cannot be used with"),
        (&["record", "--no-archive", "--label", "a=b", "--", "true"], "cannot be used with"),
        (&["load", "null:", "--no-archive", "--label", "a=b"], "cannot be used with"),
        (&["load", "null:", "--no-archive", "--title", "a"], "cannot be used with"),
        (&["compare", "--no-archive", "--label", "a=b", "--", "true", "false"], "cannot be used with"),
        (&["report", "a", "--json", "--identify"], "--identify has no effect on --json"),
        (&["report", "--compare", "a", "b", "--json"], "--json of several runs needs -o"),
        (&["queue", "submit", plan, "--not-before", "soon"], "`soon` is not a time"),
        (&["queue", "list", "--ca", "/x.pem", "--server", "http://127.0.0.1:1"], "--ca has no effect"),
        (&["cpu", "1", "1", "--top", "5"], "--top"),
        (&["nic", "--csv", "--extended"], "cannot be used with"),
        (&["nic", "--csv", "--json"], "cannot be used with"),
        (&["ulocks", "--csv", "--top", "5"], "cannot be used with"),
    ] {
        let err = fails(&lab, words, 2);
        assert!(err.contains(says), "{words:?}: {err}");
    }
    lab.run(&["record", "--", "true"]);
    let err = fails(&lab, &["runs", "export", "latest", "--format", "csv", "--json"], 2);
    assert!(err.contains("--json contradicts --format"), "{err}");
}
