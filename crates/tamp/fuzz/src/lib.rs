//! Properties that must hold for any bytes. The target of each format calls [`check`].

mod stock;

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
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

/// Calls `check` with the content of every file that the command line names.
///
/// # Errors
///
/// A file that cannot be read.
pub fn each_argument(check: impl Fn(&[u8])) -> io::Result<()> {
    std::env::args_os().skip(1).try_for_each(|path| std::fs::read(path).map(|file| check(&file)))
}

/// Reads `file` with each of tamp's readers. They must agree, and none may panic, hang or allocate without bound.
///
/// If the file is whole, salvage reports no loss, and the bytes are those of the stock decoder. If not, salvage reports a loss.
///
/// # Panics
///
/// If any of this does not hold.
pub fn check(file: &[u8]) {
    let (content, end) = read(file, 1);
    let is_whole = end == End::Whole;
    // Starting threads costs more than reading most inputs, so three threads read only every fourth.
    if file.iter().fold(0_u8, |sum, byte| sum ^ byte).is_multiple_of(4) {
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
            if let Some(stock) = stock::decode(file, content.len()) {
                assert!(stock == content, "the stock decoder reads something else");
            }
        }
        (End::Whole, Err(error)) => panic!("the file is whole, and salvage fails: {error}"),
        // If only the length that a BGZF block states is wrong, salvage decodes the block and its checksum proves it.
        (End::Failed, Ok(losses)) if losses.is_empty() => {
            let stock = stock::decode(file, salvaged.len());
            assert!(
                stock.is_some_and(|stock| stock == salvaged),
                "the file is not whole, and salvage reports no loss"
            );
        }
        (End::Failed | End::Garbage | End::Limit, _) => {}
    }
    let listed = tamp::list(Cursor::new(file), &options);
    if is_whole && let Ok(listed) = &listed {
        assert_eq!(listed.content_bytes, content.len() as u64, "the list states another size");
        assert_eq!(listed.unfinished, None);
    }
    if let Ok(mut reader) = tamp::SeekReader::new(Cursor::new(file)) {
        let middle = reader.content_bytes() / 2;
        let mut found = vec![0; 1000];
        if is_whole
            && reader.seek(SeekFrom::Start(middle)).is_ok()
            && let Ok(bytes) = reader.read(&mut found)
        {
            let rest = usize::try_from(middle).ok().and_then(|from| content.get(from..));
            assert!(rest.is_some_and(|rest| rest.starts_with(&found[..bytes])), "random access differs");
        }
    }
}

/// Three small frames, and a seek table of the whole entries in `entries`.
///
/// The first two words of an entry are the sizes of a frame and of its content, so the table may also be correct.
///
/// # Panics
///
/// If more than 4 GiB of entries are given, or tamp fails to write.
pub fn behind_frames(entries: &[u8]) -> Vec<u8> {
    static FRAMES: OnceLock<Vec<u8>> = OnceLock::new();
    const FOOTER_BYTES: usize = 9;
    const VALID: &str = "a vector takes everything";
    let word = |number: usize| u32::try_from(number).expect("the entries are in memory").to_le_bytes();
    let frames = FRAMES.get_or_init(|| {
        let mut options = tamp::Options::zst(tamp::Level::USUAL);
        (options.block_bytes, options.threads) = (100, 1);
        let mut writer = tamp::Writer::new(Vec::new(), &options).expect(VALID);
        writer.write_all(&[b'a'; 250]).expect(VALID);
        let file = writer.finish().expect(VALID);
        let tail_bytes = 28 + 8 + 3 * 12 + FOOTER_BYTES;
        file[..file.len() - tail_bytes].to_vec()
    });
    let (with_checksums, entries) =
        entries.split_first().map_or((false, entries), |(first, rest)| (*first == 1, rest));
    let entry_bytes = if with_checksums { 12 } else { 8 };
    let count = entries.len() / entry_bytes;
    let mut file = frames.clone();
    file.extend(0x184D_2A5E_u32.to_le_bytes());
    file.extend(word(count * entry_bytes + FOOTER_BYTES));
    file.extend(&entries[..count * entry_bytes]);
    file.extend(word(count));
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
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(content.len() as u64).ok_or(io::ErrorKind::StorageFull)?;
        self.to.extend_from_slice(content);
        Ok(content.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Every file of `../testdata`.
    fn corpus() -> Vec<(String, Vec<u8>)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata");
        let mut files = Vec::new();
        for part in ["formats", "damaged"] {
            for entry in std::fs::read_dir(folder.join(part)).expect("the corpus is there") {
                let path = entry.expect("the corpus can be read").path();
                files.push((path.display().to_string(), std::fs::read(&path).expect("a file")));
            }
        }
        assert!(files.len() > 30, "{} files", files.len());
        files
    }

    #[test]
    fn the_properties_hold_for_the_corpus_cut_flipped_and_zeroed() {
        for (name, file) in corpus() {
            // The last line that a failure prints says which input it was.
            let check = |how: &str, at: usize, file: &[u8]| {
                let held = std::panic::catch_unwind(|| check(file));
                assert!(held.is_ok(), "{name}: {how} at byte {at}");
            };
            check("as it is,", 0, &file);
            for at in (0..file.len()).step_by(file.len().div_ceil(20).max(1)) {
                check("cut", at, &file[..at]);
                let mut flipped = file.clone();
                flipped[at] ^= 1 << (at % 8);
                check("flipped", at, &flipped);
                let mut zeroed = file.clone();
                let end = (at + 16).min(file.len());
                zeroed[at..end].fill(0);
                check("zeroed", at, &zeroed);
            }
        }
    }

    #[test]
    fn the_properties_hold_for_any_entry_of_a_seek_table() {
        for number in 0..=255 {
            for bytes in [0, 1, 9, 25, 37] {
                check(&behind_frames(&vec![number; bytes]));
            }
        }
    }

    #[test]
    fn the_stock_decoders_read_what_they_are_asked_for() {
        let plain = corpus().into_iter().filter(|(name, _)| {
            name.contains("formats") && !name.contains("dictionary") && !name.contains("patch")
        });
        let refused: Vec<String> =
            plain.filter(|(_, file)| stock::decode(file, 160_000).is_none()).map(|(name, _)| name).collect();
        // liblz4 has no decoder of frames of the legacy format.
        assert!(refused.len() == 1 && refused[0].contains("lz4-legacy"), "{refused:?}");
    }
}
