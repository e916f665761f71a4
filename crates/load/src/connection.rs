//! One worker's connection to a target: the types shared by engine, workloads and drivers.

mod answer;
mod attempt;
mod cut;
mod failure;
mod laps;
mod operation;
pub(crate) mod seat;

pub(crate) use self::answer::{Answer, Keys};
pub(crate) use self::attempt::{Attempt, Connection, Idle};
pub(crate) use self::cut::Cut;
pub(crate) use self::failure::{Failure, FailureClass};
pub(crate) use self::laps::Laps;
pub(crate) use self::operation::OperationShare;
