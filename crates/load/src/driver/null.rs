//! `null:` does nothing: a load on it measures the generator's own cost.

use std::sync::Arc;

use record::load::Workload;
use record::missing::Missing;

use super::{Driver, Look, Scheme};
use crate::connection::{Attempt, Connection, Cut, Failure, FailureClass, OperationShare};

pub(super) const SCHEME: Scheme = Scheme {
    name: "null",
    form: "null:",
    workloads: &[Workload::Native, Workload::Script],
    check: |target| match target.expose() {
        "null:" => Ok(()),
        _ => Err("nothing may follow the colon: write `null:`".to_owned()),
    },
    address: |_| None,
    open: |settings| {
        if settings.workload != Workload::Script {
            return Ok(Arc::new(Null));
        }
        #[cfg(feature = "lua")]
        if settings.scripts.is_lua() {
            return Ok(super::sql::scripted::without_server(settings));
        }
        let text = "only a Lua script (FILE.lua) can run without a server";
        Err(Failure::new(FailureClass::Configuration, text))
    },
};

struct Null;

/// A driver for tests of code that all drivers share.
#[cfg(test)]
pub(crate) fn driver() -> Arc<dyn Driver> {
    Arc::new(Null)
}

impl Driver for Null {
    fn connect(&self, _: &Cut) -> Result<Box<dyn Connection>, Failure> {
        Ok(Box::new(Null))
    }

    fn look(&self, _: &Cut) -> Result<Look, Failure> {
        Ok(Look { version: Err(Missing::because("there is no server")), store: None })
    }

    fn operations(&self) -> Vec<OperationShare> {
        Vec::new()
    }
}

impl Connection for Null {
    fn run(&mut self, _: &mut Attempt<'_>) -> Result<(), Failure> {
        Ok(())
    }
}
