//! Connections of scripts in Lua to MariaDB and MySQL.

use std::sync::Arc;

use record::load::LoadSettings;

use super::answer::{Broken, Column, Form, Keep, PreparedReader, Reader, Wanted};
use super::codec::{self, Prepared};
use super::cursor::Cursor;
use super::refusal::broken_failure;
use super::server::{
    ASIDE_BYTES_MAX, CANNOT_BE_PREPARED, MysqlTarget, describe, log_in, read_unasked, version_name,
};
use crate::connection::{Cut, Failure, FailureClass, Idle};
use crate::driver::Driver;
use crate::driver::sql::scripted;
use crate::driver::sql::session::answer_bytes_max;
use crate::lua::rows::{RawRow, Rows};
#[cfg(any(test, feature = "fuzz"))]
use crate::lua::server::are_decoded;
use crate::lua::server::{Client, Refused, Server, Value, Values};
use crate::net::tls::Plan;
use crate::net::{Endpoint, Wire};
use crate::workload::statement::{Parameter, Quoting, StatementText};

/// `CR_SERVER_LOST`, by which scripts recognize a lost connection.
const SERVER_LOST: i32 = 2013;

struct LuaServer {
    place: MysqlTarget,
    peer: Endpoint,
    tls: Option<Plan>,
    answer_bytes_max: usize,
}

/// The driver of a script.
pub(super) fn driver(
    settings: &LoadSettings,
    (place, peer, tls): (MysqlTarget, Endpoint, Option<Plan>),
) -> Arc<dyn Driver> {
    let answer_bytes_max = answer_bytes_max(settings);
    scripted::driver(settings, Arc::new(LuaServer { place, peer, tls, answer_bytes_max }))
}

impl Server for LuaServer {
    fn driver(&self) -> &'static str {
        "mysql"
    }

    fn open(&self, cut: &Cut) -> Result<Box<dyn Client>, Failure> {
        let (mut wire, _) = log_in(&self.place, &self.peer, self.tls.as_ref(), cut)?;
        wire.settle()?;
        Ok(Box::new(MysqlClient {
            wire,
            reader: Reader::new(self.answer_bytes_max),
            request: Vec::new(),
            statements: Vec::new(),
            spare: Vec::new(),
            sql: String::new(),
            columns: Vec::new(),
        }))
    }

    fn version(&self, cut: &Cut) -> Result<String, Failure> {
        let (wire, version) = log_in(&self.place, &self.peer, self.tls.as_ref(), cut)?;
        Ok(version_name(&version) + wire.tls_version())
    }
}

struct MysqlClient {
    wire: Wire,
    reader: Reader,
    request: Vec<u8>,
    /// `None` for a closed statement.
    statements: Vec<Option<Prepared>>,
    /// Closed statements; the next ones use their memory.
    spare: Vec<Prepared>,
    /// Buffer for a statement's text.
    sql: String,
    /// Columns of the answer to a statement sent as text.
    columns: Vec<Column>,
}

impl MysqlClient {
    /// Sends the request and stores the answer.
    ///
    /// - `statement`: the prepared statement that the request executes.
    fn exchange(&mut self, statement: Option<usize>, rows: &mut Rows) -> Result<(), Refused> {
        let Self { wire, reader, request, statements, columns, .. } = self;
        rows.clear();
        reader.begin();
        let prepared = statement.and_then(|number| statements[number].as_mut());
        let (columns, form) = match prepared {
            Some(prepared) => (&mut prepared.columns, Form::Binary),
            None => (columns, Form::Text),
        };
        let mut wanted = Some(Wanted { keep: Keep::All(rows), columns, form });
        let mut exchange = || -> Result<_, Failure> {
            wire.hear_left(false, read_unasked)?;
            wire.send(request)?;
            wire.hear(|input, _| reader.hear(input, &mut wanted))
        };
        let outcome = exchange().map_err(Broken::from).and_then(|answer| answer);
        outcome.map(drop).map_err(|broken| {
            if let Some(prepared) = statement.and_then(|number| self.statements[number].as_mut()) {
                prepared.forget_types();
            }
            refused(broken)
        })
    }
}

fn refused(broken: Broken) -> Refused {
    let (code, state, message_bytes) = match &broken {
        Broken::Refused { code, state, message } => (*code, *state, message.len()),
        _ => return Refused::lost(SERVER_LOST, broken_failure(broken)),
    };
    let failure = broken_failure(broken);
    if failure.class == FailureClass::Connection {
        return Refused { state, message_bytes, ..Refused::lost(i32::from(code), failure) };
    }
    let is_unpreparable = code == CANNOT_BE_PREPARED;
    Refused { errno: i32::from(code), state, failure, message_bytes, restarts: false, is_unpreparable }
}

impl Client for MysqlClient {
    fn query(&mut self, sql: &[u8], rows: &mut Rows) -> Result<(), Refused> {
        codec::write_query(sql, &mut self.request);
        self.exchange(None, rows)
    }

    fn prepare(&mut self, statement: &StatementText) -> Result<usize, Refused> {
        statement.write_marks(&mut self.sql, |_, sql| sql.push('?'));
        let mut prepared = self.spare.pop().unwrap_or_else(|| Prepared::new(0, Vec::new()));
        let reader = PreparedReader::nameless(ASIDE_BYTES_MAX, std::mem::take(&mut prepared.columns));
        let described = describe(&mut self.wire, &self.sql, &mut self.request, reader);
        (prepared.id, prepared.columns) = described.map_err(refused)?;
        prepared.forget_types();
        let free = self.statements.iter().position(Option::is_none);
        let Some(number) = free else {
            self.statements.push(Some(prepared));
            return Ok(self.statements.len() - 1);
        };
        self.statements[number] = Some(prepared);
        Ok(number)
    }

    fn execute(
        &mut self,
        statement: usize,
        parameters: &[Parameter<'_>],
        rows: &mut Rows,
    ) -> Result<(), Refused> {
        let Some(Some(prepared)) = self.statements.get_mut(statement) else {
            return Err(Refused::unsendable("the statement was closed"));
        };
        codec::write_execute(prepared, parameters, &mut self.request);
        self.exchange(Some(statement), rows)
    }

    fn close(&mut self, statement: usize) {
        if let Some(prepared) = self.statements.get_mut(statement).and_then(Option::take) {
            codec::write_close(prepared.id, &mut self.request);
            // The server does not answer. If the connection is broken, the next statement finds that.
            let _ = self.wire.send(&self.request);
            self.spare.push(prepared);
        }
    }

    fn quoting(&self) -> Quoting {
        Quoting::Backslash
    }

    fn decode(&self, row: RawRow<'_>, values: &mut Values) -> Result<(), Failure> {
        decode(row, values).map_err(broken_failure)
    }

    /// Always true: MariaDB does not report whether an error ended the transaction.
    fn may_be_in_transaction(&self) -> bool {
        true
    }

    fn idle(&mut self) -> Idle {
        self.wire.hear_unasked(|input, _| read_unasked(input)).map_or_else(Idle::Lost, |()| Idle::Stands)
    }
}

fn decode(row: RawRow<'_>, values: &mut Values) -> Result<(), Broken> {
    let place = |bytes: &[u8], rest: &Cursor<'_>| {
        // The value ends where the rest begins.
        Value::InRow(row.bytes.len() - rest.0.len() - bytes.len(), bytes.len())
    };
    let mut rest = Cursor(row.bytes);
    if row.kinds.is_empty() {
        for _ in 0..row.fields {
            values.each.push(if rest.0.first() == Some(&0xfb) {
                rest.0 = &rest.0[1..];
                Value::Null
            } else {
                let bytes = rest.bytes()?;
                place(bytes, &rest)
            });
        }
        return Ok(());
    }
    let [_] = rest.array()?;
    // The first two bits of the map are unused.
    let nulls = rest.split((row.fields + 9) / 8)?;
    for (i, (kind, is_unsigned)) in row.kinds.iter().enumerate() {
        if nulls[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1 {
            values.each.push(Value::Null);
            continue;
        }
        let from = values.text.len();
        let value = match rest.raw_value(*kind, *is_unsigned, &mut values.text)? {
            Some(bytes) => place(bytes, &rest),
            None => Value::Written(from, values.text.len() - from),
        };
        values.each.push(value);
    }
    Ok(())
}

/// The reader of whole answers without a connection, for [`crate::driver::readers`].
#[cfg(any(test, feature = "fuzz"))]
pub(super) fn reader(form: Form, bytes_max: usize) -> impl FnMut(&[u8]) -> (usize, Option<bool>) {
    let (mut reader, mut rows, mut columns) = (Reader::new(bytes_max), Rows::default(), Vec::new());
    move |input| {
        let mut wanted = Some(Wanted { keep: Keep::All(&mut rows), columns: &mut columns, form });
        let (taken, end) = reader.hear(input, &mut wanted);
        let end = end.map(|answer| answer.is_ok() && are_decoded(&mut rows, decode));
        assert!(end == Some(false) || rows.stored_bytes() <= bytes_max, "{} bytes", rows.stored_bytes());
        (taken, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::sql::mysql::format::kind;

    fn decoded(row: RawRow<'_>) -> Vec<Option<String>> {
        let mut values = Values::default();
        decode(row, &mut values).unwrap();
        let text = |value: &Value| match *value {
            Value::Null => None,
            Value::InRow(from, length) => {
                Some(String::from_utf8(row.bytes[from..from + length].to_vec()).unwrap())
            }
            Value::Written(from, length) => Some(values.text[from..from + length].to_owned()),
        };
        values.each.iter().map(text).collect()
    }

    #[test]
    fn values_of_both_encodings_are_found_in_their_row() {
        let text = RawRow { bytes: b"\x02ab\xfb\x00\x011", fields: 4, kinds: &[] };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(decoded(text), [some("ab"), None, some(""), some("1")]);
        let bytes = b"\0\x08\xff\xff\xff\xff\x02hi\x07\0\0\0\0\0\0\0";
        let kinds =
            [(kind::LONG, false), (kind::LONG, true), (kind::VAR_STRING, false), (kind::LONGLONG, true)];
        let binary = RawRow { bytes, fields: 4, kinds: &kinds };
        assert_eq!(decoded(binary), [some("-1"), None, some("hi"), some("7")]);
        for cut in 0..bytes.len() {
            let row = RawRow { bytes: &bytes[..cut], fields: 4, kinds: &kinds };
            assert!(decode(row, &mut Values::default()).is_err(), "{cut}");
        }
    }
}
