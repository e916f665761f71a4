//! `bakeoff generate`: files for packagers, generated from the definition of the command line.

use std::io::Write;

use clap::CommandFactory as _;

use crate::cli::Cli;
use crate::exit::Exit;

/// Print the man page or shell completions
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What to print
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// The man page of bakeoff, or of one of its commands
    #[command(after_help = "Examples:\n  bakeoff generate man > bakeoff.1\n  bakeoff generate man load > bakeoff-load.1")]
    Man {
        /// A command, such as `load`
        command: Option<String>,
    },
    /// Completions for a shell
    #[command(after_help = "Examples:\n  bakeoff generate completions bash > bakeoff.bash")]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut definition = Cli::command();
    definition.build();
    match &args.what {
        What::Man { command } => {
            let page = match command {
                Some(name) => definition.find_subcommand(name).cloned().ok_or_else(|| {
                    anyhow::anyhow!("there is no command `{name}`; `bakeoff help` lists them")
                })?,
                None => definition,
            };
            clap_mangen::Man::new(page).render(out)?;
        }
        What::Completions { shell } => {
            // The generator panics if it cannot write; writing to memory cannot fail.
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut definition, "bakeoff", &mut text);
            out.write_all(&text)?;
        }
    }
    Ok(Exit::Good)
}
