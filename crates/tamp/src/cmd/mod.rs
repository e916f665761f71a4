//! The command's work on each file.

pub(crate) mod args;
mod attributes;
mod compress;
mod decompress;
mod entry;
mod generate;
mod input;
mod list;
mod output;
mod printable;
mod rights;
pub(crate) mod watch;

use crate::descriptors;
use anyhow::Context;
use args::Args;
use input::{Found, Input};
use list::List;
use printable::printable;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;

/// Exit code after a failure.
const EXIT_FAILED: u8 = 1;
/// Exit code after a wrong command line or a warning, such as a skipped file; the same as gzip's.
pub(crate) const EXIT_USAGE: u8 = 2;

/// Result for one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Done,
    /// Done or skipped, with a warning.
    Warned,
    /// Done as far as possible: content is missing or not verified.
    Bad,
}

/// Works on all files; returns the exit code: failed if any failed, else warned if any warned.
pub(crate) fn run(args: &Args) -> u8 {
    if let Some(what) = args.generate {
        return generate::run(what);
    }
    if args.list && descriptors::was_closed(1) {
        say(&"standard output is closed");
        return EXIT_FAILED;
    }
    if args.reads_compressed() {
        rights::give_up(args);
    }
    let mut codes = Vec::new();
    let (mut list, mut on_stdout) = (List::default(), 0);
    let mut run_one = |input: anyhow::Result<Option<Input>>, name: &dyn Display| {
        codes.push(
            match input.and_then(|input| {
                input.map_or(Ok(Outcome::Warned), |input| file(args, &input, &mut list, &mut on_stdout))
            }) {
                Ok(Outcome::Done) => 0,
                Ok(Outcome::Warned) => EXIT_USAGE,
                Ok(Outcome::Bad) => EXIT_FAILED,
                Err(error) => {
                    say(&format_args!("{name}: {error:#}"));
                    list.failed(name, &error);
                    EXIT_FAILED
                }
            },
        );
    };
    if args.files.is_empty() {
        run_one(Input::stdin(args).map(Some), &"standard input");
    }
    for path in &args.files {
        if path.as_os_str() == "-" {
            run_one(Input::stdin(args).map(Some), &"standard input");
            continue;
        }
        input::walk(path, args, &mut |path, walked| {
            let walked = walked.context("reading the folder");
            if matches!(walked, Ok((_, Found::Below)))
                && args.reads_compressed()
                && !decompress::is_named(path, args)
            {
                // gzip skips it without a message, too.
                return;
            }
            run_one(walked.and_then(|(entry, found)| Input::open(entry, found, args)), &path.display());
        });
    }
    if args.list
        && let Err(error) = list.finish(args)
    {
        say(&format_args!("printing the list: {error}"));
        codes.push(EXIT_FAILED);
    }
    let worst = [EXIT_FAILED, EXIT_USAGE].into_iter().find(|code| codes.contains(code));
    worst.unwrap_or(0)
}

fn file(args: &Args, input: &Input, list: &mut List, on_stdout: &mut u64) -> anyhow::Result<Outcome> {
    if args.list {
        rights::decode(|| list.file(args, input))
    } else if args.decompress || args.test {
        decompress::file(args, input)
    } else {
        compress::file(args, input, on_stdout)
    }
}

/// Removes the input after the output is complete and on disk.
fn remove_input(input: &Input) -> anyhow::Result<()> {
    let Some(entry) = &input.entry else { return Ok(()) };
    // Remove only the file that was read, not one that replaced it. If the entry is a link, the link is
    // removed.
    let found = entry.state().context("checking the input before removing it")?;
    if !input.is(&found) {
        anyhow::bail!("it was replaced while it was read, so it is not removed");
    }
    let of = &input.metadata;
    let changed = (found.st_size, found.st_mtime, i64::try_from(found.st_mtime_nsec));
    // A program that writes in place may restore the modification time (`rsync --inplace --times`), but not
    // the change time.
    let touched = (found.st_ctime, i64::try_from(found.st_ctime_nsec));
    if changed != (of.len().cast_signed(), of.mtime(), Ok(of.mtime_nsec()))
        || touched != (of.ctime(), Ok(of.ctime_nsec()))
    {
        anyhow::bail!("it changed while it was read, so it is not removed");
    }
    entry.remove().context("removing the input")
}

/// Prints a line on standard error. Ignores errors: standard error may be closed.
fn say(line: &dyn Display) {
    let _ = writeln!(io::stderr(), "tamp: {}", printable(&line.to_string()));
}

/// Prints a warning, unless `--quiet` is set.
fn warn(args: &Args, line: &dyn Display) -> Outcome {
    if !args.quiet {
        say(line);
    }
    Outcome::Warned
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    fn an_input_that_was_written_to_or_replaced_meanwhile_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        let args = Args::from_command_line(["tamp", "log"].map(OsString::from)).unwrap();
        let open = || Input::open(entry::Entry::named(&path).unwrap(), Found::Named, &args).unwrap().unwrap();
        std::fs::write(&path, b"a line\n").unwrap();

        let input = open();
        std::fs::write(&path, b"a line\nand another\n").unwrap();
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "it changed while it was read, so it is not removed"
        );

        let input = open();
        let modified = input.metadata.modified().unwrap();
        // The file system's clock may advance only every few milliseconds.
        while std::fs::metadata(&path).unwrap().ctime_nsec() == input.metadata.ctime_nsec() {
            std::fs::write(&path, b"A LINE\nand another\n").unwrap();
            std::fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
        }
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "it changed while it was read, so it is not removed"
        );

        let input = open();
        std::fs::rename(&path, folder.path().join("log.1")).unwrap();
        std::fs::write(&path, b"a line\nand another\n").unwrap();
        assert_eq!(
            remove_input(&input).unwrap_err().to_string(),
            "it was replaced while it was read, so it is not removed"
        );

        remove_input(&open()).unwrap();
        assert!(!path.exists());
    }
}
