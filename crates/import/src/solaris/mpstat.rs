//! mpstat of Solaris and illumos: one row for each CPU (with `-a`, each processor set), one block for each
//! sample.
//!
//! The tool prints whole numbers, so every result carries their rounding error; [`Aggregate`] holds the
//! bound. The first block averages since boot, and so does a block after a change of the CPUs: both are
//! marked.
//!
//! # Source
//!
//! illumos-gate, `usr/src/cmd/stat/mpstat/mpstat.c`; mpstat(8).

mod parser;
mod row;

use std::io;

pub use self::parser::read;
use crate::error::Note;
use crate::when::When;

/// Columns that every form of the table has, in the order printed.
pub const COLUMNS: [&str; 15] = [
    "minf", "mjf", "xcal", "intr", "ithr", "csw", "icsw", "migr", "smtx", "srw", "syscl", "usr", "sys", "wt",
    "idl",
];

/// Index of the first column that is a share of time in percent. The columns before it are events per second.
pub const FIRST_PERCENTAGE: usize = 11;

/// More CPUs than any machine that ran these tools.
const CPUS_MAX: usize = 1 << 16;

/// Maximum deviation from 100 % of the sum of four shares, each rounded or truncated to a whole number.
const SHARES_OFF_MAX: u64 = 4;
/// More events than a CPU can count in a second.
const EVENTS_PER_S_MAX: u64 = 10_000_000_000;

const WT: usize = 13;
const IDL: usize = 14;

/// One block of the table: all CPUs over one interval.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Line of its first row.
    pub line: u64,
    /// Last date at or before its first row.
    pub at: Option<When>,
    /// Reason that the block averages since boot. `None` if it covers an interval.
    pub since_boot: Option<SinceBoot>,
    /// Whether the input ended inside this block, so rows of some CPUs are missing.
    pub cut: bool,
    /// Whether this sample replaces the previous one and adds rows that came after a pause.
    pub replaces_previous: bool,
    /// Columns that the header names.
    pub columns: Columns,
    /// One row for each CPU or processor set, as printed.
    pub rows: Vec<Row>,
}

/// Reason that a block averages since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SinceBoot {
    /// The block is the first.
    First,
    /// A line such as `<<processors added: 3>>` precedes the block.
    Changed,
    /// The CPUs differ from those of the previous block (`-q` hides the line that reports it).
    OtherCpus,
}

/// A set of [`COLUMNS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Columns(u16);

impl Columns {
    /// Whether `column` is in the set.
    pub fn has(self, column: usize) -> bool {
        self.0 & 1 << column != 0
    }
}

/// Kind of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// One CPU.
    Cpu,
    /// A processor set: rates are sums over its CPUs, percentages are means (`mpstat -a`).
    Set,
}

/// One row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// Line number, from 1.
    pub line: u64,
    /// Whether `id` is the number of a CPU or of a set.
    pub subject: Subject,
    /// Number of the CPU or the set.
    pub id: u32,
    /// Processor set of the CPU (`-p`), -1 if it belongs to no set.
    pub set: Option<i32>,
    /// Number of CPUs that the row covers: 1, or the size of the set.
    pub cpus: u32,
    /// Values of [`COLUMNS`]; 0 if the header does not name the column.
    pub values: [u64; COLUMNS.len()],
}

/// Result of the parser.
#[derive(Debug)]
pub enum Event<'a> {
    /// A complete block.
    Sample(&'a Sample),
    /// A remark for the reader.
    Note(Note),
}

/// Receiver of the results. An error that it returns ends the import.
pub type Sink<'s> = dyn FnMut(Event<'_>) -> io::Result<()> + 's;

/// Method that combines the rates of CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rates {
    /// Divided by the number of CPUs, like every other column.
    Mean,
    /// Summed over the CPUs, as `mpstat -a` does.
    Sum,
}

/// A block as one row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aggregate {
    /// Number of CPUs that it covers.
    pub cpus: u32,
    /// Values of [`COLUMNS`]; `None` if the log does not have the column.
    pub values: [Option<f64>; COLUMNS.len()],
    /// Maximum error of each value that follows from the rounding to whole numbers.
    pub errors: [f64; COLUMNS.len()],
}

/// Aggregates `rows` of a block with the columns `columns`.
///
/// The sums are exact; only the division rounds, in the 16th digit.
pub fn aggregate<'r>(rows: impl Iterator<Item = &'r Row>, columns: Columns, rates: Rates) -> Aggregate {
    let (mut cpus, mut count) = (0u32, 0u32);
    let mut sums = [0u128; COLUMNS.len()];
    for row in rows {
        cpus = cpus.saturating_add(row.cpus);
        count += 1;
        for (column, (sum, &value)) in sums.iter_mut().zip(&row.values).enumerate() {
            // The percentage of a set is already a mean over its CPUs; its rates are sums.
            let weight = if column >= FIRST_PERCENTAGE { row.cpus } else { 1 };
            *sum += u128::from(value) * u128::from(weight);
        }
    }
    let mut values = [None; COLUMNS.len()];
    let mut errors = [0.0; COLUMNS.len()];
    for (column, sum) in sums.into_iter().enumerate() {
        let is_share = column >= FIRST_PERCENTAGE;
        let error = 0.5 * if is_share { f64::from(cpus) } else { f64::from(count) };
        let divisor = if rates == Rates::Sum && !is_share { 1.0 } else { f64::from(cpus.max(1)) };
        values[column] = columns.has(column).then_some(sum as f64 / divisor);
        errors[column] = error / divisor;
    }
    Aggregate { cpus, values, errors }
}

impl Sample {
    /// Returns the whole block as one row.
    pub fn aggregate(&self, rates: Rates) -> Aggregate {
        aggregate(self.rows.iter(), self.columns, rates)
    }

    /// Returns the values that no CPU can have, each with its line.
    ///
    /// These are a share over 100 %, shares with a sum that rounding cannot explain, and more events than a
    /// CPU can count.
    pub fn impossible(&self) -> Vec<Note> {
        let of_row = |row: &Row| Some(Note { line: row.line, text: row.impossible(self.columns)? });
        self.rows.iter().filter_map(of_row).collect()
    }

    /// Returns the rows that were busy (neither idle nor waiting) for at least `least_pct` of the interval.
    ///
    /// Empty if the log has no idle column.
    pub fn saturated(&self, least_pct: f64) -> impl Iterator<Item = &Row> {
        let known = self.columns.has(IDL);
        self.rows.iter().filter(move |row| known && row.busy_pct() as f64 >= least_pct)
    }
}

impl Row {
    /// Describes a value of this row that cannot be true.
    fn impossible(&self, columns: Columns) -> Option<String> {
        let what = if self.subject == Subject::Cpu { "CPU" } else { "set" };
        let named =
            |column: usize| format!("{} of {what} {} is {}", COLUMNS[column], self.id, self.values[column]);
        let shares = FIRST_PERCENTAGE..COLUMNS.len();
        if let Some(column) = shares.clone().find(|column| self.values[*column] > 100) {
            return Some(format!("{}: a share of time cannot exceed 100 %", named(column)));
        }
        let most = EVENTS_PER_S_MAX.saturating_mul(self.cpus.into());
        if let Some(column) = (0..FIRST_PERCENTAGE).find(|column| self.values[*column] > most) {
            return Some(format!("{}: too many events per second for a CPU", named(column)));
        }
        let sum: u64 = shares.clone().map(|column| self.values[column]).sum();
        // A CPU that was offline for the whole interval has 0 in all columns.
        let is_on = sum > 0 || self.values[..FIRST_PERCENTAGE].iter().any(|events| *events > 0);
        let is_whole = shares.into_iter().all(|column| columns.has(column)) && is_on;
        // Each share was rounded to a whole number.
        let text = || format!("usr, sys, wt and idl of {what} {} sum to {sum} %", self.id);
        (is_whole && !(100 - SHARES_OFF_MAX..=100 + SHARES_OFF_MAX).contains(&sum)).then(text)
    }

    /// Returns the share of time that was neither idle nor waiting for I/O, in percent.
    pub fn busy_pct(&self) -> u64 {
        100u64.saturating_sub(self.values[IDL]).saturating_sub(self.values[WT])
    }
}

#[cfg(test)]
mod tests {
    use super::parser::Parser;
    use super::*;
    use crate::lines::{Input, Line, LineParser as _};

    #[test]
    fn what_no_cpu_can_have_is_named_with_its_line() {
        let header = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n";
        let row = |csw: u64, shares: [u64; 4]| {
            let [usr, sys, wt, idl] = shares;
            format!(
                "  3    0   0    0     0    0 {csw}    0    0    0    0     0   {usr}  {sys}   {wt} {idl}\n"
            )
        };
        for (csw, shares, said) in [
            (5, [10, 20, 0, 70], None),
            (5, [10, 20, 1, 71], None),
            (0, [0, 0, 0, 0], None),
            (5, [0, 0, 0, 0], Some("2: usr, sys, wt and idl of CPU 3 sum to 0 %")),
            (5, [0, 0, 0, 7000], Some("2: idl of CPU 3 is 7000: a share of time cannot exceed 100 %")),
            (5, [70, 70, 30, 70], Some("2: usr, sys, wt and idl of CPU 3 sum to 240 %")),
            (5, [100, 0, 0, 100], Some("2: usr, sys, wt and idl of CPU 3 sum to 200 %")),
            (
                50_000_000_000_000,
                [10, 20, 0, 70],
                Some("2: csw of CPU 3 is 50000000000000: too many events per second for a CPU"),
            ),
        ] {
            let text = header.to_owned() + &row(csw, shares);
            let found: Vec<String> = samples(&text)[0].impossible().iter().map(ToString::to_string).collect();
            assert_eq!(found.first().map(String::as_str), said);
        }
    }

    #[test]
    fn what_no_cpu_can_have_is_named_with_its_line_among_lines_that_are_no_rows() {
        let bad = row(1, 1, 0).replace(" 100\n", " 7000\n");
        let text = HEADER.to_owned() + &row(0, 1, 0) + "\nlogin: root\n" + &bad;
        let found: Vec<u64> = samples(&text)[0].impossible().iter().map(|note| note.line).collect();
        assert_eq!(found, [5], "{text}");
    }

    #[test]
    fn another_order_of_the_same_cpus_is_no_change_of_them() {
        let header = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n";
        let row = |cpu: u32| {
            format!("  {cpu}    0   0    0     0    0   5    0    0    0    0     0   10  20   0 70\n")
        };
        let block = |cpus: &[u32]| header.to_owned() + &cpus.iter().map(|cpu| row(*cpu)).collect::<String>();
        let all = samples(&(block(&[0, 1, 2]) + &block(&[2, 0, 1]) + &block(&[2, 0, 3])));
        let marks: Vec<Option<SinceBoot>> = all.iter().map(|sample| sample.since_boot).collect();
        assert_eq!(marks, [Some(SinceBoot::First), None, Some(SinceBoot::OtherCpus)]);
    }

    fn samples(text: &str) -> Vec<Sample> {
        let mut all = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |event| {
            if let Event::Sample(sample) = event {
                all.push(sample.clone());
            }
            Ok(())
        })
        .unwrap();
        all
    }

    fn error(text: &str) -> String {
        read(Input::Whole(Box::new(text.as_bytes())), &mut |_| Ok(())).unwrap_err().to_string()
    }

    const HEADER: &str = "CPU minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl\n";

    fn row(cpu: u32, intr: u32, usr: u32) -> String {
        format!(
            "{cpu:3}    7   0    0 {intr:5}  100    1    0    0    0    0     5  {usr:3}   0   0 {:3}\n",
            100 - usr
        )
    }

    #[test]
    fn four_cpus_give_their_mean_to_the_last_digit() {
        let text: String =
            [100, 114, 120, 123].iter().zip(0..).map(|(&intr, cpu)| row(cpu, intr, 0)).collect();
        let one = samples(&(HEADER.to_string() + &text))[0].aggregate(Rates::Mean);
        assert_eq!(one.cpus, 4);
        assert_eq!((one.values[3], one.values[0]), (Some(114.25), Some(7.0)));
        assert_eq!((one.errors[3], one.errors[14]), (0.5, 0.5));
        let sum = samples(&(HEADER.to_string() + &text))[0].aggregate(Rates::Sum);
        assert_eq!((sum.values[3], sum.values[14]), (Some(457.0), Some(100.0)));
        assert_eq!((sum.errors[3], sum.errors[14]), (2.0, 0.5));
    }

    #[test]
    fn a_repeated_cpu_begins_a_block_where_the_header_stays_away() {
        let text = HEADER.to_string() + &row(0, 1, 0) + &row(0, 2, 0) + &row(0, 3, 0);
        let all = samples(&text);
        assert_eq!(all.iter().map(|s| s.rows[0].values[3]).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(
            all.iter().map(|s| s.since_boot).collect::<Vec<_>>(),
            [Some(SinceBoot::First), None, None]
        );
    }

    #[test]
    fn a_block_after_a_change_averages_since_boot_again() {
        let block = |n: u32| HEADER.to_string() + &(0..n).map(|cpu| row(cpu, 1, 0)).collect::<String>();
        let marks = |text: String| samples(&text).iter().map(|s| s.since_boot).collect::<Vec<_>>();
        let first = Some(SinceBoot::First);
        assert_eq!(
            marks(block(2) + &block(2) + "<<processors added: 2>>\n" + &block(3) + &block(3)),
            [first, None, Some(SinceBoot::Changed), None]
        );
        assert_eq!(
            marks(block(2) + &block(2) + &block(3) + &block(3)),
            [first, None, Some(SinceBoot::OtherCpus), None]
        );
    }

    #[test]
    fn a_block_that_the_end_cuts_is_marked_as_cut() {
        let text = HEADER.to_string() + &row(0, 1, 0) + &row(1, 1, 0) + HEADER + &row(0, 1, 0);
        let all = samples(&text);
        assert_eq!((all[1].cut, all[1].since_boot), (true, None));
    }

    #[test]
    fn a_full_cpu_is_found_whatever_the_mean_says() {
        let text: String = (0..256).map(|cpu| row(cpu, 1, if cpu == 200 { 100 } else { 0 })).collect();
        let all = samples(&(HEADER.to_string() + &text));
        assert_eq!(all[0].saturated(99.0).map(|row| row.id).collect::<Vec<_>>(), [200]);
        assert_eq!(all[0].aggregate(Rates::Mean).values[11], Some(100.0 / 256.0));
    }

    #[test]
    fn sets_weigh_as_many_cpus_as_they_have() {
        let text = "SET minf mjf xcal  intr ithr  csw icsw migr smtx  srw syscl  usr sys  wt idl sze\n\
                    \x20 0   30   0    0     0    0    0    0    0    0    0     0   40   0   0  60   3\n\
                    \x20 1   10   0    0     0    0    0    0    0    0    0     0    0   0   0 100   1\n";
        let one = samples(text)[0].aggregate(Rates::Mean);
        assert_eq!((one.cpus, one.values[0], one.values[11]), (4, Some(10.0), Some(30.0)));
        assert_eq!(samples(text)[0].aggregate(Rates::Sum).values[0], Some(40.0));
    }

    #[test]
    fn a_pause_hands_on_what_is_there_and_a_late_row_hands_it_on_again() {
        let mut seen = Vec::new();
        let mut sink = |event: Event<'_>| {
            if let Event::Sample(s) = event {
                seen.push((s.rows.len(), s.replaces_previous, s.since_boot));
            }
            Ok(())
        };
        let mut parser = Parser::new(&mut sink);
        let mut number = 0;
        let mut tell = |parser: &mut Parser<'_, '_>, text: &str| {
            for line in text.lines() {
                number += 1;
                parser.line(Line { number, bytes: line.as_bytes(), ended: true }).unwrap();
            }
        };
        tell(&mut parser, &(HEADER.to_string() + &row(0, 1, 0)));
        parser.pause().unwrap();
        parser.pause().unwrap();
        tell(&mut parser, &row(1, 1, 0));
        parser.pause().unwrap();
        tell(&mut parser, &(HEADER.to_string() + &row(0, 1, 0) + &row(1, 1, 0)));
        parser.end(5).unwrap();
        let first = Some(SinceBoot::First);
        assert_eq!(seen, [(1, false, first), (2, true, first), (2, false, None)]);
    }

    #[test]
    fn a_pause_amid_a_later_block_waits_for_its_other_rows() {
        let block = |rows: u32| HEADER.to_string() + &(0..rows).map(|cpu| row(cpu, 1, 0)).collect::<String>();
        let seen = |pieces: [String; 3]| {
            let mut seen = Vec::new();
            let mut sink = |event: Event<'_>| {
                if let Event::Sample(s) = event {
                    seen.push((s.rows.len(), s.replaces_previous, s.cut, s.since_boot));
                }
                Ok(())
            };
            let mut parser = Parser::new(&mut sink);
            let mut number = 0;
            for piece in pieces {
                for line in piece.lines() {
                    number += 1;
                    parser.line(Line { number, bytes: line.as_bytes(), ended: true }).unwrap();
                }
                parser.pause().unwrap();
            }
            parser.end(number).unwrap();
            seen
        };
        let (first, other) = (Some(SinceBoot::First), Some(SinceBoot::OtherCpus));
        assert_eq!(
            seen([block(2), block(1), row(1, 1, 0)]),
            [(2, false, false, first), (2, false, false, None)]
        );
        assert_eq!(
            seen([block(2), block(1), String::new()]),
            [(2, false, false, first), (1, false, true, None)],
            "the end comes instead"
        );
        assert_eq!(
            seen([block(1), block(1), row(1, 1, 0)]),
            [(1, false, false, first), (1, false, false, None), (2, true, false, other)],
            "a CPU more than before"
        );
    }

    #[test]
    fn errors_name_the_line_the_column_and_what_was_expected() {
        let one = HEADER.to_string() + &row(0, 1, 0);
        for (text, expected) in [
            (
                String::new(),
                "1:1: found the end of the input, expected mpstat's header, `CPU minf mjf xcal  intr ...`",
            ),
            (HEADER.to_string(), "2:1: found the end of the input, expected a row below the header"),
            (row(0, 1, 0), "1:3: found `0`, expected a header (`CPU minf mjf ...`) before the first row"),
            (one.clone() + "  1    7   x", "3:12: found `x`, expected a whole number in column `mjf`"),
            (
                one.clone() + "  1    7   0",
                "3:13: found the end of the line, expected a number in column `xcal`",
            ),
            (
                one.clone() + &row(1, 1, 0) + &row(1, 1, 0),
                "4:3: found CPU 1 twice in one block, expected each once, and a header before each block",
            ),
            (
                one.clone() + row(1, 1, 0).trim_end() + " 5\n",
                "3:78: found `5`, expected the end of the line: the header has no more columns",
            ),
            (
                one.clone() + "  1 99999999999999999999 1",
                "3:5: found `99999999999999999999`, expected a whole number in column `minf`",
            ),
            (one.clone() + "99999 1", "3:1: found `99999`, expected the number of a CPU or set, below 65536"),
            (
                one.clone() + row(1, 1, 0).trim_end().trim_end_matches('0'),
                "3:75: found the end of the line, expected percentages that sum to 100 (these sum to 1): the line is truncated",
            ),
            (
                "CPU usr eff\n".into(),
                "1:9: found `eff`, expected a column of CPU time: clock rates (`mpstat -f`) are not \
                 supported",
            ),
            (
                "SET usr\n".into(),
                "1:8: found the end of the line, expected the column `sze`: without it sets cannot be averaged",
            ),
        ] {
            assert_eq!(error(&text), expected, "{text}");
        }
        assert!(error("Linux 6.1 (vm)\n").contains("a tool of sysstat (Linux)"));
        assert!(
            error("\nAdaptive mutex spin: 7 events in 1.000 seconds (7 events/sec)\n")
                .contains("import lockstat")
        );
    }

    #[test]
    fn rows_before_the_first_header_are_told_and_the_block_behind_is_no_block_since_boot() {
        let text = row(1, 1, 0) + HEADER + &row(0, 1, 0);
        let mut notes = Vec::new();
        let mut marks = Vec::new();
        read(Input::Whole(Box::new(text.as_bytes())), &mut |event| {
            match event {
                Event::Note(note) => notes.push(note.to_string()),
                Event::Sample(sample) => marks.push(sample.since_boot),
            }
            Ok(())
        })
        .unwrap();
        assert_eq!(notes, ["2: 1 rows before the first header left out: their columns are unknown"]);
        assert_eq!(marks, [None]);
    }
}
