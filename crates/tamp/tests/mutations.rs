//! Files of all formats and of stock tools, damaged at random: a wrong byte is always reported.
//!
//! `TAMP_MUTATIONS` is the number of damages (`scripts/prove-tamp` tries 20,000), `TAMP_MUTATION` the first;
//! without the former, only that one is tried. The counts are printed. For each file:
//!
//! - If the reader finds the file whole, its output is the content, and salvage returns the same bytes
//!   without a loss.
//! - Otherwise salvage reports a loss. Its output outside of the losses is content, byte for byte.
//! - `decompress_file`, `SeekReader` and `list` agree with the reader, or refuse. They never return other
//!   bytes.
//! - Salvage returns at least the beginning that `zstd`, `lz4` or `gzip` returns. An older `zstd` may decode
//!   wrong content from a block that the linked libzstd refuses; salvage then returns at least everything
//!   before that block, and the older `zstd` is wrong inside it. These cases are counted as `refused`.
//! - `tamp -t`, `-d` and `--salvage` exit like the reader. `-d` writes an output and removes the input only
//!   if the file is whole; `--range` writes content.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the counts are what this test is for")]

mod specimens;

use specimens::{
    BY_CHANCE, Random, Specimen, With, common, content, decompressed_file, is_refused, specimens,
};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Cursor, Read, Seek, SeekFrom};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;
use tamp::{Error, Loss, Lost, Meter, Reader, SeekReader};

/// Damages `file` in one of several ways; returns its name.
fn mutate(file: &mut Vec<u8>, random: &mut Random) -> &'static str {
    let length = file.len();
    match random.below(8) {
        0 | 1 => {
            let at = random.below(length);
            file[at] ^= 1 << random.below(8);
            "a flipped bit"
        }
        2 => {
            for _ in 0..2 + random.below(5) {
                let at = random.below(length);
                file[at] ^= 1 << random.below(8);
            }
            "some flipped bits"
        }
        3 => {
            file.truncate(random.below(length));
            "a cut"
        }
        4 => {
            let at = random.below(length);
            let bytes: Vec<u8> = (0..=random.below(5000)).map(|_| random.next().to_le_bytes()[0]).collect();
            file.splice(at..at, bytes);
            "an insertion"
        }
        5 => {
            let pages = length.div_ceil(4096);
            let from = random.below(pages) * 4096;
            let to = (from + 4096 * (1 + random.below(3))).min(length);
            file[from..to].fill(0);
            "zeroed pages"
        }
        6 => {
            let bytes = (1 + random.below(length / 4)).min(length / 3);
            let first = random.below(length - 2 * bytes);
            let second = first + bytes + random.below(length - first - 2 * bytes);
            let (front, back) = file.split_at_mut(second);
            front[first..first + bytes].swap_with_slice(&mut back[..bytes]);
            "exchanged blocks"
        }
        _ => {
            file.truncate(1 + random.below(length));
            let at = random.below(file.len());
            file[at] ^= 1 << random.below(8);
            "a cut and a flipped bit"
        }
    }
}

struct Read1 {
    content: Vec<u8>,
    is_whole: bool,
    is_unfinished: bool,
    has_garbage: bool,
}

fn read(file: &[u8], with: &With, threads: usize) -> Read1 {
    let mut content = Vec::new();
    let (result, garbage) = if let Some(reference) = &with.reference {
        let memory = with.options(1).memory_bytes;
        let found = tamp::decompress_frame(
            &mut &file[..],
            &mut content,
            reference,
            memory,
            &Meter::new(),
            &mut || {},
        );
        let garbage = found.as_ref().ok().copied().flatten();
        (found.map(drop), garbage)
    } else {
        let mut reader = Reader::with_options(file, &with.options(threads), Arc::default());
        let read = reader.read_to_end(&mut content);
        let error = read.map(drop).map_err(|error| match error.downcast() {
            Ok(error) => error,
            Err(error) => Error::Io(error),
        });
        (error, reader.trailing_garbage())
    };
    let is_unfinished = matches!(result, Err(Error::Unfinished { .. }));
    Read1 { content, is_whole: result.is_ok(), is_unfinished, has_garbage: garbage.is_some() }
}

/// Whether all output outside of the losses is content.
fn is_content_outside(content: &[u8], output: &[u8], losses: &[Loss]) -> bool {
    let mut covered: Vec<(usize, usize)> = losses
        .iter()
        .map(|loss| {
            let from = usize::try_from(loss.content_at).unwrap();
            (from, from + usize::try_from(loss.content_bytes.unwrap_or(0)).unwrap())
        })
        .collect();
    covered.push((output.len(), output.len()));
    covered.sort_unstable();
    let mut at = 0;
    for (from, to) in covered {
        if from > at {
            let segment = &output[at..from.min(output.len())];
            let in_place = content.get(at..).is_some_and(|rest| rest.starts_with(segment));
            let key = &segment[..segment.len().min(24)];
            let mut places = content.windows(key.len()).enumerate().filter(|(_, window)| *window == key);
            if !in_place && !places.any(|(place, _)| content[place..].starts_with(segment)) {
                return false;
            }
        }
        at = at.max(to);
    }
    true
}

#[derive(Default)]
struct Counts {
    tried: u32,
    unchanged: u32,
    told: u32,
    /// Wrong, and not detectable by a checksum in the file.
    undetectable: u32,
    better_than_stock: u32,
    /// Allowed random access.
    seekable: u32,
    /// The stock tool decodes a damaged block that the linked libzstd refuses.
    refused: u32,
}

/// Content of a file, as far as it is certain.
struct Truth<'a> {
    bytes: &'a [u8],
    /// Whether `bytes` are the whole content, so their length is right, too.
    is_all: bool,
}

impl<'a> Truth<'a> {
    fn new(specimen: &Specimen, content: &'a [u8], found: &'a Read1) -> Self {
        if found.is_whole {
            Self { bytes: &found.content, is_all: true }
        } else if specimen.is_proven {
            Self { bytes: content, is_all: true }
        } else {
            // Exchanged blocks give other content, but the same for every reader.
            Self { bytes: &found.content, is_all: false }
        }
    }

    /// Whether `found` is valid at `at`.
    fn allows(&self, at: usize, found: &[u8]) -> bool {
        let known = self.bytes.get(at..).unwrap_or_default();
        let compared = if self.is_all { found.len() } else { found.len().min(known.len()) };
        known.starts_with(&found[..compared])
    }
}

/// Checks random access and the list; returns whether random access is possible.
fn check_access(file: &[u8], with: &With, truth: &Truth<'_>, random: &mut Random) -> Result<bool, String> {
    let options = with.options(1);
    let listed = match &with.reference {
        Some(reference) => tamp::list_frame(Cursor::new(file), reference, &options),
        None => tamp::list(Cursor::new(file), &options),
    };
    if let Ok(listed) = listed
        && truth.is_all
        && listed.unfinished.is_none()
        && listed.content_bytes != truth.bytes.len() as u64
    {
        return Err(format!("the list states {} bytes", listed.content_bytes));
    }
    if with.reference.is_some() {
        // A patch has no random access; `--range` decodes it from the beginning.
        return Ok(true);
    }
    let Ok(mut reader) = SeekReader::with_options(Cursor::new(file), &options) else { return Ok(false) };
    for _ in 0..3 {
        let (at, mut found) = (random.below(truth.bytes.len()), Vec::new());
        reader.seek(SeekFrom::Start(at as u64)).unwrap();
        let read = reader.by_ref().take(1000).read_to_end(&mut found);
        if !truth.allows(at, &found) {
            return Err(format!("random access yields other bytes from {at}"));
        }
        let is_short = truth.bytes.len().saturating_sub(at).min(1000) > found.len();
        if read.is_ok() && truth.is_all && is_short {
            return Err(format!("random access ends {} bytes behind {at}", found.len()));
        }
    }
    Ok(true)
}

/// A folder with the damaged file.
struct Place {
    folder: tempfile::TempDir,
    packed: PathBuf,
    content: PathBuf,
    with: With,
}

impl Place {
    fn new(specimen: &Specimen, file: &[u8]) -> Self {
        let suffix = match specimen.stock {
            "zstd -dcq" => "zst",
            "lz4 -dcq" => "lz4",
            "pigz -dcq" => "zz",
            _ => "gz",
        };
        let folder = tempfile::tempdir().unwrap();
        let (packed, content) = (folder.path().join(format!("x.{suffix}")), folder.path().join("x"));
        fs::write(&packed, file).unwrap();
        Self { folder, packed, content, with: specimen.with.clone() }
    }

    /// Runs `tamp` with these arguments and the file's name.
    fn tamp(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tamp"));
        command
            .args(arguments)
            .args(&self.with.arguments)
            .arg(&self.packed)
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// Checks that `decompress_file` agrees with the reader, or refuses.
    fn check_file(&self, found: &Read1, threads: usize) -> Result<(), String> {
        if self.with.reference.is_some() {
            return Ok(());
        }
        let input = File::open(&self.packed).unwrap();
        match decompressed_file(&input, &self.with.options(threads)) {
            Ok(None) => Ok(()),
            Ok(Some(written)) => {
                let is_same = found.is_whole && !found.has_garbage && written == found.content;
                is_same.then_some(()).ok_or_else(|| "decompress_file and the reader differ".into())
            }
            Err(error) => Err(format!("decompress_file fails: {error}")),
        }
    }

    /// Checks that the command exits like the reader, and keeps the file unless all content was written.
    fn check_command(&self, file: &[u8], found: &Read1, salvaged: i32) -> Result<(), String> {
        let expected = |unfinished| match found {
            Read1 { is_whole: true, has_garbage: false, .. } => 0,
            Read1 { is_whole: true, .. } => 2,
            _ if found.is_unfinished => unfinished,
            _ => 1,
        };
        let is_there = || fs::read(&self.packed).is_ok_and(|found| found == file);
        for (arguments, code) in [
            (&["-q", "-t"][..], expected(1)),
            (&["-q", "--salvage", "-f"], salvaged),
            (&["-q", "-d", "-f", "--no-sync"], expected(2)),
        ] {
            let _ = fs::remove_file(&self.content);
            let output = self.tamp(arguments);
            let said = String::from_utf8_lossy(&output.stderr);
            let is_decompressed = arguments.contains(&"-d") && output.status.code() == Some(0);
            if is_there() == is_decompressed {
                return Err(format!("{arguments:?}: the input is there: {}: {said}", is_there()));
            }
            if output.status.code() != Some(code) {
                return Err(format!("{arguments:?}: {}, not {code}: {said}", output.status));
            }
            if arguments.contains(&"-d") {
                let written = fs::read(&self.content).ok();
                let wanted = (code != 1).then_some(&found.content);
                if written.as_ref() != wanted {
                    return Err(format!("{arguments:?}: other content than the reader's: {said}"));
                }
            }
        }
        Ok(())
    }

    fn check_range(&self, truth: &Truth<'_>, random: &mut Random) -> Result<(), String> {
        let at = random.below(truth.bytes.len());
        let output = self.tamp(&["-qc", "--range", &format!("{at}:{}", at + 500)]);
        if truth.allows(at, &output.stdout) {
            Ok(())
        } else {
            Err(format!("--range yields other bytes from {at}"))
        }
    }
}

/// Checks that the reader and salvage agree, and that a loss is reported for every wrong byte.
fn check_salvage(
    specimen: &Specimen,
    content: &[u8],
    one: &Read1,
    output: &[u8],
    salvaged: &Result<Vec<Loss>, Error>,
    counts: &mut Counts,
) -> Result<(), String> {
    let is_told = !matches!(salvaged, Ok(losses) if losses.is_empty());
    counts.tried += 1;
    if one.is_whole && !one.has_garbage {
        if is_told {
            return Err(format!("whole to the reader, not to salvage: {salvaged:?}"));
        }
        if output != one.content {
            return Err("salvage of what is whole differs".into());
        }
        if output == content {
            counts.unchanged += 1;
        } else if specimen.is_proven {
            return Err("wrong without a word".into());
        } else {
            counts.undetectable += 1;
        }
    } else if is_told {
        counts.told += 1;
    } else {
        return Err("not whole, and salvage tells no loss".into());
    }
    if let Ok(losses) = salvaged
        && is_told
        && specimen.is_proven
        && !is_content_outside(content, output, losses)
    {
        return Err(format!("wrong outside of the losses: {losses:?}"));
    }
    Ok(())
}

fn check(specimen: &Specimen, content: &[u8], seed: u64, counts: &mut Counts) -> Result<(), String> {
    let mut random = Random(seed);
    let mut file = specimen.file.clone();
    let how = mutate(&mut file, &mut random);
    let fail = |what: &str| Err(format!("TAMP_MUTATION={seed}: {}, {how}: {what}", specimen.name));
    let with = &specimen.with;
    let one = read(&file, with, 1);
    if seed.is_multiple_of(4) {
        let three = read(&file, with, 3);
        if one.is_whole != three.is_whole {
            return fail("one thread and three disagree on whether it is whole");
        }
        if one.is_whole && one.content != three.content {
            return fail("one thread and three read differently");
        }
    }
    let mut output = Vec::new();
    let salvaged = with.salvage(Cursor::new(&file), &mut output);
    let is_told = !matches!(&salvaged, Ok(losses) if losses.is_empty());
    check_salvage(specimen, content, &one, &output, &salvaged, counts).or_else(|what| fail(&what))?;
    let truth = Truth::new(specimen, content, &one);
    let place = Place::new(specimen, &file);
    let is_seekable =
        check_access(&file, with, &truth, &mut random).or_else(|what| fail(&what).map(|()| false))?;
    counts.seekable += u32::from(is_seekable);
    if is_seekable {
        place.check_range(&truth, &mut random).or_else(|what| fail(&what))?;
    }
    place.check_file(&one, 1 + usize::from(seed.is_multiple_of(2))).or_else(|what| fail(&what))?;
    let salvage_code = match &salvaged {
        Ok(losses) if losses.is_empty() => 0,
        Ok(losses) if losses.iter().all(|loss| loss.what == Lost::Trailing) => 2,
        _ => 1,
    };
    if one.has_garbage && one.is_whole && salvage_code == 0 {
        return fail("the reader ignores garbage, and salvage does not report it");
    }
    place.check_command(&file, &one, salvage_code).or_else(|what| fail(&what))?;
    let stock = with.filter(specimen.stock, &file);
    let (ours, theirs) = (common(content, &output), common(content, &stock));
    let by_chance = if specimen.stock == "gzip -dcq" { BY_CHANCE } else { 0 };
    if ours < theirs && specimen.stock == "zstd -dcq" && is_refused(&file, with, ours, theirs, &stock) {
        println!(
            "refused: TAMP_MUTATION={seed}: {}, {how}: {ours} bytes, {}: {theirs}",
            specimen.name, specimen.stock
        );
        counts.refused += 1;
    } else if ours + by_chance < theirs {
        return fail(&format!(
            "{} of {} bytes, {}: {theirs}: {salvaged:?}",
            ours,
            content.len(),
            specimen.stock
        ));
    }
    let right = |output: &[u8]| content.iter().zip(output).filter(|(a, b)| a == b).count();
    counts.better_than_stock += u32::from(is_told && right(&output) > right(&stock) + 1000);
    Ok(())
}

#[test]
fn a_damaged_file_is_never_wrong_without_a_word() {
    let content = content();
    let specimens = specimens(&content);
    for specimen in &specimens {
        let found = read(&specimen.file, &specimen.with, 1);
        assert!(found.is_whole && found.content == content, "{}", specimen.name);
        let mut output = Vec::new();
        let losses = specimen.with.salvage(Cursor::new(&specimen.file), &mut output).unwrap();
        assert!(losses.is_empty() && output == content, "{}: {losses:?}", specimen.name);
    }
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let first = number("TAMP_MUTATION");
    let tried = number("TAMP_MUTATIONS").unwrap_or(if first.is_some() { 1 } else { 200 });
    let seeds = first.unwrap_or(0)..first.unwrap_or(0) + tried;
    let mut counts: BTreeMap<&str, Counts> = BTreeMap::new();
    let mut failures = Vec::new();
    for seed in seeds {
        let specimen = &specimens[usize::try_from(seed).unwrap() % specimens.len()];
        let counts = counts.entry(specimen.name).or_default();
        failures.extend(check(specimen, &content, seed, counts).err());
    }
    println!(
        "file                                tried unchanged  told undetectable better-than-stock seekable refused"
    );
    for (name, counts) in &counts {
        let Counts { tried, unchanged, told, undetectable, better_than_stock, seekable, refused } = counts;
        println!(
            "{name:34} {tried:>6} {unchanged:>9} {told:>5} {undetectable:>12} {better_than_stock:>17} {seekable:>8} {refused:>7}"
        );
    }
    let sum = |count: fn(&Counts) -> u32| counts.values().map(count).sum::<u32>();
    assert!(sum(|counts| counts.refused) <= 2 + sum(|counts| counts.tried) / 500);
    assert!(
        failures.is_empty(),
        "{} failures:\n{}",
        failures.len(),
        failures[..failures.len().min(40)].join("\n")
    );
}
