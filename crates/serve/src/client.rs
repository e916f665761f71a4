//! Requests to a server: what `bakeoff queue` sends.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST, RETRY_AFTER};
use confine::peer::is_ours;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use record::clock::{Clock as _, Monotonic, WallAnchor};
use record::run::RunId;
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
/// Pause before a submission is repeated after a lost answer.
const SUBMIT_AGAIN: Duration = Duration::from_millis(500);
/// Reason that a token was not sent.
const TOKEN_KEPT: &str = "the process that listens there belongs to another user, or its user is unknown: the token is \
                          not sent; use the server's unix socket or https";
/// Largest answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// A client of a server.
#[derive(Debug)]
pub struct Client {
    server: Server,
    token: Option<String>,
    ca: Option<PathBuf>,
    time: Duration,
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
        Ok(Self { server, token, ca, time: TIME, runtime })
    }

    /// The same with another time for a request and its answer.
    pub(crate) fn within(self, time: Duration) -> Self {
        Self { time, ..self }
    }

    /// Submits a plan; returns its entry. If the answer is lost, the request is repeated: the server knows it
    /// by its id.
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
        let id = RunId::fresh(WallAnchor::now()).to_string();
        let document =
            json!({"plan": plan, "priority": priority, "not_before": not_before, "by": by, "id": id});
        let until_ns =
            Monotonic.now_ns().saturating_add(u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX));
        let mut is_lost = false;
        loop {
            match self.ask_serve("POST", "/api/v1/queue", Some(&document)) {
                // Without a server, the first try has sent nothing.
                Err(ServeError::Unreachable { server, source }) if is_lost || may_have_arrived(&source) => {
                    if Monotonic.now_ns() >= until_ns {
                        return Err(ServeError::Unanswered { server, id, source });
                    }
                }
                answered => return answered,
            }
            is_lost = true;
            std::thread::sleep(SUBMIT_AGAIN);
        }
    }

    /// The document of the queue.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub fn entries(&self) -> Result<Value, ServeError> {
        self.ask_serve("GET", "/api/v1/queue", None)
    }

    /// The document of an entry.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or has no such entry.
    pub fn entry(&self, id: &str) -> Result<Value, ServeError> {
        self.ask_serve("GET", &format!("/api/v1/queue/{}", segment(id)), None)
    }

    /// Pauses, continues or cancels an entry; returns it.
    ///
    /// - `action`: `pause`, `resume` or `cancel`.
    ///
    /// # Errors
    ///
    /// The server cannot be reached, or refuses.
    pub fn act(&self, id: &str, action: &str) -> Result<Value, ServeError> {
        self.ask_serve("POST", &format!("/api/v1/queue/{}/{action}", segment(id)), Some(&json!({})))
    }

    /// Sends a document.
    pub(crate) fn post(&self, path: &str, document: &Value) -> Result<Value, ServeError> {
        self.send("POST", path, Some(document))
    }

    /// Sends a request that is answered with an entry or the queue.
    fn ask_serve(&self, method: &str, path: &str, document: Option<&Value>) -> Result<Value, ServeError> {
        let value = self.send(method, path, document)?;
        let is_answer = value["id"].is_string() || value["entries"].is_array();
        is_answer.then_some(value).ok_or_else(|| ServeError::Foreign { server: self.server.to_string() })
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
                    let stream = TcpStream::connect(with_port(authority, 80)).await?;
                    if self.token.is_some() && !is_ours(stream.peer_addr()?, stream.local_addr()?) {
                        return Err(io::Error::new(io::ErrorKind::PermissionDenied, TOKEN_KEPT));
                    }
                    ask(stream, request).await
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
            async { tokio::time::timeout(self.time, exchange).await.unwrap_or_else(|late| Err(late.into())) };
        let Answer { status, retry_after_s, bytes } = self.runtime.block_on(timed).map_err(unreachable)?;
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
        Err(ServeError::Refused { status, retry_after_s, text: told + &lines.collect::<String>() })
    }
}

/// An answer of a server.
struct Answer {
    status: u16,
    retry_after_s: Option<u64>,
    bytes: Bytes,
}

/// Whether a server may have got a request that failed so.
fn may_have_arrived(why: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, InvalidInput, NotFound, PermissionDenied};
    !matches!(why.kind(), ConnectionRefused | InvalidInput | NotFound | PermissionDenied)
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
) -> io::Result<Answer> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
    let running = tokio::spawn(connection);
    let response = sender.send_request(request).await.map_err(io::Error::other)?;
    let status = response.status().as_u16();
    let retry_after_s = response.headers().get(RETRY_AFTER).and_then(|v| v.to_str().ok()?.parse().ok());
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    running.abort();
    Ok(Answer { status, retry_after_s, bytes: body.to_bytes() })
}

/// A part of a path: other characters than those of ids are left out.
fn segment(id: &str) -> String {
    let kept: String = id.chars().filter(char::is_ascii_alphanumeric).collect();
    if kept.is_empty() { "-".to_owned() } else { kept }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client, and the bodies of the requests that its server got. Each gets the next of these answers.
    fn with_server(answers: &[&'static str]) -> (Client, std::thread::JoinHandle<Vec<Value>>) {
        use std::io::{Read as _, Write as _};
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let answers = answers.to_vec();
        let got = std::thread::spawn(move || {
            let take = |answer: &str| {
                let (mut stream, _) = listener.accept().unwrap();
                let (mut text, mut bytes) = (String::new(), [0; 4096]);
                while !text.ends_with('}') {
                    let n = stream.read(&mut bytes).unwrap();
                    assert!(n > 0, "the request is cut off: {text}");
                    text.push_str(std::str::from_utf8(&bytes[..n]).unwrap());
                }
                stream.write_all(answer.as_bytes()).unwrap();
                serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
            };
            answers.iter().map(|answer| take(answer)).collect()
        });
        (Client::new(server, None, None).unwrap(), got)
    }

    #[test]
    fn a_submission_whose_answer_is_lost_is_repeated_under_its_id() {
        let made = "HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{\"id\":\"x\"}";
        let (client, got) = with_server(&["", made]);
        assert_eq!(client.submit("x", 0, None, None).unwrap()["id"], "x");
        let got = got.join().unwrap();
        assert!(got[0]["id"].is_string() && got[0] == got[1], "{got:?}");
        // A server that is gone may have queued it.
        let (client, got) = with_server(&[""]);
        let error = client.within(Duration::from_secs(1)).submit("x", 0, None, None).unwrap_err();
        let id = got.join().unwrap()[0]["id"].as_str().unwrap().to_owned();
        assert!(matches!(&error, ServeError::Unanswered { id: told, .. } if *told == id), "{error}");
    }

    #[test]
    fn a_server_that_is_busy_says_when_to_ask_again() {
        let of = |answer| {
            let (client, _) = with_server(&[answer]);
            let error = client.act("x", "pause").unwrap_err();
            (error.is_usage(), error.later())
        };
        let (seconds, empty) = (Duration::from_secs, "Content-Length: 0\r\n\r\n");
        let busy = |head: &str| -> &'static str { Box::leak(format!("HTTP/1.1 {head}\r\n{empty}").into()) };
        assert_eq!(of(busy("429 Too Many Requests\r\nRetry-After: 10")), (false, Some(seconds(10))));
        assert_eq!(of(busy("429 Too Many Requests\r\nRetry-After: 86400")), (false, Some(seconds(60))));
        assert_eq!(of(busy("408 Request Timeout")), (false, Some(seconds(0))));
        assert_eq!(of(busy("404 Not Found")), (true, None));
        assert_eq!(of(busy("503 Service Unavailable")), (false, None));
    }

    #[test]
    fn a_receiver_cannot_send_a_client_elsewhere() {
        let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        other.set_nonblocking(true).unwrap();
        let place = format!("http://{}/latest/meta-data/", other.local_addr().unwrap());
        let head =
            format!("HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n");
        let (client, got) = with_server(&[Box::leak(head.into())]);
        let refused = client.post("/hook", &json!({"id": "x"})).unwrap_err();
        assert!(matches!(refused, ServeError::Refused { status: 307, .. }), "{refused}");
        got.join().unwrap();
        assert_eq!(other.accept().map(drop).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn an_answer_of_another_program_is_no_entry() {
        for body in ["not json", "{}", "[]", "{\"id\":7}"] {
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            let (client, _) = with_server(&[Box::leak(answer.into())]);
            let told = client.act("x", "pause").unwrap_err();
            assert!(matches!(told, ServeError::Foreign { .. }), "{body}: {told}");
        }
    }

    #[test]
    fn a_token_is_sent_to_a_server_of_this_user() {
        let entry = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{\"id\":\"x\"}";
        let (client, got) = with_server(&[entry]);
        let client = Client { token: Some("a-token-of-twenty-letters".into()), ..client };
        assert_eq!(client.act("x", "pause").unwrap()["id"], "x");
        got.join().unwrap();
    }

    #[test]
    fn a_token_is_not_sent_to_another_users_listener() {
        use std::io::Read as _;

        use nix::unistd::{Uid, geteuid, setfsuid};
        if !geteuid().is_root() {
            return eprintln!("skipped: only root can be another user too");
        }
        // A socket belongs to the user for files of the thread that makes it.
        setfsuid(Uid::from_raw(65_534));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        setfsuid(Uid::from_raw(0));
        let server = Server::Http { authority: listener.local_addr().unwrap().to_string() };
        let client = Client::new(server, Some("a-token-of-twenty-letters".into()), None).unwrap();
        let told = client.entries().unwrap_err();
        let ServeError::Unreachable { source, .. } = &told else { panic!("{told}") };
        assert!(source.to_string().contains("belongs to another user"), "{source}");
        let (mut stream, _) = listener.accept().unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
        assert!(got.is_empty(), "{}", String::from_utf8_lossy(&got));
    }

    #[test]
    fn an_id_cannot_leave_its_place_in_the_path() {
        assert_eq!(segment("../runs?x#y"), "runsxy");
        assert_eq!(segment("/"), "-");
    }
}
