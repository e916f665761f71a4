//! `bakeoff`: a performance lab in one binary.
//!
//! This crate parses, calls, prints and exits; what it prints is computed elsewhere.

mod cli;
mod cmd;
mod command_options;
mod confine;
mod exit;
mod features;
#[cfg(feature = "fleet")]
mod fleet_words;
mod given;
mod help;
mod impossible;
mod like;
mod live;
mod load_options;
mod load_screen;
mod moment;
mod own_cost;
mod replay_options;
mod request_options;
mod screen;
mod script_file;
mod script_options;
mod setting_values;
mod signals;
mod standard_output;
mod text_file;
mod watch_screen;

use std::io::Write as _;
use std::process::ExitCode;

use record::clock::{Clock as _, Monotonic};
use record::printable::{Form, Guarded, printable_lines};

use crate::script_options::Unread;
use crate::standard_output::StandardOutput;

fn main() -> ExitCode {
    // The first reading asks /proc for the time namespace, as long as this process may.
    let _ = Monotonic.now_ns();
    let typed = std::env::args_os().collect();
    let words = match like::expanded(typed, &mut Guarded::new(StandardOutput::lock(), Form::Plain)) {
        Ok(like::Arguments::Words(words)) => words,
        Ok(like::Arguments::Printed(exit)) => return exit.into(),
        Err(error) if exit::reader_has_gone(&error) => return exit::Exit::Good.into(),
        Err(error) => return failed(&error),
    };
    let cli = match cli::Cli::read_from(&words) {
        Ok(cli) => cli,
        Err(Unread::CommandLine(error)) => return exit::of_command_line(&error),
        Err(Unread::Script(error)) => return failed(&error),
    };
    cmd::remember_words(words);
    let result = match cli.output() {
        None => run(&cli, &mut StandardOutput::lock()),
        Some(form) => run(&cli, &mut Guarded::new(StandardOutput::lock(), form)),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) if exit::reader_has_gone(&error) => exit::Exit::Good.into(),
        Err(error) => failed(&error),
    }
}

/// Prints an error; its exit code.
fn failed(error: &anyhow::Error) -> ExitCode {
    // Standard error may be closed too; the message is then lost.
    let _ = writeln!(std::io::stderr(), "bakeoff: {}", printable_lines(&format!("{error:#}")));
    exit::Exit::of(error).into()
}

fn run(cli: &cli::Cli, out: &mut dyn std::io::Write) -> anyhow::Result<exit::Exit> {
    let exit = if cli.reads_what_others_wrote() {
        impossible::as_damage(|| cmd::run(cli, out))?
    } else {
        cmd::run(cli, out)?
    };
    match out.flush() {
        // A result's own code tells more than that its reader has gone or its disk is full.
        Err(error) if exit != exit::Exit::Good => {
            let error = anyhow::Error::from(error);
            if !exit::reader_has_gone(&error) {
                failed(&error);
            }
        }
        flushed => flushed?,
    }
    Ok(exit)
}
