//! Several bake-offs on one page: what each found, side by side, and what differs between their machines and
//! plans.
//!
//! The page claims nothing between bake-offs. Each drew its own random order, at its own time: a difference
//! between two of them may come from anything that differs between the two times.

use analysis::{Comparisons, Pair};
use record::bakeoff::{Bakeoff, Levels, Metric};
use record::environment::Environment;

use super::figures::mark;
use super::{Block, Figure, Folded, Grid, GridCell, GridRow, Page, Section, Table, Tone, Words};
use crate::chart::{Forest, ForestRow, forest};
use crate::claim::claim;
use crate::names::Names;
use crate::number::{change_interval_of, change_of, date_time, share};
use crate::page::{differs, facts};
use crate::words::{capital, cell_mean, difference_word, list, metric as metric_name, plural, sense};

/// One bake-off of the page.
#[derive(Debug, Clone, Copy)]
pub struct Member<'a> {
    /// Short name of the bake-off in its archive.
    pub name: &'a str,
    /// The bake-off.
    pub bakeoff: &'a Bakeoff,
    /// The verdicts of the bake-off.
    pub comparisons: &'a Comparisons,
}

/// Lays out the page of several bake-offs.
pub fn several(members: &[Member<'_>]) -> Page {
    let titles: Vec<String> = titles(members);
    let metrics = metrics(members);
    let lead =
        metrics.iter().filter_map(|metric| figure(members, &titles, *metric).map(Block::Figure)).take(1);
    let grids: Vec<Grid> = metrics.iter().map(|metric| grid(members, &titles, *metric)).collect();
    let grids = (!grids.is_empty()).then_some(Block::Grids(grids));
    let others: Vec<Block> = metrics
        .iter()
        .skip(1)
        .filter_map(|metric| figure(members, &titles, *metric).map(Block::Figure))
        .collect();
    let charts =
        (!others.is_empty()).then_some(Section { id: "charts", title: "Other metrics", blocks: others });
    let found = found(members, &titles);
    let sections = [Some(found), charts].into_iter().flatten().collect();
    let (differing, of) = difference_table(members, &titles);
    let count = differing.rows.len();
    let folded = vec![
        Section {
            id: "differences",
            title: "What differs between them",
            blocks: vec![Block::Table(differing)],
        }
        .folded(format!("{count} of {of} facts of plans and machines")),
        cells(members, &titles),
    ];
    Page {
        title: list(&titles),
        question: String::new(),
        standing: Words::toned("side by side", Tone::Even),
        claim: format!(
            "{}, each with its own claims; between them nothing is claimed.",
            plural(members.len(), "bake-off")
        ),
        lead: lead.chain(grids).collect(),
        caveats: caveats(members, &titles, count),
        byline: members.iter().zip(&titles).map(|(m, title)| byline(m, title)).collect(),
        sections,
        folded,
    }
}

/// Titles that tell the bake-offs apart.
fn titles(members: &[Member<'_>]) -> Vec<String> {
    let title = |m: &Member<'_>| m.bakeoff.header.title.clone();
    let is_alone = |m: &Member<'_>| members.iter().filter(|other| title(other) == title(m)).count() == 1;
    members
        .iter()
        .map(|m| if is_alone(m) { title(m) } else { format!("{} ({})", title(m), m.name) })
        .collect()
}

fn byline(member: &Member<'_>, title: &str) -> String {
    let bakeoff = member.bakeoff;
    let cpu = bakeoff.environment.fact("cpu.model").unwrap_or("CPU unknown");
    format!(
        "{title}: {}, {} of {} trials valid, {}, {cpu}",
        date_time(bakeoff.header.anchor.unix_ns),
        bakeoff.sealed().count(),
        bakeoff.trials.len(),
        plural(bakeoff.blocks as usize, "block")
    )
}

fn metrics(members: &[Member<'_>]) -> Vec<Metric> {
    let mut metrics: Vec<Metric> =
        members.iter().flat_map(|m| &m.comparisons.pairs).map(|pair| pair.metric).collect();
    metrics.sort_unstable();
    metrics.dedup();
    metrics
}

/// Pairs of one metric: configuration and condition, and those of the members that have it.
struct Row<'a> {
    name: String,
    condition: String,
    /// Index of the member, and its pair.
    of: Vec<(usize, &'a Pair)>,
}

/// Comparisons of the same configurations under the same condition stand together.
fn rows<'a>(members: &[Member<'a>], metric: Metric) -> Vec<Row<'a>> {
    let mut rows: Vec<(&Levels, &Levels, &Levels, Row<'a>)> = Vec::new();
    for (i, member) in members.iter().enumerate() {
        let names = Names::of(member.comparisons);
        for pair in member.comparisons.pairs.iter().filter(|pair| pair.metric == metric) {
            let same = rows
                .iter_mut()
                .find(|(a, b, levels, _)| **a == pair.a && **b == pair.b && **levels == pair.levels);
            if let Some((.., row)) = same {
                row.of.push((i, pair));
                continue;
            }
            let name = format!("{} against {}", names.configuration(&pair.a), names.configuration(&pair.b));
            let row = Row { name, condition: names.condition(&pair.levels), of: vec![(i, pair)] };
            rows.push((&pair.a, &pair.b, &pair.levels, row));
        }
    }
    rows.into_iter().map(|(.., row)| row).collect()
}

/// The ratios of one metric: a group for each comparison, in it a row for each bake-off.
fn figure(members: &[Member<'_>], titles: &[String], metric: Metric) -> Option<Figure> {
    let rows = rows(members, metric);
    let (mut drawn, mut told) = (Vec::new(), Vec::new());
    let title = format!("{} of each comparison, by bake-off", capital(metric_name(metric)));
    let mut data = Table::new(
        title.clone(),
        &[
            "comparison",
            "condition",
            "bake-off",
            &format!("#{}", difference_word(metric)),
            "#interval",
            "verdict",
            "#blocks",
        ],
    );
    for row in &rows {
        let group = if row.condition.is_empty() {
            row.name.clone()
        } else {
            format!("{}, {}", row.name, row.condition)
        };
        for (i, pair) in &row.of {
            let estimate = pair.estimate.as_ref().ok();
            let ratio = estimate.map_or("-".to_owned(), |e| change_of(metric, e.ratio));
            let (sign, word, _) = mark(pair.verdict);
            data.row(vec![
                row.name.clone().into(),
                row.condition.clone().into(),
                titles[*i].clone().into(),
                ratio.clone().into(),
                estimate.map_or("-".to_owned(), |e| change_interval_of(metric, e.low, e.high)).into(),
                pair.verdict.word().into(),
                pair.n().to_string().into(),
            ]);
            told.push(format!("{group} in {}: {ratio}, {}", titles[*i], pair.verdict.word()));
            drawn.push(ForestRow {
                group: group.clone(),
                label: titles[*i].clone(),
                series: *i,
                ratio: estimate.map(|e| e.ratio),
                interval: estimate.map(|e| (e.low, e.high)),
                adjusted: estimate.map(|e| (e.low_adjusted, e.high_adjusted)),
                dots: pair.blocks.iter().map(|(_, ratio)| *ratio).collect(),
                told: [ratio, sign.to_owned(), word.to_owned()],
            });
        }
    }
    // What nothing is known of stands in the table alone.
    drawn.retain(|row| row.ratio.is_some());
    if drawn.is_empty() {
        return None;
    }
    let rules = members.iter().map(|m| &m.comparisons.rules);
    let rope_ratio = rules.clone().map(|rules| rules.rope_ratio).fold(0.0, f64::max);
    let mut level: Vec<String> = rules.map(|rules| share(1.0 - rules.alpha)).collect();
    level.dedup();
    let drawing = forest(&Forest {
        metric,
        rope_ratio,
        x_title: format!("{} ({})", difference_word(metric), sense(metric)),
        rows: drawn,
    });
    let caption = format!(
        "Thick bar: {} interval; thin bar: the one that decides. Small marks: single blocks. Each interval holds within \
         its bake-off.",
        level.join(" or ")
    );
    Some(Figure { title, caption, description: format!("{}.", told.join("; ")), drawing, data })
}

/// Verdicts of one metric: a column for each bake-off.
fn grid(members: &[Member<'_>], titles: &[String], metric: Metric) -> Grid {
    let rows = rows(members, metric);
    let cell = |pair: &Pair| {
        let (sign, word, tone) = mark(pair.verdict);
        GridCell {
            ratio: pair.estimate.as_ref().map_or("-".to_owned(), |e| change_of(metric, e.ratio)),
            sign,
            word,
            tone,
        }
    };
    let row = |(series, row): (usize, &Row<'_>)| GridRow {
        name: if row.condition.is_empty() {
            row.name.clone()
        } else {
            format!("{}, {}", row.name, row.condition)
        },
        series,
        cells: (0..members.len())
            .map(|i| row.of.iter().find(|(of, _)| *of == i).map(|(_, pair)| cell(pair)))
            .collect(),
    };
    Grid {
        caption: format!("{}, {}", capital(metric_name(metric)), sense(metric)),
        columns: titles.to_vec(),
        rows: rows.iter().enumerate().map(row).collect(),
    }
}

/// The claim of each bake-off in its own words.
fn found(members: &[Member<'_>], titles: &[String]) -> Section {
    let mut table = Table::new("What each bake-off found", &["bake-off", "standing", "claim"]);
    for (member, title) in members.iter().zip(titles) {
        let claim = claim(member.bakeoff, member.comparisons);
        table.row(vec![title.clone().into(), claim.standing.word().into(), claim.headline.into()]);
    }
    Section { id: "claims", title: "The claim of each", blocks: vec![Block::Table(table)] }
}

fn caveats(members: &[Member<'_>], titles: &[String], differing: usize) -> Vec<String> {
    let mut caveats = vec![
        "Each bake-off drew its own random order at its own time: differences between them are not randomized."
            .to_owned(),
    ];
    if differing > 0 {
        caveats.push(format!(
            "{} of their plans and machines differ; they are listed below.",
            plural(differing, "fact")
        ));
    }
    for (member, title) in members.iter().zip(titles) {
        let own = claim(member.bakeoff, member.comparisons).caveats;
        caveats.extend(own.into_iter().map(|caveat| format!("{title}: {caveat}")));
    }
    caveats
}

/// Facts of plans, programs and machines that differ, and the number of all facts.
fn difference_table(members: &[Member<'_>], titles: &[String]) -> (Table, usize) {
    let described: Vec<(String, Environment)> =
        members.iter().zip(titles).map(|(m, title)| (title.clone(), description(m.bakeoff))).collect();
    let hosts: Vec<(String, &Environment)> = described.iter().map(|(title, e)| (title.clone(), e)).collect();
    let heads: Vec<&str> = std::iter::once("fact").chain(titles.iter().map(String::as_str)).collect();
    let mut table = Table::new("What differs", &heads);
    let all = facts(&hosts);
    for fact in all.iter().filter(|fact| differs(&hosts, fact)) {
        let value =
            |(_, host): &(String, &Environment)| host.fact(fact).unwrap_or("unknown").to_owned().into();
        table.row(std::iter::once((*fact).into()).chain(hosts.iter().map(value)).collect());
    }
    (table, all.len())
}

/// The machine's facts, and those of the plan and of the programs beside them.
fn description(bakeoff: &Bakeoff) -> Environment {
    let mut described = bakeoff.environment.clone();
    let mut servers: Vec<&str> =
        bakeoff.sealed().filter_map(|(_, r)| r.load.as_ref()?.server_version.as_deref().ok()).collect();
    servers.sort_unstable();
    servers.dedup();
    let own = [
        ("bakeoff.version", bakeoff.header.tool_version.clone()),
        ("plan.sha256", bakeoff.plan_sha256.clone()),
        ("plan.blocks", bakeoff.blocks.to_string()),
        ("server.version", servers.join(", ")),
    ];
    described.facts.extend(own.into_iter().map(|(name, value)| (name.to_owned(), Ok(value))));
    described
}

/// The cells of each bake-off.
fn cells(members: &[Member<'_>], titles: &[String]) -> Folded {
    let mut table = Table::new(
        "Every cell: geometric mean over its blocks",
        &["bake-off", "cell", "#throughput", "#p99", "#CPU per event", "#blocks"],
    );
    for (member, title) in members.iter().zip(titles) {
        let comparisons = member.comparisons;
        for cell in comparisons.cells_of(Metric::Throughput) {
            let mean = |metric: Metric| -> Words {
                let of = comparisons.cells_of(metric).find(|c| c.levels == cell.levels);
                of.and_then(|c| cell_mean(c, cell.values.len())).unwrap_or_else(|| "-".to_owned()).into()
            };
            table.row(vec![
                title.clone().into(),
                crate::words::configuration(&cell.levels).into(),
                mean(Metric::Throughput),
                mean(Metric::P99),
                mean(Metric::CpuPerEvent),
                cell.values.len().to_string().into(),
            ]);
        }
    }
    let note = plural(table.rows.len(), "cell");
    Section { id: "numbers", title: "All numbers", blocks: vec![Block::Table(table)] }.folded(note)
}
