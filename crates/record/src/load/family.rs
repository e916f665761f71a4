//! Families of targets.

use crate::target::Target;

/// Kind of target, which determines the kind of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Transactions.
    Database,
    /// Reads and writes of values.
    Cache,
    /// HTTP requests.
    Web,
    /// Runs of a command.
    Command,
    /// Nothing.
    Nothing,
}

impl Family {
    /// Family of a target; `None` for an unknown scheme.
    pub fn of(target: &Target) -> Option<Self> {
        match target.scheme() {
            "sqlite" | "mysql" | "postgres" => Some(Self::Database),
            "memcached" | "memcaches" | "memcached+unix" | "redis" | "rediss" | "redis+unix" => {
                Some(Self::Cache)
            }
            "http" | "https" => Some(Self::Web),
            "exec" => Some(Self::Command),
            "null" => Some(Self::Nothing),
            _ => None,
        }
    }

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Database => "databases (sqlite:, mysql:, postgres:)",
            Self::Cache => "caches (memcached:, redis:)",
            Self::Web => "web servers (http:, https:)",
            Self::Command => "commands (exec:)",
            Self::Nothing => "null:",
        }
    }
}
