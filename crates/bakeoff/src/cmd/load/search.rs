//! `bakeoff load --search`: the highest rate that meets an objective; each try is a separate run.

use std::io::Write;

use load::search::{Next, Room, Search};
use record::clock::WallAnchor;
use record::load::{LoadSettings, Loop, OpenLoop};
use record::run::{Run, RunId};
use record::search::{Answer, Probe, Promise, SearchRecord, Stage};
use record::verdict::Validity;

use super::{Args, ended, environment, header};
use crate::cmd::{Global, print_json};
use crate::exit::{Exit, of_load};
use crate::screen::{self, Screen};
use crate::signals;

/// Maximum rate that a schedule can offer.
const CEILING_PER_S: f64 = 5_000_000.0;

/// Label of the runs of one search: the name of the first run.
const SEARCH: &str = "search";
/// Label of each run with the objective of the search.
const PROMISE: &str = "search-promise";
/// Label of the run that ended the search.
const ANSWER: &str = "search-answer";

pub(super) fn run(
    args: &Args,
    promise: &Promise,
    settings: &LoadSettings,
    global: &Global,
    out: &mut dyn Write,
) -> anyhow::Result<Exit> {
    let Loop::Open(first) = &settings.pace else { unreachable!("a search has a rate to begin at") };
    let start_per_s = first.per_s;
    signals::stop_on_interrupt()?;
    let room = Room::above_floor(promise, settings.time.as_secs_f64(), CEILING_PER_S);
    check_start(args.pace.has_rate().then_some(start_per_s), promise, room)?;
    let mut search = Search::new(start_per_s, room);
    let mut screen = Screen::new();
    let mut probes: Vec<Probe> = Vec::new();
    let mut name = None;
    let answer = loop {
        let (rate_per_s, stage) = match search.next() {
            Next::Done(answer) => break answer,
            Next::Probe { rate_per_s, stage } => (rate_per_s, stage),
        };
        let pace = Loop::Open(OpenLoop { per_s: rate_per_s, ..first.clone() });
        let tried = LoadSettings { pace, ..settings.clone() };
        let Some(probe) = probe(args, promise, &tried, (stage, &mut search), &mut name, global, &mut screen)?
        else {
            break Answer::Stopped;
        };
        let number = probes.len() + 1;
        screen.line(&report::text::probe(number, &probe));
        probes.push(probe);
    };
    screen.clear();
    let record = SearchRecord { target: settings.target.clone(), promise: promise.clone(), probes, answer };
    if global.json {
        print_json(out, &report::json::search(&record))?;
    } else {
        report::text::search(out, &record, screen::style())?;
    }
    out.flush()?;
    Ok(match record.answer {
        Answer::Found { .. } => Exit::Good,
        Answer::Stopped => Exit::Interrupted,
        Answer::Unreachable { .. } => Exit::Bad,
        Answer::TooShort { .. }
        | Answer::GeneratorLimit { .. }
        | Answer::Unsettled { .. }
        | Answer::Changed { .. } => Exit::Invalid,
    })
}

/// Refuses a start rate that is too low to give evidence: a search must begin at the requested rate, not
/// silently at a higher one.
fn check_start(asked_per_s: Option<f64>, promise: &Promise, room: Room) -> anyhow::Result<()> {
    let Some(asked_per_s) = asked_per_s.filter(|per_s| *per_s < room.floor_per_s) else { return Ok(()) };
    let events = load::search::events_needed(promise);
    let text = format!(
        "{promise} needs {events} events per try, and {} has fewer in {}s: start at --rate {} or above, or \
         give each try --time {}s",
        report::text::per_second(asked_per_s),
        room.time_s,
        report::text::per_second(room.floor_per_s),
        (events as f64 / asked_per_s).ceil()
    );
    Err(Exit::Usage.with(text))
}

/// Runs one try, archives and judges it, and adds it to the search; `None` if the user stopped it. A stopped
/// try is archived too.
fn probe(
    args: &Args,
    promise: &Promise,
    settings: &LoadSettings,
    (stage, search): (Stage, &mut Search),
    name: &mut Option<RunId>,
    global: &Global,
    screen: &mut Screen,
) -> anyhow::Result<Option<Probe>> {
    let rate_per_s = settings.pace.per_s().expect("a search has rates");
    let anchor = WallAnchor::now();
    let mut header = header(args, settings, anchor);
    let first = *name.get_or_insert(header.id);
    header.labels.insert(SEARCH.to_owned(), first.to_string());
    header.labels.insert(PROMISE.to_owned(), promise.to_string());
    let writer = if args.no_archive { None } else { Some(global.archive_for_writing()?.begin(&header)?) };
    let mut beside = args.observe.open();
    let record = load::run(settings, &signals::STOP, &mut |event| {
        beside.follow(event);
        if let load::Event::PhaseStarts { phase: record::load::Phase::Measure, .. } = event {
            screen.phase(&report::text::per_second(rate_per_s), settings.time);
        }
        if let load::Event::Interval(progress) = event {
            screen.at(std::time::Duration::try_from_secs_f64(progress.t_s).unwrap_or_default().as_secs());
        }
    });
    let mut record = match record {
        Err(load::LoadError::Interrupted) => return Ok(None),
        other => other.map_err(of_load)?,
    };
    let cpu = beside.take();
    let throttled = beside.take_throttled();
    if let Ok(throttled) = &throttled {
        record.verdict.add(throttled.check());
    }
    let judged = (record.verdict.state != Validity::Interrupted).then(|| search.take(promise, &record));
    let achieved_per_s = load::search::kept_up_per_s(&record);
    let mut header = ended(header, &record);
    if let Next::Done(Answer::Found { rate_per_s, .. }) = search.next() {
        header
            .labels
            .insert(ANSWER.to_owned(), format!("{promise} up to {}", report::text::per_second(rate_per_s)));
    }
    let id = header.id;
    let environment = environment(global);
    let instruments = beside.take_instruments();
    let series = beside.take_series(environment.fact("host.name").unwrap_or("localhost"), anchor);
    let run = Run {
        load: Some(record),
        cpu,
        instruments,
        series,
        throttled,
        ..Run::unmeasured(header, environment)
    };
    let kept = writer.map(|writer| writer.seal(&run)).transpose()?;
    let run = kept.map(|_| id);
    Ok(judged.map(|(end, found)| Probe { rate_per_s, stage, end, found, achieved_per_s, run }))
}
