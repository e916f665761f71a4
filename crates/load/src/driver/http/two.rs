//! HTTP/2: one request at a time on a connection, or several, each on a stream, by the library `h2`.
//!
//! The library reads and writes an asynchronous stream of bytes. It gets one in memory, and is polled when
//! bytes arrive or a request begins: no runtime, no thread, no timer. The timestamps of an event are taken at
//! the same points as for HTTP/1.1.

use std::future::Future;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::RecvStream;
use h2::client::{self, Connection, ResponseFuture, SendRequest};
use http::{HeaderName, HeaderValue, Method, Request as HttpRequest};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::checksum::Checksum;
use super::requests::{Asked, Request};
use super::writer::{Writer, judge, path_of};
use crate::connection::Answer;
use crate::connection::{Failure, FailureClass};
use crate::net::{Dialogue, Go, Parsed};
use crate::schedule::random::Random;

/// Flow-control window of a stream: so large that no answer waits for a window update.
const WINDOW_BYTES: u32 = 16 << 20;
/// Flow-control window of a connection.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;
/// Length limit of an answer's head.
const HEADERS_BYTES_MAX: u32 = 64 << 10;

/// Dialogue of one connection.
pub(super) struct DialogueTwo {
    requests: Arc<Vec<Request>>,
    /// The requests in the library's form.
    asks: Arc<Vec<RequestHead>>,
    weights: f64,
    pipe: Pipe,
    connection: Option<Connection<Pipe, Bytes>>,
    send: Option<SendRequest<Bytes>>,
    /// One lane per request that may be in flight.
    lanes: Vec<Lane>,
    /// Lane of the next request.
    turned_to: usize,
    /// Lane of the last answer.
    answered: usize,
    server: Option<String>,
    writer: Writer,
    scheme: &'static str,
    /// Buffer for a request that differs from event to event.
    room: Vec<u8>,
    /// Reason if the handshake failed.
    problem: Option<Failure>,
    /// The connection has ended, or accepts no more requests.
    is_over: bool,
}

/// One request in flight.
#[derive(Default)]
struct Lane {
    asked: Asked,
    answer: Part,
    status: u16,
    body: Checksum,
    /// Path of the last request, if its answer may set cookies.
    path: Vec<u8>,
}

/// A request in the library's form.
#[derive(Debug, Clone)]
pub(super) struct RequestHead {
    head: HttpRequest<()>,
    body: Bytes,
}

/// Next part of an answer.
#[derive(Default)]
enum Part {
    #[default]
    None,
    /// The request could not be sent.
    Failed(Failure),
    Head(ResponseFuture),
    Body(RecvStream),
}

impl RequestHead {
    /// Converts the bytes that HTTP/1.1 would send.
    pub(super) fn of(bytes: &[u8], scheme: &str) -> Result<Self, String> {
        let end = bytes.windows(4).position(|w| w == b"\r\n\r\n").expect("a request has a head");
        let text = std::str::from_utf8(&bytes[..end]).map_err(|_| "a header is not UTF-8".to_owned())?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let wrong = |what: &str| format!("`{what}` cannot be sent over HTTP/2");
        let mut head = HttpRequest::new(());
        *head.method_mut() = Method::from_bytes(method.as_bytes()).map_err(|_| wrong(method))?;
        for line in lines {
            let (name, value) = line.split_once(':').ok_or_else(|| wrong(line))?;
            let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong(line))?;
            if name == http::header::HOST {
                let uri = format!("{scheme}://{}{path}", value.trim());
                *head.uri_mut() = uri.parse().map_err(|_| wrong(&uri))?;
                continue;
            }
            // Headers of an HTTP/1.1 connection are invalid in HTTP/2.
            if matches!(name.as_str(), "connection" | "keep-alive" | "transfer-encoding" | "upgrade") {
                continue;
            }
            let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong(line))?;
            head.headers_mut().append(name, value);
        }
        Ok(Self { head, body: Bytes::copy_from_slice(&bytes[end + 4..]) })
    }
}

impl DialogueTwo {
    pub(super) fn new(
        requests: Arc<Vec<Request>>,
        asks: Arc<Vec<RequestHead>>,
        writer: Writer,
        is_secure: bool,
        streams: usize,
    ) -> Self {
        let weights = requests.iter().map(|r| r.weight).sum();
        Self {
            requests,
            asks,
            weights,
            pipe: Pipe::default(),
            connection: None,
            send: None,
            lanes: (0..streams).map(|_| Lane::default()).collect(),
            turned_to: 0,
            answered: 0,
            server: None,
            writer,
            scheme: if is_secure { "https" } else { "http" },
            room: Vec::new(),
            problem: None,
            is_over: false,
        }
    }

    /// Lets the library process input and produce output.
    fn turn(&mut self) -> Result<(), Failure> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let turned = Pin::new(connection).poll(&mut context());
        // After GOAWAY the open streams continue, but no new one can be opened.
        let takes_more =
            self.send.as_mut().is_some_and(|s| !matches!(s.poll_ready(&mut context()), Poll::Ready(Err(_))));
        self.is_over |= !takes_more || turned.is_ready();
        match turned {
            Poll::Pending | Poll::Ready(Ok(())) => Ok(()),
            Poll::Ready(Err(e)) => Err(failure(&e)),
        }
    }

    fn begin(&mut self, random: &mut Random) -> Result<(), Failure> {
        let RequestHead { head, body } = self.next_ask(random)?;
        let send = self.send.as_mut().filter(|_| !self.is_over).ok_or_else(over)?;
        let allowed = send.current_max_send_streams();
        match send.poll_ready(&mut context()) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(e)) => return Err(failure(&e)),
            Poll::Pending => return Err(Failure::new(FailureClass::Connection, too_few_streams(allowed))),
        }
        let (response, mut sending) = send.send_request(head, body.is_empty()).map_err(|e| failure(&e))?;
        if !body.is_empty() {
            sending.send_data(body, true).map_err(|e| failure(&e))?;
        }
        self.lanes[self.turned_to].answer = Part::Head(response);
        self.turn()
    }

    /// Builds the request of the event.
    fn next_ask(&mut self, random: &mut Random) -> Result<RequestHead, Failure> {
        let lane = &mut self.lanes[self.turned_to];
        let request = &self.requests[lane.asked.request];
        if self.writer.is_plain(request) {
            return Ok(self.asks[lane.asked.request].clone());
        }
        self.room.clear();
        let written = self.writer.write(request, random, &mut self.room);
        let ask = written.and_then(|()| RequestHead::of(&self.room, self.scheme));
        lane.path.clear();
        lane.path.extend_from_slice(path_of(&self.room));
        ask.map_err(|text| Failure::new(FailureClass::Application, format!("{}: {text}", request.name)))
    }

    /// Reads the available part of one lane's answer; true if the answer is complete.
    fn take(&mut self, number: usize) -> Result<bool, Failure> {
        let lane = &mut self.lanes[number];
        loop {
            match &mut lane.answer {
                Part::None => return Ok(false),
                Part::Failed(failure) => return Err(failure.clone()),
                Part::Head(response) => match pin!(response).poll(&mut context()) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Err(e)) => return Err(failure(&e)),
                    Poll::Ready(Ok(response)) => {
                        lane.status = response.status().as_u16();
                        if self.server.is_none() {
                            let server = response.headers().get(http::header::SERVER);
                            self.server = server.map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned());
                        }
                        if let Some(jar) = &mut self.writer.jar {
                            for cookie in response.headers().get_all(http::header::SET_COOKIE) {
                                jar.take(cookie.as_bytes(), &lane.path);
                            }
                        }
                        lane.answer = Part::Body(response.into_body());
                    }
                },
                Part::Body(body) => match body.poll_data(&mut context()) {
                    Poll::Pending => return Ok(false),
                    Poll::Ready(Some(Err(e))) => return Err(failure(&e)),
                    Poll::Ready(Some(Ok(bytes))) => {
                        if self.requests[lane.asked.request].body_checksum.is_some() {
                            lane.body.add(&bytes);
                        }
                        // The window grows again by the bytes that were read.
                        let _ = body.flow_control().release_capacity(bytes.len());
                    }
                    Poll::Ready(None) => {
                        lane.answer = Part::None;
                        return Ok(true);
                    }
                },
            }
        }
    }

    /// The next answer that is complete or failed alone; `None` if more input is needed.
    fn next_answer(&mut self) -> Option<Result<Answer, Failure>> {
        // The connection may end and still have delivered an answer.
        let turned = self.turn();
        let mut lost = turned.err();
        // The search starts behind the last answered lane: over many calls, it examines each lane only a few
        // times.
        for step in 1..=self.lanes.len() {
            let number = (self.answered + step) % self.lanes.len();
            match self.take(number) {
                Ok(false) => {}
                Ok(true) => {
                    // Sends window updates, and notices whether the server closes after this answer.
                    let _ = self.turn();
                    self.answered = number;
                    let lane = &self.lanes[number];
                    // HTTP/2 has no such header: as after GOAWAY, open streams end and no other begins.
                    self.is_over |= self.requests[lane.asked.request].closes;
                    return Some(judge(&self.requests, lane.asked, lane.status, lane.body));
                }
                // This ends all other requests too: first return those that are complete.
                Err(failure) if failure.class == FailureClass::Connection => lost = Some(failure),
                Err(failure) => {
                    (self.lanes[number].answer, self.answered) = (Part::None, number);
                    return Some(Err(failure));
                }
            }
        }
        lost.map(Err)
    }
}

impl Dialogue for DialogueTwo {
    fn greet(&mut self, out: &mut Vec<u8>) {
        let handshake = client::Builder::new()
            .initial_window_size(WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .enable_push(false)
            .initial_max_send_streams(self.lanes.len())
            .max_header_list_size(HEADERS_BYTES_MAX)
            .handshake(self.pipe.clone());
        // The first poll writes the preface, and does not wait.
        match pin!(handshake).poll(&mut context()) {
            Poll::Ready(Ok((send, connection))) => {
                (self.send, self.connection) = (Some(send), Some(connection));
            }
            Poll::Ready(Err(e)) => self.problem = Some(failure(&e)),
            Poll::Pending => self.problem = Some(over()),
        }
        if let Err(problem) = self.turn() {
            self.problem = Some(problem);
        }
        self.reply(out);
    }

    fn hear_greeting(&mut self, input: &[u8]) -> Parsed {
        let taken = input.len();
        if taken == 0 {
            return Parsed::MORE;
        }
        self.pipe.put(input);
        let turned = self.problem.take().map_or_else(|| self.turn(), Err);
        let allowed = self.send.as_ref().map_or(0, SendRequest::current_max_send_streams);
        match turned {
            Ok(()) if allowed < self.lanes.len() => {
                Parsed::failure(taken, FailureClass::Configuration, too_few_streams(allowed))
            }
            Ok(()) => Parsed::well(taken, 0, None),
            Err(failure) => Parsed { taken, answer: Some(Err(failure)) },
        }
    }

    fn ask(&mut self, mut random: Random, out: &mut Vec<u8>) {
        let asked = self.writer.choose(&self.requests, self.weights, &mut random);
        let turned_to = self.turned_to;
        let lane = &mut self.lanes[turned_to];
        (lane.body, lane.answer) = (Checksum::default(), Part::None);
        let begun = asked.and_then(|asked| {
            self.lanes[turned_to].asked = asked;
            self.begin(&mut random)
        });
        match begun {
            Ok(()) => self.reply(out),
            // Nothing is written: the caller checks the result immediately.
            Err(problem) => self.lanes[self.turned_to].answer = Part::Failed(problem),
        }
    }

    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed {
        self.pipe.put(input);
        if is_end {
            self.pipe.close();
        }
        Parsed { taken: input.len(), answer: self.next_answer() }
    }

    fn go_on(&mut self, _: &mut Vec<u8>) -> Go {
        let lane = &mut self.lanes[self.turned_to];
        match std::mem::take(&mut lane.answer) {
            Part::Failed(problem) => Go::Ended(Err(problem)),
            other => {
                lane.answer = other;
                Go::Wait
            }
        }
    }

    fn turn_to(&mut self, lane: usize) {
        self.turned_to = lane;
    }

    fn answered(&self) -> usize {
        self.answered
    }

    fn cancel(&mut self, out: &mut Vec<u8>) -> bool {
        if self.lanes.len() == 1 {
            return false;
        }
        // Dropping its handle resets the stream.
        self.lanes[self.turned_to].answer = Part::None;
        let is_well = self.turn().is_ok();
        self.reply(out);
        is_well
    }

    fn has_left(&self) -> bool {
        self.lanes.iter().any(|lane| matches!(lane.answer, Part::Failed(_)))
    }

    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        self.pipe.put(input);
        let answer = self.turn().err().map(Err);
        Parsed { taken: input.len(), answer }
    }

    /// The library matches answers to streams, and a server may end a stream before it has all of the request
    /// (RFC 9113, section 8.1).
    fn judge_early(&mut self, _: bool, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
        answer
    }

    fn reply(&mut self, out: &mut Vec<u8>) {
        self.pipe.get(out);
    }

    fn asked(&self) -> Option<usize> {
        Some(self.lanes[self.turned_to].asked.request)
    }

    fn may_repeat(&self) -> bool {
        self.requests[self.lanes[self.turned_to].asked.request].may_repeat
    }

    fn closes(&self) -> bool {
        self.is_over
    }

    fn server(&self) -> Option<String> {
        let name = self.server.clone().unwrap_or_else(|| "a server that does not report its name".to_owned());
        Some(format!("{name}, HTTP/2"))
    }
}

/// A context without a waker: the code that delivers bytes polls.
fn context() -> Context<'static> {
    Context::from_waker(Waker::noop())
}

/// The request was not sent.
fn over() -> Failure {
    Failure::new(FailureClass::Unprocessed, "the HTTP/2 connection has ended")
}

fn too_few_streams(allowed: usize) -> String {
    format!("the server allows {allowed} concurrent streams on an HTTP/2 connection: use fewer --streams")
}

/// Maps an error of the library to a failure.
fn failure(error: &h2::Error) -> Failure {
    let class = match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => FailureClass::Transient,
        // The stream is above the last one that the server will process (RFC 9113, section 6.8), or was never
        // opened.
        Some(h2::Reason::NO_ERROR) if error.is_go_away() && error.is_remote() => FailureClass::Unprocessed,
        Some(_) if error.is_reset() => FailureClass::Application,
        _ => FailureClass::Connection,
    };
    Failure::new(class, format!("HTTP/2: {error}"))
}

/// Both directions of a connection, in memory.
#[derive(Debug, Clone, Default)]
struct Pipe(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    come: Vec<u8>,
    /// Number of bytes of `come` that were read.
    read: usize,
    is_closed: bool,
    to_go: Vec<u8>,
}

impl Pipe {
    fn lock(&self) -> std::sync::MutexGuard<'_, Ends> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, bytes: &[u8]) {
        self.lock().come.extend_from_slice(bytes);
    }

    fn close(&self) {
        self.lock().is_closed = true;
    }

    fn get(&self, out: &mut Vec<u8>) {
        out.append(&mut self.lock().to_go);
    }
}

impl AsyncRead for Pipe {
    fn poll_read(self: Pin<&mut Self>, _: &mut Context<'_>, room: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut ends = self.lock();
        let fresh = ends.come.len() - ends.read;
        if fresh == 0 {
            ends.come.clear();
            ends.read = 0;
            return if ends.is_closed { Poll::Ready(Ok(())) } else { Poll::Pending };
        }
        let bytes = fresh.min(room.remaining());
        room.put_slice(&ends.come[ends.read..ends.read + bytes]);
        ends.read += bytes;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Pipe {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.lock().to_go.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
