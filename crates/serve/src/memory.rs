//! Memory of the server: it has one limit, however many clients ask and whatever the archive holds.
//!
//! One run or bake-off is in memory at a time, because its reader holds the turn. Long answers and bodies of
//! requests share a limit, and so do pages that are stored for the next reader.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use archive::MemoryMax;
use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use nix::libc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Limits while a run or a bake-off is read, in bytes. A page copies numbers over time of its run, which
/// takes half as much again. A bake-off of 300 trials takes less than its limit.
pub(crate) const OF_READING: MemoryMax = MemoryMax { of_run: 120_000_000, of_bakeoff: 190_000_000 };
/// Long answers and bodies in memory at a time, in bytes.
pub(crate) const MESSAGES_BYTES_MAX: usize = 16 << 20;
/// Longest message that needs no permit: all connections together have 16 MiB of them.
pub(crate) const SHORT_BYTES_MAX: usize = 64 << 10;
/// Bytes for each permit.
const PERMIT_BYTES: usize = 1 << 10;
/// Memory from which the allocator is asked to return what is free, in bytes.
const TRIM_BYTES: u64 = 50_000_000;

/// Permits for long messages.
#[derive(Debug, Clone)]
pub(crate) struct Messages(Arc<Semaphore>);

impl Messages {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MESSAGES_BYTES_MAX / PERMIT_BYTES)))
    }

    /// A permit for a message of this length; `None` if others take too much. A message that is longer than
    /// all permits needs all.
    pub(crate) fn permit(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let permits = bytes.min(MESSAGES_BYTES_MAX).div_ceil(PERMIT_BYTES);
        self.0.clone().try_acquire_many_owned(u32::try_from(permits).expect("the limit is small")).ok()
    }
}

/// An answer that holds its permits until its last part is being sent.
pub(crate) struct Held<P> {
    whole: Bytes,
    _permits: P,
}

impl<P: Send + Unpin + 'static> Held<P> {
    pub(crate) fn body(whole: Bytes, permits: P) -> Body {
        Body::new(Self { whole, _permits: permits })
    }
}

impl<P: Unpin> HttpBody for Held<P> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.whole.is_empty() {
            return Poll::Ready(None);
        }
        let bytes = self.whole.len().min(SHORT_BYTES_MAX);
        // A copy, because a part of the whole would hold all of it until the client has read the part.
        let part = Bytes::copy_from_slice(&self.whole.split_to(bytes));
        Poll::Ready(Some(Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.whole.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.whole.len() as u64)
    }
}

/// Makes the allocator return large pieces at once, and have few pools: what one thread has freed is memory
/// that the next one cannot use.
pub(crate) fn return_large_pieces() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call changes settings of the allocator, and gets no pointer.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 128 << 10);
        libc::mallopt(libc::M_ARENA_MAX, 2);
    }
}

/// Returns free memory to the system after work on a large run.
pub(crate) fn trim() {
    #[cfg(target_env = "gnu")]
    if archive::memory_bytes().is_none_or(|bytes| bytes > TRIM_BYTES) {
        // SAFETY: the call gets no pointer, and leaves memory in use where it is.
        unsafe { libc::malloc_trim(0) };
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    #[test]
    fn a_long_answer_is_whole_and_gives_its_permit_back() {
        let messages = Messages::new();
        let whole: Bytes = (0..200_000_u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>().into();
        let body = Held::body(whole.clone(), messages.permit(whole.len()).unwrap());
        assert_eq!(body.size_hint().exact(), Some(800_000));
        assert!(messages.permit(MESSAGES_BYTES_MAX - 700_000).is_none());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let read = runtime.block_on(async { body.collect().await.unwrap().to_bytes() });
        assert!(read == whole);
        assert!(messages.permit(usize::MAX).is_some(), "longer than all permits: it needs all");
    }
}
