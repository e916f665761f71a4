//! A bake-off's journal: `events.jsonl`, one line per step, on disk before the step is taken.
//!
//! Every line carries a checksum that continues the one before it, and the first continues that of
//! `order.json`: a changed byte or a removed line is detected. Lines that still form a chain after damage are
//! read, and the next process that takes the journal rewrites it without the damaged ones. Opening the
//! journal cuts off a half-written last line of a process that died; a line is on disk before its step, so
//! that step was not taken.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::libc;
use record::clock::WallAnchor;
use record::run::RunId;
use record::target::mask_text;
use serde::{Deserialize, Serialize};

use crate::error::ArchiveError;
use crate::schema::Form;
use crate::schema::event::{JournalEvent, Step};
use crate::{Archive, bakeoff, checksum, disk, lock, masking, written};

/// Form of the first line, which applies to all.
const FORM: Form = Form { tag: "bakeoff.events/1" };
/// Hexadecimal digits of the checksum that a line holds.
const LINK_DIGITS: usize = 16;
/// Text before the digits, and the end of the line after them.
const LINK_BEGINS: &str = ",\"link\":\"";
const LINK_ENDS: &str = "\"}\n";
/// Temporary name of a rewritten journal.
const MENDED: &str = "events.jsonl.new";

#[derive(Debug, Serialize, Deserialize)]
struct Head {
    schema: String,
    bakeoff: String,
}

/// Journal of a bake-off that this process conducts; it is locked against other processes.
#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    end_bytes: u64,
    link: String,
    healed_bytes: u64,
    before: Vec<JournalEvent>,
    mended_files: Vec<String>,
}

/// Journal of a bake-off that this process has locked and not changed.
#[derive(Debug)]
pub struct Claim {
    id: RunId,
    folder: PathBuf,
    file: File,
    seed: String,
    told: Contents,
}

impl Archive {
    /// Takes a bake-off's journal, to continue it.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Busy`] if another process has it; others if it is missing, damaged or not writable.
    pub fn journal(&self, id: RunId) -> Result<Journal, ArchiveError> {
        self.claim(id)?.open()
    }

    /// Locks a bake-off's journal against other processes, and changes nothing.
    ///
    /// # Errors
    ///
    /// Those of [`Self::journal`].
    pub fn claim(&self, id: RunId) -> Result<Claim, ArchiveError> {
        let folder = self.tree.bakeoff(id);
        if !folder.is_dir() {
            return Err(ArchiveError::NotFound { text: id.to_string() });
        }
        let path = folder.join(bakeoff::EVENTS);
        let seed = bakeoff::order_sum(&folder)?;
        let opened = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NOFOLLOW).open(&path);
        let file = opened.map_err(ArchiveError::writing(&path))?;
        // Another user's bake-off might name a file of ours; a torn line would be cut off there.
        let found = file.metadata().map_err(ArchiveError::writing(&path))?;
        if !found.is_file() || found.nlink() > 1 {
            return Err(ArchiveError::damaged(&path, "it is not a regular file with one name"));
        }
        if !lock::take_soon(&file).map_err(ArchiveError::writing(&path))? {
            return Err(ArchiveError::Busy { id });
        }
        let told = parse(&disk::read_journal(&file, &path)?, &seed);
        Ok(Claim { id, folder, file, seed, told })
    }
}

impl Claim {
    /// Events in the journal.
    pub fn before(&self) -> &[JournalEvent] {
        &self.told.events
    }

    /// Mends the files of the bake-off, and continues the journal.
    ///
    /// # Errors
    ///
    /// The files are damaged or not writable.
    pub fn open(self) -> Result<Journal, ArchiveError> {
        let Self { id, folder, file, seed, told } = self;
        written::note(id);
        let path = folder.join(bakeoff::EVENTS);
        let mended_files = bakeoff::mend(&folder)?;
        let (file, told) = match &told.damage {
            None => (file, told),
            // The lock on the damaged file is held until the new one, also locked, has its name.
            Some(damage) => mend(&folder, id, &seed, &told.events, damage)?,
        };
        let mut journal = Journal {
            file,
            path,
            end_bytes: told.whole_bytes,
            link: told.link,
            healed_bytes: told.torn_bytes,
            before: told.events,
            mended_files,
        };
        if told.torn_bytes > 0 {
            journal.file.set_len(told.whole_bytes).map_err(ArchiveError::writing(&journal.path))?;
        }
        journal.file.seek(io::SeekFrom::End(0)).map_err(ArchiveError::writing(&journal.path))?;
        journal.say(Step::Opened { pid: std::process::id() })?;
        Ok(journal)
    }
}

impl Journal {
    /// Appends a line with passwords masked; it is on disk when this returns.
    ///
    /// # Errors
    ///
    /// The disk is full or fails; then the journal is unchanged.
    pub fn append(&mut self, event: &JournalEvent) -> Result<(), ArchiveError> {
        let (line, link) = linked(&masked(event), &self.link);
        let written = self.file.write_all(line.as_bytes()).and_then(|()| self.file.sync_data());
        if let Err(e) = written {
            // If this fails, opening the journal the next time cuts it off.
            let _ = self.file.set_len(self.end_bytes);
            let _ = self.file.seek(io::SeekFrom::Start(self.end_bytes));
            return Err(ArchiveError::writing(&self.path)(e));
        }
        self.end_bytes += line.len() as u64;
        self.link = link;
        Ok(())
    }

    /// Appends a line about the whole bake-off, stamped now.
    ///
    /// # Errors
    ///
    /// Those of [`Self::append`].
    pub fn say(&mut self, step: Step) -> Result<(), ArchiveError> {
        let now = WallAnchor::now();
        self.append(&JournalEvent {
            at_unix_ns: now.unix_ns,
            at_monotonic_ns: now.monotonic_ns,
            series: None,
            trial: None,
            attempt: None,
            step,
        })
    }

    /// Events in the journal when it was opened.
    pub fn before(&self) -> &[JournalEvent] {
        &self.before
    }

    /// Damage of the files that the bake-off begins with, when the journal was opened: they were rewritten.
    pub fn mended_files(&self) -> &[String] {
        &self.mended_files
    }

    /// Bytes of a half-written last line that were cut off when the journal was opened.
    pub fn healed_bytes(&self) -> u64 {
        self.healed_bytes
    }
}

/// Replaces a damaged journal by one of its readable lines.
fn mend(
    folder: &Path,
    id: RunId,
    seed: &str,
    events: &[JournalEvent],
    damage: &str,
) -> Result<(File, Contents), ArchiveError> {
    let mut content = begin(id, seed);
    let mut link = parse(content.as_bytes(), seed).link;
    let now = WallAnchor::now();
    let note = JournalEvent {
        at_unix_ns: now.unix_ns,
        at_monotonic_ns: now.monotonic_ns,
        series: None,
        trial: None,
        attempt: None,
        step: Step::JournalMended { damage: damage.to_owned() },
    };
    for event in events.iter().chain([&note]) {
        let (line, next) = linked(&masked(event), &link);
        content.push_str(&line);
        link = next;
    }
    let path = folder.join(bakeoff::EVENTS);
    let new = folder.join(MENDED);
    let written = (|| {
        match std::fs::remove_file(&new) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = disk::new_file().read(true).open(&new)?;
        file.write_all(content.as_bytes())?;
        file.sync_all()?;
        if !lock::take(&file)? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        std::fs::rename(&new, &path)?;
        Ok(file)
    })();
    let file = written.map_err(ArchiveError::writing(&new))?;
    disk::sync_folder(folder)?;
    Ok((file, parse(content.as_bytes(), seed)))
}

/// Content of a journal.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    pub(crate) events: Vec<JournalEvent>,
    /// End of its last whole line.
    pub(crate) whole_bytes: u64,
    /// Bytes after it, left by a process that died.
    pub(crate) torn_bytes: u64,
    link: String,
    /// First damaged place, and number of unreadable lines, if the journal is damaged.
    pub(crate) damage: Option<String>,
}

/// Content of a new journal.
pub(crate) fn begin(id: RunId, order_sha256: &str) -> String {
    let head = Head { schema: FORM.tag.to_owned(), bakeoff: id.to_string() };
    linked(&body(&head), order_sha256).0
}

/// Parses a journal of the order with that checksum; an incomplete last line is left out.
///
/// After a damaged line, the next one is valid if it continues either the checksum stored in the damaged line
/// or the one computed from its text. One changed byte costs at most one line, two if it is the byte between
/// them, and zero if it is in a checksum.
pub(crate) fn parse(bytes: &[u8], order_sha256: &str) -> Contents {
    parse_after(order_sha256, bytes, true)
}

/// Parses the rest of a journal, and adds it to `told`; `false` if one of them is damaged, or the rest does
/// not continue `told`.
///
/// - `bytes`: from the end of the last whole line on.
pub(crate) fn parse_on(told: &mut Contents, bytes: &[u8]) -> bool {
    let more = parse_after(&told.link, bytes, false);
    if told.damage.is_some() || more.damage.is_some() {
        return false;
    }
    told.events.extend(more.events);
    told.whole_bytes += more.whole_bytes;
    (told.torn_bytes, told.link) = (more.torn_bytes, more.link);
    true
}

/// - `is_beginning`: whether the first line is that of the journal.
fn parse_after(link: &str, bytes: &[u8], is_beginning: bool) -> Contents {
    let whole = whole_lines(bytes);
    let mut before = vec![Previous { link: link.to_owned(), body: None }];
    let (mut events, mut first_wrong, mut lost) = (Vec::new(), None, 0_u32);
    for (i, line) in bytes[..whole].split_inclusive(|b| *b == b'\n').enumerate() {
        let text = str::from_utf8(line).unwrap_or_default();
        let found = before.iter().position(|read| unlinked(text, &read.link).is_some());
        let event = |body: &str| if i == 0 && is_beginning { None } else { serde_json::from_str(body).ok() };
        if let Some(at) = found {
            // Only the checksum of the line before was damaged.
            if let Some(event) = before[at].body.as_deref().and_then(|body| serde_json::from_str(body).ok()) {
                events.push(event);
                lost -= 1;
            }
            let (body, link) = unlinked(text, &before[at].link).expect("it was found above");
            before = vec![Previous { link, body: None }];
            let is_head = i == 0
                && is_beginning
                && FORM.read::<Head>(body.as_bytes(), Path::new(bakeoff::EVENTS)).is_ok();
            match event(&body) {
                Some(event) => events.push(event),
                None if is_head => {}
                None => {
                    first_wrong.get_or_insert(i + 1);
                    lost += 1;
                }
            }
        } else {
            first_wrong.get_or_insert(i + 1);
            lost += 1;
            before = after_damage(line, &before[0]);
        }
    }
    let mut damage = first_wrong.map(|line| {
        let lines = if lost == 1 { "line is" } else { "lines are" };
        format!("line {line} was altered; {lost} {lines} unreadable")
    });
    if whole == 0 && is_beginning {
        damage = Some("its first line is missing".to_owned());
    }
    let link = before.swap_remove(0).link;
    Contents { events, whole_bytes: whole as u64, torn_bytes: (bytes.len() - whole) as u64, link, damage }
}

/// A state that the next line may continue.
struct Previous {
    link: String,
    /// Text of a line with a damaged checksum: valid if the next line continues it.
    body: Option<String>,
}

/// Checksums that the line after a damaged one may continue: the one stored in the damaged line, or the one
/// computed from its text.
fn after_damage(line: &[u8], before: &Previous) -> Vec<Previous> {
    // By position, because the text around the digits may be damaged.
    let digits = line.len().checked_sub(LINK_DIGITS + LINK_ENDS.len());
    let stored = digits.map(|at| String::from_utf8_lossy(&line[at..at + LINK_DIGITS]).into_owned());
    let open = digits.and_then(|at| line.get(..at.checked_sub(LINK_BEGINS.len())?));
    let body = open.and_then(|open| Some(format!("{}}}", str::from_utf8(open).ok()?)));
    let stored = Previous { link: stored.unwrap_or_default(), body: None };
    let computed = body.map(|body| Previous { link: link_of(&body, &before.link), body: Some(body) });
    std::iter::once(stored).chain(computed).collect()
}

/// End of the last whole line: one with an end, and without zeros.
///
/// Zeros follow if a file had grown before its content was on disk when the power failed.
fn whole_lines(bytes: &[u8]) -> usize {
    let ends = |bytes: &[u8]| bytes.iter().rposition(|b| *b == b'\n');
    let Some(end) = ends(bytes) else { return 0 };
    let start = ends(&bytes[..end]).map_or(0, |at| at + 1);
    if bytes[start..end].contains(&0) { start } else { end + 1 }
}

fn body(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("our own forms have text keys and do not fail")
}

/// Serializes an event without the passwords that commands and servers printed.
fn masked(event: &JournalEvent) -> String {
    let mut event = event.clone();
    // Masked before serialization: escaping in JSON hides where a quoted password ends.
    if let Step::TrialInvalid { reason, .. } | Step::TrialFailed { reason } | Step::SeriesFailed { reason } =
        &mut event.step
    {
        *reason = mask_text(reason);
    }
    let body = masking::mask(body(&event).into_bytes(), None);
    String::from_utf8(body).expect("masked text is text")
}

/// The line for `body` after a line that ended with `link`, and the link that the next one continues.
fn linked(body: &str, link: &str) -> (String, String) {
    let next = link_of(body, link);
    let open = body.strip_suffix('}').expect("the lines are objects");
    (format!("{open}{LINK_BEGINS}{next}{LINK_ENDS}"), next)
}

/// The inverse of [`linked`]; `None` if the line does not continue `link`.
fn unlinked(line: &str, link: &str) -> Option<(String, String)> {
    let line = line.strip_suffix(LINK_ENDS)?;
    let at = line.len().checked_sub(LINK_DIGITS)?;
    let (open, found) = (line.get(..at)?.strip_suffix(LINK_BEGINS)?, line.get(at..)?);
    let body = format!("{open}}}");
    (link_of(&body, link) == found).then(|| (body, found.to_owned()))
}

fn link_of(body: &str, link: &str) -> String {
    checksum::of(format!("{link}{body}").as_bytes())[..LINK_DIGITS].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> (RunId, String, Vec<JournalEvent>) {
        let id: RunId = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
        let event = |trial, step| JournalEvent {
            at_unix_ns: u64::MAX,
            at_monotonic_ns: 1,
            series: Some(1),
            trial,
            attempt: Some(1),
            step,
        };
        let events = vec![
            event(None, Step::SeriesSetup),
            event(Some(0), Step::TrialMeasuring),
            event(Some(0), Step::TrialInvalid { run: id, reason: "too\nlate, \"link\":\"x".into() }),
        ];
        let mut text = begin(id, "order");
        let mut link = parse(text.as_bytes(), "order").link;
        for event in &events {
            let (line, next) = linked(&body(event), &link);
            text.push_str(&line);
            link = next;
        }
        (id, text, events)
    }

    #[test]
    fn a_journal_reads_back_and_each_line_is_json() {
        let (_, text, events) = example();
        let told = parse(text.as_bytes(), "order");
        assert_eq!((told.events, told.torn_bytes, told.damage), (events, 0, None));
        for line in text.lines() {
            assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{line}");
        }
    }

    #[test]
    fn what_a_command_printed_loses_its_passwords() {
        let reason = "it said: mysql://app:hush77@h/db\nMYSQL_PWD = \"hush77\"\npassword=hush77".to_owned();
        let (_, _, events) = example();
        for step in [Step::TrialFailed { reason: reason.clone() }, Step::SeriesFailed { reason }] {
            let line = masked(&JournalEvent { step, ..events[0].clone() });
            assert!(!line.contains("hush77"), "{line}");
            assert!(line.contains("mysql://app:***@h/db"), "{line}");
            assert!(serde_json::from_str::<JournalEvent>(&line).is_ok(), "{line}");
        }
    }

    #[test]
    fn cut_anywhere_it_reads_up_to_its_last_whole_line() {
        let (_, text, events) = example();
        let head = text.find('\n').unwrap() + 1;
        for cut in head..text.len() {
            let told = parse(&text.as_bytes()[..cut], "order");
            let lines = text[..cut].matches('\n').count();
            assert_eq!(told.damage, None);
            assert_eq!(told.events, events[..lines - 1], "cut at {cut}");
            let mut zeros = text.as_bytes()[..cut].to_vec();
            zeros.extend([0; 7]);
            assert_eq!(parse(&zeros, "order").events, events[..lines - 1]);
        }
        assert!(parse(&text.as_bytes()[..head - 1], "order").damage.is_some());
    }

    #[test]
    fn a_journal_that_grew_reads_on_as_it_reads_from_its_beginning() {
        let (_, text, _) = example();
        let head = text.find('\n').unwrap() + 1;
        let bytes = text.as_bytes();
        for first in head..=bytes.len() {
            for second in first..=bytes.len() {
                let mut told = parse(&bytes[..first], "order");
                let end = usize::try_from(told.whole_bytes).unwrap();
                assert!(parse_on(&mut told, &bytes[end..second]));
                assert_eq!(told, parse(&bytes[..second], "order"), "{first} {second}");
            }
        }
        // A changed byte, a missing line, and a beginning that is damaged.
        let starts: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
        let mut told = parse(&bytes[..starts[0]], "order");
        assert!(!parse_on(&mut told, &bytes[starts[1]..]));
        let mut changed = bytes.to_vec();
        changed[starts[1] + 9] ^= 1;
        assert!(!parse_on(&mut told, &changed[starts[0]..]));
        assert!(parse_on(&mut told, &bytes[starts[0]..]));
        let mut damaged = parse(&changed, "order");
        assert!(damaged.damage.is_some() && !parse_on(&mut damaged, b""));
    }

    #[test]
    fn a_changed_byte_is_seen_and_costs_no_line_but_its_own() {
        let (_, text, events) = example();
        let starts: Vec<usize> =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        for at in 0..text.len() - 1 {
            for bit in [1, 4, 64, 128] {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= bit;
                let told = parse(&bytes, "order");
                assert!(told.damage.is_some(), "byte {at}");
                // The line with the byte; 0 is the first, which holds no event. The end of a line also
                // belongs to the next.
                let line = starts.iter().rposition(|start| *start <= at).unwrap();
                let is_end = text.as_bytes()[at] == b'\n';
                let others = |i: usize| i + 1 != line && !(is_end && i == line);
                let kept: Vec<_> = (0..events.len()).filter(|i| others(*i)).map(|i| &events[i]).collect();
                assert!(kept.iter().all(|event| told.events.contains(event)), "byte {at}: {:?}", told.events);
                assert!(
                    told.events.iter().all(|event| events.contains(event)),
                    "byte {at}: {:?}",
                    told.events
                );
            }
        }
    }

    #[test]
    fn a_missing_line_and_another_order_are_seen() {
        let (_, text, events) = example();
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let told = parse([lines[0], lines[2], lines[3]].concat().as_bytes(), "order");
        assert!(told.damage.is_some());
        assert_eq!(told.events, events[2..]);
        let damage = parse(text.as_bytes(), "another order").damage.unwrap();
        assert_eq!(damage, "line 1 was altered; 1 line is unreadable");
        assert!(parse(b"", "order").damage.is_some() && parse(b"\n\n\xff\n", "order").damage.is_some());
    }
}
