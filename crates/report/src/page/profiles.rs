//! Profiles of a run: for each, the functions with the most time and a flame graph, folded.

use record::missing::Missing;
use record::profile::{ProfileKind, RunProfile};
use record::resources::UsedBy;
use record::run::Run;

use super::{Block, Figure, Folded, Section, Table, Words};
use crate::flame::{self, shortened};
use crate::number::{count, latency, percent, percent_digits};
use crate::text::{profile_bound, profile_cost, profile_subject, run_caveats, run_title};
use crate::words::capital;

/// Functions in the table.
const FUNCTIONS: usize = 15;
/// Stacks in the table behind the figure.
const STACKS: usize = 25;
/// Longest name of a function, in letters.
const NAME_LETTERS_MAX: usize = 100;
/// Longest stack in a table, in letters.
const STACK_LETTERS_MAX: usize = 400;

/// The section of each profile that was taken, or requested.
pub(super) fn folded(run: &Run) -> Vec<Folded> {
    let seen = &run.instruments;
    let of_kind = |kind: &ProfileKind| {
        let taken = seen.profiles.iter().find(|taken| taken.profile.kind == *kind);
        section(*kind, taken, seen.missing.get(kind.instrument()))
    };
    ProfileKind::ALL.iter().filter_map(of_kind).collect()
}

fn section(kind: ProfileKind, taken: Option<&RunProfile>, missing: Option<&Missing>) -> Option<Folded> {
    let (id, title) = match kind {
        ProfileKind::OnCpu => ("profile", "Profile: time on a CPU"),
        ProfileKind::OffCpu => ("off-cpu", "Profile: time off the CPU"),
    };
    let why = missing.map(|why| Block::Text(format!("Not observed: {why}.")));
    let note = match taken {
        Some(taken) => note(taken),
        None => "not observed".to_owned(),
    };
    let blocks: Vec<Block> = taken.map(blocks).unwrap_or_default().into_iter().chain(why).collect();
    (!blocks.is_empty()).then(|| Section { id, title, blocks }.folded(note))
}

/// The subject and, if something was lost, that it was: a reader sees this before opening the section.
fn note(taken: &RunProfile) -> String {
    let lost: u64 = taken.profile.lost.values().sum();
    let lost = if lost > 0 { format!("; {} LOST", count(lost)) } else { String::new() };
    format!("{}: functions, flame graph{lost}", profile_subject(taken.of))
}

fn blocks(taken: &RunProfile) -> Vec<Block> {
    let mut blocks =
        vec![Block::Text(format!("{}.", capital(&run_title(taken)))), Block::Text(covered(taken))];
    let caveats = run_caveats(taken);
    if !caveats.is_empty() {
        blocks.push(Block::List(caveats));
    }
    if taken.profile.total_ns() > 0 {
        blocks.extend([Block::Table(functions(taken)), Block::Figure(figure(taken))]);
    }
    blocks.push(Block::Text(format!("{}.", capital(&profile_cost(&taken.profile)))));
    blocks
}

/// The processes that the profile covers, and those that it may be mistaken for.
fn covered(taken: &RunProfile) -> String {
    let text = match (taken.of, taken.profile.kind) {
        (UsedBy::Server, _) => "It covers the processes in the server's control group, and no others.",
        (UsedBy::Machine, ProfileKind::OnCpu) => {
            "It covers all threads of the machine on which bakeoff ran, those of bakeoff itself included. It does not \
             tell the server from other processes; the first row of the flame graph has the names of threads."
        }
        (UsedBy::Machine, ProfileKind::OffCpu) => {
            "It covers all threads of the machine on which bakeoff ran, except those of bakeoff itself. It does not \
             tell the server from other processes; the first row of the flame graph has the names of threads."
        }
    };
    text.to_owned()
}

fn functions(taken: &RunProfile) -> Table {
    let profile = &taken.profile;
    let (total_ns, at_least) = (profile.total_ns() as f64, profile_bound(profile));
    let all = profile.functions();
    let of = if all.len() > FUNCTIONS {
        format!(", the {FUNCTIONS} with the most of {}", count(all.len() as u64))
    } else {
        String::new()
    };
    let mut table = Table::new(
        format!("Functions by the time in themselves (self){of}; total includes what they called"),
        &["function", "#self %", "#self", "#total %", "#total"],
    );
    let share = |ns: u64| -> Words { percent_digits(ns as f64 / total_ns).into() };
    let time = |ns: u64| -> Words { format!("{at_least}{}", latency(ns as f64)).into() };
    for f in all.iter().take(FUNCTIONS) {
        let name = shortened(&f.name, NAME_LETTERS_MAX).into();
        table.row(vec![name, share(f.self_ns), time(f.self_ns), share(f.total_ns), time(f.total_ns)]);
    }
    table
}

fn figure(taken: &RunProfile) -> Figure {
    let profile = &taken.profile;
    let (total_ns, at_least) = (profile.total_ns() as f64, profile_bound(profile));
    let subject = profile_subject(taken.of);
    let events = match profile.kind {
        ProfileKind::OnCpu => "#samples",
        ProfileKind::OffCpu => "#waits",
    };
    let mut data = Table::new(
        "The stacks with the most time: the thread\'s name, then functions, outermost first",
        &["stack", "#share", "#time", events],
    );
    for stack in profile.stacks.iter().take(STACKS) {
        let names = std::iter::once(&stack.comm).chain(&stack.frames).map(String::as_str);
        let path = shortened(&names.collect::<Vec<_>>().join("; "), STACK_LETTERS_MAX);
        data.row(vec![
            path.into(),
            percent(stack.ns as f64 / total_ns).into(),
            format!("{at_least}{}", latency(stack.ns as f64)).into(),
            format!("{at_least}{}", count(stack.count)).into(),
        ]);
    }
    let most: Vec<String> = profile
        .functions()
        .iter()
        .take(3)
        .map(|f| {
            let share = percent(f.self_ns as f64 / total_ns);
            format!("{} {share}", shortened(&f.name, NAME_LETTERS_MAX))
        })
        .collect();
    Figure {
        title: format!("{} of {subject}", flame::title(profile.kind)),
        caption: "A box is a function; it is as wide as its time, and stands on its caller. Functions of the kernel are \
                  blue. Narrow boxes are left out."
            .to_owned(),
        description: format!(
            "Stacks of functions. Most time in themselves have {}. The tables have the numbers.",
            most.join(", ")
        ),
        drawing: flame::drawing(profile),
        data,
    }
}
