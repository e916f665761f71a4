//! Properties that must hold for any bytes. The target of each format calls [`check`].

use std::io::{Cursor, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

/// Largest content that is compared, in bytes: a small file may hold gigabytes.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// How reading a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// At the end of the file, without an error.
    Whole,
    /// Before garbage that gzip ignores with a warning. Salvage searches it for members.
    Garbage,
    /// With an error.
    Failed,
    /// At [`CONTENT_BYTES_MAX`].
    Limit,
}

/// Reads `file` with each of tamp's readers. They must agree, and none may panic, hang or allocate without bound.
pub fn check(file: &[u8]) {
    let (content, end) = read(file, 1);
    let is_whole = end == End::Whole;
    // Starting threads costs more than reading most inputs, so three threads read only every fourth.
    if file.iter().fold(0, |sum, byte| sum ^ byte) % 4 == 0 {
        let several = read(file, 3);
        assert_eq!(end, several.1, "one thread and three end differently");
        // gzip checks only its end, so the content before an error may differ.
        if is_whole || !file.windows(2).any(|bytes| bytes == [0x1f, 0x8b]) {
            assert!(content == several.0, "one thread and three read differently");
        }
    }
    let mut salvaged = Vec::new();
    let mut limited = Limited { to: &mut salvaged, left: CONTENT_BYTES_MAX };
    let options = tamp::ReadOptions::new(1);
    match (end, tamp::salvage(Cursor::new(file), &options, &mut limited)) {
        (End::Whole, Ok(losses)) => {
            assert!(losses.is_empty(), "the file is whole, and salvage reports {losses:?}");
            assert!(salvaged == content, "salvage of a whole file differs");
        }
        (End::Whole, Err(error)) => panic!("the file is whole, and salvage fails: {error}"),
        // If only the length that a BGZF block states is wrong, salvage decodes the block and its checksum proves it.
        (End::Failed, Ok(losses)) => {
            let is_bgzf = file.windows(4).any(|bytes| bytes == b"BC\x02\0");
            assert!(!losses.is_empty() || is_bgzf, "the file is not whole, and salvage reports no loss");
        }
        (End::Failed, Err(_)) | (End::Garbage | End::Limit, _) => {}
    }
    let _ = tamp::list(Cursor::new(file), &options);
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

/// Three small frames, and a seek table of the whole entries in `entries`.
///
/// The first two words of an entry are the sizes of a frame and of its content, so the table may also be correct.
pub fn behind_frames(entries: &[u8]) -> Vec<u8> {
    static FRAMES: OnceLock<Vec<u8>> = OnceLock::new();
    const FOOTER_BYTES: usize = 9;
    let frames = FRAMES.get_or_init(|| {
        let mut options = tamp::Options::zst(tamp::Level::USUAL);
        (options.block_bytes, options.threads) = (100, 1);
        let mut writer = tamp::Writer::new(Vec::new(), &options).unwrap();
        writer.write_all(&[b'a'; 250]).unwrap();
        let file = writer.finish().unwrap();
        let tail_bytes = 28 + 8 + 3 * 12 + FOOTER_BYTES;
        file[..file.len() - tail_bytes].to_vec()
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

/// Content up to the limit or the first error, and how reading ended.
fn read(file: &[u8], threads: usize) -> (Vec<u8>, End) {
    let mut content = Vec::new();
    let mut reader = tamp::Reader::new(file, threads).take(CONTENT_BYTES_MAX);
    let end = match reader.read_to_end(&mut content) {
        Err(_) => End::Failed,
        Ok(bytes) if bytes as u64 == CONTENT_BYTES_MAX => End::Limit,
        Ok(_) if reader.get_ref().trailing_garbage().is_some() => End::Garbage,
        Ok(_) => End::Whole,
    };
    (content, end)
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
