//! `/api/v1/runs/ID/export`: the numbers of a run for another program, as `bakeoff runs export` writes them.
//!
//! A thread reads the run and writes it in parts, so memory holds the run but not its text. The answer begins
//! when the first part is full or the text is whole: then its status is known. One run is read at a time, by
//! the thread that has the turn: an export with a slow client is cut off after a while if others wait. A
//! client has one export at a time, and a limited time for its last parts.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use archive::{Archive, ArchiveError, Format};
use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::header::CONTENT_DISPOSITION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use record::clock::{Clock as _, Monotonic};
use record::run::RunId;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use crate::answer::{Format as Of, answer, busy, error, of_archive};
use crate::app::App;
use crate::guard::Fields;
use crate::identity::Peer;
use crate::memory;
use crate::pages::{aside, find};
use crate::stream::Timed;

/// Largest run, in bytes as stored. A load of 3 s had 36 kB, and 650 kB as CSV.
const STORED_BYTES_MAX: u64 = 32 << 20;
/// Length of a part.
const PART_BYTES: usize = 64 << 10;
/// Parts that wait for the client.
const PARTS_MAX: usize = 16;
/// Time that an export waits for its turn.
const TURN_TIME: Duration = Duration::from_secs(15);
/// Time that an export has the turn while others wait for it.
const AWAITED_NS_MAX: u64 = 10_000_000_000;
/// Pause before a part is offered to a slow client again.
const OFFER_EVERY: Duration = Duration::from_millis(10);

/// Beginning of an export.
enum Begun {
    /// The text, and whether it has any number.
    Whole(Vec<u8>, bool),
    /// The first part is full.
    Long,
}

type First = oneshot::Sender<Result<Begun, ArchiveError>>;

/// `GET /api/v1/runs/ID/export?format=FORMAT`.
pub(crate) async fn export(
    State(app): State<Arc<App>>,
    Extension(peer): Extension<Peer>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let no = |status, text: &str| error(Of::Document, status, text);
    let format = match wanted(query.unwrap_or_default().as_bytes()) {
        Ok(format) => format,
        Err(why) => return no(StatusCode::BAD_REQUEST, &why),
    };
    let place = app.exports_of_peers.enter(peer.key()).zip(app.exports.clone().try_acquire_owned().ok());
    let Some(place) = place else {
        return no(StatusCode::TOO_MANY_REQUESTS, "too many exports at a time");
    };
    let Ok(turn) = tokio::time::timeout(TURN_TIME, app.turn()).await else {
        return busy(Of::Document);
    };
    let sized = aside(&app, move |app| {
        let id = find(app, &id)?;
        Ok((id, stored_bytes(&app.archive, id)?))
    });
    let id = match sized.await {
        Ok((id, bytes)) if bytes <= STORED_BYTES_MAX => id,
        Ok((id, _)) => {
            let text =
                format!("the run is too large: use `bakeoff runs export {id}` on the server's machine");
            return no(StatusCode::PAYLOAD_TOO_LARGE, &text);
        }
        Err(why) => return of_archive(Of::Document, &why),
    };
    let body = match begin(&app, id, format, turn).await {
        Some(Ok((Begun::Whole(_, false), _))) if format != Format::Json => {
            let text = "the run has no numbers: nothing of it was measured (format=json has the rest)";
            return no(StatusCode::UNPROCESSABLE_ENTITY, text);
        }
        Some(Ok((Begun::Whole(text, _), _))) => Body::from(text),
        Some(Ok((Begun::Long, Rest { parts, written }))) => {
            let (body, end) = Timed::new(parts, place, || Cut);
            let time = app.exports_rest_time;
            tokio::spawn(async move {
                // Whether its thread has written all, or failed.
                let _ = written.await;
                tokio::time::sleep(time).await;
                end.now();
            });
            Body::new(body)
        }
        Some(Err(why)) => return of_archive(Of::Document, &why),
        None => return no(StatusCode::INTERNAL_SERVER_ERROR, "the export failed"),
    };
    let (content_type, ending) = match format {
        Format::Csv => ("text/csv; charset=utf-8", "csv"),
        Format::Json => ("application/json", "json"),
        Format::Parquet => ("application/vnd.apache.parquet", "parquet"),
        Format::OpenMetrics => (crate::metrics::TYPE, "txt"),
    };
    let mut response = answer(StatusCode::OK, content_type, body);
    let name = format!("attachment; filename=\"bakeoff-{id}.{ending}\"");
    response
        .headers_mut()
        .insert(CONTENT_DISPOSITION, HeaderValue::from_str(&name).expect("an id has letters and digits"));
    response
}

/// The parts of a long export.
struct Rest {
    parts: mpsc::Receiver<Result<Bytes, Cut>>,
    /// Ends when nothing but the last parts is left to send.
    written: oneshot::Receiver<()>,
}

/// Begins to write the run; `None` if its thread failed.
async fn begin(
    app: &Arc<App>,
    id: RunId,
    format: Format,
    turn: OwnedSemaphorePermit,
) -> Option<Result<(Begun, Rest), ArchiveError>> {
    let ((first, begun), (sender, parts)) = (oneshot::channel(), mpsc::channel(PARTS_MAX));
    let (ended, written) = oneshot::channel();
    let app = app.clone();
    // A slow reader must not take a thread that pages need.
    let writer = std::thread::Builder::new().name("export".to_owned()).spawn(move || {
        let until_ns = Monotonic.now_ns().saturating_add(AWAITED_NS_MAX);
        let archive = app.archive.clone();
        let parts = Parts { part: Vec::new(), first: Some(first), sender, is_whole: false, until_ns, app };
        write(&archive, id, format, parts, (turn, ended));
    });
    writer.ok()?;
    Some(begun.await.ok()?.map(|begun| (begun, Rest { parts, written })))
}

fn wanted(query: &[u8]) -> Result<Format, String> {
    let known = || Format::ALL.map(|(word, _)| word).join(", ");
    let of = |word: &str| Format::ALL.into_iter().find(|(name, _)| *name == word).map(|(_, format)| format);
    let format = Fields::of(query).only(&["format"], &[])?.read("format", of, known)?;
    Ok(format.unwrap_or(Format::Json))
}

/// Bytes of the files of a run, or of the runs of a bake-off.
fn stored_bytes(archive: &Archive, id: RunId) -> Result<u64, ArchiveError> {
    let runs = if archive.is_bakeoff(id) {
        archive.standing(id)?.trials.into_iter().filter_map(|trial| trial.run).collect()
    } else {
        vec![id]
    };
    let of = |id: &RunId| {
        let files = std::fs::read_dir(archive.dir().join("runs").join(id.to_string())).into_iter().flatten();
        files.flatten().filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>()
    };
    Ok(runs.iter().map(of).sum())
}

/// - `held`: dropped when the run is written or cut off.
fn write(
    archive: &Archive,
    id: RunId,
    format: Format,
    mut parts: Parts,
    held: (OwnedSemaphorePermit, oneshot::Sender<()>),
) {
    let written = archive.export(id, format, &mut parts);
    // The run is no longer in memory. The client has a limited time to read the last parts.
    memory::trim();
    drop(held);
    let part = std::mem::take(&mut parts.part);
    // A reader that has gone needs neither.
    parts.is_whole = match (parts.first.take(), written) {
        (Some(first), written) => {
            first.send(written.map(|has_numbers| Begun::Whole(part, has_numbers))).is_ok()
        }
        (None, written) => written.is_ok() && parts.sender.blocking_send(Ok(part.into())).is_ok(),
    };
}

/// An export that ends before its text does. The connection is closed, so that a reader does not take the
/// beginning for the whole.
#[derive(Debug, thiserror::Error)]
#[error("the export was cut off")]
struct Cut;

/// Writer of the parts.
struct Parts {
    part: Vec<u8>,
    /// Present until the first part is full.
    first: Option<First>,
    sender: mpsc::Sender<Result<Bytes, Cut>>,
    is_whole: bool,
    /// Time until which others may wait for the turn.
    until_ns: u64,
    app: Arc<App>,
}

impl Parts {
    /// Hands a part over, as soon as the client has read the earlier ones.
    fn send(&self, part: Bytes) -> io::Result<()> {
        let mut offered = Ok(part);
        loop {
            offered = match self.sender.try_send(offered) {
                Ok(()) => return Ok(()),
                Err(TrySendError::Closed(_)) => return Err(io::ErrorKind::BrokenPipe.into()),
                Err(TrySendError::Full(part)) => part,
            };
            if Monotonic.now_ns() > self.until_ns && self.app.is_awaited() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::sleep(OFFER_EVERY);
        }
    }
}

impl Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A text may have some MiB: a part does not.
        let bytes = &bytes[..bytes.len().min(PART_BYTES - self.part.len())];
        self.part.extend_from_slice(bytes);
        if self.part.len() == PART_BYTES {
            if let Some(first) = self.first.take() {
                first.send(Ok(Begun::Long)).map_err(|_| io::ErrorKind::BrokenPipe)?;
            }
            let part = std::mem::take(&mut self.part).into();
            self.send(part)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        // Also if the thread panicked.
        if self.first.is_none() && !self.is_whole {
            let _ = self.sender.blocking_send(Err(Cut));
        }
    }
}
