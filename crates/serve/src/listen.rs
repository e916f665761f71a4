//! Connections: their number, their time limits, and the identity of their other end.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::service::Service as _;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

use crate::error::ServeError;
use crate::identity::{Peer, uid_of};
use crate::tls::fingerprint;

/// Connections at a time.
const CONNECTIONS_MAX: usize = 256;
/// Time for a TLS handshake, and for the head of a request.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 32 << 10;
/// Pause after the system refused a connection, for example for want of descriptors.
const AFTER_ERROR: Duration = Duration::from_millis(200);
/// Name of the socket in the archive.
pub(crate) const SOCKET: &str = "serve.sock";

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
    pub(crate) fn bind(folder: &Path) -> Result<Self, ServeError> {
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

/// Answers requests on TCP until dropped.
pub(crate) async fn serve_tcp(listener: TcpListener, acceptor: Option<TlsAcceptor>, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let place = places.clone().acquire_owned().await.expect("the places are never closed");
        let Ok((stream, address)) = listener.accept().await else {
            tokio::time::sleep(AFTER_ERROR).await;
            continue;
        };
        let _ = stream.set_nodelay(true);
        let own = stream.local_addr().ok();
        let (acceptor, router) = (acceptor.clone(), router.clone());
        tokio::spawn(async move {
            let _place = place;
            let Some(acceptor) = acceptor else {
                let uid = own.filter(|_| address.ip().is_loopback()).and_then(|own| uid_of(address, own));
                return answer(stream, Peer::Tcp { address, uid, certificate: None }, router).await;
            };
            let Ok(Ok(stream)) = tokio::time::timeout(HEAD_TIME, acceptor.accept(stream)).await else {
                return;
            };
            let certificate =
                stream.get_ref().1.peer_certificates().and_then(|chain| chain.first()).map(fingerprint);
            answer(stream, Peer::Tcp { address, uid: None, certificate }, router).await;
        });
    }
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
