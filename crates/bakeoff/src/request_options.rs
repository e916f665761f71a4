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

    /// Lengths of its values in bytes, with weights; each key has its own
    #[arg(long, value_name = "FROM-TO:WEIGHT,...", default_value = settings::SIZES.default_text(), value_parser = sizes)]
    sizes: Sizes,

    /// Weights of reads and writes
    #[arg(long, value_name = "get=W,set=W", default_value = settings::MIX.default_text(), value_parser = KvSettings::parse_mix)]
    mix: f64,

    /// Distribution of keys: uniform, zipfian, special or pareto
    #[arg(long, value_name = "NAME", default_value = settings::KEY_DISTRIBUTION.default_text(), value_parser = word(&settings::KEY_DISTRIBUTION, Distribution::named))]
    key_distribution: Distribution,

    /// Requests that a connection to a cache may have in flight at a time
    #[arg(long, value_name = "N", default_value = settings::PIPELINE.default_text(), value_parser = whole::<u32>(&settings::PIPELINE))]
    pipeline: u32,

    /// Keys of a cache that an event reads with one request
    #[arg(long, value_name = "N", default_value = settings::MULTI_GET.default_text(), value_parser = whole::<u32>(&settings::MULTI_GET))]
    multi_get: u32,

    /// Life of values that are written to a cache, in whole seconds [default: unlimited]
    #[arg(long, value_name = "DURATION", value_parser = KvSettings::parse_ttl)]
    ttl: Option<Duration>,

    /// Send this command to Redis instead of reading and writing values, as in `ZADD board ${random(1,
    /// 100)} ann`; of
    /// several commands, an event sends one, drawn by weight
    #[arg(long = "command", value_name = "TEXT[@WEIGHT]")]
    commands: Vec<String>,

    /// Compare everything that is read with the expected contents
    #[arg(long)]
    verify: bool,

    /// Method of a web request
    #[arg(long, value_name = "WORD", default_value = settings::METHOD.default_text(), value_parser = word(&settings::METHOD, HttpSettings::parse_method))]
    method: String,

    /// A header of a web request; may be given more than once
    #[arg(long = "header", value_name = "NAME: VALUE", value_parser = text(&settings::HEADER))]
    headers: Vec<String>,

    /// Body of a web request
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    body: String,

    /// Expected status of a web request [default: any below 400]
    #[arg(long, value_name = "STATUS", value_parser = whole::<u16>(&settings::EXPECT_STATUS))]
    expect_status: Option<u16>,

    /// A file of web requests with weights (TOML), in place of the one that the target names
    #[arg(long, value_name = "FILE", value_parser = text(&settings::REQUESTS))]
    requests: Option<String>,

    /// Version of HTTP: 1.1, 2, or any (HTTP/2 where an https: server has it, else HTTP/1.1)
    #[arg(long, value_name = "VERSION", default_value = settings::HTTP_VERSION.default_text(), value_parser = word(&settings::HTTP_VERSION, HttpVersion::from_word))]
    http_version: HttpVersion,

    /// Trust the certificates in this file (PEM), in place of this machine's own
    #[arg(long, value_name = "FILE", value_parser = text(&settings::CA))]
    ca: Option<String>,

    /// Trust any certificate
    #[arg(long)]
    insecure: bool,

    /// The client's own certificate (PEM), for an https: server that asks for one
    #[arg(long, value_name = "FILE", value_parser = text(&settings::CERT))]
    cert: Option<String>,

    /// The private key of --cert (PEM)
    #[arg(long, value_name = "FILE", value_parser = text(&settings::KEY))]
    key: Option<String>,

    /// Requests that a connection of HTTP/2 may have in flight at a time
    #[arg(long, value_name = "N", default_value = settings::STREAMS.default_text(), value_parser = whole::<u32>(&settings::STREAMS))]
    streams: u32,

    /// Connect to this socket in place of the host and port that the target names
    #[arg(long, value_name = "PATH", value_parser = text(&settings::UNIX_SOCKET))]
    unix_socket: Option<String>,

    /// Give up a web request without a complete answer after this time: a `timeout` error, with a lower
    /// bound as its
    /// response time
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = amount(&settings::TIMEOUT, quantity::duration))]
    timeout: Option<Duration>,

    /// Each connection to a web server returns the cookies that it received
    #[arg(long)]
    cookies: bool,

    /// A file of rows (CSV with a line of names, or JSON lines); an event draws one, and `${name}` in
    /// path, header or
    /// body is its value
    #[arg(long, value_name = "FILE", value_parser = text(&settings::DATA))]
    data: Option<String>,

    /// A variable of a command's environment; may be given more than once
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
