//! Salvage of files that a failing disk reads only in part, or that become shorter meanwhile.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "a skip is printed, not passed over")]

#[expect(dead_code, reason = "other tests use the rest")]
mod specimens;

use specimens::{Specimen, With, content, specimens};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use tamp::{Loss, Lost, ReadOptions};

/// EIO on Linux.
const UNREADABLE: i32 = 5;

/// A file on a failing disk: a read that begins in `bad` fails, and a read that reaches it is short. There
/// are no bytes from `end` on, though the file stated its whole length when it was opened.
struct Failing<'a> {
    file: &'a [u8],
    at: usize,
    bad: Range<usize>,
    end: usize,
}

impl Read for Failing<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.bad.contains(&self.at) && !to.is_empty() {
            return Err(io::Error::from_raw_os_error(UNREADABLE));
        }
        let limit = if self.at < self.bad.start { self.bad.start } else { self.file.len() };
        let limit = limit.min(self.end);
        let bytes = limit.saturating_sub(self.at).min(to.len());
        to[..bytes].copy_from_slice(&self.file[self.at..self.at + bytes]);
        self.at += bytes;
        Ok(bytes)
    }
}

impl Seek for Failing<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        match to {
            SeekFrom::Start(at) => self.at = usize::try_from(at).unwrap(),
            SeekFrom::End(0) => self.at = self.file.len(),
            _ => return Err(io::ErrorKind::Unsupported.into()),
        }
        Ok(self.at as u64)
    }
}

fn salvage(file: &[u8], with: &With, bad: Range<usize>, end: usize) -> (Vec<u8>, Vec<Loss>) {
    let (mut output, source) = (Vec::new(), Failing { file, at: 0, bad, end });
    let losses = with.salvage(source, &mut output).unwrap();
    (output, losses)
}

/// Number of bytes at their right offset, from the beginning and from the end.
fn right(content: &[u8], output: &[u8]) -> usize {
    let front = content.iter().zip(output).take_while(|(a, b)| a == b).count();
    let back = content.iter().rev().zip(output.iter().rev()).take_while(|(a, b)| a == b).count();
    (front + back).min(content.len())
}

/// Whether the losses report all of `part` as unreadable.
fn is_told(losses: &[Loss], part: &Range<usize>) -> bool {
    let mut told: Vec<_> =
        losses.iter().filter(|loss| loss.what == Lost::Unreadable).map(|loss| loss.file.clone()).collect();
    told.sort_by_key(|file| file.start);
    let reached = told.iter().fold(part.start as u64, |reached, file| {
        if file.start <= reached { reached.max(file.end) } else { reached }
    });
    reached >= part.end as u64
}

/// Salvages a whole file with zeros in one part.
fn with_zeros(file: &[u8], with: &With, zeros: Range<usize>) -> Vec<u8> {
    let mut file = file.to_vec();
    file[zeros].fill(0);
    let mut output = Vec::new();
    with.salvage(io::Cursor::new(file), &mut output).unwrap();
    output
}

#[test]
fn what_a_failing_disk_still_reads_is_salvaged_and_the_rest_is_told() {
    let content = content();
    for Specimen { name, file, with, .. } in specimens(&content) {
        for part in 1..8 {
            let from = file.len() * part / 8 / 4096 * 4096;
            let bad = from..(from + 4096).min(file.len());
            if from == 0 {
                continue;
            }
            let (output, losses) = salvage(&file, &with, bad.clone(), file.len());
            assert!(is_told(&losses, &bad), "{name}, {bad:?}: {losses:?}");
            // As much as of a file with zeros there.
            assert!(output == with_zeros(&file, &with, bad.clone()), "{name}, {bad:?}");
            let is_lost = |loss: &&Loss| loss.what != Lost::Unreadable;
            let is_content = output == content;
            assert!(is_content || losses.iter().any(|loss| is_lost(&loss)), "{name}, {bad:?}: {losses:?}");
        }
    }
}

#[test]
fn one_bad_sector_loses_one_block_of_tamp() {
    let content = content();
    let file = specimens::packed(&content, tamp::Format::Zst, 16 << 10);
    for from in (4096..file.len() - 8192).step_by(8192) {
        let (output, losses) = salvage(&file, &With::default(), from..from + 4096, file.len());
        assert_eq!(output.len(), content.len(), "{from}: {losses:?}");
        assert!(right(&content, &output) + 2 * (16 << 10) >= content.len(), "{from}: {losses:?}");
    }
    // The list of frames is at the end.
    let (output, losses) = salvage(&file, &With::default(), file.len() - 100..file.len(), file.len());
    assert!(output == content && is_told(&losses, &(file.len() - 100..file.len())), "{losses:?}");
}

#[test]
fn zeros_that_decode_without_an_error_are_not_proven() {
    // Noise is stored uncompressed, and only the lengths distinguish zeros from it.
    let content: Vec<u8> = (0..100_000_u32).flat_map(|n| n.wrapping_mul(0x9E37_79B1).to_be_bytes()).collect();
    let Some(file) = specimens::filter("zstd -qc --no-check", &content) else {
        return println!("skipped: zstd: not installed");
    };
    assert!(file.len() > content.len());
    let (output, losses) = salvage(&file, &With::default(), 8192..12_288, file.len());
    assert!(output.len() == content.len() && output != content);
    assert!(losses.iter().any(|loss| loss.what == Lost::Unproven), "{losses:?}");
    assert!(is_told(&losses, &(8192..12_288)), "{losses:?}");
}

#[test]
fn a_file_of_which_nothing_can_be_read_is_an_error_of_the_disk() {
    let file = specimens::packed(&content(), tamp::Format::Zst, 16 << 10);
    let source = Failing { file: &file, at: 0, bad: 0..file.len(), end: file.len() };
    let error = tamp::salvage(source, &ReadOptions::new(1), &mut Vec::new()).unwrap_err();
    assert!(matches!(&error, tamp::Error::Io(inner) if inner.raw_os_error() == Some(UNREADABLE)), "{error}");
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_salvaged_is_salvaged_to_where_it_ends() {
    let content = content();
    for Specimen { name, file, with, .. } in specimens(&content) {
        for part in 1..8 {
            let end = file.len() * part / 8;
            let (output, losses) = salvage(&file, &with, file.len()..file.len(), end);
            assert!(is_told(&losses, &(end..file.len())), "{name}, {end}: {losses:?}");
            assert!(output == with_zeros(&file, &with, end..file.len()), "{name}, {end}");
        }
    }
}
