//! `bakeoff load` as a user runs it.
#![allow(clippy::unwrap_used, reason = "a test binary; clippy only knows its test functions")]

mod lab;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStderr, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::clock::{Clock as _, Monotonic};

use lab::{Ended, Lab, assert_balanced};

const SHORT: [&str; 6] = ["--time", "1s", "--warmup", "200ms", "--threads", "2"];

#[test]
fn a_steady_load_offers_what_was_asked_and_loses_no_event() {
    let lab = Lab::new();
    let load = lab.json(&[&["load", "null:", "--rate", "500", "--arrivals", "period"], &SHORT[..]].concat());
    assert_eq!(load["schema"], "bakeoff.load/1");
    assert_eq!(load["planned"], 500);
    assert_balanced(&load);
    assert_eq!(load["response_ns"]["count"], 500);
    let checks = load["verdict"]["checks"].as_array().unwrap();
    let names: Vec<&str> = checks.iter().map(|check| check["name"].as_str().unwrap()).collect();
    for name in ["errors", "achieved-rate", "lateness", "client-starvation", "client-cpu"] {
        assert!(names.contains(&name), "{names:?}");
    }
    // These checks need a socket or an event log; this load has neither.
    assert!(!names.contains(&"connected") && !names.contains(&"counts-balance"), "{names:?}");
}

#[test]
fn a_closed_loop_claims_no_response_time() {
    let lab = Lab::new();
    let load = lab.json(&[&["load", "null:"], &SHORT[..]].concat());
    assert!(load["response_ns"].is_null());
    assert!(load["missing"]["response_ns"].is_string(), "{load}");
    assert!(load["offered_per_s"].is_null());
    assert_balanced(&load);
}

#[test]
fn a_data_set_is_built_once_used_and_removed() {
    let lab = Lab::new();
    let target = lab.sqlite();
    let data = [target.as_str(), "--rows", "500", "--tables", "2"];
    let built = lab.json(&[&["prepare"], &data[..]].concat());
    assert_eq!((&built["tables_built"], &built["tables_found"]), (&2.into(), &0.into()));
    let load =
        lab.json(&[&["load"], &data[..], &["--rate", "50", "--prepare", "never"], &SHORT[..]].concat());
    assert_balanced(&load);
    assert_eq!(load["failed"], 0);
    assert_eq!(load["operations"]["point-select"]["count"], 10 * load["done"].as_u64().unwrap());
    let again = lab.json(&[&["prepare"], &data[..]].concat());
    assert_eq!((&again["tables_built"], &again["tables_found"]), (&0.into(), &2.into()));
    assert_eq!(lab.json(&[&["cleanup"], &data[..]].concat())["tables_removed"], 2);
}

#[test]
fn the_line_of_each_second_goes_to_standard_error_and_the_result_to_standard_output() {
    let lab = Lab::new();
    let ended = lab.run(&[&["load", "null:", "--rate", "100", "--no-archive"], &SHORT[..]].concat());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    assert!(ended.err.contains("achieved/s"), "{}", ended.err);
    assert!(ended.out.contains(" events, "), "{}", ended.out);
    assert!(!lab.path("archive").exists());
}

#[test]
fn a_late_run_is_invalid_and_strict_makes_that_an_exit_code() {
    let lab = Lab::new();
    // One worker that sleeps 20 ms per event cannot do a hundred per second.
    let words = [
        "load",
        "exec:sleep 0.02",
        "--rate",
        "100",
        "--time",
        "1s",
        "--warmup",
        "0",
        "--drain",
        "0",
        "--strict",
    ];
    let ended = lab.run(&words);
    assert_eq!(ended.code, Some(3), "{}", ended.err);
    let last = ended.out.lines().last().unwrap_or_default();
    assert!(last.starts_with("INVALID: ") && last.contains("; mend: "), "{}", ended.out);
    let load = lab.json(&["runs", "show", "latest"]);
    assert_eq!(load["verdict"]["state"], "invalid");
    assert_balanced(&load);
    assert!(load["unfinished"].as_u64() > Some(0), "{load}");
    let bounds = load["response_ns"]["lower_bounds"].as_array().expect("censored percentiles are named");
    assert!(bounds.contains(&"max".into()), "{load}");
}

/// Starts a load of one minute; returns it once it measures.
fn measuring(lab: &Lab) -> (Child, BufReader<ChildStderr>) {
    let words =
        ["load", "null:", "--rate", "200", "--warmup", "0", "--time", "60s", "--interval", "200ms", "--json"];
    let mut child =
        lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    // The first line of an interval shows that it measures.
    let mut err = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut line = String::new();
    while !line.contains("200") {
        line.clear();
        assert_ne!(err.read_line(&mut line).expect("it says words"), 0, "it ended before it measured");
    }
    (child, err)
}

#[test]
fn a_killed_run_is_told_of_and_nothing_of_it_is_kept() {
    let lab = Lab::new();
    let (mut child, _err) = measuring(&lab);
    assert_eq!(lab.json(&["runs", "list"])["runs"][0]["state"], "running");
    child.kill().unwrap();
    child.wait().unwrap();
    let told = lab.run(&["runs", "list"]);
    assert!(told.err.contains("was killed before its end"), "{}", told.err);
    assert_eq!(lab.json(&["runs", "list"])["runs"], serde_json::json!([]));
    // The next run removes the remains.
    assert_eq!(
        lab.run(&["load", "null:", "--rate", "100", "--warmup", "0", "--time", "100ms"]).code,
        Some(0)
    );
    let told = lab.run(&["runs", "list"]);
    assert!(!told.err.contains("killed"), "{}", told.err);
}

fn send(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

#[test]
fn ctrl_c_or_a_terminal_that_goes_ends_a_run_cleanly_and_keeps_what_was_measured() {
    // The parent of the test may ignore SIGHUP, and children inherit that.
    // SAFETY: nothing is handled here.
    unsafe { nix::sys::signal::signal(Signal::SIGHUP, nix::sys::signal::SigHandler::SigDfl) }.unwrap();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        ends_cleanly_by(signal);
    }
}

fn ends_cleanly_by(signal: Signal) {
    let lab = Lab::new();
    let (child, mut err) = measuring(&lab);
    send(&child, signal);
    let rest = std::thread::spawn(move || std::io::copy(&mut err, &mut std::io::sink()));
    let ended = Ended::of(child.wait_with_output().unwrap());
    rest.join().unwrap().unwrap();
    assert_eq!(ended.code, Some(130));
    let load: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(load["verdict"]["state"], "interrupted");
    assert_balanced(&load);
    let runs = lab.json(&["runs", "list"]);
    assert_eq!(runs["runs"][0]["state"], "interrupted");
    assert_eq!(lab.run(&["runs", "verify"]).code, Some(0));
}

#[test]
fn ctrl_c_ends_a_load_that_waits_for_its_data() {
    let lab = Lab::new();
    let pipe = lab.path("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let (pipe, log) = (pipe.display().to_string(), lab.path("log.parquet").display().to_string());
    for more in [&[][..], &["--log", &log]] {
        // Nothing writes to the pipe.
        let words = ["load", "http://127.0.0.1:1/?id=${id}", "--data", &pipe, "--rate", "10"];
        let words = [&words, more].concat();
        let child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let began_ns = Monotonic.now_ns();
        send(&child, Signal::SIGINT);
        let ended = Ended::of(child.wait_with_output().unwrap());
        assert_eq!(ended.code, Some(130), "{more:?}: {}", ended.err);
        let took_ns = Monotonic.now_ns() - began_ns;
        assert!(took_ns < 5_000_000_000, "{more:?}: {took_ns} ns");
    }
}

fn check<'a>(load: &'a serde_json::Value, name: &str) -> Option<&'a serde_json::Value> {
    load["verdict"]["checks"].as_array()?.iter().find(|check| check["name"] == name)
}

/// Runs a load that is stopped `times` times for `stopped`, and continues for `runs` after each.
fn stopped(lab: &Lab, words: &[&str], times: u32, [stopped, runs]: [Duration; 2]) -> serde_json::Value {
    let words = [&["load", "exec:sleep 0.02", "--threads", "1", "--warmup", "0", "--json"], words].concat();
    let child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..times {
        send(&child, Signal::SIGSTOP);
        std::thread::sleep(stopped);
        send(&child, Signal::SIGCONT);
        std::thread::sleep(runs);
    }
    serde_json::from_slice(&child.wait_with_output().unwrap().stdout).unwrap()
}

#[test]
fn what_a_stopped_generator_delays_is_not_the_servers() {
    let lab = Lab::new();
    let ms = Duration::from_millis;
    let load = stopped(&lab, &["--rate", "25", "--time", "4s"], 1, [ms(600), ms(0)]);
    assert_balanced(&load);
    assert_eq!(load["verdict"]["state"], "invalid");
    let made = load["response_ns"]["upper_bounds"].as_array().expect("percentiles that the stop made");
    assert!(made.contains(&"max".into()) && made.contains(&"p95".into()), "{load}");
    // Stops that are too short to be seen one by one.
    let load = stopped(&lab, &["--time", "4s"], 20, [ms(80), ms(20)]);
    assert_balanced(&load);
    let paused = check(&load, "client-paused").expect("it stood still");
    assert_eq!(paused["ok"], false, "{load}");
    assert_eq!(load["verdict"]["state"], "invalid");
}

#[test]
fn a_password_is_in_no_output_and_no_file() {
    let lab = Lab::new();
    let target = "mysql://app:hunter2-sesame@127.0.0.1:1/bench";
    let ended = lab.run(&["load", target, "--rate", "10", "--time", "1s", "--title", "with a password"]);
    assert_eq!(ended.code, Some(5), "{}", ended.err);
    assert!(!ended.err.contains("sesame") && !ended.out.contains("sesame"), "{}", ended.err);
    let lines = ended.err.lines().filter(|l| l.starts_with("bakeoff:")).count();
    assert_eq!(lines, 1, "{}", ended.err);
    for (path, bytes) in lab.archived_bytes() {
        assert!(!bytes.windows(6).any(|w| w == b"sesame"), "{}", path.display());
    }
    assert_eq!(lab.json(&["runs", "list"])["runs"], serde_json::json!([]));
}

#[test]
fn a_run_whose_reader_went_away_is_kept() {
    let lab = Lab::new();
    let words = [&["load", "null:", "--rate", "100"], &SHORT[..]].concat();
    let mut child = lab.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).code, Some(0));
    assert_eq!(lab.json(&["runs", "list"])["runs"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_latency_log_is_written_whole_in_either_form() {
    let lab = Lab::new();
    for (name, start) in [("x.hlog", "#"), ("x.hgrm", " ")] {
        let path = lab.path(name);
        let words =
            [&["load", "null:", "--rate", "100", "--hlog", path.to_str().unwrap()], &SHORT[..]].concat();
        assert_eq!(lab.run(&words).code, Some(0));
        assert!(std::fs::read_to_string(&path).unwrap().starts_with(start), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let lab = Lab::new();
    let mut child = lab
        .command(&["generate", "completions", "bash"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!((ended.code, ended.err.as_str()), (Some(0), ""));
}

#[test]
fn a_log_has_a_row_for_every_event_and_replays_as_a_schedule() {
    let lab = Lab::new();
    let path = lab.path("events.parquet");
    let file = path.to_str().unwrap();
    let words = ["load", "null:", "--rate", "500", "--arrivals", "poisson", "--time", "1s", "--warmup", "0"];
    let first = lab.json(&[&words[..], &["--log", file]].concat());
    let mut checks = first["verdict"]["checks"].as_array().unwrap().iter();
    let counted = checks.find(|check| check["name"] == "counts-balance").expect("the log is counted again");
    assert_eq!((&counted["ok"], &counted["found"]), (&true.into(), &0.0.into()), "{counted}");
    let arrivals = format!("file:{file}");
    let again = lab.json(&["load", "null:", "--arrivals", &arrivals, "--warmup", "0"]);
    assert_eq!(first["planned"], again["planned"]);
    assert_eq!(again["arrivals"], arrivals.as_str());
    assert_balanced(&again);
    let log = lab.run(&[&words[..], &["--no-archive", "--log", "/no/such/folder/x.parquet"]].concat());
    assert_eq!(log.code, Some(6), "{}", log.err);
}

#[test]
fn a_search_says_what_it_cannot_find_and_archives_every_try() {
    let lab = Lab::new();
    // Each event takes 50 ms: no rate can meet 10 ms.
    let words = [
        "load",
        "exec:sleep 0.05",
        "--search",
        "p99<10ms",
        "--time",
        "1s",
        "--warmup",
        "0",
        "--max-errors",
        "100%",
    ];
    let ended = lab.run(&[&words[..], &["--json"]].concat());
    assert_eq!(ended.code, Some(1), "{}", ended.err);
    let search: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!((&search["schema"], &search["answer"]), (&"bakeoff.search/1".into(), &"unreachable".into()));
    let runs = lab.json(&["runs", "list"]);
    let probes = search["probes"].as_array().unwrap();
    assert_eq!(runs["runs"].as_array().map(Vec::len), Some(probes.len()));
    assert_eq!(runs["runs"][0]["labels"]["search"], probes[0]["run"]);
}

#[test]
fn a_search_that_is_stopped_keeps_the_try_that_it_was_at() {
    let lab = Lab::new();
    let mark = lab.path("begun");
    let target = format!("exec:touch {}", mark.display());
    let words = ["load", &target, "--search", "p50<1s", "--time", "60s", "--warmup", "0"];
    let child = lab.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while !mark.exists() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    send(&child, Signal::SIGINT);
    assert_eq!(Ended::of(child.wait_with_output().unwrap()).code, Some(130));
    let runs = lab.json(&["runs", "list"]);
    assert_eq!(runs["runs"][0]["state"], "interrupted", "{runs}");
    assert_eq!(runs["runs"][0]["labels"]["search-promise"], "p50<1s");
}

#[test]
fn what_cannot_be_told_is_refused_and_not_bent() {
    let lab = Lab::new();
    let script = lab.path("empty.sql");
    std::fs::write(&script, "-- nothing\n").unwrap();
    let (target, script) = (lab.sqlite(), script.display().to_string());
    for (words, says) in [
        (
            &["null:", "--search", "p99.9<100ms", "--rate", "8", "--time", "2s"][..],
            "--rate 500.00/s or above",
        ),
        (&["null:", "--rate", "100", "--tx-jitter", "10001"], "at most its thread's period"),
        (&[&target, "--script", &script, "--time", "1s"], "the script is empty"),
    ] {
        let refused = lab.run(&[&["load"], words].concat());
        assert_eq!(refused.code, Some(2), "{words:?}: {}", refused.err);
        assert!(refused.err.contains(says), "{}", refused.err);
    }
    let good = ["load", "null:", "--rate", "100", "--tx-jitter", "10000", "--time", "100ms", "--warmup", "0"];
    assert_eq!(lab.json(&good)["arrivals"], "jitter 100%");
}

#[test]
fn a_log_of_one_event_can_be_replayed() {
    let lab = Lab::new();
    let log = lab.path("one.parquet");
    let arrivals = format!("file:{}", log.display());
    let one = ["load", "null:", "--rate", "10", "--events", "1", "--warmup", "0", "--log"];
    assert_eq!(lab.json(&[&one[..], &[log.to_str().unwrap()]].concat())["done"], 1);
    let again = lab.json(&["load", "null:", "--arrivals", &arrivals, "--warmup", "0"]);
    assert_eq!((&again["planned"], &again["offered_per_s"]), (&1.into(), &1.0.into()));
}

#[test]
fn a_load_may_rise_before_and_fall_after_what_counts() {
    let lab = Lab::new();
    let words = ["load", "null:", "--rate", "200", "--arrivals", "period", "--time", "1s", "--warmup", "0"];
    let load = lab.json(&[&words[..], &["--ramp-up", "300ms", "--ramp-down", "300ms"]].concat());
    assert_eq!(load["planned"], 200);
    assert_balanced(&load);
    // Exactly the requested number of events, whatever the default of --time is.
    let load = lab.json(&["load", "null:", "--rate", "2000", "--events", "700", "--warmup", "0"]);
    assert_eq!((&load["planned"], &load["done"]), (&700.into(), &700.into()));
}

/// A plan beside a script and its module; the script notes what it reads of its option.
fn plan_of_script(lab: &Lab, define: &str) -> String {
    let notes = lab.path("notes").display().to_string();
    let script = format!(
        "sysbench.cmdline.options = {{ size = {{'the size', 1}} }}\nlocal own = require('own_module')\n\
         function thread_init()\n  local f = io.open('{notes}', 'a')\n  f:write(own.double(sysbench.opt.size), ' ')\n  \
         f:close()\n  print('a line of the script')\nend\nfunction event() end\n"
    );
    std::fs::write(lab.path("own.lua"), script).unwrap();
    let module = "return { double = function(n) return 2 * n end }";
    std::fs::write(lab.path("own_module.lua"), module).unwrap();
    let plan = format!(
        "schema = 1\ntitle = \"t\"\n[factors.size]\nvalues = [\"1\", \"3\"]\nlevel = \"sub-plot\"\n[design]\nblocks = 1\n\
         [load]\ntarget = \"null:\"\nscript = \"own.lua\"\ndefine = \"{define}\"\nrate = 100\n[phases]\n\
         warm-up = {{ min = \"20ms\" }}\nmeasure = {{ time = \"200ms\" }}\n"
    );
    std::fs::write(lab.path("plan.toml"), plan).unwrap();
    lab.path("plan.toml").to_str().unwrap().to_owned()
}

#[cfg(feature = "lua")]
#[test]
fn a_script_that_prints_and_then_fails_shows_both() {
    let lab = Lab::new();
    std::fs::write(lab.path("own.lua"), "print('so far')\nfunction event() end\nerror('broken')\n").unwrap();
    let script = lab.path("own.lua").display().to_string();
    for words in
        [&["script", script.as_str(), "null:"][..], &["load", "null:", "--script", &script, "--time", "1s"]]
    {
        let ended = lab.run(words);
        assert_eq!(ended.code, Some(5), "{words:?}: {}", ended.err);
        assert!(ended.err.starts_with("so far\n"), "{words:?}: {}", ended.err);
        assert!(
            ended.err.contains("own.lua:3: broken") && !ended.err.contains("\\t"),
            "{words:?}: {}",
            ended.err
        );
    }
}

#[cfg(feature = "lua")]
#[test]
fn a_script_does_not_control_a_terminal_and_a_pipe_gets_its_bytes() {
    let lab = Lab::new();
    let text = r"
local evil = '\27]0;title\7\194\155'
function event() end
function prepare()
   print('a', evil)
   io.write(evil, 7, '\n')
   io.stderr:write(evil, '\n')
end
";
    std::fs::write(lab.path("own.lua"), text).unwrap();
    let script = lab.path("own.lua").display().to_string();
    let words = ["script", &script, "prepare", "null:"];
    let piped = lab.run(&words);
    let evil = "\u{1b}]0;title\u{7}\u{9b}";
    assert!(piped.out.contains(&format!("a\t{evil}\n{evil}7\n")), "{:?}", piped.out);
    assert!(piped.err.contains(evil), "{:?}", piped.err);

    let environment = lab.command(&[]);
    let mut terminal = std::process::Command::new("script");
    terminal.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let command = format!("{} {}", env!("CARGO_BIN_EXE_bakeoff"), words.join(" "));
    let shown = terminal.args(["-qec", &command, "/dev/null"]).stdin(std::process::Stdio::null()).output();
    let Ok(shown) = shown else { return eprintln!("skipped: script(1) is not installed") };
    let shown = String::from_utf8_lossy(&shown.stdout);
    assert!(!shown.contains("\u{1b}]0;") && !shown.contains('\u{9b}'), "{shown:?}");
    assert_eq!(shown.matches(r"\x1b]0;title\x07\u{9b}").count(), 3, "{shown:?}");
}

#[cfg(feature = "lua")]
#[test]
fn a_plan_runs_a_script_in_lua_with_the_options_of_each_level() {
    let lab = Lab::new();
    let plan = plan_of_script(&lab, "size={size}");
    let checked = lab.run(&["plan", "explain", &plan]);
    assert!(checked.out.contains("needs a whole-plot factor"), "{}", checked.out);
    let ended = lab.run(&["run", &plan, "--json"]);
    let run: serde_json::Value =
        serde_json::from_str(&ended.out).unwrap_or_else(|e| panic!("{e}: {}", ended.err));
    assert_eq!(run["cells"]["failed"], 0, "{}", ended.err);
    assert!(ended.err.contains("a line of the script"), "{}", ended.err);
    let notes = std::fs::read_to_string(lab.path("notes")).unwrap();
    assert!(notes.contains("2 ") && notes.contains("6 "), "{notes}");
    // The archive has both files, as they were.
    for text in ["sysbench.opt.size", "return { double"] {
        let has = |(_, bytes): &(_, Vec<u8>)| String::from_utf8_lossy(bytes).contains(text);
        assert!(lab.archived_bytes().iter().any(has), "{text}");
    }
    for (define, reason) in [("colour={size}", "has no option `colour`"), ("size=big", "invalid value 'big'")]
    {
        let ended = lab.run(&["run", &plan_of_script(&lab, define)]);
        assert_eq!(ended.code, Some(2), "{}", ended.err);
        assert!(ended.err.contains(reason), "{}", ended.err);
    }
}

#[cfg(feature = "fleet")]
#[test]
fn ctrl_c_at_a_terminal_ends_a_fleet_of_its_own_through_its_conductor() {
    use std::os::unix::process::CommandExt as _;
    let lab = Lab::new();
    let mark = lab.path("begun");
    let target = format!("exec:touch {}", mark.display());
    let words = [
        "load",
        &target,
        "--rate",
        "20",
        "--threads",
        "2",
        "--time",
        "60s",
        "--warmup",
        "0",
        "--fleet",
        "2",
        "--json",
    ];
    let mut command = lab.command(&words);
    // A terminal sends its signal to the whole group.
    let mut child = command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while !mark.exists() {
        if child.try_wait().unwrap().is_some() {
            let err = Ended::of(child.wait_with_output().unwrap()).err;
            assert!(err.contains("nats-server: it is not installed"), "{err}");
            println!("skipped: no nats-server is installed");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    nix::sys::signal::killpg(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let ended = Ended::of(child.wait_with_output().unwrap());
    assert_eq!(ended.code, Some(130), "{}", ended.err);
    let load: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_balanced(&load);
    let agents = load["agents"].as_array().unwrap();
    assert!(agents.len() == 2 && agents.iter().all(|agent| agent["lost"] == false), "{load}");
}

#[cfg(feature = "fleet")]
#[test]
fn a_fleet_of_its_own_makes_the_load_of_one_machine_and_the_archive_knows_its_agents() {
    let lab = Lab::new();
    let words =
        ["load", "null:", "--rate", "900", "--arrivals", "poisson", "--time", "600ms", "--warmup", "0"];
    let of_one = lab.run(&[&words[..], &["--threads", "3", "--json"]].concat());
    let fleet = lab.run(&[&words[..], &["--threads", "3", "--fleet", "3", "--json"]].concat());
    if fleet.err.contains("nats-server: it is not installed") {
        println!("skipped: no nats-server is installed");
        return;
    }
    assert_eq!(fleet.code, Some(0), "{}", fleet.err);
    let read = |ended: &Ended| serde_json::from_str::<serde_json::Value>(&ended.out).unwrap();
    let (of_one, fleet) = (read(&of_one), read(&fleet));
    assert_eq!(fleet["schema"], "bakeoff.load/1");
    assert_eq!(fleet["planned"], of_one["planned"], "the same schedule has the same events");
    assert_balanced(&fleet);
    let agents = fleet["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 3);
    for name in ["planned", "done", "failed", "skipped", "unfinished", "retries"] {
        let sum: u64 = agents.iter().map(|agent| agent[name].as_u64().unwrap()).sum();
        assert_eq!(fleet[name], sum, "{name}");
    }
    assert!(
        agents
            .iter()
            .all(|a| a["clock"]["bound_ns"].is_u64() && a["missing_slices"] == serde_json::json!([]))
    );
    let page =
        lab.run(&["report", fleet["run"].as_str().unwrap(), "-o", lab.path("page.html").to_str().unwrap()]);
    assert_eq!(page.code, Some(0), "{}", page.err);
    let wrong = lab.run(&["load", "null:", "--threads", "2", "--fleet", "3"]);
    assert_eq!(wrong.code, Some(2), "{}", wrong.err);
    assert!(wrong.err.contains("needs --threads 3"), "{}", wrong.err);
    let standard = ["load", "http://127.0.0.1:1", "--replay", "-", "--threads", "2", "--fleet", "2"];
    let standard = lab.run(&standard);
    assert_eq!(standard.code, Some(2), "{}", standard.err);
    assert!(standard.err.contains("cannot replay `-`"), "{}", standard.err);
    let visible = lab.run(&["agent", "--server", "nats://me:secret@127.0.0.1"]);
    assert_eq!(visible.code, Some(2));
    assert!(visible.err.contains("$NATS_URL") && !visible.err.contains("secret"), "{}", visible.err);
    let beyond = lab.run(&["agent", "--server", "nats://lab.example:4222"]);
    assert_eq!(beyond.code, Some(2));
    assert!(beyond.err.contains("needs TLS"), "{}", beyond.err);
}
