//! Facts about the processes of an entry that outlive its server: the server's own end, which differs from a
//! wish of a user, so the next server continues the entry; and the kills of its processes in a row.

use record::clock::WallAnchor;
use record::run::RunId;
use rusqlite::params;

use super::{Queue, QueueError};
use crate::entry::Deaths;

impl Queue {
    /// Records that a server that ends is about to ask the process of an entry to stop.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn leave(&mut self, id: RunId) -> Result<(), QueueError> {
        let now = WallAnchor::now().unix_ns.cast_signed();
        let sql = "UPDATE entry SET left_unix_ns = ?2 WHERE id = ?1 AND left_unix_ns IS NULL";
        self.execute(sql, params![id.to_string(), now]).map(drop)
    }

    /// Kills of an entry's processes in a row, with the process that its server started last.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn deaths(&self, id: RunId) -> Result<Deaths, QueueError> {
        let sql = "SELECT coalesce(deaths, 0), coalesce(deaths_ended, 0) FROM entry WHERE id = ?1";
        let read = |row: &rusqlite::Row<'_>| Ok(Deaths { in_a_row: row.get(0)?, ended: row.get(1)? });
        self.db.query_row(sql, [id.to_string()], read).map_err(|e| self.wrong(e))
    }

    /// Records that an entry gets a new process: what a server has asked of an earlier one does not count.
    ///
    /// - `deaths`: with the new process.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn take_over(&mut self, id: RunId, deaths: Deaths) -> Result<(), QueueError> {
        let sql = "UPDATE entry SET left_unix_ns = NULL, deaths = ?2, deaths_ended = ?3 WHERE id = ?1";
        self.execute(sql, params![id.to_string(), deaths.in_a_row, deaths.ended]).map(drop)
    }

    /// Whether a server has asked the process of an entry to stop.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn is_left(&self, id: RunId) -> Result<bool, QueueError> {
        let sql = "SELECT count(*) FROM entry WHERE id = ?1 AND left_unix_ns IS NOT NULL";
        let count: u32 =
            self.db.query_row(sql, [id.to_string()], |row| row.get(0)).map_err(|e| self.wrong(e))?;
        Ok(count > 0)
    }
}
