//! Servers that send what a test wants.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::certificates::Certificate;

/// A connection, or the TLS on it.
trait Stream: Read + Write + Send {
    /// Tells the client that nothing follows, if the stream has a message for that.
    fn say_end(&mut self) {}
}

impl Stream for TcpStream {}

impl<S: Read + Write + Send> Stream for StreamOwned<ServerConnection, S> {
    fn say_end(&mut self) {
        self.conn.send_close_notify();
        let _ = self.flush();
    }
}

/// A socket of which some bytes were read before TLS began.
struct Rest {
    come: VecDeque<u8>,
    socket: TcpStream,
}

impl Read for Rest {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.come.is_empty() { self.socket.read(room) } else { self.come.read(room) }
    }
}

impl Write for Rest {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

/// One connection of a fake server.
pub(crate) struct Peer {
    socket: TcpStream,
    stream: Box<dyn Stream>,
    /// Number of connections made before it.
    pub(crate) number: usize,
    come: Vec<u8>,
}

impl Peer {
    /// Some of the client's next bytes; `None` if it has gone.
    pub(crate) fn hear(&mut self) -> Option<Vec<u8>> {
        let mut room = vec![0; 64 << 10];
        if !self.come.is_empty() {
            return Some(std::mem::take(&mut self.come));
        }
        let bytes = self.stream.read(&mut room).ok().filter(|bytes| *bytes > 0)?;
        room.truncate(bytes);
        Some(room)
    }

    /// Exactly `bytes` bytes.
    pub(crate) fn hear_exactly(&mut self, bytes: usize) -> Option<Vec<u8>> {
        while self.come.len() < bytes {
            let mut all = std::mem::take(&mut self.come);
            all.extend(self.hear()?);
            self.come = all;
        }
        let rest = self.come.split_off(bytes);
        Some(std::mem::replace(&mut self.come, rest))
    }

    /// Sends bytes; false if the client has gone.
    pub(crate) fn say(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).is_ok()
    }

    /// Starts TLS on a connection without it.
    pub(crate) fn secure(&mut self, shows: &Certificate) {
        let come = VecDeque::from(std::mem::take(&mut self.come));
        let rest = Rest { come, socket: self.socket.try_clone().unwrap() };
        self.stream = Box::new(StreamOwned::new(ServerConnection::new(tls_by(shows, &[])).unwrap(), rest));
    }

    /// Ends TLS as a server should before it closes the connection.
    pub(crate) fn close(&mut self) {
        self.stream.say_end();
    }

    /// Sends the same bytes until the client goes.
    pub(crate) fn say_for_ever(&mut self, bytes: &[u8]) {
        let many = bytes.repeat((64 << 10) / bytes.len() + 1);
        while self.say(&many) {}
    }
}

/// Listens, and runs `serve` for each connection on a separate thread, until the test ends. Returns the port.
pub(crate) fn serve(serve: impl Fn(&mut Peer) + Send + Sync + 'static) -> u16 {
    serve_by(None, &[], serve)
}

/// Variant of [`serve`] that uses TLS if there is a certificate.
///
/// - `protocols`: the protocols that it offers in TLS (ALPN).
pub(crate) fn serve_by(
    shows: Option<&Certificate>,
    protocols: &[&[u8]],
    serve: impl Fn(&mut Peer) + Send + Sync + 'static,
) -> u16 {
    let tls = shows.map(|shows| tls_by(shows, protocols));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (serve, count) = (Arc::new(serve), Arc::new(AtomicUsize::new(0)));
    thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            let (serve, number) = (Arc::clone(&serve), count.fetch_add(1, Ordering::SeqCst));
            let tls = tls.clone();
            let body = move || {
                let _ = stream.set_nodelay(true);
                let socket = stream.try_clone().unwrap();
                let stream = secured(stream, tls);
                serve(&mut Peer { socket, stream, number, come: Vec::new() });
            };
            thread::Builder::new().stack_size(256 << 10).spawn(body).unwrap();
        }
    });
    port
}

fn tls_by(shows: &Certificate, protocols: &[&[u8]]) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(&shows.certificate).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&shows.key).unwrap();
    let mut tls = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Arc::new(tls)
}

fn secured(stream: TcpStream, tls: Option<Arc<ServerConfig>>) -> Box<dyn Stream> {
    match tls {
        Some(tls) => Box::new(StreamOwned::new(ServerConnection::new(tls).unwrap(), stream)),
        None => Box::new(stream),
    }
}

/// A PostgreSQL that trusts every client: reads the start of a session and lets the client in; `None` if it
/// has gone.
pub(crate) fn postgres_login(peer: &mut Peer) -> Option<()> {
    postgres_start(peer)?;
    peer.say(POSTGRES_WELCOME).then_some(())
}

/// Reads the start of a session.
pub(crate) fn postgres_start(peer: &mut Peer) -> Option<()> {
    let length = peer.hear_exactly(4)?;
    let length = u32::from_be_bytes(length.try_into().unwrap()) as usize;
    peer.hear_exactly(length - 4).map(drop)
}

/// The server's messages that let any client in.
pub(crate) const POSTGRES_WELCOME: &[u8] =
    b"R\0\0\0\x08\0\0\0\0S\0\0\0\x18server_version\x0015.0\0K\0\0\0\x0c\0\0\0\x01\0\0\0\x02Z\0\0\0\x05I";

/// The kind of the client's next message; `None` if it has gone.
pub(crate) fn postgres_request(peer: &mut Peer) -> Option<u8> {
    let header = peer.hear_exactly(5)?;
    let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
    peer.hear_exactly(length - 4)?;
    Some(header[0])
}

/// A row, and the end of its answer.
pub(crate) const POSTGRES_ANSWER: &[u8] =
    b"T\0\0\0\x1a\0\x01n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\0D\0\0\0\x0b\0\x01\0\0\0\x017C\0\0\0\x0dSELECT 1\0Z\0\0\0\x05I";

/// A packet of MySQL's protocol.
pub(crate) fn mysql_packet(number: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_le_bytes();
    [&length[..3], &[number], payload].concat()
}

/// A MySQL greeting that asks for a proof by `plugin`; the nonce is the letters from a to t.
pub(crate) fn mysql_greeting(plugin: &str) -> Vec<u8> {
    mysql_greeting_with(plugin, 0)
}

/// Variant of [`mysql_greeting`] with more capabilities.
pub(crate) fn mysql_greeting_with(plugin: &str, more: u32) -> Vec<u8> {
    let mut payload = b"\x0a8.0.36\0\x04\0\0\0abcdefgh\0".to_vec();
    // PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH and the capabilities that MySQL always has.
    let usual = 1u32 | 1 << 2 | 1 << 3 | 1 << 9 | 1 << 13 | 1 << 15 | 0b111 << 16 | 1 << 19 | 1 << 21;
    let capabilities = (usual | more).to_le_bytes();
    payload.extend_from_slice(&capabilities[..2]);
    payload.extend_from_slice(&[45, 2, 0]);
    payload.extend_from_slice(&capabilities[2..]);
    payload.push(21);
    payload.extend_from_slice(&[0; 10]);
    payload.extend_from_slice(b"ijklmnopqrst\0");
    payload.extend_from_slice(plugin.as_bytes());
    payload.push(0);
    mysql_packet(0, &payload)
}

/// The payload of the client's next packet; `None` if it has gone.
pub(crate) fn mysql_request(peer: &mut Peer) -> Option<Vec<u8>> {
    let header = peer.hear_exactly(4)?;
    peer.hear_exactly(usize::from(header[0]) | usize::from(header[1]) << 8 | usize::from(header[2]) << 16)
}

/// Lets any client in.
pub(crate) fn mysql_login(peer: &mut Peer) -> Option<()> {
    peer.say(&mysql_greeting("mysql_native_password"));
    mysql_request(peer)?;
    peer.say(&mysql_packet(2, MYSQL_OK)).then_some(())
}

pub(crate) const MYSQL_OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

/// A row, and the end of its answer.
pub(crate) fn mysql_answer() -> Vec<u8> {
    let column = b"\x03def\x01s\x01t\x01t\x01n\x01n\x0c\x21\0\x0b\0\0\0\x03\0\0\0\0\0";
    let end = [0xfe, 0, 0, 2, 0];
    let payloads = [&[1][..], column, &end, &[1, b'7'], &end];
    (1..).zip(payloads).flat_map(|(number, payload)| mysql_packet(number, payload)).collect()
}
