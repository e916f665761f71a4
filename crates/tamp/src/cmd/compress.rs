//! `tamp FILE`

use super::args::Args;
use super::input::{Found, Input};
use super::outcome::{Outcome, warn};
use super::output::{Holds, Output};
use super::watch::{Watch, Way};
use crate::signal;
use anyhow::Context;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tamp::{Error, FrameOptions, Options, Places, Suffix, Writer};

/// Compresses a file; `on_stdout` counts the files written to standard output.
pub(crate) fn file(args: &Args, input: &Input, on_stdout: &mut u64) -> anyhow::Result<Outcome> {
    let output = match (&args.output, &input.entry) {
        (Some(path), _) => Output::create(path, args, Holds::Compressed, input)?,
        (None, Some(entry)) if !args.stdout => {
            let path = entry.path();
            if let Some(suffix) = compressed_suffix(path, args.suffix()).filter(|_| !args.force) {
                if input.found == Found::Below {
                    return Ok(Outcome::Done);
                }
                return Ok(warn(
                    args,
                    &format_args!("{} already has .{suffix} suffix -- unchanged", path.display()),
                ));
            }
            Output::create_beside(entry, named(path, args.suffix()), args, input)?
        }
        _ => Some(Output::stdout(args, Holds::Compressed, input)?),
    };
    let Some(output) = output else { return Ok(Outcome::Warned) };
    // A device or a pipe may not store the output.
    let replaces = replaces(args, input) && output.is_new();
    warn_of_output(args, input, &output, *on_stdout)?;
    *on_stdout += u64::from(args.stdout);

    let mut options = args.options();
    options.verify = args.verify || replaces;
    let extent = input.extent()?;
    let total_bytes = extent.map(|(_, bytes)| bytes).or(args.size_hint);
    let watch = Arc::new(Watch::new(args, input, Way::Compress, total_bytes));
    let _answering = signal::answer_by(&watch);

    let in_place = output.place()?.zip(extent).filter(|_| !args.keep_up && !args.rsyncable);
    if let Some(mut frame) = args.frame(extent.map(|(_, bytes)| bytes))? {
        // A hint may be wrong: the frame states only the size of a file.
        frame.content_bytes = extent.map(|(_, bytes)| bytes);
        frame.verify = options.verify;
        one_frame(input, &output, &frame, &watch)?;
    } else if let Some(((to, output_at), (input_at, input_bytes))) = in_place {
        if args.direct && input.entry.is_some() {
            input.read_directly();
        }
        let places =
            Places { input: &input.file, input_at, input_bytes, output: Some(to), output_at, sparse: false };
        let written = tamp::compress_file(&places, &options, &watch.meter, &|| watch.look_up())?;
        output.pass(output_at + written)?;
        input.pass(input_at + input_bytes)?;
    } else {
        let input_bytes = extent.map(|(_, bytes)| bytes);
        options.content_bytes = input_bytes.or(options.content_bytes);
        stream(input, input_bytes, &output, &options, &watch)?;
    }

    if args.direct {
        input.drop_cached();
    }
    output.finish(input, args)?;
    watch.finish(args, None);
    if replaces {
        super::removal::remove_input(input)?;
    } else if extent.is_some() {
        input.check_unchanged()?;
    }
    Ok(Outcome::Done)
}

/// Warns if old tools read only a part of the output, or if its name is that of another format.
fn warn_of_output(args: &Args, input: &Input, output: &Output, on_stdout: u64) -> anyhow::Result<()> {
    if let Some(what) = args.format().warns_of_rows()
        && (on_stdout > 0 || output.continues()?)
    {
        let (name, suffix) = (input.name(), args.format().suffix());
        warn(args, &format_args!("{name}: the output has several .{suffix} files in a row: {what}"));
    }

    if let Some(asked) = args.suffix_of_output().filter(|asked| asked.format != Some(args.format())) {
        let (name, written) = (input.name(), args.format().suffix());
        warn(
            args,
            &format_args!("{name}: the output is a .{written}, but its name is that of a .{}", asked.name),
        );
    }
    Ok(())
}

/// Compresses block by block through a writer.
///
/// Reads `input_bytes` of a regular file: bytes that are appended during the run are not part of it.
fn stream(
    input: &Input,
    input_bytes: Option<u64>,
    output: &Output,
    options: &Options,
    watch: &Arc<Watch>,
) -> anyhow::Result<()> {
    let to = output.stream().context("there is always an output")?;
    let place = output.place()?;
    let mut from = (&input.file).take(input_bytes.unwrap_or(u64::MAX));
    let mut writer = Writer::with_meter(to, options, Arc::clone(&watch.meter))?;
    let waiting = Arc::clone(watch);
    writer.on_wait(move || waiting.look_up());
    loop {
        match writer.read_from(&mut from) {
            Ok(0) => break,
            Ok(_) => {}
            Err(Error::Io(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
        watch.look_up();
    }
    if let Some(input_bytes) = input_bytes.filter(|_| from.limit() > 0) {
        return Err(Error::Changed { offset: input_bytes - from.limit() }.into());
    }
    match (writer.finish(), place) {
        // The stated size was a hint, and the header can be written again.
        (Err(Error::SizeHint { found, .. }), Some((file, at))) => {
            let mut options = options.clone();
            options.content_bytes = Some(found);
            Ok(file.write_all_at(&Writer::<File>::head(&options), at)?)
        }
        (finished, _) => Ok(finished.map(drop)?),
    }
}

/// Compresses to one frame.
fn one_frame(input: &Input, output: &Output, frame: &FrameOptions, watch: &Arc<Watch>) -> anyhow::Result<()> {
    let mut to = output.stream().context("there is always an output")?;
    let from = &mut (&input.file).take(frame.content_bytes.unwrap_or(u64::MAX));
    match tamp::compress_frame(from, &mut to, frame, &watch.meter, &mut || watch.look_up()) {
        Err(Error::SizeHint { found, .. }) => Err(Error::Changed { offset: found }.into()),
        compressed => Ok(compressed?),
    }
}

/// Whether the input is removed after success.
pub(crate) fn replaces(args: &Args, input: &Input) -> bool {
    let is_kept =
        args.keep || args.stdout || args.test || args.salvage || (args.output.is_some() && !args.rm);
    input.entry.is_some() && !is_kept
}

/// Returns the suffix of a compressed file: a known one, or `own`.
fn compressed_suffix<'a>(path: &'a Path, own: &'a str) -> Option<&'a str> {
    let name = path.file_name()?.as_encoded_bytes();
    let has_own =
        name.strip_suffix(own.as_bytes()).is_some_and(|stem| stem.len() > 1 && stem.ends_with(b"."));
    let known = || path.extension()?.to_str().filter(|suffix| Suffix::of(suffix).is_some());
    if has_own { Some(own) } else { known() }
}

/// Returns the name of the compressed file.
fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(suffix);
    name.into()
}
