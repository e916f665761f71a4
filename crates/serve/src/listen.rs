//! Connections: their number, their time limits, and the identity of their other end.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use confine::peer::uid_of;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::identity::Peer;
use crate::place::SOCKET;
use crate::tls::fingerprint;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// Connections of one peer at a time.
const OF_PEER_MAX: usize = 80;
/// Time after which the kernel gives up a connection if its other end reads nothing.
const UNREAD_TIME_MS: u32 = 60_000;
/// Time for a TLS handshake, and for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Pause after the system refused a connection, for example for want of descriptors.
const AFTER_ERROR: Duration = Duration::from_millis(200);

/// Listens on TCP.
pub(crate) async fn tcp(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let place = || address.to_string();
    TcpListener::bind(address).await.map_err(|source| ServeError::Listen { place: place(), source })
}

/// A socket in the archive, removed when dropped.
pub(crate) struct LocalSocket {
    listener: UnixListener,
    path: PathBuf,
}

impl LocalSocket {
    /// Listens on the socket of the archive in `folder`. The caller has the right to run its queue, so an
    /// existing socket was left by a process that died.
    #[expect(clippy::unused_async, reason = "a listener needs the runtime's reactor")]
    pub(crate) async fn bind(folder: &Path) -> Result<Self, ServeError> {
        let path = folder.join(SOCKET);
        let failed = |source| ServeError::Listen { place: path.display().to_string(), source };
        if std::fs::symlink_metadata(&path).is_ok_and(|found| found.file_type().is_socket()) {
            std::fs::remove_file(&path).map_err(failed)?;
        }
        // The name of a socket has at most 107 bytes; through the folder's descriptor it is short.
        let opened = std::fs::File::open(folder).map_err(failed)?;
        let short = format!("/proc/self/fd/{}/{SOCKET}", opened.as_fd().as_raw_fd());
        let listener = UnixListener::bind(short).map_err(failed)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        Ok(Self { listener, path })
    }
}

impl Drop for LocalSocket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Connections or viewers by peer, so that one cannot take all places.
#[derive(Debug, Clone)]
pub(crate) struct Guests {
    all: Arc<Mutex<HashMap<String, usize>>>,
    of_peer_max: usize,
}

/// Place among those of a peer, until it is dropped.
pub(crate) struct Guest {
    all: Guests,
    key: String,
}

impl Guests {
    pub(crate) fn new(of_peer_max: usize) -> Self {
        Self { all: Arc::default(), of_peer_max }
    }

    /// A place for `key`; `None` if the peer has too many.
    pub(crate) fn enter(&self, key: String) -> Option<Guest> {
        let mut all = self.all.lock().expect(LOCK);
        let count = all.entry(key.clone()).or_default();
        if *count >= self.of_peer_max {
            return None;
        }
        *count += 1;
        Some(Guest { all: self.clone(), key })
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let mut all = self.all.all.lock().expect(LOCK);
        if let Some(count) = all.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                all.remove(&self.key);
            }
        }
    }
}

const LOCK: &str = "no thread panics while it holds this lock";

/// Answers requests on TCP until dropped.
pub(crate) async fn serve_tcp(listener: TcpListener, acceptor: Option<TlsAcceptor>, router: Router) {
    let (places, guests) = (Arc::new(Semaphore::new(CONNECTIONS_MAX)), Guests::new(OF_PEER_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("the places are never closed");
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNREAD_TIME_MS);
        let (acceptor, router, guests) = (acceptor.clone(), router.clone(), guests.clone());
        tokio::spawn(async move {
            let _place = place;
            match acceptor {
                None => answer_plain(stream, address, router, &guests).await,
                Some(acceptor) => answer_tls(stream, address, &acceptor, router, &guests).await,
            }
        });
    }
}

async fn answer_plain(stream: TcpStream, address: SocketAddr, router: Router, guests: &Guests) {
    let peer = Peer::Tcp { address, uid: user_of(&stream, address).await, certificate: None };
    let Some(_guest) = guests.enter(peer.key()) else { return };
    answer(stream, peer, router).await;
}

/// User at the other end of a connection from this machine.
async fn user_of(stream: &TcpStream, address: SocketAddr) -> Option<u32> {
    let own = stream.local_addr().ok().filter(|_| address.ip().is_loopback())?;
    // The table has a line for each connection of the machine, which a load may have many of.
    tokio::task::spawn_blocking(move || uid_of(address, own)).await.ok().flatten()
}

async fn answer_tls(
    stream: TcpStream,
    address: SocketAddr,
    acceptor: &TlsAcceptor,
    router: Router,
    guests: &Guests,
) {
    let uid = user_of(&stream, address).await;
    let Some(_guest) = guests.enter(Peer::Tcp { address, uid, certificate: None }.key()) else { return };
    let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, acceptor.accept(stream)).await else { return };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(fingerprint);
    answer(stream, Peer::Tcp { address, uid, certificate }, router).await;
}

/// Answers requests on the archive's socket until dropped.
pub(crate) async fn serve_local(socket: LocalSocket, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("the places are never closed");
        let Ok((stream, _)) = socket.listener.accept().await else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let Ok(credentials) = stream.peer_cred() else { continue };
        let router = router.clone();
        tokio::spawn(async move {
            let _place = place;
            answer(stream, Peer::Local { uid: credentials.uid() }, router).await;
        });
    }
}

/// Answers the requests of one connection.
async fn answer(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, peer: Peer, router: Router) {
    let router = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |request: hyper::Request<Incoming>| {
        let mut request = request.map(Body::new);
        request.extensions_mut().insert(peer.clone());
        router.call(request)
    });
    // An error is that of the other end, which is gone.
    let _ = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_peer_cannot_take_every_place_and_a_place_that_is_left_is_free() {
        let guests = Guests::new(OF_PEER_MAX);
        let mut own: Vec<Guest> = (0..OF_PEER_MAX).map(|_| guests.enter("a".into()).unwrap()).collect();
        assert!(guests.enter("a".into()).is_none() && guests.enter("b".into()).is_some());
        own.pop();
        assert!(guests.enter("a".into()).is_some());
        own.clear();
        assert!(guests.all.lock().unwrap().is_empty(), "peers that are gone leave nothing");
    }
}
