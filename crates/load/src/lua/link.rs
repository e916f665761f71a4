//! A connection as a script holds it: the fields that its code reads, and the statements behind them.

use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::{Arc, PoisonError};

use crate::connection::{Cut, Failure, FailureClass, Idle};
use crate::lua::bound::{Bound, with_parameters};
use crate::lua::context::{Context, Counter, operation_of};
use crate::lua::marks;
use crate::lua::rows::Rows;
use crate::lua::server::{Client, Refused, Value, Values};
use crate::workload::statement::{Parameter, StatementText};

/// Length of an INSERT of several rows that is sent before the next row is added.
const BULK_BYTES_MAX: usize = 512 << 10;

/// Codes in `error`, as scripts know them.
const NONE: i32 = 0;
const IGNORABLE: i32 = 1;
const FATAL: i32 = 2;

/// A dry event that sends more statements than this waits for rows that never come.
pub(crate) const DRY_STATEMENTS_MAX: u32 = 1_000;

/// SQLSTATEs of MySQL and PostgreSQL for a table that does not exist.
const TABLE_MISSING: [&[u8; 5]; 2] = [b"42S02", b"42P01"];

/// A connection. Its first fields are declared in `prelude.lua`.
#[repr(C)]
pub(crate) struct Link {
    error: i32,
    sql_errno: i32,
    sql_state: *const c_char,
    sql_errmsg: *const c_char,
    result: ResultHead,
    /// Owner of the connection, for functions that get only its address.
    pub(crate) owner: *mut c_void,
    client: Option<Box<dyn Client>>,
    /// Whether the answer has rows that were not freed.
    has_result: bool,
    is_lost: bool,
    rows: Rows,
    values: Values,
    cells: Vec<Cell>,
    statements: Vec<Option<Statement>>,
    /// Texts of closed statements, for the next ones.
    spare: Vec<StatementText>,
    bulk: Bulk,
    cut: Cut,
    state_text: [u8; 6],
    message: Vec<u8>,
    sql: String,
    parameters: Vec<Parameter<'static>>,
}

/// The result of a statement. Declared in `prelude.lua`.
#[repr(C)]
pub(crate) struct ResultHead {
    counter: u32,
    nrows: u32,
    nfields: u32,
    values: *const Cell,
    pub(crate) connection: *mut Link,
}

/// A value of a row. Declared in `prelude.lua`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Cell {
    start: *const u8,
    length: usize,
}

/// A statement that a script has prepared.
struct Statement {
    text: StatementText,
    operation: usize,
    form: Form,
}

enum Form {
    /// Sent as text, with its values.
    Text,
    Prepared(usize),
    /// To be prepared when it is next needed: its connection is new.
    Unprepared,
}

/// An INSERT of several rows; its buffer stays for the next one.
#[derive(Default)]
struct Bulk {
    sql: Vec<u8>,
    /// Length of the text before the rows; 0 if none is begun.
    head: usize,
    operation: usize,
    /// Rows after the head.
    rows: u64,
}

impl Bulk {
    fn has_rows(&self) -> bool {
        self.sql.len() > self.head
    }

    fn end(&mut self) {
        self.sql.clear();
        (self.head, self.rows) = (0, 0);
    }
}

/// Outcome of adding a row to an INSERT; the prelude reads its number.
#[derive(Clone, Copy)]
pub(crate) enum Added {
    Well = 0,
    Failed = 1,
    NotBegun = 2,
}

impl Link {
    /// Opens a connection. Box it before its address is given away.
    pub(crate) fn open(context: &mut Context, owner: *mut c_void) -> Result<Box<Self>, Failure> {
        let cut = Cut::default();
        let client = connect(context, &cut)?;
        let result =
            ResultHead { counter: 0, nrows: 0, nfields: 0, values: ptr::null(), connection: ptr::null_mut() };
        let mut link = Box::new(Self {
            error: NONE,
            sql_errno: 0,
            sql_state: ptr::null(),
            sql_errmsg: ptr::null(),
            result,
            owner,
            client: Some(client),
            has_result: false,
            is_lost: false,
            rows: Rows::default(),
            values: Values::default(),
            cells: Vec::new(),
            statements: Vec::new(),
            spare: Vec::new(),
            bulk: Bulk::default(),
            cut,
            state_text: [0; 6],
            message: Vec::new(),
            sql: String::new(),
            parameters: Vec::new(),
        });
        link.result.connection = &raw mut *link;
        Ok(link)
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Counts the connection as lost, unless the script has closed it.
    pub(crate) fn lose(&mut self) {
        self.is_lost = self.client.is_some();
    }

    /// Whether rows of a bulk insert wait to be sent.
    pub(crate) fn has_rows(&self) -> bool {
        self.bulk.has_rows()
    }

    /// State of the connection between two events.
    pub(crate) fn idle(&mut self) -> Idle {
        let idle = self.client.as_mut().map_or(Idle::Stands, |client| client.idle());
        self.is_lost |= idle != Idle::Stands;
        idle
    }

    /// Replaces a lost connection. Its statements are prepared again when they are next needed.
    pub(crate) fn revive(&mut self, context: &mut Context) -> Result<(), Failure> {
        if !self.is_lost {
            return Ok(());
        }
        forget(context, &self.cut);
        self.client = Some(connect(context, &self.cut)?);
        context.counters.note(Counter::Reconnect);
        (self.is_lost, self.has_result) = (false, false);
        for statement in self.statements.iter_mut().flatten() {
            if matches!(statement.form, Form::Prepared(_)) {
                statement.form = Form::Unprepared;
            }
        }
        Ok(())
    }

    /// Closes the connection; false if it was closed before.
    pub(crate) fn disconnect(&mut self, context: &Context) -> bool {
        let was_open = self.client.take().is_some();
        forget(context, &self.cut);
        (self.has_result, self.is_lost) = (false, false);
        self.bulk.end();
        was_open
    }

    /// Opens the connection anew; false if that failed.
    pub(crate) fn reconnect(&mut self, context: &mut Context) -> bool {
        if self.client.take().is_none() {
            return true;
        }
        self.is_lost = true;
        match self.revive(context) {
            Ok(()) => true,
            Err(failure) => {
                self.fail(context, Refused::lost(0, failure));
                false
            }
        }
    }

    /// Executes a statement; returns its result, or null if it has no rows or failed.
    pub(crate) fn query(&mut self, context: &mut Context, sql: &[u8]) -> *mut ResultHead {
        if !self.begins(context) {
            return ptr::null_mut();
        }
        let Some(client) = &mut self.client else { return ptr::null_mut() };
        let outcome = ask(&mut **client, sql, &mut self.rows, context);
        let operation = (!context.is_dry).then(|| operation_of(beginning(sql)));
        self.answered(context, outcome, operation)
    }

    /// Prepares a statement; returns its number, or a negative one if that failed.
    pub(crate) fn prepare(&mut self, context: &mut Context, sql: &[u8]) -> i32 {
        let Ok(sql) = std::str::from_utf8(sql) else {
            self.fail(context, Refused::unsendable("a statement is not UTF-8"));
            return -1;
        };
        if !self.begins(context) {
            return -1;
        }
        let Some(client) = &mut self.client else { return -1 };
        let mut text = self.spare.pop().unwrap_or_default();
        marks::read(sql, client.quoting(), &mut text);
        let form = if context.is_prepared {
            match client.prepare(&text) {
                Ok(number) => Form::Prepared(number),
                Err(refused) if refused.is_unpreparable => Form::Text,
                Err(refused) => {
                    self.fail(context, refused);
                    // Scripts get no number and no message, as in sysbench; the program has both.
                    (self.sql_state, self.sql_errmsg) = (ptr::null(), ptr::null());
                    return -1;
                }
            }
        } else {
            Form::Text
        };
        let statement = Statement { text, operation: operation_of(sql), form };
        let free = self.statements.iter().position(Option::is_none);
        let number = free.unwrap_or(self.statements.len());
        if free.is_none() {
            self.statements.push(None);
        }
        self.statements[number] = Some(statement);
        i32::try_from(number).unwrap_or(-1)
    }

    /// Executes a prepared statement; returns its result, or null if it has no rows or failed.
    pub(crate) fn execute(&mut self, context: &mut Context, number: i32, bound: &[Bound]) -> *mut ResultHead {
        if !self.begins(context) {
            return ptr::null_mut();
        }
        let Self { client: Some(client), statements, rows, sql, parameters: room, .. } = self else {
            return ptr::null_mut();
        };
        let statement = usize::try_from(number).ok().and_then(|number| statements.get_mut(number)?.as_mut());
        let Some(statement) = statement else {
            self.fail(context, Refused::unsendable("the statement was closed"));
            return ptr::null_mut();
        };
        if statement.text.parameters() != bound.len() {
            let (needed, found) = (statement.text.parameters(), bound.len());
            let text = format!("the statement has {needed} parameters, but {found} are bound (bind_param)");
            self.fail(context, Refused::unsendable(&text));
            return ptr::null_mut();
        }
        if context.is_dry {
            return self.dry_result();
        }
        let operation = statement.operation;
        context.begin_statement();
        let outcome = with_parameters(bound, room, |parameters| {
            if matches!(statement.form, Form::Unprepared) {
                statement.form = Form::Prepared(client.prepare(&statement.text)?);
            }
            match statement.form {
                Form::Prepared(number) => client.execute(number, parameters, rows),
                Form::Text | Form::Unprepared => {
                    statement.text.write_values(parameters, client.quoting(), sql);
                    client.query(sql.as_bytes(), rows)
                }
            }
        });
        self.answered(context, outcome, Some(operation))
    }

    pub(crate) fn close_statement(&mut self, number: i32) {
        let slot = usize::try_from(number).ok().and_then(|number| self.statements.get_mut(number));
        let Some(Statement { text, form, .. }) = slot.and_then(Option::take) else { return };
        self.spare.push(text);
        if let (Form::Prepared(number), Some(client)) = (form, &mut self.client) {
            client.close(number);
        }
    }

    pub(crate) fn has_more_results(&self) -> bool {
        self.has_result && self.rows.has_more()
    }

    /// The next result of the answer, or null.
    ///
    /// Each result counts as a query, as in sysbench.
    pub(crate) fn next_result(&mut self, context: &mut Context) -> *mut ResultHead {
        self.error = NONE;
        let Some(set) = self.rows.next_set() else {
            self.has_result = false;
            return ptr::null_mut();
        };
        self.has_result = set.has_rows;
        self.count(context, set.has_rows, set.affected);
        self.head(set.rows as u64, set.fields);
        if set.has_rows { &raw mut self.result } else { ptr::null_mut() }
    }

    /// Decodes the next row; false after the last.
    pub(crate) fn fetch(&mut self, context: &mut Context) -> bool {
        let Self { client: Some(client), rows, values, cells, .. } = self else { return false };
        if !self.has_result {
            return false;
        }
        let Some(row) = rows.fetch() else { return false };
        values.clear();
        if let Err(failure) = client.decode(row, values) {
            self.fail(context, Refused::lost(0, failure));
            return false;
        }
        cells.clear();
        cells.extend(values.each.iter().map(|value| match *value {
            Value::Null => Cell { start: ptr::null(), length: 0 },
            Value::InRow(from, length) => Cell { start: row.bytes[from..].as_ptr(), length },
            Value::Written(from, length) => Cell { start: values.text.as_bytes()[from..].as_ptr(), length },
        }));
        self.result.values = cells.as_ptr();
        true
    }

    /// Frees the result; false without one.
    pub(crate) fn free_result(&mut self) -> bool {
        std::mem::take(&mut self.has_result)
    }

    pub(crate) fn bulk_init(&mut self, context: &mut Context, sql: &[u8]) -> bool {
        if !self.begins(context) {
            return false;
        }
        // Rows that wait are dropped: they stay counted as not sent.
        self.bulk.end();
        let Bulk { sql: text, head, operation, .. } = &mut self.bulk;
        text.extend_from_slice(sql);
        text.push(b' ');
        (*head, *operation) = (text.len(), operation_of(beginning(sql)));
        true
    }

    pub(crate) fn bulk_next(&mut self, context: &mut Context, row: &[u8]) -> Added {
        if self.bulk.head == 0 {
            return Added::NotBegun;
        }
        if context.is_dry && self.bulk.has_rows() {
            return Added::Well;
        }
        if self.bulk.has_rows()
            && self.bulk.sql.len() + row.len() >= BULK_BYTES_MAX
            && !self.send_bulk(context)
        {
            return Added::Failed;
        }
        if self.bulk.has_rows() {
            self.bulk.sql.push(b',');
        }
        self.bulk.sql.extend_from_slice(row);
        if !context.is_dry {
            self.bulk.rows += 1;
            context.counters.add_row();
        }
        // The first row shows whether the table exists.
        if context.is_dry && !self.send_bulk(context) { Added::Failed } else { Added::Well }
    }

    pub(crate) fn bulk_done(&mut self, context: &mut Context) -> bool {
        let is_well = self.send_bulk(context);
        if !self.bulk.has_rows() {
            self.bulk.end();
        }
        is_well
    }

    /// Sends the rows so far. If the event begins again after a failure, they stay, as in sysbench: its next
    /// try sends them. Other failures drop the rows, which would fail every later event.
    fn send_bulk(&mut self, context: &mut Context) -> bool {
        if !self.bulk.has_rows() {
            return true;
        }
        if !self.begins(context) {
            return false;
        }
        let Self { client: Some(client), bulk, rows, .. } = self else { return false };
        let outcome = ask(&mut **client, &bulk.sql, rows, context);
        let operation = (!context.is_dry).then_some(bulk.operation);
        self.answered(context, outcome, operation);
        if !context.is_dry && (self.error == NONE || self.error == FATAL && !self.is_lost) {
            self.bulk.sql.truncate(self.bulk.head);
            context.counters.rows_are_sent(std::mem::take(&mut self.bulk.rows));
        }
        self.error == NONE
    }

    /// Rolls back the transaction that a failed event has left open.
    pub(crate) fn roll_back(&mut self) {
        if self.is_lost {
            return;
        }
        self.has_result = false;
        let Some(client) = &mut self.client else { return };
        if client.may_be_in_transaction() {
            // If this fails, so will the next statement, and that failure is recorded.
            let _ = client.query(b"ROLLBACK", &mut self.rows);
        }
    }

    /// Prepares for the next statement; false if it cannot be sent.
    fn begins(&mut self, context: &mut Context) -> bool {
        (self.sql_errno, self.sql_state, self.sql_errmsg) = (0, ptr::null(), ptr::null());
        (self.error, self.has_result) = (NONE, false);
        if self.client.is_none() || self.is_lost {
            self.error = FATAL;
            if self.is_lost {
                // The script has caught the error that reported it.
                let lost = || Failure::new(FailureClass::Connection, "the connection was lost");
                context.failure.get_or_insert_with(lost);
            }
            return false;
        }
        if context.is_dry {
            let sent = context.dry_statements.get() + 1;
            context.dry_statements.set(sent);
            if sent > DRY_STATEMENTS_MAX {
                self.fail(
                    context,
                    Refused::unsendable("the event does not end if its queries return no rows"),
                );
                return false;
            }
        }
        true
    }

    fn answered(
        &mut self,
        context: &mut Context,
        outcome: Result<(), Refused>,
        operation: Option<usize>,
    ) -> *mut ResultHead {
        if let Err(refused) = outcome {
            self.fail(context, refused);
            return ptr::null_mut();
        }
        let Some(operation) = operation else { return self.dry_result() };
        context.end_statement(operation);
        let set = self.rows.set().unwrap_or_default();
        self.has_result = set.has_rows;
        self.count(context, set.has_rows, set.affected);
        self.head(if set.has_rows { set.rows as u64 } else { set.affected }, set.fields);
        if set.has_rows { &raw mut self.result } else { ptr::null_mut() }
    }

    fn count(&mut self, context: &mut Context, has_rows: bool, affected: u64) {
        let counter = match affected {
            _ if has_rows => Counter::Read,
            0 => Counter::Other,
            _ => Counter::Write,
        };
        context.counters.note(counter);
        self.result.counter = counter as u32;
    }

    /// The result of a statement that is only checked: no rows. The script may read its fields.
    fn dry_result(&mut self) -> *mut ResultHead {
        self.rows.clear();
        self.rows.begin_set(0);
        self.has_result = true;
        self.head(0, 0);
        &raw mut self.result
    }

    fn head(&mut self, rows: u64, fields: usize) {
        self.result.nrows = u32::try_from(rows).unwrap_or(u32::MAX);
        self.result.nfields = u32::try_from(fields).unwrap_or(u32::MAX);
        self.result.values = ptr::null();
    }

    #[cold]
    fn fail(&mut self, context: &mut Context, refused: Refused) {
        context.counters.note(Counter::Error);
        self.is_lost |= refused.is_lost();
        context.misses_table |= TABLE_MISSING.contains(&&refused.state);
        let is_ignorable = refused.restarts || context.ignores(refused.errno);
        self.error = if is_ignorable { IGNORABLE } else { FATAL };
        self.sql_errno = refused.errno;
        self.state_text[..5].copy_from_slice(&refused.state);
        self.message.clear();
        self.message.extend(refused.message().bytes().filter(|b| *b != 0));
        self.message.push(0);
        self.sql_state = self.state_text.as_ptr().cast();
        self.sql_errmsg = self.message.as_ptr().cast();
        let class = match refused.failure.class {
            FailureClass::Connection => FailureClass::Connection,
            _ if is_ignorable => FailureClass::Transient,
            // The script does not begin the event again.
            FailureClass::Transient => FailureClass::Application,
            other => other,
        };
        context.failure = Some(Failure { class, ..refused.failure });
    }
}

/// The beginning of a statement, as far as it is UTF-8: enough to know its operation.
fn beginning(sql: &[u8]) -> &str {
    // Most statements begin with the word that tells it. Looking at 1,024 bytes of each cost 3 % of a
    // client's time.
    let word = sql.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
    if word > 0 {
        return str::from_utf8(&sql[..word]).unwrap_or("");
    }
    let sql = &sql[..sql.len().min(1_024)];
    sql.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

fn connect(context: &mut Context, cut: &Cut) -> Result<Box<dyn Client>, Failure> {
    let server = Arc::clone(context.server.as_ref().expect("a script has no driver without a server"));
    context.cuts.lock().unwrap_or_else(PoisonError::into_inner).push(cut.clone());
    let opened = server.open(cut);
    if let Err(failure) = &opened {
        forget(context, cut);
        context.failure = Some(failure.clone());
    }
    opened
}

/// Removes the cut of a closed connection.
fn forget(context: &Context, cut: &Cut) {
    cut.disarm();
    let is_cut = cut.is_cut();
    let mut cuts = context.cuts.lock().unwrap_or_else(PoisonError::into_inner);
    cuts.retain(|other| !Arc::ptr_eq(&other.is_cut(), &is_cut));
}

/// Sends a statement given as text; a dry one is only checked.
fn ask(client: &mut dyn Client, sql: &[u8], rows: &mut Rows, context: &mut Context) -> Result<(), Refused> {
    if context.is_dry {
        return std::str::from_utf8(sql).map_or(Ok(()), |sql| check(client, sql));
    }
    context.begin_statement();
    client.query(sql, rows)
}

/// Has the server check a statement without executing it.
fn check(client: &mut dyn Client, sql: &str) -> Result<(), Refused> {
    match client.prepare(&StatementText::new(&[sql])) {
        Ok(number) => {
            client.close(number);
            Ok(())
        }
        Err(refused) if refused.is_unpreparable => Ok(()),
        Err(refused) => Err(refused),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_statement_ends_at_the_first_byte_that_is_not_text() {
        assert_eq!(beginning(b"INSERT \xff"), "INSERT");
        assert_eq!(beginning(b" INSERT \xff"), " INSERT ");
        assert_eq!(beginning(b""), "");
        assert_eq!(beginning("ä".repeat(600).as_bytes()).len(), 1_024);
        assert_eq!(beginning(format!("({}", "ä".repeat(600)).as_bytes()).len(), 1_023);
    }
}
