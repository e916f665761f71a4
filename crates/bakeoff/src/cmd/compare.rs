//! `bakeoff compare`: commands against each other, or archived runs.

mod archived;
mod args;
mod commands;
#[cfg(test)]
pub(crate) mod samples;
mod shown;

use std::io::Write;

#[cfg(feature = "serve")]
pub(crate) use self::archived::document;
pub(crate) use self::args::Args;
pub(crate) use self::shown::{page, print};
use crate::cmd::Global;
use crate::cmd::output_files::{self, OutputFile};
use crate::exit::Exit;

pub(crate) fn run(args: &args::Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let files: Vec<OutputFile> = args.outputs.files().chain(args.command.exports()).collect();
    output_files::check(&files, &args.command.files_of_commands())?;
    if args.command.has_commands() {
        args.check_of_commands()?;
        return commands::run(args, global, out);
    }
    if args.runs.is_empty() {
        let what = "nothing to compare: name commands after `--`, as in bakeoff compare -- 'A' 'B', or runs of the archive";
        return Err(Exit::Usage.with(what));
    }
    archived::run(args, global, out)
}
