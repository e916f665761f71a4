//! Runs with more numbers over time than any load has, in an archive from elsewhere, and a bake-off of
//! hundreds of trials: every command that reads them stays below 300 MB, and says what it leaves out.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod house;
mod lab;

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use archive::{Archive, JournalEvent, Step};
use house::House;
use lab::Lab;
use record::bakeoff::Trial;
use record::clock::WallAnchor;
use record::environment::Environment;
use record::histogram::{CensoredHistogram, Histogram};
use record::load::{LoadRecord, Operation};
use record::run::{Run, RunHeader, RunId, RunKind};
use record::series::Sample;

/// Most memory of a command, in KiB.
const PEAK_MAX_KIB: u64 = 300_000;
/// Rows that are written at a time.
const CHUNK: u32 = 10_000;

/// Stores a run with `rows` numbers over time.
fn stored(archive: &Archive, rows: u32, labels: impl Fn(u32) -> String) -> RunId {
    let begun = RunHeader::running(RunKind::Import, WallAnchor::now(), "long".into(), String::new());
    let writer = archive.begin(&begun).unwrap();
    let mut spool = writer.spool();
    let sample = |i: u32| Sample {
        t_ms: i64::from(i),
        host: "a host with a name of some length".into(),
        name: "tool_operations_per_s".into(),
        labels: labels(i).into(),
        value: f64::from(i),
    };
    for from in (0..rows).step_by(CHUNK as usize) {
        spool.add_samples((from..rows.min(from + CHUNK)).map(sample));
    }
    let run = Run::unmeasured(begun.ended(None), Environment::default());
    writer.seal_with(&run, &spool).unwrap();
    run.header.id
}

/// A lab with a run that is read, one of which each row has another label, and one with too many of them.
fn long_runs() -> (Lab, [RunId; 3]) {
    let lab = Lab::new();
    let archive = Archive::open(&lab.path("archive")).unwrap();
    let long = "a disk with a very long name, ".repeat(20);
    let ids = [
        stored(&archive, 300_000, |i| format!("device={long},cpu={}", i % 7)),
        stored(&archive, 100_000, |i| format!("request={i}")),
        stored(&archive, 300_000, |i| format!("device={long},request={i}")),
    ];
    (lab, ids)
}

/// Exit code, output, and peak memory in KiB of a command.
fn measured(mut command: Command, lab: &Lab) -> (i32, String, u64) {
    let said = lab.path("said");
    let out = File::create(&said).unwrap();
    command.stderr(out.try_clone().unwrap()).stdout(out).stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut peak = 0;
    let ended = loop {
        peak = peak.max(peak_kib(child.id()));
        if let Some(ended) = child.try_wait().unwrap() {
            break ended;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = String::from_utf8_lossy(&fs::read(&said).unwrap()).into_owned();
    (ended.code().unwrap(), text, peak)
}

/// Peak memory of a process so far; 0 of one that has ended.
fn peak_kib(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

#[test]
fn commands_on_long_runs_stay_below_300_mb_and_say_what_they_leave_out() {
    let (lab, [few, many, too_many]) = long_runs();
    let [few, many, too_many] = [few, many, too_many].map(|id| id.to_string());
    let page = lab.path("page.html").display().to_string();
    let left_out = "values of series beyond the first 2000";
    let unread = "2621440 values of a run";
    for (words, code, says) in [
        (&["runs", "show", &few][..], 0, "tool_operations_per_s"),
        (&["runs", "show", &many], 0, left_out),
        (&["runs", "show", &many, "--json"], 0, left_out),
        (&["runs", "show", &too_many], 0, unread),
        (&["runs", "show", &too_many, "--json"], 0, unread),
        (&["report", &few, "-o", &page], 0, ""),
        (&["report", &many, "-o", &page], 0, ""),
        (&["report", &too_many, "-o", &page], 0, ""),
        (&["runs", "export", &few, "--format", "json"], 0, "\"t_ms\":299999"),
        (&["runs", "export", &many, "--format", "csv"], 0, "request=99999"),
        (&["runs", "export", &few, "--format", "openmetrics"], 6, "at most 200000 values"),
        (&["runs", "export", &too_many, "--format", "csv"], 6, unread),
        (&["periods", &too_many], 6, unread),
        (&["runs", "verify", &too_many], 0, ""),
    ] {
        let (found, said, peak) = measured(lab.command(words), &lab);
        assert_eq!(found, code, "{words:?}: {said:.1000}");
        assert!(said.contains(says), "{words:?}: {said:.1000}");
        assert!(peak < PEAK_MAX_KIB, "{words:?}: {peak} KiB");
    }
    assert!(fs::read_to_string(page).unwrap().contains(unread), "the last page says it");
}

#[test]
fn serve_shows_long_runs_in_300_mb_and_refuses_an_export_that_would_lack_a_part() {
    let (lab, [few, many, too_many]) = long_runs();
    let house = House::open(&lab, &[]);
    for (path, status, says) in [
        (format!("/runs/{few}"), 200, "tool_operations_per_s"),
        (format!("/runs/{many}"), 200, "values of series beyond the first 2000"),
        (format!("/runs/{too_many}"), 200, "2621440 values of a run"),
        (format!("/api/v1/runs/{too_many}"), 200, "2621440 values of a run"),
        (format!("/api/v1/runs/{too_many}/export?format=csv"), 413, "too many numbers over time"),
        (format!("/api/v1/runs/{few}/export?format=openmetrics"), 413, "at most 200000 values"),
    ] {
        let reply = house.get(&path);
        assert_eq!(reply.status, status, "{path}: {:.1000}", reply.body);
        assert!(reply.body.contains(says), "{path}: {:.1000}", reply.body);
    }
    let peak_kib = peak_kib(house.pid());
    assert!((1..PEAK_MAX_KIB).contains(&peak_kib), "{peak_kib} KiB");
}

/// Asks for an export, reads the head of the answer, and leaves the rest.
fn stalled(house: &House, id: RunId) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(&house.address).unwrap();
    let path = format!("/api/v1/runs/{id}/export?format=csv");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", house.address).unwrap();
    let (mut reader, mut head) = (BufReader::new(stream), String::new());
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "{head}");
    }
    (reader, head)
}

/// Two clients take an export and do not read it, and others want pages and exports.
#[test]
fn serve_holds_one_long_run_however_many_clients_ask_and_cuts_off_those_that_do_not_read() {
    let lab = Lab::new();
    let archive = Archive::open(&lab.path("archive")).unwrap();
    let [long, other] =
        [1_250_000, 1_250_001].map(|rows| stored(&archive, rows, |i| format!("cpu={}", i % 64)));
    let house = House::open(&lab, &[]);
    let (mut slow, head) = stalled(&house, long);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    std::thread::scope(|scope| {
        let second = scope.spawn(|| stalled(&house, other));
        let page = scope.spawn(|| house.get(&format!("/runs/{long}")));
        let export = scope.spawn(|| house.get(&format!("/api/v1/runs/{other}/export?format=json")));
        let (_second, head) = second.join().unwrap();
        let answers =
            [head.split_whitespace().nth(1).unwrap().parse().unwrap(), export.join().unwrap().status];
        assert!(answers.iter().all(|status| [200, 429, 503].contains(status)), "{answers:?}");
        let page = page.join().unwrap();
        let peak_kib = peak_kib(house.pid());
        assert!((1..PEAK_MAX_KIB).contains(&peak_kib), "{peak_kib} KiB");
        assert_eq!(page.status, 200, "{:.1000}", page.body);
        for says in ["tool_operations_per_s", "1250000 values are too many to be drawn: points are means"] {
            assert!(page.body.contains(says), "{says}: {:.1000}", page.body);
        }
    });
    let mut rest = Vec::new();
    // The kernel may drop what was sent when the connection is closed.
    let _ = slow.read_to_end(&mut rest);
    assert!(!rest.ends_with(b"\r\n0\r\n\r\n"), "what was cut off does not look whole");
}

/// 20,000 values over a factor of 400.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 30 ms")]
fn wide() -> Histogram {
    let value = |i: u32| (50_000.0 * (6.0 * (f64::from(i) * 0.618_033_988_75).fract()).exp()) as u64;
    (0..20_000).map(|i| (value(i), 1)).collect()
}

/// Gives a load the distributions of one that lasted for minutes.
fn widen(load: &mut LoadRecord) {
    let (known, all) = (wide(), CensoredHistogram::from(wide()));
    (load.response, load.wait, load.service) = (Ok(all.clone()), Ok(all.clone()), all.clone());
    (load.lateness, load.server_part, load.connect) = (Ok(known.clone()), Ok(known.clone()), Ok(known));
    let operation = Operation { service: all, in_flight: 0, generator_made: Vec::new() };
    load.operations =
        ["begin", "select", "update", "commit"].map(|name| (name.to_owned(), operation.clone())).into();
}

/// Stores a bake-off of so many trials, which are copies of one that was measured.
fn long_bakeoff(lab: &Lab, trials: u32) -> RunId {
    let plan = lab.path("plan.toml");
    fs::write(&plan, house::PLAN).unwrap();
    let measured = lab.run(&["run", plan.to_str().unwrap(), "--beside-others", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&measured.out).expect(&measured.err);
    let archive = Archive::open(&lab.path("archive")).unwrap();
    let mut bakeoff = archive.bakeoff_whole(document["bakeoff"].as_str().unwrap().parse().unwrap()).unwrap();
    let mut run = bakeoff.attempts.iter().find_map(|attempt| attempt.run.clone()).unwrap();
    bakeoff.attempts.clear();
    bakeoff.header = RunHeader::running(RunKind::Bakeoff, WallAnchor::now(), "long".into(), String::new());
    let levels: Vec<_> = bakeoff.trials[..2].iter().map(|trial| trial.levels.clone()).collect();
    let trial = |index: u32| {
        let (block, position) = (index / 2 + 1, index % 2 + 1);
        Trial { index, block, series: block, position, levels: levels[position as usize - 1].clone() }
    };
    bakeoff.trials = (0..trials).map(trial).collect();
    bakeoff.blocks = trials / 2;
    archive.create_bakeoff(&bakeoff).unwrap();

    let now = WallAnchor::now();
    run.header =
        RunHeader { id: RunId::fresh(now), bakeoff: Some(bakeoff.header.id), ..run.header }.ended(None);
    widen(run.load.as_mut().unwrap());
    let first = archive.begin(&run.header).unwrap().seal(&run).unwrap();
    let mut journal = archive.journal(bakeoff.header.id).unwrap();
    for trial in 0..trials {
        let id = if trial == 0 { run.header.id } else { copy(&first, run.header.id) };
        let (at_unix_ns, at_monotonic_ns) = (now.unix_ns, now.monotonic_ns);
        let (series, attempt) = (Some(trial / 2 + 1), Some(1));
        let step = Step::TrialSealed { run: id };
        let sealed = JournalEvent { at_unix_ns, at_monotonic_ns, series, trial: Some(trial), attempt, step };
        journal.append(&sealed).unwrap();
    }
    journal.say(Step::BakeoffDone).unwrap();
    bakeoff.header.id
}

/// Stores a copy of a run under another id.
fn copy(first: &Path, old: RunId) -> RunId {
    let id = RunId::fresh(WallAnchor::now());
    let folder = first.with_file_name(id.to_string());
    fs::create_dir(&folder).unwrap();
    for entry in fs::read_dir(first).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let text = fs::read_to_string(first.join("manifest.json")).unwrap();
    let text = text.replace(&old.to_string(), &id.to_string());
    fs::write(folder.join("manifest.json"), &text).unwrap();
    let sum = archive::sha256(&mut text.as_bytes()).unwrap();
    fs::write(folder.join("manifest.sha256"), format!("{sum}  manifest.json\n")).unwrap();
    id
}

#[test]
fn a_bake_off_of_306_trials_is_shown_in_300_mb() {
    let lab = Lab::new();
    let id = long_bakeoff(&lab, 306).to_string();
    let page = lab.path("page.html");
    for words in [&["report", &id, "-o", page.to_str().unwrap()][..], &["runs", "show", &id, "--json"]] {
        let (code, said, peak) = measured(lab.command(words), &lab);
        assert_eq!(code, 0, "{words:?}: {said:.1000}");
        assert!(peak < PEAK_MAX_KIB, "{words:?}: {peak} KiB");
    }
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("306 of 306 trials valid"));
    let house = House::open(&lab, &[]);
    let shown = house.get(&format!("/runs/{id}"));
    assert_eq!(shown.status, 200, "{:.1000}", shown.body);
    assert!(shown.body.contains("306 of 306 trials valid"));
    let document = house.get(&format!("/api/v1/runs/{id}"));
    assert_eq!(document.status, 200, "{:.1000}", document.body);
    assert_eq!(document.json()["cells"]["sealed"], 306);
    let peak_kib = peak_kib(house.pid());
    assert!((1..PEAK_MAX_KIB).contains(&peak_kib), "{peak_kib} KiB");
}
