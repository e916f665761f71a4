//! The account of a fleet that `fleet up` started: which agents, on which hosts. It is stored before anything
//! is started.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{FleetError, of_file};
use crate::spool::{make_private, write_private};
use crate::wire;

/// A fleet on other machines.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// Version of this form.
    pub schema: String,
    /// Name of the fleet.
    pub name: String,
    /// The NATS server, without a password.
    pub server: String,
    /// The program on the hosts.
    pub program: String,
    /// Configuration of `ssh`, if it is not the user's.
    pub ssh_config: Option<PathBuf>,
    /// The hosts on which something may run.
    pub hosts: Vec<OfHost>,
}

/// Agents of one host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfHost {
    /// The host, as `ssh` knows it.
    pub host: String,
    /// Key of the order.
    pub key: String,
    /// Names of the agents.
    pub agents: Vec<String>,
}

/// Version of the form.
pub const SCHEMA: &str = "bakeoff.fleet/1";

/// Folder of the accounts of a user.
#[derive(Debug)]
pub struct Accounts(PathBuf);

impl Accounts {
    /// - `state`: folder for the state of the program's user.
    pub fn of(state: &Path) -> Self {
        Self(state.join("fleet"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(format!("{name}.json"))
    }

    /// Stores a new account.
    ///
    /// # Errors
    ///
    /// There is one of this name, or the file cannot be written.
    pub fn create(&self, account: &Account) -> Result<(), FleetError> {
        if !wire::is_name(&account.name) {
            let text = format!("invalid fleet name {}: use letters, digits, - and _", account.name);
            return Err(FleetError::Unfit(text));
        }
        make_private(&self.0).map_err(of_file(&self.0))?;
        let path = self.path(&account.name);
        // The name appears with its content, and only if it is new.
        let made = self.0.join(format!(".{}", fresh_name()?));
        let stored = write_private(&made, &bytes(account)).and_then(|()| fs::hard_link(&made, &path));
        let _ = fs::remove_file(&made);
        match stored.and_then(|()| fs::File::open(&self.0)?.sync_all()) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(FleetError::Unfit(format!(
                "a fleet {} was started before: give another --name, or `bakeoff fleet down {}`",
                account.name, account.name
            ))),
            stored => stored.map_err(of_file(&path)),
        }
    }

    /// Stores the hosts that are left, or removes the account if none is.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn update(&self, account: &Account) -> Result<(), FleetError> {
        let path = self.path(&account.name);
        let stored = if account.hosts.is_empty() {
            fs::remove_file(&path)
        } else {
            write_private(&path, &bytes(account))
        };
        stored.map_err(of_file(&path))
    }

    /// All accounts, by name.
    ///
    /// # Errors
    ///
    /// A file cannot be read, or is no account.
    pub fn all(&self) -> Result<Vec<Account>, FleetError> {
        let mut accounts = Vec::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_none_or(|extension| extension != "json") {
                continue;
            }
            let bytes = fs::read(&path).map_err(of_file(&path))?;
            let account: Account = serde_json::from_slice(&bytes).map_err(|e| of_file(&path)(e.into()))?;
            if account.schema != SCHEMA {
                let text = format!("{}: written by another version: {}", path.display(), account.schema);
                return Err(FleetError::Unfit(text));
            }
            accounts.push(account);
        }
        accounts.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(accounts)
    }
}

fn bytes(account: &Account) -> Vec<u8> {
    let mut bytes = serde_json::to_vec_pretty(account).expect("it has no map with keys that are no strings");
    bytes.push(b'\n');
    bytes
}

/// A name that no other fleet has.
///
/// # Errors
///
/// The system gives no randomness.
pub fn fresh_name() -> Result<String, FleetError> {
    Ok(format!("f{}", wire::random(4).map_err(of_file(Path::new(wire::RANDOM)))?))
}

/// Shares `agents` out to `hosts`, in turns; the names of a host's agents tell the fleet and a number.
///
/// - `nonce`: makes the keys of the orders new.
pub fn shared_out(name: &str, nonce: &str, agents: usize, hosts: &[String]) -> Vec<OfHost> {
    let of_host = |(index, host): (usize, &String)| OfHost {
        host: host.clone(),
        key: format!("{nonce}-{}", index + 1),
        agents: (index..agents).step_by(hosts.len()).map(|agent| format!("{name}-{}", agent + 1)).collect(),
    };
    let all = hosts.iter().enumerate().map(of_host);
    all.filter(|of_host| !of_host.agents.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn agents_are_shared_out_evenly_and_each_has_one_name() {
        let hosts = ["a", "b", "c"].map(str::to_owned);
        let shared = shared_out("f", "k", 5, &hosts);
        let agents: Vec<Vec<&str>> =
            shared.iter().map(|of| of.agents.iter().map(String::as_str).collect()).collect();
        assert_eq!(agents, [vec!["f-1", "f-4"], vec!["f-2", "f-5"], vec!["f-3"]]);
        assert_eq!(shared_out("f", "k", 2, &hosts).len(), 2, "a host without agents has nothing to do");
    }

    #[test]
    fn an_account_is_private_and_its_name_is_taken() {
        let state = tempfile::tempdir().unwrap();
        let accounts = Accounts::of(state.path());
        let account = Account {
            schema: SCHEMA.to_owned(),
            name: "lab".to_owned(),
            server: "nats://127.0.0.1:1".to_owned(),
            program: "bakeoff".to_owned(),
            ssh_config: None,
            hosts: shared_out("lab", "k", 2, &["h".to_owned()]),
        };
        accounts.create(&account).unwrap();
        let mode = |name: &str| fs::metadata(state.path().join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode("fleet"), mode("fleet/lab.json")), (0o700, 0o600));
        assert!(accounts.create(&account).unwrap_err().to_string().contains("fleet down lab"));
        assert_eq!(accounts.all().unwrap(), std::slice::from_ref(&account));
        accounts.update(&Account { hosts: Vec::new(), ..account.clone() }).unwrap();
        assert_eq!(accounts.all().unwrap(), []);
        for name in ["../x", "", "a/b"] {
            assert!(accounts.create(&Account { name: name.to_owned(), ..account.clone() }).is_err());
        }
    }
}
