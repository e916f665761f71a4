//! `tamp -l`: lists compressed files.

use super::args::Args;
use super::decompress::warn_of_garbage;
use super::input::Input;
use super::outcome::{Outcome, say};
use super::printable::printable_json;
use anyhow::bail;
use serde_json::{Value, json};
use std::fmt::Display;
use std::io::{self, Write};

/// The files listed so far.
#[derive(Debug, Default)]
pub(crate) struct List {
    files: Vec<Value>,
    failed: Vec<Value>,
    count: u64,
    packed: u64,
    content: u64,
}

impl List {
    /// Prints a line for one file, or with `--json` stores its entry.
    pub(crate) fn file(&mut self, args: &Args, input: &Input) -> anyhow::Result<Outcome> {
        if !input.metadata.is_file() {
            bail!("a pipe cannot be listed; save it to a file first");
        }
        let listing = match args.reference()? {
            Some(reference) => tamp::list_frame(input.rest()?, &reference, args.reading())?,
            None => tamp::list(input.rest()?, args.reading())?,
        };
        let (packed, content) = (listing.file_bytes, listing.content_bytes);
        if args.json {
            self.files.push(json!({
                "file": input.real_name(),
                "format": listing.container,
                "compressed_bytes": packed,
                "content_bytes": content,
                "blocks": listing.blocks,
                "random_access": listing.is_seekable,
                "unfinished_at": listing.unfinished,
                "index_damaged_at": listing.index_damaged,
                "trailing_garbage_at": listing.trailing_garbage,
            }));
        } else {
            if self.count == 0 && !args.quiet {
                head()?;
            }
            let blocks = listing.blocks.map_or_else(|| "-".to_owned(), |blocks| blocks.to_string());
            let random = if listing.is_seekable { "yes" } else { "no" };
            line(packed, content, listing.container, &blocks, random, &input.name())?;
        }
        self.count += 1;
        self.packed += packed;
        self.content += content;
        let unfinished = listing.unfinished.map(|offset| tamp::Error::Unfinished { offset });
        let index = listing.index_damaged;
        let index =
            index.map(|offset| tamp::Error::Index { offset, what: "the list of frames or the seek table" });
        if let Some(error) = unfinished.or(index) {
            say(&format_args!("{}: {error}", input.name()));
            return Ok(Outcome::Bad);
        }
        Ok(listing.trailing_garbage.map_or(Outcome::Done, |at| warn_of_garbage(args, input, at)))
    }

    /// Stores an entry for a file that cannot be listed.
    pub(crate) fn failed(&mut self, name: &dyn Display, error: &anyhow::Error) {
        self.failed.push(json!({ "file": name.to_string(), "error": format!("{error:#}") }));
    }

    /// Prints the totals of several files, or with `--json` the whole object.
    pub(crate) fn finish(self, args: &Args) -> io::Result<()> {
        if args.json {
            let total = json!({
                "files": self.count,
                "failed": self.failed.len(),
                "compressed_bytes": self.packed,
                "content_bytes": self.content,
            });
            let list = json!({ "schema": "tamp.list/1", "files": self.files, "failed": self.failed, "total": total });
            return writeln!(io::stdout(), "{}", printable_json(&list));
        }
        if self.count < 2 {
            return Ok(());
        }
        line(self.packed, self.content, "", "", "", &format!("{} files", self.count))
    }
}

fn head() -> io::Result<()> {
    writeln!(
        io::stdout(),
        "{:>15} {:>15} {:>7} {:>6} {:>9} {:>7}  name",
        "compressed",
        "uncompressed",
        "ratio",
        "format",
        "blocks",
        "random"
    )
}

fn line(packed: u64, content: u64, format: &str, blocks: &str, random: &str, name: &str) -> io::Result<()> {
    let reduction_pct = if content == 0 { 0.0 } else { 100.0 * (1.0 - packed as f64 / content as f64) };
    writeln!(
        io::stdout(),
        "{packed:>15} {content:>15} {reduction_pct:>6.1}% {format:>6} {blocks:>9} {random:>7}  {name}"
    )
}
