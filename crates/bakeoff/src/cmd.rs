//! One file a command.

pub(crate) mod generate;

use std::io::Write;

use crate::cli::{Cli, Command};
use crate::exit::Exit;

/// Runs the command that was typed; what it has to say goes to `out`.
pub(crate) fn run(cli: &Cli, out: &mut dyn Write) -> anyhow::Result<Exit> {
    match &cli.command {
        Command::Generate(args) => generate::run(args, out),
    }
}
