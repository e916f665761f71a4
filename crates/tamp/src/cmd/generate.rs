//! `tamp --generate`: the man page and completions, generated from the definition of the command line.

use super::args::{Generate, command};
use super::{EXIT_FAILED, say};
use crate::descriptors;
use std::io::{self, Write};

/// Prints the man page or the completions; yields the exit code.
pub(crate) fn run(what: Generate) -> u8 {
    if descriptors::was_closed(1) {
        say(&"standard output is closed");
        return EXIT_FAILED;
    }
    let mut command = command();
    command.build();
    let mut text = Vec::new();
    let rendered = match what.shell() {
        None => clap_mangen::Man::new(command).render(&mut text),
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
