//! What must hold for any bytes whatever, called by each format's target.

use std::io::{Cursor, Read, Seek, SeekFrom};

/// Longer content is not compared: a small file may hold gigabytes, and time is for other inputs.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// Reads `file` in every way there is; they must agree, and none may crash, hang or grow without bound.
pub fn check(file: &[u8]) {
    let one = read(file, 1);
    let several = read(file, 3);
    assert_eq!(one.1, several.1, "one thread and three disagree on whether it is whole");
    // Of damaged gzip nothing is checked before its end, so how much comes before the error is open.
    if one.1 || !file.windows(2).any(|bytes| bytes == [0x1f, 0x8b]) {
        assert!(one.0 == several.0, "one thread and three read differently");
    }
    let (content, is_whole) = one;
    let mut salvaged = Vec::new();
    let mut limited = Limited { to: &mut salvaged, left: CONTENT_BYTES_MAX };
    let losses = tamp::salvage(Cursor::new(file), &mut limited);
    if is_whole && losses.is_ok_and(|losses| losses.is_empty()) {
        assert!(salvaged == content, "salvage of an undamaged file differs");
    }
    let _ = tamp::list(Cursor::new(file));
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

impl std::io::Write for Limited<'_> {
    fn write(&mut self, content: &[u8]) -> std::io::Result<usize> {
        self.left = self.left.checked_sub(content.len() as u64).ok_or(std::io::ErrorKind::StorageFull)?;
        self.to.extend_from_slice(content);
        Ok(content.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
