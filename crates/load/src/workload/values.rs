//! Values that differ from event to event, in the texts of requests and commands.

mod data;
mod template;

pub(crate) use self::data::Data;
pub(crate) use self::template::{Part, Template, around, is_template};
