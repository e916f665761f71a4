//! `bakeoff serve`: queue, monitor and archive in a browser and over an API.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use load::StopLevel;
use serde_json::json;
use serve::{ServeError, Settings, TlsFiles};

use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::screen::Screen;
use crate::signals;

/// Serve the queue, a monitor of what runs, and the archive, as pages and as an API
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Address; port 0 takes a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8420")]
    listen: SocketAddr,

    /// Accept plans and run them: a plan runs commands as this user
    #[arg(long)]
    queue: bool,

    /// Certificate chain, in PEM; required off this machine
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Tokens, a line each: `read ann TOKEN` or `run bob TOKEN`; mode 0600
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,

    /// Authority of the certificates that clients must have, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    client_ca: Option<PathBuf>,

    /// A further host name under which browsers reach this server, as behind a tunnel
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
}

const EXAMPLES: &str = "\
Without a token, only processes of this user and of root get an answer.

Examples:
  bakeoff serve                                     pages of the archive, read-only
  bakeoff serve --queue                             also accepts plans, from this user
  bakeoff queue submit plan.toml                    from another terminal
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

/// Marks an error of the server or of its client.
pub(crate) fn of_server(error: ServeError) -> anyhow::Error {
    if error.is_usage() { Exit::Usage.with(error) } else { error.into() }
}

/// Path of the running program, also after its file was replaced by a new version.
fn own_program() -> anyhow::Result<PathBuf> {
    let path = std::env::current_exe().context("finding this program")?;
    Ok(if path.exists() { path } else { Path::new("/proc/self/exe").to_owned() })
}
