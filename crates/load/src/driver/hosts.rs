//! Several hosts in a target: `mysql://app@h1,h2:3307/bench`.
//!
//! Each host has a separate driver, opened with the target reduced to that host: drivers, TLS and name
//! resolution need no changes. Connection *i* belongs to host *i mod n* and stays there: there is no failover
//! to another host.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use record::load::LoadSettings;
use record::load::rules::Family;
use record::quantity::plural;
use record::target::Target;

use super::{Driver, Scheme};
use crate::connection::{Connection, Cut, Failure, FailureClass};
use crate::control::progress::Event;
use crate::error::LoadError;
#[cfg(feature = "lua")]
use crate::lua::program::Failed;
use crate::net::address::ServerAddress;
use crate::schedule::share::Share;

/// The hosts of a target: one or several.
#[derive(Clone)]
pub(crate) struct Hosts {
    all: Vec<Host>,
    /// The part of the connections that is here, if several generators play the load.
    share: Option<Share>,
}

/// A host and its driver.
#[derive(Clone)]
pub(crate) struct Host {
    /// Displayed name: `h1:3306`. Empty if there is only one host.
    pub(crate) name: String,
    pub(crate) driver: Arc<dyn Driver>,
}

/// Makes the scripts of all hosts draw their unique numbers from one sequence.
#[cfg(feature = "lua")]
fn share_unique(hosts: &[Host]) {
    let mut scripts = hosts.iter().filter_map(|host| host.driver.script());
    if let Some(first) = scripts.next() {
        scripts.for_each(|other| other.share_unique(first));
    }
}

impl Hosts {
    /// Creates the hosts of a target with at most one.
    pub(crate) fn one(driver: Arc<dyn Driver>) -> Self {
        Self { all: vec![Host { name: String::new(), driver }], share: None }
    }

    /// Opens the drivers of all hosts in the settings' target.
    pub(crate) fn open(settings: &LoadSettings, scheme: &Scheme) -> Result<Self, Failure> {
        let wrong = |text| Failure::new(FailureClass::Configuration, text);
        let targets = targets(&settings.target).map_err(wrong)?;
        let of_host = |target: &Target| LoadSettings { target: target.clone(), ..settings.clone() };
        Ok(if targets.len() == 1 {
            Self::one((scheme.open)(&of_host(&targets[0]))?)
        } else {
            let mut hosts = Vec::with_capacity(targets.len());
            for (target, name) in targets.iter().zip(names(settings, scheme, &targets).map_err(wrong)?) {
                let driver =
                    (scheme.open)(&of_host(target)).map_err(|failure| in_the_name_of(&name, failure))?;
                hosts.push(Host { name, driver });
            }
            #[cfg(feature = "lua")]
            share_unique(&hosts);
            Self { all: hosts, share: None }
        })
    }

    /// Variant for a generator that has a share of the connections: each goes to the host to which it goes in
    /// a load of one generator.
    pub(crate) fn of_share(self, share: Option<Share>) -> Self {
        Self { share, ..self }
    }

    pub(crate) fn all(&self) -> &[Host] {
        &self.all
    }

    pub(crate) fn are_several(&self) -> bool {
        self.all.len() > 1
    }

    /// A driver for properties that all hosts share: all are of one kind and have the same settings.
    pub(crate) fn driver(&self) -> &dyn Driver {
        &*self.all[0].driver
    }

    /// The host of a connection.
    pub(crate) fn of(&self, connection: usize) -> &Host {
        &self.all[self.number_of(connection)]
    }

    /// Index of a connection's host.
    pub(crate) fn number_of(&self, connection: usize) -> usize {
        let number = self.share.as_ref().map_or(connection as u64, |share| share.number(connection as u64));
        usize::try_from(number % self.all.len() as u64).expect("a host's index")
    }

    /// Number of connections that belong to each host, of `of` here.
    pub(crate) fn connections(&self, of: u32) -> Vec<u32> {
        let mut each = vec![0; self.all.len()];
        (0..of as usize).for_each(|connection| each[self.number_of(connection)] += 1);
        each
    }

    /// Number of hosts that have any of `of` connections here.
    pub(crate) fn reached(&self, of: u32) -> usize {
        // After as many patterns of the share as there are hosts, the hosts are the same again.
        let pattern = self.share.as_ref().map_or(1, Share::per_period);
        let some = (of as usize).min(self.all.len() * pattern);
        (0..some).map(|connection| self.number_of(connection)).collect::<BTreeSet<_>>().len()
    }

    /// Opens a worker's connection.
    pub(crate) fn connect(&self, connection: usize, cut: &Cut) -> Result<Box<dyn Connection>, Failure> {
        let host = self.of(connection);
        host.driver.connect(cut).map_err(|failure| host.names(failure))
    }
}

impl Hosts {
    /// Failure of the load's script itself: the load is of no use then.
    #[cfg_attr(not(feature = "lua"), expect(clippy::unused_self, reason = "only scripts in Lua fail so"))]
    pub(crate) fn script_failure(&self) -> Option<LoadError> {
        #[cfg(feature = "lua")]
        let failure = self.all.iter().find_map(|host| host.driver.script()?.failure().cloned());
        #[cfg(feature = "lua")]
        let failure =
            failure.map(
                |Failed { text, is_usage }| {
                    if is_usage { LoadError::ScriptText { text } } else { LoadError::Script { text } }
                },
            );
        #[cfg(not(feature = "lua"))]
        let failure = None;
        failure
    }
}

impl Host {
    /// Adds the host to the failure's text if there are several.
    pub(crate) fn names(&self, failure: Failure) -> Failure {
        in_the_name_of(&self.name, failure)
    }

    /// Adds the host before the text if there are several.
    pub(crate) fn says<'a>(&self, text: &'a str) -> Cow<'a, str> {
        said_of(&self.name, text)
    }
}

impl Host {
    /// Adds the host to an event about its data set if there are several.
    pub(crate) fn tells(&self, event: Event) -> Event {
        match event {
            Event::Preparing { table, unit, rows_done, rows } if !self.name.is_empty() => {
                Event::Preparing { table: format!("{table} on {}", self.name), unit, rows_done, rows }
            }
            other => other,
        }
    }

    /// Adds the host to the error's text if there are several.
    pub(crate) fn fails(&self, error: LoadError) -> LoadError {
        let said = |text: String| self.says(&text).into_owned();
        match error {
            LoadError::Refused { target, text } => LoadError::Refused { target, text: said(text) },
            LoadError::NotConnected { target, made, of, text } => {
                LoadError::NotConnected { target, made, of, text: said(text) }
            }
            LoadError::NoDataSet { target, problem } => {
                LoadError::NoDataSet { target, problem: said(problem) }
            }
            LoadError::DataSet { target, doing, text } => {
                LoadError::DataSet { target, doing, text: said(text) }
            }
            LoadError::Machine { target, text } => LoadError::Machine { target, text: said(text) },
            LoadError::Script { text } => LoadError::Script { text: said(text) },
            other => other,
        }
    }
}

fn in_the_name_of(name: &str, failure: Failure) -> Failure {
    match said_of(name, &failure.text) {
        Cow::Borrowed(_) => failure,
        Cow::Owned(text) => Failure { text, ..failure },
    }
}

fn said_of<'a>(name: &str, text: &'a str) -> Cow<'a, str> {
    // Some drivers include the name themselves.
    if name.is_empty() || text.contains(name) { text.into() } else { format!("{name}: {text}").into() }
}

/// Splits a target with several hosts into one target per host; a target with at most one host is returned
/// unchanged.
pub(crate) fn targets(target: &Target) -> Result<Vec<Target>, String> {
    let text = target.expose();
    if text.contains('\n') {
        // Several servers of a plan, each with its own target.
        return Ok(target.lines().collect());
    }
    let Some(span) = host_span(target) else { return Ok(vec![target.clone()]) };
    let (path, query) = match text[span.end..].split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&text[span.end..], None),
    };
    let parameters = Parameters::of(query, target.scheme())?;
    let listed = list(&text[span.clone()])?;
    let hosts = match &parameters.hosts {
        Some(_) if listed.len() > 1 => {
            return Err(
                "hosts are given both before the path and in `host=`: use only one of the two".to_owned()
            );
        }
        Some(hosts) => hosts.len(),
        None => listed.len(),
    };
    if parameters.ports.len() > 1 && parameters.ports.len() != hosts {
        let problem = format!("{} ports for {}", parameters.ports.len(), plural(hosts as u64, "host"));
        return Err(format!("{problem}: write one port for all hosts, or one per host"));
    }
    if hosts == 1 {
        return Ok(vec![target.clone()]);
    }
    let of_host = |host: usize| {
        let (before, own) = (&text[..span.start], one_of(&listed, host));
        Target::new(format!("{before}{own}{path}{}", parameters.of_host(host)))
    };
    Ok((0..hosts).map(of_host).collect())
}

/// Splits a comma-separated list of hosts or ports.
fn list(written: &str) -> Result<Vec<&str>, String> {
    let list: Vec<&str> = written.split(',').collect();
    if list.len() > 1 && list.contains(&"") {
        return Err("the list of hosts or ports has an empty entry".to_owned());
    }
    Ok(list)
}

/// The entry of that host; the first entry if the list has no entry for it.
fn one_of<T: AsRef<str>>(list: &[T], host: usize) -> &str {
    list.get(host).or(list.first()).map_or("", AsRef::as_ref)
}

/// Addresses of a load's servers; empty if they have no address or the target is invalid.
pub(crate) fn addresses(settings: &LoadSettings, scheme: &Scheme) -> Vec<ServerAddress> {
    let targets = targets(&settings.target).unwrap_or_default();
    let mut found = Vec::with_capacity(targets.len());
    for target in targets {
        let address = (scheme.address)(&LoadSettings { target, ..settings.clone() });
        found.extend(address.filter(|address| !found.contains(address)));
    }
    found
}

/// Names of the hosts; no two are equal.
fn names(settings: &LoadSettings, scheme: &Scheme, targets: &[Target]) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::with_capacity(targets.len());
    for target in targets {
        let address = (scheme.address)(&LoadSettings { target: target.clone(), ..settings.clone() });
        let address = address.ok_or("a host has no address")?;
        let name = address.to_string();
        if names.contains(&name) {
            return Err(match address {
                ServerAddress::Unix(_) => {
                    format!("several hosts cannot share one Unix socket, {name}: leave one of the two out")
                }
                ServerAddress::Tcp(..) => format!("the host {name} is given twice"),
            });
        }
        names.push(name);
    }
    Ok(names)
}

/// Position of the hosts in a target: after the last `@`, before the path. `None` if this kind of target has
/// no hosts.
fn host_span(target: &Target) -> Option<Range<usize>> {
    let text = target.expose();
    let start = text.find("://")? + 3;
    let rest = &text[start..];
    let end_of = |part: &str, marks: &[char]| part.find(marks).unwrap_or(part.len());
    // The end of the password depends on the kind of target.
    let at = match Family::of(target)? {
        Family::Database => rest[..end_of(rest, &['/', '?'])].rfind('@').or_else(|| rest.rfind('@')),
        Family::Cache => rest[..end_of(rest, &['?'])].rfind('@'),
        Family::Web => rest[..end_of(rest, &['/', '?'])].rfind('@'),
        Family::Command | Family::Nothing => return None,
    };
    let is_embedded = matches!(target.scheme(), "sqlite" | "memcached+unix" | "redis+unix");
    let from = start + at.map_or(0, |at| at + 1);
    (!is_embedded).then(|| from..from + end_of(&text[from..], &['/', '?']))
}

/// Query parameters of a target, with hosts and ports in libpq's form: `host=a,b&port=1,2`.
struct Parameters<'a> {
    pairs: Vec<&'a str>,
    /// `None` if the parameters name no host.
    hosts: Option<Vec<String>>,
    /// One for all hosts or one per host; empty if the parameters name no port.
    ports: Vec<&'a str>,
}

impl<'a> Parameters<'a> {
    fn of(query: Option<&'a str>, scheme: &str) -> Result<Self, String> {
        let pairs: Vec<&str> = query.map_or(Vec::new(), |query| query.split('&').collect());
        let (mut hosts, mut ports) = (None, Vec::new());
        let named = pairs.iter().filter(|_| scheme == "postgres").filter_map(|pair| pair.split_once('='));
        for (name, value) in named {
            match name {
                "host" if !value.is_empty() => {
                    let value = value.replace("%2C", ",").replace("%2c", ",");
                    hosts = Some(list(&value)?.into_iter().map(str::to_owned).collect());
                }
                "port" => ports = list(value)?,
                _ => {}
            }
        }
        Ok(Self { pairs, hosts, ports })
    }

    /// The parameters for one host, with the leading `?`.
    fn of_host(&self, host: usize) -> String {
        let pairs = self.pairs.iter().map(|pair| match (pair.split_once('='), &self.hosts) {
            (Some(("host", _)), Some(hosts)) => format!("host={}", one_of(hosts, host)),
            (Some(("port", _)), _) if !self.ports.is_empty() => format!("port={}", one_of(&self.ports, host)),
            _ => (*pair).to_owned(),
        });
        let pairs: Vec<String> = pairs.collect();
        if pairs.is_empty() { String::new() } else { format!("?{}", pairs.join("&")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(target: &str) -> Result<Vec<String>, String> {
        Ok(targets(&Target::new(target))?.iter().map(|target| target.expose().to_owned()).collect())
    }

    #[test]
    fn a_target_of_several_hosts_is_one_target_for_each() {
        for (target, each) in [
            ("mysql://u@h1,h2:3307/db", &["mysql://u@h1/db", "mysql://u@h2:3307/db"][..]),
            (
                "mysql://u:p,q@x@h1,h2/db?tls=require",
                &["mysql://u:p,q@x@h1/db?tls=require", "mysql://u:p,q@x@h2/db?tls=require"],
            ),
            (
                "mysql://u:p?q@h1,h2/db?tls=off",
                &["mysql://u:p?q@h1/db?tls=off", "mysql://u:p?q@h2/db?tls=off"],
            ),
            ("mysql://u:p/q@h1,h2/db", &["mysql://u:p/q@h1/db", "mysql://u:p/q@h2/db"]),
            ("postgres://u@[::1],[fe80::2]:7/db", &["postgres://u@[::1]/db", "postgres://u@[fe80::2]:7/db"]),
            (
                "postgres://u@%2Frun%2Fa,%2Frun%2Fb/db",
                &["postgres://u@%2Frun%2Fa/db", "postgres://u@%2Frun%2Fb/db"],
            ),
            (
                "postgres:///db?host=a,b&port=1,2&options=-c%20x",
                &[
                    "postgres:///db?host=a&port=1&options=-c%20x",
                    "postgres:///db?host=b&port=2&options=-c%20x",
                ],
            ),
            (
                "postgres:///db?host=/a%2C/b&port=1",
                &["postgres:///db?host=/a&port=1", "postgres:///db?host=/b&port=1"],
            ),
            ("postgres://a,b/db?port=1,2", &["postgres://a/db?port=1", "postgres://b/db?port=2"]),
            ("redis://:pw,1@h1,h2/3?resp=3", &["redis://:pw,1@h1/3?resp=3", "redis://:pw,1@h2/3?resp=3"]),
            ("redis://h1,h2?password=a,b@c", &["redis://h1?password=a,b@c", "redis://h2?password=a,b@c"]),
            ("memcached://h1,h2:7/", &["memcached://h1/", "memcached://h2:7/"]),
            ("https://u:p@h1,h2/a,b?c=d,e", &["https://u:p@h1/a,b?c=d,e", "https://u:p@h2/a,b?c=d,e"]),
            // A comma that does not separate hosts.
            ("mysql://u:p,q@h/db,1", &["mysql://u:p,q@h/db,1"]),
            ("http://h/a,b", &["http://h/a,b"]),
            ("exec:echo a://b,c", &["exec:echo a://b,c"]),
            ("sqlite:/tmp/a,b", &["sqlite:/tmp/a,b"]),
            ("sqlite://a,b/c", &["sqlite://a,b/c"]),
            ("redis+unix:/tmp/a,b", &["redis+unix:/tmp/a,b"]),
            ("null:", &["null:"]),
        ] {
            assert_eq!(written(target).unwrap(), each, "{target}");
        }
    }

    #[test]
    fn hosts_that_are_not_whole_are_refused() {
        for (target, says) in [
            ("mysql://u@h1,/db", "empty entry"),
            ("mysql://u@,h1/db", "empty entry"),
            ("redis://h1,,h2", "empty entry"),
            ("postgres:///db?host=a,b,&port=1", "empty entry"),
            ("postgres:///db?host=a,b&port=1,2,3", "3 ports for 2 hosts"),
            ("postgres:///db?host=a&port=1,2", "2 ports for 1 host"),
            ("postgres://a,b/db?host=c,d", "only one of the two"),
        ] {
            let problem = written(target).unwrap_err();
            assert!(problem.contains(says), "{target}: {problem}");
        }
    }
}
