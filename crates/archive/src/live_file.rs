//! Live files: the intervals of a load while it runs, in `live/<id>.jsonl`.
//!
//! A live file is for viewers only. It is removed at the end of the run; the series then hold the same
//! intervals. No result depends on it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use record::clock::WallAnchor;
use record::run::RunId;
use serde_json::Value;

use crate::{Archive, disk, masking};

/// Longest live file: a day of intervals of 1 s, which have 600 to 1,200 bytes. Later ones are left out.
const LIVE_BYTES_MAX: u64 = 128 << 20;
/// Longest part of a live file that is read at a time.
const READ_BYTES_MAX: u64 = 4 << 20;
/// Longest end of the last line by which a live file is recognized.
const LAST_BYTES_MAX: usize = 4 << 10;
/// Version of the lines.
const SCHEMA: &str = "bakeoff.live/1";

/// Writer of a live file. Errors are ignored: a viewer that sees nothing must not end a measurement.
#[derive(Debug)]
pub struct Live {
    path: PathBuf,
    file: Option<File>,
    bytes: u64,
}

/// Position of a reader in a live file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LivePlace {
    at: u64,
    /// End of the line before that position. Each line has its time, so another file differs in it, even one
    /// with the same length and inode.
    last: Vec<u8>,
}

/// A part of a live file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LiveText {
    /// Whole lines.
    pub text: Vec<u8>,
    /// Whether it begins at the beginning of the file. Text that was read before is of another file.
    pub is_first: bool,
}

impl Archive {
    /// Begins the live file of a run.
    pub fn live(&self, id: RunId) -> Live {
        let folder = self.dir().join("live");
        let path = live_path(&folder, id);
        let make = || -> io::Result<File> {
            disk::make_folder(&folder)?;
            let _ = fs::remove_file(&path);
            disk::new_file().open(&path)
        };
        let mut live = Live { file: make().ok(), path, bytes: 0 };
        live.add(serde_json::json!({"schema": SCHEMA, "run": id.to_string()}));
        live
    }

    /// Whole lines of a live file after `place`, which moves behind them. If the file is another one by now,
    /// or was cut, they are its first lines. `None` if the run has no live file; then `place` is its
    /// beginning.
    pub fn live_text(&self, id: RunId, place: &mut LivePlace) -> Option<LiveText> {
        let read = read_text(&live_path(&self.dir().join("live"), id), place);
        if read.is_err() {
            *place = LivePlace::default();
        }
        read.ok()
    }

    /// Runs that have a live file; the process of some may have died.
    pub fn live_runs(&self) -> Vec<RunId> {
        let entries = fs::read_dir(self.dir().join("live")).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut ids: Vec<RunId> =
            names.filter_map(|name| name.strip_suffix(".jsonl")?.parse().ok()).collect();
        ids.sort_unstable();
        ids
    }

    /// Removes the live file of a run.
    pub(crate) fn forget_live(&self, id: RunId) {
        let _ = fs::remove_file(live_path(&self.dir().join("live"), id));
    }
}

impl Live {
    /// Appends a line, with its time and with passwords masked.
    pub fn add(&mut self, mut line: Value) {
        let Some(file) = &mut self.file else { return };
        if let Some(object) = line.as_object_mut() {
            object.insert("at_unix_ns".to_owned(), WallAnchor::now().unix_ns.into());
        }
        let mut bytes = masking::mask(line.to_string().into_bytes(), None);
        bytes.push(b'\n');
        self.bytes += bytes.len() as u64;
        if self.bytes > LIVE_BYTES_MAX || file.write_all(&bytes).is_err() {
            self.file = None;
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn live_path(folder: &Path, id: RunId) -> PathBuf {
    folder.join(format!("{id}.jsonl"))
}

fn read_text(path: &Path, place: &mut LivePlace) -> io::Result<LiveText> {
    let file = disk::open(path)?;
    let mut text = read_from(&file, place.at - place.last.len() as u64)?;
    if text.starts_with(&place.last) {
        text.drain(..place.last.len());
    } else {
        *place = LivePlace::default();
        text = read_from(&file, 0)?;
    }
    let is_first = place.at == 0;
    let end = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    text.truncate(end);
    if let Some(before) = end.checked_sub(1) {
        let begin = text[..before].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        place.last = text[begin.max(end.saturating_sub(LAST_BYTES_MAX))..].to_vec();
        place.at += end as u64;
    }
    Ok(LiveText { text, is_first })
}

fn read_from(mut file: &File, from: u64) -> io::Result<Vec<u8>> {
    file.seek(SeekFrom::Start(from))?;
    let mut bytes = Vec::with_capacity(8 << 10);
    file.take(READ_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_viewer_reads_whole_lines_only_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let mut place = LivePlace::default();
        assert_eq!(archive.live_text(id, &mut place), None);
        let mut live = archive.live(id);
        live.add(json!({"n": 1}));
        let lines = lines(&archive, id, &mut place);
        assert_eq!((lines.len(), &lines[1]["n"]), (2, &json!(1)));
        // Half a line, as a writer that is interrupted leaves it.
        live.file.as_mut().unwrap().write_all(b"{\"n\":").unwrap();
        let before = place.clone();
        assert_eq!((archive.live_text(id, &mut place), &place), (Some(LiveText::default()), &before));
        live.file.as_mut().unwrap().write_all(b"2}\n").unwrap();
        let text = b"{\"n\":2}\n".to_vec();
        assert_eq!(archive.live_text(id, &mut place), Some(LiveText { text, is_first: false }));
        drop(live);
        assert_eq!((archive.live_text(id, &mut place), place), (None, LivePlace::default()));
    }

    /// New lines of a live file.
    fn lines(archive: &Archive, id: RunId, place: &mut LivePlace) -> Vec<Value> {
        let text = archive.live_text(id, place).unwrap().text;
        serde_json::Deserializer::from_slice(&text).into_iter().map(Result::unwrap).collect()
    }

    #[test]
    fn a_file_that_was_begun_anew_is_read_from_its_beginning() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let mut live = archive.live(id);
        (0..50).for_each(|n| live.add(json!({"n": n})));
        let mut place = LivePlace::default();
        assert_eq!(lines(&archive, id, &mut place).len(), 51);
        // A process that died left its file. The new one is longer, and may have the inode of the old one.
        std::mem::forget(live);
        let mut live = archive.live(id);
        (0..70).for_each(|n| live.add(json!({"n": 99 - n})));
        let read = archive.live_text(id, &mut place.clone()).unwrap();
        assert!(read.is_first && read.text.starts_with(b"{"));
        assert_eq!(lines(&archive, id, &mut place)[1]["n"], json!(99));
        // It is cut, and grows beyond the place again.
        live.file.as_mut().unwrap().set_len(0).unwrap();
        live.file.as_mut().unwrap().seek(SeekFrom::Start(0)).unwrap();
        (0..90).for_each(|n| live.add(json!({"n": n})));
        let read = archive.live_text(id, &mut place).unwrap();
        assert_eq!((read.is_first, String::from_utf8_lossy(&read.text).lines().count()), (true, 90));
    }

    #[test]
    fn a_live_file_holds_no_password() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let mut live = archive.live(id);
        live.add(json!({"note": "cannot connect to mysql://app:S3CR3T@localhost/test"}));
        let read = archive.live_text(id, &mut LivePlace::default()).unwrap();
        assert!(!String::from_utf8_lossy(&read.text).contains("S3CR3T"));
    }
}
