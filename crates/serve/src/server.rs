//! The server: its threads, its routes, and its end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::WorkerLock;
use axum::Router;
use axum::http::{StatusCode, Uri};
use axum::middleware::from_fn_with_state;
use axum::response::Response;
use axum::routing::{get, post};
use tokio_rustls::TlsAcceptor;

use crate::answer::{asset, error};
use crate::app::App;
use crate::error::ServeError;
use crate::guard::{format_of, guard};
use crate::identity::Access;
use crate::instruments::Instruments;
use crate::listen::{LocalSocket, serve_local, serve_tcp, tcp};
use crate::priority::yield_to_loads;
use crate::settings::Settings;
use crate::webhook::Webhook;
use crate::worker::Worker;
use crate::{api, export, metrics, pages, tls};

/// Interval between two states that viewers get.
const NOW_EVERY: Duration = Duration::from_millis(500);
/// Rest between two pieces of the work for such a state, in which a load beside the server gets the CPU.
const REST: Duration = Duration::from_millis(1);
/// Interval between two looks at the request to stop.
const STOP_LOOK: Duration = Duration::from_millis(100);

/// Serves until `stop` says to end.
///
/// - `stop`: 0 to go on, 1 to end after the current trial, 2 to end at once.
/// - `say`: gets lines for the user.
///
/// # Errors
///
/// [`ServeError`] if the settings are unsafe, or the address, a credential or the archive cannot be used.
#[expect(clippy::needless_pass_by_value, reason = "threads that outlive the call share it")]
pub fn serve(
    settings: &Settings,
    stop: Arc<dyn Fn() -> u8 + Send + Sync>,
    say: &mut dyn FnMut(&str),
) -> Result<(), ServeError> {
    settings.check()?;
    let config =
        settings.tls.as_ref().map(|files| tls::server(files, settings.client_ca.as_deref())).transpose()?;
    let access = Access::new(settings.token_file.as_deref(), settings.client_ca.is_some(), settings.queue)?;
    let lock = if settings.queue { Some(worker_lock(settings)?) } else { None };
    let queue = lock.as_ref().map(|_| settings.archive.queue()).transpose()?;
    let queue = queue.map(|queue| Arc::new(Mutex::new(queue)));
    let trouble: Arc<Mutex<Option<String>>> = Arc::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(8).build();
    let runtime = runtime.map_err(|source| ServeError::Threads { source })?;
    let listener = runtime.block_on(tcp(settings.listen))?;
    let address = listener.local_addr().map_err(|source| ServeError::Threads { source })?;
    // Before any thread: one that has begun ends only with the server.
    let local = if settings.queue {
        Some(runtime.block_on(LocalSocket::bind(settings.archive.dir()))?)
    } else {
        None
    };
    let instruments: Arc<Instruments> = Arc::default();
    let mut app = App::new(settings, queue.clone(), access, instruments.clone(), trouble.clone())?;
    app.is_tls = config.is_some();
    app.hosts = hosts(settings, address.port());
    let app = Arc::new(app);
    let is_over = Arc::new(AtomicBool::new(false));
    // The instruments need the rights that the other threads give up.
    let mut all = beside(settings, &instruments, queue.as_ref(), &is_over)?;
    all.extend(threads(settings, &app, &is_over)?);
    let worker = if let Some(queue) = queue {
        let (archive, program, bell) = (settings.archive.clone(), settings.program.clone(), app.bell.clone());
        let worker = Worker { archive, queue, bell, program, stop: stop.clone(), trouble };
        Some(spawn("worker", move || worker.work())?)
    } else {
        None
    };
    let announced = announcement(settings, address, config.is_some());
    // What the worker and the instruments start keeps the niceness of this process.
    yield_to_loads();
    runtime.block_on(async {
        let router = router(&app);
        tokio::spawn(serve_tcp(listener, config.map(TlsAcceptor::from), router.clone()));
        let local = local.map(|socket| tokio::spawn(serve_local(socket, router)));
        say(&announced);
        while stop() == 0 {
            tokio::time::sleep(STOP_LOOK).await;
        }
        if let Some(local) = local {
            local.abort();
            let _ = local.await;
        }
    });
    is_over.store(true, Ordering::Release);
    if settings.queue {
        say("stopping after the trial, or the block in slices; Ctrl-C again stops it at once");
    }
    app.bell.ring();
    // A thread that panicked has said so.
    let _ = worker.map(Thread::join);
    // The next server may begin.
    drop(lock);
    for thread in all {
        let _ = thread.join();
    }
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(())
}

fn worker_lock(settings: &Settings) -> Result<WorkerLock, ServeError> {
    let lock = settings.archive.queue_worker()?;
    lock.ok_or_else(|| ServeError::SecondWorker { folder: settings.archive.dir().to_owned() })
}

fn announcement(settings: &Settings, address: std::net::SocketAddr, is_tls: bool) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    let what = if settings.queue { "queue and archive" } else { "archive, read-only" };
    format!("{scheme}://{address}/  {what}: {}", settings.archive.dir().display())
}

/// Names under which a browser may reach a server on loopback. Over TLS the certificate says which names are
/// ours, and a page of another site cannot use them.
fn hosts(settings: &Settings, port: u16) -> Vec<String> {
    if settings.tls.is_some() {
        return Vec::new();
    }
    let names = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter();
    let own = std::iter::once(match settings.listen.ip() {
        std::net::IpAddr::V4(ip) => ip.to_string(),
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
    });
    let names = names.chain(own).chain(settings.names.iter().cloned());
    names.flat_map(|name| [format!("{name}:{port}"), name]).collect()
}

type Thread = std::thread::JoinHandle<()>;

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<Thread, ServeError> {
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    thread.map_err(|source| ServeError::Threads { source })
}

/// Threads that follow the archive and what runs. They, this thread and those that it starts later are
/// confined, as the settings say.
fn threads(
    settings: &Settings,
    app: &Arc<App>,
    is_over: &Arc<AtomicBool>,
) -> Result<Vec<Thread>, ServeError> {
    if let Some(confine) = settings.confine {
        confine(settings.archive.dir());
    }
    let (of_listing, over) = (app.clone(), is_over.clone());
    let (of_now, over_too) = (app.clone(), is_over.clone());
    Ok(vec![
        spawn("listing", move || {
            yield_to_loads();
            of_listing.listing.follow(|| over.load(Ordering::Acquire));
        })?,
        spawn("now", move || {
            yield_to_loads();
            follow(&of_now, &over_too);
        })?,
    ])
}

/// Threads of the instruments. That of the webhook is not waited for at the end: its receiver may hang, and
/// the next server tells what this one has not.
fn beside(
    settings: &Settings,
    instruments: &Arc<Instruments>,
    queue: Option<&Arc<Mutex<archive::Queue>>>,
    is_over: &Arc<AtomicBool>,
) -> Result<Vec<Thread>, ServeError> {
    let mut threads = Vec::new();
    for name in settings.instruments.iter().copied() {
        let (instruments, program, over) = (instruments.clone(), settings.program.clone(), is_over.clone());
        let work = move || instruments.follow(name, &program, &|| over.load(Ordering::Acquire));
        threads.push(spawn(name, work)?);
    }
    if !settings.instruments.is_empty() {
        // A thread that is confined could not end their processes, and would wait for them.
        let (of_instruments, over) = (instruments.clone(), is_over.clone());
        threads.push(spawn("ending", move || {
            while !over.load(Ordering::Acquire) {
                std::thread::sleep(NOW_EVERY / 5);
            }
            of_instruments.end();
        })?);
    }
    if let (Some(url), Some(queue)) = (&settings.webhook, queue) {
        let (webhook, over) = (Webhook::new(url, queue.clone())?, is_over.clone());
        spawn("webhook", move || webhook.follow(&|| over.load(Ordering::Acquire)))?;
    }
    Ok(threads)
}

/// Hands the state of each moment to the viewers, if there are any.
fn follow(app: &App, is_over: &AtomicBool) {
    while !is_over.load(Ordering::Acquire) {
        std::thread::sleep(NOW_EVERY);
        app.tell(|| app.monitor.look(), &|| std::thread::sleep(REST));
    }
}

/// Routes of all pages and documents.
pub(crate) fn router(app: &Arc<App>) -> Router {
    let css = || async { asset("text/css; charset=utf-8", include_str!("../assets/style.css")) };
    let script = || async { asset("text/javascript; charset=utf-8", include_str!("../assets/page.js")) };
    Router::new()
        .route("/", get(pages::home))
        .route("/events", get(api::page_events))
        .route("/queue/{id}", get(pages::entry))
        .route("/queue/{id}/{action}", post(pages::act))
        .route("/runs", get(pages::runs))
        .route("/runs/{id}", get(pages::run))
        .route("/runs/{id}/about", get(pages::about))
        .route("/runs/{id}/delete", post(pages::delete))
        .route("/runs/{id}/note", post(pages::note))
        .route("/compare", get(pages::compare))
        .route("/history", get(pages::history))
        .route("/history/figures", get(pages::history_figures))
        .route("/hosts", get(pages::hosts))
        .route("/plans/new", get(pages::plan_form).post(pages::plan))
        .route("/login", get(pages::login_form).post(pages::login))
        .route("/logout", post(pages::logout))
        .route("/assets/style.css", get(css))
        .route("/assets/page.js", get(script))
        .route("/api/v1/queue", get(api::queue).post(api::submit))
        .route("/api/v1/queue/{id}", get(api::entry))
        .route("/api/v1/queue/{id}/plan", get(api::entry_plan))
        .route("/api/v1/queue/{id}/output", get(api::entry_output))
        .route("/api/v1/queue/{id}/{action}", post(api::act))
        .route("/api/v1/runs", get(api::runs))
        .route("/api/v1/runs/{id}", get(api::run).delete(api::remove))
        .route("/api/v1/runs/{id}/export", get(export::export))
        .route("/api/v1/runs/{id}/note", get(api::note).put(api::set_note))
        .route("/api/v1/compare", get(api::compare))
        .route("/api/v1/history", get(api::history))
        .route("/api/v1/hosts", get(api::hosts))
        .route("/api/v1/events", get(api::events))
        .route("/api/v1/now", get(api::now))
        .route("/api/v1/plans/check", post(api::plan_check))
        .route("/openapi.json", get(api::openapi))
        .route("/metrics", get(metrics::metrics))
        .route("/healthz", get(api::healthz))
        .fallback(nothing)
        .method_not_allowed_fallback(not_so)
        .layer(from_fn_with_state(app.clone(), guard))
        .with_state(app.clone())
}

async fn nothing(uri: Uri) -> Response {
    error(format_of(&uri), StatusCode::NOT_FOUND, "there is no such page")
}

async fn not_so(uri: Uri) -> Response {
    error(format_of(&uri), StatusCode::METHOD_NOT_ALLOWED, "this address does not accept this method")
}
