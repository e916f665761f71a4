//! The SQL workloads: the tables, statements, mix and order of sysbench 1.0's, so that numbers mean what users know
//! and a data set that either of the two prepared serves the other.

use record::load::{LoadSettings, OltpSettings, Workload};

use crate::driver::{Attempt, Failure, FailureClass, OperationShare};
use crate::rows::{C_LENGTH, Digits, PAD_LENGTH, RowPicker};

/// What the SQL workloads are, in the order of their fame.
pub(crate) const WORKLOADS: &[Workload] =
    &[Workload::OltpReadWrite, Workload::OltpReadOnly, Workload::OltpWriteOnly, Workload::OltpPointSelect];

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
    Insert,
    Commit,
}

impl Statement {
    pub(crate) const ALL: [Self; 11] = [
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
        Self::Commit,
    ];

    /// The operation's name in records and files.
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
            Self::Insert => "insert",
            Self::Commit => "commit",
        }
    }

    /// What stands before and after the table's number, with `?` for each parameter; `None` for those without table.
    fn parts(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Begin | Self::Commit => return None,
            Self::PointSelect => ("SELECT c FROM sbtest", " WHERE id=?"),
            Self::SimpleRange => ("SELECT c FROM sbtest", " WHERE id BETWEEN ? AND ?"),
            Self::SumRange => ("SELECT SUM(k) FROM sbtest", " WHERE id BETWEEN ? AND ?"),
            Self::OrderRange => ("SELECT c FROM sbtest", " WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::DistinctRange => ("SELECT DISTINCT c FROM sbtest", " WHERE id BETWEEN ? AND ? ORDER BY c"),
            Self::UpdateIndex => ("UPDATE sbtest", " SET k=k+1 WHERE id=?"),
            Self::UpdateNonIndex => ("UPDATE sbtest", " SET c=? WHERE id=?"),
            Self::Delete => ("DELETE FROM sbtest", " WHERE id=?"),
            Self::Insert => ("INSERT INTO sbtest", " (id, k, c, pad) VALUES (?, ?, ?, ?)"),
        })
    }

    /// The statement on table number `table`, with `?` for each parameter; `None` for BEGIN and COMMIT.
    pub(crate) fn text(self, table: u32) -> Option<String> {
        self.parts().map(|(before, after)| format!("{before}{table}{after}"))
    }

    /// Writes the statement on table number `table` with its parameters in place; nothing for BEGIN and COMMIT.
    pub(crate) fn write_text(self, table: u32, parameters: &[Parameter<'_>], sql: &mut String) {
        use std::fmt::Write as _;
        let Some((before, after)) = self.parts() else { return };
        sql.clear();
        let mut parameters = parameters.iter();
        // Writing to a string cannot fail.
        let _ = write!(sql, "{before}{table}");
        for (i, piece) in after.split('?').enumerate() {
            if i > 0 {
                let _ = match parameters.next().expect("as many parameters as marks") {
                    Parameter::Integer(n) => write!(sql, "{n}"),
                    // Digits and dashes: nothing to escape.
                    Parameter::Text(text) => write!(sql, "'{text}'"),
                };
            }
            sql.push_str(piece);
        }
    }
}

/// A value that a statement gets.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Parameter<'a> {
    Integer(u64),
    Text(&'a str),
}

/// A connection that understands SQL.
pub(crate) trait Sql {
    /// Executes one statement and reads its answer to the end. `table` counts from 1.
    fn execute(
        &mut self,
        statement: Statement,
        table: u32,
        parameters: &[Parameter<'_>],
    ) -> Result<(), Failure>;

    /// Gives up the transaction that a failed statement has left open.
    fn roll_back(&mut self);
}

/// What a workload's transactions consist of; shared by all workers.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    per_event: [u32; Statement::ALL.len()],
    /// The operation's number in [`Shape::operations`], by statement.
    operation: [usize; Statement::ALL.len()],
    tables: u32,
    range_size: u64,
    rows: RowPicker,
}

impl Shape {
    pub(crate) fn new(settings: &LoadSettings) -> Self {
        let oltp = &settings.oltp;
        let per_event = Statement::ALL.map(|s| per_event(s, settings.workload, oltp));
        let mut operation = [0; Statement::ALL.len()];
        let mut operations = 0;
        for (number, per_event) in operation.iter_mut().zip(per_event) {
            *number = operations;
            operations += usize::from(per_event > 0);
        }
        let rows = RowPicker::new(oltp.distribution, oltp.rows);
        Self { per_event, operation, tables: oltp.tables, range_size: oltp.range_size, rows }
    }

    /// The statements that occur, with their number per event.
    pub(crate) fn operations(&self) -> Vec<OperationShare> {
        let shares = Statement::ALL.iter().zip(self.per_event);
        shares
            .filter(|(_, n)| *n > 0)
            .map(|(s, per_event)| OperationShare::always(s.name(), per_event))
            .collect()
    }

    /// The statements that occur and can be prepared, for every table.
    pub(crate) fn statements(&self) -> impl Iterator<Item = (Statement, u32)> + '_ {
        let on_tables = Statement::ALL.into_iter().filter(|s| self.uses(*s) && s.parts().is_some());
        on_tables.flat_map(|s| (1..=self.tables).map(move |table| (s, table)))
    }

    /// Whether anything is written.
    pub(crate) fn writes(&self) -> bool {
        self.uses(Statement::UpdateIndex)
    }

    fn uses(&self, statement: Statement) -> bool {
        self.per_event[statement as usize] > 0
    }
}

/// Room for the texts that one worker writes.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    c: Digits<C_LENGTH>,
    pad: Digits<PAD_LENGTH>,
}

impl Texts {
    pub(crate) fn new() -> Self {
        Self { c: Digits::new(), pad: Digits::new() }
    }
}

/// Does one transaction.
pub(crate) fn transaction(
    sql: &mut dyn Sql,
    shape: &Shape,
    texts: &mut Texts,
    attempt: &mut Attempt<'_>,
) -> Result<(), Failure> {
    let result = statements(sql, shape, texts, attempt);
    if let Err(failure) = &result
        && failure.class != FailureClass::Connection
        && shape.uses(Statement::Begin)
    {
        sql.roll_back();
    }
    result
}

/// The statements in sysbench's order. Each group goes to one table, drawn uniformly.
fn statements(
    sql: &mut dyn Sql,
    shape: &Shape,
    texts: &mut Texts,
    attempt: &mut Attempt<'_>,
) -> Result<(), Failure> {
    use Parameter::{Integer, Text};
    let mut table = 1;
    let mut id = 1;
    for statement in Statement::ALL {
        let per_event = shape.per_event[statement as usize];
        // An insert puts back the row that the delete before it took.
        if per_event > 0 && statement != Statement::Insert {
            table = 1 + u32::try_from(attempt.random.below(shape.tables.into())).expect("below a u32");
        }
        for _ in 0..per_event {
            let random = &mut attempt.random;
            if statement != Statement::Insert {
                id = shape.rows.pick(random);
            }
            match statement {
                Statement::Begin | Statement::Commit => sql.execute(statement, table, &[])?,
                Statement::PointSelect | Statement::UpdateIndex | Statement::Delete => {
                    sql.execute(statement, table, &[Integer(id)])?;
                }
                Statement::SimpleRange
                | Statement::SumRange
                | Statement::OrderRange
                | Statement::DistinctRange => {
                    sql.execute(statement, table, &[Integer(id), Integer(id + shape.range_size - 1)])?;
                }
                Statement::UpdateNonIndex => {
                    sql.execute(statement, table, &[Text(texts.c.draw(random)), Integer(id)])?;
                }
                Statement::Insert => {
                    let k = shape.rows.pick(random);
                    let (c, pad) = (texts.c.draw(random), texts.pad.draw(random));
                    sql.execute(statement, table, &[Integer(id), Integer(k), Text(c), Text(pad)])?;
                }
            }
            attempt.laps.end_operation(shape.operation[statement as usize]);
        }
    }
    Ok(())
}

fn per_event(statement: Statement, workload: Workload, oltp: &OltpSettings) -> u32 {
    let reads = matches!(workload, Workload::OltpReadWrite | Workload::OltpReadOnly);
    let writes = matches!(workload, Workload::OltpReadWrite | Workload::OltpWriteOnly);
    match statement {
        Statement::Begin | Statement::Commit => u32::from((reads || writes) && !oltp.skip_transaction),
        Statement::PointSelect if workload == Workload::OltpPointSelect => 1,
        Statement::PointSelect => oltp.point_selects * u32::from(reads),
        Statement::SimpleRange | Statement::SumRange | Statement::OrderRange | Statement::DistinctRange => {
            u32::from(reads)
        }
        Statement::UpdateIndex | Statement::UpdateNonIndex | Statement::Delete | Statement::Insert => {
            u32::from(writes)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_reads_the_same_with_marks_and_with_values() {
        let mut sql = String::new();
        let parameters =
            [Parameter::Integer(7), Parameter::Integer(9), Parameter::Text("123-456"), Parameter::Text("7")];
        Statement::Insert.write_text(3, &parameters, &mut sql);
        assert_eq!(sql, "INSERT INTO sbtest3 (id, k, c, pad) VALUES (7, 9, '123-456', '7')");
        Statement::SimpleRange.write_text(12, &parameters[..2], &mut sql);
        assert_eq!(sql, "SELECT c FROM sbtest12 WHERE id BETWEEN 7 AND 9");
        assert_eq!(Statement::PointSelect.text(1).unwrap(), "SELECT c FROM sbtest1 WHERE id=?");
        assert_eq!(Statement::Begin.text(1), None);
    }
}
