//! The queue and the pages of `bakeoff serve`, against the binary.

#![cfg(feature = "serve")]
#![expect(clippy::unwrap_used, reason = "this whole file is tests")]

use std::collections::BTreeSet;
use std::time::Duration;

use house::{House, PLAN, processes, processes_of};
use lab::Lab;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

mod house;
#[path = "killed/server.rs"]
mod killed;
mod lab;

fn lab_with_plan() -> Lab {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN).unwrap();
    lab
}

fn submit(lab: &Lab, more: &[&str]) -> Value {
    let plan = lab.path("plan.toml");
    lab.json(&[&["queue", "submit", plan.to_str().unwrap()], more].concat())
}

/// Waits until `holds`. The looks leave the CPUs to what they wait for.
fn until(holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the archive lists a bake-off that runs.
fn until_one_runs(lab: &Lab) {
    until(|| lab.run(&["runs", "list", "--kind", "bakeoff", "--json"]).out.contains("running"));
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("{name} is a text: {value}"))
}

/// Number of runs that a query finds, once all that it needs are read.
fn found(house: &House, query: &str) -> u64 {
    loop {
        let document = house.get(&format!("/api/v1/runs?{query}")).json();
        if document["unread"] == 0 {
            return document["found"].as_u64().unwrap();
        }
    }
}

/// Checks that every entry has run to its end, once.
fn assert_each_ran_once(lab: &Lab, entries: usize) {
    let queue = lab.json(&["queue", "list"]);
    let all = queue["entries"].as_array().unwrap();
    assert_eq!(all.len(), entries, "no entry is lost or doubled");
    let runs: BTreeSet<&str> = all.iter().map(|entry| text(entry, "run")).collect();
    assert_eq!(runs.len(), entries, "each has its own run");
    let listed = lab.json(&["runs", "list", "--kind", "bakeoff"]);
    let found: BTreeSet<&str> =
        listed["runs"].as_array().unwrap().iter().map(|run| text(run, "run")).collect();
    assert_eq!(found, runs, "the archive has these bake-offs and no other");
    for entry in all {
        assert_eq!(text(entry, "state"), "done", "{entry}");
        let run = lab.json(&["runs", "show", text(entry, "run")]);
        let count = |of: &str, name: &str| run[of][name].as_u64().unwrap();
        assert_eq!(count("cells", "sealed") + count("cells", "invalid"), count("cells", "planned"), "{run}");
        let measured = count("attempts", "sealed") + count("attempts", "invalid");
        assert_eq!(measured, count("cells", "planned"), "no trial is measured twice: {run}");
    }
    let verified = lab.run(&["runs", "verify"]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.out, verified.err);
}

#[test]
fn a_paused_entry_continues_and_a_cancelled_one_does_not() {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN.replace("blocks = 2", "blocks = 20")).unwrap();
    let _house = House::open(&lab, &["--queue"]);
    let (first, second) = (submit(&lab, &["--priority", "5"]), submit(&lab, &[]));
    let state = |entry: &Value| lab.json(&["queue", "show", text(entry, "id")]);
    let until_it_is = |entry: &Value, wanted: &str| until(|| text(&state(entry), "state") == wanted);
    assert_eq!(lab.run(&["queue", "pause", text(&second, "id")]).code, Some(0));
    until_it_is(&first, "running");
    until_one_runs(&lab);
    assert_eq!(lab.run(&["queue", "pause", text(&first, "id")]).code, Some(0));
    until_it_is(&first, "paused");
    let run = state(&first)["run"].clone();
    let removed = lab.run(&["runs", "rm", text(&state(&first), "run")]);
    assert!(removed.code == Some(2) && removed.err.contains("bakeoff queue cancel"), "{}", removed.err);
    assert_eq!(lab.run(&["queue", "cancel", text(&second, "id")]).code, Some(0));
    assert_eq!(lab.run(&["queue", "wait", text(&second, "id")]).code, Some(130));
    let again = lab.run(&["queue", "resume", text(&second, "id")]);
    assert!(
        again.code == Some(2) && again.err.contains("cannot resume an entry that is cancelled"),
        "{}",
        again.err
    );
    assert_eq!(lab.run(&["queue", "resume", text(&first, "id")]).code, Some(0));
    until_one_runs(&lab);
    assert_eq!(lab.run(&["queue", "cancel", text(&first, "id")]).code, Some(0));
    until_it_is(&first, "cancelled");
    assert_eq!(state(&first)["run"], run, "it went on with the same bake-off");
    let shown = lab.json(&["runs", "list", "--kind", "bakeoff"]);
    // A process that had not begun to listen for signals dies of the first one.
    assert!(matches!(text(&shown["runs"][0], "state"), "interrupted" | "abandoned"), "{shown}");
}

/// A server that gives each request the next of these answers.
fn answering(answers: &[&'static str]) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answers = answers.to_vec();
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 4096];
            assert!(std::io::Read::read(&mut stream, &mut request).unwrap() > 0);
            std::io::Write::write_all(&mut stream, answer.as_bytes()).unwrap();
        }
    });
    url
}

#[test]
fn a_wait_outlasts_a_server_that_is_too_busy_to_answer() {
    let lab = Lab::new();
    let done = "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n\
                {\"id\":\"01ARZ3NDEKTSV4RRFFQ69G5FAV\",\"state\":\"done\",\"exit_code\":0}";
    for busy in [
        "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n",
    ] {
        let url = answering(&[busy, done]);
        let waited = lab.run(&["queue", "wait", "69g5fav", "--server", &url]);
        assert_eq!(waited.code, Some(0), "{busy}: {}", waited.err);
        assert!(waited.err.contains("still waiting"), "{}", waited.err);
    }
    let url = answering(&["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]);
    assert_eq!(lab.run(&["queue", "wait", "69g5fav", "--server", &url]).code, Some(2));
}

#[test]
fn a_wait_ends_with_a_pause_that_no_user_asked_for() {
    let lab = Lab::new();
    let paused = |reason: Value| -> &'static str {
        let id = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let entry = serde_json::json!({"id": id, "state": "paused", "exit_code": 130, "reason": reason});
        let (entry, head) = (entry.to_string(), "HTTP/1.1 200 OK\r\nContent-Length:");
        Box::leak(format!("{head} {}\r\n\r\n{entry}", entry.len()).into())
    };
    // After a pause by a user, the wait goes on: a user may resume it.
    let url = answering(&[paused(Value::Null), paused("the plan's time budget".into())]);
    let waited = lab.run(&["queue", "wait", "69g5fav", "--server", &url]);
    assert_eq!(waited.code, Some(130), "{}", waited.err);
    assert!(waited.out.contains("the plan's time budget"), "{}", waited.out);
    assert!(waited.err.contains("bakeoff queue resume 01ARZ3NDEKTSV4RRFFQ69G5FAV"), "{}", waited.err);
}

#[test]
fn a_plan_that_uses_up_its_time_budget_ends_the_wait_and_is_told() {
    let lab = Lab::new();
    // The phases of its two series take that long, and their beginnings and ends some time more.
    let plan = PLAN.replace("blocks = 2", "blocks = 2\ntime_budget = \"1200ms\"");
    std::fs::write(lab.path("plan.toml"), plan).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let told = told_once(listener);
    let _house = House::open(&lab, &["--queue", "--webhook", &url]);
    let waited = lab.run(&["queue", "submit", lab.path("plan.toml").to_str().unwrap(), "--wait"]);
    assert_eq!(waited.code, Some(130), "{} {}", waited.out, waited.err);
    assert!(
        waited.out.contains("time budget") && waited.err.contains("bakeoff queue resume"),
        "{}",
        waited.err
    );
    let request = told.join().unwrap();
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!((text(&body, "state"), body["exit_code"].as_i64()), ("paused", Some(130)), "{body}");
    let id = text(&body, "id");
    assert_eq!(lab.run(&["queue", "resume", id]).code, Some(0));
    assert!(matches!(lab.run(&["queue", "wait", id]).code, Some(0 | 3)));
    assert_each_ran_once(&lab, 1);
}

/// A server that takes one request; returns its body.
fn told_once(listener: std::net::TcpListener) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = String::new();
        let mut bytes = [0; 4096];
        while !request.contains("\r\n\r\n") || !request.ends_with('}') {
            let n = std::io::Read::read(&mut stream, &mut bytes).unwrap();
            assert!(n > 0, "the request is cut off: {request}");
            request.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
        }
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 204 No Content\r\n\r\n").unwrap();
        request
    })
}

#[test]
fn the_end_of_an_entry_is_told_with_its_gates_even_if_no_server_saw_it() {
    let lab = Lab::new();
    // A gate that no run passes: exit code 1.
    let plan = PLAN.replace("blocks = 2", "blocks = 6");
    let gated = format!("{plan}\n[[gate]]\nmetric = \"throughput\"\nrule = \">= 1000000/s\"\n");
    std::fs::write(lab.path("plan.toml"), gated).unwrap();
    let house = House::open(&lab, &["--queue"]);
    let entry = submit(&lab, &[]);
    while processes(&lab, "run").is_empty() {}
    house.kill();
    until(|| processes(&lab, "run").is_empty());
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?job=7", listener.local_addr().unwrap());
    let told = told_once(listener);
    let _house = House::open(&lab, &["--queue", "--webhook", &url]);
    let waited = lab.run(&["queue", "wait", text(&entry, "id")]);
    // On a busy machine trials fall out, and the gate is inconclusive; without it both would be 0 or 3.
    assert!(matches!(waited.code, Some(1 | 4)), "{:?} {}{}", waited.code, waited.out, waited.err);
    let request = told.join().unwrap();
    assert!(request.starts_with("POST /hook?job=7 HTTP/1.1\r\n"), "{request}");
    let body: Value = serde_json::from_str(request.split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(
        (text(&body, "id"), body["exit_code"].as_i64()),
        (text(&entry, "id"), waited.code.map(i64::from))
    );
    assert_each_ran_once(&lab, 1);
}

#[test]
fn a_cancelled_plan_whose_process_waits_for_the_machine_never_runs() {
    let lab = lab_with_plan();
    std::fs::write(lab.path("long.toml"), PLAN.replace("blocks = 2", "blocks = 40")).unwrap();
    let mut holder = lab.command(&["run", lab.path("long.toml").to_str().unwrap()]).spawn().unwrap();
    until_one_runs(&lab);
    let house = House::open(&lab, &["--queue"]);
    let entry = submit(&lab, &[]);
    while processes(&lab, "--as").is_empty() {}
    // Its process waits for the machine, and outlives the server.
    house.kill();
    let _house = House::open(&lab, &["--queue"]);
    assert_eq!(lab.run(&["queue", "cancel", text(&entry, "id")]).code, Some(0));
    assert_eq!(lab.run(&["queue", "wait", text(&entry, "id")]).code, Some(130));
    assert!(processes(&lab, "--as").is_empty(), "no process is left that would begin it");
    kill(Pid::from_raw(holder.id().cast_signed()), Signal::SIGKILL).unwrap();
    holder.wait().unwrap();
    let listed = lab.json(&["runs", "list", "--kind", "bakeoff"]);
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1, "{listed}");
}

#[test]
fn a_plan_with_a_fault_is_refused_with_its_place_and_leaves_no_entry() {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN.replace("blocks = 2", "blocs = 2")).unwrap();
    let _house = House::open(&lab, &["--queue"]);
    let refused = lab.run(&["queue", "submit", lab.path("plan.toml").to_str().unwrap()]);
    assert_eq!(refused.code, Some(2));
    assert!(refused.err.contains("9:1: unknown key `blocs`"), "{}", refused.err);
    assert_eq!(lab.json(&["queue", "list"])["entries"].as_array().unwrap().len(), 0);
}

#[test]
fn without_a_server_the_command_says_how_to_start_one() {
    let lab = lab_with_plan();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let ended = lab.run(&["queue", "list"]);
    assert_eq!(ended.code, Some(6));
    assert!(ended.err.contains("bakeoff serve --queue"), "{}", ended.err);
    let wrong = lab.run(&["queue", "list", "--server", "http://lab.example"]);
    assert_eq!(wrong.code, Some(2), "a token never crosses a network in plain text: {}", wrong.err);
}

#[test]
fn a_plan_that_cannot_run_fails_with_its_reason_and_the_next_one_runs() {
    let lab = lab_with_plan();
    let broken = PLAN.replace("target = \"null:\"", "target = \"sqlite:/nonexistent/folder/x.db\"");
    std::fs::write(lab.path("broken.toml"), broken).unwrap();
    let _house = House::open(&lab, &["--queue"]);
    let bad = lab.json(&["queue", "submit", lab.path("broken.toml").to_str().unwrap()]);
    let good = submit(&lab, &[]);
    let ended = lab.run(&["queue", "wait", text(&bad, "id")]);
    assert!(matches!(ended.code, Some(5 | 6)), "{:?} {}", ended.code, ended.err);
    let shown = lab.json(&["queue", "show", text(&bad, "id")]);
    assert!(!text(&shown, "reason").is_empty(), "{shown}");
    assert!(matches!(lab.run(&["queue", "wait", text(&good, "id")]).code, Some(0 | 3)));
}

#[test]
fn a_run_that_waits_begins_when_the_machine_is_free() {
    let lab = lab_with_plan();
    let long = PLAN.replace("blocks = 2", "blocks = 6");
    std::fs::write(lab.path("long.toml"), long).unwrap();
    let mut first = lab.command(&["run", lab.path("long.toml").to_str().unwrap()]).spawn().unwrap();
    until_one_runs(&lab);
    let refused = lab.run(&["run", lab.path("plan.toml").to_str().unwrap()]);
    assert_eq!(refused.code, Some(6), "{}", refused.err);
    let waited = lab.run(&["run", "--wait", lab.path("plan.toml").to_str().unwrap()]);
    assert!(matches!(waited.code, Some(0 | 3)), "{:?} {}", waited.code, waited.err);
    assert!(waited.err.contains("waiting for another measurement"), "{}", waited.err);
    assert!(first.try_wait().unwrap().is_some(), "it began after the other had ended");
}

#[test]
fn the_page_and_the_export_of_a_run_are_those_of_the_commands_byte_for_byte() {
    let lab = lab_with_plan();
    lab.run(&["load", "null:", "--rate", "200", "--time", "500ms", "--label", "a=<b>"]);
    lab.run(&["run", lab.path("plan.toml").to_str().unwrap()]);
    lab.run(&["scale", "--copies", "1,2", "--rounds", "2", "--time", "200ms", "--", "true"]);
    let house = House::open(&lab, &[]);
    let listed = lab.json(&["runs", "list"]);
    let runs = listed["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 3, "{listed}");
    for run in runs {
        let (id, file) = (text(run, "run"), lab.path("page.html"));
        let written = lab.run(&["report", id, "-o", file.to_str().unwrap()]);
        assert_eq!(written.code, Some(0), "{}", written.err);
        let reply = house.get(&format!("/runs/{id}"));
        assert_eq!(reply.status, 200);
        assert!(reply.body == std::fs::read_to_string(&file).unwrap(), "{} differs", text(run, "kind"));
        assert_eq!(house.get(&format!("/api/v1/runs/{id}")).json(), lab.json(&["runs", "show", id]));
        for format in ["csv", "json", "parquet", "openmetrics"] {
            let own = lab.command(&["runs", "export", id, "--format", format]).output().unwrap().stdout;
            let served = house.bytes(&format!("/api/v1/runs/{id}/export?format={format}"));
            assert!(!own.is_empty() && served == own, "{format}: {} and {} bytes", served.len(), own.len());
        }
        let about = house.get(&format!("/runs/{id}/about")).body;
        assert!(about.contains(&format!("/api/v1/runs/{id}/export?format=csv\"")), "{about}");
    }
}

#[test]
fn a_list_finds_by_words_kind_and_label_and_compares_what_is_ticked() {
    let lab = Lab::new();
    for name in ["alpha", "beta"] {
        let label = format!("colour={name}");
        lab.run(&["load", "null:", "--rate", "200", "--time", "300ms", "--label", &label]);
    }
    let house = House::open(&lab, &[]);
    let found = |query: &str| found(&house, query);
    assert_eq!(
        ["", "text=ALPHA", "label=colour", "label=colour%3Dbeta", "kind=bakeoff"].map(found),
        [2, 1, 2, 1, 0]
    );
    let machine = house.get("/api/v1/hosts").json()["hosts"][0]["name"].as_str().unwrap().to_owned();
    let of_machine = format!("machine={machine}");
    assert_eq!(
        [of_machine.as_str(), "machine=none", "target=NULL", "target=mysql", "factor=rate"].map(found),
        [2, 0, 2, 0, 0]
    );
    let listed = lab.json(&["runs", "list"]);
    let ids: Vec<&str> = listed["runs"].as_array().unwrap().iter().map(|run| text(run, "run")).collect();
    let page = house.get(&format!("/compare?runs={}&runs={}", ids[0], ids[1]));
    assert_eq!(page.status, 200);
    assert!(page.body.contains("label colour") && page.body.contains("response p99"), "{}", page.body);
    assert_eq!(house.get(&format!("/compare?runs={}", ids[0])).status, 400);
    let document = house.get(&format!("/api/v1/compare?runs={}", ids.join(","))).json();
    assert_eq!(document["runs"].as_array().unwrap().len(), 2);
}

#[test]
fn bake_offs_are_judged_tagged_and_have_a_history() {
    let lab = lab_with_plan();
    for _ in 0..2 {
        lab.run(&["run", lab.path("plan.toml").to_str().unwrap()]);
    }
    let listed = lab.json(&["runs", "list"]);
    let ids: Vec<&str> = listed["runs"].as_array().unwrap().iter().map(|run| text(run, "run")).collect();
    let house = House::open(&lab, &["--queue"]);
    let compared = house.get(&format!("/api/v1/compare?runs={}", ids.join(","))).json();
    // Beside other work, too few trials may be valid for a judgement.
    let own = lab.run(&["compare", ids[0], ids[1], "--json"]);
    assert!(matches!(own.code, Some(0 | 4)), "{}", own.err);
    let own: Value = serde_json::from_str(&own.out).unwrap();
    assert_eq!(compared["judged"]["pairs"].as_array().unwrap().len(), own["pairs"].as_array().unwrap().len());
    // Beside other work further cells are missing, each with its caveat.
    assert!(compared["judged"]["caveats"].as_array().unwrap().len() >= 2, "{compared}");
    let page = house.get(&format!("/compare?runs={}", ids.join(",")));
    assert!(page.body.contains(text(&compared["judged"], "answer")), "{}", page.body);
    assert_eq!(house.get("/api/v1/history?metric=throughput").json(), lab.json(&["history", "throughput"]));
    let page = house.get("/history");
    assert!(page.status == 200 && page.body.contains("<h1>History</h1>"), "{}", page.body);
    lab.run(&["history", "-o", lab.path("history.html").to_str().unwrap()]);
    let figures = house.get("/history/figures");
    assert!(figures.body == std::fs::read_to_string(lab.path("history.html")).unwrap(), "byte for byte");
    // A tag from the command line is found in the browser, and the other way round.
    let tagged = lab.run(&["runs", "tag", ids[0], "slow", "--note", "why?"]);
    assert!(tagged.code == Some(0) && tagged.out.ends_with("has the tags slow\n"), "{}", tagged.err);
    let note = format!("/api/v1/runs/{}/note", ids[0]);
    assert_eq!(
        (&house.get(&note).json()["tags"][0], &house.get(&note).json()["note"]),
        (&"slow".into(), &"why?".into())
    );
    let put = |body: &str| house.ask("PUT", &note, &[("Content-Type", "application/json")], body).status;
    assert_eq!(
        [put("{\"tags\":[\"a b\"]}"), put("[]"), put("{\"tags\":[\"fast\"],\"note\":\"\"}")],
        [400, 400, 200]
    );
    assert_eq!(house.get("/api/v1/runs?tag=fast").json()["found"], 1);
    let found = |query: &str| found(&house, query);
    let documents: Vec<Value> = ids.iter().map(|id| lab.json(&["runs", "show", id])).collect();
    for word in ["better", "worse", "equivalent", "inconclusive"] {
        let has = |document: &&Value| {
            document["comparisons"]
                .as_array()
                .is_some_and(|all| all.iter().any(|pair| pair["verdict"] == word))
        };
        let expected = documents.iter().filter(has).count();
        assert_eq!(found(&format!("verdict={word}")), expected as u64, "{word} {documents:?}");
    }
    let factors = ["factor=rate", "factor=rate%3D400", "factor=rate%3D300", "factor=rate&target=null"];
    assert_eq!(factors.map(found), [2, 2, 0, 2]);
    // A form that was loaded before does not overwrite it.
    let form = format!("csrf={}&version=old&tags=mine&note=typed", house.csrf(&[]));
    let typed = [("Content-Type", "application/x-www-form-urlencoded")];
    let refused = house.ask("POST", &format!("/runs/{}/note", ids[0]), &typed, &form);
    assert_eq!(refused.status, 409);
    for part in ["Your text is in the form", "Tags: fast", "value=\"mine\"", ">typed</textarea>"] {
        assert!(refused.body.contains(part), "{part}: {}", refused.body);
    }
    assert_eq!(lab.json(&["runs", "tag", ids[0], "--remove", "fast"])["tags"], serde_json::json!([]));
}

#[test]
fn a_load_is_shown_while_it_runs_and_the_machine_beside_it() {
    let lab = Lab::new();
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let house = House::open(&lab, &["--instruments", "memory,nic"]);
    let mut load = lab.command(&[
        "load",
        "null:",
        "--rate",
        "1000",
        "--time",
        "60s",
        "--interval",
        "200ms",
        "--title",
        "seen",
    ]);
    let mut load = load.stdout(std::process::Stdio::null()).spawn().unwrap();
    let metrics = loop {
        let metrics = house.get("/metrics").body;
        let is_seen = [
            "bakeoff_load_done_per_second{",
            "bakeoff_load_lateness_p99_seconds{",
            "bakeoff_memory_available_bytes ",
            "bakeoff_nic_bytes_per_second{",
        ];
        if is_seen.iter().all(|name| metrics.contains(name)) {
            break metrics;
        }
        assert!(load.try_wait().unwrap().is_none(), "{metrics}");
        // More requests a second are refused.
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(metrics.contains("bakeoff_running 1\n"), "{metrics}");
    let page = house.get("/").body;
    assert!(
        ["seen", "memory available", "Ends about", "<dt>lateness p99</dt>"].iter().all(|p| page.contains(p)),
        "{page}"
    );
    kill(Pid::from_raw(load.id().cast_signed()), Signal::SIGKILL).unwrap();
    load.wait().unwrap();
    let metrics = house.get("/metrics").body;
    assert!(metrics.contains("bakeoff_running 0\n") && !metrics.contains("bakeoff_load_done"), "{metrics}");
    // A load that is behind says so, and its result is there when it ends.
    let words =
        ["load", "exec:sleep 0.1", "--rate", "40", "--threads", "1", "--time", "2s", "--interval", "200ms"];
    let mut load = lab.command(&[&words[..], &["--warmup", "0s", "--title", "slow"]].concat());
    let mut load = load.stdout(std::process::Stdio::null()).spawn().unwrap();
    let mut was_behind = false;
    while load.try_wait().unwrap().is_none() {
        was_behind |= house.get("/").body.contains("<b>Behind</b> done ");
        std::thread::sleep(Duration::from_millis(50));
    }
    let page = house.get("/").body;
    assert!(was_behind, "{page}");
    let ended = page.split("<h3>Ended</h3>").nth(1).unwrap_or_else(|| panic!("{page}"));
    assert!(
        ended.contains(">slow</a>") && ended.contains("<span class=\"word bad\">INVALID</span>"),
        "{ended}"
    );
    let children = processes_of(&house);
    house.end();
    assert!(
        children.len() == 2
            && children.iter().all(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists())
    );
}

#[test]
fn metrics_and_health_describe_the_queue() {
    let lab = lab_with_plan();
    let house = House::open(&lab, &["--queue"]);
    let entry = submit(&lab, &["--not-before", "2099-01-01T00:00:00Z"]);
    let metrics = house.get("/metrics");
    assert!(metrics.head.contains("application/openmetrics-text"), "{}", metrics.head);
    assert!(metrics.body.contains("bakeoff_queue_entries{state=\"waiting\"} 1\n"), "{}", metrics.body);
    assert_eq!(house.get("/healthz").status, 200);
    assert_eq!(text(&lab.json(&["queue", "show", text(&entry, "id")]), "state"), "waiting");
    lab.run(&["load", "null:", "--rate", "100", "--time", "200ms"]);
    let runs = lab.json(&["runs", "list"]);
    let run = text(&runs["runs"][0], "run");
    let documented = house.get("/openapi.json").json();
    // A stream of events has no end; another test reads it.
    for path in documented["paths"].as_object().unwrap().keys().filter(|path| !path.ends_with("/events")) {
        let id = if path.contains("/runs/") { run } else { text(&entry, "id") };
        let real = path.replace("{id}", id).replace("{action}", "pause");
        let reply = house.get(&real);
        assert_ne!(reply.status, 404, "{path} is documented and does not exist");
        let answer = &documented["paths"][path]["get"]["responses"]["200"]["content"]["application/json"];
        let Some(place) = answer["schema"]["$ref"].as_str().filter(|_| reply.status == 200) else { continue };
        let schema = documented.pointer(&place[1..]).unwrap();
        for name in schema["required"].as_array().unwrap() {
            assert!(
                reply.json().get(name.as_str().unwrap()).is_some(),
                "{path} lacks {name}: {}",
                reply.body
            );
        }
    }
}

#[test]
fn a_viewer_sees_trials_end_while_the_bake_off_runs() {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN.replace("200ms", "1500ms")).unwrap();
    let house = House::open(&lab, &["--queue"]);
    let entry = submit(&lab, &[]);
    let head = format!("GET /api/v1/events HTTP/1.1\r\nHost: {}\r\n\r\n", house.address);
    let mut stream = std::net::TcpStream::connect(&house.address).unwrap();
    std::io::Write::write_all(&mut stream, head.as_bytes()).unwrap();
    let (mut intervals, mut most) = (0, 0);
    for line in std::io::BufRead::lines(std::io::BufReader::new(stream)) {
        let line = line.unwrap();
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let now: Value = serde_json::from_str(data).unwrap();
        if let Some(running) = now["running"].as_array().and_then(|all| all.first()) {
            most = most.max(running["sealed"].as_u64().unwrap() + running["invalid"].as_u64().unwrap());
            intervals += u32::from(running["interval"]["achieved_per_s"].is_number());
        }
        if text(&now["entries"][0], "state") == "done" {
            break;
        }
    }
    assert!(most >= 1 && intervals >= 1, "{most} trials and {intervals} intervals were shown");
    assert_eq!(lab.json(&["queue", "show", text(&entry, "id")])["state"], "done");
}

#[test]
fn a_server_that_is_told_to_end_leaves_its_entry_to_the_next() {
    let lab = Lab::new();
    std::fs::write(lab.path("plan.toml"), PLAN.replace("blocks = 2", "blocks = 12")).unwrap();
    let house = House::open(&lab, &["--queue"]);
    let entry = submit(&lab, &[]);
    while processes(&lab, "run").is_empty() {}
    until_one_runs(&lab);
    house.end();
    assert!(processes(&lab, "run").is_empty(), "its process has ended before it");
    let _next = House::open(&lab, &["--queue"]);
    assert!(matches!(lab.run(&["queue", "wait", text(&entry, "id")]).code, Some(0 | 3)));
    assert_each_ran_once(&lab, 1);
}
