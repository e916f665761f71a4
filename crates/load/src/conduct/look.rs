//! Checks each host and prepares its data set before a load starts.

use std::sync::Arc;

use record::load::LoadSettings;
use record::missing::Maybe;
use record::verdict::Check;

use crate::conduct::aside::{self, Aside};
use crate::conduct::dataset;
use crate::conduct::setup_error::setup_error;
use crate::connection::Failure;
use crate::control::progress::{Event, OnEvent};
use crate::control::stop::Stop;
use crate::driver::hosts::{Host, Hosts};
use crate::error::LoadError;
use crate::workload::tables::{Cleaned, Prepared, Store};

/// Results of the check of a target.
pub(crate) struct TargetReport {
    pub(crate) version: Maybe<String>,
    pub(crate) prepared: Prepared,
    /// Results of the data check other than whether the data exist.
    pub(crate) checks: Vec<Check>,
}

/// Checks each host of the target and prepares its data set.
pub(crate) fn look(
    settings: &LoadSettings,
    hosts: &Arc<Hosts>,
    stop: &Stop,
    on_event: OnEvent<'_>,
) -> Result<TargetReport, LoadError> {
    let (settings, hosts) = (settings.clone(), Arc::clone(hosts));
    aside::run(stop, on_event, move |aside, on_event| {
        let (mut versions, mut stores) = (Vec::new(), Vec::new());
        // Unreachable hosts are reported before any data set is built.
        for host in hosts.all() {
            let look =
                host.driver.look(&aside.cut).map_err(|failure| host_error(&settings, host, failure))?;
            versions.push((host, look.version));
            stores.push((host, look.store));
        }
        let prepared = Prepared { found: 0, built: 0, rows: 0 };
        let mut seen = TargetReport { version: version_of(versions), prepared, checks: Vec::new() };
        for (host, store) in stores {
            let on_event = |event| on_event(host.tells(event));
            seen.checks.extend(host.driver.scale().map(|branches| scale_check(host, branches)));
            seen.add(
                host,
                look_at_data(&settings, host, store, aside, &on_event).map_err(|e| host.fails(e))?,
            );
        }
        Ok(seen)
    })
}

/// Prepares the data set of one host.
fn look_at_data(
    settings: &LoadSettings,
    host: &Host,
    store: Option<Box<dyn Store>>,
    aside: &Aside,
    on_event: &dyn Fn(Event),
) -> Result<(Prepared, Vec<Check>), LoadError> {
    let is_stopped = || aside.is_stopped();
    #[cfg(feature = "lua")]
    if let Some(program) = host.driver.script() {
        return super::script::ensure(program, settings, aside).map(|prepared| (prepared, Vec::new()));
    }
    let prepared = match store {
        Some(mut store) => dataset::ensure(&mut *store, &*host.driver, settings, &is_stopped, on_event)?,
        None => Prepared { found: 0, built: 0, rows: 0 },
    };
    match host.driver.cache(&aside.cut).map_err(|failure| setup_error(settings, &failure))? {
        Some(mut cache) => cache.ensure(settings, &is_stopped, on_event),
        None => Ok((prepared, Vec::new())),
    }
}

impl TargetReport {
    /// Adds the results of another host.
    fn add(&mut self, host: &Host, (prepared, checks): (Prepared, Vec<Check>)) {
        self.prepared.found += prepared.found;
        self.prepared.built += prepared.built;
        self.prepared.rows = prepared.rows;
        self.checks.extend(checks.into_iter().map(|c| Check { text: host.says(&c.text).into_owned(), ..c }));
    }
}

/// The size of pgbench's tables, which the server reported and no setting contains.
fn scale_check(host: &Host, branches: i64) -> Check {
    let text = format!("pgbench_branches has {branches} rows, so :scale is {branches}");
    let text = host.says(&text).into_owned();
    Check { name: "scale", ok: branches > 0, found: branches as f64, limit: 1.0, text }
}

/// The servers' versions: each with its host if they differ.
fn version_of(versions: Vec<(&Host, Maybe<String>)>) -> Maybe<String> {
    let first = versions[0].1.clone();
    if versions.iter().all(|(_, version)| *version == first) {
        return first;
    }
    let each = versions.into_iter().map(|(host, version)| match version {
        Ok(version) => format!("{version} ({})", host.name),
        Err(missing) => format!("unknown ({}: {missing})", host.name),
    });
    Ok(each.collect::<Vec<_>>().join(", "))
}

/// Removes the data set of each host.
pub(crate) fn cleanup(settings: &LoadSettings, hosts: &Arc<Hosts>) -> Result<Cleaned, LoadError> {
    let (settings, hosts) = (settings.clone(), Arc::clone(hosts));
    aside::run(&Stop::new(), &mut |_| {}, move |aside, _| {
        let mut cleaned = Cleaned { removed: 0 };
        for host in hosts.all() {
            let failed = |failure| host_error(&settings, host, failure);
            let look = host.driver.look(&aside.cut).map_err(failed)?;
            let cache = host.driver.cache(&aside.cut).map_err(failed)?;
            let of_host = match (look.store, cache) {
                (Some(mut store), _) => dataset::remove(&mut *store, &settings),
                (None, Some(mut cache)) => cache.remove(&settings),
                (None, None) => Ok(Cleaned { removed: 0 }),
            };
            cleaned.removed += of_host.map_err(|error| host.fails(error))?.removed;
        }
        Ok(cleaned)
    })
}

/// The error for a host's failure before the first event.
fn host_error(settings: &LoadSettings, host: &Host, failure: Failure) -> LoadError {
    setup_error(settings, &host.names(failure))
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;
    use crate::driver::null::driver;

    #[test]
    fn servers_that_differ_are_told_each_by_its_host() {
        let host = |name: &str| Host { name: name.to_owned(), driver: driver() };
        let hosts = [host("h1:1"), host("h2:2"), host("h3:3")];
        let version = |versions: [Maybe<String>; 3]| version_of(hosts.iter().zip(versions).collect());
        let (one, other) = (|| Ok("Redis 7.0".to_owned()), || Ok("Redis 7.2".to_owned()));
        let silent = || Err(Missing::because("it does not say"));
        assert_eq!(version([one(), one(), one()]), one());
        assert_eq!(version([silent(), silent(), silent()]), silent());
        let expected = "Redis 7.0 (h1:1), Redis 7.2 (h2:2), unknown (h3:3: it does not say)";
        assert_eq!(version([one(), other(), silent()]).unwrap(), expected);
    }
}
