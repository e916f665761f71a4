//! A server as a script sees it: connections that execute any statement.

use crate::connection::{Cut, Failure, FailureClass, Idle};
use crate::lua::rows::{RawRow, Rows};
use crate::workload::statement::{Parameter, Quoting, StatementText};

/// The server of a script.
pub(crate) trait Server: Send + Sync {
    /// Name of the driver, as scripts know it: `mysql` or `pgsql`.
    fn driver(&self) -> &'static str;

    /// Opens a connection.
    fn open(&self, cut: &Cut) -> Result<Box<dyn Client>, Failure>;

    /// Name and version of the server.
    fn version(&self, cut: &Cut) -> Result<String, Failure>;
}

/// A connection of a script. Stores each answer whole, as scripts may read it in any order.
pub(crate) trait Client {
    /// Executes a statement given as text.
    fn query(&mut self, sql: &[u8], rows: &mut Rows) -> Result<(), Refused>;

    /// Prepares a statement and returns its number.
    fn prepare(&mut self, statement: &StatementText) -> Result<usize, Refused>;

    /// Executes a prepared statement.
    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        rows: &mut Rows,
    ) -> Result<(), Refused>;

    /// Forgets a prepared statement.
    fn close(&mut self, statement: usize);

    /// Characters that are doubled in a quoted text.
    fn quoting(&self) -> Quoting;

    /// Decodes the values of a row.
    fn decode(&self, row: RawRow<'_>, values: &mut Values) -> Result<(), Failure>;

    /// Whether a transaction may be open after a failure.
    fn may_be_in_transaction(&self) -> bool;

    /// State of the connection, without waiting.
    fn idle(&mut self) -> Idle;
}

/// A statement that a server refused, or a connection that failed.
#[derive(Debug, Clone)]
pub(crate) struct Refused {
    /// The server's number; 0 if it has none.
    pub(crate) errno: i32,
    pub(crate) state: [u8; 5],
    /// Class and message with advice.
    pub(crate) failure: Failure,
    /// Length of the server's message, with which the text of the failure begins.
    pub(crate) message_bytes: usize,
    /// Whether an event begins again after this error, whatever the script ignores.
    pub(crate) restarts: bool,
    /// Whether this kind of statement can only be sent as text.
    pub(crate) is_unpreparable: bool,
}

impl Refused {
    /// The connection is gone.
    ///
    /// - `errno`: the number by which scripts recognize it.
    pub(crate) fn lost(errno: i32, failure: Failure) -> Self {
        let class = FailureClass::Connection;
        let message_bytes = failure.text.len();
        let failure = Failure { class, ..failure };
        Self { errno, state: *b"08S01", failure, message_bytes, restarts: true, is_unpreparable: false }
    }

    /// A statement that cannot be sent.
    pub(crate) fn unsendable(text: &str) -> Self {
        let failure = Failure::new(FailureClass::Application, text);
        let message_bytes = text.len();
        Self { errno: 0, state: *b"HY000", failure, message_bytes, restarts: false, is_unpreparable: false }
    }

    /// The server's message alone.
    pub(crate) fn message(&self) -> &str {
        self.failure.text.get(..self.message_bytes).unwrap_or_default()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.failure.class == FailureClass::Connection
    }
}

/// Decoded values of a row: text within the row, or text written here.
#[derive(Debug, Default)]
pub(crate) struct Values {
    /// Text of values that the row has in another form.
    pub(crate) text: String,
    pub(crate) each: Vec<Value>,
}

/// Position of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    /// Offset and length in the row.
    InRow(usize, usize),
    /// Offset and length in [`Values::text`].
    Written(usize, usize),
}

/// Fetches and decodes every row of an answer, as a script does; returns whether all could be decoded.
///
/// # Panics
///
/// A value is outside of its row or its text, or a row has fewer values than fields: a script would read
/// other memory.
#[cfg(any(test, feature = "fuzz"))]
pub(crate) fn are_decoded<E>(
    rows: &mut Rows,
    decode: impl Fn(RawRow<'_>, &mut Values) -> Result<(), E>,
) -> bool {
    let (mut values, mut are_whole) = (Values::default(), true);
    let mut set = rows.set();
    while let Some(of_set) = set {
        while let Some(row) = rows.fetch() {
            values.clear();
            if !of_set.has_rows || decode(row, &mut values).is_err() {
                are_whole = false;
                continue;
            }
            assert!(values.each.len() >= row.fields, "{row:?}: {values:?}");
            for value in &values.each {
                let found = match *value {
                    Value::Null => Some(&b""[..]),
                    Value::InRow(from, length) => row.bytes[from..].get(..length),
                    Value::Written(from, length) => values.text.as_bytes()[from..].get(..length),
                };
                assert!(found.is_some(), "{value:?} of {row:?}: {values:?}");
            }
        }
        set = rows.next_set();
    }
    are_whole
}

impl Values {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.each.clear();
    }
}
