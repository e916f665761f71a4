//! Collection of a run without its conductor: the spools of its agents have everything that was measured.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use archive::documents;
use async_nats::Client;
use load::{Stop, StopLevel};
use record::agents::{ClockOffset, FleetSettings};
use record::clock::WallAnchor;
use record::load::LoadRecord;
use record::series::HistogramSlice;

use super::beside::Beside;
use super::left::{AllLeft, left};
use super::office::{self, Conductor, Fleet, HOST_BYTES_MAX, Member, Spools, Tell, Told};
use super::parts::{Limit, Place, account};
use crate::clock::{self, Offset};
use crate::error::FleetError;
use crate::meant::Meant;
use crate::merge;
use crate::merge::part::Part;
use crate::received::{self, Received};
use crate::server::Server;
use crate::wire::{self, Dealt, Hello, LeftSpool, SpoolFile, Start};

/// Time for agents to answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Attempts to read from an agent.
const TRIES: u32 = 4;
/// Most agents of a fleet.
const AGENTS_MAX: u32 = 1_000;

/// Treatment of a run of which a share is in no spool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incomplete {
    /// Refused: the spool may be on a machine without an agent.
    Refuse,
    /// The run is INVALID and names the missing shares.
    Accept,
}

/// A run that its agents' spools had.
#[derive(Debug)]
pub struct Recovered {
    /// The record of the whole.
    pub record: LoadRecord,
    /// One moment on the clocks of the agent with the first share.
    pub anchor: WallAnchor,
    /// Spools that the agents keep until the record is stored.
    pub spools: Spools,
}

/// A spool of the run, and the agent that answers for it.
struct Found {
    via: Hello,
    spool: LeftSpool,
    /// Number of the machine's start now.
    boot: String,
    start: Start,
}

/// Collects `run` from the spools of agents that no longer play it.
///
/// The distributions of the intervals are only in [`load::Event::IntervalClosed`].
///
/// - `tell`: called with the moment that [`Recovered::anchor`] will be, so that the numbers of observers need
///   not wait for it.
///
/// # Errors
///
/// [`FleetError`] if an agent still plays the run, no spool has it, spools contradict each other, a share is
/// missing and `incomplete` refuses it, or a stop is requested.
pub fn recover(
    server: &Server,
    run: &str,
    incomplete: Incomplete,
    stop: &Stop,
    tell: &mut dyn FnMut(&Told<'_>, WallAnchor),
) -> Result<Recovered, FleetError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|e| FleetError::Program { program: "the runtime".into(), text: e.to_string() })?;
    let (client, found, beside) = runtime.block_on(async {
        let client = server.connect(wire::CONDUCTOR).await?;
        let hellos = office::hellos(server, &client, PATIENCE, stop, &|_| false).await?;
        let left = left(&client, &hellos, run).await?;
        let found = find(&client, &left, run, stop).await;
        let beside = Beside::find(&client, &left, run, &limit(stop)).await;
        unless_stopped(stop)?;
        Ok::<_, FleetError>((client, found?, beside))
    })?;
    let Start { monotonic_ns, unix_ns, .. } = found[0].start;
    let anchor = WallAnchor { monotonic_ns, unix_ns };
    let mut tell = |told: &Told<'_>| tell(told, anchor);
    let meant = agreed(run, &found)?;
    let dealt = found[0].start.dealt();
    if incomplete == Incomplete::Refuse {
        check(&found, dealt.of)?;
        beside.check(dealt.helpers)?;
    }
    let fleet = Fleet {
        server,
        asked: FleetSettings { on_loss: dealt.on_loss(), ..FleetSettings::of(dealt.of) },
        run: run.to_owned(),
        words: Vec::new(),
        meant,
        patience: PATIENCE,
        lead: Duration::ZERO,
        stop,
    };
    let members = members(&fleet, &dealt, &found)?;
    let (observers, probe) = (Vec::new(), None);
    let mut conductor = Conductor { fleet: &fleet, client, members, observers, probe };
    let record = runtime.block_on(async {
        let clocks = clocks(&conductor.client, &found).await;
        for index in 0..conductor.members.len() {
            if conductor.members[index].failed.is_none() {
                let has_end = found.iter().any(|f| f.start.index as usize == index && f.spool.has_end);
                let limit = limit(stop);
                conductor.read_end(index, if has_end { TRIES } else { 1 }, &limit).await;
                conductor.read_lines(index, TRIES, &limit).await;
            }
        }
        unless_stopped(stop)?;
        let record = merged(&conductor, (&found, &dealt), &clocks, &mut tell)?;
        let probe = conductor.collect_left(beside, dealt.helpers, record.measured_from_ns, &mut tell).await;
        unless_stopped(stop)?;
        Ok::<_, FleetError>(LoadRecord { probe, ..record })
    })?;
    let spools = Spools::new(runtime, conductor);
    Ok(Recovered { record, anchor, spools })
}

/// The limit for the next agent: the first request of a stop ends a collection.
fn limit(stop: &Stop) -> Limit<'_> {
    Limit::new(stop, StopLevel::Finish)
}

/// Refuses to go on after a stop: a part that it cuts off must not be stored as if the agent had no more.
fn unless_stopped(stop: &Stop) -> Result<(), FleetError> {
    if stop.is_requested() { Err(FleetError::Interrupted) } else { Ok(()) }
}

/// Whether the spools of all `of` shares are there.
fn check(found: &[Found], of: u32) -> Result<(), FleetError> {
    let is_missing = |index: &u32| found.iter().all(|f| f.start.index != *index);
    let missing: Vec<String> = (0..of).filter(is_missing).map(|index| (index + 1).to_string()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(FleetError::Unfit(format!(
        "no agent that answers has the spools of shares {} of {of}: start an agent on each machine that took \
         part, or give --incomplete to store the run as INVALID",
        missing.join(", ")
    )))
}

/// The spools of the shares, in their order.
async fn find(client: &Client, left: &AllLeft, run: &str, stop: &Stop) -> Result<Vec<Found>, FleetError> {
    let mut found = Vec::new();
    for ((_, owner), (via, spool, boot)) in left.iter().filter(|((of, _), _)| of == run) {
        let other = (via.agent != *owner).then_some(owner.as_str());
        let place = Place { agent: &via.agent, owner: other, run, file: SpoolFile::Start };
        let bytes = account(client, place, &limit(stop)).await.unwrap_or_default();
        let start: Start = serde_json::from_slice(&bytes).map_err(|_| FleetError::Absent {
            agent: owner.clone(),
            text: format!("its spool does not tell how run {run} began"),
        })?;
        if start.agent != *owner || start.run != run {
            return Err(FleetError::Unfit(format!("the spool of agent {owner} is that of another run")));
        }
        found.push(Found { via: via.clone(), spool: spool.clone(), boot: boot.clone(), start });
    }
    if found.is_empty() {
        return Err(FleetError::Unfit(format!(
            "no agent that answers has a spool of run {run}: `bakeoff fleet status` lists the spools"
        )));
    }
    found.sort_by_key(|found| found.start.index);
    Ok(found)
}

/// The load that all spools are of.
fn agreed(run: &str, found: &[Found]) -> Result<Meant, FleetError> {
    let first = &found[0].start;
    let unfit = |text: &str| Err(FleetError::Unfit(format!("the spools of run {run} {text}")));
    let dealt = first.dealt();
    let is_same = |f: &Found| f.start.dealt() == dealt && f.start.settings == first.settings;
    if !found.iter().all(is_same) {
        return unfit("have different loads");
    }
    if found.windows(2).any(|pair| pair[0].start.index == pair[1].start.index) {
        return unfit("have one share twice");
    }
    let Ok(settings) = documents::settings(first.settings.clone()) else {
        return unfit("have settings that this version does not know");
    };
    let is_share =
        |f: &Found| (1..=AGENTS_MAX).contains(&dealt.of) && dealt.share(f.start.index, &settings).is_some();
    if !found.iter().all(is_share) || dealt.helpers.observers > AGENTS_MAX {
        return unfit("have a share that no fleet has");
    }
    let is_whole = found.len() == first.of as usize && found.iter().all(|f| f.spool.has_end);
    if first.is_recorded && !is_whole {
        return unfit("lack a share of recorded arrivals: how many events it planned is unknown");
    }
    Ok(Meant { settings, recorded: Arc::from([]) })
}

/// The agents of all shares; those of missing shares have failed.
fn members(fleet: &Fleet<'_>, dealt: &Dealt, found: &[Found]) -> Result<Vec<Member>, FleetError> {
    let slices_max = received::slices_max(&fleet.meant.settings);
    let member = |index: u32| {
        let found = found.iter().find(|found| found.start.index == index);
        let start = found.map(|found| &found.start);
        let agent = start.map_or_else(|| format!("share-{}", index + 1), |start| start.agent.clone());
        let hello = Hello {
            agent,
            host: start
                .map_or_else(|| "unknown".to_owned(), |start| wire::cut(start.host.clone(), HOST_BYTES_MAX)),
            version: wire::VERSION.to_owned(),
            cpus: 0,
            busy: None,
            epoch: String::new(),
            labels: BTreeMap::new(),
            weight: dealt.weight(index),
            observes: false,
            probes: false,
        };
        Ok(Member {
            via: found.map(|f| f.via.agent.clone()).filter(|via| *via != hello.agent),
            hello,
            received: Received::new(slices_max)?,
            before: None,
            after: None,
            start_ns: start.map_or(0, |start| start.start_ns),
            is_over: true,
            lost_ns: None,
            failed: start.is_none().then(|| "no agent that answers has its spool".to_owned()),
        })
    };
    let members: std::io::Result<Vec<Member>> = (0..fleet.asked.agents).map(member).collect();
    members.map_err(|source| FleetError::File { path: "a temporary file".into(), source })
}

/// The offsets of the agents' clocks from that of the first, at the start and now. A machine that was started
/// again has another clock.
async fn clocks(client: &Client, found: &[Found]) -> BTreeMap<u32, ClockOffset> {
    let mut now = Vec::new();
    for Found { via, boot, start, .. } in found {
        let is_same_clock = *boot == start.boot && !boot.is_empty();
        now.push(if is_same_clock { office::offset(client, via).await } else { None });
    }
    let (Some(first), Some(Some(first_now))) = (found.first(), now.first().copied()) else {
        return BTreeMap::new();
    };
    // The difference of two of them fits its type.
    let possible = |ns: &i64| ns.unsigned_abs() <= i64::MAX.unsigned_abs() / 2;
    let of = |(found, now): (&Found, &Option<Offset>)| {
        let (start, now) = (&found.start, (*now)?);
        let difference = i128::from(start.start_ns) - i128::from(first.start.start_ns);
        let before = Offset {
            ns: i64::try_from(difference).ok().filter(possible)?,
            bound_ns: start.bound_ns.saturating_add(first.start.bound_ns),
        };
        let after = Offset {
            ns: now.ns.checked_sub(first_now.ns).filter(possible)?,
            bound_ns: now.bound_ns.saturating_add(first_now.bound_ns),
        };
        Some((start.index, clock::over_a_load(before, after)))
    };
    found.iter().zip(&now).filter_map(of).collect()
}

fn merged(
    conductor: &Conductor<'_>,
    (found, dealt): (&[Found], &Dealt),
    clocks: &BTreeMap<u32, ClockOffset>,
    tell: Tell<'_>,
) -> Result<LoadRecord, FleetError> {
    let settings = &conductor.fleet.meant.settings;
    let lead_ns = u64::try_from((settings.ramp_up + settings.warmup).as_nanos()).unwrap_or(u64::MAX);
    let parts = (0..).zip(&conductor.members).map(|(index, member)| Part {
        index,
        agent: member.hello.agent.clone(),
        host: member.hello.host.clone(),
        received: &member.received,
        clock: clocks.get(&index).copied(),
        start_ns: member.start_ns,
        lost_at_s: None,
        failed: member.failed.clone(),
    });
    let mut closed = |slices: Vec<HistogramSlice>| tell(&Told::Load(&load::Event::IntervalClosed(slices)));
    let measured_from_ns = found[0].start.start_ns.saturating_add(lead_ns);
    let parts: Vec<Part<'_>> = parts.collect();
    merge::whole((&conductor.fleet.meant, dealt), &parts, measured_from_ns, false, &mut closed)
}
