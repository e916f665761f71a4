//! Connection to PostgreSQL without TLS. It carries no password in clear text, unless the server is trusted.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use nix::unistd::geteuid;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_postgres::config::Host;
use tokio_postgres::{Client, Config, NoTls};

use crate::error::SharedError;

const PORT: u16 = 5432;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Kind and length of a request for authentication, and its code.
const REQUEST_BYTES: usize = 9;
const REQUEST: u8 = b'R';
/// The password itself, not a proof that this client has it.
const CLEARTEXT: [u8; 4] = 3_u32.to_be_bytes();

/// Connects to the host of `config` and logs in.
pub(crate) async fn connect(config: &Config) -> Result<Client, SharedError> {
    let port = config.get_ports().first().copied().unwrap_or(PORT);
    match config.get_hosts() {
        [Host::Tcp(name)] => {
            let socket = within(TcpStream::connect((name.as_str(), port))).await?;
            prepare(&socket, config).map_err(SharedError::Unreachable)?;
            log_in(Guarded::new(socket, false), config).await
        }
        [Host::Unix(folder)] => {
            let socket = within(UnixStream::connect(folder.join(format!(".s.PGSQL.{port}")))).await?;
            let trusted = [0, geteuid().as_raw()];
            let is_trusted = socket.peer_cred().is_ok_and(|peer| trusted.contains(&peer.uid()));
            log_in(Guarded::new(socket, is_trusted), config).await
        }
        _ => Err(SharedError::Location("the URL of the index needs one host".to_owned())),
    }
}

async fn within<S>(connecting: impl Future<Output = io::Result<S>>) -> Result<S, SharedError> {
    let late = |_| Err(io::Error::from(io::ErrorKind::TimedOut));
    tokio::time::timeout(CONNECT_TIMEOUT, connecting)
        .await
        .unwrap_or_else(late)
        .map_err(SharedError::Unreachable)
}

/// Gives a socket the settings of `config` that a connection over a given socket ignores.
fn prepare(socket: &TcpStream, config: &Config) -> io::Result<()> {
    socket.set_nodelay(true)?;
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    if let Some(time) = config.get_tcp_user_timeout() {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX);
        setsockopt(socket, sockopt::TcpUserTimeout, &ms)?;
    }
    Ok(())
}

async fn log_in<S>(socket: Guarded<S>, config: &Config) -> Result<Client, SharedError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (client, connection) = config.connect_raw(socket, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// A socket that fails if the server's first message asks for the password in clear text: the client answers
/// only a request that is the first message.
struct Guarded<S> {
    socket: S,
    is_trusted: bool,
    /// Beginning of what the server sends.
    first: Vec<u8>,
}

impl<S> Guarded<S> {
    fn new(socket: S, is_trusted: bool) -> Self {
        Self { socket, is_trusted, first: Vec::with_capacity(REQUEST_BYTES) }
    }

    fn check(&mut self, received: &[u8]) -> io::Result<()> {
        let missing = REQUEST_BYTES - self.first.len();
        self.first.extend(received.iter().take(missing));
        let asks_for_it =
            self.first.len() == REQUEST_BYTES && self.first[0] == REQUEST && self.first.ends_with(&CLEARTEXT);
        if self.is_trusted || !asks_for_it {
            return Ok(());
        }
        Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            "the server asks for the password in clear text, and may belong to another user: let it ask for \
             SCRAM (`scram-sha-256` in pg_hba.conf), or use TLS (sslmode=verify-full)",
        ))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, into))?;
        Poll::Ready(self.check(&into.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(is_trusted: bool, parts: &[&[u8]]) -> bool {
        let mut guarded = Guarded::new((), is_trusted);
        parts.iter().all(|part| guarded.check(part).is_ok())
    }

    #[test]
    fn a_request_for_the_password_itself_is_refused_however_it_arrives() {
        let request = b"R\0\0\0\x08\0\0\0\x03";
        assert!(!found(false, &[request]));
        assert!(!found(false, &[&request[..8], &request[8..]]));
        assert!(!found(false, &[b"R", b"", b"\xff\xff\xff\xff", b"\0\0\0\x03", b"more"]));
        assert!(found(true, &[request]));
        for others in [
            &b"R\0\0\0\x0c\0\0\0\x05salt"[..],
            b"R\0\0\0\x17\0\0\0\x0aSCRAM-SHA-256\0\0",
            b"R\0\0\0\x08\0\0\0\0",
        ] {
            // Rows may have the same bytes.
            assert!(found(false, &[others, request]));
        }
    }
}
