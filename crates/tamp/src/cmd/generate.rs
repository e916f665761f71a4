//! `tamp --generate`: the man page and completions, generated from the definition of the command line.

use super::args::{Generate, command};
use super::outcome::{EXIT_FAILED, say};
use crate::descriptors;
use clap::{Arg, Command};
use std::fmt::Write as _;
use std::io::{self, Write};

/// Sections of the man page and of `--help` that the options do not contain.
const SECTIONS: [(&str, &[(&str, &str)]); 4] = [
    (
        "SIZES",
        &[(
            "",
            "SIZE is a number of bytes. K, M, G and T (also KiB, MiB, GiB, TiB) multiply by powers of 1024; kB, MB and GB by powers of 1000.",
        )],
    ),
    (
        "EXIT STATUS",
        &[
            ("0", "Success."),
            ("1", "Failure, or --salvage lost something."),
            (
                "2",
                "Wrong command line, a file was skipped with a warning, trailing garbage was ignored, or a file that is unfinished or has a damaged seek table was decompressed.",
            ),
        ],
    ),
    (
        "ENVIRONMENT",
        &[
            ("TAMP_LEVEL", "Level from 0 to 9, if the command line has none."),
            ("TAMP_THREADS", "Default of --threads."),
            (
                "TAMP_FORMAT",
                "zst, lz4 or bgzf, if neither an option nor the name of --output chooses the format.",
            ),
            ("TAMP_MEMORY", "Default of --memory."),
        ],
    ),
    (
        "EXAMPLES",
        &[
            ("tamp dump.sql", "Replaces dump.sql by dump.sql.zst."),
            ("tamp -d dump.sql.zst", "Restores it."),
            (
                "mariadb-dump shop | tamp --keep-up > shop.sql.zst",
                "Compresses a stream without slowing its writer.",
            ),
            ("tamp --range 3GiB:3073MiB shop.sql.zst", "Prints 1 MiB from the middle."),
            ("tamp --salvage damaged.zst -o out", "Writes the readable content."),
        ],
    ),
];

/// The sections as text, for `--help`.
pub(crate) fn sections() -> String {
    let mut text = String::new();
    for (title, items) in SECTIONS {
        let _ = writeln!(text, "{title}:");
        for (term, what) in items {
            let _ = if term.is_empty() {
                writeln!(text, "  {what}")
            } else {
                writeln!(text, "  {term}\n          {what}")
            };
        }
        text.push('\n');
    }
    text.trim_end().to_owned()
}

fn man(command: Command, page: &mut Vec<u8>) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.mut_args(with_aliases));
    man.render_title(page)?;
    man.render_name_section(page)?;
    man.render_synopsis_section(page)?;
    man.render_description_section(page)?;
    man.render_options_section(page)?;
    for (title, items) in SECTIONS {
        writeln!(page, ".SH \"{title}\"")?;
        for (term, what) in items {
            if !term.is_empty() {
                writeln!(page, ".TP\n\\fB{}\\fR", escaped(term))?;
            }
            writeln!(page, "{}", escaped(what))?;
        }
    }
    man.render_version_section(page)
}

/// Adds the aliases to an argument's help: the generator leaves them out.
fn with_aliases(arg: Arg) -> Arg {
    let short = arg.get_visible_short_aliases().unwrap_or_default();
    let long = arg.get_visible_aliases().unwrap_or_default();
    let aliases: Vec<_> = short
        .iter()
        .map(|alias| format!("-{alias}"))
        .chain(long.iter().map(|alias| format!("--{alias}")))
        .collect();
    match arg.get_help() {
        Some(help) if !aliases.is_empty() => {
            let help = format!("{help} [also: {}]", aliases.join(", "));
            arg.help(help)
        }
        _ => arg,
    }
}

/// Escapes text, so roff finds no hyphen, escape or request in it.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Prints the man page or the completions; returns the exit code.
pub(crate) fn run(what: Generate) -> u8 {
    if descriptors::was_closed(1) {
        say(&"standard output is closed");
        return EXIT_FAILED;
    }
    let mut command = command();
    command.build();
    let mut text = Vec::new();
    let rendered = match what.shell() {
        None => man(command, &mut text),
        Some(shell) => {
            clap_complete::generate(shell, &mut command, "tamp", &mut text);
            Ok(())
        }
    };
    match rendered.and_then(|()| io::stdout().write_all(&text)) {
        Ok(()) => 0,
        Err(error) => {
            say(&error);
            EXIT_FAILED
        }
    }
}
