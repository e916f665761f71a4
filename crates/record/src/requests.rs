//! Settings of loads on caches, web servers and commands.

use std::fmt::Write as _;
use std::time::Duration;

use crate::load::choices::Distribution;
pub use crate::load::choices::HttpVersion;
use crate::load::settings;
use crate::masking::{is_secret, mask_text};
use crate::quantity::duration;

/// The keys and values of a cache, and what events do to them.
#[derive(Debug, Clone, PartialEq)]
pub struct KvSettings {
    /// Number of keys.
    pub keys: u64,
    /// Share of the events that read; the others write.
    pub get_ratio: f64,
    /// Lengths of values; each key has its own, whatever is written there.
    pub sizes: Vec<SizeClass>,
    /// How keys are chosen.
    pub distribution: Distribution,
    /// Requests that a connection may have in flight at a time.
    pub pipeline: u32,
    /// Keys that an event reads.
    pub multi_get: u32,
    /// After this time a value that was written is gone, in whole seconds; `None`: never.
    pub ttl: Option<Duration>,
    /// Commands in place of all that; an event does one, drawn by weight.
    pub commands: Vec<CacheCommand>,
}

/// A command that events send to a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheCommand {
    /// Its words, as in a shell; `${...}` in them is a value.
    pub text: String,
    /// How often it is drawn, beside the weights of the others.
    pub weight: u32,
}

impl CacheCommand {
    /// Reads `TEXT` or `TEXT@WEIGHT`; the weight is 1 if there is none.
    pub fn parse(written: &str) -> Self {
        let weighted = written.rsplit_once('@').and_then(|(text, weight)| Some((text, weight.parse().ok()?)));
        let (text, weight) = weighted.unwrap_or((written, 1));
        Self { text: text.to_owned(), weight }
    }
}

/// Values of about one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeClass {
    /// The shortest.
    pub bytes_min: u32,
    /// The longest.
    pub bytes_max: u32,
    /// Keys of this class, in proportion to the other classes' weights.
    pub weight: f64,
}

impl KvSettings {
    /// The default of [`Self::sizes`], as text.
    pub const SIZES: &str = settings::SIZES.default_text();
    /// A longer life than 30 days is a date to memcached.
    pub const TTL_MAX: Duration = Duration::from_hours(24 * 30);
    /// A longer value no cache takes in one piece.
    pub const BYTES_MAX: u32 = 1 << 20;

    /// The defaults: some 18 MB of keys and values.
    pub fn usual() -> Self {
        let mix = settings::MIX.default_text();
        let distribution = Distribution::named(settings::KEY_DISTRIBUTION.default_text());
        Self {
            keys: settings::KEYS.default_number(),
            get_ratio: Self::parse_mix(mix).expect("our own text"),
            sizes: Self::parse_sizes(Self::SIZES).expect("our own text"),
            distribution: distribution.expect("our own word"),
            pipeline: settings::PIPELINE.default_u32(),
            multi_get: settings::MULTI_GET.default_u32(),
            ttl: None,
            commands: Vec::new(),
        }
    }

    /// Reads `4-100:60,1024-2048:30`: lengths in bytes and weights; a single length stands for itself, no weight for 1.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn parse_sizes(text: &str) -> Result<Vec<SizeClass>, String> {
        text.split(',').map(|class| parse_class(class.trim())).collect()
    }

    /// What [`Self::parse_sizes`] reads.
    pub fn sizes_text(&self) -> String {
        let mut text = String::new();
        for SizeClass { bytes_min, bytes_max, weight } in &self.sizes {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing into memory does not fail.
            let _ = write!(text, "{comma}{bytes_min}-{bytes_max}:{weight}");
        }
        text
    }

    /// Reads the life of a value: whole seconds, 30 days at most.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn parse_ttl(text: &str) -> Result<Duration, String> {
        let ttl = duration(text).map_err(|e| e.to_string())?;
        let is_ttl = !ttl.is_zero() && ttl.subsec_nanos() == 0 && ttl <= Self::TTL_MAX;
        is_ttl.then_some(ttl).ok_or_else(|| "expected whole seconds, at most 30 days".to_owned())
    }

    /// Reads `get=90,set=10` and yields the share that reads.
    ///
    /// # Errors
    ///
    /// What is wrong, and what to write instead.
    pub fn parse_mix(text: &str) -> Result<f64, String> {
        let wrong = || {
            format!(
                "`{text}` is not a mix: write weights of get and set, such as {}",
                settings::MIX.default_text()
            )
        };
        let (mut get, mut set) = (0.0, 0.0);
        for part in text.split(',') {
            let (name, weight) = part.trim().split_once('=').ok_or_else(wrong)?;
            let weight = parse_weight(weight).ok_or_else(wrong)?;
            match name {
                "get" => get += weight,
                "set" => set += weight,
                _ => return Err(wrong()),
            }
        }
        if get + set > 0.0 { Ok(get / (get + set)) } else { Err(wrong()) }
    }
}

fn parse_class(text: &str) -> Result<SizeClass, String> {
    let wrong = || {
        format!(
            "`{text}` is not a class of sizes: write FROM-TO:WEIGHT in bytes, 4 to {}, such as 1024-2048:30",
            KvSettings::BYTES_MAX
        )
    };
    let (span, weight) = text.split_once(':').unwrap_or((text, "1"));
    let (from, to) = span.split_once('-').unwrap_or((span, span));
    let bytes = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let class = SizeClass {
        bytes_min: bytes(from)?,
        bytes_max: bytes(to)?,
        weight: parse_weight(weight).filter(|w| *w > 0.0).ok_or_else(wrong)?,
    };
    let is_good =
        (4..=class.bytes_max).contains(&class.bytes_min) && class.bytes_max <= KvSettings::BYTES_MAX;
    if is_good { Ok(class) } else { Err(wrong()) }
}

fn parse_weight(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|w: &f64| w.is_finite() && *w >= 0.0)
}

/// The settings of requests to a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// `GET`, `POST` ... .
    pub method: String,
    /// `Name: value`, each.
    pub headers: Vec<String>,
    /// What is sent after the headers; nothing where it is empty.
    pub body: String,
    /// The one status that is a success; else any below 400 is.
    pub expected_status: Option<u16>,
    /// A file of requests, in place of the one that the target and the above say.
    pub requests: Option<String>,
    /// Which version of HTTP is spoken.
    pub version: HttpVersion,
    /// A file of certificates that are trusted in place of this machine's own, where TLS is spoken.
    pub ca: Option<String>,
    /// Any certificate will do.
    pub insecure: bool,
    /// The client's own certificate, for TLS.
    pub identity: Option<ClientFiles>,
    /// The socket that is connected to, in place of the target's host and port.
    pub unix_socket: Option<String>,
    /// A request without a whole answer is given up after this time; `None`: never.
    pub timeout: Option<Duration>,
    /// Whether a connection sends the cookies that it was given.
    pub cookies: bool,
    /// A file of rows whose values stand in requests.
    pub data: Option<String>,
    /// Requests that a connection of HTTP/2 may have in flight at a time.
    pub streams: u32,
}

/// The files of a client's certificate and its private key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// The certificate, with those that vouch for it.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

impl HttpSettings {
    /// The defaults: a plain GET.
    pub fn plain() -> Self {
        let version = HttpVersion::from_word(settings::HTTP_VERSION.default_text());
        Self {
            method: settings::METHOD.default_text().to_owned(),
            headers: Vec::new(),
            body: String::new(),
            expected_status: None,
            requests: None,
            version: version.expect("our own word"),
            ca: None,
            insecure: false,
            identity: None,
            unix_socket: None,
            timeout: None,
            cookies: false,
            data: None,
            streams: settings::STREAMS.default_u32(),
        }
    }

    /// Reads the method of a request: one word, in upper case from here on.
    pub fn parse_method(text: &str) -> Option<String> {
        let is_word = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
        is_word.then(|| text.to_ascii_uppercase())
    }

    /// The headers as they may be stored and shown: without the values of those that authenticate.
    pub fn masked_headers(&self) -> Vec<String> {
        const SECRET: [&str; 4] = ["authorization", "proxy-authorization", "cookie", "x-api-key"];
        let masked = |header: &String| match header.split_once(':') {
            Some((name, _)) if SECRET.contains(&name.trim().to_ascii_lowercase().as_str()) => {
                format!("{name}: ***")
            }
            _ => mask_text(header),
        };
        self.headers.iter().map(masked).collect()
    }
}

/// How a command is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    /// Variables of its environment beside those that it inherits: name and value.
    pub environment: Vec<(String, String)>,
    /// The exit status that is a success.
    pub expected_status: u8,
}

impl ExecSettings {
    /// The defaults: the environment of this process, and success.
    pub fn plain() -> Self {
        Self { environment: Vec::new(), expected_status: 0 }
    }

    /// Reads a variable of the environment, `NAME=value`.
    pub fn parse_variable(text: &str) -> Option<(String, String)> {
        let (name, value) = text.split_once('=').filter(|_| settings::ENV.values.takes(text))?;
        Some((name.to_owned(), value.to_owned()))
    }

    /// The environment as it may be kept and shown: `NAME=value` each, no password in it.
    pub fn masked_environment(&self) -> Vec<String> {
        let masked = |(name, value): &(String, String)| {
            // `PGPASSWORD`, `MYSQL_PWD`: a variable is named in one word.
            if is_secret(name) { format!("{name}=***") } else { mask_text(&format!("{name}={value}")) }
        };
        self.environment.iter().map(masked).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_back_as_they_are_written() {
        let usual = KvSettings::usual();
        assert_eq!(usual.sizes_text(), KvSettings::SIZES);
        let one = KvSettings::parse_sizes("100").unwrap();
        assert_eq!(one, [SizeClass { bytes_min: 100, bytes_max: 100, weight: 1.0 }]);
        for wrong in
            ["", "3-10:1", "10-5:1", "4-9999999:1", "4-100:0", "4-100:-1", "4-100:x", "a-b:1", "4-100:1,"]
        {
            assert!(KvSettings::parse_sizes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_command_ends_with_its_weight() {
        let read = |text: &str| {
            let CacheCommand { text, weight } = CacheCommand::parse(text);
            (text, weight)
        };
        assert_eq!(read("GET a@3"), ("GET a".to_owned(), 3));
        assert_eq!(read("GET ann@host"), ("GET ann@host".to_owned(), 1));
        assert_eq!(read("GET a@3@1"), ("GET a@3".to_owned(), 1));
        assert_eq!(read("PING"), ("PING".to_owned(), 1));
    }

    #[test]
    fn a_mix_is_two_weights() {
        assert_eq!(KvSettings::parse_mix(settings::MIX.default_text()), Ok(0.9));
        assert_eq!(KvSettings::parse_mix("set=1,get=3"), Ok(0.75));
        assert_eq!(KvSettings::parse_mix("set=1"), Ok(0.0));
        for wrong in ["", "get", "get=x", "get=0,set=0", "put=1", "get=-1,set=2"] {
            assert!(KvSettings::parse_mix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_lets_somebody_in_is_not_shown() {
        let headers = ["Authorization: Bearer x", "cookie:a=b", "Accept: */*"].map(str::to_owned).to_vec();
        let http = HttpSettings { headers, ..HttpSettings::plain() };
        assert_eq!(http.masked_headers(), ["Authorization: ***", "cookie: ***", "Accept: */*"]);
        let environment = vec![("PGPASSWORD".into(), "se cret".into()), ("TZ".into(), "UTC".into())];
        let exec = ExecSettings { environment, ..ExecSettings::plain() };
        assert_eq!(exec.masked_environment(), ["PGPASSWORD=***", "TZ=UTC"]);
    }
}
