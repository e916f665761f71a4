//! The SQL workloads: tables, statements, mix and order are those of sysbench 1.0. So the numbers are
//! comparable, and each of the two programs can use a data set that the other prepared.

use record::load::{LoadSettings, OltpMix, OltpSettings, Workload};

use crate::connection::{Failure, OperationShare};
use crate::schedule::random::Random;
use crate::workload::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};
use crate::workload::statement::{Execute, Parameter, StatementText};

/// Workloads of SQL targets, the best known first.
pub(crate) const WORKLOADS: &[Workload] = &[
    Workload::OltpReadWrite,
    Workload::OltpReadOnly,
    Workload::OltpWriteOnly,
    Workload::OltpPointSelect,
    Workload::OltpInsert,
    Workload::OltpDelete,
    Workload::OltpUpdateIndex,
    Workload::OltpUpdateNonIndex,
    Workload::BulkInsert,
    Workload::SelectRandomPoints,
    Workload::SelectRandomRanges,
    Workload::Script,
];

/// Advice for a server's message that a table is missing; empty if the table is not one of the workload's.
pub(crate) fn advice_on_missing(message: &str) -> &'static str {
    if message.contains("sbtest") {
        ": build the data set with `bakeoff prepare` or `--prepare auto`"
    } else {
        ""
    }
}

/// One statement of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Statement {
    Begin,
    PointSelect,
    SimpleRange,
    SumRange,
    OrderRange,
    DistinctRange,
    UpdateIndex,
    UpdateNonIndex,
    Delete,
    /// Inserts the row that the previous delete removed.
    Insert,
    /// Inserts a row with an id from the database.
    Append,
    /// Inserts several rows with ids from the database.
    BulkAppend,
    RandomPoints,
    RandomRanges,
    Commit,
}

impl Statement {
    pub(crate) const ALL: [Self; 15] = [
        Self::Begin,
        Self::PointSelect,
        Self::SimpleRange,
        Self::SumRange,
        Self::OrderRange,
        Self::DistinctRange,
        Self::UpdateIndex,
        Self::UpdateNonIndex,
        Self::Delete,
        Self::Insert,
        Self::Append,
        Self::BulkAppend,
        Self::RandomPoints,
        Self::RandomRanges,
        Self::Commit,
    ];

    /// Name of the operation in records and files.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Begin => "begin",
            Self::PointSelect => "point-select",
            Self::SimpleRange => "simple-range",
            Self::SumRange => "sum-range",
            Self::OrderRange => "order-range",
            Self::DistinctRange => "distinct-range",
            Self::UpdateIndex => "update-index",
            Self::UpdateNonIndex => "update-non-index",
            Self::Delete => "delete",
            Self::Insert | Self::Append => "insert",
            Self::BulkAppend => "bulk-insert",
            Self::RandomPoints => "random-points",
            Self::RandomRanges => "random-ranges",
            Self::Commit => "commit",
        }
    }

    /// The statement on table number `table`, with `?` for each parameter.
    fn with_marks(self, table: u32, mix: &OltpMix) -> String {
        let times = |text: &str, between: &str, n: u32| vec![text; n as usize].join(between);
        match self {
            Self::Begin => "BEGIN".to_owned(),
            Self::Commit => "COMMIT".to_owned(),
            Self::PointSelect => format!("SELECT c FROM sbtest{table} WHERE id=?"),
            Self::SimpleRange => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::SumRange => format!("SELECT SUM(k) FROM sbtest{table} WHERE id BETWEEN ? AND ?"),
            Self::OrderRange => format!("SELECT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::DistinctRange => {
                format!("SELECT DISTINCT c FROM sbtest{table} WHERE id BETWEEN ? AND ? ORDER BY c")
            }
            Self::UpdateIndex => format!("UPDATE sbtest{table} SET k=k+1 WHERE id=?"),
            Self::UpdateNonIndex => format!("UPDATE sbtest{table} SET c=? WHERE id=?"),
            Self::Delete => format!("DELETE FROM sbtest{table} WHERE id=?"),
            Self::Insert => format!("INSERT INTO sbtest{table} (id, k, c, pad) VALUES (?, ?, ?, ?)"),
            Self::Append => format!("INSERT INTO sbtest{table} (k, c, pad) VALUES (?, ?, ?)"),
            Self::BulkAppend => {
                let rows = times("(?, ?, ?)", ", ", mix.bulk_rows);
                format!("INSERT INTO sbtest{table} (k, c, pad) VALUES {rows}")
            }
            Self::RandomPoints => {
                let points = times("?", ", ", mix.random_points);
                format!("SELECT id, k, c, pad FROM sbtest{table} WHERE k IN ({points})")
            }
            Self::RandomRanges => {
                let ranges = times("k BETWEEN ? AND ?", " OR ", mix.number_of_ranges);
                format!("SELECT count(k) FROM sbtest{table} WHERE {ranges}")
            }
        }
    }

    /// The statement on table number `table`.
    pub(crate) fn text(self, table: u32, mix: &OltpMix) -> StatementText {
        StatementText::new(&self.with_marks(table, mix).split('?').collect::<Vec<_>>())
    }

    fn is_on_table(self) -> bool {
        !matches!(self, Self::Begin | Self::Commit)
    }
}

/// The statements of a workload's transactions; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    per_event: [u32; Statement::ALL.len()],
    /// Index into [`Shape::operations`], by statement.
    operation: [usize; Statement::ALL.len()],
    /// Every statement of the workload, table by table.
    texts: Vec<StatementText>,
    /// Index of the statement's text for the first table, by statement.
    first_text: [usize; Statement::ALL.len()],
    tables: u32,
    range_size: u64,
    mix: OltpMix,
    rows: RowPicker,
}

impl Shape {
    pub(crate) fn new(settings: &LoadSettings) -> Self {
        Self::of(settings.workload, &settings.oltp)
    }

    fn of(workload: Workload, oltp: &OltpSettings) -> Self {
        let per_event = Statement::ALL.map(|s| per_event(s, workload, oltp));
        let mut operation = [0; Statement::ALL.len()];
        let mut first_text = [0; Statement::ALL.len()];
        let mut texts = Vec::new();
        let mut operations = 0;
        for statement in Statement::ALL {
            let place = statement as usize;
            (operation[place], first_text[place]) = (operations, texts.len());
            if per_event[place] > 0 {
                operations += 1;
                let tables = if statement.is_on_table() { oltp.tables } else { 1 };
                texts.extend((1..=tables).map(|table| statement.text(table, &oltp.mix)));
            }
        }
        let rows = RowPicker::new(oltp.distribution, oltp.rows);
        let (tables, range_size) = (oltp.tables, oltp.range_size);
        Self { per_event, operation, texts, first_text, tables, range_size, mix: oltp.mix, rows }
    }

    /// The statements of the workload, with their number per event.
    pub(crate) fn operations(&self) -> Vec<OperationShare> {
        let shares = Statement::ALL.iter().zip(self.per_event);
        shares
            .filter(|(_, n)| *n > 0)
            .map(|(s, per_event)| OperationShare::always(s.name(), per_event))
            .collect()
    }

    /// The statements of the workload, by index.
    pub(crate) fn statements(&self) -> &[StatementText] {
        &self.texts
    }

    /// Whether transactions write.
    pub(crate) fn writes(&self) -> bool {
        let writing = [Statement::UpdateIndex, Statement::UpdateNonIndex, Statement::Delete];
        self.has_transactions() && writing.into_iter().any(|statement| self.uses(statement))
    }

    /// Whether its statements run inside a transaction.
    pub(crate) fn has_transactions(&self) -> bool {
        self.uses(Statement::Begin)
    }

    fn uses(&self, statement: Statement) -> bool {
        self.per_event[statement as usize] > 0
    }

    /// Index of a statement on a table; tables count from 0.
    fn number(&self, statement: Statement, table: usize) -> usize {
        self.first_text[statement as usize] + if statement.is_on_table() { table } else { 0 }
    }
}

/// A transaction in progress, statement by statement.
#[derive(Debug, Clone)]
pub(crate) struct OltpExecution {
    random: Random,
    /// Index into [`Statement::ALL`].
    statement: usize,
    /// Number of times that this statement was executed.
    asked: u32,
    table: usize,
    /// The row was deleted and not inserted again yet.
    is_deleted: bool,
    id: i64,
    c: Digits<C_LENGTH>,
    pad: Digits<PAD_LENGTH>,
    /// Texts of the rows of a bulk insert, allocated at the first one.
    bulk: Vec<(Digits<C_LENGTH>, Digits<PAD_LENGTH>)>,
}

impl OltpExecution {
    pub(crate) fn new() -> Self {
        let (c, pad) = (Digits::new(), Digits::new());
        Self {
            random: Random::of(0, 0),
            statement: 0,
            asked: 0,
            table: 0,
            is_deleted: false,
            id: 1,
            c,
            pad,
            bulk: Vec::new(),
        }
    }

    /// Begins a transaction with the event's random generator.
    pub(crate) fn begin(&mut self, random: Random) {
        (self.random, self.statement, self.asked, self.table, self.id) = (random, 0, 0, 0, 1);
        self.is_deleted = false;
    }

    /// Executes the next statement, in sysbench's order; returns its operation, and `None` after the last.
    ///
    /// Each group of statements uses one table, drawn uniformly.
    pub(crate) fn ask(&mut self, shape: &Shape, ask: &mut Execute<'_>) -> Result<Option<usize>, Failure> {
        while let Some(statement) = Statement::ALL.get(self.statement).copied() {
            let per_event = shape.per_event[statement as usize];
            if self.asked == per_event {
                (self.statement, self.asked) = (self.statement + 1, 0);
                continue;
            }
            if statement == Statement::Delete && shape.uses(Statement::Insert) {
                return self.ask_pair(shape, ask).map(Some);
            }
            if self.asked == 0 {
                self.draw_table(shape);
            }
            self.asked += 1;
            self.ask_one(shape, statement, ask)?;
            return Ok(Some(shape.operation[statement as usize]));
        }
        Ok(None)
    }

    /// Executes the next statement of the delete and insert pairs, one row after the other; the last insert
    /// ends the group.
    fn ask_pair(&mut self, shape: &Shape, ask: &mut Execute<'_>) -> Result<usize, Failure> {
        if self.asked == 0 && !self.is_deleted {
            self.draw_table(shape);
        }
        let statement = if self.is_deleted { Statement::Insert } else { Statement::Delete };
        if self.is_deleted {
            self.asked += 1;
            if self.asked == shape.per_event[Statement::Delete as usize] {
                // The insert's own position in the order is skipped.
                (self.statement, self.asked) = (Statement::Insert as usize + 1, 0);
            }
        }
        self.is_deleted = !self.is_deleted;
        self.ask_one(shape, statement, ask)?;
        Ok(shape.operation[statement as usize])
    }

    fn draw_table(&mut self, shape: &Shape) {
        self.table = usize::try_from(self.random.below(shape.tables.into())).expect("below a u32");
    }

    fn ask_one(&mut self, shape: &Shape, statement: Statement, ask: &mut Execute<'_>) -> Result<(), Failure> {
        use Parameter::{Integer, Text};
        let number = shape.number(statement, self.table);
        let draws_itself = matches!(
            statement,
            Statement::Insert
                | Statement::Append
                | Statement::BulkAppend
                | Statement::RandomPoints
                | Statement::RandomRanges
        );
        if !draws_itself {
            self.id = shape.rows.pick(&mut self.random).cast_signed();
        }
        let (id, random) = (self.id, &mut self.random);
        match statement {
            Statement::Begin | Statement::Commit => ask(number, &[], None),
            Statement::PointSelect | Statement::UpdateIndex | Statement::Delete => {
                ask(number, &[Integer(id)], None)
            }
            Statement::SimpleRange
            | Statement::SumRange
            | Statement::OrderRange
            | Statement::DistinctRange => {
                let last_id = id + shape.range_size.cast_signed() - 1;
                ask(number, &[Integer(id), Integer(last_id)], None)
            }
            Statement::UpdateNonIndex => ask(number, &[Text(self.c.draw(random)), Integer(id)], None),
            Statement::Insert | Statement::Append => {
                let k = Integer(shape.rows.pick(random).cast_signed());
                let values = [Integer(id), k, Text(self.c.draw(random)), Text(self.pad.draw(random))];
                let from = usize::from(statement == Statement::Append);
                ask(number, &values[from..], None)
            }
            Statement::BulkAppend => {
                let rows = shape.mix.bulk_rows as usize;
                self.bulk.resize_with(rows, || (Digits::new(), Digits::new()));
                // The values borrow the rows' texts, so they are allocated here; this costs little beside
                // generating the texts.
                let mut values = vec![Integer(0); 3 * rows];
                for ((c, pad), row) in self.bulk.iter_mut().zip(values.chunks_exact_mut(3)) {
                    row[0] = Integer(shape.rows.pick(random).cast_signed());
                    (row[1], row[2]) = (Text(c.draw(random)), Text(pad.draw(random)));
                }
                ask(number, &values, None)
            }
            Statement::RandomPoints => {
                let mut values = [Integer(0); OltpMix::POINTS_MAX as usize];
                let values = &mut values[..shape.mix.random_points as usize];
                values.fill_with(|| Integer(shape.rows.pick(random).cast_signed()));
                ask(number, values, None)
            }
            Statement::RandomRanges => {
                let mut values = [Integer(0); 2 * OltpMix::POINTS_MAX as usize];
                let values = &mut values[..2 * shape.mix.number_of_ranges as usize];
                for range in values.chunks_exact_mut(2) {
                    let from = shape.rows.pick(random).cast_signed();
                    (range[0], range[1]) = (Integer(from), Integer(from + i64::from(shape.mix.delta)));
                }
                ask(number, values, None)
            }
        }
    }
}

fn per_event(statement: Statement, workload: Workload, oltp: &OltpSettings) -> u32 {
    let reads = matches!(workload, Workload::OltpReadWrite | Workload::OltpReadOnly);
    let writes = matches!(workload, Workload::OltpReadWrite | Workload::OltpWriteOnly);
    // Each small workload is one statement, without a transaction.
    let is = |small| u32::from(workload == small);
    match statement {
        Statement::Begin | Statement::Commit => u32::from((reads || writes) && !oltp.skip_transaction),
        Statement::PointSelect if reads => oltp.point_selects,
        Statement::PointSelect => is(Workload::OltpPointSelect),
        Statement::SimpleRange | Statement::SumRange | Statement::OrderRange | Statement::DistinctRange => {
            u32::from(reads && oltp.mix.range_selects)
        }
        Statement::UpdateIndex if writes => oltp.mix.index_updates,
        Statement::UpdateIndex => is(Workload::OltpUpdateIndex),
        Statement::UpdateNonIndex if writes => oltp.mix.non_index_updates,
        Statement::UpdateNonIndex => is(Workload::OltpUpdateNonIndex),
        Statement::Delete | Statement::Insert if writes => oltp.mix.delete_inserts,
        Statement::Delete => is(Workload::OltpDelete),
        Statement::Insert => 0,
        Statement::Append => is(Workload::OltpInsert),
        Statement::BulkAppend => is(Workload::BulkInsert),
        Statement::RandomPoints => is(Workload::SelectRandomPoints),
        Statement::RandomRanges => is(Workload::SelectRandomRanges),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_those_that_sysbench_sends() {
        let mix = OltpMix { random_points: 3, number_of_ranges: 2, bulk_rows: 2, ..OltpMix::USUAL };
        let text = |s: Statement| s.text(3, &mix).with_marks(|_| "?".to_owned());
        assert_eq!(text(Statement::Insert), "INSERT INTO sbtest3 (id, k, c, pad) VALUES (?, ?, ?, ?)");
        assert_eq!(text(Statement::SimpleRange), "SELECT c FROM sbtest3 WHERE id BETWEEN ? AND ?");
        assert_eq!(text(Statement::Begin), "BEGIN");
        assert_eq!(text(Statement::RandomPoints), "SELECT id, k, c, pad FROM sbtest3 WHERE k IN (?, ?, ?)");
        assert_eq!(
            text(Statement::RandomRanges),
            "SELECT count(k) FROM sbtest3 WHERE k BETWEEN ? AND ? OR k BETWEEN ? AND ?"
        );
        assert_eq!(
            text(Statement::BulkAppend),
            "INSERT INTO sbtest3 (k, c, pad) VALUES (?, ?, ?), (?, ?, ?)"
        );
        assert_eq!(Statement::UpdateNonIndex.text(1, &mix).parameters(), 2);
    }

    /// The statements of a transaction: each with its name and the table in its text.
    fn asked(mix: OltpMix) -> Vec<String> {
        let oltp = OltpSettings {
            tables: 5,
            rows: 1_000,
            point_selects: 10,
            range_size: 100,
            mix,
            distribution: record::load::Distribution::Special,
            skip_transaction: false,
            prepared: true,
        };
        let shape = Shape::of(Workload::OltpWriteOnly, &oltp);
        let (mut execution, mut asked) = (OltpExecution::new(), Vec::new());
        execution.begin(Random::of(3, 3));
        let mut ask =
            |number: usize, _: &[Parameter<'_>], _: Option<&mut crate::workload::statement::ResultRow>| {
                asked.push(shape.statements()[number].with_marks(|_| "?".to_owned()));
                Ok(())
            };
        while execution.ask(&shape, &mut ask).unwrap().is_some() {}
        asked
    }

    #[test]
    fn rows_are_deleted_and_inserted_one_after_the_other_on_one_table() {
        let mix = OltpMix { index_updates: 2, non_index_updates: 0, delete_inserts: 3, ..OltpMix::USUAL };
        let all = asked(mix);
        let verbs: Vec<&str> = all.iter().map(|sql| sql.split(' ').next().unwrap()).collect();
        let pair = ["DELETE", "INSERT"];
        let expected = [&["BEGIN", "UPDATE", "UPDATE"][..], &pair, &pair, &pair, &["COMMIT"]].concat();
        assert_eq!(verbs, expected);
        let table = |sql: &str| sql.split_once("sbtest").unwrap().1.split(' ').next().unwrap().to_owned();
        assert!(all[3..9].iter().all(|sql| table(sql) == table(&all[3])), "{all:?}");
        assert!(!asked(OltpMix { delete_inserts: 0, ..mix }).iter().any(|sql| sql.starts_with("DELETE")));
    }
}
