//! Settings of loads on caches, web servers and commands.

use std::fmt::Write as _;
use std::time::Duration;

use crate::load::choices::Distribution;
pub use crate::load::choices::HttpVersion;
use crate::load::settings;
use crate::masking::{is_secret, mask_text};
use crate::quantity::duration;
use crate::replay::Replay;

/// Keys and values of a cache, and the events on them.
#[derive(Debug, Clone, PartialEq)]
pub struct KvSettings {
    /// Number of keys.
    pub keys: u64,
    /// Share of events that read; the others write.
    pub get_ratio: f64,
    /// Lengths of values; each key has a fixed length.
    pub sizes: Vec<SizeClass>,
    /// Distribution of keys.
    pub distribution: Distribution,
    /// Requests that a connection may have in flight at a time.
    pub pipeline: u32,
    /// Keys that an event reads.
    pub multi_get: u32,
    /// Time to live of a written value, in whole seconds; `None`: unlimited.
    pub ttl: Option<Duration>,
    /// Commands that replace all of the above; an event sends one, drawn by weight.
    pub commands: Vec<CacheCommand>,
}

/// Command that events send to a cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheCommand {
    /// Words, as in a shell; `${...}` in them is a value.
    pub text: String,
    /// Weight of the draw, relative to the weights of the other commands.
    pub weight: u32,
}

impl CacheCommand {
    /// Parses `TEXT` or `TEXT@WEIGHT`; the default weight is 1.
    pub fn parse(written: &str) -> Self {
        let weighted = written.rsplit_once('@').and_then(|(text, weight)| Some((text, weight.parse().ok()?)));
        let (text, weight) = weighted.unwrap_or((written, 1));
        Self { text: text.to_owned(), weight }
    }
}

/// Values of similar length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SizeClass {
    /// Shortest length.
    pub bytes_min: u32,
    /// Longest length.
    pub bytes_max: u32,
    /// Share of keys in this class, relative to the weights of the other classes.
    pub weight: f64,
}

impl KvSettings {
    /// Default of [`Self::sizes`], as text.
    pub const SIZES: &str = settings::SIZES.default_text();
    /// Longest time to live: memcached takes more than 30 days as a date.
    pub const TTL_MAX: Duration = Duration::from_hours(24 * 30);
    /// Longest value that every cache accepts in one piece.
    pub const BYTES_MAX: u32 = 1 << 20;

    /// Defaults: about 18 MB of keys and values.
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

    /// Parses `4-100:60,1024-2048:30`, lengths in bytes and weights; accepts a single length, and the default
    /// weight is 1.
    ///
    /// # Errors
    ///
    /// The problem and a valid example.
    pub fn parse_sizes(text: &str) -> Result<Vec<SizeClass>, String> {
        text.split(',').map(|class| parse_class(class.trim())).collect()
    }

    /// Sizes in the notation of [`Self::parse_sizes`].
    pub fn sizes_text(&self) -> String {
        let mut text = String::new();
        for SizeClass { bytes_min, bytes_max, weight } in &self.sizes {
            let comma = if text.is_empty() { "" } else { "," };
            // Writing into memory does not fail.
            let _ = write!(text, "{comma}{bytes_min}-{bytes_max}:{weight}");
        }
        text
    }

    /// Parses a time to live: whole seconds, at most 30 days.
    ///
    /// # Errors
    ///
    /// The problem and a valid example.
    pub fn parse_ttl(text: &str) -> Result<Duration, String> {
        let ttl = duration(text).map_err(|e| e.to_string())?;
        let is_ttl = !ttl.is_zero() && ttl.subsec_nanos() == 0 && ttl <= Self::TTL_MAX;
        is_ttl.then_some(ttl).ok_or_else(|| "expected whole seconds, at most 30 days".to_owned())
    }

    /// Parses `get=90,set=10` into the share of reads.
    ///
    /// # Errors
    ///
    /// The problem and a valid example.
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
            "`{text}` is not a size class: write FROM-TO:WEIGHT in bytes, 4 to {}, such as 1024-2048:30",
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

/// Settings of requests to a web server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpSettings {
    /// `GET`, `POST` ... .
    pub method: String,
    /// Headers, each as `Name: value`.
    pub headers: Vec<String>,
    /// Body of the request; not sent if empty.
    pub body: String,
    /// Only successful status; `None`: every status below 400 is a success.
    pub expected_status: Option<u16>,
    /// File of requests, which replace the one that the target and the settings above define.
    pub requests: Option<String>,
    /// Access log with the requests of the load, which replace all of the above but the headers.
    pub replay: Option<Replay>,
    /// HTTP version.
    pub version: HttpVersion,
    /// File of certificates that TLS trusts instead of this machine's.
    pub ca: Option<String>,
    /// Whether any certificate is accepted.
    pub insecure: bool,
    /// Client certificate for TLS.
    pub identity: Option<ClientFiles>,
    /// Unix socket that replaces the target's host and port.
    pub unix_socket: Option<String>,
    /// Time after which a request without a complete response is abandoned; `None`: never.
    pub timeout: Option<Duration>,
    /// Whether a connection returns the cookies that it received.
    pub cookies: bool,
    /// File of rows with values for requests.
    pub data: Option<String>,
    /// Requests that an HTTP/2 connection may have in flight at a time.
    pub streams: u32,
}

/// Files of a client certificate and its private key, in PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFiles {
    /// Certificate, with its chain.
    pub cert: String,
    /// Private key.
    pub key: String,
}

impl HttpSettings {
    /// Defaults: a plain GET.
    pub fn plain() -> Self {
        let version = HttpVersion::from_word(settings::HTTP_VERSION.default_text());
        Self {
            method: settings::METHOD.default_text().to_owned(),
            headers: Vec::new(),
            body: String::new(),
            expected_status: None,
            requests: None,
            replay: None,
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

    /// Parses the method of a request: one word; returns it in upper case.
    pub fn parse_method(text: &str) -> Option<String> {
        let is_word = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-');
        is_word.then(|| text.to_ascii_uppercase())
    }

    /// Headers for storage and display: without the values of those that authenticate.
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

/// Settings of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecSettings {
    /// Added environment variables: name and value.
    pub environment: Vec<(String, String)>,
    /// Successful exit status.
    pub expected_status: u8,
}

impl ExecSettings {
    /// Defaults: the environment of this process, and status 0.
    pub fn plain() -> Self {
        Self { environment: Vec::new(), expected_status: 0 }
    }

    /// Parses an environment variable, `NAME=value`.
    pub fn parse_variable(text: &str) -> Option<(String, String)> {
        let (name, value) = text.split_once('=').filter(|_| settings::ENV.values.takes(text))?;
        Some((name.to_owned(), value.to_owned()))
    }

    /// Environment for storage and display: `NAME=value` each, passwords masked.
    pub fn masked_environment(&self) -> Vec<String> {
        let masked = |(name, value): &(String, String)| {
            // The name alone decides for `PGPASSWORD` and `MYSQL_PWD`.
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
