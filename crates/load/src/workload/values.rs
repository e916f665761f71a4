//! Values that differ from event to event, in the texts of requests and commands.

mod data;
mod read_once;
mod template;

pub(crate) use self::data::{Data, text_of};
pub(crate) use self::read_once::data_of;
pub(crate) use self::template::{Part, Template, around, is_template};
