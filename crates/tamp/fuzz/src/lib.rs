//! Properties that must hold for any bytes. The target of each format calls [`check`].

mod stock;

use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::sync::OnceLock;

/// Maximum content to compare, in bytes: a small file may hold gigabytes.
const CONTENT_BYTES_MAX: u64 = 8 << 20;

/// Result of reading a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Reached the end of the file without an error.
    Whole,
    /// Stopped before garbage that gzip ignores with a warning. Salvage searches it for members.
    Garbage,
    /// Stopped with an error.
    Failed,
    /// Stopped at [`CONTENT_BYTES_MAX`].
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

/// Reads `file` with each of tamp's readers. They must agree, and none may panic, hang or allocate without
/// bound.
///
/// If the file is whole, salvage reports no loss, and the bytes are those of the stock decoder. If not,
/// salvage reports a loss.
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
        // If only the length that a BGZF block states is wrong, salvage decodes the block and its checksum
        // proves it.
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
        // Without checksums of its blocks, only the end of an LZ4 frame proves the content: the reader of a
        // damaged frame finds other content, and perhaps less of it, before it fails.
        let is_proven_at_end =
            file.windows(5).any(|bytes| bytes.starts_with(&stock::LZ4) && bytes[4] & 0x10 == 0);
        if is_whole || !is_proven_at_end {
            check_access(&mut reader, &content, is_whole);
        }
    }
}

/// Checks that random access yields the content that the reader found, or fails.
fn check_access(reader: &mut tamp::SeekReader<Cursor<&[u8]>>, content: &[u8], is_whole: bool) {
    const BYTES: usize = 1000;
    for at in [content.len().saturating_sub(BYTES), content.len() / 2, 0, content.len()] {
        let mut found = Vec::new();
        let position = reader.seek(SeekFrom::Start(at as u64));
        assert_eq!(position.ok(), Some(at as u64));
        let read = reader.by_ref().take(BYTES as u64).read_to_end(&mut found);
        let known = &content[at..content.len().min(at + BYTES)];
        // The reader of a damaged file may stop before the offset that random access reaches.
        let compared = if is_whole { found.len() } else { found.len().min(known.len()) };
        assert!(known.starts_with(&found[..compared]), "random access differs from byte {at}");
        assert!(
            !is_whole || read.is_err() || found.len() == known.len(),
            "random access ends early from {at}"
        );
    }
    if is_whole && let Ok(end) = reader.seek(SeekFrom::End(0)) {
        assert_eq!(end, content.len() as u64, "random access has another end");
    }
}

/// Returns three frames of libzstd and the seek table that another tool writes for them, with `damage`
/// applied to its entries.
///
/// The lowest bit of the first byte selects entries with checksums. The other bytes flip bits of the entries;
/// bytes beyond the last entry are added as entries. If no bit is set, the table is correct.
///
/// # Panics
///
/// If more than 4 GiB of damage are given, or libzstd fails to compress.
pub fn behind_frames(damage: &[u8]) -> Vec<u8> {
    static FRAMES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    const FOOTER_BYTES: usize = 9;
    let word = |number: usize| u32::try_from(number).expect("the entries are in memory").to_le_bytes();
    let frames = FRAMES.get_or_init(|| SIZES.iter().enumerate().map(|(n, &size)| frame(n, size)).collect());
    let (first, flips) = damage.split_first().map_or((0, &[][..]), |(first, rest)| (*first, rest));
    let with_checksums = first & 1 == 1;
    let entry_bytes = if with_checksums { 12 } else { 8 };
    let mut entries = Vec::new();
    for (frame, size) in frames.iter().zip(SIZES) {
        entries.extend([word(frame.len()), word(size)].concat());
        entries.extend(&frame[frame.len() - 4..][..entry_bytes - 8]);
    }
    let count = (flips.len() / entry_bytes).max(SIZES.len());
    entries.resize(count * entry_bytes, 0);
    for (byte, flip) in entries.iter_mut().zip(flips) {
        *byte ^= flip;
    }
    let mut file = frames.concat();
    file.extend(0x184D_2A5E_u32.to_le_bytes());
    file.extend(word(entries.len() + FOOTER_BYTES));
    file.extend(entries);
    file.extend(word(count));
    file.push(if with_checksums { 0x80 } else { 0 });
    file.extend(0x8F92_EAB1_u32.to_le_bytes());
    file
}

/// Content of the frames in front of the seek table. libzstd states the last one in a field of 4 bytes.
const SIZES: [usize; 3] = [100, 300, 70_000];

/// A frame with a checksum. Its content depends on `number` and on the offset.
fn frame(number: usize, size: usize) -> Vec<u8> {
    const VALID: &str = "there is room for a frame of any content";
    let content: Vec<u8> = (0..size / 10).flat_map(|n| format!("{number}{n:>8}\n").into_bytes()).collect();
    let mut context = zstd_safe::CCtx::create();
    context.set_parameter(zstd_safe::CParameter::ChecksumFlag(true)).expect(VALID);
    let mut frame = vec![0; zstd_safe::compress_bound(size)];
    let bytes = context.compress2(&mut frame[..], &content).expect(VALID);
    frame.truncate(bytes);
    frame
}

/// Returns the content up to the limit or the first error, and how reading ended.
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
            // The last line that a failure prints names the input.
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
        for (first, entry_bytes) in [(0, 8), (1, 12)] {
            let right = behind_frames(&[first]);
            check(&right);
            let (content, end) = read(&right, 1);
            assert_eq!((content.len(), end), (SIZES.iter().sum(), End::Whole));
            assert!(tamp::SeekReader::new(Cursor::new(&right)).is_ok());
            let table_at = right.len() - 9 - SIZES.len() * entry_bytes;
            let entries = right[table_at..right.len() - 9].to_vec();
            // Each bit, alone and together with the same bit of the next entry, so the sum of the sizes may
            // still be right.
            for bit in 0..entries.len() * 8 {
                let mut flips = vec![0; entries.len()];
                flips[bit / 8] = 1 << (bit % 8);
                check(&behind_frames(&[&[first][..], &flips].concat()));
                flips[(bit / 8 + entry_bytes) % entries.len()] = 1 << (bit % 8);
                check(&behind_frames(&[&[first][..], &flips].concat()));
            }
            // Exchange two entries, then only their content sizes.
            for from in [0, 4] {
                let (a, b) = (from..8, entry_bytes + from..entry_bytes + 8);
                let mut flips = vec![0; entries.len()];
                for (a, b) in a.zip(b) {
                    let flip = entries[a] ^ entries[b];
                    (flips[a], flips[b]) = (flip, flip);
                }
                check(&behind_frames(&[&[first][..], &flips].concat()));
            }
            for bytes in [1, 9, 25, 37, 100] {
                check(&behind_frames(&[&[first][..], &vec![255; bytes]].concat()));
                check(&behind_frames(&[&[first][..], &vec![0; bytes]].concat()));
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
        // liblz4 cannot decode frames of the legacy format.
        assert!(refused.len() == 1 && refused[0].contains("lz4-legacy"), "{refused:?}");
    }
}
