//! Requests with values that differ from event to event.

use std::io::Write as _;

use crate::schedule::random::Random;
use crate::workload::values::{Data, Part, Template};

/// A request with values that differ from event to event.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Written {
    pub(super) line: Template,
    pub(super) headers: Template,
    pub(super) body: Template,
    /// Whether the request has a `Content-Length` header.
    pub(super) has_length: bool,
}

impl Written {
    /// Writes the head without its final empty line, and the body separately.
    pub(super) fn write(
        &self,
        data: Option<&Data>,
        random: &mut Random,
        body: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let row = data.map_or(&[][..], |data| data.draw(random));
        self.line.write(Part::Path, row, random, out)?;
        self.headers.write(Part::Header, row, random, out)?;
        body.clear();
        self.body.write(Part::Body, row, random, body)?;
        if self.has_length {
            // A write into memory cannot fail.
            let _ = write!(out, "Content-Length: {}\r\n", body.len());
        }
        Ok(())
    }
}
