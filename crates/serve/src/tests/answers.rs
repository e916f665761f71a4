//! Answers that said too little, or too much.

use std::sync::Arc;

use archive::QueueState::{Cancelled, Failed, Paused};
use archive::{Archive, Note, QueueError};
use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunKind};
use serde_json::{Value, json};

use super::schemas::misfit;
use super::unkind::read;
use super::{Desk, JSON, TOML, described};
use crate::answer::{Format, refused};
use crate::followed::Point;
use crate::instruments::Busy;
use crate::monitor::{Now, Running, With};
use crate::shown::Shown;

#[test]
fn a_name_of_several_runs_is_ambiguous_and_not_unknown() {
    let desk = Desk::new(true);
    let ids = [desk.sealed("a"), desk.sealed("b")];
    // Both begin with the time.
    let name = ids[0].to_string()[..4].to_owned();
    let paths = ["runs/ID", "runs/ID/note", "runs/ID/export", "compare?runs=ID,x"];
    for path in paths.map(|path| format!("/api/v1/{path}")) {
        let (status, text) = desk.get(&path.replace("ID", &name));
        let has_both = ids.iter().all(|id| text.contains(&id.to_string()));
        assert!(status == 409 && text.contains("matches 2 runs") && has_both, "{path} {status} {text}");
    }
    assert_eq!(desk.send("PUT", &format!("/api/v1/runs/{name}/note"), JSON, "{}").0, 409);
    assert_eq!(desk.get(&format!("/runs/{name}")).0, 409);
    assert_eq!(desk.get("/api/v1/runs/0000").0, 404);
}

#[test]
fn a_list_of_runs_has_their_tags_and_whether_they_have_a_note() {
    let desk = Desk::new(false);
    let (tagged, noted) = (desk.sealed("a"), desk.sealed("b"));
    let note = |id: RunId, tags: &[&str], text: &str| {
        let note = Note::new(tags.iter().map(|tag| (*tag).to_owned()), text).unwrap();
        desk.app.archive.set_note(id, &note).unwrap();
        desk.app.listing.change(id, Some(note));
    };
    note(tagged, &["slow", "fast"], "");
    note(noted, &[], "why?");
    let listed = read(&desk.get("/api/v1/runs").1);
    let of = |id: RunId| {
        let runs = listed["runs"].as_array().unwrap();
        let run = runs.iter().find(|run| run["run"] == id.to_string()).unwrap();
        (run["tags"].clone(), run["has_note"].clone())
    };
    assert_eq!([of(tagged), of(noted)], [(json!(["fast", "slow"]), json!(false)), (json!([]), json!(true))]);
}

#[test]
fn no_error_shows_a_path_to_a_reader() {
    let path = "/home/bob/archive/queue.sqlite";
    let stopped = |trouble: &str| Now { trouble: Some(trouble.to_owned()), ..Now::default() };
    let shown = Shown::new(stopped(&format!("cannot use the queue {path}")));
    for text in [shown.document(false), shown.html(false, "")] {
        assert!(!text.contains(path) && text.contains("cannot be read or written"), "{text}");
    }
    for text in [shown.document(true), shown.html(true, "")] {
        assert!(text.contains(path), "the role run sees it: {text}");
    }
    let unheard = stopped(crate::reasons::UNHEARD).document(false, With::Present);
    assert_eq!(unheard["trouble"], crate::reasons::UNHEARD, "it has no path");
    // A queue that is damaged.
    let folder = tempfile::tempdir().unwrap();
    let archive = Archive::open(folder.path()).unwrap();
    std::fs::write(folder.path().join("queue.sqlite"), "no database").unwrap();
    let why = archive.queue().unwrap_err();
    assert!(matches!(why, QueueError::Database { .. }), "{why}");
    let desk = Desk::new(false);
    for format in [Format::Document, Format::Page] {
        let answer = desk.runtime.block_on(async {
            let why = crate::app::ChangeError::Queue(archive.queue().unwrap_err());
            axum::body::to_bytes(refused(format, &why).into_body(), usize::MAX).await.unwrap()
        });
        let text = String::from_utf8(answer.to_vec()).unwrap();
        let folder = folder.path().to_str().unwrap();
        assert!(!text.contains(folder) && text.contains("the queue cannot be read"), "{text}");
    }
}

#[test]
fn a_reader_of_an_entry_sees_a_fixed_reason() {
    let desk = Desk::new(true);
    let id: RunId = desk.submit()["id"].as_str().unwrap().parse().unwrap();
    let entry = desk.app.queue().unwrap().entry(id).unwrap();
    let seen = |state, exit_code, reason: &str| {
        let reason = Some(reason.to_owned());
        let entry = archive::Entry { state, exit_code, reason, ..entry.clone() };
        crate::view::entry_document(&entry, crate::view::Expected::default(), false)["reason"].clone()
    };
    let unread = "its bake-off cannot be read: cannot read /home/bob/archive/bakeoffs/x/order.json: denied";
    for (state, code) in [(Failed, None), (Failed, Some(6)), (Cancelled, None), (Paused, Some(130))] {
        assert_eq!(seen(state, code, unread), "its bake-off cannot be read", "{state:?}");
    }
    let stopped = "its process was stopped by a signal, or by the plan's time budget";
    assert_eq!(seen(Paused, Some(130), stopped), stopped);
    assert_eq!(seen(Failed, None, "cannot open /home/bob"), "the role `run` sees the reason");
}

/// A state in which a load runs, beside an instrument.
fn busy() -> Now {
    let interval = |backlog: u64| {
        json!({"offered_per_s": 20.0, "achieved_per_s": 19.0, "backlog": backlog,
               "latency_ns": {"p99": 7_000, "lower_bounds": ["p99"]}, "lateness_ns": {"p99": null}})
    };
    let running = Running {
        header: RunHeader::running(RunKind::Load, WallAnchor::now(), "t".to_owned(), String::new()),
        standing: None,
        points: [interval(1), Value::Null, interval(2)].iter().map(Point::of).collect(),
        notes: vec!["a note".to_owned()],
        step: "measure".to_owned(),
        log: Some("ready on /run/x.sock".into()),
        expected_end_unix_ns: None,
        interval: Some(Arc::new(interval(2))),
        age_s: None,
    };
    let cpu = |event_ratio| Busy { cpu: 3, event_ratio: Some(event_ratio), procstat_ratio: None };
    let mut now = Now { running: vec![running], ..Now::default() };
    now.machine.latest.insert("cpu", Ok(Arc::new(json!({"interval_s": 1.0}))));
    now.machine.latest.insert("io", Err("no rights".to_owned()));
    now.machine.strips = vec![Arc::new(vec![cpu(0.5)]), Arc::default(), Arc::new(vec![cpu(0.25)])];
    now
}

#[test]
fn the_document_of_the_moment_has_what_the_page_draws() {
    let now = busy();
    let past = now.document(true, With::Past);
    let run = &past["running"][0];
    assert_eq!(run["recent"]["done_per_s"], json!([19.0, null, 19.0]), "{run}");
    assert_eq!(run["recent"]["backlog"], json!([1.0, null, 2.0]));
    assert_eq!(run["recent"]["latency_p99_ns"], json!([7_000.0, null, 7_000.0]));
    assert_eq!(run["recent"]["latency_p99_bound"], json!(["lower", null, "lower"]));
    assert_eq!(run["log"], "ready on /run/x.sock");
    let cpus =
        json!([{"cpu": 3, "event_ratio": [0.5, null, 0.25], "procstat_busy_ratio": [null, null, null]}]);
    assert_eq!(past["instruments"]["cpus_recent"], cpus, "{past}");
    // A reader has the same without the log, and a stream has the present.
    let readers = now.document(false, With::Past);
    let run = &readers["running"][0];
    assert!(run["log"].is_null() && run["missing"]["log"].is_string(), "{run}");
    assert_eq!(run["recent"], past["running"][0]["recent"]);
    let present = now.document(true, With::Present);
    assert!(present["running"][0].get("recent").is_none() && present["running"][0].get("log").is_none());
    let described = described();
    let schema = &described["components"]["schemas"]["Now"];
    for document in [past, readers, present] {
        assert_eq!(misfit(&described, schema, &document), None, "{document}");
    }
}

#[test]
fn the_state_of_this_moment_is_asked_for_as_any_document() {
    let desk = Desk::new(true);
    desk.submit();
    let now = read(&desk.get("/api/v1/now").1);
    assert_eq!((&now["running"], now["entries"].as_array().unwrap().len()), (&json!([]), 1), "{now}");
    assert_eq!(desk.get("/api/v1/now?run=x").0, 400);
    // A sound plan and one with a fault both fit the schema of a check.
    for (plan, is_sound) in [(super::PLAN, true), ("schema = 2", false)] {
        let (status, text) = desk.send("POST", "/api/v1/plans/check", TOML, plan);
        let checked: Value = read(&text);
        assert_eq!((status, checked["problems"] == json!([])), (200, is_sound), "{text}");
    }
}
