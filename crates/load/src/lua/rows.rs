//! The answers of a statement, as the server sent them; values are decoded when a script fetches them.
//!
//! The buffers are reused: nothing is allocated once they have the size of the largest answer.

/// All result sets of one answer.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    bytes: Vec<u8>,
    /// Start of each row in `bytes`; a row ends where the next begins.
    starts: Vec<usize>,
    sets: Vec<ResultSet>,
    /// Types of columns, as the protocol names them, and whether they are unsigned.
    kinds: Vec<(u8, bool)>,
    /// Whether the set that was begun last may get more rows.
    is_open: bool,
    /// Index of the current set.
    current: usize,
    /// Rows of the current set that were fetched.
    fetched: usize,
}

/// One result set: rows, or the number of rows that a statement changed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ResultSet {
    pub(crate) has_rows: bool,
    pub(crate) fields: usize,
    pub(crate) rows: usize,
    pub(crate) affected: u64,
    first_row: usize,
    first_kind: usize,
}

/// A row to decode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRow<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) fields: usize,
    /// Types of the columns; empty if the values are text.
    pub(crate) kinds: &'a [(u8, bool)],
}

impl Rows {
    /// Forgets the last answer.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.starts.clear();
        self.sets.clear();
        self.kinds.clear();
        (self.current, self.fetched, self.is_open) = (0, 0, false);
    }

    /// Begins a set of rows with so many fields.
    pub(crate) fn begin_set(&mut self, fields: usize) {
        let (first_row, first_kind) = (self.starts.len(), self.kinds.len());
        self.sets.push(ResultSet { has_rows: true, fields, rows: 0, affected: 0, first_row, first_kind });
        self.is_open = true;
    }

    /// Adds the type of the next column of the set that was begun last.
    pub(crate) fn push_kind(&mut self, kind: u8, is_unsigned: bool) {
        self.kinds.push((kind, is_unsigned));
    }

    /// Adds a row.
    pub(crate) fn push_row(&mut self, payload: &[u8]) {
        self.starts.push(self.bytes.len());
        self.bytes.extend_from_slice(payload);
        if let Some(set) = self.sets.last_mut() {
            set.rows += 1;
        }
    }

    /// Bytes of the largest buffer. The limit of an answer holds for each: a server may send rows without
    /// values, and sets without rows, without end.
    pub(crate) fn stored_bytes(&self) -> usize {
        let [bytes, starts] = [self.bytes.len(), size_of_val(&*self.starts)];
        bytes.max(starts).max(size_of_val(&*self.sets)).max(size_of_val(&*self.kinds))
    }

    /// Adds a set without rows.
    pub(crate) fn push_done(&mut self, affected: u64) {
        let (first_row, first_kind) = (self.starts.len(), self.kinds.len());
        self.sets.push(ResultSet { affected, first_row, first_kind, ..ResultSet::default() });
    }

    /// Ends a set of rows; false if all have ended.
    pub(crate) fn close_set(&mut self) -> bool {
        std::mem::take(&mut self.is_open)
    }

    /// The current set; `None` if the answer has no set.
    pub(crate) fn set(&self) -> Option<ResultSet> {
        self.sets.get(self.current).copied()
    }

    /// Whether another set follows the current one.
    pub(crate) fn has_more(&self) -> bool {
        self.current + 1 < self.sets.len()
    }

    /// Moves to the next set; `None` after the last.
    pub(crate) fn next_set(&mut self) -> Option<ResultSet> {
        self.current += 1;
        self.fetched = 0;
        self.set()
    }

    /// Moves to the last set.
    pub(crate) fn last_set(&mut self) {
        self.current = self.sets.len().saturating_sub(1);
    }

    /// The next row of the current set.
    pub(crate) fn fetch(&mut self) -> Option<RawRow<'_>> {
        let set = self.set().filter(|set| self.fetched < set.rows)?;
        let row = set.first_row + self.fetched;
        self.fetched += 1;
        let end = self.starts.get(row + 1).copied().unwrap_or(self.bytes.len());
        let kinds_until = self.sets.get(self.current + 1).map_or(self.kinds.len(), |next| next.first_kind);
        let kinds = &self.kinds[set.first_kind..kinds_until];
        Some(RawRow { bytes: &self.bytes[self.starts[row]..end], fields: set.fields, kinds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_bytes_of_its_row_counts_as_stored() {
        let mut rows = Rows::default();
        let adds: [fn(&mut Rows); 4] = [
            |rows| rows.push_row(b""),
            |rows| rows.begin_set(0),
            |rows| rows.push_done(0),
            |rows| rows.push_kind(3, false),
        ];
        for add in adds {
            rows.clear();
            (0..1_000).for_each(|_| add(&mut rows));
            assert!(rows.stored_bytes() >= 2_000, "{rows:?}");
        }
    }

    #[test]
    fn rows_of_several_sets_are_fetched_set_by_set() {
        let mut rows = Rows::default();
        for _ in 0..2 {
            rows.clear();
            rows.begin_set(2);
            rows.push_kind(3, true);
            rows.push_row(b"ab");
            rows.push_row(b"");
            rows.push_done(7);
            rows.begin_set(1);
            rows.push_kind(8, false);
            rows.push_row(b"c");
            assert_eq!(rows.set().map(|set| (set.has_rows, set.fields, set.rows)), Some((true, 2, 2)));
            let first = rows.fetch().unwrap();
            assert_eq!((first.bytes, first.kinds), (&b"ab"[..], &[(3, true)][..]));
            assert_eq!(rows.fetch().unwrap().bytes, b"");
            assert!(rows.fetch().is_none() && rows.has_more());
            assert_eq!(rows.next_set().map(|set| (set.has_rows, set.affected)), Some((false, 7)));
            assert!(rows.fetch().is_none());
            assert_eq!(rows.next_set().map(|set| set.rows), Some(1));
            let last = rows.fetch().unwrap();
            assert_eq!((last.bytes, last.kinds), (&b"c"[..], &[(8, false)][..]));
            assert!(!rows.has_more() && rows.next_set().is_none());
        }
    }
}
