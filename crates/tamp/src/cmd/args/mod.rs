//! The command line.

mod environment;
mod levels;
mod sizes;

use super::entry::Identity;
use super::printable::printable;
use anyhow::{Context, bail};
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, CommandFactory, FromArgMatches, Parser};
use levels::{LEVELS, joined_level, last_level};
use sizes::{range, size};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tamp::{BLOCK_BYTES_MAX, Dictionary, Error, Format, FrameOptions, Level, Options, ReadOptions, Suffix};

/// Largest file for `--patch-from`: the format's largest window.
const REFERENCE_BYTES_MAX: u64 = 2 << 30;

/// Compress or decompress files, in parallel both ways, used like gzip
///
/// Without FILE, or with FILE -, standard input goes to standard output. Called as untamp it
/// decompresses, as tampcat it decompresses to standard output.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tamp",
    version,
    max_term_width = 100,
    args_override_self = true,
    override_usage = "tamp [OPTION]... [FILE]...\n       tamp -d|-t|-l [OPTION]... [FILE]...",
    after_long_help = super::generate::sections()
)]
#[expect(clippy::struct_excessive_bools, reason = "they are gzip's switches")]
pub(crate) struct Args {
    /// Files to work on
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Write to standard output and keep the input
    #[arg(short = 'c', long, visible_alias = "to-stdout")]
    pub(crate) stdout: bool,
    /// Decompress .zst, .lz4, .gz and zlib
    #[arg(short, long, visible_alias = "uncompress")]
    pub(crate) decompress: bool,
    /// Check compressed files, write nothing
    #[arg(short, long)]
    pub(crate) test: bool,
    /// List compressed files
    #[arg(short, long)]
    pub(crate) list: bool,
    /// Keep the input
    #[arg(short, long)]
    pub(crate) keep: bool,
    /// Remove the input after success with --output FILE, too; this is the default without --output
    #[arg(long, conflicts_with_all = ["keep", "stdout", "test", "list", "range", "salvage"])]
    pub(crate) rm: bool,
    /// Overwrite existing files, compress links, write to terminals
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Write to this file, or to standard output if it is -, and keep the input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["stdout", "test", "list"])]
    pub(crate) output: Option<PathBuf>,
    /// Suffix of compressed files: added when compressing, removed when decompressing; .lz4, .gz and the like
    /// choose the format
    #[arg(short = 'S', long = "suffix", value_name = "SUFFIX", value_parser = suffix)]
    pub(crate) own_suffix: Option<String>,
    /// Work on all files in folders and their subfolders
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Store no name and time; tamp never does, and accepts the switch for compatibility with gzip
    #[arg(short, long, hide = true)]
    pub(crate) no_name: bool,

    /// Maximum number of threads; 0: as many as this process may use
    #[arg(
        short = 'T',
        long,
        value_name = "N",
        default_value_t = 0,
        visible_short_alias = 'p',
        visible_alias = "processes"
    )]
    threads: usize,
    /// Options for reading.
    #[arg(skip = ReadOptions::new(1))]
    reading: ReadOptions,
    /// Files of --patch-from and -D, each with its option: outputs are worthless without them.
    #[arg(skip)]
    needed: Vec<(Identity, &'static str)>,
    /// Level typed as -0 to -9.
    #[arg(skip)]
    pub(crate) level: Option<Level>,
    /// Format chosen by an option, the name of the output or the environment.
    #[arg(skip)]
    chosen: Option<Format>,
    /// Write Zstandard [default, unless the name of --output ends in .lz4 or .gz]
    #[arg(long, conflicts_with_all = ["lz4", "bgzf"])]
    zst: bool,
    /// Write LZ4
    #[arg(long, conflicts_with = "bgzf")]
    lz4: bool,
    /// Write BGZF, which every gzip reads
    #[arg(long)]
    bgzf: bool,
    /// Input bytes in a block; blocks are compressed and checked independently
    #[arg(long, value_name = "SIZE", value_parser = size)]
    block_size: Option<u64>,
    /// Write one frame that refers back as far as 2^N bytes [default: 27, 128 MiB]; one thread writes and
    /// reads it. When reading, accept windows of up to 2^N bytes
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "27",
        value_parser = clap::value_parser!(u32).range(10..=31),
        conflicts_with_all = ["lz4", "bgzf", "block_size", "keep_up", "rsyncable"]
    )]
    long: Option<u32>,
    /// Dictionary from zstd --train; decompressing needs the same one
    #[arg(short = 'D', long, value_name = "FILE", conflicts_with_all = ["lz4", "bgzf"])]
    dictionary: Option<PathBuf>,
    /// Write one frame that refers to FILE, as zstd --patch-from does; decompressing needs the same FILE
    #[arg(long, value_name = "FILE", conflicts_with_all = ["lz4", "bgzf", "block_size", "keep_up", "rsyncable", "dictionary"])]
    pub(crate) patch_from: Option<PathBuf>,
    /// Largest window to accept when reading; a frame that needs more is refused [default: 128MiB]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory: Option<u64>,
    /// Adapt the level to the data rate, so that the writer of the pipe does not wait; -N is the highest
    /// level
    #[arg(long)]
    pub(crate) keep_up: bool,
    /// Choose the ends of blocks by the content, so that rsync sends only what changed
    #[arg(long, conflicts_with = "lz4")]
    pub(crate) rsyncable: bool,
    /// Size of the input from a pipe: for the .lz4 header and for progress
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size_hint: Option<u64>,
    /// Decode each block again before it is written; always on if the input will be removed
    #[arg(long)]
    pub(crate) verify: bool,

    /// Decompress only bytes A up to B of the content, to standard output; A: and :B are open
    #[arg(long, value_name = "A:B", value_parser = range, conflicts_with_all = ["test", "list", "salvage"])]
    pub(crate) range: Option<Range<u64>>,
    /// Decompress the readable parts of a damaged file, with zeros for lost blocks, and keep FILE; exit code
    /// 1 if anything is lost
    #[arg(long, conflicts_with_all = ["test", "list"])]
    pub(crate) salvage: bool,
    /// Write zeros instead of holes
    #[arg(long)]
    pub(crate) no_sparse: bool,
    /// Leave nothing in the page cache: bypass it when compressing, and drop what was read and written
    #[arg(long)]
    pub(crate) direct: bool,
    /// Do not sync the output to disk before it gets its name
    #[arg(long)]
    pub(crate) no_sync: bool,

    /// With --list: one JSON object on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Print the man page, or completions for a shell
    #[arg(long, value_name = "WHAT", value_enum, hide = true, exclusive = true)]
    pub(crate) generate: Option<Generate>,
    /// Print no warnings and no progress; the last of -q and -v applies
    #[arg(short, long, overrides_with = "verbose")]
    pub(crate) quiet: bool,
    /// Print what was done with each file
    #[arg(short, long, overrides_with = "quiet")]
    pub(crate) verbose: bool,
    /// Print at the end how the time was spent, on standard error
    #[arg(
        long,
        value_name = "FORM",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "text",
        conflicts_with_all = ["range", "salvage", "list"]
    )]
    pub(crate) stats: Option<Stats>,
}

/// Output of `--generate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Generate {
    /// The man page
    Man,
    Bash,
    Elvish,
    Fish,
    Powershell,
    Zsh,
}

impl Generate {
    /// Returns the shell; `None` for the man page.
    pub(crate) fn shell(self) -> Option<clap_complete::Shell> {
        Some(match self {
            Self::Man => return None,
            Self::Bash => clap_complete::Shell::Bash,
            Self::Elvish => clap_complete::Shell::Elvish,
            Self::Fish => clap_complete::Shell::Fish,
            Self::Powershell => clap_complete::Shell::PowerShell,
            Self::Zsh => clap_complete::Shell::Zsh,
        })
    }
}

/// Form of `--stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stats {
    /// A readable line
    Text,
    /// A JSON object per line
    Json,
}

impl Args {
    /// Parses a command line. Its first word, the program's name, chooses the default action.
    ///
    /// # Errors
    ///
    /// A printable usage error, or the text of `--help`.
    pub(crate) fn from_command_line(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        Self::read(words, &|name| std::env::var_os(name))
    }

    fn read(
        words: impl IntoIterator<Item = OsString>,
        environment: &dyn Fn(&str) -> Option<OsString>,
    ) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let called_as = words.first().and_then(|word| Path::new(word).file_stem()).map(OsString::from);
        let mut command = command();
        if let Some(word) = joined_level(&words) {
            let what = format!("{word}: levels are -0 to -9; -9 is level 19 of zstd");
            return Err(command.error(ErrorKind::InvalidValue, what));
        }
        let matches = command.try_get_matches_from_mut(words)?;
        let mut args = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        args.level = last_level(&matches);
        match called_as.as_ref().and_then(|name| name.to_str()) {
            Some("untamp") => args.decompress = true,
            // An explicit --output overrides standard output.
            Some("tampcat") => (args.decompress, args.stdout) = (true, args.output.is_none()),
            _ => {}
        }
        if args.range.is_some() || args.salvage {
            args.decompress = true;
        }
        if args.output.as_deref() == Some(Path::new("-")) {
            (args.stdout, args.output) = (true, None);
        }
        args.stdout |= args.range.is_some() && args.output.is_none();
        let is_folder = |path: &PathBuf| args.recursive && path.is_dir();
        if args.output.is_some() && (args.files.len() > 1 || args.files.iter().any(is_folder)) {
            return Err(
                command.error(ErrorKind::ArgumentConflict, "--output needs exactly one FILE, not a folder")
            );
        }
        // `requires` has no effect beside an option that conflicts with --list; the list would follow the
        // output.
        if args.json && !args.list {
            return Err(command.error(
                ErrorKind::MissingRequiredArgument,
                "--json needs --list; for statistics, use --stats=json",
            ));
        }
        let is_typed = |id| matches.value_source(id) == Some(ValueSource::CommandLine);
        if let Err(what) = args.take_defaults(environment, is_typed("threads")) {
            return Err(command.error(ErrorKind::InvalidValue, what));
        }
        args.reading.threads = args.threads();
        args.reading.memory_bytes = args.memory_bytes(is_typed("memory"));
        if let Some(path) = &args.dictionary {
            let context = |what: String| printable(&format!("-D {}: {what}", path.display()));
            let dictionary = Dictionary::read(path).map_err(|error| {
                let kind = if matches!(error, Error::Dictionary) {
                    ErrorKind::ValueValidation
                } else {
                    ErrorKind::Io
                };
                command.error(kind, context(error.to_string()))
            });
            args.reading.dictionary = Some(dictionary?);
        }
        for (path, option) in [(&args.patch_from, "--patch-from"), (&args.dictionary, "-D")] {
            // A file that is missing is an error when it is read.
            let found = path.as_ref().and_then(|path| std::fs::metadata(path).ok());
            args.needed.extend(found.map(|found| (Identity::of(&found), option)));
        }
        if let Err(what) = args.check_block_size() {
            return Err(command.error(ErrorKind::ValueValidation, what));
        }
        Ok(args)
    }

    /// Returns the maximum number of threads, limited by affinity and cgroup.
    pub(crate) fn threads(&self) -> usize {
        let allowed = tamp::threads_allowed();
        if self.threads == 0 { allowed } else { self.threads.min(allowed) }
    }

    /// Returns the largest window to accept when reading. `--long=N` raises it to 2^N bytes, as in zstd; an
    /// explicit `--memory` is final.
    fn memory_bytes(&self, is_typed: bool) -> u64 {
        let granted = self.memory.unwrap_or(ReadOptions::MEMORY_BYTES_USUAL);
        let window = self.long.filter(|_| !is_typed).map_or(0, |window_log| 1 << window_log);
        granted.max(window)
    }

    /// Returns the option, `--patch-from` or `-D`, that names this file.
    pub(crate) fn needs(&self, file: &Identity) -> Option<&'static str> {
        self.needed.iter().find(|(needed, _)| needed == file).map(|&(_, option)| option)
    }

    /// Whether the input is compressed.
    pub(crate) fn reads_compressed(&self) -> bool {
        self.decompress || self.test || self.list
    }

    /// Options for reading compressed files.
    pub(crate) fn reading(&self) -> &ReadOptions {
        &self.reading
    }

    pub(crate) fn format(&self) -> Format {
        self.chosen.unwrap_or(Format::Zst)
    }

    /// Returns the format that the name of the output implies, by `--output` or by `--suffix`.
    pub(crate) fn suffix_of_output(&self) -> Option<Suffix> {
        match (&self.output, &self.own_suffix) {
            (Some(path), _) => Suffix::of(path.extension()?.to_str()?),
            (None, Some(suffix)) if !self.stdout => Suffix::of(suffix.rsplit('.').next()?),
            _ => None,
        }
    }

    /// The suffix of compressed files, without its dot.
    pub(crate) fn suffix(&self) -> &str {
        self.own_suffix.as_deref().unwrap_or(self.format().suffix())
    }

    /// The content of the file that `--patch-from` names.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is larger than 2 GiB.
    pub(crate) fn reference(&self) -> anyhow::Result<Option<Arc<[u8]>>> {
        let Some(path) = &self.patch_from else { return Ok(None) };
        let context = || format!("reading {}", path.display());
        let bytes = std::fs::metadata(path).with_context(context)?.len();
        if bytes > REFERENCE_BYTES_MAX {
            bail!("{} is larger than 2 GiB, the limit of --patch-from", path.display());
        }
        Ok(Some(std::fs::read(path).with_context(context)?.into()))
    }

    /// Options for a single frame; `None` if the options ask for blocks.
    ///
    /// # Errors
    ///
    /// The file that `--patch-from` names cannot be read, or is larger than 2 GiB.
    pub(crate) fn frame(&self, content_bytes: Option<u64>) -> anyhow::Result<Option<FrameOptions>> {
        let reference = self.reference()?;
        if self.long.is_none() && reference.is_none() {
            return Ok(None);
        }
        let mut options = FrameOptions::new(self.level.unwrap_or(Level::USUAL));
        if let Some(reference) = &reference {
            let content_bytes = content_bytes.or(self.size_hint).unwrap_or(0);
            options.window_log = FrameOptions::window_log_over(reference.len() as u64, content_bytes);
        }
        options.window_log = self.long.unwrap_or(options.window_log);
        options.dictionary.clone_from(&self.reading.dictionary);
        options.reference = reference;
        Ok(Some(options))
    }

    /// Returns the options for compressing.
    pub(crate) fn options(&self) -> Options {
        // `--keep-up` starts at a better level, but not at one that takes much CPU time: the writer of the
        // pipe needs CPU time, too, and an idle ring does not prove that CPU time is left.
        let usual = if self.keep_up { Level::new(2).expect("there are ten levels") } else { Level::USUAL };
        let mut options = Options::of(self.format(), self.level.unwrap_or(usual));
        options.threads = self.threads();
        options.keep_up = self.keep_up;
        options.rsyncable = self.rsyncable;
        options.content_bytes = self.size_hint;
        options.dictionary.clone_from(&self.reading.dictionary);
        if self.keep_up {
            // Small blocks make the level react soon to a full ring.
            options.block_bytes = Options::of(self.format(), Level::USUAL).block_bytes.min(256 << 10);
        }
        if let Some(bytes) = self.block_size {
            options.block_bytes = usize::try_from(bytes).expect("checked when read");
        }
        if self.rsyncable {
            // The content decides where blocks end, on average at half of the maximum.
            options.block_bytes = (2 * options.block_bytes).min(BLOCK_BYTES_MAX);
        }
        options
    }

    fn check_block_size(&self) -> Result<(), String> {
        let Some(bytes) = self.block_size else { return Ok(()) };
        if !(4096..=BLOCK_BYTES_MAX as u64).contains(&bytes) {
            return Err("--block-size must be between 4KiB and 128MiB".into());
        }
        let Some(known) = self.format().block_sizes() else { return Ok(()) };
        if known.iter().any(|&known| known as u64 == bytes) {
            return Ok(());
        }
        let known: Vec<_> = known.iter().map(|bytes| format!("{}KiB", bytes >> 10)).collect();
        Err(format!("--block-size of a .{} is one of {}", self.format().suffix(), known.join(", ")))
    }
}

/// Parses a suffix, with or without its dot.
fn suffix(text: &str) -> Result<String, String> {
    let text = text.strip_prefix('.').unwrap_or(text);
    if text.is_empty() || text.contains('/') {
        return Err("expected a suffix such as .zst".into());
    }
    Ok(text.to_owned())
}

/// The parser: the declared options and ten levels.
pub(crate) fn command() -> Command {
    const HELP: [(usize, &str); 3] = [
        (0, "Compress fastest; -1 to -9 compress better"),
        (1, "Compress fast [default]"),
        (9, "Compress best"),
    ];
    (0..=9).fold(Args::command(), |command, level| {
        let digit = char::from_digit(level, 10).expect("a digit");
        let mut arg = Arg::new(LEVELS[level as usize]).short(digit).action(ArgAction::SetTrue);
        arg = match level {
            1 => arg.long("fast"),
            9 => arg.long("best"),
            _ => arg,
        };
        let help = HELP.iter().find(|(known, _)| *known == level as usize);
        command.arg(match help {
            Some((_, help)) => arg.help(*help),
            None => arg.hide(true),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::from_command_line(line.split(' ').map(OsString::from)).unwrap()
    }

    #[test]
    fn the_parser_is_sound() {
        command().debug_assert();
    }

    #[test]
    fn the_last_level_counts_and_switches_may_be_joined_and_repeated() {
        assert_eq!(args("tamp -9 -3 -kfk file").level, Level::new(3));
        assert_eq!(args("tamp --best -1c file").level, Level::new(1));
        assert_eq!(args("tamp file").level, None);
    }

    #[test]
    fn the_name_it_is_called_by_decides() {
        assert!(args("/usr/bin/untamp x.zst").decompress && !args("untamp x.zst").stdout);
        assert!(args("tampcat x.zst").decompress && args("tampcat x.zst").stdout);
        assert!(!args("tamp x").decompress);
        assert!(args("tamp -o - x").stdout && args("tamp -o - x").output.is_none());
    }

    #[test]
    fn threads_never_exceed_what_is_allowed() {
        let allowed = tamp::threads_allowed();
        assert_eq!(args("tamp -T0 x").threads(), allowed);
        assert_eq!(args("tamp -T 1000000 x").threads(), allowed);
        assert_eq!(args("tamp -T1 x").threads(), 1);
    }

    #[test]
    fn of_rsyncable_blocks_the_largest_has_twice_the_size_that_was_asked_for() {
        let largest = |line: &str| args(line).options().block_bytes;
        assert_eq!(largest("tamp --rsyncable x"), 512 << 10);
        assert_eq!(largest("tamp --rsyncable --block-size 1MiB x"), 2 << 20);
        assert_eq!(largest("tamp --rsyncable --keep-up x"), 512 << 10);
        assert_eq!(largest("tamp --rsyncable --block-size 128MiB x"), 128 << 20);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for line in [
            "tamp --lz4 --zst x",
            "tamp -o out a b",
            "tamp --lz4 --block-size 300K x",
            "tamp --block-size 1 x",
            "tamp --rsyncable --lz4 x",
            "tamp --range 3 x",
            "tamp --stats --range 3:5 x",
            "tamp --stats=json --salvage x",
            "tamp -T x",
            "tamp --long=9 x",
            "tamp --long --lz4 x",
            "tamp --rm -k x",
            "tamp --rm --salvage x",
            "tamp --json x",
            "tamp --json --stats -c x",
            "tamp --json --range 3:5 x",
            "tamp --json --salvage -c x",
            "tamp --json --rm x",
            "tamp --json -t x",
            "tamp --patch-from a -D b x",
            "tamp -S / x",
            "tamp --nonsense",
        ] {
            let words = line.split(' ').map(OsString::from);
            assert!(Args::from_command_line(words).is_err(), "{line}");
        }
    }
}
