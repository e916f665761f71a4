//! How a connection that hangs is cut from outside.

use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Cuts a connection that hangs, from another thread. A clone cuts the same connection.
#[derive(Clone, Default)]
pub(crate) struct Cut {
    action: Arc<Mutex<Option<CutAction>>>,
    is_cut: Arc<AtomicBool>,
}

type CutAction = Box<dyn Fn() + Send>;

impl Cut {
    /// Sets how to cut the connection that was just made, in place of the one before. If the run was given up
    /// meanwhile, the connection is cut at once: no later call would do it.
    pub(crate) fn arm(&self, cut: impl Fn() + Send + 'static) {
        let mut action = self.action.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_cut.load(Ordering::SeqCst) {
            cut();
        }
        *action = Some(Box::new(cut));
    }

    /// Arms with a `shutdown(2)` of a socket: a blocked read or write returns at once.
    pub(crate) fn arm_socket(&self, socket: OwnedFd) {
        self.arm_socket_and(socket, || {});
    }

    /// The same, and then does something that may not block.
    pub(crate) fn arm_socket_and(&self, socket: OwnedFd, then: impl Fn() + Send + 'static) {
        // Whatever its family: shutdown does not look at addresses.
        let socket = TcpStream::from(socket);
        self.arm(move || {
            // An error says that it is disconnected already.
            let _ = socket.shutdown(Shutdown::Both);
            then();
        });
    }

    /// Whether it was cut, for waits that are not on the connection.
    pub(crate) fn is_cut(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_cut)
    }

    /// Forgets the connection.
    pub(crate) fn disarm(&self) {
        *self.action.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Cuts the connection, where there is one.
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
