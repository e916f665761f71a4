//! The end of a server while one of its entries runs: no wish of a user, so the next server continues the
//! entry.

use record::clock::WallAnchor;
use record::run::RunId;
use rusqlite::params;

use super::{Queue, QueueError};

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

    /// Records that an entry gets a new process: what a server has asked of an earlier one does not count.
    ///
    /// # Errors
    ///
    /// The disk refuses.
    pub fn take_over(&mut self, id: RunId) -> Result<(), QueueError> {
        let sql = "UPDATE entry SET left_unix_ns = NULL WHERE id = ?1 AND left_unix_ns IS NOT NULL";
        self.execute(sql, params![id.to_string()]).map(drop)
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
