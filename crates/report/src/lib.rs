//! Reports: measurements and their meaning, as JSON, as text for a terminal, as Markdown and as one offline
//! HTML page.
//!
//! No code here reads a file or a clock: a report is a function of its arguments, so the same archive gives
//! the same bytes.

pub mod badge;
pub mod csv;
pub mod differing;
pub mod exports;
pub mod gates;
pub mod identity;
pub mod json;
pub mod page;
pub mod proofread;
pub mod provenance;
pub mod text;

mod answer;
mod chart;
mod claim;
mod concurrency;
mod finding;
mod flame;
mod functions;
mod heat_map;
mod html;
mod knee;
mod markdown;
mod names;
mod noise;
mod number;
mod render;
mod words;

pub use claim::{Claim, Finding, Standing, claim};
pub use flame::{flame_graph, folded_stacks};
pub use heat_map::IoHeatMap;
pub use html::SCRIPT as PAGE_SCRIPT;
pub use noise::{Cost, Wanted};
pub use page::PLACES_MAX;
pub use render::{Form, render};
