//! `bakeoff`: a performance lab in one binary.
//!
//! This crate parses, calls, prints and exits; what it prints is computed elsewhere.

mod cli;
mod cmd;
mod exit;
mod load_options;
mod load_screen;
mod request_options;
mod screen;
mod signals;
mod watch_screen;
mod whole_file;

use std::io::Write as _;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match cli::Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::of_command_line(&error),
    };
    let mut out = std::io::stdout().lock();
    let result = cmd::run(&cli, &mut out).and_then(|exit| Ok(out.flush().map(|()| exit)?));
    match result {
        Ok(exit) => exit.into(),
        Err(error) if exit::reader_has_gone(&error) => exit::Exit::Good.into(),
        Err(error) => {
            // Standard error may be closed too; then there is nobody left to tell.
            let _ = writeln!(std::io::stderr(), "bakeoff: {error:#}");
            exit::Exit::of(&error).into()
        }
    }
}
