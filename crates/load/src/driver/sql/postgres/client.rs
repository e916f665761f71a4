//! Connections of scripts in Lua to PostgreSQL.

use std::fmt::Write as _;
use std::sync::Arc;

use record::load::LoadSettings;

use super::answer::{Broken, Keep, Reader, Ready, Wanted, field_length};
use super::codec;
use super::refusal::broken_failure;
use super::server::{Reached, UNIQUE_VIOLATION, read_unasked, server_version, too_long};
use crate::connection::{Cut, Failure, FailureClass, Idle};
use crate::driver::Driver;
use crate::driver::sql::scripted;
use crate::driver::sql::session::answer_bytes_max;
use crate::lua::rows::{RawRow, Rows};
#[cfg(any(test, feature = "fuzz"))]
use crate::lua::server::are_decoded;
use crate::lua::server::{Client, Refused, Server, Value, Values};
use crate::net::Wire;
use crate::workload::statement::{Parameter, Quoting, StatementText};

struct LuaServer {
    place: Reached,
    answer_bytes_max: usize,
}

/// The driver of a script.
pub(super) fn driver(settings: &LoadSettings, place: Reached) -> Arc<dyn Driver> {
    let answer_bytes_max = answer_bytes_max(settings);
    scripted::driver(settings, Arc::new(LuaServer { place, answer_bytes_max }))
}

impl Server for LuaServer {
    fn driver(&self) -> &'static str {
        "pgsql"
    }

    fn open(&self, cut: &Cut) -> Result<Box<dyn Client>, Failure> {
        let (mut wire, _) = self.place.connect(cut)?;
        wire.settle()?;
        Ok(Box::new(PostgresClient {
            wire,
            reader: Reader::new(self.answer_bytes_max),
            request: Vec::new(),
            ready: Ready::Idle,
            statements: Vec::new(),
            sql: String::new(),
            described: Rows::default(),
            no_names: Vec::new(),
        }))
    }

    fn version(&self, cut: &Cut) -> Result<String, Failure> {
        let (wire, welcome) = self.place.connect(cut)?;
        Ok(server_version(&wire, &welcome).unwrap_or_else(|| "PostgreSQL".to_owned()))
    }
}

struct PostgresClient {
    wire: Wire,
    reader: Reader,
    request: Vec<u8>,
    ready: Ready,
    /// Fields in the answer to each statement, 0 if it has no rows; indexed by the statement's number. `None`
    /// for a closed statement.
    statements: Vec<Option<usize>>,
    /// Buffers for a statement's text, and for the description of its answer.
    sql: String,
    described: Rows,
    /// Names of columns, which are not stored.
    no_names: Vec<String>,
}

impl PostgresClient {
    /// Sends the request and stores the answer.
    ///
    /// - `fields`: fields of its rows, if the server does not describe them again.
    fn exchange(&mut self, fields: usize, rows: &mut Rows) -> Result<(), Refused> {
        let outcome = self.ask(fields, rows);
        outcome.map_err(|broken| {
            let Broken::Refused { code, state, message } = &broken else {
                return Refused::lost(0, broken_failure(broken));
            };
            let (state, message_bytes) = (*state, message.len());
            // sysbench rolls back after these, and begins the event again.
            let restarts = matches!(code.as_str(), "40P01" | "40001" | UNIQUE_VIOLATION);
            let failure = broken_failure(broken);
            if failure.class == FailureClass::Connection {
                return Refused { state, message_bytes, ..Refused::lost(0, failure) };
            }
            Refused { errno: 0, state, failure, message_bytes, restarts, is_unpreparable: false }
        })
    }

    fn ask(&mut self, fields: usize, rows: &mut Rows) -> Result<(), Broken> {
        let Self { wire, reader, request, no_names, .. } = self;
        rows.clear();
        if fields > 0 {
            rows.begin_set(fields);
        }
        reader.begin(codec::completion_of(request));
        let mut wanted = Some(Wanted { keep: Keep::All(rows), columns: no_names });
        wire.hear_left(false, read_unasked)?;
        wire.send(request)?;
        // A refusal inside a transaction makes it fail; if there was no transaction, a rollback does no harm.
        self.ready = Ready::InFailedTransaction;
        self.ready = wire.hear(|input, is_end| reader.hear(input, is_end, &mut wanted))??;
        // Of several statements in one text, scripts read the last.
        rows.last_set();
        Ok(())
    }
}

fn unsendable(_: codec::TooLong) -> Refused {
    Refused::unsendable(&too_long(codec::TooLong).text)
}

impl Client for PostgresClient {
    fn query(&mut self, sql: &[u8], rows: &mut Rows) -> Result<(), Refused> {
        codec::write_query(sql, &mut self.request).map_err(unsendable)?;
        self.exchange(0, rows)
    }

    fn prepare(&mut self, statement: &StatementText) -> Result<usize, Refused> {
        let free = self.statements.iter().position(Option::is_none);
        let number = free.unwrap_or(self.statements.len());
        statement.write_marks(&mut self.sql, |number, sql| {
            // Writing to a string cannot fail.
            let _ = write!(sql, "${number}");
        });
        codec::write_prepare(number, &self.sql, &mut self.request).map_err(unsendable)?;
        let mut described = std::mem::take(&mut self.described);
        let outcome = self.exchange(0, &mut described);
        let fields = described.set().map_or(0, |set| set.fields);
        self.described = described;
        outcome?;
        self.statements.resize(self.statements.len().max(number + 1), None);
        self.statements[number] = Some(fields);
        Ok(number)
    }

    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        rows: &mut Rows,
    ) -> Result<(), Refused> {
        let Some(fields) = self.statements.get(statement).copied().flatten() else {
            return Err(Refused::unsendable("the statement was closed"));
        };
        codec::write_execute(statement, parameters, &mut self.request).map_err(unsendable)?;
        self.exchange(fields, rows)
    }

    fn close(&mut self, statement: usize) {
        if self.statements.get_mut(statement).and_then(Option::take).is_none() {
            return;
        }
        // If the connection is broken, the next statement finds that.
        if codec::write_close(statement, &mut self.request).is_ok() {
            let _ = self.exchange(0, &mut Rows::default());
        }
    }

    fn quoting(&self) -> Quoting {
        Quoting::Standard
    }

    fn decode(&self, row: RawRow<'_>, values: &mut Values) -> Result<(), Failure> {
        let cut_short = || Failure::new(FailureClass::Connection, "a row is truncated");
        decode(row, values).ok_or_else(cut_short)
    }

    fn may_be_in_transaction(&self) -> bool {
        self.ready != Ready::Idle
    }

    fn idle(&mut self) -> Idle {
        self.wire.hear_unasked(|input, _| read_unasked(input)).map_or_else(Idle::Lost, |()| Idle::Stands)
    }
}

fn decode(row: RawRow<'_>, values: &mut Values) -> Option<()> {
    let (count, mut rest) = row.bytes.split_first_chunk()?;
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk()?;
        let Some(length) = field_length(*length).ok()? else {
            values.each.push(Value::Null);
            rest = after;
            continue;
        };
        let from = row.bytes.len() - after.len();
        rest = after.get(length..)?;
        values.each.push(Value::InRow(from, length));
    }
    // A row of fewer fields than were announced has NULL in the others.
    values.each.resize(row.fields.max(values.each.len()), Value::Null);
    Some(())
}

/// The reader of whole answers without a connection, for [`crate::driver::readers`].
///
/// - `fields`: fields of the rows, if the server does not describe them.
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn reader(fields: usize, bytes_max: usize) -> impl FnMut(&[u8], bool) -> (usize, Option<bool>) {
    let (mut reader, mut rows, mut no_names) = (Reader::new(bytes_max), Rows::default(), Vec::new());
    if fields > 0 {
        rows.begin_set(fields);
    }
    move |input, is_end| {
        let mut wanted = Some(Wanted { keep: Keep::All(&mut rows), columns: &mut no_names });
        let (taken, end) = reader.hear(input, is_end, &mut wanted);
        let end = end.map(|answer| {
            answer.is_ok() && are_decoded(&mut rows, |row, values| decode(row, values).ok_or(()))
        });
        assert!(end == Some(false) || rows.stored_bytes() <= bytes_max, "{} bytes", rows.stored_bytes());
        (taken, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_in_their_row() {
        let bytes = b"\0\x03\0\0\0\x02ab\xff\xff\xff\xff\0\0\0\0";
        let mut values = Values::default();
        decode(RawRow { bytes, fields: 3, kinds: &[] }, &mut values).unwrap();
        assert_eq!(values.each, [Value::InRow(6, 2), Value::Null, Value::InRow(16, 0)]);
        let negative = RawRow { bytes: b"\0\x01\xff\xff\xff\xfe", fields: 1, kinds: &[] };
        assert!(decode(negative, &mut Values::default()).is_none());
        for cut in 0..bytes.len() {
            let row = RawRow { bytes: &bytes[..cut], fields: 3, kinds: &[] };
            assert!(decode(row, &mut Values::default()).is_none(), "{cut}");
        }
    }
}
