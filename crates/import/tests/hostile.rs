//! Damaged input gives a table or an error with its place; it never panics and never loses a row silently.

mod read;

use bakeoff_import::vmstat_s::Clockwork;
use bakeoff_import::{ImportError, Place};
use proptest::prelude::*;
use proptest::sample::Index;
use read::{As, LOCKSTAT, MPSTAT, PLOCKSTAT, plocks, runs, samples, snapshots};
use std::sync::LazyLock;

/// All samples of all tools.
static SAMPLES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the samples are here")
        .flat_map(|tool| std::fs::read_dir(tool.expect("readable").path()).into_iter().flatten())
        .map(|file| file.expect("readable").path())
        .collect();
    files.sort();
    files
        .iter()
        .map(|file| std::fs::read(file).expect("readable"))
        .filter(|bytes| !bytes.is_empty())
        .collect()
});

/// Damage that happens to logs.
#[derive(Debug, Clone)]
enum Damage {
    Cut(Index),
    CutFront(Index),
    SwapLines(Index, Index),
    DropLine(Index),
    RepeatLine(Index),
    Widen(Index, u64),
    Blank(Index),
    Byte(Index, u8),
    Insert(Index, Vec<u8>),
    CarriageReturns,
    Append(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    let at = any::<Index>;
    prop_oneof![
        at().prop_map(Damage::Cut),
        at().prop_map(Damage::CutFront),
        (at(), at()).prop_map(|(a, b)| Damage::SwapLines(a, b)),
        at().prop_map(Damage::DropLine),
        at().prop_map(Damage::RepeatLine),
        (at(), any::<u64>()).prop_map(|(at, n)| Damage::Widen(at, n)),
        at().prop_map(Damage::Blank),
        (at(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        (at(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(at, bytes)| Damage::Insert(at, bytes)),
        Just(Damage::CarriageReturns),
        at().prop_map(Damage::Append),
    ]
}

fn apply(bytes: &mut Vec<u8>, damage: &Damage) {
    if bytes.is_empty() {
        return;
    }
    let mut lines: Vec<Vec<u8>> = bytes.split_inclusive(|&b| b == b'\n').map(<[u8]>::to_vec).collect();
    match damage {
        Damage::Cut(at) => return bytes.truncate(at.index(bytes.len())),
        Damage::CutFront(at) => return drop(bytes.drain(..at.index(bytes.len()))),
        Damage::SwapLines(a, b) => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        Damage::DropLine(at) => drop(lines.remove(at.index(lines.len()))),
        Damage::RepeatLine(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at].clone());
        }
        Damage::Widen(at, number) => {
            // Replaces the number at or after the place by one with any number of digits.
            let from = at.index(bytes.len());
            if let Some(begin) = bytes[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) {
                let digits = bytes[begin..].iter().take_while(|b| b.is_ascii_digit()).count();
                bytes.splice(begin..begin + digits, number.to_string().into_bytes());
            }
            return;
        }
        Damage::Blank(at) => return bytes.insert(at.index(bytes.len()), b' '),
        Damage::Byte(at, byte) => {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
            return;
        }
        Damage::Insert(at, more) => {
            let at = at.index(bytes.len());
            bytes.splice(at..at, more.iter().copied());
            return;
        }
        Damage::CarriageReturns => {
            for line in &mut lines {
                if line.pop_if(|last| *last == b'\n').is_some() {
                    line.extend(b"\r\n");
                }
            }
        }
        Damage::Append(other) => lines.push(SAMPLES[other.index(SAMPLES.len())].clone()),
    }
    *bytes = lines.concat();
}

/// Checks that an error is at a place that exists, or just after the end.
fn check_place(bytes: &[u8], end: &Result<(), ImportError>) {
    let place = match end {
        Err(ImportError::Unexpected { place, .. } | ImportError::OtherTool { place, .. }) => *place,
        Err(ImportError::Packed { .. }) => Place { line: 1, column: 1 },
        Err(other) => panic!("memory does not fail to be read: {other}"),
        Ok(()) => return,
    };
    let lines: Vec<&[u8]> = bytes.split(|&b| b == b'\n').collect();
    let at = usize::try_from(place.line).expect("a place in memory");
    assert!((1..=lines.len() + 1).contains(&at), "{place} of {} lines", lines.len());
    let length = lines.get(at - 1).map_or(0, |line| line.len());
    let column = usize::try_from(place.column).expect("a place in memory");
    assert!((1..=length + 4).contains(&column), "{place}, but the line has {length} bytes");
}

/// Returns the numbers of the lines that look like a row: they begin with two fields, and `second` accepts
/// the second.
fn rows(bytes: &[u8], second: impl Fn(&[u8]) -> bool) -> Vec<usize> {
    (1..)
        .zip(bytes.split(|&b| b == b'\n'))
        .filter(|(_, line)| {
            let mut fields =
                line.split(|&b| b == b' ' || b == b'\t' || b == b'\r').filter(|field| !field.is_empty());
            let digits = |field: &[u8]| field.iter().all(u8::is_ascii_digit);
            fields.next().is_some_and(digits) && fields.next().is_some_and(&second)
        })
        .map(|(number, _)| number)
        .collect()
}

/// Checks that each line that looks like a row was read as one, or that a note reports it as left out.
fn check_rows(tool: &str, read: usize, notes: &[String], rows: &[usize]) {
    let left_out =
        |row: &&usize| notes.iter().any(|note| note.starts_with(&format!("{row}: not {tool} output, ")));
    let told = rows.iter().filter(left_out).count();
    assert_eq!(read + told, rows.len(), "{tool} rows: {read} read, {told} told");
}

fn check(bytes: &[u8]) {
    let (all, notes, end) = samples(bytes);
    check_place(bytes, &end);
    // Dates before every line hide the rows from this simple count.
    if end.is_ok() && !bytes.windows(5).any(|w| w == b" 2008" || w == b"2008-") {
        let read: usize = all.iter().map(|sample| sample.rows.len()).sum();
        let orphans: usize = notes
            .iter()
            .filter_map(|note| {
                note.split_once(" rows before the first header")?.0.rsplit(' ').next()?.parse::<usize>().ok()
            })
            .sum();
        // Before the header, lines of other tools may also count as rows.
        let expected = rows(bytes, |second| second.iter().all(u8::is_ascii_digit)).len();
        assert!(read + orphans >= expected, "mpstat: {read} and {orphans} of {expected} rows");
    }
    let _ = read::show_mpstat(bytes, As::Json, MPSTAT);

    let (all, notes, end) = runs(bytes);
    check_place(bytes, &end);
    if end.is_ok() && !notes.iter().any(|note| note.contains("profiling interrupts")) {
        let tables = all.iter().filter(|run| run.form == bakeoff_import::solaris::lockstat::Form::Tables);
        let read: usize = tables.flat_map(|run| &run.sections).map(|section| section.locks.len()).sum();
        check_rows("lockstat", read, &notes, &rows(bytes, |second| second.ends_with(b"%")));
    }
    let _ = read::show_lockstat(bytes, As::Text, read::by_kind());
    let _ = read::show_lockstat(bytes, As::Json, LOCKSTAT);

    let (log, notes, end) = plocks(bytes);
    check_place(bytes, &end);
    if end.is_ok() {
        let read: usize = log.sections.iter().map(|section| section.locks.len()).sum();
        check_rows("plockstat", read, &notes, &rows(bytes, |second| second.iter().all(u8::is_ascii_digit)));
    }
    let _ = read::show_plockstat(bytes, As::Text, PLOCKSTAT);

    let (all, _, end) = snapshots(bytes);
    check_place(bytes, &end);
    if end.is_ok() {
        let read: usize = all.iter().map(|snapshot| snapshot.counters.len()).sum();
        assert!(read >= rows(bytes, |second| second.starts_with(b"cpu")).len(), "vmstat rows");
    }
    let _ = read::show_vmstat(bytes, As::Json, Clockwork { hz: 100.0, cpus: Some(1), elapsed_s: Some(1.0) });
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_sample_gives_a_table_or_a_place(sample in any::<Index>(), damages in prop::collection::vec(damage(), 1..6)) {
        let mut bytes = SAMPLES[sample.index(SAMPLES.len())].clone();
        for damage in &damages {
            apply(&mut bytes, damage);
        }
        check(&bytes);
    }

    #[test]
    fn random_bytes_give_a_table_or_a_place(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }
}

#[test]
fn every_sample_cut_at_every_byte_gives_a_table_or_a_place() {
    for sample in SAMPLES.iter().filter(|sample| sample.len() < 1500) {
        for length in 0..sample.len() {
            check(&sample[..length]);
        }
    }
}

#[test]
fn a_last_number_without_a_line_end_is_not_taken_for_whole() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/lockstat/solaris-10-p.txt");
    let whole = std::fs::read(path).expect("the sample is here");
    let rows = |bytes: &[u8]| -> usize {
        runs(bytes).0.iter().flat_map(|run| &run.sections).map(|section| section.locks.len()).sum()
    };
    let cut = &whole[..whole.len() - 2];
    assert_eq!(rows(cut) + 1, rows(&whole));
    let (_, notes, _) = runs(cut);
    assert!(notes.iter().any(|note| note.contains("its last number may be cut: left out")), "{notes:?}");
}
