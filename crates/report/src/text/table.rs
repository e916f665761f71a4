//! A table that drops its least important columns before it breaks a line.

use std::borrow::Cow;
use std::io::{self, Write};

use record::printable::printable;

use super::{Style, Tint, tinted};

/// Blanks between columns.
const GAP: usize = 2;
/// Least width of a column of words that shrinks.
const WORDS_MIN: usize = 12;

/// Alignment of a column's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Align {
    /// Numbers.
    Right,
    /// Words that are not cut while a column can still be dropped.
    Left,
    /// Words that are cut first.
    Elastic,
}

#[derive(Debug)]
struct Column {
    head: String,
    align: Align,
    /// Rank for dropping: 0 is never dropped, the highest goes first.
    expendable: u8,
}

/// Rows under heads.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<(String, Option<Tint>)>>,
}

impl Table {
    /// Adds a column; `expendable` 0 is never dropped, the highest goes first.
    pub(crate) fn column(mut self, head: impl Into<String>, align: Align, expendable: u8) -> Self {
        let head = printable(&head.into()).into_owned();
        self.columns.push(Column { head, align, expendable });
        self
    }

    /// Adds a row: one text for each column.
    pub(crate) fn row(&mut self, cells: Vec<(String, Option<Tint>)>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell for each column");
        let written = |(text, tint): (String, Option<Tint>)| match printable(&text) {
            Cow::Owned(text) => (text, tint),
            Cow::Borrowed(_) => (text, tint),
        };
        self.rows.push(cells.into_iter().map(written).collect());
    }

    /// Writes heads and rows, each on one line of at most `style.width` columns.
    pub(crate) fn write(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let heads: Vec<(String, Option<Tint>)> =
            self.columns.iter().map(|c| (c.head.clone(), Some(Tint::Quiet))).collect();
        self.write_row(out, &heads, &self.widths(style.width), style)?;
        self.write_rows(out, style)
    }

    /// Writes the rows without heads.
    pub(crate) fn write_rows(&self, out: &mut dyn Write, style: Style) -> io::Result<()> {
        let widths = self.widths(style.width);
        self.rows.iter().try_for_each(|row| self.write_row(out, row, &widths, style))
    }

    /// Heads of the columns for which `width` columns have no room.
    pub(crate) fn dropped(&self, width: usize) -> Vec<&str> {
        let widths = self.widths(width);
        let dropped = self.columns.iter().zip(widths).filter(|(_, width)| *width == 0);
        dropped.map(|(column, _)| column.head.as_str()).collect()
    }

    /// Width of each column; 0 if it is dropped.
    fn widths(&self, available: usize) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| {
                self.rows.iter().map(|r| length(&r[i].0)).chain([length(&c.head)]).max().unwrap_or(0)
            })
            .collect();
        while total(&widths) > available {
            let shown = |i: &usize| widths[*i] > 0;
            let expendable = (0..widths.len())
                .filter(shown)
                .filter(|i| self.columns[*i].expendable > 0)
                .max_by_key(|i| self.columns[*i].expendable);
            let over = total(&widths) - available;
            let longest = |align: Align| {
                let of = (0..widths.len()).filter(shown).filter(|i| self.columns[*i].align == align);
                of.max_by_key(|i| widths[*i])
            };
            // Several columns of words share the loss: the longest shrinks to the length of the next.
            let shared = |i: usize| {
                let others =
                    (0..widths.len()).filter(|j| *j != i && self.columns[*j].align == Align::Elastic);
                let next = others.map(|j| widths[j]).max().unwrap_or(0).max(WORDS_MIN);
                over.min(widths[i].saturating_sub(next).max(1))
            };
            match (longest(Align::Elastic), expendable, longest(Align::Left)) {
                (Some(i), _, _) if widths[i] >= over + WORDS_MIN => widths[i] -= shared(i),
                (_, Some(i), _) => widths[i] = 0,
                (Some(i), None, _) if widths[i] > WORDS_MIN => widths[i] -= shared(i),
                (_, _, Some(i)) if widths[i] > WORDS_MIN => widths[i] -= over.min(widths[i] - WORDS_MIN),
                _ => break,
            }
        }
        widths
    }

    fn write_row(
        &self,
        out: &mut dyn Write,
        row: &[(String, Option<Tint>)],
        widths: &[usize],
        style: Style,
    ) -> io::Result<()> {
        let mut line = String::new();
        let shown = self.columns.iter().zip(row).zip(widths).filter(|(_, width)| **width > 0);
        for (i, ((column, (text, tint)), width)) in shown.enumerate() {
            let text = cut(text, *width);
            let pad = " ".repeat(width - length(&text));
            let text = tint.map_or_else(|| text.clone(), |tint| tinted(&text, tint, style));
            let gap = if i == 0 { "" } else { "  " };
            line += gap;
            line += &if column.align == Align::Right { pad + &text } else { text + &pad };
        }
        writeln!(out, "{}", line.trim_end())
    }
}

fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|w| **w > 0);
    shown.clone().sum::<usize>() + GAP * shown.count().saturating_sub(1)
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn cut(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::default()
            .column("cpu", Align::Right, 0)
            .column("switches/s", Align::Right, 2)
            .column("hottest thread", Align::Elastic, 1);
        table.row(vec![
            ("0".into(), None),
            ("1,234".into(), None),
            ("mariadbd/4711 of a long name".into(), None),
        ]);
        table
    }

    fn written(width: usize) -> String {
        let mut out = Vec::new();
        sample().write(&mut out, Style { width, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_cell_stays_on_its_line() {
        let mut table = sample();
        table.row(vec![("1".into(), None), ("2".into(), None), ("a\n\u{1b}[2Jb".into(), None)]);
        let mut out = Vec::new();
        table.write(&mut out, Style { width: 80, color: false }).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(text.contains(r"a\n\x1b[2Jb"), "{text}");
    }

    #[test]
    fn columns_of_words_of_one_length_are_cut_to_one_length() {
        let mut table = Table::default()
            .column("fact", Align::Elastic, 0)
            .column("a", Align::Elastic, 0)
            .column("b", Align::Elastic, 0);
        let long = "words that are far too long for this terminal";
        table.row(vec![("cpu".into(), None), (long.into(), None), (long.into(), None)]);
        let mut out = Vec::new();
        table.write(&mut out, Style { width: 70, color: false }).unwrap();
        let text = String::from_utf8(out).unwrap();
        let row = text.lines().nth(1).unwrap();
        assert_eq!(length(row), 70, "{text}");
        let cuts: Vec<usize> =
            row.split("  ").skip(1).map(str::trim).filter(|c| !c.is_empty()).map(length).collect();
        assert!(cuts.len() == 2 && cuts[0].abs_diff(cuts[1]) <= 1, "{text}");
    }

    #[test]
    fn every_line_fits_from_the_full_table_down_to_one_column() {
        for width in 3..80 {
            for line in written(width).lines() {
                assert!(length(line) <= width, "{width}: {line:?}");
            }
        }
        assert_eq!(written(12), "cpu\n  0\n");
        assert!(written(80).contains("switches/s") && written(80).contains("long name"));
        assert!(written(30).contains('…'));
    }
}
