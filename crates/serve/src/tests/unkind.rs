//! Answers that were kinder than the truth.

use std::sync::Arc;
use std::time::Duration;

use archive::{Action, Archive, Note, QueueState};
use axum::body::Body;
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use record::clock::WallAnchor;
use record::run::{RunHeader, RunId, RunKind};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{Desk, JSON, PLAN, TOML};
use crate::app::Edit;
use crate::identity::{Identity, Role, SESSION_COOKIE};
use crate::printer::{Histories, HistoryWanted, PrintError, Printer};
use crate::render::Cache;
use crate::shown::Shown;

pub(super) fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"))
}

impl Desk {
    /// A run without numbers, in the list.
    pub(super) fn sealed(&self, title: &str) -> RunId {
        let begun = RunHeader::running(RunKind::Record, WallAnchor::now(), title.to_owned(), String::new());
        let writer = self.app.archive.begin(&begun).unwrap();
        let mut run = record::run::Run::unmeasured(begun, record::environment::Environment::default());
        run.header.state = record::run::RunState::Sealed;
        writer.seal(&run).unwrap();
        self.app.listing.refresh();
        run.header.id
    }

    /// A run in the archive that is not finished; its folder is enough for its note.
    pub(super) fn run(&self, title: &str) -> RunId {
        let header = RunHeader::running(RunKind::Load, WallAnchor::now(), title.to_owned(), "x".to_owned());
        std::fs::create_dir(self.app.archive.dir().join("runs").join(header.id.to_string())).unwrap();
        header.id
    }

    /// An entry that has ended so.
    fn ended(&self, code: Option<i32>) -> String {
        let id: RunId = self.submit()["id"].as_str().unwrap().parse().unwrap();
        let mut queue = self.app.queue().unwrap();
        queue.begin(id, RunId::fresh(WallAnchor::now())).unwrap();
        queue.end(id, QueueState::Done, None, code, None).unwrap();
        id.to_string()
    }

    /// Lines of the audit log.
    fn audit(&self) -> Vec<Value> {
        let log = std::fs::read_to_string(self.app.archive.dir().join("audit.jsonl")).unwrap_or_default();
        log.lines().map(read).collect()
    }
}

#[test]
fn a_name_that_is_unknown_or_repeated_is_refused() {
    let desk = Desk::new(false);
    for path in ["/runs", "/api/v1/runs", "/history", "/history/figures", "/api/v1/history", "/compare"] {
        for wrong in ["branch=main", "lable=a%3Db", "Kind=load"] {
            let (status, text) = desk.get(&format!("{path}?{wrong}"));
            assert!(status == 400 && text.contains("unknown"), "{path}?{wrong} {status} {text}");
        }
    }
    for path in ["/runs", "/api/v1/runs"] {
        assert_eq!(
            [desk.get(&format!("{path}?verdict=wrse")).0, desk.get(&format!("{path}?verdict=worse")).0],
            [400, 200]
        );
        let (status, text) = desk.get(&format!("{path}?kind=load&kind=bakeoff"));
        assert!(status == 400 && text.contains("once"), "{path} {status} {text}");
        assert_eq!(desk.get(&format!("{path}?label=a&label=b&tag=x&tag=y")).0, 200, "each must hold");
        // A moment is not a day: this one is of the 27th in UTC.
        assert_eq!(desk.get(&format!("{path}?since=2026-11-26T23:00:00-05:00")).0, 400);
    }
    assert_eq!(desk.get("/api/v1/history?metric=p99&metric=p50").0, 400);
    for path in ["/api/v1/queue?state=running", "/api/v1/hosts?limit=1", "/api/v1/events?run=x"] {
        assert_eq!(desk.get(path).0, 400, "{path}");
    }
}

#[test]
fn only_an_entry_whose_verdict_is_good_is_green() {
    let desk = Desk::new(true);
    for (code, word, tone) in [
        (Some(0), "done", "good"),
        (Some(1), "done, a gate failed", "bad"),
        (Some(3), "done, INVALID", "bad"),
        (Some(4), "done, inconclusive", "doubt"),
        (Some(5), "done, the server failed", "bad"),
        (Some(6), "done, no verdict", "doubt"),
        (None, "done, no verdict", "doubt"),
    ] {
        let id = desk.ended(code);
        let shown = format!("<span class=\"word {tone}\">{word}</span>");
        let page = desk.get(&format!("/queue/{id}")).1;
        assert!(page.contains(&shown), "{code:?} {page}");
        assert!(desk.get("/").1.contains(&shown), "{code:?}");
        assert_eq!(read(&desk.get(&format!("/api/v1/queue/{id}")).1)["outcome"], word, "{code:?}");
    }
}

#[test]
fn a_server_without_a_queue_does_not_say_that_the_queue_is_empty() {
    let desk = Desk::new(false);
    let page = desk.get("/").1;
    assert!(page.contains("not shown: this server is read-only") && !page.contains("is empty"), "{page}");
    let queue = read(&desk.get("/api/v1/queue").1);
    assert!(queue["entries"].is_null() && queue["not_listed"].is_null(), "{queue}");
    assert!(queue["missing"]["entries"].as_str().unwrap().contains("read-only"), "{queue}");
    let metrics = desk.get("/metrics").1;
    assert!(!metrics.contains("bakeoff_queue_entries"), "{metrics}");
    assert!(Desk::new(true).get("/metrics").1.contains("bakeoff_queue_entries{state=\"waiting\"} 0\n"));
}

#[test]
fn the_audit_log_has_the_outcome_of_each_change() {
    let desk = Desk::new(true);
    let body = json!({"plan": PLAN, "not_before": "2099-01-01T00:00:00Z"}).to_string();
    let (status, text) = desk.send("POST", "/api/v1/queue", JSON, &body);
    assert_eq!(status, 201, "{text}");
    let cancel = format!("/api/v1/queue/{}/cancel", read(&text)["id"].as_str().unwrap());
    assert_eq!(
        [desk.send("POST", &cancel, JSON, "{}").0, desk.send("POST", &cancel, JSON, "{}").0],
        [200, 409]
    );
    let run = desk.run("a");
    assert_eq!(desk.ask("DELETE", &format!("/api/v1/runs/{run}"), &[], "").0, 200);
    assert_eq!(desk.ask("DELETE", &format!("/api/v1/runs/{run}"), &[], "").0, 404);
    let lines = desk.audit();
    assert_eq!(lines[0]["what"]["not_before"], "2099-01-01T00:00:00Z", "{lines:?}");
    let told: Vec<(&str, &Value)> = lines
        .iter()
        .filter_map(|line| {
            Some((line["action"].as_str()?, lines.iter().find(|l| l["of"] == line["change"])?))
        })
        .collect();
    let outcomes: Vec<(&str, bool)> =
        told.iter().map(|(action, end)| (*action, end["outcome"] == "done")).collect();
    let expected =
        [("submit", true), ("cancel", true), ("cancel", false), ("remove", true), ("remove", false)];
    assert_eq!(outcomes, expected, "{lines:?}");
    let refused = told[2].1["outcome"].as_str().unwrap();
    assert!(refused.starts_with("refused: cannot cancel an entry that is cancelled"), "{refused}");
}

#[test]
fn the_bake_off_of_an_open_entry_is_not_removed() {
    let desk = Desk::new(true);
    let id: RunId = desk.submit()["id"].as_str().unwrap().parse().unwrap();
    let run = RunId::fresh(WallAnchor::now());
    std::fs::create_dir(desk.app.archive.bakeoff_dir(run)).unwrap();
    {
        let mut queue = desk.app.queue().unwrap();
        queue.begin(id, run).unwrap();
        queue.end(id, QueueState::Paused, None, Some(130), None).unwrap();
    }
    let (status, text) = desk.ask("DELETE", &format!("/api/v1/runs/{run}"), &[], "");
    assert!(status == 409 && text.contains("cancel"), "{status} {text}");
    assert_eq!(desk.form(&format!("/runs/{run}/delete"), &format!("confirm={}", run.short(6))), 409);
    desk.app.queue().unwrap().act(id, Action::Cancel).unwrap();
    assert_eq!(desk.ask("DELETE", &format!("/api/v1/runs/{run}"), &[], "").0, 200);
}

#[test]
fn a_note_that_another_user_has_changed_is_not_lost() {
    let desk = Desk::new(true);
    let run = desk.run("a");
    let path = format!("/api/v1/runs/{run}/note");
    let put = |body: Value| {
        let (status, text) = desk.send("PUT", &path, JSON, &body.to_string());
        (status, read(&text))
    };
    assert_eq!(put(json!({"tags": ["slow"], "note": "ann's"})).0, 200);
    // What is not named stays.
    let (status, stored) = put(json!({"note": "bob's"}));
    assert_eq!((status, &stored["tags"], &stored["note"]), (200, &json!(["slow"]), &json!("bob's")));
    assert_eq!(put(json!({"tags": []})).1["note"], "bob's");
    for wrong in [json!({"txt": "x"}), json!({"note": null}), json!({"tags": ["a b"]})] {
        assert_eq!(put(wrong.clone()).0, 400, "{wrong}");
    }
    // Two readers load the note, and both write.
    let loaded = put(json!({})).1["version"].as_str().unwrap_or("none").to_owned();
    let form =
        |text: &str| desk.form(&format!("/runs/{run}/note"), &format!("version={loaded}&tags=&note={text}"));
    assert_eq!([form("first"), form("second")], [303, 409]);
    assert_eq!(desk.app.archive.note(run).unwrap(), Note::new([], "first").unwrap());
    assert_eq!(put(json!({"note": "third", "version": loaded})).0, 409);
    assert_eq!(desk.app.archive.note(run).unwrap().text, "first");
}

#[test]
fn a_plan_shows_each_command_and_its_account_before_it_is_submitted() {
    let desk = Desk::new(true);
    let own = nix::unistd::User::from_uid(nix::unistd::geteuid()).unwrap().unwrap().name;
    let plan = PLAN
        .replace("target = \"null:\"", "target = \"exec:true\"")
        .replace("[phases]", "[phases]\nsetup = { run = \"touch {scratch}/x\" }")
        + "[values.file_bytes]\nrun = \"stat -c %s /etc/passwd {threads}\"\n[server]\ncommand = \"sleep 100\"\n\
           ready = \"test -e x\"\nuser = \"nobody\"\n";
    let (_, text) = desk.send("POST", "/api/v1/plans/check", TOML, &plan);
    let runs = read(&text)["runs"].to_string();
    for part in [
        "load, each event, as root: true",
        "setup, as nobody: touch ",
        "value file_bytes, as nobody: stat -c %s /etc/passwd 1",
        "value file_bytes, as nobody: stat -c %s /etc/passwd 2",
        "server, as nobody: sleep 100",
        "until it is ready, as nobody: test -e x",
    ] {
        assert!(runs.contains(&part.replace("root", &own)), "{part}: {text}");
    }
}

#[test]
fn a_character_that_reorders_text_is_written_out() {
    let desk = Desk::new(true);
    let plan = PLAN.replace("title = \"t\"", "title = \"abc\\u202Egpj.exe\"");
    let (status, text) = desk.send("POST", "/api/v1/queue", TOML, &plan);
    assert_eq!(status, 201, "{text}");
    let page = desk.get("/").1;
    assert!(page.contains("abc\\u{202e}gpj.exe") && !page.contains('\u{202e}'), "{page}");
    // A text that a reader edits stays as it is.
    let form = format!("csrf={}&do=check&plan=%E2%80%AEa%0D%0Ab", desk.app.access.csrf);
    let page = desk.send("POST", "/plans/new", super::FORM, &form).1;
    assert!(page.contains("\u{202e}a\r\nb</textarea>") || page.contains("\u{202e}a\nb</textarea>"), "{page}");
}

#[test]
fn too_few_ticks_lead_back_to_the_list() {
    let (status, page) = Desk::new(false).get("/compare?runs=01ARZ3NDEKTSV4RRFFQ69G5FAV");
    assert!(status == 400 && page.contains("<h1>Compare</h1>") && page.contains("href=\"/runs\""), "{page}");
    assert!(page.contains("Tick 2 to 8 runs"), "{page}");
}

#[test]
fn a_list_says_how_old_it_is() {
    let desk = Desk::new(false);
    assert!(!desk.get("/runs").1.contains("as of"), "it is of this moment");
    desk.app.listing.age_by(40);
    assert!(desk.get("/runs").1.contains("as of 40 s ago"), "{}", desk.get("/runs").1);
    assert!(read(&desk.get("/api/v1/runs").1)["age_s"].as_u64().unwrap() >= 40);
}

#[test]
fn an_export_is_whole_or_says_why_not() {
    let desk = Desk::new(false);
    let mut run = record::run::Run::unmeasured(
        RunHeader::running(RunKind::Load, WallAnchor::now(), "x".to_owned(), "x".to_owned()),
        record::environment::Environment::default(),
    );
    let writer = desk.app.archive.begin(&run.header).unwrap();
    run.header.state = record::run::RunState::Sealed;
    writer.seal(&run).unwrap();
    let path = format!("/api/v1/runs/{}/export", run.header.id);
    let of = |format: &str| desk.get(&format!("{path}?format={format}"));
    assert_eq!([of("csv").0, of("parquet").0, of("openmetrics").0], [422; 3], "a table without a row");
    let (status, text) = of("json");
    let mut own = Vec::new();
    desk.app.archive.export(run.header.id, archive::Format::Json, &mut own).unwrap();
    assert!(status == 200 && text.as_bytes() == own, "{status} {text}");
    // Others may export at the same time, but not without limit.
    let places = [(); 2].map(|()| desk.app.exports.clone().try_acquire_owned().unwrap());
    assert_eq!(of("json").0, 429);
    drop(places);
    // A run that memory may not hold is refused before it is read.
    let large = desk.run("large");
    let file = desk.app.archive.dir().join("runs").join(large.to_string()).join("hist.parquet");
    std::fs::File::create(file).unwrap().set_len(33 << 20).unwrap();
    let (status, text) = desk.get(&format!("/api/v1/runs/{large}/export"));
    assert!(status == 413 && text.contains("bakeoff runs export"), "{status} {text}");
    assert_eq!(of("json").0, 200, "each place was given back");
}

/// A printer of pages of 100 kB.
#[derive(Debug)]
struct Long;

impl Printer for Long {
    fn page(&self, _: &Archive, _: RunId) -> Result<String, PrintError> {
        Ok("x".repeat(100_000))
    }
    fn document(&self, _: &Archive, _: RunId) -> Result<Value, PrintError> {
        unreachable!("only pages are asked for")
    }
    fn compare(&self, _: &Archive, _: &[RunId]) -> Result<Value, PrintError> {
        unreachable!("only pages are asked for")
    }
    fn history(&self, _: &Archive, _: &HistoryWanted) -> Result<Histories, PrintError> {
        unreachable!("only pages are asked for")
    }
}

#[test]
fn long_messages_are_refused_while_those_of_others_take_the_memory() {
    let desk = Desk::with(true, None, |app| app.pages = Cache::new(Arc::new(Long)));
    let page = format!("/runs/{}", desk.run("x"));
    let plan = format!("# {}\n{PLAN}", "x".repeat(100_000));
    let ask = || [desk.get(&page).0, desk.send("POST", "/api/v1/queue", TOML, &plan).0];
    let others = desk.app.messages.permit(usize::MAX).unwrap();
    assert_eq!(ask(), [503, 503]);
    assert_eq!(desk.get("/api/v1/queue").0, 200, "a short one passes");
    drop(others);
    assert_eq!(ask(), [200, 201]);
    assert_eq!(desk.get(&page).1.len(), 100_000, "it is whole");
}

#[test]
fn a_plan_is_used_again_from_its_entry() {
    let desk = Desk::new(true);
    let id = desk.submit()["id"].as_str().unwrap().to_owned();
    let place = format!("/plans/new?entry={id}");
    assert!(desk.get(&format!("/queue/{id}")).1.contains(&place));
    let page = desk.get(&place).1;
    assert!(page.contains("title = &#34;t&#34;") && page.contains("blocks = 6"), "{page}");
    let none = RunId::fresh(WallAnchor::now());
    assert_eq!(
        [desk.get(&format!("/plans/new?entry={none}")).0, desk.get("/plans/new?plan=x").0],
        [404, 400]
    );
    assert_eq!(Desk::new(false).get(&place).0, 403, "this server has no queue");
}

#[test]
fn the_output_of_a_process_is_in_no_reason_that_a_reader_sees() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read ann 0123456789012345678901\nrun bob 9876543210987654321098\n")
        .unwrap();
    let desk = Desk::with(true, Some(tokens.path()), |_| ());
    let reader = [("Authorization", "Bearer 0123456789012345678901")];
    let runner = [("Authorization", "Bearer 9876543210987654321098"), ("Content-Type", TOML)];
    let (status, text) = desk.ask("POST", "/api/v1/queue", &runner, PLAN);
    assert_eq!(status, 201, "{text}");
    let id: RunId = read(&text)["id"].as_str().unwrap().parse().unwrap();
    {
        let mut queue = desk.app.queue().unwrap();
        queue.begin(id, RunId::fresh(WallAnchor::now())).unwrap();
        queue.end(id, QueueState::Failed, None, Some(5), Some("cannot read /home/bob/key")).unwrap();
    }
    let shown = Shown::new(desk.app.monitor.look());
    let pages = |headers: &[(&str, &str)], may_run: bool| {
        let paths = [
            format!("/api/v1/queue/{id}"),
            "/api/v1/queue".to_owned(),
            "/".to_owned(),
            format!("/queue/{id}"),
        ];
        let mut all: Vec<String> = paths.iter().map(|path| desk.ask("GET", path, headers, "").1).collect();
        all.extend([shown.document(may_run), shown.html(may_run, "")]);
        all
    };
    for text in pages(&reader, false) {
        assert!(!text.contains("/home/bob") && text.contains("its process ended with code 5"), "{text}");
    }
    for text in pages(&runner, true) {
        assert!(text.contains("cannot read /home/bob/key"), "{text}");
    }
    assert_eq!(desk.ask("GET", &format!("/api/v1/queue/{id}/output"), &reader, "").0, 403);
    // A reason that is not from an output is for all.
    let killed = Some("its process was killed three times");
    let entry = archive::Entry {
        exit_code: None,
        reason: killed.map(str::to_owned),
        ..desk.app.queue().unwrap().entry(id).unwrap()
    };
    assert_eq!(crate::reasons::of_entry(&entry, false).as_deref(), killed);
}

#[test]
fn a_form_that_is_sent_twice_queues_its_plan_once() {
    let desk = Desk::new(true);
    let id_in = |page: &str| {
        let value = page.split("name=\"id\" value=\"").nth(1).unwrap_or_else(|| panic!("no id: {page}"));
        value.split('"').next().unwrap().to_owned()
    };
    let id = id_in(&desk.get("/plans/new").1);
    let send = |id: &str, plan: &str| {
        let plan = plan.bytes().fold(String::new(), |text, byte| text + &format!("%{byte:02X}"));
        let form = format!("csrf={}&do=submit&id={id}&plan={plan}", desk.app.access.csrf);
        desk.send("POST", "/plans/new", super::FORM, &form)
    };
    let entries = || -> Vec<String> {
        let listed = desk.app.queue().unwrap().entries(9).unwrap();
        listed.into_iter().map(|entry| entry.id.to_string()).collect()
    };
    // A double click, or a retry after the answer was lost.
    assert_eq!([send(&id, PLAN).0, send(&id, PLAN).0], [303, 303]);
    assert_eq!(entries(), std::slice::from_ref(&id));
    // The reader goes back and changes the text: that is another plan, under another id.
    let (status, page) = send(&id, &PLAN.replace("blocks = 6", "blocks = 8"));
    assert!(status == 409 && page.contains("blocks = 8"), "{status} {page}");
    assert_eq!(entries().len(), 1);
    assert_ne!(id_in(&page), id);
    assert_eq!(send(&id_in(&page), &PLAN.replace("blocks = 6", "blocks = 8")).0, 303);
    assert_eq!(entries().len(), 2);
    // A form of an older server has no id.
    assert_eq!([send("", PLAN).0, send("../x", PLAN).0], [303, 422]);
    assert_eq!(entries().len(), 3);
}

#[test]
fn a_tag_is_stored_without_a_reading_of_the_archive() {
    let desk = Desk::new(true);
    let long = "x".repeat(20_000);
    let ids: Vec<RunId> = (0..20)
        .map(|n| {
            let title = format!("{n} {long}");
            let begun = RunHeader::running(RunKind::Record, WallAnchor::now(), title, String::new());
            let writer = desk.app.archive.begin(&begun).unwrap();
            let mut run = record::run::Run::unmeasured(begun, record::environment::Environment::default());
            run.header.state = record::run::RunState::Sealed;
            writer.seal(&run).unwrap();
            run.header.id
        })
        .collect();
    desk.app.listing.refresh();
    let read_bytes = || {
        let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        counts.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok())
    };
    let Some(before) = read_bytes() else {
        println!("skipped: this kernel does not count what a thread reads");
        return;
    };
    let who = Identity { role: Role::Run, name: "ann".to_owned() };
    let edit = Edit { tags: Some(vec!["slow".to_owned()]), ..Edit::default() };
    desk.app.edit_note(ids[7], edit, &who, "here").unwrap();
    let read = read_bytes().unwrap() - before;
    assert!(read < 100_000, "{read} bytes of an archive of {}", 20 * long.len());
    assert_eq!(read_json(&desk, "tag=slow")["found"], 1, "it shows at once");
    desk.app.remove(ids[7], &who, "here").unwrap();
    assert_eq!(read_json(&desk, "")["found"], 19, "a removed run is gone at once");
}

fn read_json(desk: &Desk, query: &str) -> Value {
    read(&desk.get(&format!("/api/v1/runs?{query}")).1)
}

#[test]
fn a_stream_ends_with_the_session_of_its_reader() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read ann 0123456789012345678901\n").unwrap();
    let desk = Desk::with(true, Some(tokens.path()), |_| ());
    let session = desk.app.access.log_in("0123456789012345678901").unwrap();
    let cookie = format!("{SESSION_COOKIE}={session}");
    let headers: HeaderMap = [(COOKIE, cookie.parse().unwrap())].into_iter().collect();
    let next = async |body: &mut Body| {
        desk.app.now.send_replace(Arc::default());
        timeout(Duration::from_secs(2), body.frame()).await.map(|frame| frame.is_some())
    };
    desk.runtime.block_on(async {
        let mut bodies = Vec::new();
        for path in ["/events", "/api/v1/events"] {
            let request = Request::get(path).header(COOKIE, &cookie).extension(desk.peer.clone());
            let router = TowerToHyperService::new(crate::server::router(&desk.app));
            bodies.push(router.call(request.body(Body::empty()).unwrap()).await.unwrap().into_body());
        }
        for body in &mut bodies {
            assert_eq!(next(body).await, Ok(true), "the session is open");
        }
        desk.app.access.log_out(&headers);
        for body in &mut bodies {
            assert_eq!(next(body).await, Ok(false), "the session is over");
        }
    });
}

#[test]
fn a_run_is_not_held_against_itself() {
    let desk = Desk::new(false);
    let run = desk.run("a").to_string();
    for names in [format!("{run},{run}"), format!("{run},{}", run.to_lowercase())] {
        for path in ["/compare", "/api/v1/compare"] {
            let (status, text) = desk.get(&format!("{path}?runs={names}"));
            assert!(status == 400 && text.contains("named twice"), "{path} {names} {status} {text}");
        }
    }
}
