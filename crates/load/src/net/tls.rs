//! TLS: verification of servers, and a dialogue inside TLS.
//!
//! The handshake belongs to the opening of a connection, never to an event. The data of a dialogue passes
//! through the library in memory, without a socket. So threads and event loops use the same code, and the
//! timestamps of events are the same as without TLS.

use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
};

use super::held::{self, HeldBytes};
use crate::connection::{Answer, Failure, FailureClass, Laps};
use crate::net::{Dialogue, Go, Hear, Parsed};
use crate::schedule::random::Random;

/// TLS settings for a server.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
    /// Advice about a certificate that is not trusted.
    pub(crate) remedies: &'static Remedies,
}

/// Checks of a server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    /// None: the connection is encrypted, but the server may be any machine.
    Anybody,
    /// A trusted authority has signed it, for any host.
    Chain,
    /// A trusted authority has signed it, for the requested host.
    ChainAndName,
}

/// The files of a client certificate, in PEM.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Identity<'a> {
    pub(crate) certificate: &'a str,
    pub(crate) key: &'a str,
}

/// Client configuration of TLS.
///
/// - `ca`: a PEM file of certificates that are trusted in place of the system's.
/// - `protocols`: protocols offered by ALPN, the preferred one first.
pub(crate) fn config(
    trust: Trust,
    ca: Option<&str>,
    identity: Option<Identity<'_>>,
    protocols: &[&[u8]],
) -> Result<Arc<ClientConfig>, String> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider has a suite for each version");
    let (mut chain, mut named) = (None, Vec::new());
    if trust != Trust::Anybody {
        let trusted = certificates(ca)?;
        let roots = Arc::new(roots(&trusted, ca)?);
        let strict = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider)).build();
        chain = Some(strict.map_err(|e| format!("cannot use the trusted certificates: {e}"))?);
        if ca.is_some() {
            named = trusted;
        }
    }
    let asks_name = trust == Trust::ChainAndName;
    let verifier = Arc::new(Verifier { chain, asks_name, named, provider });
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        None => builder.with_no_client_auth(),
        Some(Identity { certificate, key }) => {
            let certificates = certificates(Some(certificate))?;
            let private = PrivateKeyDer::from_pem_file(key)
                .map_err(|e| format!("{key} contains no readable private key: {e}"))?;
            let fits = builder.with_client_auth_cert(certificates, private);
            fits.map_err(|e| format!("{certificate} and {key} do not match: {e}"))?
        }
    };
    config.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    Ok(Arc::new(config))
}

/// The trusted certificates.
fn certificates(ca: Option<&str>) -> Result<Vec<CertificateDer<'static>>, String> {
    match ca {
        Some(file) => {
            let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect);
            read.map_err(|e| format!("{file} contains no readable certificates: {e}"))
        }
        None => Ok(rustls_native_certs::load_native_certs().certs),
    }
}

fn roots(trusted: &[CertificateDer<'static>], ca: Option<&str>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(trusted.iter().cloned());
    if added == 0 {
        return Err(match ca {
            Some(file) => format!("{file} contains no PEM certificate"),
            None => {
                "this machine has no trusted CA certificates: install ca-certificates, or give a file".into()
            }
        });
    }
    Ok(roots)
}

/// The name that a certificate must contain.
pub(crate) fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("`{host}` is not a valid name for a certificate"))
}

/// Advice about a certificate that is not trusted.
#[derive(Debug)]
pub(crate) struct Remedies {
    /// If its authority is not known.
    pub(crate) authority: &'static str,
    /// If it is issued for another name.
    pub(crate) name: &'static str,
    /// In all other cases.
    pub(crate) any: &'static str,
}

/// Maps an error of TLS to a failure.
pub(crate) fn failure(error: &Error, remedies: &Remedies) -> Failure {
    use CertificateError as Why;
    match error {
        Error::InvalidCertificate(why) => {
            let remedy = match why {
                Why::Expired | Why::ExpiredContext { .. } => "renew it, or ",
                Why::NotValidYet | Why::NotValidYetContext { .. } => "check the clocks of both machines, or ",
                Why::NotValidForName | Why::NotValidForNameContext { .. } => remedies.name,
                _ => remedies.authority,
            };
            let any = remedies.any;
            let text = format!("the server's certificate is not trusted ({}): {remedy}{any}", in_words(why));
            Failure::new(FailureClass::Configuration, text)
        }
        Error::InvalidMessage(why) => {
            let text = format!("the server's answer is not TLS ({why:?}): does this port use TLS?");
            Failure::new(FailureClass::Connection, text)
        }
        _ => Failure::new(FailureClass::Connection, format!("TLS: {error}")),
    }
}

/// Reason why a certificate is not trusted.
fn in_words(why: &CertificateError) -> String {
    use CertificateError as Why;
    match why {
        Why::Expired | Why::ExpiredContext { .. } => "it has expired".to_owned(),
        Why::NotValidYet | Why::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        Why::NotValidForName | Why::NotValidForNameContext { .. } => {
            "it is for another name than the target's".to_owned()
        }
        // The second: an authority with the name of a trusted one, but another key.
        Why::UnknownIssuer | Why::BadSignature => "its CA is not trusted".to_owned(),
        Why::Other(_) if is_authority(why) => "it is a self-signed CA certificate".to_owned(),
        other => other.to_string(),
    }
}

/// Whether it was refused as a CA certificate, such as those of `openssl req -x509`.
fn is_authority(why: &CertificateError) -> bool {
    // The library reports this with a type of another crate; only its name identifies it.
    matches!(why, CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity")
}

/// Accepts certificates that a browser would refuse; the server must still prove that it has the key.
#[derive(Debug)]
struct Verifier {
    /// Verifier of the certificate chain; `None`: any certificate is accepted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Whether the certificate must name the requested host.
    asks_name: bool,
    /// Certificates that the user has listed individually: a server that presents one of them is accepted.
    named: Vec<CertificateDer<'static>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(strict) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match strict.verify_server_cert(certificate, chain, name, ocsp, now) {
            // The library has already checked the validity period before it checks issuer and purpose.
            Err(Error::InvalidCertificate(why))
                if (why == CertificateError::UnknownIssuer || is_authority(&why))
                    && self.named.contains(certificate) =>
            {
                if self.asks_name {
                    verify_server_name(&ParsedCertificate::try_from(certificate)?, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            // The library checks the name last: all other checks have passed.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.asks_name => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Creates the inner dialogue for the negotiated protocol.
pub(crate) type Speak = Box<dyn FnOnce(Option<&[u8]>) -> Result<Box<dyn Dialogue>, Failure> + Send>;

/// TLS of one connection, in memory: decrypts input and encrypts output.
#[derive(Debug)]
pub(crate) struct Tls {
    connection: ClientConnection,
    remedies: &'static Remedies,
    /// The server has announced that nothing follows (`close_notify`). Without it, an attacker on the network
    /// may have ended the connection.
    is_ended: bool,
}

impl Tls {
    pub(crate) fn new(plan: &Plan) -> Result<Self, Failure> {
        let Plan { config, name, remedies } = plan;
        let connection = ClientConnection::new(Arc::clone(config), name.clone());
        let mut connection = connection.map_err(|e| failure(&e, remedies))?;
        // A request is sent as a whole, whatever its size.
        connection.set_buffer_limit(None);
        Ok(Self { connection, remedies, is_ended: false })
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// The version, for display after a server's name.
    pub(crate) fn version(&self) -> &'static str {
        match self.connection.protocol_version() {
            Some(rustls::ProtocolVersion::TLSv1_2) => ", TLS 1.2",
            _ => ", TLS 1.3",
        }
    }

    /// Decrypts input from the network; appends the plaintext to `heard`.
    pub(crate) fn take_in(&mut self, mut input: &[u8], heard: &mut Vec<u8>) -> Result<(), Failure> {
        while !input.is_empty() {
            let broken = |e: io::Error| Failure::new(FailureClass::Connection, format!("TLS: {e}"));
            if self.connection.read_tls(&mut input).map_err(broken)? == 0 {
                break;
            }
            let state = self.connection.process_new_packets().map_err(|e| failure(&e, self.remedies))?;
            self.is_ended |= state.peer_has_closed();
            let fresh = state.plaintext_bytes_to_read();
            if fresh > 0 {
                let start = heard.len();
                heard.resize(start + fresh, 0);
                self.connection.reader().read_exact(&mut heard[start..]).map_err(broken)?;
            }
        }
        Ok(())
    }

    /// Encrypts `said`, and writes it with TLS's own messages to `out`.
    pub(crate) fn seal(&mut self, said: &[u8], out: &mut Vec<u8>) {
        if !said.is_empty() {
            self.connection.writer().write_all(said).expect("there is no limit to what it takes");
        }
        while self.connection.wants_write() {
            self.connection.write_tls(out).expect("memory takes all that is written to it");
        }
    }
}

const CUT: &str = "the server closed without close_notify: the answer may be cut";

/// A dialogue inside TLS.
pub(crate) struct Secured {
    tls: Tls,
    inside: Inside,
    /// Plaintext received and not consumed yet.
    heard: Vec<u8>,
    held: HeldBytes,
    /// Plaintext to send.
    said: Vec<u8>,
}

enum Inside {
    /// Waits for the end of the handshake.
    Waiting(Option<Speak>),
    /// The inner dialogue is exchanging greetings.
    Greeting(Box<dyn Dialogue>),
    Speaking(Box<dyn Dialogue>),
}

impl Secured {
    pub(crate) fn new(plan: &Plan, speak: Speak) -> Result<Self, Failure> {
        let inside = Inside::Waiting(Some(speak));
        Ok(Self {
            tls: Tls::new(plan)?,
            inside,
            heard: Vec::new(),
            said: Vec::new(),
            held: HeldBytes::default(),
        })
    }

    /// An established dialogue inside established TLS.
    pub(crate) fn standing(tls: Tls, dialogue: Box<dyn Dialogue>) -> Self {
        Self {
            tls,
            inside: Inside::Speaking(dialogue),
            heard: Vec::new(),
            said: Vec::new(),
            held: HeldBytes::default(),
        }
    }

    fn take_in(&mut self, input: &[u8]) -> Result<(), Failure> {
        self.tls.take_in(input, &mut self.heard)
    }

    /// Encrypts the pending plaintext into the output.
    fn seal(&mut self, out: &mut Vec<u8>) {
        self.tls.seal(&self.said, out);
        self.said.clear();
    }

    /// Continues the handshake, and then the greeting inside it.
    fn go_on_greeting(&mut self) -> Result<bool, Failure> {
        if self.tls.is_handshaking() {
            return Ok(false);
        }
        if let Inside::Waiting(speak) = &mut self.inside {
            let speak = speak.take().expect("one dialogue is spoken");
            let mut dialogue = speak(self.tls.connection.alpn_protocol())?;
            dialogue.greet(&mut self.said);
            let has_to_wait = !self.said.is_empty();
            self.inside = if has_to_wait { Inside::Greeting(dialogue) } else { Inside::Speaking(dialogue) };
        }
        if let Inside::Greeting(dialogue) = &mut self.inside {
            let Parsed { taken, answer } = dialogue.hear_greeting(&self.heard);
            self.heard.drain(..taken);
            dialogue.reply(&mut self.said);
            match answer {
                None => return Ok(false),
                Some(answer) => answer?,
            };
            let speaking = Inside::Waiting(None);
            if let Inside::Greeting(dialogue) = std::mem::replace(&mut self.inside, speaking) {
                self.inside = Inside::Speaking(dialogue);
            }
        }
        Ok(true)
    }

    fn dialogue(&mut self) -> &mut dyn Dialogue {
        match &mut self.inside {
            Inside::Speaking(dialogue) | Inside::Greeting(dialogue) => &mut **dialogue,
            Inside::Waiting(_) => unreachable!("events begin after the greeting"),
        }
    }

    /// Passes the decrypted input to the inner dialogue.
    fn pass_on(&mut self, input: &[u8], hear: impl FnOnce(&mut dyn Dialogue, &[u8]) -> Parsed) -> Parsed {
        let taken = input.len();
        if let Err(failure) = self.take_in(input) {
            return Parsed { taken, answer: Some(Err(failure)) };
        }
        let heard = std::mem::take(&mut self.heard);
        let inside = hear(self.dialogue(), &heard);
        self.heard = heard;
        self.heard.drain(..inside.taken);
        held::shrink(&mut self.heard);
        let kept = self.held.set(self.heard.len());
        Parsed { taken, answer: inside.answer.or_else(|| kept.err().map(Err)) }
    }
}

impl Dialogue for Secured {
    fn greet(&mut self, out: &mut Vec<u8>) {
        self.seal(out);
    }

    fn hear_greeting(&mut self, input: &[u8]) -> Parsed {
        let taken = input.len();
        match self.take_in(input).and_then(|()| self.go_on_greeting()) {
            Ok(true) => Parsed::well(taken, 0, None),
            Ok(false) => Parsed { taken, answer: None },
            Err(failure) => Parsed { taken, answer: Some(Err(failure)) },
        }
    }

    fn ask(&mut self, random: Random, out: &mut Vec<u8>) {
        let mut said = std::mem::take(&mut self.said);
        self.dialogue().ask(random, &mut said);
        self.said = said;
        self.seal(out);
    }

    fn hear(&mut self, input: &[u8], is_end: bool) -> Parsed {
        let heard = self.pass_on(input, |dialogue, heard| dialogue.hear(heard, is_end));
        // An answer with a length is complete before the end.
        if is_end && !self.tls.is_ended && matches!(heard.answer, Some(Ok(_))) {
            return Parsed::failure(heard.taken, FailureClass::Connection, CUT);
        }
        heard
    }

    fn hear_unasked(&mut self, input: &[u8]) -> Parsed {
        self.pass_on(input, |dialogue, heard| match heard {
            // A session ticket or a new key: messages of TLS itself.
            [] => Parsed::MORE,
            heard => dialogue.hear_unasked(heard),
        })
    }

    fn judge_early(&mut self, has_begun: bool, answer: Result<Answer, Failure>) -> Result<Answer, Failure> {
        self.dialogue().judge_early(has_begun, answer)
    }

    fn reply(&mut self, out: &mut Vec<u8>) {
        if let Inside::Speaking(dialogue) = &mut self.inside {
            dialogue.reply(&mut self.said);
        }
        self.seal(out);
    }

    fn wrap(&mut self, said: &[u8], out: &mut Vec<u8>) {
        self.tls.seal(said, out);
    }

    fn hear_with(&mut self, input: &[u8], is_end: bool, hear: &mut Hear<'_>) -> Parsed {
        self.pass_on(input, |_, heard| hear(heard, is_end))
    }

    fn has_left(&self) -> bool {
        let inside = matches!(&self.inside, Inside::Speaking(dialogue) if dialogue.has_left());
        inside || !self.heard.is_empty()
    }

    fn spoken_version(&self) -> &'static str {
        self.tls.version()
    }

    fn turn_to(&mut self, lane: usize) {
        if let Inside::Speaking(dialogue) = &mut self.inside {
            dialogue.turn_to(lane);
        }
    }

    fn answered(&self) -> usize {
        match &self.inside {
            Inside::Speaking(dialogue) => dialogue.answered(),
            _ => 0,
        }
    }

    fn cancel(&mut self, out: &mut Vec<u8>) -> bool {
        let mut said = std::mem::take(&mut self.said);
        let is_well = self.dialogue().cancel(&mut said);
        self.said = said;
        self.seal(out);
        is_well
    }

    fn begin(&mut self, start_ns: u64) {
        self.dialogue().begin(start_ns);
    }

    fn go_on(&mut self, out: &mut Vec<u8>) -> Go {
        let mut said = std::mem::take(&mut self.said);
        let go = self.dialogue().go_on(&mut said);
        self.said = said;
        self.seal(out);
        go
    }

    fn laps(&self) -> Option<&Laps> {
        match &self.inside {
            Inside::Speaking(dialogue) => dialogue.laps(),
            _ => None,
        }
    }

    fn give_up(&self) {
        if let Inside::Speaking(dialogue) = &self.inside {
            dialogue.give_up();
        }
    }

    fn asked(&self) -> Option<usize> {
        match &self.inside {
            Inside::Speaking(dialogue) => dialogue.asked(),
            _ => None,
        }
    }

    fn may_repeat(&self) -> bool {
        match &self.inside {
            Inside::Speaking(dialogue) => dialogue.may_repeat(),
            _ => true,
        }
    }

    fn closes(&self) -> bool {
        match &self.inside {
            Inside::Speaking(dialogue) => dialogue.closes(),
            _ => false,
        }
    }

    fn server(&self) -> Option<String> {
        let Inside::Speaking(dialogue) = &self.inside else { return None };
        let name = dialogue.server().unwrap_or_else(|| "a server that does not report its name".to_owned());
        Some(name + self.tls.version())
    }
}
