//! Requests to a server: what `bakeoff queue` sends.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::error::ServeError;
use crate::place::{Server, host_of, with_port};
use crate::tls;

/// Time for a request and its answer.
const TIME: Duration = Duration::from_mins(1);
/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of a server.
#[derive(Debug)]
pub struct Client {
    server: Server,
    token: Option<String>,
    ca: Option<PathBuf>,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// - `ca`: authority of the server's certificate; `None` for those of this machine.
    ///
    /// # Errors
    ///
    /// The system refuses a timer.
    pub fn new(server: Server, token: Option<String>, ca: Option<PathBuf>) -> Result<Self, ServeError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|source| ServeError::Threads { source })?;
        Ok(Self { server, token, ca, runtime })
    }

    /// Submits a plan; returns its entry.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses the plan.
    pub fn submit(
        &self,
        plan: &str,
        priority: i32,
        not_before: Option<&str>,
        by: Option<&str>,
    ) -> Result<Value, ServeError> {
        let document = json!({"plan": plan, "priority": priority, "not_before": not_before, "by": by});
        self.send("POST", "/api/v1/queue", Some(&document))
    }

    /// The document of the queue.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub fn entries(&self) -> Result<Value, ServeError> {
        self.send("GET", "/api/v1/queue", None)
    }

    /// The document of an entry.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or has no such entry.
    pub fn entry(&self, id: &str) -> Result<Value, ServeError> {
        self.send("GET", &format!("/api/v1/queue/{}", segment(id)), None)
    }

    /// Pauses, continues or cancels an entry; returns it.
    ///
    /// - `action`: `pause`, `resume` or `cancel`.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub fn act(&self, id: &str, action: &str) -> Result<Value, ServeError> {
        self.send("POST", &format!("/api/v1/queue/{}/{action}", segment(id)), Some(&json!({})))
    }

    /// Sends a document.
    pub(crate) fn post(&self, path: &str, document: &Value) -> Result<Value, ServeError> {
        self.send("POST", path, Some(document))
    }

    fn send(&self, method: &str, path: &str, document: Option<&Value>) -> Result<Value, ServeError> {
        let unreachable =
            |source: io::Error| ServeError::Unreachable { server: self.server.to_string(), source };
        let body = document.map(ToString::to_string).unwrap_or_default();
        let authority = match &self.server {
            Server::Unix(_) => "localhost",
            Server::Http { authority } | Server::Https { authority } => authority,
        };
        let mut request = Request::builder().method(method).uri(path).header(HOST, authority);
        if document.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body)));
        let request = request.map_err(|e| unreachable(io::Error::new(io::ErrorKind::InvalidInput, e)))?;
        let tls = match &self.server {
            Server::Https { authority } => {
                Some((tls::client(self.ca.as_deref())?, host_of(authority).to_owned()))
            }
            _ => None,
        };
        let exchange = async {
            match &self.server {
                Server::Unix(path) => ask(local(path).await?, request).await,
                Server::Http { authority } => {
                    ask(TcpStream::connect(with_port(authority, 80)).await?, request).await
                }
                Server::Https { authority } => {
                    let stream = TcpStream::connect(with_port(authority, 443)).await?;
                    let (config, host) = tls.expect("made above");
                    let name = ServerName::try_from(host).map_err(io::Error::other)?;
                    ask(TlsConnector::from(config).connect(name, stream).await?, request).await
                }
            }
        };
        let timed =
            async { tokio::time::timeout(TIME, exchange).await.unwrap_or_else(|late| Err(late.into())) };
        let (status, bytes) = self.runtime.block_on(timed).map_err(unreachable)?;
        let value: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        if (200..300).contains(&status) {
            return Ok(value);
        }
        let told =
            value["error"].as_str().map_or_else(|| format!("the server answered {status}"), str::to_owned);
        let problems = value["problems"].as_array().map(Vec::as_slice).unwrap_or_default();
        let lines = problems.iter().skip(1).filter_map(|problem| {
            Some(format!("\n{}:{}: {}", problem["line"], problem["column"], problem["text"].as_str()?))
        });
        Err(ServeError::Refused { status, text: told + &lines.collect::<String>() })
    }
}

/// Connects to a socket of this machine. Its name may have 107 bytes at most; through its folder's
/// descriptor a longer path is short.
async fn local(path: &Path) -> io::Result<UnixStream> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return UnixStream::connect(path).await;
    };
    let folder = std::fs::File::open(if folder.as_os_str().is_empty() { Path::new(".") } else { folder })?;
    let short = Path::new("/proc/self/fd").join(folder.as_fd().as_raw_fd().to_string()).join(name);
    UnixStream::connect(short).await
}

async fn ask(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    request: Request<Full<Bytes>>,
) -> io::Result<(u16, Bytes)> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let running = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    running.abort();
    Ok((status, body.to_bytes()))
}

/// A part of a path: other characters than those of ids are left out.
fn segment(id: &str) -> String {
    let kept: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    if kept.is_empty() { "-".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(segment("../runs?x#y"), "runsxy");
        assert_eq!(segment("/"), "-");
    }
}
