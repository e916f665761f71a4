//! Scripts in Lua on any SQL server, or without one.

use std::sync::Arc;

use record::load::LoadSettings;
use record::missing::Missing;

use crate::connection::{Connection, Cut, Failure, OperationShare};
use crate::driver::{Driver, Look};
use crate::lua::context::operations;
use crate::lua::program::Program;
use crate::lua::server::Server;
use crate::lua::worker;

/// The driver of a load that runs a script.
struct Scripted {
    program: Arc<Program>,
}

/// The driver of a script on that server.
pub(crate) fn driver(settings: &LoadSettings, server: Arc<dyn Server>) -> Arc<dyn Driver> {
    Arc::new(Scripted { program: Arc::new(Program::new(settings, Some("run"), Some(server))) })
}

/// The driver of a script that uses no server.
pub(crate) fn without_server(settings: &LoadSettings) -> Arc<dyn Driver> {
    Arc::new(Scripted { program: Arc::new(Program::new(settings, Some("run"), None)) })
}

impl Driver for Scripted {
    fn connect(&self, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        worker::open(&self.program, cut)
    }

    fn look(&self, cut: &Cut) -> Result<Look, Failure> {
        let version = match &self.program.server {
            Some(server) => Ok(server.version(cut)?),
            None => Err(Missing::because("there is no server")),
        };
        Ok(Look { version, store: None })
    }

    fn operations(&self) -> Vec<OperationShare> {
        if self.program.server.is_some() { operations() } else { Vec::new() }
    }

    fn waits_for_server(&self) -> bool {
        self.program.server.is_some()
    }

    fn script(&self) -> Option<&Arc<Program>> {
        Some(&self.program)
    }
}
