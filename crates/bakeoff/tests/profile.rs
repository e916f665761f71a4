//! Profiles as a user takes them. Without root or BTF, the tests print that they skip.

#![expect(clippy::unwrap_used, clippy::print_stderr, reason = "this whole file is tests")]

mod lab;

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use lab::{Ended, Lab};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

fn can_watch() -> bool {
    let can = nix::unistd::geteuid().is_root() && Path::new("/sys/kernel/btf/vmlinux").exists();
    if !can {
        eprintln!("skipped: needs root and a kernel with BTF");
    }
    can
}

/// A shell that spins until it is dropped.
struct Spinner(Child);

impl Spinner {
    fn start() -> Self {
        let mut shell = Command::new("sh");
        Self(shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Spinner {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn root_text_folded_lines_picture_and_json_are_of_the_process_alone() {
    if !can_watch() {
        return;
    }
    let (lab, spinner) = (Lab::new(), Spinner::start());
    let picture = lab.path("cpu.svg");
    let profile =
        lab.json(&["profile", "500ms", "--pid", &spinner.pid(), "--svg", picture.to_str().unwrap()]);
    assert_eq!((&profile["schema"], &profile["kind"]), (&json!("bakeoff.profile/1"), &json!("on-cpu")));
    let stacks = profile["stacks"].as_array().unwrap();
    assert!(!stacks.is_empty() && stacks.iter().all(|s| s["comm"] == "sh"), "{profile}");
    let sum = |name: &str| stacks.iter().map(|s| s[name].as_u64().unwrap()).sum::<u64>();
    assert_eq!(
        (profile["count"].as_u64(), profile["total_ns"].as_u64()),
        (Some(sum("count")), Some(sum("ns")))
    );
    assert_eq!(sum("ns"), sum("count") * profile["period_ns"].as_u64().unwrap());
    assert_eq!(profile["missing"]["idle_samples"], "only some threads were watched");
    let svg = fs::read_to_string(picture).unwrap();
    assert!(svg.contains("<title>sh: ") && !svg.contains("<script"), "{svg}");

    let folded = lab.run(&["profile", "300ms", "--pid", &spinner.pid(), "--folded"]);
    assert_eq!(folded.code, Some(0), "{}", folded.err);
    assert!(!folded.out.is_empty());
    for line in folded.out.lines() {
        let (stack, count) = line.rsplit_once(' ').unwrap();
        assert!(stack.starts_with("sh;") && count.parse::<u64>().unwrap() > 0, "{line}");
    }

    let text = lab.run(&["profile", "300ms", "--off-cpu", "--top", "3"]);
    assert_eq!(text.code, Some(0), "{}", text.err);
    assert!(
        text.out.contains("threads were blocked for") && text.out.contains("watching cost"),
        "{}",
        text.out
    );
}

#[test]
fn root_two_profiles_are_compared_function_by_function() {
    if !can_watch() {
        return;
    }
    let (lab, spinner) = (Lab::new(), Spinner::start());
    let files = ["a.json", "b.json"].map(|name| lab.path(name));
    for file in &files {
        let ended = lab.run(&["profile", "300ms", "--pid", &spinner.pid(), "--json"]);
        fs::write(file, ended.out).unwrap();
    }
    let [a, b] = [0, 1].map(|i: usize| files[i].to_str().unwrap());
    let picture = lab.path("difference.svg");
    let words = ["profile", "--compare", a, b, "--svg", picture.to_str().unwrap()];
    let compared = lab.json(&words);
    assert_eq!(compared["schema"], "bakeoff.profile-compare/1");
    let functions = compared["functions"].as_array().unwrap();
    for side in ["a_self_ratio", "b_self_ratio"] {
        let sum: f64 = functions.iter().map(|f| f[side].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{compared}");
    }
    assert!(fs::read_to_string(&picture).unwrap().contains("before"));
    let off = lab.path("off.json");
    fs::write(&off, lab.run(&["profile", "100ms", "--off-cpu", "--json"]).out).unwrap();
    let wrong = lab.run(&["profile", "--compare", a, off.to_str().unwrap()]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("on-cpu and off-cpu"), "{}", wrong.err);
}

#[test]
fn what_is_no_profile_ends_with_2_and_one_line() {
    let lab = Lab::new();
    let file = lab.path("other.json");
    let name = file.to_str().unwrap();
    for text in
        ["", "{", "[]", r#"{"schema":"bakeoff.locks/1"}"#, r#"{"schema":"bakeoff.profile/1","stacks":[{}]}"#]
    {
        fs::write(&file, text).unwrap();
        let ended = lab.run(&["profile", "--compare", name, name]);
        assert_eq!((ended.code, ended.err.lines().count()), (Some(2), 1), "{text}: {}", ended.err);
        assert!(ended.out.is_empty(), "{}", ended.out);
    }
    for words in
        [&["profile", "--compare", name][..], &["profile", "1", "--folded", "--json"], &["profile", "soon"]]
    {
        assert_eq!(lab.run(words).code, Some(2), "{words:?}");
    }
}

#[test]
fn root_at_ctrl_c_what_there_is_is_printed() {
    if !can_watch() {
        return;
    }
    let (lab, spinner) = (Lab::new(), Spinner::start());
    let mut command = lab.command(&["profile", "600", "--json", "--pid", &spinner.pid()]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // After it drops its rights, it takes the profile.
    let watches = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let of = |name: &str| {
            let mask = status.lines().find_map(|l| l.strip_prefix(name)).unwrap();
            u64::from_str_radix(mask.trim(), 16).unwrap()
        };
        // CAP_PERFMON is gone; SIGINT is caught.
        of("CapEff:") & 1 << 38 == 0 && of("SigCgt:") & 2 != 0
    };
    while !watches() {
        std::thread::yield_now();
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let profile: Value = serde_json::from_str(&ended.out).unwrap();
    assert!(profile["elapsed_s"].as_f64().unwrap() < 600.0, "{profile}");
}

#[test]
fn root_with_the_process_the_profile_ends() {
    if !can_watch() {
        return;
    }
    let lab = Lab::new();
    let mut child = Command::new("sleep").arg("0.2").spawn().unwrap();
    let ended = lab.run(&["profile", "600", "--off-cpu", "--json", "--pid", &child.id().to_string()]);
    child.wait().unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("has ended"), "{}", ended.err);
}

#[test]
fn root_in_a_pid_namespace_processes_go_by_its_ids() {
    const UNSHARE: [&str; 4] = ["--pid", "--fork", "--mount", "--mount-proc"];
    if !can_watch() {
        return;
    }
    if !Command::new("unshare").args(UNSHARE).arg("true").status().is_ok_and(|s| s.success()) {
        return eprintln!("skipped: no PID namespace can be had with unshare");
    }
    let script = format!(
        "while :; do :; done & p=$!; {} profile 500ms --json --pid $p; kill $p",
        env!("CARGO_BIN_EXE_bakeoff")
    );
    let ended =
        Ended::of(Command::new("unshare").args(UNSHARE).args(["sh", "-c", &script]).output().unwrap());
    let profile: Value = serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    let stacks = profile["stacks"].as_array().unwrap();
    assert!(!stacks.is_empty(), "{profile}");
    for stack in stacks {
        assert_eq!(stack["comm"], "sh", "{profile}");
        let frames = stack["frames"].to_string();
        assert!(!frames.contains("outside of") && !frames.contains("had ended"), "{profile}");
    }
    assert!(profile["notes"].to_string().contains("PID namespace"), "{profile}");
}

/// Arguments of a load that profiles.
const PROFILED: [&str; 10] = [
    "load",
    "null:",
    "--rate",
    "2000",
    "--time",
    "1s",
    "--interval",
    "250ms",
    "--observe",
    "profile,off-cpu",
];

#[test]
fn root_a_load_stores_its_profile_and_its_page_draws_it() {
    if !can_watch() {
        return;
    }
    let (lab, _spinner) = (Lab::new(), Spinner::start());
    let run = lab.json(&PROFILED)["run"].as_str().unwrap().to_owned();
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
    let page = lab.path("page.html");
    let file = page.to_str().unwrap();
    assert_eq!(lab.run(&["report", &run, "-o", file]).code, Some(0));
    let text = fs::read_to_string(&page).unwrap();
    // Nothing is known of a server: it is the machine's profile, with the neighbor's shell in it.
    assert_eq!(text.matches("<g class=\"flame\">").count(), 4, "two pictures for two widths");
    assert!(text.contains("of all threads of the machine") && text.contains("<title>sh: "), "{text}");
    assert!(!text.contains("of the server&#39;s processes"), "{text}");
    let verified = lab.run(&["report", "--verify", file]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
    let shown = lab.run(&["runs", "show", &run]);
    assert_eq!(shown.code, Some(0), "{}", shown.err);
    let export = lab.run(&["runs", "export", &run, "--format", "json"]);
    let export: Value = serde_json::from_str(&export.out).unwrap();
    assert_eq!(
        (&export["stacks"][0]["kind"], &export["stacks"][1]["kind"]),
        (&json!("on-cpu"), &json!("off-cpu"))
    );
    assert_eq!(export["run"]["profiles"][0]["of"], "machine");

    let stacks = lab.archived_bytes().into_iter().find(|(path, _)| path.ends_with("profile.jsonl.zst"));
    let (path, mut bytes) = stacks.unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let verified = lab.run(&["runs", "verify"]);
    assert_eq!(verified.code, Some(1), "{}", verified.err);
    assert!(verified.out.contains("profile.jsonl.zst"), "{}", verified.out);
}

#[test]
fn root_without_rights_one_line_refuses_the_profile_and_the_load_is_stored() {
    if !can_watch() {
        return;
    }
    let lab = Lab::new();
    // Root without CAP_DAC_OVERRIDE may not run files in a user's directory.
    let program = lab.path("bakeoff");
    fs::copy(env!("CARGO_BIN_EXE_bakeoff"), &program).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(&program).args(PROFILED).arg("--json");
    command.env("BAKEOFF_ARCHIVE", lab.path("archive")).env("BAKEOFF_MACHINE_LOCK", lab.path("lock"));
    let ended = Ended::of(command.output().unwrap());
    if ended.err.starts_with("setpriv:") {
        return eprintln!("skipped: {}", ended.err);
    }
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    let lines: Vec<&str> = ended.err.lines().filter(|line| line.contains("trace stacks")).collect();
    assert!(lines.len() == 2 && lines.iter().all(|line| line.contains("cap_bpf")), "{}", ended.err);
    let load: Value = serde_json::from_str(&ended.out).unwrap();
    let page = lab.run(&["report", load["run"].as_str().unwrap()]);
    assert_eq!(page.code, Some(0), "{}", page.err);
    for words in ["Profile: time on a CPU", "Profile: time off the CPU", "Not observed: cannot trace"] {
        assert!(page.out.contains(words), "{words}: {}", page.out);
    }
}

#[test]
fn root_a_server_that_ends_in_the_middle_leaves_a_profile_that_can_be_read() {
    if !can_watch() {
        return;
    }
    if Command::new("redis-server").arg("-v").output().is_err() {
        return eprintln!("skipped: redis-server is not installed");
    }
    let lab = Lab::new();
    let socket = lab.path("redis.sock");
    let mut server = Command::new("timeout");
    server.args(["--signal=KILL", "3", "redis-server", "--port", "0", "--save", "", "--unixsocket"]);
    let mut server = server.arg(&socket).stdout(Stdio::null()).spawn().unwrap();
    while !socket.exists() {
        std::thread::yield_now();
    }
    let target = format!("redis+unix:{}", socket.display());
    let words = [
        "load",
        &target,
        "--keys",
        "100",
        "--rate",
        "500",
        "--time",
        "5s",
        "--warmup",
        "0",
        "--observe",
        "profile",
    ];
    let ended = lab.run(&words);
    server.wait().unwrap();
    assert!(ended.code.is_some_and(|code| code == 5), "{:?} {}", ended.code, ended.err);
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
    let page = lab.run(&["report", "latest"]);
    assert_eq!(page.code, Some(0), "{}", page.err);
    // The server's functions are few beside those of a busy machine.
    assert!(page.out.contains("Profile: time on a CPU") && page.out.contains("INVALID"), "{}", page.out);
    assert!(page.out.contains("of all threads of the machine"), "the group of the server is not known");
}
