//! What `bakeoff serve` says about processes that were killed, stopped or ended unseen, against the binary.

#![cfg(feature = "serve")]
#![expect(clippy::unwrap_used, reason = "this whole file is tests")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use house::{House, PLAN, SLICES, can_slice, processes};
use lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use record::clock::{Clock as _, Monotonic};
use serde_json::Value;

mod house;
mod lab;

/// An archive, and a plan of that many blocks of trials of that length.
fn lab_with(blocks: u32, measure: &str) -> Lab {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let plan = PLAN.replace("blocks = 2", &format!("blocks = {blocks}")).replace("200ms", measure);
    std::fs::write(lab.path("plan.toml"), plan).unwrap();
    lab
}

fn submit(lab: &Lab) -> String {
    let entry = lab.json(&["queue", "submit", lab.path("plan.toml").to_str().unwrap()]);
    entry["id"].as_str().unwrap().to_owned()
}

fn start(lab: &Lab, words: &[&str]) -> Child {
    lab.command(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
}

/// Waits until `look` finds something.
fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let began_ns = Monotonic.now_ns();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Monotonic.now_ns() - began_ns < 120_000_000_000, "never: {what}");
        // More requests a second are refused.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_measurement_that_was_killed_does_not_stay_running() {
    let lab = lab_with(40, "200ms");
    let house = House::open(&lab, &[]);
    let mut run = start(&lab, &["run", lab.path("plan.toml").to_str().unwrap()]);
    let listed = |query: &str| house.get(&format!("/api/v1/runs?{query}")).json();
    let bakeoff = || listed("kind=bakeoff")["runs"][0].clone();
    let id = until("it is listed", || {
        let found = bakeoff();
        (found["state"] == "running").then(|| found["run"].as_str().unwrap().to_owned())
    });
    // Beside other work every trial may be INVALID.
    until("a trial has ended", || {
        let cells = lab.json(&["runs", "show", &id])["cells"].clone();
        (cells["sealed"].as_u64()? + cells["invalid"].as_u64()? > 0).then_some(())
    });
    // It writes nothing more, and the list and its page are read once again.
    signal(&run, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!((&bakeoff()["state"], house.get(&format!("/runs/{id}")).status), (&"running".into(), 200));
    run.kill().unwrap();
    run.wait().unwrap();
    until("the list has its death", || (bakeoff()["state"] == "abandoned").then_some(()));
    let file = lab.path("page.html");
    assert_eq!(lab.run(&["report", &id, "-o", file.to_str().unwrap()]).code, Some(0));
    let page = house.get(&format!("/runs/{id}")).body;
    assert!(page == std::fs::read_to_string(&file).unwrap(), "the page is of the time when it ran");
    // A load that was killed leaves the list.
    let mut load = start(&lab, &["load", "null:", "--rate", "100", "--time", "60s"]);
    let loads = || listed("kind=load&state=running")["found"].as_u64().unwrap();
    until("the load is listed", || (loads() == 1).then_some(()));
    signal(&load, Signal::SIGSTOP);
    std::thread::sleep(Duration::from_secs(3));
    load.kill().unwrap();
    load.wait().unwrap();
    until("the list has its death", || (loads() == 0).then_some(()));
}

#[test]
fn a_pause_and_the_end_of_a_server_complete_the_trial() {
    let lab = lab_with(2, "3s");
    let house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    let is_measuring = || house.get("/metrics").body.contains("bakeoff_load_done_per_second{").then_some(());
    let show = || lab.json(&["queue", "show", &id]);
    // Trials that were measured, and attempts that were not completed.
    let trials = || {
        let run = lab.json(&["runs", "show", show()["run"].as_str().unwrap()]);
        let count = |of: &str, name: &str| run[of][name].as_u64().unwrap();
        (count("cells", "sealed") + count("cells", "invalid"), count("attempts", "abandoned"))
    };
    until("a trial is measured", is_measuring);
    assert_eq!(lab.run(&["queue", "pause", &id]).code, Some(0));
    until("it is paused", || (show()["state"] == "paused").then_some(()));
    assert_eq!(trials(), (1, 0));
    assert_eq!(lab.run(&["queue", "resume", &id]).code, Some(0));
    until("a trial is measured", is_measuring);
    house.end();
    let _next = House::open(&lab, &["--queue"]);
    assert!(matches!(lab.run(&["queue", "wait", &id]).code, Some(0 | 3)));
    assert_eq!(trials(), (4, 0));
}

#[test]
fn an_entry_of_a_server_that_was_stopped_and_killed_goes_on() {
    let lab = lab_with(2, "2s");
    let house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    until("a trial is measured", || {
        house.get("/metrics").body.contains("bakeoff_load_done_per_second{").then_some(())
    });
    // As systemd does: first the request to stop, and the kill before the process has followed it.
    let process = Pid::from_raw(processes(&lab, "run")[0]);
    kill(process, Signal::SIGSTOP).unwrap();
    kill(Pid::from_raw(house.pid().cast_signed()), Signal::SIGTERM).unwrap();
    // Not any signal: the SIGSTOP is pending too, until a thread of the process takes it.
    until("the request to stop is pending", || {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let pending = status.lines().find_map(|line| line.strip_prefix("ShdPnd:")).unwrap().trim();
        let pending = u64::from_str_radix(pending, 16).unwrap();
        (pending >> (Signal::SIGUSR1 as i32 - 1) & 1 == 1).then_some(())
    });
    house.kill();
    let _next = House::open(&lab, &["--queue"]);
    std::thread::sleep(Duration::from_secs(1));
    kill(process, Signal::SIGCONT).unwrap();
    let ended = until("it ends", || {
        let shown = lab.json(&["queue", "show", &id]);
        (!matches!(shown["state"].as_str(), Some("running" | "waiting"))).then_some(shown)
    });
    assert_eq!(ended["state"], "done", "no user has paused it: {ended}");
}

#[test]
fn an_end_that_no_server_saw_has_the_time_at_which_it_was() {
    let lab = lab_with(2, "200ms");
    let house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    until("its process begins", || (!processes(&lab, "run").is_empty()).then_some(()));
    house.kill();
    until("its process ends", || processes(&lab, "run").is_empty().then_some(()));
    let date = std::process::Command::new("date").args(["-u", "+%FT%TZ"]).output().unwrap();
    let then = String::from_utf8(date.stdout).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let _next = House::open(&lab, &["--queue"]);
    assert!(matches!(lab.run(&["queue", "wait", &id]).code, Some(0 | 3)));
    let shown = lab.json(&["queue", "show", &id]);
    assert!(shown["ended_at"].as_str().unwrap() <= then.trim(), "{then} {shown}");
}

#[test]
fn an_entry_that_makes_progress_between_kills_is_not_given_up() {
    let lab = lab_with(8, "200ms");
    let _house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    let mut known = 0;
    for _ in 0..4 {
        known = until("another trial ends", || {
            let run = lab.json(&["queue", "show", &id])["run"].as_str()?.to_owned();
            let shown = lab.run(&["runs", "show", &run, "--json"]).out;
            let cells = serde_json::from_str::<Value>(&shown).ok()?["cells"].clone();
            let ended = cells["sealed"].as_u64()? + cells["invalid"].as_u64()?;
            (ended > known).then_some(ended)
        });
        for pid in [processes(&lab, "run"), processes(&lab, "resume")].concat() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
    let waited = lab.run(&["queue", "wait", &id]);
    let shown = lab.json(&["queue", "show", &id]);
    assert!(matches!(waited.code, Some(0 | 3)) && shown["state"] == "done", "{} {shown}", waited.err);
}

#[test]
fn an_entry_that_takes_its_server_down_three_times_is_given_up() {
    let lab = lab_with(2, "60s");
    let mut house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    let conducting = || [processes(&lab, "run"), processes(&lab, "resume")].concat();
    for _ in 0..3 {
        let children = until("a trial is measured", || {
            let (children, metrics) = (conducting(), house.get("/metrics").body);
            (!children.is_empty() && metrics.contains("bakeoff_load_done_per_second{")).then_some(children)
        });
        house.kill();
        for pid in children {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        until("its process is gone", || conducting().is_empty().then_some(()));
        house = House::open(&lab, &["--queue"]);
    }
    let ended = until("it ends, or continues", || {
        let shown = lab.json(&["queue", "show", &id]);
        let is_over = !matches!(shown["state"].as_str(), Some("running" | "waiting"));
        (is_over || !conducting().is_empty()).then_some(shown)
    });
    assert_eq!((&ended["state"], &ended["exit_code"]), (&"failed".into(), &Value::Null), "{ended}");
    assert!(ended["reason"].as_str().unwrap().contains("killed three times"), "{ended}");
}

#[test]
fn a_pause_in_the_last_trial_of_a_watched_process_keeps_the_verdict() {
    let lab = lab_with(2, "2s");
    let house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    until("its process begins", || (!processes(&lab, "run").is_empty()).then_some(()));
    house.kill();
    let house = House::open(&lab, &["--queue"]);
    until("the last trial is measured", || {
        let run = lab.json(&["queue", "show", &id])["run"].as_str()?.to_owned();
        let shown = lab.run(&["runs", "show", &run, "--json"]).out;
        let cells = serde_json::from_str::<Value>(&shown).ok()?["cells"].clone();
        let ended = cells["sealed"].as_u64()? + cells["invalid"].as_u64()?;
        let is_last = ended + 1 == cells["planned"].as_u64()?;
        (is_last && house.get("/metrics").body.contains("bakeoff_load_done_per_second{")).then_some(())
    });
    assert_eq!(lab.run(&["queue", "pause", &id]).code, Some(0));
    let ended = until("it ends", || {
        let shown = lab.json(&["queue", "show", &id]);
        (shown["state"] != "running").then_some(shown)
    });
    assert!(ended["state"] == "done" && matches!(ended["exit_code"].as_i64(), Some(0 | 3)), "{ended}");
}

#[test]
fn the_page_of_a_run_that_was_removed_or_damaged_is_not_served() {
    let lab = lab_with(2, "200ms");
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let listed = lab.json(&["runs", "list", "--kind", "load"]);
    let ids = [0, 1].map(|n| listed["runs"][n]["run"].as_str().unwrap().to_owned());
    let house = House::open(&lab, &[]);
    let status = |id: &str| house.get(&format!("/runs/{id}")).status;
    assert_eq!([status(&ids[0]), status(&ids[1])], [200, 200]);
    assert_eq!(lab.run(&["runs", "rm", &ids[0]]).code, Some(0));
    assert_eq!(status(&ids[0]), 404);
    let file = lab.path("archive").join("runs").join(&ids[1]).join("latency.hlog.zst");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    assert_ne!(lab.run(&["runs", "verify", &ids[1]]).code, Some(0));
    assert_eq!(status(&ids[1]), 500);
}

#[test]
fn bake_offs_are_judged_only_if_the_command_judges_them() {
    let lab = lab_with(2, "200ms");
    std::fs::write(lab.path("other.toml"), PLAN.replace("200, 400", "300, 500")).unwrap();
    for plan in ["plan.toml", "other.toml"] {
        lab.run(&["run", lab.path(plan).to_str().unwrap()]);
    }
    let listed = lab.json(&["runs", "list", "--kind", "bakeoff"]);
    let ids = [0, 1].map(|n| listed["runs"][n]["run"].as_str().unwrap().to_owned());
    let house = House::open(&lab, &[]);
    let own = lab.run(&["compare", &ids[0], &ids[1]]);
    let compared = house.get(&format!("/api/v1/compare?runs={},{}", ids[0], ids[1])).json();
    // Beside other work trials fall out; then the sides have caveats instead.
    if own.code == Some(2) {
        let why = compared["missing"]["judged"].as_str().unwrap_or_default();
        assert!(own.err.contains("no metric in common") && why.contains("no metric in common"), "{compared}");
    } else {
        assert!(compared["judged"].is_object(), "{} {compared}", own.err);
    }
    // The server refuses to compare a run with itself, under any name.
    let short = ids[0][ids[0].len() - 8..].to_lowercase();
    for names in [format!("{0},{0}", ids[0]), format!("{},{},{short}", ids[0], ids[1])] {
        assert_eq!(house.get(&format!("/api/v1/compare?runs={names}")).status, 400, "{names}");
        let page = house.get(&format!("/compare?runs={names}"));
        assert!(page.status == 400 && page.body.contains("named twice"), "{}", page.body);
    }
}

#[test]
fn the_unit_signals_the_server_alone() {
    let unit = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/bakeoff-serve.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    // By default systemd signals every process of the unit: with that of the server, the trial is cut off.
    assert!(unit.lines().any(|line| line == "KillMode=mixed"), "{unit}");
}

#[test]
fn root_a_block_in_slices_is_shown_as_a_whole_and_a_pause_completes_it() {
    if !can_slice() {
        return;
    }
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    std::fs::write(lab.path("plan.toml"), SLICES.replace("200ms", "3s")).unwrap();
    let house = House::open(&lab, &["--queue"]);
    let id = submit(&lab);
    let mut stream = std::net::TcpStream::connect(&house.address).unwrap();
    write!(stream, "GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", house.address).unwrap();
    let states = BufReader::new(stream).lines().map_while(Result::ok);
    let states = states.filter_map(|line| serde_json::from_str::<Value>(line.strip_prefix("data: ")?).ok());
    // Two a second.
    let states = states.take(240);
    let mut running = states.filter_map(|now| now["running"].as_array()?.first().cloned());
    let is_in_turns =
        |running: &Value| running["step"].as_str().is_some_and(|step| step.contains("in turns"));
    running.find(is_in_turns).expect("turns are shown");
    let in_turns = running.next().expect("turns are shown");
    let words = |name: &str| in_turns["missing"][name].as_str().unwrap_or_default().to_owned();
    let order = in_turns["order"].as_array().unwrap();
    let measured: Vec<bool> = order.iter().map(|trial| trial["state"] == "measuring").collect();
    assert_eq!(measured, [true, true, false, false], "both of the first block: {in_turns}");
    assert!(in_turns["interval"].is_null() && words("interval").contains("in slices"), "{in_turns}");
    let page = house.get("/").body;
    assert!(page.contains("Now: block 1: 2 series in turns of 100 ms."), "{page}");
    assert!(page.contains("Numbers of the load: not shown in slices"), "{page}");
    assert_eq!(lab.run(&["queue", "pause", &id]).code, Some(0));
    let page = house.get("/").body;
    assert!(page.contains("running, stops after this trial or block"), "{page}");
    let show = || lab.json(&["queue", "show", &id]);
    until("it is paused", || (show()["state"] == "paused").then_some(()));
    let run = lab.json(&["runs", "show", show()["run"].as_str().unwrap()]);
    let count = |of: &str, name: &str| run[of][name].as_u64().unwrap();
    let measured = count("cells", "sealed") + count("cells", "invalid");
    assert_eq!((measured, count("attempts", "abandoned")), (2, 0), "the whole block: {run}");
}
