//! `/api/v1`: everything that the pages do, as JSON.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use archive::{ArchiveError, Note};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use record::run::RunId;
use serde_json::{Value, json};

use crate::answer::{Format, Refusal, answer, document, error, of_archive, refused, unprinted};
use crate::app::{App, ChangeError, Edit, version_of};
use crate::compare::{machines, machines_document};
use crate::guard::{Fields, body, has_type, may_run};
use crate::identity::{Identity, Peer, Role};
use crate::listing::{Row, Selected, for_a_while};
use crate::monitor::With;
use crate::pages::{
    FILTERS, NotCompared, REPEATED, action_of, alone, aside, compared, find, history_wanted, wanted,
};
use crate::printer::PrintError;
use crate::queue::{Fault, Terms, check, problems, submission};
use crate::shown::{Form, Shown};
use crate::view::{self, Expected};

/// Time in which a reader of a stream must take a part.
const UNREAD_TIME: Duration = Duration::from_mins(1);

type Answer = Result<Response, Refusal>;
type Shared = State<Arc<App>>;

/// Runs in one document, if the query does not say.
const RUNS_DEFAULT: usize = 100;
/// Most runs in one document.
pub(crate) const RUNS_MAX: usize = 1_000;
/// Viewers that get a state at a time, and the number of such groups. One group a millisecond leaves the CPU
/// to a load in between.
const TOGETHER: usize = 4;
const GROUPS: usize = 16;

/// `GET /api/v1/queue`: open entries, and those that ended last.
pub(crate) async fn queue(State(app): Shared, Extension(who): Extension<Identity>) -> Response {
    let may_run = who.role >= Role::Run;
    aside(&app, move |app| {
        let now = app.monitor.look();
        let mut value = json!({"schema": "bakeoff.queue/1"});
        now.add_entries(&mut value, may_run);
        document(StatusCode::OK, &value)
    })
    .await
}

/// `GET /api/v1/now`: what runs, with the intervals before this moment, which the stream has not.
pub(crate) async fn now(State(app): Shared, Extension(who): Extension<Identity>) -> Response {
    let may_run = who.role >= Role::Run;
    aside(&app, move |app| document(StatusCode::OK, &app.monitor.look().document(may_run, With::Past))).await
}

/// `GET /api/v1/queue/ID`.
pub(crate) async fn entry(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Response {
    let may_run = who.role >= Role::Run;
    let read = move |app: &App| -> Result<Response, ChangeError> {
        let entry = app.queue()?.find(&id)?;
        let expected =
            if entry.state.is_end() { Expected::default() } else { app.monitor.look().expected_of(entry.id) };
        let mut value = view::entry_document(&entry, expected, may_run);
        // A bake-off that has begun has a state, which is not that of the entry.
        let state = entry.run.and_then(|run| app.archive.header(run).ok()).map(|header| header.state.word());
        value["run_state"] = json!(state);
        Ok(document(StatusCode::OK, &value))
    };
    aside(&app, read).await.unwrap_or_else(|why| refused(Format::Document, &why))
}

/// `GET /api/v1/queue/ID/plan`: the plan as TOML.
pub(crate) async fn entry_plan(State(app): Shared, Path(id): Path<String>) -> Response {
    let read = move |app: &App| -> Result<Response, ChangeError> {
        let queue = app.queue()?;
        let entry = queue.find(&id)?;
        Ok(answer(StatusCode::OK, "application/toml", queue.plan(entry.id)?))
    };
    aside(&app, read).await.unwrap_or_else(|why| refused(Format::Document, &why))
}

/// `GET /api/v1/queue/ID/output`: the end of its process's output.
pub(crate) async fn entry_output(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Answer {
    may_run(&app, &who, Format::Document)?;
    let read = move |app: &App| -> Result<Response, ChangeError> {
        let queue = app.queue()?;
        let entry = queue.find(&id)?;
        Ok(answer(StatusCode::OK, "text/plain; charset=utf-8", queue.output_text(entry.id)))
    };
    Ok(aside(&app, read).await.unwrap_or_else(|why| refused(Format::Document, &why)))
}

/// `POST /api/v1/queue`: a plan as TOML, or a document `{"plan", "priority", "not_before", "by", "id"}`.
pub(crate) async fn submit(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Document)?;
    let is_toml = is_toml(&request)?;
    let bytes = body(&app, request.into_body(), Format::Document).await?;
    let (plan, terms) = if is_toml { (utf8(&bytes)?, Terms::default()) } else { of_document(&bytes)? };
    let done = move |app: &App| match submission(&plan, &terms, &who.name) {
        Err(faults) => wrong_plan(&faults),
        Ok(new) => match app.submit(&new, &who, &peer.name()) {
            Ok(entry) => {
                document(StatusCode::CREATED, &view::entry_document(&entry, Expected::default(), true))
            }
            Err(why) => refused(Format::Document, &why),
        },
    };
    Ok(alone(&app, done).await)
}

/// `POST /api/v1/plans/check`: what a plan would do, or its faults with line and column.
pub(crate) async fn plan_check(State(app): Shared, request: Request) -> Answer {
    let is_toml = is_toml(&request)?;
    let bytes = body(&app, request.into_body(), Format::Document).await?;
    let plan = if is_toml { utf8(&bytes)? } else { of_document(&bytes)?.0 };
    Ok(alone(&app, move |_| document(StatusCode::OK, &crate::queue::document(&check(&plan)))).await)
}

fn wrong_plan(faults: &[Fault]) -> Response {
    let first = faults.first().map_or(String::new(), |fault| match fault.place {
        Some((line, column)) => format!("{line}:{column}: {}", fault.text),
        None => fault.text.clone(),
    });
    let value = json!({
        "schema": "bakeoff.error/1",
        "status": StatusCode::UNPROCESSABLE_ENTITY.as_u16(),
        "error": first,
        "problems": problems(faults),
    });
    document(StatusCode::UNPROCESSABLE_ENTITY, &value)
}

/// Whether the body is TOML, else JSON. A form of another site can send neither type.
fn is_toml(request: &Request) -> Result<bool, Refusal> {
    if has_type(request.headers(), &["application/toml"]) {
        return Ok(true);
    }
    if has_type(request.headers(), &["application/json"]) {
        return Ok(false);
    }
    let text = "expected application/toml or application/json";
    Err(error(Format::Document, StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into())
}

fn bad_request(text: &str) -> Refusal {
    error(Format::Document, StatusCode::BAD_REQUEST, text).into()
}

fn utf8(bytes: &Bytes) -> Result<String, Refusal> {
    String::from_utf8(bytes.to_vec()).map_err(|_| bad_request("the body is not UTF-8"))
}

fn of_document(bytes: &Bytes) -> Result<(String, Terms), Refusal> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| bad_request(&format!("not JSON: {e}")))?;
    let Some(fields) = value.as_object() else { return Err(bad_request("expected an object")) };
    let known = ["plan", "priority", "not_before", "by", "id"];
    if let Some(name) = fields.keys().find(|name| !known.contains(&name.as_str())) {
        return Err(bad_request(&format!("unknown field `{name}`: expected {}", known.join(", "))));
    }
    let text = |name: &str| match &value[name] {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Number(number) => Ok(Some(number.to_string())),
        _ => Err(bad_request(&format!("`{name}` is not a text"))),
    };
    let Some(plan) = text("plan")? else { return Err(bad_request("`plan` is missing")) };
    let (priority, not_before) = (text("priority")?, text("not_before")?);
    Ok((plan, Terms { priority, not_before, by: text("by")?, id: text("id")? }))
}

/// `POST /api/v1/queue/ID/ACTION`.
pub(crate) async fn act(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path((id, action)): Path<(String, String)>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Document)?;
    // A form of another site cannot send this type, and a browser asks before a script of one does.
    if !has_type(request.headers(), &["application/json"]) {
        let text = "expected application/json";
        return Err(error(Format::Document, StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
    }
    let bytes = body(&app, request.into_body(), Format::Document).await?;
    let priority = serde_json::from_slice::<Value>(&bytes).ok().and_then(|value| value["priority"].as_i64());
    let priority = priority.and_then(|n| crate::queue::priority(&n.to_string()).ok());
    let change = move |app: &App| -> Result<Option<archive::Entry>, ChangeError> {
        let (id, from) = (app.queue()?.find(&id)?.id, peer.name());
        match (action_of(&action), priority) {
            (Some(action), _) => app.act(id, action, &who, &from).map(Some),
            (None, Some(to)) if action == "prioritize" => app.prioritize(id, to, &who, &from).map(Some),
            _ => Ok(None),
        }
    };
    Ok(match aside(&app, change).await {
        Ok(Some(entry)) => document(StatusCode::OK, &view::entry_document(&entry, Expected::default(), true)),
        Ok(None) => {
            let text =
                "expected pause, resume, cancel, or prioritize with {\"priority\": N}, N from -100 to 100";
            return Err(bad_request(text));
        }
        Err(why) => refused(Format::Document, &why),
    })
}

/// `GET /api/v1/runs`.
pub(crate) async fn runs(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let read = Fields::of(query.unwrap_or_default().as_bytes());
    let fields = match read.only(&[&FILTERS[..], &["from", "limit"]].concat(), &REPEATED) {
        Ok(fields) => fields,
        Err(why) => return error(Format::Document, StatusCode::BAD_REQUEST, &why),
    };
    let number = |name: &str, default: usize, max: usize| {
        let read = |text: &str| text.parse().ok().filter(|number| *number <= max);
        let expected =
            || if max < usize::MAX { format!("at most {max}") } else { "a whole number".to_owned() };
        fields.read(name, read, expected).map(|number| number.unwrap_or(default))
    };
    let asked = || {
        let limit = number("limit", RUNS_DEFAULT, RUNS_MAX)?;
        Ok((wanted(&fields)?, number("from", 0, usize::MAX)?, limit))
    };
    let (wanted, from, limit) = match asked() {
        Ok(asked) => asked,
        Err(why) => {
            let why: String = why;
            return error(Format::Document, StatusCode::BAD_REQUEST, &why);
        }
    };
    let is_long = wanted.may_read();
    let list = move |app: &App| {
        let snapshot = app.listing.snapshot();
        let Selected { rows, unread } =
            app.listing.select(&snapshot, &wanted, app.printer.as_ref(), &mut for_a_while());
        let shown = rows.iter().skip(from).take(limit);
        let listed = |row: &&Row| {
            let mut listed = report::json::listed(&row.header);
            listed["tags"] = json!(row.note.tags);
            listed["has_note"] = json!(!row.note.text.is_empty());
            listed
        };
        let mut value = report::json::runs([]);
        value["runs"] = shown.map(listed).collect();
        value["found"] = json!(rows.len());
        value["from"] = json!(from);
        value["unread"] = json!(unread);
        value["damaged"] = json!(snapshot.damaged);
        value["age_s"] = json!(app.listing.age_s());
        document(StatusCode::OK, &value)
    };
    if is_long { alone(&app, list).await } else { aside(&app, list).await }
}

/// `GET /api/v1/runs/ID`.
pub(crate) async fn run(State(app): Shared, Path(id): Path<String>) -> Response {
    let read =
        move |app: &App| -> Result<Value, PrintError> { app.printer.document(&app.archive, find(app, &id)?) };
    let found = alone(&app, read).await;
    found.map_or_else(|why| unprinted(Format::Document, &why), |value| document(StatusCode::OK, &value))
}

/// `DELETE /api/v1/runs/ID`; the id is written out in full.
pub(crate) async fn remove(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
) -> Answer {
    may_run(&app, &who, Format::Document)?;
    let Ok(id) = id.parse::<RunId>() else { return Err(bad_request("expected the whole id of a run")) };
    let removed = alone(&app, move |app| app.remove(id, &who, &peer.name())).await;
    Ok(match removed {
        Ok(()) => {
            document(StatusCode::OK, &json!({"schema": "bakeoff.runs-rm/1", "removed": [id.to_string()]}))
        }
        Err(why) => refused(Format::Document, &why),
    })
}

/// `GET /api/v1/compare?runs=A,B`.
pub(crate) async fn compare(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    alone(&app, move |app| match compared(app, &query) {
        Ok(compared) => document(StatusCode::OK, &compared.document()),
        Err(NotCompared::Unprinted(why)) => unprinted(Format::Document, &why),
        Err(NotCompared::Query(why)) => error(Format::Document, StatusCode::BAD_REQUEST, &why),
    })
    .await
}

/// `GET /api/v1/runs/ID/note`.
pub(crate) async fn note(State(app): Shared, Path(id): Path<String>) -> Response {
    let read = move |app: &App| -> Result<Value, ArchiveError> {
        let id = find(app, &id)?;
        app.archive.header(id)?;
        Ok(note_document(id, &app.archive.note(id)?))
    };
    let found = aside(&app, read).await;
    found.map_or_else(|why| of_archive(Format::Document, &why), |value| document(StatusCode::OK, &value))
}

fn note_document(id: RunId, note: &Note) -> Value {
    let version = version_of(note);
    json!({"schema": "bakeoff.note/1", "run": id.to_string(), "tags": note.tags, "note": note.text, "version": version})
}

/// `PUT /api/v1/runs/ID/note`: a document `{"tags", "note", "version"}`. A missing field does not change.
pub(crate) async fn set_note(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Document)?;
    if !has_type(request.headers(), &["application/json"]) {
        let text = "expected application/json";
        return Err(error(Format::Document, StatusCode::UNSUPPORTED_MEDIA_TYPE, text).into());
    }
    let bytes = body(&app, request.into_body(), Format::Document).await?;
    let edit = edit_of(&bytes)?;
    let stored = alone(&app, move |app| -> Result<Value, ChangeError> {
        let id = find(app, &id)?;
        Ok(note_document(id, &app.edit_note(id, edit, &who, &peer.name())?))
    });
    Ok(stored
        .await
        .map_or_else(|why| refused(Format::Document, &why), |value| document(StatusCode::OK, &value)))
}

fn edit_of(bytes: &Bytes) -> Result<Edit, Refusal> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| bad_request(&format!("not JSON: {e}")))?;
    let wrong = || {
        let form = "expected {\"tags\": [\"...\"], \"note\": \"...\", \"version\": \"...\"}, of which each may be missing";
        bad_request(form)
    };
    let mut edit = Edit::default();
    for (name, value) in value.as_object().ok_or_else(wrong)? {
        let text = value.as_str().map(str::to_owned);
        match name.as_str() {
            "note" => edit.text = Some(text.ok_or_else(wrong)?),
            "version" => edit.version = Some(text.ok_or_else(wrong)?),
            "tags" => {
                let tags = value.as_array().ok_or_else(wrong)?.iter();
                let tags = tags.map(|tag| tag.as_str().map(str::to_owned)).collect::<Option<_>>();
                edit.tags = Some(tags.ok_or_else(wrong)?);
            }
            _ => return Err(wrong()),
        }
    }
    Ok(edit)
}

/// `GET /api/v1/history`.
pub(crate) async fn history(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let wanted = match history_wanted(&query.unwrap_or_default()) {
        Ok((_, wanted)) => wanted,
        Err(why) => return error(Format::Document, StatusCode::BAD_REQUEST, &why),
    };
    match alone(&app, move |app| app.history(&wanted)).await {
        Ok(found) => document(StatusCode::OK, &found.document),
        Err(why) => unprinted(Format::Document, &why),
    }
}

/// `GET /api/v1/hosts`.
pub(crate) async fn hosts(State(app): Shared) -> Response {
    alone(&app, |app| {
        document(StatusCode::OK, &machines_document(&machines(&app.archive, &app.listing.snapshot())))
    })
    .await
}

/// `GET /api/v1/events`: the state of each moment, as server-sent events.
pub(crate) async fn events(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Answer {
    let may_run = who.role >= Role::Run;
    stream(&app, (peer, headers), move |shown| shown.event(Form::Document { may_run }))
}

/// `GET /events`: the same as a part of a page.
pub(crate) async fn page_events(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Answer {
    let (may_run, csrf) = (who.role >= Role::Run, app.access.csrf.clone());
    stream(&app, (peer, headers), move |shown| shown.event(Form::Page { may_run, csrf: &csrf }))
}

/// A stream of states. A slow reader gets the latest one, not all; one that is the same as the last is left
/// out. The stream ends with the session of its reader.
fn stream(
    app: &Arc<App>,
    (peer, headers): (Peer, HeaderMap),
    form: impl Fn(&Shown) -> Bytes + Send + Sync + 'static,
) -> Answer {
    let place = app.viewers_of_peers.enter(peer.key()).zip(app.viewers.clone().try_acquire_owned().ok());
    let Some(place) = place else {
        return Err(error(Format::Document, StatusCode::TOO_MANY_REQUESTS, "too many viewers").into());
    };
    let mut now = app.now.subscribe();
    app.has_newcomer.store(true, Ordering::Release);
    let group = app.viewers_begun.fetch_add(1, Ordering::Relaxed) / TOGETHER % GROUPS;
    let after = Duration::from_millis(group as u64);
    let app = app.clone();
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, Infallible>>(1);
    tokio::spawn(async move {
        let _place = place;
        let mut last = Bytes::new();
        loop {
            // A reader that leaves gives its place back at once: the page that follows may need it.
            let changed = tokio::select! {
                changed = now.changed() => changed,
                () = sender.closed() => return,
            };
            if changed.is_err() || !app.access.still_knows(&peer, &headers) {
                return;
            }
            let shown = now.borrow_and_update().clone();
            let state = form(&shown);
            let text = if state != last {
                state.clone()
            } else if shown.is_repeated {
                "event: alive\ndata: {}\n\n".into()
            } else {
                continue;
            };
            last = state;
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            // A reader that takes nothing for that long has gone.
            if !matches!(tokio::time::timeout(UNREAD_TIME, sender.send(Ok(text))).await, Ok(Ok(()))) {
                return;
            }
        }
    });
    let mut response =
        answer(StatusCode::OK, "text/event-stream", Body::new(crate::stream::Stream(receiver)));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}

/// `GET /openapi.json`.
pub(crate) async fn openapi() -> Response {
    answer(StatusCode::OK, "application/json", include_str!("../assets/openapi.json"))
}

/// `GET /healthz`: 200 while the queue can be written, or the archive be read.
pub(crate) async fn healthz(State(app): Shared) -> Response {
    let check = |app: &App| {
        if let Ok(mut queue) = app.queue() {
            return queue.check().map_err(|_| "the queue cannot be written");
        }
        let listed = archive::Archive::open_existing(app.archive.dir());
        listed.map(drop).map_err(|_: ArchiveError| "the archive cannot be read")
    };
    match aside(&app, check).await {
        Ok(()) => document(StatusCode::OK, &json!({"schema": "bakeoff.health/1", "ok": true})),
        Err(why) => error(Format::Document, StatusCode::SERVICE_UNAVAILABLE, why),
    }
}
