//! `bakeoff generate`: files for packagers, generated from the definition of the command line.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use nix::fcntl::OFlag;
use record::nearest::did_you_mean;

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
    /// Write all man pages and completions below a folder, for packages
    #[command(after_help = "Examples:\n  bakeoff generate files build/generated")]
    Files {
        /// The folder
        folder: PathBuf,
    },
    /// The man page of bakeoff, or of one of its commands
    #[command(
        after_help = "Examples:\n  bakeoff generate man > bakeoff.1\n  bakeoff generate man load > bakeoff-load.1"
    )]
    Man {
        /// A command, such as `load`
        command: Option<String>,
    },
    /// Completions for a shell
    #[command(after_help = "Examples:\n  bakeoff generate completions bash > bakeoff.bash")]
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// Shells, with the names that their completions have.
const SHELLS: [(Shell, &str); 3] =
    [(Shell::Bash, "bakeoff.bash"), (Shell::Zsh, "_bakeoff"), (Shell::Fish, "bakeoff.fish")];

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut definition = Cli::command();
    definition.build();
    match &args.what {
        What::Man { command } => {
            let page = match command {
                Some(name) => {
                    definition.find_subcommand(name).cloned().ok_or_else(|| unknown(name, &definition))?
                }
                None => definition,
            };
            clap_mangen::Man::new(page).render(out)?;
        }
        What::Completions { shell } => out.write_all(&completions(*shell, &mut definition))?,
        What::Files { folder } => files(folder, &mut definition)?,
    }
    Ok(Exit::Good)
}

fn unknown(name: &str, definition: &clap::Command) -> anyhow::Error {
    let names = definition.get_subcommands().map(clap::Command::get_name);
    Exit::Usage
        .with(format!("unknown command `{name}`: `bakeoff -h` lists them{}", did_you_mean(name, names)))
}

fn completions(shell: Shell, definition: &mut clap::Command) -> Vec<u8> {
    // The generator panics if it cannot write; writing to memory cannot fail.
    let mut text = Vec::new();
    clap_complete::generate(shell, definition, "bakeoff", &mut text);
    text
}

fn files(folder: &Path, definition: &mut clap::Command) -> anyhow::Result<()> {
    let write = |path: PathBuf, text: &[u8]| {
        archive::whole_file::write(&path, text).with_context(|| format!("writing {}", path.display()))
    };
    let man = folder.join("man1");
    std::fs::create_dir_all(&man).with_context(|| format!("creating {}", man.display()))?;
    // Another user's link in its place would lead root to any folder.
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags((OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW).bits())
        .open(&man);
    let opened = opened.with_context(|| format!("writing into {}", man.display()))?;
    let man = PathBuf::from(format!("/proc/self/fd/{}", opened.as_raw_fd()));
    let pages = definition.get_subcommands().filter(|page| page.get_name() != "help");
    for page in std::iter::once(&*definition).chain(pages) {
        let name = match page.get_name() {
            "bakeoff" => "bakeoff".to_owned(),
            name => format!("bakeoff-{name}"),
        };
        let mut text = Vec::new();
        clap_mangen::Man::new(page.clone()).title(name.to_uppercase()).render(&mut text)?;
        write(man.join(format!("{name}.1")), &text)?;
    }
    for (shell, name) in SHELLS {
        write(folder.join(name), &completions(shell, definition))?;
    }
    Ok(())
}
