//! The functions behind the differences of a bake-off: tables, and flame graphs in the colors of the
//! difference.

use analysis::Comparisons;
use analysis::functions::{FunctionDifference, Functions};
use record::profile::{ProfileKind, ProfileStack};

use super::{Block, Figure, Folded, Section, Table, Tone, Words};
use crate::flame::{PerEvent, difference_drawing};
use crate::functions::{
    caveats, change, interval, left_out, method, name, samples, sentence, share_of_time, sides, subject,
    verdict,
};
use crate::names::Names;
use crate::number::latency;
use crate::words::{capital, plural};

/// Most differences that a page draws: each takes some 100 KB.
pub const FLAMES_MAX: usize = 2;
/// Pairs with a table.
const PAIRS: usize = 12;
/// Functions in a table.
const FUNCTIONS: usize = 15;

/// Stacks of both sides of a pair, summed over the runs in [`analysis::functions::SideFacts::runs`].
#[derive(Debug)]
pub struct Stacks {
    /// Index of the pair.
    pub pair: usize,
    /// Stacks of the configuration and of the reference.
    pub sides: [Vec<ProfileStack>; 2],
}

/// The section; `None` for a bake-off without profiles.
///
/// - `stacks`: of at most [`FLAMES_MAX`] pairs.
pub(super) fn folded(comparisons: &Comparisons, stacks: &[Stacks]) -> Option<Folded> {
    let profiled = &comparisons.profiled;
    let order = profiled.most_different();
    let names = Names::of(comparisons);
    let mut blocks = Vec::new();
    if !order.is_empty() {
        blocks.push(Block::Text(method(profiled, comparisons.rules.alpha)));
    }
    for i in order.iter().take(PAIRS) {
        let pair = &profiled.pairs[*i];
        blocks.push(Block::Text(format!("{}. {}", capital(&sides(pair, &names)), sentence(pair))));
        blocks.push(Block::Table(table(pair, &names)));
        let drawn = stacks.iter().find(|stacks| stacks.pair == *i);
        blocks.extend(drawn.map(|stacks| Block::Figure(figure(pair, &stacks.sides, &names))));
        let caveats = caveats(pair, &names);
        if !caveats.is_empty() {
            blocks.push(Block::List(caveats));
        }
    }
    if order.len() > PAIRS {
        let more = plural(order.len() - PAIRS, "more comparison");
        blocks.push(Block::Text(format!("{more} of profiles are in the document of `runs show --json`.")));
    }
    let left_out = left_out(profiled);
    if !left_out.is_empty() {
        blocks.push(Block::List(left_out));
    }
    let note = match order.first() {
        None => "no profiles that can be compared".to_owned(),
        Some(first) => note(&profiled.pairs[*first], &names),
    };
    let section = Section { id: "functions", title: "Functions behind the differences", blocks };
    (!section.blocks.is_empty()).then(|| section.folded(note))
}

/// The pair with the largest difference, in a few words.
fn note(pair: &Functions, names: &Names) -> String {
    let found: Vec<String> = pair.clear().take(2).map(|f| format!("{} {}", name(f), change(f))).collect();
    let found = if found.is_empty() { "no clear difference".to_owned() } else { found.join(", ") };
    format!("{}: {found}", sides(pair, names))
}

fn table(pair: &Functions, names: &Names) -> Table {
    let of = if pair.functions.len() > FUNCTIONS {
        format!("; the {FUNCTIONS} with the largest differences of {}", pair.functions.len())
    } else {
        String::new()
    };
    let (a, b) = (names.configuration(&pair.a), names.configuration(&pair.b));
    let mut table = Table::new(
        format!(
            "{} by function, per event: {}, {}{of} (family of the functions)",
            capital(&subject(pair)),
            sides(pair, names),
            plural(pair.blocks, "block")
        ),
        &[
            "function",
            &format!("#{a}"),
            &format!("#{b}"),
            &format!("#{a}, share %"),
            &format!("#{b}, share %"),
            "#change",
            "#interval",
            match pair.kind {
                ProfileKind::OnCpu => "#samples",
                ProfileKind::OffCpu => "#waits",
            },
            "time",
        ],
    );
    for f in std::iter::once(&pair.whole).chain(pair.functions.iter().take(FUNCTIONS)) {
        let [value, reference] = f.ns_per_event.map(latency);
        let [share, of_reference] = f.share.map(share_of_time);
        let interval = interval(f).unwrap_or_else(|_| "-".to_owned());
        let cells = [name(f), value, reference, share, of_reference, change(f), interval, samples(f)];
        let mut row: Vec<Words> = cells.map(Words::from).to_vec();
        row.push(Words::toned(verdict(f), tone(f)));
        table.row(row);
    }
    table
}

fn tone(function: &FunctionDifference) -> Tone {
    match verdict(function) {
        "more" => Tone::Bad,
        "less" => Tone::Good,
        "same" => Tone::Even,
        _ => Tone::Doubt,
    }
}

fn figure(pair: &Functions, stacks: &[Vec<ProfileStack>; 2], names: &Names) -> Figure {
    let per_event = [0, 1].map(|side| PerEvent { stacks: &stacks[side], events: pair.sides[side].events });
    let [a, b] = [&pair.a, &pair.b].map(|levels| names.configuration(levels));
    let mut data =
        Table::new("Functions of the figure", &["function", &format!("#{a}"), &format!("#{b}"), "#change"]);
    for f in pair.functions.iter().take(FUNCTIONS) {
        let [value, reference] = f.ns_per_event.map(latency);
        data.row([name(f), value, reference, change(f)].map(Words::from).to_vec());
    }
    Figure {
        title: format!("{}, {}", capital(&subject(pair)), sides(pair, names)),
        caption: format!(
            "A box is a function of {a}; it is as wide as its time, and stands on its caller. Red: an event takes more \
             time there than in {b}; blue: less; full color from 10 % of all time on. Colors show means, without \
             intervals. Functions of {b} only are in the table."
        ),
        description: format!(
            "Stacks of functions of {a}, colored by their difference to {b}. {}",
            sentence(pair)
        ),
        drawing: difference_drawing(per_event[0], per_event[1]),
        data,
    }
}
