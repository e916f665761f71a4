//! Inputs of imports: files, standard input, and tools that still run.

use std::fs::{self, File};
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use import::{ImportError, Input, Note};
use record::printable::printable;

use crate::exit::Exit;

/// Silence after which a sample is complete: a running tool prints a sample in one go.
const PAUSE: Duration = Duration::from_millis(200);

/// Maximum number of printed notes; further ones are counted.
const NOTES_MAX: u64 = 20;

/// One input.
pub(super) struct Source {
    /// Path of the input.
    pub(super) path: PathBuf,
    /// Name of the input, as the user wrote it.
    pub(super) name: String,
    /// Reader of the input.
    pub(super) input: Input<'static>,
    /// Whether the input is still being written.
    pub(super) live: bool,
}

/// The inputs that `files` name; standard input if there are no files, or for `-`.
pub(super) fn named(files: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let standard = Path::new("-");
    if files.is_empty() && io::stdin().is_terminal() {
        return Err(
            Exit::Usage.with("expected a FILE, or text on standard input: `TOOL | bakeoff import TOOL -`")
        );
    }
    if files.iter().filter(|file| *file == standard).count() > 1 {
        return Err(Exit::Usage.with("standard input (`-`) can be read only once"));
    }
    Ok(if files.is_empty() { vec![standard.into()] } else { files.to_vec() })
}

/// Opens one input.
pub(super) fn open(file: &Path) -> anyhow::Result<Source> {
    let standard = file == Path::new("-");
    let path = if standard { Path::new("/dev/stdin") } else { file };
    let name = if standard { "-".to_owned() } else { file.display().to_string() };
    let kind = fs::metadata(path);
    if kind.as_ref().is_ok_and(fs::Metadata::is_dir) {
        return Err(Exit::Usage.with(format!("{name}: is a folder, expected a file")));
    }
    let live = kind.is_ok_and(|kind| kind.file_type().is_fifo() || kind.file_type().is_char_device());
    let input = match (standard, live) {
        (true, true) => Input::Live { from: Box::new(io::stdin()), pause: PAUSE },
        (true, false) => Input::Whole(Box::new(io::stdin())),
        (false, live) => {
            let file =
                File::open(file).map_err(|e| Exit::CannotHere.with(format!("{name}: cannot open: {e}")))?;
            if live {
                Input::Live { from: Box::new(file), pause: PAUSE }
            } else {
                Input::Whole(Box::new(file))
            }
        }
    };
    Ok(Source { path: file.to_owned(), name, input, live })
}

/// Opens and imports each of `files`, with a heading before each if there are several and `headed` is set.
///
/// If one of several files cannot be read, the others are still imported; the command then ends with the exit
/// code of the first error.
pub(super) fn each(
    files: &[PathBuf],
    headed: bool,
    out: &mut dyn Write,
    import: &mut dyn FnMut(Source, &mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<Exit> {
    let files = named(files)?;
    let mut out = BufWriter::with_capacity(1 << 16, out);
    let mut failed = None;
    for (i, file) in files.iter().enumerate() {
        if headed && files.len() > 1 {
            let gap = if i > 0 { "\n" } else { "" };
            writeln!(out, "{gap}==> {} <==", file.display())?;
        }
        let result = open(file).and_then(|source| import(source, &mut out));
        out.flush()?;
        match result {
            Ok(()) => {}
            Err(error) if files.len() == 1 || crate::exit::reader_has_gone(&error) => return Err(error),
            Err(error) => {
                tell(&format!("{error:#}"));
                failed.get_or_insert(Exit::of(&error));
            }
        }
    }
    Ok(failed.unwrap_or(Exit::Good))
}

/// Notes for the user besides the result: on standard error, limited in number.
pub(super) struct Notes {
    name: String,
    told: u64,
    /// The first impossible value.
    impossible: Option<String>,
}

impl Notes {
    pub(super) fn about(name: &str) -> Self {
        Self { name: name.to_owned(), told: 0, impossible: None }
    }

    /// Prints a note with its line number.
    pub(super) fn note(&mut self, note: &Note) {
        self.say(&format!("{}:{note}", self.name));
    }

    /// Prints a remark about the whole input.
    pub(super) fn remark(&mut self, remark: &str) {
        self.say(&format!("{}: {remark}", self.name));
    }

    /// Prints an impossible value, which taints the result.
    pub(super) fn impossible(&mut self, note: &Note) {
        self.impossible.get_or_insert_with(|| note.to_string());
        self.note(note);
    }

    /// Result of the import of this input.
    ///
    /// # Errors
    ///
    /// The first impossible value, with exit code 1.
    pub(super) fn verdict(&self) -> anyhow::Result<()> {
        match &self.impossible {
            None => Ok(()),
            Some(first) => Err(Exit::Bad.with(format!("{}: the result is tainted: {first}", self.name))),
        }
    }

    fn say(&mut self, text: &str) {
        self.told += 1;
        if self.told <= NOTES_MAX {
            tell(text);
        }
    }
}

impl Drop for Notes {
    fn drop(&mut self) {
        if self.told > NOTES_MAX {
            tell(&format!("{}: and {} more notes", self.name, self.told - NOTES_MAX));
        }
    }
}

/// Prints a line on standard error.
pub(super) fn tell(text: &str) {
    // If standard error is closed, the line is lost.
    let _ = writeln!(io::stderr(), "bakeoff import: {}", printable(text));
}

/// An import's error, prefixed with the name of its input: `mpstat.txt:12:34: found ...`.
#[derive(Debug)]
struct InInput {
    name: String,
    error: ImportError,
}

impl std::fmt::Display for InInput {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.name, self.error)
    }
}

impl std::error::Error for InInput {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

/// Converts an import's error: text that cannot be parsed is a usage error, a failure of the system is not.
pub(super) fn failed(name: &str, error: ImportError) -> anyhow::Error {
    let exit = match error {
        ImportError::Read { .. } | ImportError::Deliver { .. } => Exit::CannotHere,
        _ => Exit::Usage,
    };
    exit.with(InInput { name: name.to_owned(), error })
}
