//! Command lines of `bakeoff load` that an agent is given by its conductor.

use std::ffi::OsString;
use std::sync::Arc;

use fleet::Meant;

use crate::cli::{Cli, Command};
use crate::cmd::load;
use crate::exit::Exit;

/// The meaning of a command line of `load` on this machine.
pub(crate) fn meant(words: &[String]) -> anyhow::Result<Meant> {
    let is_script = |word: &String| word == "--script" || word.starts_with("--script=");
    if words.iter().any(is_script) {
        return Err(Exit::Usage.with("a fleet cannot run scripts yet"));
    }
    let words: Vec<OsString> = words.iter().map(OsString::from).collect();
    let Ok(Cli { command: Command::Load(args), .. }) = Cli::read_from(&words) else {
        return Err(Exit::Usage.with("this version cannot parse the plan as a `bakeoff load` command line"));
    };
    if args.reads_standard_input() {
        return Err(Exit::Usage.with("a plan cannot name the standard input of an agent"));
    }
    let (meant, _) = load::meant(&args)?;
    Ok(Meant { settings: meant.settings, recorded: meant.recorded.unwrap_or_else(|| Arc::from([])) })
}
