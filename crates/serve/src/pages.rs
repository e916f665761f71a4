//! The pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use analysis::Verdict;
use archive::{Action, ArchiveError, QueueError};
use axum::Extension;
use axum::body::Bytes;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::run::{RunId, RunKind, RunState};

use crate::answer::{Format, Refusal, error, html, of_archive, refused, run_page, see, unprinted};
use crate::app::{App, ChangeError, Edit, version_of};
use crate::compare::{Compared, RUNS_MAX, RUNS_MIN, machines};
use crate::guard::{Fields, body, form, may_run};
use crate::identity::{Identity, Peer, Role, SESSION_COOKIE};
use crate::listing::{Row, Selected, Wanted, for_a_while};
use crate::memory;
use crate::printer::{HISTORY_RUNS_MAX, HistoryWanted, PrintError};
use crate::queue::{Fault, Outline, Terms, check, priority, submission, summary};
use crate::shown::Shown;
use crate::traits::VERDICTS;
use crate::view::{moment, span};
use crate::view_history::HistoryPage;
use crate::view_page::{
    AboutPage, EntryPage, EntryView, HomePage, HostsPage, LoginPage, PlanPage, RowView, RunsPage,
    UncomparedPage, text,
};

/// Age of the list in seconds from which a page tells it.
const AGE_SHOWN_S: u64 = 3;
/// Rows on a page of the list.
const ROWS: usize = 50;

type Answer = Result<Response, Refusal>;
type Shared = State<Arc<App>>;

/// Runs work that reads files away from the connections.
pub(crate) async fn aside<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> T + Send + 'static,
) -> T {
    let app = app.clone();
    tokio::task::spawn_blocking(move || work(&app)).await.expect("the work does not panic")
}

/// Variant of [`aside`] for work that takes a CPU for a while, and memory: one at a time, exports included.
/// The turn ends with the work: a client that leaves does not stop it.
pub(crate) async fn alone<T: Send + 'static>(
    app: &Arc<App>,
    work: impl FnOnce(&App) -> T + Send + 'static,
) -> T {
    let turn = app.turn().await;
    aside(app, move |app| {
        let _turn = turn;
        let done = work(app);
        memory::trim();
        done
    })
    .await
}

/// `/`: the queue, and what runs now.
pub(crate) async fn home(State(app): Shared, Extension(who): Extension<Identity>) -> Response {
    let may_run = who.role >= Role::Run;
    aside(&app, move |app| {
        let shown = Shown::new(app.monitor.look());
        let now = shown.html(may_run, &app.access.csrf);
        let page = HomePage {
            here: "/",
            has_queue: app.queue.is_some(),
            now: &now,
            at: moment(shown.now.at_unix_ns),
            has_session: app.access.has_tokens(),
            csrf: &app.access.csrf,
        };
        html(StatusCode::OK, text(&page))
    })
    .await
}

/// `/queue/ID`: an entry with its plan.
pub(crate) async fn entry(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Response {
    let may_run = who.role >= Role::Run;
    let read = move |app: &App| -> Result<Response, ChangeError> {
        let now = app.monitor.look();
        let queue = app.queue()?;
        let entry = queue.find(&id)?;
        let plan = queue.plan(entry.id)?;
        let output = if may_run { queue.output_text(entry.id) } else { String::new() };
        drop(queue);
        let page = EntryPage {
            here: "/",
            submitted: moment(entry.submitted_unix_ns),
            sha256: &entry.plan_sha256,
            plan: &plan,
            output: &output,
            may_run,
            can_prioritize: !entry.state.is_end() && entry.state != archive::QueueState::Running,
            csrf: &app.access.csrf,
            entry: EntryView::of(&entry, now.expected_of(entry.id), may_run),
        };
        Ok(html(StatusCode::OK, text(&page)))
    };
    aside(&app, read).await.unwrap_or_else(|why| refused(Format::Page, &why))
}

/// `POST /queue/ID/ACTION`.
pub(crate) async fn act(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path((id, action)): Path<(String, String)>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Page)?;
    let fields = form(&app, request).await?;
    let change = move |app: &App| -> Result<Response, ChangeError> {
        let (id, from) = (app.queue()?.find(&id)?.id, peer.name());
        if let Some(action) = action_of(&action) {
            return app.act(id, action, &who, &from).map(|_| see("/"));
        }
        if action != "prioritize" {
            return Ok(error(Format::Page, StatusCode::NOT_FOUND, "there is no such page"));
        }
        match priority(fields.get("priority").unwrap_or_default()) {
            Ok(to) => app.prioritize(id, to, &who, &from).map(|_| see(&format!("/queue/{id}"))),
            Err(why) => Ok(error(Format::Page, StatusCode::UNPROCESSABLE_ENTITY, &why)),
        }
    };
    Ok(aside(&app, change).await.unwrap_or_else(|why| refused(Format::Page, &why)))
}

/// The action of a word in a path.
pub(crate) fn action_of(word: &str) -> Option<Action> {
    [Action::Pause, Action::Resume, Action::Cancel].into_iter().find(|action| action.word() == word)
}

/// `/runs`: the archive.
pub(crate) async fn runs(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let read =
        Fields::of(query.unwrap_or_default().as_bytes()).only(&[&FILTERS[..], &["page"]].concat(), &REPEATED);
    let (fields, wanted) = match read.and_then(|fields| wanted(&fields).map(|wanted| (fields, wanted))) {
        Ok(read) => read,
        Err(why) => return error(Format::Page, StatusCode::BAD_REQUEST, &why),
    };
    let is_long = wanted.may_read();
    let show = move |app: &App| {
        let snapshot = app.listing.snapshot();
        let Selected { rows, unread } =
            app.listing.select(&snapshot, &wanted, app.printer.as_ref(), &mut for_a_while());
        let pages = rows.len().div_ceil(ROWS).max(1);
        let page = fields.get("page").and_then(|n| n.parse().ok()).unwrap_or(1).clamp(1, pages);
        let shown = rows.iter().skip((page - 1) * ROWS).take(ROWS);
        let value = |name: &str| fields.given(name).unwrap_or_default();
        let (kind, state, verdict) = (value("kind"), value("state"), value("verdict"));
        let page = RunsPage {
            here: "/runs",
            text: value("text"),
            label: value("label"),
            tag: value("tag"),
            machine: value("machine"),
            target: value("target"),
            factor: value("factor"),
            since: value("since"),
            until: value("until"),
            kinds: RunKind::ALL.iter().map(|k| (k.word(), k.word() == kind)).collect(),
            states: RunState::ALL.iter().map(|s| (s.word(), s.word() == state)).collect(),
            verdicts: VERDICTS.iter().map(|v| (v.word(), v.word() == verdict)).collect(),
            rows: shown.map(|row| RowView::of(row)).collect(),
            found: rows.len(),
            all: snapshot.rows.len(),
            age: Some(app.listing.age_s()).filter(|s| *s >= AGE_SHOWN_S).map(|s| span(s as f64)),
            damaged: snapshot.damaged,
            unread,
            page,
            pages,
            previous: (page > 1).then(|| page_link(&fields, page - 1)),
            next: (page < pages).then(|| page_link(&fields, page + 1)),
        };
        html(StatusCode::OK, text(&page))
    };
    if is_long { alone(&app, show).await } else { aside(&app, show).await }
}

/// Filters of the list that may stand once, and those that may stand several times.
pub(crate) const FILTERS: [&str; 8] =
    ["text", "kind", "state", "verdict", "machine", "target", "since", "until"];
pub(crate) const REPEATED: [&str; 3] = ["label", "tag", "factor"];

/// The selection of a query, or the reason that a part of it is not understood.
pub(crate) fn wanted(fields: &Fields) -> Result<Wanted, String> {
    let label = |text: &str| match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
        None => (text.to_owned(), None),
    };
    let kinds = || RunKind::ALL.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(", ");
    let states = || RunState::ALL.iter().map(|state| state.word()).collect::<Vec<_>>().join(", ");
    let verdict = |word: &str| VERDICTS.into_iter().find(|verdict| verdict.word() == word);
    let verdicts = || VERDICTS.map(Verdict::word).join(", ");
    let day = |name: &str| {
        // A moment would be cut to its day in another zone.
        let is_day = |text: &str| text.len() == "2026-11-25".len();
        let read =
            |text: &str| Some(text.parse::<jiff::civil::Date>().ok().filter(|_| is_day(text))?.to_string());
        fields.read(name, read, || "a day such as 2026-11-25".to_owned())
    };
    Ok(Wanted {
        kind: fields.read("kind", RunKind::from_word, kinds)?,
        state: fields.read("state", RunState::from_word, states)?,
        words: fields
            .given("text")
            .map(|text| text.to_lowercase().split_whitespace().map(str::to_owned).collect())
            .unwrap_or_default(),
        labels: fields.all("label").map(str::trim).filter(|text| !text.is_empty()).map(label).collect(),
        tags: fields.all("tag").map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned).collect(),
        verdict: fields.read("verdict", verdict, verdicts)?,
        machine: fields.given("machine"),
        target: fields.given("target").map(|part| part.to_lowercase()),
        factors: fields.all("factor").map(str::trim).filter(|text| !text.is_empty()).map(label).collect(),
        since: day("since")?,
        until: day("until")?,
    })
}

fn page_link(fields: &Fields, page: usize) -> String {
    let names = [&FILTERS[..], &REPEATED[..]].concat();
    let of = |name: &&str| -> String {
        let values = fields.all(name).map(str::trim).filter(|value| !value.is_empty());
        values.map(|value| format!("{name}={}&", encoded(value))).collect::<Vec<_>>().concat()
    };
    format!("/runs?{}page={page}", names.iter().map(of).collect::<String>())
}

fn encoded(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_.~".contains(&b);
    text.bytes().map(|b| if plain(b) { char::from(b).to_string() } else { format!("%{b:02X}") }).collect()
}

/// The run that a path names.
pub(crate) fn find(app: &App, text: &str) -> Result<RunId, ArchiveError> {
    app.listing.snapshot().find(text)
}

/// `/runs/ID`: the page of a run, as `bakeoff report` writes it.
pub(crate) async fn run(State(app): Shared, Path(id): Path<String>) -> Response {
    let read =
        move |app: &App| -> Result<Bytes, PrintError> { app.pages.page(&app.archive, find(app, &id)?) };
    let page = alone(&app, read).await;
    page.map_or_else(|why| unprinted(Format::Page, &why), run_page)
}

/// `/runs/ID/about`.
pub(crate) async fn about(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Path(id): Path<String>,
) -> Response {
    let may_run = who.role >= Role::Run;
    let read = move |app: &App| about_page(app, find(app, &id)?, may_run, None);
    aside(&app, read).await.unwrap_or_else(|why| of_archive(Format::Page, &why))
}

/// - `typed`: tags and text of a refused change: another user has changed the note.
fn about_page(
    app: &App,
    id: RunId,
    may_run: bool,
    typed: Option<(String, String)>,
) -> Result<Response, ArchiveError> {
    let snapshot = app.listing.snapshot();
    let listed = snapshot.rows.iter().find(|row| row.header.id == id).cloned();
    let row = listed.map_or_else(|| app.archive.header(id).map(Row::alone).map(Arc::new), Ok)?;
    let stored = app.archive.note(id)?;
    let version = version_of(&stored);
    let status = if typed.is_some() { StatusCode::CONFLICT } else { StatusCode::OK };
    let stored = (stored.tags.into_iter().collect::<Vec<_>>().join(" "), stored.text);
    let changed = typed.is_some().then(|| stored.clone());
    let (tags, note) = typed.unwrap_or(stored);
    let page = AboutPage {
        here: "/runs",
        reason: row.header.reason.clone().unwrap_or_default(),
        command: &row.header.command,
        changed,
        version,
        tags,
        note,
        may_run,
        may_remove: may_run && row.header.bakeoff.is_none(),
        csrf: &app.access.csrf,
        row: RowView::of(&row),
    };
    Ok(html(status, text(&page)))
}

/// `POST /runs/ID/delete`, with the short name as a confirmation.
pub(crate) async fn delete(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Page)?;
    let fields = form(&app, request).await?;
    let id = find(&app, &id).map_err(|why| Refusal::from(of_archive(Format::Page, &why)))?;
    let confirm = fields.given("confirm").unwrap_or_default().to_uppercase();
    if confirm.len() < RunId::SHORT_MIN || !id.is_named(&confirm) {
        let why = "nothing was removed: the name given to confirm does not match";
        return Ok(error(Format::Page, StatusCode::CONFLICT, why));
    }
    let removed = alone(&app, move |app| app.remove(id, &who, &peer.name())).await;
    Ok(removed.map_or_else(|why| refused(Format::Page, &why), |()| see("/runs")))
}

/// `POST /runs/ID/note`: tags and a note.
pub(crate) async fn note(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    request: Request,
) -> Answer {
    may_run(&app, &who, Format::Page)?;
    let fields = form(&app, request).await?;
    let id = find(&app, &id).map_err(|why| Refusal::from(of_archive(Format::Page, &why)))?;
    let tags = fields.get("tags").unwrap_or_default().to_owned();
    let note = fields.get("note").unwrap_or_default().replace("\r\n", "\n");
    let edit = Edit {
        // A form without a version is from a page of an older server.
        version: Some(fields.get("version").unwrap_or_default().to_owned()),
        tags: Some(tags.split_whitespace().map(str::to_owned).collect()),
        text: Some(note.clone()),
    };
    let store = move |app: &App| match app.edit_note(id, edit, &who, &peer.name()) {
        Ok(_) => see(&format!("/runs/{id}/about")),
        Err(ChangeError::Changed) => about_page(app, id, true, Some((tags, note)))
            .unwrap_or_else(|_| refused(Format::Page, &ChangeError::Changed)),
        Err(why) => refused(Format::Page, &why),
    };
    Ok(alone(&app, store).await)
}

/// `/history`: metrics over the newest runs, and where they changed.
pub(crate) async fn history(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    let (fields, wanted) = match history_wanted(&query) {
        Ok(read) => read,
        Err(why) => return error(Format::Page, StatusCode::BAD_REQUEST, &why),
    };
    let read = move |app: &App| app.history(&wanted).map(|found| (found, app.listing.snapshot().rows.len()));
    match alone(&app, read).await {
        Ok((found, runs)) => {
            let value = |name: &str| fields.given(name).unwrap_or_default();
            let filter = [value("metric"), value("of"), value("label")];
            html(StatusCode::OK, text(&HistoryPage::of(&found.document, filter, &query, runs)))
        }
        Err(why) => unprinted(Format::Page, &why),
    }
}

/// `/history/figures`: the page that `bakeoff history -o` writes.
pub(crate) async fn history_figures(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let wanted = match history_wanted(&query.unwrap_or_default()) {
        Ok((_, wanted)) => wanted,
        Err(why) => return error(Format::Page, StatusCode::BAD_REQUEST, &why),
    };
    let found = alone(&app, move |app| app.history(&wanted)).await;
    found.map_or_else(|why| unprinted(Format::Page, &why), |found| run_page(found.page.clone().into()))
}

/// The fields of a history's query and its selection, or the reason that a part of it is not understood.
pub(crate) fn history_wanted(query: &str) -> Result<(Fields, HistoryWanted), String> {
    let fields = Fields::of(query.as_bytes()).only(&["metric", "of"], &["label"])?;
    let wanted = HistoryWanted {
        metric: fields.given("metric"),
        of: fields.given("of"),
        labels: fields
            .all("label")
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
            .collect(),
        runs_max: HISTORY_RUNS_MAX,
    };
    Ok((fields, wanted))
}

/// `/compare?runs=A,B`.
pub(crate) async fn compare(State(app): Shared, RawQuery(query): RawQuery) -> Response {
    let query = query.unwrap_or_default();
    alone(&app, move |app| match compared(app, &query) {
        Ok(compared) => html(StatusCode::OK, text(&compared.page())),
        Err(NotCompared::Unprinted(why)) => unprinted(Format::Page, &why),
        Err(NotCompared::Query(why)) => {
            html(StatusCode::BAD_REQUEST, text(&UncomparedPage { here: "/runs", why: &why }))
        }
    })
    .await
}

/// Reason that runs are not held against each other.
pub(crate) enum NotCompared {
    /// The query is not understood, or names too few or too many runs.
    Query(String),
    Unprinted(PrintError),
}

/// The runs that a query names.
pub(crate) fn compared(app: &App, query: &str) -> Result<Compared, NotCompared> {
    let fields = Fields::of(query.as_bytes()).only(&[], &["runs"]).map_err(NotCompared::Query)?;
    let names =
        fields.all("runs").flat_map(|text| text.split(',')).map(str::trim).filter(|text| !text.is_empty());
    let names: Vec<&str> = names.take(RUNS_MAX + 1).collect();
    if !(RUNS_MIN..=RUNS_MAX).contains(&names.len()) {
        let given = if names.len() > RUNS_MAX { "more".to_owned() } else { names.len().to_string() };
        let why = format!("a comparison needs {RUNS_MIN} to {RUNS_MAX} runs, not {given}: /compare?runs=A,B");
        return Err(NotCompared::Query(why));
    }
    let unprinted = |why: ArchiveError| NotCompared::Unprinted(why.into());
    let ids = names.into_iter().map(|name| find(app, name)).collect::<Result<Vec<RunId>, _>>();
    let ids = ids.map_err(unprinted)?;
    // A run has several names.
    let mut others = BTreeSet::new();
    if let Some(twice) = ids.iter().find(|id| !others.insert(**id)) {
        return Err(NotCompared::Query(format!("{twice} is named twice: name each run once")));
    }
    Compared::read(app.printer.as_ref(), &app.archive, &ids).map_err(NotCompared::Unprinted)
}

/// `/hosts`.
pub(crate) async fn hosts(State(app): Shared) -> Response {
    alone(&app, move |app| {
        let (looked, hosts) = machines(&app.archive, &app.listing.snapshot());
        html(StatusCode::OK, text(&HostsPage { here: "/hosts", looked, hosts }))
    })
    .await
}

/// `/plans/new?entry=ID`: an empty form, or one with the plan of an entry.
pub(crate) async fn plan_form(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    RawQuery(query): RawQuery,
) -> Response {
    let fields = match Fields::of(query.unwrap_or_default().as_bytes()).only(&["entry"], &[]) {
        Ok(fields) => fields,
        Err(why) => return error(Format::Page, StatusCode::BAD_REQUEST, &why),
    };
    let show = move |app: &App| -> Result<Response, ChangeError> {
        let fields = match fields.given("entry") {
            None => Fields::default(),
            Some(id) => {
                let queue = app.queue()?;
                Fields::one("plan", queue.plan(queue.find(&id)?.id)?)
            }
        };
        Ok(plan_page(app, &who, &fields, StatusCode::OK, None))
    };
    aside(&app, show).await.unwrap_or_else(|why| refused(Format::Page, &why))
}

/// `POST /plans/new`: checks a plan, or submits it.
pub(crate) async fn plan(
    State(app): Shared,
    Extension(who): Extension<Identity>,
    Extension(peer): Extension<Peer>,
    request: Request,
) -> Answer {
    let fields = form(&app, request).await?;
    if fields.get("do") == Some("submit") {
        may_run(&app, &who, Format::Page)?;
    }
    let done = move |app: &App| {
        let plan = fields.get("plan").unwrap_or_default().replace("\r\n", "\n");
        if fields.get("do") != Some("submit") {
            return plan_page(app, &who, &fields, StatusCode::OK, Some(check(&plan)));
        }
        let terms = Terms {
            priority: fields.given("priority"),
            not_before: fields.given("not_before"),
            by: fields.given("by"),
            id: fields.given("id"),
        };
        match submission(&plan, &terms, &who.name) {
            Err(faults) => plan_page(app, &who, &fields, StatusCode::UNPROCESSABLE_ENTITY, Some(Err(faults))),
            Ok(new) => match app.submit(&new, &who, &peer.name()) {
                Ok(entry) => see(&format!("/queue/{}", entry.id)),
                // The reader went back, and changed the text.
                Err(ChangeError::Queue(QueueError::Taken { .. })) => {
                    let text = "this form has submitted another plan: submit this one again".to_owned();
                    let faults = vec![Fault { place: None, text }];
                    plan_page(app, &who, &fields, StatusCode::CONFLICT, Some(Err(faults)))
                }
                Err(why) => refused(Format::Page, &why),
            },
        }
    };
    Ok(alone(&app, done).await)
}

fn plan_page(
    app: &App,
    who: &Identity,
    fields: &Fields,
    status: StatusCode,
    checked: Option<Result<Outline, Vec<Fault>>>,
) -> Response {
    let value = |name: &str| fields.given(name).unwrap_or_default();
    let (outline, faults) = match checked {
        None => (None, Vec::new()),
        Some(Ok(outline)) => (Some(outline), Vec::new()),
        Some(Err(faults)) => (None, faults),
    };
    let place =
        |fault: &Fault| fault.place.map_or(String::new(), |(line, column)| format!("{line}:{column}"));
    let page = PlanPage {
        here: "/plans/new",
        has_queue: app.queue.is_some(),
        may_run: who.role >= Role::Run,
        csrf: &app.access.csrf,
        id: RunId::fresh(WallAnchor::now()).to_string(),
        text: fields.get("plan").unwrap_or_default().to_owned(),
        priority: fields.given("priority").unwrap_or_else(|| "0".to_owned()),
        not_before: value("not_before"),
        by: value("by"),
        summary: outline.as_ref().map(summary),
        runs: outline.as_ref().map(|outline| outline.runs.clone()).unwrap_or_default(),
        settings: outline.map(|outline| outline.settings).unwrap_or_default(),
        faults: faults.iter().map(|fault| (place(fault), fault.text.clone())).collect(),
    };
    html(status, text(&page))
}

/// `/login`.
pub(crate) async fn login_form(State(app): Shared) -> Response {
    if app.access.has_tokens() {
        return html(StatusCode::OK, text(&LoginPage { here: "", wrong: false }));
    }
    see("/")
}

/// `POST /login`: a session for the holder of a token.
pub(crate) async fn login(State(app): Shared, Extension(peer): Extension<Peer>, request: Request) -> Answer {
    let now_ns = Monotonic.now_ns();
    if !app.wrong_tokens.has(&peer.key(), now_ns) {
        return Ok(error(Format::Page, StatusCode::TOO_MANY_REQUESTS, "too many wrong tokens"));
    }
    let bytes = body(&app, request.into_body(), Format::Page).await?;
    let fields = Fields::of(&bytes);
    let Some(session) = app.access.log_in(fields.get("token").unwrap_or_default().trim()) else {
        app.wrong_tokens.take(&peer.key(), now_ns);
        return Ok(html(StatusCode::UNAUTHORIZED, text(&LoginPage { here: "", wrong: true })));
    };
    let mut response = see("/");
    let cookie =
        format!("{SESSION_COOKIE}={session}; Path=/; Secure; HttpOnly; SameSite=Strict; Max-Age=43200");
    response.headers_mut().insert(SET_COOKIE, HeaderValue::from_str(&cookie).expect("hexadecimal digits"));
    Ok(response)
}

/// `POST /logout`: ends the session.
pub(crate) async fn logout(State(app): Shared, request: Request) -> Answer {
    let headers = request.headers().clone();
    form(&app, request).await?;
    app.access.log_out(&headers);
    // Its streams end.
    app.now.send_modify(|_| ());
    Ok(see("/login"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_has_every_filter_of_this_one() {
        let query = "label=a%3D1&label=b&tag=x&tag=y&text=p+q&kind=load&kind=&page=3";
        let link = page_link(&Fields::of(query.as_bytes()), 2);
        assert_eq!(link, "/runs?text=p%20q&kind=load&label=a%3D1&label=b&tag=x&tag=y&page=2");
    }
}
