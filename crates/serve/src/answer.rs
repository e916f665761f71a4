//! Answers, with the headers that keep browsers from doing more than a page needs.

use std::sync::LazyLock;

use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, LOCATION, REFERRER_POLICY, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::app::ChangeError;
use crate::printer::PrintError;

/// Policy of our pages: everything from this server, and no script or style within a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
/// Policy of the page of a run, which contains its style. It sends nothing. It runs only the script
/// that this version writes into pages, by its checksum, without the origin of this server.
static PAGE_POLICY: LazyLock<String> = LazyLock::new(|| {
    let checksum = STANDARD.encode(Sha256::digest(report::PAGE_SCRIPT));
    format!(
        "default-src 'none'; script-src 'sha256-{checksum}'; style-src 'unsafe-inline'; img-src data:; \
         sandbox allow-popups allow-scripts; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    )
});

/// Format of an answer's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Page,
    Document,
}

/// An answer that ends the handling of a request.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Response>);

impl From<Response> for Refusal {
    fn from(response: Response) -> Self {
        Self(Box::new(response))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        *self.0
    }
}

/// An answer with the usual headers.
pub(crate) fn answer(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    guard_headers(response.headers_mut(), POLICY);
    response
}

fn guard_headers(headers: &mut HeaderMap, policy: &'static str) {
    for (name, value) in [
        (CONTENT_SECURITY_POLICY, policy),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // `no-referrer` would also hide the origin of our own forms.
        (REFERRER_POLICY, "same-origin"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// A page of ours.
pub(crate) fn html(status: StatusCode, text: String) -> Response {
    answer(status, "text/html; charset=utf-8", text)
}

/// A run's page, as it is.
pub(crate) fn run_page(text: Bytes) -> Response {
    let mut response = answer(StatusCode::OK, "text/html; charset=utf-8", text);
    guard_headers(response.headers_mut(), &PAGE_POLICY);
    response
}

/// A document.
pub(crate) fn document(status: StatusCode, value: &Value) -> Response {
    answer(status, "application/json", format!("{value}\n"))
}

/// A file that the binary holds. It may be stored by the browser for a while.
pub(crate) fn asset(content_type: &'static str, text: &'static str) -> Response {
    let mut response = answer(StatusCode::OK, content_type, text);
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
    response
}

/// Leads a browser to another page of this server, after a form.
pub(crate) fn see(place: &str) -> Response {
    let mut response = answer(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(place) = HeaderValue::from_str(place) {
        response.headers_mut().insert(LOCATION, place);
    }
    response
}

/// An error in the form of the request.
pub(crate) fn error(format: Format, status: StatusCode, text: &str) -> Response {
    let mut response = match format {
        Format::Document => {
            document(status, &json!({"schema": "bakeoff.error/1", "status": status.as_u16(), "error": text}))
        }
        Format::Page => html(status, crate::view_page::message(status, text)),
    };
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("10"));
    }
    response
}

/// The answer to a request for which others leave no memory.
pub(crate) fn busy(format: Format) -> Response {
    error(format, StatusCode::SERVICE_UNAVAILABLE, "others read too much at this moment: try again")
}

/// The answer to a change that was not made.
pub(crate) fn refused(format: Format, why: &ChangeError) -> Response {
    use archive::QueueError;
    let status = match why {
        ChangeError::NoQueue => StatusCode::FORBIDDEN,
        ChangeError::Queue(QueueError::NotFound { .. }) => StatusCode::NOT_FOUND,
        ChangeError::Changed
        | ChangeError::Queue(
            QueueError::Refused(_) | QueueError::Ambiguous { .. } | QueueError::Taken { .. },
        ) => StatusCode::CONFLICT,
        ChangeError::Note(_) if format == Format::Document => StatusCode::BAD_REQUEST,
        ChangeError::Queue(QueueError::Full) => StatusCode::TOO_MANY_REQUESTS,
        ChangeError::Note(_) | ChangeError::Queue(QueueError::Secret) => StatusCode::UNPROCESSABLE_ENTITY,
        ChangeError::Archive(e) | ChangeError::Queue(QueueError::Archive(e)) => return of_archive(format, e),
        ChangeError::Queue(QueueError::Database { .. }) => {
            let text = "the queue cannot be read or written";
            return error(format, StatusCode::INTERNAL_SERVER_ERROR, text);
        }
    };
    error(format, status, &why.to_string())
}

/// The answer to something that cannot be printed.
pub(crate) fn unprinted(format: Format, why: &PrintError) -> Response {
    match why {
        PrintError::Archive(why) => of_archive(format, why),
        PrintError::Unfit { why } => error(format, StatusCode::UNPROCESSABLE_ENTITY, why),
    }
}

/// The answer to an error of the archive. Its paths are those of this server: they are left out.
pub(crate) fn of_archive(format: Format, why: &archive::ArchiveError) -> Response {
    use archive::ArchiveError::{Ambiguous, Busy, NotFound, PartOfBakeoff, Queued, TooLong};
    match why {
        NotFound { .. } => error(format, StatusCode::NOT_FOUND, &why.to_string()),
        TooLong { .. } => error(format, StatusCode::PAYLOAD_TOO_LARGE, &why.to_string()),
        Ambiguous { .. } | Busy { .. } | PartOfBakeoff { .. } | Queued { .. } => {
            error(format, StatusCode::CONFLICT, &why.to_string())
        }
        _ if why.is_damage() => {
            error(format, StatusCode::INTERNAL_SERVER_ERROR, "it is damaged: `bakeoff runs verify` says how")
        }
        _ => error(format, StatusCode::INTERNAL_SERVER_ERROR, "the archive cannot be read or written"),
    }
}
