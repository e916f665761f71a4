//! Constants of packets and types, shared by requests and answers.

use crate::driver::sql::broken;

/// A payload of this length continues in the next packet.
pub(super) const PAYLOAD_MAX: usize = 0xff_ffff;

pub(super) const HEADER_BYTES: usize = 4;

/// Types of columns and parameters.
pub(super) mod kind {
    pub(in crate::driver::sql::mysql) const TINY: u8 = 1;
    pub(in crate::driver::sql::mysql) const SHORT: u8 = 2;
    pub(in crate::driver::sql::mysql) const LONG: u8 = 3;
    pub(in crate::driver::sql::mysql) const FLOAT: u8 = 4;
    pub(in crate::driver::sql::mysql) const DOUBLE: u8 = 5;
    pub(in crate::driver::sql::mysql) const NULL: u8 = 6;
    pub(in crate::driver::sql::mysql) const TIMESTAMP: u8 = 7;
    pub(in crate::driver::sql::mysql) const LONGLONG: u8 = 8;
    pub(in crate::driver::sql::mysql) const INT24: u8 = 9;
    pub(in crate::driver::sql::mysql) const DATE: u8 = 10;
    pub(in crate::driver::sql::mysql) const TIME: u8 = 11;
    pub(in crate::driver::sql::mysql) const DATETIME: u8 = 12;
    pub(in crate::driver::sql::mysql) const YEAR: u8 = 13;
    pub(in crate::driver::sql::mysql) const VAR_STRING: u8 = 253;
}

/// Reason why there is no usable answer, with the server's error number.
pub(super) type Broken = broken::Broken<u16>;

/// A column of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) kind: u8,
    pub(super) is_unsigned: bool,
}
