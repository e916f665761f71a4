//! Bodies that end when their sender does.

use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;

/// A body of the parts that arrive. An error cuts the answer off.
pub(crate) struct Stream<E>(pub(crate) Receiver<Result<Bytes, E>>);

impl<E> HttpBody for Stream<E> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}

/// Parts that wait for a client, and what they hold until the last one is sent.
type Waiting<E, P> = Mutex<Option<(Stream<E>, P)>>;

/// A [`Stream`] that another task can end. A client that does not read cannot keep its parts and its place:
/// its connection asks for no part, so nothing else would end the answer.
pub(crate) struct Timed<E, P> {
    waiting: Arc<Waiting<E, P>>,
    cut: fn() -> E,
}

/// End of a [`Timed`] body.
pub(crate) struct End<E, P>(Weak<Waiting<E, P>>);

const LOCK: &str = "no thread panics while it holds this lock";

impl<E, P> Timed<E, P> {
    /// - `place`: dropped with the last part.
    /// - `cut`: the error of an answer that was ended.
    pub(crate) fn new(parts: Receiver<Result<Bytes, E>>, place: P, cut: fn() -> E) -> (Self, End<E, P>) {
        let waiting = Arc::new(Mutex::new(Some((Stream(parts), place))));
        let end = End(Arc::downgrade(&waiting));
        (Self { waiting, cut }, end)
    }
}

impl<E, P> End<E, P> {
    /// Drops the parts that the client has not read, and cuts the answer off.
    pub(crate) fn now(self) {
        if let Some(waiting) = self.0.upgrade() {
            let left = waiting.lock().expect(LOCK).take();
            drop(left);
        }
    }
}

impl<E, P> HttpBody for Timed<E, P> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        match self.waiting.lock().expect(LOCK).as_mut() {
            Some((parts, _)) => Pin::new(parts).poll_frame(context),
            None => Poll::Ready(Some(Err((self.cut)()))),
        }
    }
}
