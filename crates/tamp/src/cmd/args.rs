//! What the user may type.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use std::ffi::OsString;
use std::ops::Range;
use std::path::{Path, PathBuf};
use tamp::{BLOCK_BYTES_MAX, Format, Level, Options};

/// Compress or decompress files, in parallel both ways, used like gzip
///
/// Without FILE, or with FILE -, standard input goes to standard output. Called as untamp it
/// decompresses, as tampcat it decompresses to standard output.
#[derive(Clone, Debug, Parser)]
#[command(name = "tamp", version, max_term_width = 100, args_override_self = true)]
#[expect(clippy::struct_excessive_bools, reason = "they are gzip's switches")]
pub(crate) struct Args {
    /// Files to work on
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,

    /// Write to standard output and keep the input
    #[arg(short = 'c', long, visible_alias = "to-stdout")]
    pub(crate) stdout: bool,
    /// Decompress .zst, .lz4, .gz
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
    /// Overwrite existing files, compress links, write to terminals
    #[arg(short, long)]
    pub(crate) force: bool,
    /// Write to this file, or to standard output if it is -, and keep the input
    #[arg(short, long, value_name = "FILE", conflicts_with_all = ["stdout", "test", "list"])]
    pub(crate) output: Option<PathBuf>,
    /// Work on all files below folders
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Store no name and time; tamp never does, the switch is here for gzip's sake
    #[arg(short, long, hide = true)]
    pub(crate) no_name: bool,

    /// Threads at most; 0: as many as this process may use; 1: a single one
    #[arg(short = 'T', long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// As typed by -0 to -9.
    #[arg(skip)]
    pub(crate) level: Option<Level>,
    /// Write Zstandard [default]
    #[arg(long, conflicts_with_all = ["lz4", "bgzf"])]
    zst: bool,
    /// Write LZ4
    #[arg(long, conflicts_with = "bgzf")]
    lz4: bool,
    /// Write BGZF, which every gzip reads
    #[arg(long)]
    bgzf: bool,
    /// Input bytes in a block, which is compressed, checked, found and lost by itself
    #[arg(long, value_name = "SIZE", value_parser = size)]
    block_size: Option<u64>,
    /// Let the level follow the flow, so that whoever writes the pipe never waits; -N is the best level
    #[arg(long)]
    pub(crate) keep_up: bool,
    /// Cut blocks where the content says so, so that rsync sends only what changed
    #[arg(long, conflicts_with = "lz4")]
    pub(crate) rsyncable: bool,
    /// Size of what will come through the pipe: for the .lz4 header and for progress
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) size_hint: Option<u64>,
    /// Decode each block again before it is written; always done where the input is to go
    #[arg(long)]
    pub(crate) verify: bool,

    /// Decompress only bytes A up to B of the content, to standard output; A: and :B are open
    #[arg(long, value_name = "A:B", value_parser = range, conflicts_with_all = ["test", "list", "salvage"])]
    pub(crate) range: Option<Range<u64>>,
    /// Decompress what can be read of a damaged file, with zeros for what cannot; exit code 3 if any was lost
    #[arg(long, conflicts_with_all = ["test", "list"])]
    pub(crate) salvage: bool,
    /// Write zeros as zeros, leave no holes
    #[arg(long)]
    pub(crate) no_sparse: bool,
    /// Leave nothing in the page cache: compressing, read around it; drop from it what was read and written
    #[arg(long)]
    pub(crate) direct: bool,
    /// Do not wait for the disk before the output gets its name
    #[arg(long)]
    pub(crate) no_sync: bool,

    /// No warnings, no progress
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Say what was done with each file
    #[arg(short, long)]
    pub(crate) verbose: bool,
    /// Say at the end where the time went, on standard error
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

/// How `--stats` prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Stats {
    /// A line for people
    Text,
    /// An object a line
    Json,
}

impl Args {
    /// Reads a command line, its first word included: that decides what is done by default.
    ///
    /// # Errors
    ///
    /// What is wrong with it, or what `--help` prints, ready to be printed.
    pub(crate) fn from_command_line(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let mut words = words.into_iter().peekable();
        let called_as = words.peek().and_then(|word| Path::new(word).file_stem()).map(OsString::from);
        let mut command = command();
        let matches = command.try_get_matches_from_mut(words)?;
        let mut args = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        args.level = last_level(&matches);
        match called_as.as_ref().and_then(|name| name.to_str()) {
            Some("untamp") => args.decompress = true,
            Some("tampcat") => (args.decompress, args.stdout) = (true, true),
            _ => {}
        }
        if args.range.is_some() || args.salvage {
            args.decompress = true;
        }
        if args.output.as_deref() == Some(Path::new("-")) {
            (args.stdout, args.output) = (true, None);
        }
        args.stdout |= args.range.is_some() && args.output.is_none();
        if args.output.is_some() && args.files.len() > 1 {
            return Err(command.error(ErrorKind::ArgumentConflict, "--output takes the output of one FILE"));
        }
        if let Err(what) = args.check_block_size() {
            return Err(command.error(ErrorKind::ValueValidation, what));
        }
        Ok(args)
    }

    /// Threads at most: never more than affinity and cgroup leave us.
    pub(crate) fn threads(&self) -> usize {
        let allowed = tamp::threads_allowed();
        if self.threads == 0 { allowed } else { self.threads.min(allowed) }
    }

    pub(crate) fn format(&self) -> Format {
        match (self.lz4, self.bgzf) {
            (true, _) => Format::Lz4,
            (_, true) => Format::Bgzf,
            _ => Format::Zst,
        }
    }

    /// How to compress.
    pub(crate) fn options(&self) -> Options {
        // Keeping up starts from a better level, but from none that takes much CPU time: whoever writes the pipe wants
        // that, too, and a ring that idles does not tell that there is any to spare.
        let usual = if self.keep_up { Level::new(2).expect("there are ten levels") } else { Level::USUAL };
        let mut options = Options::of(self.format(), self.level.unwrap_or(usual));
        options.threads = self.threads();
        options.keep_up = self.keep_up;
        options.rsyncable = self.rsyncable;
        options.content_bytes = self.size_hint;
        if self.keep_up {
            // Small blocks, so that the answer to a full ring comes soon.
            options.block_bytes = Options::of(self.format(), Level::USUAL).block_bytes.min(256 << 10);
        }
        if let Some(bytes) = self.block_size {
            options.block_bytes = usize::try_from(bytes).expect("checked when read");
        }
        options
    }

    fn check_block_size(&self) -> Result<(), String> {
        let Some(bytes) = self.block_size else { return Ok(()) };
        if !(4096..=BLOCK_BYTES_MAX as u64).contains(&bytes) {
            return Err("--block-size must be between 4KiB and 128MiB".into());
        }
        if self.format() == Format::Lz4 && ![64 << 10, 256 << 10, 1 << 20, 4 << 20].contains(&bytes) {
            return Err("--lz4 knows blocks of 64KiB, 256KiB, 1MiB and 4MiB".into());
        }
        Ok(())
    }
}

/// The parser: what is declared above, and ten levels.
fn command() -> Command {
    const HELP: [(usize, &str); 3] = [
        (0, "Compress fastest; -1 to -9 compress better"),
        (1, "Compress fast: what is done unless told otherwise"),
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

const LEVELS: [&str; 10] = ["-0", "-1", "-2", "-3", "-4", "-5", "-6", "-7", "-8", "-9"];

/// Of several levels the last one counts, as with gzip.
fn last_level(matches: &ArgMatches) -> Option<Level> {
    (0..10_u8)
        .filter(|&level| matches.value_source(LEVELS[usize::from(level)]) == Some(ValueSource::CommandLine))
        .max_by_key(|&level| matches.index_of(LEVELS[usize::from(level)]))
        .and_then(Level::new)
}

/// `256KiB`, `1M`, `4096`: units are powers of 1024, except `kB`, `MB`, `GB`.
fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "expected a size such as 256KiB".to_owned())?;
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err("expected a size such as 256KiB".into()),
    };
    number.checked_mul(factor).ok_or_else(|| "this size does not fit 64 bits".into())
}

/// `A:B`, where either may be missing.
fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once(':').ok_or("expected A:B, two byte offsets such as 1MiB:2MiB")?;
    let from = if from.is_empty() { 0 } else { size(from)? };
    let to = if to.is_empty() { u64::MAX } else { size(to)? };
    if from > to { Err("the range ends before it begins".into()) } else { Ok(from..to) }
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
    fn sizes_and_ranges_read_as_written() {
        assert_eq!((size("256KiB"), size("1M"), size("7")), (Ok(262_144), Ok(1_048_576), Ok(7)));
        for wrong in ["", "x", "1X", "-1", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((range("1K:2K"), range(":5"), range("5:")), (Ok(1024..2048), Ok(0..5), Ok(5..u64::MAX)));
        for wrong in ["5", "6:5", "a:b"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
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
            "tamp --nonsense",
        ] {
            let words = line.split(' ').map(OsString::from);
            assert!(Args::from_command_line(words).is_err(), "{line}");
        }
    }
}
