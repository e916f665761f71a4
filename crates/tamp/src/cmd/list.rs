//! `tamp -l`: what is in compressed files.

use super::Outcome;
use super::args::Args;
use super::input::Input;
use anyhow::bail;
use std::io::{self, Write};

pub(crate) fn head(args: &Args) {
    if !args.quiet {
        let _ = writeln!(
            io::stdout(),
            "{:>15} {:>15} {:>7} {:>6} {:>9} {:>7}  name",
            "compressed",
            "uncompressed",
            "ratio",
            "format",
            "blocks",
            "random"
        );
    }
}

/// A line for one file.
pub(crate) fn file(args: &Args, input: &Input) -> anyhow::Result<Outcome> {
    if !input.metadata.is_file() {
        bail!("a pipe cannot be listed; save it to a file first");
    }
    let listing = tamp::list(&input.file, args.threads())?;
    let (packed, content) = (listing.file_bytes, listing.content_bytes);
    let reduction_pct = if content == 0 { 0.0 } else { 100.0 * (1.0 - packed as f64 / content as f64) };
    writeln!(
        io::stdout(),
        "{packed:>15} {content:>15} {reduction_pct:>6.1}% {:>6} {:>9} {:>7}  {}",
        listing.format.suffix(),
        listing.blocks.map_or_else(|| "-".to_owned(), |blocks| blocks.to_string()),
        if listing.is_seekable { "yes" } else { "no" },
        input.name()
    )?;
    Ok(Outcome::Done)
}
