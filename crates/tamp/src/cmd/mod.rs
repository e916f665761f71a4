//! The command's work on each file.

pub(crate) mod args;
mod attributes;
mod compress;
mod decompress;
mod entry;
mod generate;
mod input;
mod list;
mod outcome;
mod output;
mod printable;
mod removal;
mod rights;
pub(crate) mod watch;

use crate::descriptors;
use anyhow::Context;
use args::Args;
use input::{Found, Input};
use list::List;
pub(crate) use outcome::EXIT_USAGE;
use outcome::{EXIT_FAILED, Outcome, say};
use std::fmt::Display;

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
