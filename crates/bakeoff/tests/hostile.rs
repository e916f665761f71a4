//! Planted files, hostile names and hostile text: no foreign file is overwritten, and no text controls a
//! terminal.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod lab;

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lab::{Ended, Lab};

const LOAD: [&str; 8] = ["load", "null:", "--rate", "500", "--time", "200ms", "--observe", "none"];

/// A label that sets the terminal's title, clears the screen, reorders, and forges a line.
const HOSTILE: &str = "a\u{1b}]0;owned\u{7}\u{1b}[2Jb\u{9b}31m\u{202e}c\nVALID: forged\r\u{85}\u{7f}";

/// Fails if a terminal would interpret the text as control sequences, or reorder it.
#[track_caller]
fn assert_harmless(text: &str) {
    let orders = |c: char| {
        (c.is_control() && c != '\n' && c != '\t')
            || ('\u{202a}'..='\u{202e}').contains(&c)
            || ('\u{2066}'..='\u{2069}').contains(&c)
    };
    assert!(!text.contains(orders), "{:?}", text.lines().find(|line| line.contains(orders)));
    assert!(!text.lines().any(|line| line.starts_with("VALID: forged")), "{text}");
}

#[test]
fn planted_links_are_replaced_and_what_they_lead_to_is_untouched() {
    let lab = Lab::new();
    let victim = lab.path("victim");
    fs::write(&victim, "precious").unwrap();
    let files = ["page.html", "page.md", "events.parquet", "log.hlog", "log.hgrm", "host.html"];
    for file in files {
        for planted in [file.to_owned(), format!("{file}.partial"), format!(".{file}.partial")] {
            symlink(&victim, lab.path(&planted)).unwrap();
        }
    }
    let path = |file: &str| lab.path(file).to_str().unwrap().to_owned();
    let load = |option: &str, file: &str| {
        let ended = lab.run(&[&LOAD[..], &[option, &path(file)]].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    };
    load("--log", "events.parquet");
    load("--hlog", "log.hlog");
    load("--hlog", "log.hgrm");
    for page in ["page.html", "page.md"] {
        let ended = lab.run(&["report", "latest", "-o", &path(page)]);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
    }
    assert_eq!(lab.run(&["host", "show", "-o", &path("host.html")]).code, Some(0));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    for file in files {
        assert!(!lab.path(file).is_symlink() && lab.path(file).metadata().unwrap().len() > 100, "{file}");
    }
}

#[test]
fn a_page_survives_one_who_keeps_planting_links() {
    let lab = Lab::new();
    let victim = lab.path("victim");
    fs::write(&victim, "precious").unwrap();
    assert_eq!(lab.run(&LOAD).code, Some(0));
    let folder = lab.path("shared");
    fs::create_dir(&folder).unwrap();
    let (page, planted) = (folder.join("page.html"), folder.join("planted"));
    // The attacker swaps the page's name for a link as fast as possible.
    let script = format!(
        "while :; do ln -s '{v}' '{p}' && mv -T '{p}' '{t}'; ln -s '{v}' '{t}.partial'; done 2>/dev/null",
        v = victim.display(),
        p = planted.display(),
        t = page.display()
    );
    let mut attacker = Command::new("sh").args(["-c", &script]).stdin(Stdio::null()).spawn().unwrap();
    let written: Vec<_> =
        (0..20).map(|_| lab.run(&["report", "latest", "-o", page.to_str().unwrap()]).code).collect();
    attacker.kill().unwrap();
    attacker.wait().unwrap();
    assert!(written.iter().all(|code| *code == Some(0)), "{written:?}");
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn another_users_pipe_is_replaced_rather_than_fed() {
    let lab = Lab::new();
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root can make another user's pipe");
    }
    assert_eq!(lab.run(&LOAD).code, Some(0));
    let page = lab.path("page.md");
    nix::unistd::mkfifo(&page, nix::sys::stat::Mode::S_IRWXU).unwrap();
    std::os::unix::fs::chown(&page, Some(65_534), Some(65_534)).unwrap();
    assert_eq!(lab.run(&["report", "latest", "-o", page.to_str().unwrap()]).code, Some(0));
    assert!(page.metadata().unwrap().is_file());
    assert_eq!(page.metadata().unwrap().uid(), 0);
}

#[test]
fn an_archive_is_for_its_owner_alone() {
    let lab = Lab::new();
    // An umask that removes no permissions.
    let words = LOAD.join(" ");
    let binary = env!("CARGO_BIN_EXE_bakeoff");
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &format!("umask 0; exec {binary} {words}")])
        .env("BAKEOFF_ARCHIVE", lab.path("archive"));
    assert!(shell.output().unwrap().status.success());
    assert_eq!(lab.run(&["runs", "list"]).code, Some(0));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&lab.path("archive")), 0o700);
    let files = lab.archived_bytes();
    assert!(files.len() > 3);
    for (path, _) in files {
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        assert_eq!(mode(path.parent().unwrap()), 0o700, "{}", path.display());
    }
}

#[test]
fn no_title_label_or_name_is_an_order_to_the_terminal() {
    let lab = Lab::new();
    let label = format!("k={HOSTILE}");
    let words = [&LOAD[..], &["--title", HOSTILE, "--label", &label]].concat();
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert_harmless(&ended.out);
    assert_harmless(&ended.err);
    let printed = [
        &["runs", "list"][..],
        &["runs", "list", "--json"],
        &["runs", "show", "latest"],
        &["runs", "show", "latest", "--json"],
        &["runs", "export", "latest", "--format", "csv"],
        &["runs", "export", "latest", "--format", "openmetrics"],
        &["runs", "export", "latest", "--format", "json"],
        &["report", "latest"],
        &["runs", "show", HOSTILE],
        &["runs", "list", "--kind", HOSTILE],
        &["report", "latest", "-o", HOSTILE],
        &["host", "show", HOSTILE],
        &["import", "mpstat", HOSTILE],
        &["run", HOSTILE],
        &["load", HOSTILE],
        &["load", "exec:/bin/true", "--mix", HOSTILE],
    ];
    for words in printed {
        let ended = lab.run(words);
        assert_harmless(&ended.out);
        assert_harmless(&ended.err);
    }
    for form in ["page.md", "page.html"] {
        let page = lab.path(form);
        assert_eq!(lab.run(&["report", "latest", "-o", page.to_str().unwrap()]).code, Some(0));
        // A browser treats the line ends of a page as blanks.
        assert_harmless(&fs::read_to_string(page).unwrap().replace('\n', " "));
    }
}

#[test]
fn what_a_command_says_when_it_fails_is_shown_and_not_obeyed() {
    let lab = Lab::new();
    let says = "exec:printf 'a\\033]0;owned\\007\\033[2J\\nVALID: forged\\n' >&2; exit 3";
    let ended = lab.run(&["load", says, "--rate", "50", "--time", "200ms", "--observe", "none"]);
    assert_harmless(&ended.out);
    assert_harmless(&ended.err);
}

#[test]
fn imported_text_is_shown_and_not_obeyed() {
    let lab = Lab::new();
    let log = lab.path("lock\u{1b}[2Jstat.txt");
    let text = "\nAdaptive mutex spin: 100 events in 10.000 seconds (10 events/sec)\n\n\
        Count indv cuml rcnt     nsec Lock                   Caller                  \n\
        -------------------------------------------------------------------------------\n   \
        90  90%  90% 0.00      100 =cmd|'/C_calc'!A0      f\u{1b}]0;owned\u{7}oo+0x1c\n   \
        10  10% 100% 0.00      100 @SUM(1+9)\u{9b}31m       \u{202e}bar+0x1c\n";
    fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    for form in [&[][..], &["--csv"], &["--json"], &["--by", "lock"]] {
        let ended = lab.run(&[&["import", "lockstat", "-n", "2", log], form].concat());
        assert_eq!(ended.code, Some(0), "{form:?} {}", ended.err);
        assert_harmless(&ended.out);
        assert_harmless(&ended.err);
        if form == ["--csv"] {
            assert!(ended.out.contains(",'=cmd|") && ended.out.contains(",'@SUM"), "{}", ended.out);
        }
    }
}

#[test]
fn a_page_names_neither_host_nor_user_unless_asked() {
    let lab = Lab::new();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let title = "zstd of /home/alice7/data on alice7@db";
    let ended = lab.run(&[&LOAD[..], &["--title", title, "--label", "secret-mark=1"]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let kernel = fs::read_to_string("/proc/cmdline").unwrap();
    let kernel = kernel.split_whitespace().max_by_key(|word| word.len()).unwrap_or("-").to_owned();
    for form in ["page.html", "page.md"] {
        let page = |more: &[&str]| {
            let path = lab.path(form);
            let ended = lab.run(&[&["report", "latest", "-o", path.to_str().unwrap()], more].concat());
            assert_eq!(ended.code, Some(0), "{}", ended.err);
            // Markdown escapes some characters.
            fs::read_to_string(path).unwrap().replace('\\', "")
        };
        let (hidden, whole) = (page(&[]), page(&["--identify"]));
        for word in ["alice7", "--rate", "secret-mark"] {
            assert!(!hidden.contains(word), "{form}: {word}");
        }
        assert!(
            hidden.contains("~/data") && hidden.contains("left out; report --identify shows it"),
            "{form}"
        );
        assert!(whole.contains("/home/alice7/data") && whole.contains("--rate 500"), "{form}");
        if kernel.len() > 8 && !kernel.contains(['&', '<', '\'', '"']) {
            assert!(whole.contains(&kernel) && !hidden.contains(&kernel), "{form}: {kernel}");
        }
        if host.len() > 6 {
            assert!(whole.contains(&host) && !hidden.contains(&host), "{form}: {host}");
        }
    }
}

#[test]
fn files_that_a_user_names_are_read_to_a_limit() {
    let lab = Lab::new();
    let endless = lab.path("endless.json");
    fs::File::create(&endless).unwrap().set_len(1 << 40).unwrap();
    let endless = endless.to_str().unwrap();
    for words in [
        &["plan", "check", "/dev/zero"][..],
        &["plan", "explain", endless],
        &["run", endless],
        &["host", "compare", "here", endless],
        &["profile", "--compare", endless, endless],
        &["load", "sqlite:no.db", "--script", "/dev/zero"],
    ] {
        let ended = lab.run(words);
        assert_ne!(ended.code, Some(0), "{words:?}");
        assert!(ended.err.contains("bytes, the limit for this kind of file"), "{words:?}: {}", ended.err);
    }
}

/// A mask in `/proc/PID/status`.
fn capabilities(pid: u32, name: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    u64::from_str_radix(line.trim().trim_start_matches(':').trim(), 16).unwrap()
}

fn of_the_machine() -> u64 {
    // Numbers in linux/capability.h: SYS_MODULE, SYS_RAWIO, SYS_ADMIN, SYS_BOOT, SYS_TIME, MKNOD, NET_ADMIN,
    // SETUID, PERFMON.
    [16, 17, 21, 22, 25, 27, 12, 7, 38].iter().fold(0, |mask, bit| mask | 1 << bit)
}

/// The threads of a load drop their rights one by one; its main thread kept them to the end once.
#[test]
fn root_records_and_loads_without_the_power_to_change_the_machine() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    let lab = Lab::new();
    let load = ["load", "null:", "--rate", "100", "--time", "1m", "--no-archive", "--observe"];
    for words in [
        &[&load[..], &["none"]].concat()[..],
        &[&load[..], &["cpu"]].concat(),
        &["record", "--time", "1m", "--no-archive"],
        &["record", "--no-archive", "--", "sleep", "60"],
    ] {
        let mut command = lab.command(words);
        let running = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let has_power = || capabilities(running.id(), "CapPrm") & of_the_machine() != 0;
        for _ in 0..3_000 {
            if !has_power() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let kept = has_power();
        // `record` then ends its command.
        let pid = nix::unistd::Pid::from_raw(running.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let ended = Ended::of(running.wait_with_output().unwrap());
        assert!(!kept, "{words:?}: {}", ended.err);
    }
}

#[test]
fn root_watches_without_the_power_to_change_the_machine() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    if !std::path::Path::new("/sys/kernel/btf/vmlinux").exists() {
        return eprintln!("skipped: needs a kernel with BTF");
    }
    let lab = Lab::new();
    let dropped = of_the_machine();
    for words in
        [&["cpu", "100ms"][..], &["nic", "1"], &["io", "100ms"], &["locks", "100ms"], &["ulocks", "100ms"]]
    {
        let mut watcher = lab.command(words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first line comes after the set-up is complete.
        let mut first = [0];
        let read = std::io::Read::read(watcher.stdout.as_mut().unwrap(), &mut first).unwrap();
        let mut errors = String::new();
        if read == 0 {
            std::io::Read::read_to_string(watcher.stderr.as_mut().unwrap(), &mut errors).unwrap();
        }
        assert_eq!(read, 1, "{words:?}: {errors}");
        let mut threads = Vec::new();
        for entry in fs::read_dir(format!("/proc/{}/task", watcher.id())).unwrap() {
            let thread: u32 = entry.unwrap().file_name().to_str().unwrap().parse().unwrap();
            let (permitted, effective) = (capabilities(thread, "CapPrm"), capabilities(thread, "CapEff"));
            threads.push((thread, permitted, effective));
        }
        watcher.kill().unwrap();
        watcher.wait().unwrap();
        for (thread, permitted, effective) in threads {
            assert_eq!((permitted | effective) & dropped, 0, "{words:?}: thread {thread} has {permitted:x}");
        }
    }
}

/// Runs a script as `nobody`; returns its output.
fn as_nobody(script: &str) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).uid(65_534).gid(65_534).stdin(Stdio::null());
    let ended = shell.output().unwrap();
    String::from_utf8_lossy(&ended.stdout).into_owned() + &String::from_utf8_lossy(&ended.stderr)
}

#[test]
fn nobody_overwrites_nothing_of_roots_and_reads_nothing_of_its_archive() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root can be another user too");
    }
    let lab = Lab::new();
    let open = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    open(lab.path(".").as_path(), 0o711);
    let (victim, shared) = (lab.path("victim"), lab.path("shared"));
    fs::write(&victim, "precious").unwrap();
    fs::create_dir(&shared).unwrap();
    // Not sticky: this test is not about refusals of the kernel in /tmp.
    open(&shared, 0o777);
    let planted = as_nobody(&format!(
        "cd {s} && for f in page.html page.html.partial e.parquet e.parquet.partial \
         .e.parquet.00000000000000000000000000000000.partial; do ln -s {v} $f; done; mkfifo log.hlog; \
         mkdir archive archive/runs archive/bakeoffs; ln -s {s}/made archive/.index.lock; \
         ln -s {v} archive/index.sqlite; ls",
        s = shared.display(),
        v = victim.display()
    ));
    assert!(planted.contains("log.hlog") && planted.contains("archive"), "{planted}");
    let at = |name: &str| shared.join(name).to_str().unwrap().to_owned();
    let done = lab.run(&[&LOAD[..], &["--log", &at("e.parquet"), "--hlog", &at("log.hlog")]].concat());
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(lab.run(&["report", "latest", "-o", &at("page.html")]).code, Some(0));
    let refused = lab.run(&[&["--archive", &at("archive")], &LOAD[..]].concat());
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    assert!(refused.err.contains("belongs to another user"), "{}", refused.err);
    assert_eq!(lab.run(&["--archive", &at("archive"), "runs", "list"]).code, Some(0));
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(!shared.join("made").exists());
    for file in ["page.html", "e.parquet", "log.hlog"] {
        let found = fs::symlink_metadata(shared.join(file)).unwrap();
        assert!(found.is_file() && found.uid() == 0, "{file}");
    }
    // An archive of root, in a folder where another user can put another in its place.
    fs::create_dir(shared.join("roots")).unwrap();
    let refused = lab.run(&[&["--archive", &at("roots")], &LOAD[..]].concat());
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    assert!(refused.err.contains("another user can change a folder on the way"), "{}", refused.err);
    // Files for packages: links, a pipe, and a link in place of their folder.
    as_nobody(&format!(
        "cd {s} && mkdir made-by-us else && cd made-by-us && ln -s {v} bakeoff.bash && mkfifo _bakeoff && \
         ln -s {s}/else man1",
        s = shared.display(),
        v = victim.display()
    ));
    assert_eq!(lab.run(&["generate", "files", &at("made-by-us")]).code, Some(6));
    fs::remove_file(shared.join("made-by-us/man1")).unwrap();
    let generated = lab.run(&["generate", "files", &at("made-by-us")]);
    assert_eq!(generated.code, Some(0), "{}", generated.err);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    assert!(fs::symlink_metadata(shared.join("made-by-us/_bakeoff")).unwrap().is_file());
    assert_eq!(fs::read_dir(shared.join("else")).unwrap().count(), 0);
    // A pipe that nothing writes to.
    as_nobody(&format!("mkfifo {}/waits.html", shared.display()));
    let refused = lab.run(&["report", "--verify", &at("waits.html")]);
    assert!(refused.code == Some(2) && refused.err.contains("a pipe of another user"), "{}", refused.err);
    let seen = as_nobody(&format!("ls -R {0}; cat {0}/index.sqlite", lab.path("archive").display()));
    assert!(seen.contains("Permission denied") && !seen.contains("manifest"), "{seen}");
}

#[test]
fn an_importer_is_fenced_before_it_reads() {
    let lab = Lab::new();
    let mut importer = lab.command(&["import", "vmstat", "-v"]);
    importer.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut importer = importer.spawn().unwrap();
    // It waits for input that does not come; until then its status can be read.
    let status = loop {
        let status = fs::read_to_string(format!("/proc/{}/status", importer.id())).unwrap();
        let is_fenced = status.lines().any(|line| line.starts_with("Seccomp:") && line.ends_with('2'));
        if is_fenced || importer.try_wait().unwrap().is_some() {
            break status;
        }
        std::thread::yield_now();
    };
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("").trim();
    assert_eq!((line("Seccomp:"), line("NoNewPrivs:")), ("2", "1"), "{status}");
    let effective = u64::from_str_radix(line("CapEff:"), 16).unwrap();
    assert_eq!(effective & !0b110, 0, "more than the rights on files: {effective:x}");
    drop(importer.stdin.take());
    let ended = Ended::of(importer.wait_with_output().unwrap());
    assert!(!ended.err.contains("sandbox without"), "{}", ended.err);
}

#[test]
fn a_load_talks_to_its_server_without_the_power_to_change_the_machine() {
    if !nix::unistd::geteuid().is_root() {
        return eprintln!("skipped: only root has capabilities to give up");
    }
    let lab = Lab::new();
    let mut load = lab.command(&[
        "load",
        "null:",
        "--rate",
        "100",
        "--threads",
        "2",
        "--time",
        "1m",
        "--observe",
        "none",
    ]);
    let mut load = load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut talking = Vec::new();
    while talking.len() < 2 && load.try_wait().unwrap().is_none() {
        let tasks = fs::read_dir(format!("/proc/{}/task", load.id())).unwrap();
        talking = tasks
            .filter_map(|task| {
                let folder = task.ok()?.path();
                let status = fs::read_to_string(folder.join("status")).ok()?;
                let of = |name: &str| {
                    Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned())
                };
                let capabilities = u64::from_str_radix(&of("CapPrm:")?, 16).ok()?;
                let worker = of("Name:")?.strip_prefix("load-")?.parse::<u32>().ok()?;
                // A worker drops rights before it connects; until then it has those of its creator.
                (capabilities & !0b110 == 0).then_some(worker)
            })
            .collect();
        std::thread::yield_now();
    }
    load.kill().unwrap();
    let ended = Ended::of(load.wait_with_output().unwrap());
    talking.sort_unstable();
    assert_eq!(talking, [0, 1], "{}", ended.err);
}
