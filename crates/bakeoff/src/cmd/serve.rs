//! `bakeoff serve`: queue, monitor and archive in a browser and over an API.

mod printer;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use load::StopLevel;
use serde_json::json;
use serve::{INSTRUMENTS, ServeError, Settings, TlsFiles, Url};

use self::printer::Own;
use crate::cmd::{Global, print_json};
use crate::confine::Reader;
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals;

/// Serve the queue, a live monitor and the archive, as web pages and as an API
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address; port 0 takes a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,

    /// Accept plans and run them: a plan runs commands as this user
    #[arg(long)]
    queue: bool,

    /// Certificate chain, in PEM; required if other machines can connect
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// File of tokens, one per line: `read ann TOKEN` or `run bob TOKEN`; mode 0600
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Certificate authority (CA) of client certificates, in PEM; clients must have one
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,

    /// Instruments that the monitor and /metrics show, separated by commas: cpu, io, locks, memory, nic; each
    /// is a separate process beside the measurements
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = instrument)]
    instruments: Vec<&'static str>,

    /// Send a document to this address when an entry ends; default: `$BAKEOFF_WEBHOOK`
    #[arg(long, value_name = "URL", requires = "queue")]
    webhook: Option<Url>,

    /// Further host name by which browsers reach this server, such as behind a tunnel
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
}

const EXAMPLES: &str = "\
Without a token, only processes of this user and of root get an answer.

Examples:
  bakeoff serve                                     pages of the archive, read-only
  bakeoff serve --queue                             also accepts plans, from this user
  bakeoff queue submit plan.toml                    from another terminal
  bakeoff serve --instruments cpu,io,locks          also shows what the machine does
  bakeoff serve --queue --listen 0.0.0.0:8420 --tls-cert cert.pem --tls-key key.pem --token-file tokens";

pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let archive = global.archive_for_writing()?;
    let folder = std::fs::canonicalize(archive.dir()).context("finding the archive")?;
    let tls = args.tls_cert.clone().zip(args.tls_key.clone()).map(|(cert, key)| TlsFiles { cert, key });
    let settings = Settings {
        archive: archive::Archive::open(&folder)?,
        listen: args.listen,
        queue: args.queue,
        tls,
        token_file: args.token_file.clone(),
        client_ca: args.client_ca.clone(),
        names: args.names.clone(),
        program: own_program()?,
        printer: Arc::new(Own),
        instruments: sorted(&args.instruments),
        confine: if args.queue { None } else { Some(confined) },
        webhook: webhook(args)?,
    };
    signals::stop_on_interrupt()?;
    let stop = || match signals::STOP.level() {
        StopLevel::Run => 0,
        StopLevel::Finish => 1,
        StopLevel::Now => 2,
    };
    let mut first = true;
    let mut say = |line: &str| {
        let is_address = std::mem::take(&mut first);
        // Programs wait for this line; later ones are for people.
        if is_address && global.json {
            let address = line.split_whitespace().next().unwrap_or_default();
            let _ = print_json(out, &json!({"schema": "bakeoff.serve/1", "url": address}))
                .and_then(|()| Ok(out.flush()?));
        } else {
            Screen::new().line(line);
        }
    };
    serve::serve(&settings, Arc::new(stop), &mut say).map_err(of_server)?;
    Ok(Exit::Good)
}

/// Gives up everything but what pages of an archive need: its files, the kernel's table of connections, and
/// the log of a server that a bake-off measures now.
fn confined(archive: &Path) {
    let reads = [Path::new("/proc"), Path::new("/etc/passwd"), Path::new("/etc/nsswitch.conf")];
    let reader = reads.into_iter().fold(Reader::default().writes(archive), Reader::reads);
    reader.reads(&std::env::temp_dir()).confine_server("serve");
}

fn instrument(text: &str) -> Result<&'static str, String> {
    let found = INSTRUMENTS.into_iter().find(|name| *name == text);
    found.ok_or_else(|| format!("expected one of {}", INSTRUMENTS.join(", ")))
}

/// Each instrument once.
fn sorted(names: &[&'static str]) -> Vec<&'static str> {
    names.iter().copied().collect::<BTreeSet<_>>().into_iter().collect()
}

/// The address of the webhook. It may hold a secret, which an environment shows to fewer than a command line.
fn webhook(args: &Args) -> anyhow::Result<Option<Url>> {
    let named = std::env::var("BAKEOFF_WEBHOOK").ok().filter(|text| args.queue && !text.is_empty());
    match (&args.webhook, named) {
        (Some(url), _) => Ok(Some(url.clone())),
        (None, Some(text)) => Ok(Some(text.parse().map_err(of_server)?)),
        (None, None) => Ok(None),
    }
}

/// Marks an error of the server or of its client.
pub(crate) fn of_server(error: ServeError) -> anyhow::Error {
    if error.is_usage() { Exit::Usage.with(error) } else { error.into() }
}

/// Path of the running program, also after its file was replaced by a new version.
fn own_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("finding this program")?;
    Ok(if path.exists() { path } else { Path::new("/proc/self/exe").to_owned() })
}
