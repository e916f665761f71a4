//! `bakeoff`: a performance lab in one binary.
//!
//! This crate parses, calls, prints and exits; what it prints is computed elsewhere.

mod cli;
mod cmd;
mod confine;
mod exit;
mod impossible;
mod live;
mod load_options;
mod load_screen;
mod own_cost;
mod request_options;
mod screen;
mod setting_values;
mod signals;
mod text_file;
mod watch_screen;

use std::io::Write as _;
use std::process::ExitCode;

use record::printable::{Guarded, printable_lines};

fn main() -> ExitCode {
    let cli = match cli::Cli::read() {
        Ok(cli) => cli,
        Err(error) => return exit::of_command_line(&error),
    };
    let result = match cli.output() {
        None => run(&cli, &mut std::io::stdout().lock()),
        Some(form) => run(&cli, &mut Guarded::new(std::io::stdout().lock(), form)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) if exit::reader_has_gone(&error) => exit::Exit::Good.into(),
        Err(error) => {
            // Standard error may be closed too; the message is then lost.
            let _ = writeln!(std::io::stderr(), "bakeoff: {}", printable_lines(&format!("{error:#}")));
            exit::Exit::of(&error).into()
        }
    }
}

fn run(cli: &cli::Cli, out: &mut dyn std::io::Write) -> anyhow::Result<exit::Exit> {
    let exit = if cli.reads_what_others_wrote() {
        impossible::as_damage(|| cmd::run(cli, out))?
    } else {
        cmd::run(cli, out)?
    };
    out.flush()?;
    Ok(exit)
}
