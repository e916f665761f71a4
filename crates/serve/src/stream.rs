//! A body that ends when its sender does.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use hyper::body::Frame;
use tokio::sync::mpsc::Receiver;

/// A body of the parts that arrive. An error cuts the answer off. It holds its place until the last part.
pub(crate) struct Stream<E, P = ()>(pub(crate) Receiver<Result<Bytes, E>>, pub(crate) P);

impl<E, P: Unpin> HttpBody for Stream<E, P> {
    type Data = Bytes;
    type Error = E;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, E>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| part.map(Frame::data)))
    }
}
