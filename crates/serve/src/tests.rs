//! Requests to the whole server without a connection. Each answer of the API must be in `openapi.json`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use archive::Archive;
use axum::body::Body;
use axum::extract::Request;
use http_body_util::BodyExt as _;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use record::clock::WallAnchor;
use record::run::{RunId, RunKind, RunState};
use serde_json::{Value, json};

use crate::app::App;
use crate::identity::{Access, Peer};
use crate::monitor::Now;
use crate::pages::alone;
use crate::printer::{Histories, HistoryWanted, PrintError, Printer};
use crate::settings::Settings;

mod answers;
mod attacks;
mod schemas;
mod unkind;

const PLAN: &str = "schema = 1\ntitle = \"t\"\n[factors.threads]\nvalues = [1, 2]\nlevel = \"sub-plot\"\n\
                    [design]\nblocks = 6\n[load]\ntarget = \"null:\"\nthreads = \"{threads}\"\n[phases]\n\
                    measure = { time = \"1s\" }\n";
const JSON: &str = "application/json";
const TOML: &str = "application/toml";
const FORM: &str = "application/x-www-form-urlencoded";

/// A printer for runs that nothing can print.
#[derive(Debug)]
struct Unfit;

impl Printer for Unfit {
    fn page(&self, _: &Archive, _: RunId) -> Result<String, PrintError> {
        Err(unfit())
    }
    fn document(&self, archive: &Archive, id: RunId) -> Result<Value, PrintError> {
        archive.header(id)?;
        Err(unfit())
    }
    fn compare(&self, _: &Archive, _: &[RunId]) -> Result<Value, PrintError> {
        Err(unfit())
    }
    fn history(&self, _: &Archive, _: &HistoryWanted) -> Result<Histories, PrintError> {
        Err(unfit())
    }
}

/// A printer of empty documents.
#[derive(Debug)]
pub(crate) struct Empty;

impl Printer for Empty {
    fn page(&self, _: &Archive, _: RunId) -> Result<String, PrintError> {
        Ok(String::new())
    }
    fn document(&self, _: &Archive, _: RunId) -> Result<Value, PrintError> {
        Ok(json!({}))
    }
    fn compare(&self, _: &Archive, _: &[RunId]) -> Result<Value, PrintError> {
        Ok(json!({}))
    }
    fn history(&self, _: &Archive, _: &HistoryWanted) -> Result<Histories, PrintError> {
        Err(unfit())
    }
}

fn unfit() -> PrintError {
    PrintError::Unfit { why: "they measured different things".to_owned() }
}

/// A server without a listener.
struct Desk {
    _folder: tempfile::TempDir,
    app: Arc<App>,
    runtime: tokio::runtime::Runtime,
    peer: Peer,
}

impl Desk {
    fn new(queue: bool) -> Self {
        Self::with(queue, None, |_| ())
    }

    fn with(queue: bool, tokens: Option<&Path>, change: impl FnOnce(&mut App)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let of_queue = queue.then(|| Arc::new(std::sync::Mutex::new(archive.queue().unwrap())));
        let settings = Settings {
            archive,
            listen: "127.0.0.1:0".parse().unwrap(),
            queue,
            tls: None,
            token_file: None,
            client_ca: None,
            names: Vec::new(),
            program: "/nonexistent".into(),
            printer: Arc::new(Unfit),
            instruments: Vec::new(),
            confine: None,
            webhook: None,
        };
        let access = Access::new(tokens, false, queue).unwrap();
        let mut app = App::new(&settings, of_queue, access, Arc::default(), Arc::default()).unwrap();
        change(&mut app);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let peer = Peer::Tcp { address: "127.0.0.1:9".parse().unwrap(), uid: Some(0), certificate: None };
        Self { _folder: folder, app: Arc::new(app), runtime, peer }
    }

    /// Status and text of an answer; one of the API must be described, and fit its schema.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path).extension(self.peer.clone());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let router = TowerToHyperService::new(crate::server::router(&self.app));
        let (status, content_type, bytes) = self.runtime.block_on(async {
            let answer = router.call(request).await.unwrap();
            let status = answer.status().as_u16();
            let content_type = answer.headers().get("content-type").unwrap().to_str().unwrap().to_owned();
            // A stream has no end.
            let is_stream = status == 200 && path.ends_with("/events");
            let bytes = if is_stream {
                axum::body::Bytes::default()
            } else {
                answer.into_body().collect().await.unwrap().to_bytes()
            };
            (status, content_type, bytes)
        });
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        assert_described(method, path, status, (&content_type, &text));
        (status, text)
    }

    fn get(&self, path: &str) -> (u16, String) {
        self.ask("GET", path, &[], "")
    }

    fn send(&self, method: &str, path: &str, of_type: &str, body: &str) -> (u16, String) {
        self.ask(method, path, &[("Content-Type", of_type)], body)
    }

    fn form(&self, path: &str, body: &str) -> u16 {
        self.send("POST", path, FORM, &format!("csrf={}&{body}", self.app.access.csrf)).0
    }

    fn submit(&self) -> Value {
        let (status, text) = self.send("POST", "/api/v1/queue", TOML, PLAN);
        assert_eq!(status, 201, "{text}");
        serde_json::from_str(&text).unwrap()
    }
}

fn described() -> Value {
    serde_json::from_str(include_str!("../assets/openapi.json")).unwrap()
}

/// Checks that `openapi.json` has the status of an answer and the type of its body, and that a document fits
/// its schema.
fn assert_described(method: &str, path: &str, status: u16, (content_type, body): (&str, &str)) {
    let path = path.split('?').next().unwrap();
    if !path.starts_with("/api/") && !matches!(path, "/metrics" | "/healthz") {
        return;
    }
    let document = described();
    let is_named = |known: &str| {
        let (known, asked): (Vec<&str>, Vec<&str>) = (known.split('/').collect(), path.split('/').collect());
        known.len() == asked.len() && known.iter().zip(asked).all(|(k, a)| k.starts_with('{') || *k == a)
    };
    // A path without a parameter comes first.
    let paths = document["paths"].as_object().unwrap();
    let known = paths.keys().filter(|known| is_named(known)).min_by_key(|known| known.matches('{').count());
    let known = known.unwrap_or_else(|| panic!("{path} is not described"));
    let answers = &paths[known][method.to_lowercase()]["responses"];
    let answer = &answers[status.to_string()];
    assert!(answer.is_object(), "{method} {known} does not list {status}: {answers}");
    let answer = answer.get("$ref").map_or(answer, |place| schemas::resolved(&document, place));
    let content_type = content_type.split(';').next().unwrap();
    let schema = &answer["content"][content_type]["schema"];
    assert!(schema.is_object(), "{method} {known} {status} has no schema of {content_type}");
    if content_type == JSON {
        let value = serde_json::from_str(body).unwrap();
        let why = schemas::misfit(&document, schema, &value);
        assert_eq!(why, None, "{method} {known} {status}: {body}");
    }
}

#[test]
fn one_page_is_rendered_at_a_time_even_if_its_reader_leaves() {
    let desk = Desk::new(false);
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let page = || {
        let (busy, most) = (busy.clone(), most.clone());
        move |_: &App| {
            most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(200));
            busy.fetch_sub(1, Ordering::SeqCst);
        }
    };
    desk.runtime.block_on(async {
        let left = tokio::time::timeout(Duration::from_millis(50), alone(&desk.app, page())).await;
        assert!(left.is_err(), "the reader leaves before the page is rendered");
        alone(&desk.app, page()).await;
    });
    assert_eq!((most.load(Ordering::SeqCst), busy.load(Ordering::SeqCst)), (1, 0));
}

#[test]
fn a_filter_that_is_not_understood_is_refused() {
    let desk = Desk::new(false);
    for wrong in ["kind=lod", "state=seald", "since=soon", "until=2026-11", "since=2026-13-01"] {
        for path in ["/runs", "/api/v1/runs"] {
            let (status, text) = desk.get(&format!("{path}?{wrong}"));
            assert_eq!(status, 400, "{path}?{wrong} {text}");
        }
    }
    for wrong in ["from=-1", "limit=all", "limit=-1", "limit=1001"] {
        assert_eq!(desk.get(&format!("/api/v1/runs?{wrong}")).0, 400, "{wrong}");
    }
    assert_eq!(desk.get("/api/v1/runs?limit=1000").0, 200);
    for right in
        ["", "kind=&state=&since=&until=", "kind=load&state=sealed&since=2026-11-25&until=2026-11-25"]
    {
        for path in ["/runs", "/api/v1/runs"] {
            assert_eq!(desk.get(&format!("{path}?{right}")).0, 200, "{path}?{right}");
        }
    }
}

#[test]
fn a_priority_out_of_bounds_changes_nothing() {
    let desk = Desk::new(true);
    let id = desk.submit()["id"].as_str().unwrap().to_owned();
    for wrong in ["101", "-101", "2147483648", "-2147483648", "high", ""] {
        assert_eq!(
            desk.form(&format!("/queue/{id}/prioritize"), &format!("priority={wrong}")),
            422,
            "{wrong}"
        );
    }
    let api = format!("/api/v1/queue/{id}/prioritize");
    for wrong in [101, i64::from(i32::MIN)] {
        let body = json!({"plan": PLAN, "priority": wrong}).to_string();
        assert_eq!(desk.send("POST", "/api/v1/queue", JSON, &body).0, 422, "{wrong}");
        assert_eq!(desk.send("POST", &api, JSON, &json!({"priority": wrong}).to_string()).0, 400, "{wrong}");
    }
    assert!(desk.get(&format!("/api/v1/queue/{id}")).1.contains("\"priority\":0"));
    assert_eq!(desk.form(&format!("/queue/{id}/prioritize"), "priority=-100"), 303);
    assert!(desk.get(&format!("/api/v1/queue/{id}")).1.contains("\"priority\":-100"));
}

#[test]
fn each_status_of_the_api_is_described() {
    let desk = Desk::new(true);
    let entry = desk.submit()["id"].as_str().unwrap().to_owned();
    desk.submit();
    let none = RunId::fresh(WallAnchor::now()).to_string();
    let statuses = [
        desk.send("POST", "/api/v1/queue", "text/plain", PLAN).0,
        desk.send("POST", "/api/v1/queue", JSON, "{").0,
        desk.send("POST", "/api/v1/queue", TOML, "schema = 2").0,
        desk.send("POST", "/api/v1/queue", TOML, &"#".repeat(2 << 20)).0,
        desk.get(&format!("/api/v1/queue/{none}")).0,
        desk.get("/api/v1/queue/01").0,
        desk.get("/api/v1/queue/01/plan").0,
        desk.get("/api/v1/queue/01/output").0,
        desk.get(&format!("/api/v1/queue/{entry}/plan")).0,
        desk.get(&format!("/api/v1/queue/{entry}/output")).0,
        desk.send("POST", &format!("/api/v1/queue/{entry}/pause"), TOML, "").0,
        desk.send("POST", &format!("/api/v1/queue/{entry}/stop"), JSON, "{}").0,
        desk.send("POST", &format!("/api/v1/queue/{entry}/resume"), JSON, "{}").0,
        desk.send("POST", &format!("/api/v1/queue/{entry}/pause"), JSON, "{}").0,
        desk.send("POST", "/api/v1/plans/check", "text/plain", PLAN).0,
        desk.send("POST", "/api/v1/plans/check", JSON, "[]").0,
        desk.send("POST", "/api/v1/plans/check", TOML, PLAN).0,
    ];
    assert_eq!(
        statuses,
        [415, 400, 422, 413, 404, 409, 409, 409, 200, 200, 415, 400, 409, 200, 415, 400, 200]
    );
    let note = format!("/api/v1/runs/{none}/note");
    let statuses = [
        desk.get(&format!("/api/v1/runs/{none}")).0,
        desk.get(&note).0,
        desk.send("PUT", &note, TOML, "{}").0,
        desk.send("PUT", &note, JSON, "[]").0,
        desk.send("PUT", &note, JSON, "{}").0,
        desk.ask("DELETE", "/api/v1/runs/latest", &[], "").0,
        desk.ask("DELETE", &format!("/api/v1/runs/{none}"), &[], "").0,
        desk.get(&format!("/api/v1/runs/{none}/export")).0,
        desk.get(&format!("/api/v1/runs/{none}/export?format=xml")).0,
        desk.get(&format!("/api/v1/runs/{none}/export?from=1")).0,
        desk.get("/api/v1/compare").0,
        desk.get(&format!("/api/v1/compare?runs={none},{entry}")).0,
        desk.get("/api/v1/history").0,
        desk.get("/api/v1/hosts").0,
        desk.get("/api/v1/runs?kind=x").0,
        desk.get("/api/v1/events").0,
    ];
    assert_eq!(statuses, [404, 404, 415, 400, 404, 400, 404, 404, 400, 400, 400, 404, 422, 200, 400, 200]);
}

/// Every operation of the API, as requests that need no body.
fn operations() -> Vec<(String, String)> {
    let document = described();
    let of = |(path, methods): (&String, &Value)| {
        let path = path.replace("{id}", "01").replace("{action}", "pause");
        methods.as_object().unwrap().keys().map(|m| (m.to_uppercase(), path.clone())).collect::<Vec<_>>()
    };
    document["paths"].as_object().unwrap().iter().flat_map(of).collect()
}

#[test]
fn a_stranger_gets_a_described_refusal_everywhere() {
    let tokens = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(tokens.path(), "read ann 0123456789012345678901\n").unwrap();
    let desk = Desk::with(true, Some(tokens.path()), |app| app.hosts = vec!["lab".to_owned()]);
    let all = operations();
    assert!(all.len() > 15);
    let ask = |headers: &[(&str, &str)]| -> Vec<(u16, &str)> {
        all.iter().map(|(method, path)| (desk.ask(method, path, headers, "").0, path.as_str())).collect()
    };
    let open = |path: &str| path == "/healthz";
    let own = ("Host", "lab");
    assert!(ask(&[("Host", "evil")]).iter().all(|(status, _)| *status == 421));
    assert!(ask(&[own, ("Sec-Fetch-Site", "cross-site")]).iter().all(|(status, _)| *status == 403));
    assert!(ask(&[own]).iter().all(|(status, path)| *status == 401 || open(path)));
    let reader = [own, ("Authorization", "Bearer 0123456789012345678901")];
    let refused = ask(&reader).iter().filter(|(status, _)| *status == 403).count();
    assert!(refused >= 4, "a reader changes nothing");
    let guess = [own, ("Authorization", "Bearer x")];
    for _ in 0..3 {
        ask(&guess);
    }
    assert!(ask(&guess).iter().all(|(status, path)| *status == 429 || open(path)));
    // One without a queue.
    let desk = Desk::new(false);
    for (method, path) in &all {
        let status = desk.ask(method, path, &[], "").0;
        let is_of_queue = path.starts_with("/api/v1/queue/");
        assert_eq!(
            status == 403,
            is_of_queue || !matches!(method.as_str(), "GET") && !path.ends_with("check"),
            "{method} {path}"
        );
    }
}

#[test]
fn the_description_has_every_word_and_uses_every_schema() {
    let document = described();
    let words = |name: &str| -> Vec<String> {
        let all = document["paths"]["/api/v1/runs"]["get"]["parameters"].as_array().unwrap();
        let of = all.iter().find(|parameter| parameter["name"] == name).unwrap();
        serde_json::from_value(of["schema"]["enum"].clone()).unwrap_or_default()
    };
    assert_eq!(words("kind"), RunKind::ALL.iter().map(|kind| kind.word()).collect::<Vec<_>>());
    assert_eq!(words("state"), RunState::ALL.iter().map(|state| state.word()).collect::<Vec<_>>());
    let parameters = document["paths"]["/api/v1/runs"]["get"]["parameters"].as_array().unwrap();
    let limit = parameters.iter().find(|parameter| parameter["name"] == "limit").unwrap();
    assert_eq!(limit["schema"]["maximum"], json!(crate::api::RUNS_MAX), "{limit}");
    let text = document.to_string();
    for part in ["schemas", "responses"] {
        for name in document["components"][part].as_object().map(|all| all.keys()).into_iter().flatten() {
            assert!(text.contains(&format!("\"#/components/{part}/{name}\"")), "nothing refers to {name}");
        }
    }
    // Each field of an entry, and no other.
    let desk = Desk::new(true);
    let id = desk.submit()["id"].as_str().unwrap().to_owned();
    let entry: Value = serde_json::from_str(&desk.get(&format!("/api/v1/queue/{id}")).1).unwrap();
    let fields =
        |value: &Value| value.as_object().unwrap().keys().cloned().collect::<std::collections::BTreeSet<_>>();
    assert_eq!(fields(&entry), fields(&document["components"]["schemas"]["Entry"]["properties"]));
}

#[test]
fn a_plan_that_is_submitted_twice_under_one_id_is_queued_once() {
    let desk = Desk::new(true);
    let id = RunId::fresh(WallAnchor::now()).to_string();
    let post = |plan: &str| {
        let body = json!({"id": id, "plan": plan}).to_string();
        let (status, text) = desk.send("POST", "/api/v1/queue", JSON, &body);
        (status, serde_json::from_str::<Value>(&text).unwrap())
    };
    let ((first, entry), (second, again)) = (post(PLAN), post(PLAN));
    assert_eq!((first, second), (201, 201), "{again}");
    assert_eq!((&entry["id"], &again), (&json!(id), &entry));
    let listed: Value = serde_json::from_str(&desk.get("/api/v1/queue").1).unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 1);
    // Another plan under that id is a mistake, and so is a text that is not an id.
    assert_eq!(post(&PLAN.replace("blocks = 6", "blocks = 8")).0, 409);
    let body = json!({"id": "../x", "plan": PLAN}).to_string();
    assert_eq!(desk.send("POST", "/api/v1/queue", JSON, &body).0, 422);
    // The log has one change and its outcome, with the id.
    let log = std::fs::read_to_string(desk.app.archive.dir().join("audit.jsonl")).unwrap();
    assert!(log.lines().count() == 2 && log.contains(&id), "{log}");
}

#[test]
fn a_submission_that_is_not_in_the_log_is_not_in_the_queue() {
    let desk = Desk::new(true);
    std::fs::create_dir(desk.app.archive.dir().join("audit.jsonl")).unwrap();
    assert_eq!(desk.send("POST", "/api/v1/queue", TOML, PLAN).0, 500);
    assert_eq!(desk.app.queue().unwrap().entries(9).unwrap(), []);
}

#[test]
fn a_viewer_hears_from_a_server_whose_state_does_not_change() {
    let desk = Desk::new(true);
    let request = Request::get("/events").extension(desk.peer.clone()).body(Body::empty()).unwrap();
    let router = TowerToHyperService::new(crate::server::router(&desk.app));
    let events = desk.runtime.block_on(async {
        let mut body = router.call(request).await.unwrap().into_body();
        let mut events = Vec::new();
        for _ in 0..80 {
            desk.app.tell(Now::default, &|| ());
            // The task of the stream runs before the next state.
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            while let Ok(Some(Ok(frame))) = tokio::time::timeout(Duration::ZERO, body.frame()).await {
                events.push(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap());
            }
        }
        events
    });
    let names: Vec<&str> = events.iter().map(|event| event.lines().next().unwrap()).collect();
    assert_eq!(names, ["event: now", "event: alive", "event: alive"]);
    // A browser drops an event without data.
    assert!(events[1].contains("\ndata: ") && events[1].ends_with("\n\n"), "{:?}", events[1]);
}
