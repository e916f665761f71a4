//! What must hold for any bytes whatever, called by each format's target.

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

/// Longer content is not compared: a small file may hold gigabytes, and time is for other inputs.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// Reads `file` in every way there is; they must agree, and none may crash, hang or grow without bound.
pub fn check(file: &[u8]) {
    let (content, is_whole) = read(file, 1);
    // Starting threads costs more than most inputs do, so only every fourth is read by three.
    if file.iter().fold(0, |sum, byte| sum ^ byte) % 4 == 0 {
        let several = read(file, 3);
        assert_eq!(is_whole, several.1, "one thread and three disagree on whether it is whole");
        // Of damaged gzip nothing is checked before its end, so how much comes before the error is open.
        if is_whole || !file.windows(2).any(|bytes| bytes == [0x1f, 0x8b]) {
            assert!(content == several.0, "one thread and three read differently");
        }
    }
    let mut salvaged = Vec::new();
    let mut limited = Limited { to: &mut salvaged, left: CONTENT_BYTES_MAX };
    let losses = tamp::salvage(Cursor::new(file), &mut limited);
    if is_whole && losses.is_ok_and(|losses| losses.is_empty()) {
        assert!(salvaged == content, "salvage of an undamaged file differs");
    }
    let _ = tamp::list(Cursor::new(file), 1);
    if let Ok(mut reader) = tamp::SeekReader::new(Cursor::new(file)) {
        let middle = reader.content_bytes() / 2;
        let mut found = vec![0; 1000];
        if is_whole && reader.seek(SeekFrom::Start(middle)).is_ok() {
            if let Ok(bytes) = reader.read(&mut found) {
                let from = usize::try_from(middle).unwrap();
                assert!(content[from..].starts_with(&found[..bytes]), "random access differs");
            }
        }
    }
}

/// Three small frames, and a seek table of `entries`, whatever they are, up to a part of one.
///
/// The first two words of an entry are a frame's size and its content's, so the table may be right, too.
pub fn behind_frames(entries: &[u8]) -> Vec<u8> {
    static FRAMES: OnceLock<Vec<u8>> = OnceLock::new();
    const FOOTER_BYTES: usize = 9;
    let frames = FRAMES.get_or_init(|| {
        let options =
            tamp::Options { block_bytes: 100, threads: 1, ..tamp::Options::zst(tamp::Level::USUAL) };
        let mut writer = tamp::Writer::new(Vec::new(), &options).unwrap();
        writer.write_all(&[b'a'; 250]).unwrap();
        let file = writer.finish().unwrap();
        let table_bytes = 8 + 3 * 8 + FOOTER_BYTES;
        file[..file.len() - table_bytes].to_vec()
    });
    let (with_checksums, entries) =
        entries.split_first().map_or((false, entries), |(first, rest)| (*first == 1, rest));
    let entry_bytes = if with_checksums { 12 } else { 8 };
    let count = entries.len() / entry_bytes;
    let mut file = frames.clone();
    file.extend(0x184D_2A5E_u32.to_le_bytes());
    file.extend(((count * entry_bytes + FOOTER_BYTES) as u32).to_le_bytes());
    file.extend(&entries[..count * entry_bytes]);
    file.extend((count as u32).to_le_bytes());
    file.push(if with_checksums { 0x80 } else { 0 });
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    file
}

/// Content up to the limit or the first error, and whether it came to a proper end.
fn read(file: &[u8], threads: usize) -> (Vec<u8>, bool) {
    let mut content = Vec::new();
    let mut reader = tamp::Reader::new(file, threads).take(CONTENT_BYTES_MAX);
    let ended = reader.read_to_end(&mut content).is_ok() && (content.len() as u64) < CONTENT_BYTES_MAX;
    (content, ended)
}

struct Limited<'a> {
    to: &'a mut Vec<u8>,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, content: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(content.len() as u64).ok_or(std::io::ErrorKind::StorageFull)?;
        self.to.extend_from_slice(content);
        Ok(content.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
