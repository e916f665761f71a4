//! Cuts a hanging connection from outside.

use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Cuts a hanging connection from another thread. A clone cuts the same connection.
#[derive(Clone, Default)]
pub(crate) struct Cut {
    action: Arc<Mutex<Option<CutAction>>>,
    is_cut: Arc<AtomicBool>,
}

type CutAction = Box<dyn Fn() + Send>;

impl Cut {
    /// Sets the action that cuts the new connection; replaces the previous one. If the run was given up in
    /// the meantime, the connection is cut immediately, because no later call would do it.
    pub(crate) fn arm(&self, cut: impl Fn() + Send + 'static) {
        let mut action = self.action.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cut.load(Ordering::SeqCst) {
            cut();
        }
        *action = Some(Box::new(cut));
    }

    /// Arms with a `shutdown(2)` of a socket: a blocked read or write returns immediately.
    pub(crate) fn arm_socket(&self, socket: OwnedFd) {
        self.arm_socket_and(socket, || {});
    }

    /// Variant of [`Self::arm_socket`] that then calls `then`, which must not block.
    pub(crate) fn arm_socket_and(&self, socket: OwnedFd, then: impl Fn() + Send + 'static) {
        // Any address family will do: shutdown does not use addresses.
        let socket = TcpStream::from(socket);
        self.arm(move || {
            // An error means that the socket is already disconnected.
            let _ = socket.shutdown(Shutdown::Both);
            then();
        });
    }

    /// Flag that is set by the cut, for waits that do not use the connection.
    pub(crate) fn is_cut(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_cut)
    }

    /// Forgets the connection.
    pub(crate) fn disarm(&self) {
        *self.action.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Cuts the connection, if there is one.
    pub(crate) fn cut(&self) {
        self.is_cut.store(true, Ordering::SeqCst);
        if let Some(cut) = &*self.action.lock().unwrap_or_else(PoisonError::into_inner) {
            cut();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_is_made_after_the_cut_is_cut_too() {
        let (cut, count) = (Cut::default(), Arc::new(std::sync::atomic::AtomicU32::new(0)));
        let arm = || {
            let count = Arc::clone(&count);
            cut.clone().arm(move || {
                count.fetch_add(1, Ordering::SeqCst);
            });
            cut.is_cut().load(Ordering::SeqCst)
        };
        assert!(!arm());
        assert_eq!(count.load(Ordering::SeqCst), 0);
        cut.cut();
        assert_eq!(count.load(Ordering::SeqCst), 1);
        assert!(arm());
        assert_eq!(count.load(Ordering::SeqCst), 2);
    }
}
