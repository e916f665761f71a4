//! The options of caches, web servers and commands.

use std::time::Duration;

use record::load::{Distribution, settings};
use record::quantity;
use record::requests::{
    CacheCommand, ClientFiles, ExecSettings, HttpSettings, HttpVersion, KvSettings, SizeClass,
};

use crate::setting_values::{amount, text, whole, word};

/// Settings of caches, web servers and commands.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Caches, web servers and commands")]
pub(crate) struct RequestOptions {
    /// Keys of a cache
    #[arg(long, value_name = "N", default_value = settings::KEYS.default_text(), value_parser = whole::<u64>(&settings::KEYS))]
    keys: u64,

    /// Lengths of a cache's values in bytes, with weights; the length of a key's value is fixed
    #[arg(long, value_name = "FROM-TO:WEIGHT,...", default_value = settings::SIZES.default_text(), value_parser = sizes)]
    sizes: Sizes,

    /// Weights of reads and writes
    #[arg(long, value_name = "get=W,set=W", default_value = settings::MIX.default_text(), value_parser = KvSettings::parse_mix)]
    mix: f64,

    /// Distribution of keys: uniform, zipfian, special or pareto
    #[arg(long, value_name = "NAME", default_value = settings::KEY_DISTRIBUTION.default_text(), value_parser = word(&settings::KEY_DISTRIBUTION, Distribution::named))]
    key_distribution: Distribution,

    /// Maximum requests in flight on a connection to a cache
    #[arg(long, value_name = "N", default_value = settings::PIPELINE.default_text(), value_parser = whole::<u32>(&settings::PIPELINE))]
    pipeline: u32,

    /// Keys of a cache that one request reads
    #[arg(long, value_name = "N", default_value = settings::MULTI_GET.default_text(), value_parser = whole::<u32>(&settings::MULTI_GET))]
    multi_get: u32,

    /// Time to live (TTL) of values written to a cache, in whole seconds [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = KvSettings::parse_ttl)]
    ttl: Option<Duration>,

    /// Send this command to Redis instead of reading and writing values, as in `ZADD board ${random(1, 100)}
    /// ann`; with several commands, each event sends one, drawn by weight
    #[arg(long = "command", value_name = "TEXT[@WEIGHT]", allow_hyphen_values = true)]
    commands: Vec<String>,

    /// Check everything that is read against the expected contents
    #[arg(long)]
    verify: bool,

    /// Method of a web request
    #[arg(long, value_name = "WORD", default_value = settings::METHOD.default_text(), value_parser = word(&settings::METHOD, HttpSettings::parse_method))]
    method: String,

    /// A header of a web request; may be given more than once
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = text(&settings::HEADER))]
    headers: Vec<String>,

    /// Body of a web request
    #[arg(
        long,
        value_name = "TEXT",
        allow_hyphen_values = true,
        default_value = "",
        hide_default_value = true
    )]
    body: String,

    /// Expected status of a web request [default: any below 400]
    #[arg(long, value_name = "STATUS", value_parser = whole::<u16>(&settings::EXPECT_STATUS))]
    expect_status: Option<u16>,

    /// File of weighted web requests (TOML), in place of the one request that the target names
    #[arg(long, value_name = "FILE", value_parser = text(&settings::REQUESTS))]
    requests: Option<String>,

    /// Version of HTTP: 1.1, 2, or any (HTTP/2 if an https: server offers it, else HTTP/1.1)
    #[arg(long, value_name = "VERSION", default_value = settings::HTTP_VERSION.default_text(), value_parser = word(&settings::HTTP_VERSION, HttpVersion::from_word))]
    http_version: HttpVersion,

    /// Trust the certificates in this file (PEM) instead of the system's
    #[arg(long, value_name = "FILE", value_parser = text(&settings::CA))]
    ca: Option<String>,

    /// Trust any certificate
    #[arg(long)]
    insecure: bool,

    /// Client certificate (PEM), for an https: server that requests one
    #[arg(long, value_name = "FILE", value_parser = text(&settings::CERT))]
    cert: Option<String>,

    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", value_parser = text(&settings::KEY))]
    key: Option<String>,

    /// Maximum requests in flight on an HTTP/2 connection
    #[arg(long, value_name = "N", default_value = settings::STREAMS.default_text(), value_parser = whole::<u32>(&settings::STREAMS))]
    streams: u32,

    /// Connect to this socket instead of the target's host and port
    #[arg(long, value_name = "PATH", value_parser = text(&settings::UNIX_SOCKET))]
    unix_socket: Option<String>,

    /// Time limit of a web request: without a complete answer by then, it is a `timeout` error, and its
    /// response time a lower bound
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = amount(&settings::TIMEOUT, quantity::duration))]
    timeout: Option<Duration>,

    /// Send back cookies: each connection to a web server returns those that it received
    #[arg(long)]
    cookies: bool,

    /// File of rows (CSV with a header line, or JSON lines); each event draws a row, and `${name}` in path,
    /// header or body is replaced by its value
    #[arg(long, value_name = "FILE", value_parser = text(&settings::DATA))]
    data: Option<String>,

    /// Environment variable of a command; may be given more than once
    #[arg(long = "env", value_name = "NAME=VALUE", value_parser = word(&settings::ENV, ExecSettings::parse_variable))]
    environment: Vec<(String, String)>,

    /// Expected exit status of a command
    #[arg(long, value_name = "STATUS", default_value = settings::EXPECT_EXIT.default_text(), value_parser = whole::<u8>(&settings::EXPECT_EXIT))]
    expect_exit: u8,
}

#[derive(Debug, Clone)]
struct Sizes(Vec<SizeClass>);

impl RequestOptions {
    pub(crate) fn kv(&self) -> KvSettings {
        KvSettings {
            keys: self.keys,
            get_ratio: self.mix,
            sizes: self.sizes.0.clone(),
            distribution: self.key_distribution,
            pipeline: self.pipeline,
            multi_get: self.multi_get,
            ttl: self.ttl,
            commands: self.commands.iter().map(|text| CacheCommand::parse(text)).collect(),
        }
    }

    pub(crate) fn has_commands(&self) -> bool {
        !self.commands.is_empty()
    }

    pub(crate) fn http(&self) -> HttpSettings {
        HttpSettings {
            method: self.method.clone(),
            headers: self.headers.clone(),
            body: self.body.clone(),
            expected_status: self.expect_status,
            requests: self.requests.clone(),
            replay: None,
            version: self.http_version,
            ca: self.ca.clone(),
            insecure: self.insecure,
            identity: self.cert.clone().zip(self.key.clone()).map(|(cert, key)| ClientFiles { cert, key }),
            unix_socket: self.unix_socket.clone(),
            timeout: self.timeout,
            cookies: self.cookies,
            data: self.data.clone(),
            streams: self.streams,
        }
    }

    pub(crate) fn exec(&self) -> ExecSettings {
        ExecSettings { environment: self.environment.clone(), expected_status: self.expect_exit }
    }

    pub(crate) fn verify(&self) -> bool {
        self.verify
    }
}

fn sizes(text: &str) -> Result<Sizes, String> {
    KvSettings::parse_sizes(text).map(Sizes)
}
