//! The definition of an event and the method behind the verdicts.

use analysis::Comparisons;
use analysis::families::FamilySubject;
use record::bakeoff::{Bakeoff, Metric, Plot, Trial};
use record::load::{Loop, Workload};
use record::turns::Turns;

use super::resources::warm_ups;
use super::{Block, Section, Table, Words};
use crate::number::{share, span};
use crate::words::{configuration, list, metric as metric_name, only, plural};

/// Meaning of an event, the way events are offered, and the phases of a trial.
fn benchmark(bakeoff: &Bakeoff) -> [Block; 2] {
    let first = bakeoff.sealed().next().and_then(|(_, run)| run.load.as_ref());
    let what = first.map_or("No run was sealed.".to_owned(), |load| {
        let s = &load.settings;
        let what = match s.workload {
            Workload::OltpReadWrite => format!(
                "Each event is a transaction of {} point selects, four range queries over {} rows each, two \
                 updates, a delete and an insert, as in sysbench",
                s.oltp.point_selects, s.oltp.range_size
            ),
            Workload::OltpReadOnly => format!(
                "Each event is a transaction of {} point selects and four range queries over {} rows each",
                s.oltp.point_selects, s.oltp.range_size
            ),
            Workload::OltpWriteOnly => {
                "Each event is a transaction of two updates, a delete and an insert".to_owned()
            }
            Workload::OltpPointSelect => "Each event reads one row by its primary key".to_owned(),
            Workload::OltpInsert => "Each event adds one row, numbered by the database".to_owned(),
            Workload::OltpDelete => "Each event deletes one row by its primary key".to_owned(),
            Workload::OltpUpdateIndex => "Each event updates the indexed column of one row".to_owned(),
            Workload::OltpUpdateNonIndex => "Each event updates a column without index of one row".to_owned(),
            Workload::BulkInsert => {
                format!("Each event adds {} rows with one statement, numbered by the database", s.oltp.mix.bulk_rows)
            }
            Workload::SelectRandomPoints => {
                format!("Each event reads the rows of {} values of the indexed column", s.oltp.mix.random_points)
            }
            Workload::SelectRandomRanges => format!(
                "Each event counts the rows in {} ranges of the indexed column",
                s.oltp.mix.number_of_ranges
            ),
            Workload::Script if s.scripts.is_lua() => {
                format!("Each event is a call of event() in {}", s.scripts.files[0].name)
            }
            Workload::Script => format!("Each event runs one of {} SQL scripts", s.scripts.files.len()),
            Workload::Kv => format!(
                "Each event reads a value of a cache, or with a chance of {} % writes one",
                (100.0 * (1.0 - s.kv.get_ratio)).round()
            ),
            Workload::Native if !s.kv.commands.is_empty() => {
                format!("Each event sends one of {} commands", s.kv.commands.len())
            }
            Workload::Native => "Each event is one run of the target itself".to_owned(),
        };
        let pace = match &s.pace {
            Loop::Closed { .. } => "The loop is closed: a thread starts its next event when the last one \
                                    ends, so latency is service time; queueing delay is not measured"
                .to_owned(),
            Loop::Open(open) => format!(
                "The loop is open: events fall due {} times a second whether or not earlier ones have ended, and \
                 response time counts from the due time",
                crate::number::rate(open.per_s)
            ),
        };
        format!("{what} ({}). {pace}.", s.workload.word())
    });
    let judged = bakeoff.sealed().any(|(_, run)| run.warm_up.is_some());
    let until =
        if judged { ", and longer until it is judged steady (MSER-5, KPSS, PELT, Theil-Sen)," } else { "" };
    let phases = format!(
        "Each trial warms up for {}{until} and is measured for {}; nothing of the warm-up counts.",
        span(bakeoff.warmup.as_secs_f64()),
        span(bakeoff.measure.as_secs_f64())
    );
    [Block::Text(what), Block::Text(phases)]
}

/// The section of the method: design, order, tests, family.
pub(super) fn method(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Section {
    let rules = comparisons.rules;
    let mut factors = Table::new("Factors", &["factor", "level of the design", "values", "reference"]);
    for f in &bakeoff.factors {
        let plot = match f.plot {
            Plot::Whole => "whole plot: a fresh server each time",
            Plot::Sub => "sub plot: varied within one warmed server",
        };
        let reference = f.reference.clone().unwrap_or_else(|| "not compared".to_owned());
        factors.row(vec![f.name.clone().into(), plot.into(), f.values.join(", ").into(), reference.into()]);
    }
    let design = format!(
        "{} of every configuration, each in a series of its own, in an order drawn at random from the seed \
         {}. Drift that affects a whole block cancels in the ratios. The unit of replication is the series; \
         seconds and requests of one run are not independent and are never used as if they were.",
        plural(bakeoff.blocks as usize, "block"),
        bakeoff.seed
    );
    let tests = vec![
        format!(
            "Effect: for each block, d = ln(A / B) of the two runs of the same cell; the ratio is exp(mean \
             d), its {} interval exp(mean d ± t s / √R) over R blocks. If events did not end, or a histogram \
             bucket hides the exact value, a run's value is itself an interval, and the interval of the \
             effect is wider by that. s is the standard deviation of the pair's d, with R - 1 degrees of \
             freedom.",
            share(1.0 - rules.alpha)
        ),
        format!(
            "Better or worse: the interval at the level that Holm's procedure grants within the family lies wholly \
             outside [1/(1 + δ), 1 + δ], δ = {}, and the sign-flip test over all 2^R signs has p ≤ {}.",
            share(rules.rope_ratio),
            rules.alpha
        ),
        format!(
            "Equivalent: the interval at the level that Hochberg's procedure grants, among the comparisons \
             that are neither better nor worse, lies wholly inside; for one comparison that is the {} \
             interval. Inconclusive: anything else, and anything that rests on fewer than {} blocks. A \
             comparison has no verdict if any block lost the trial of one side only.",
            share(1.0 - rules.alpha),
            comparisons.blocks_min
        ),
        format!(
            "Family of the metrics: {}; {} over {}, adjusted together, so that the rate of any false verdict among \
             them is at most {}. It excludes metrics that no run of one side has. The deciding interval in the \
             tables is the one at Holm's level; for equivalent, the one at Hochberg's.",
            bakeoff.judge.family,
            plural(comparisons.pairs.len(), "comparison"),
            list(&bakeoff.judge.metrics.iter().map(|m| metric_name(*m).to_owned()).collect::<Vec<_>>()),
            rules.alpha
        ),
        "A cell's p99 is the geometric mean of its runs' p99, so that the ratio of two cells is the tested \
         ratio; the percentile figures read the merged distribution of its runs. Intervals come from the \
         runs, not from the requests."
            .to_owned(),
        "Blocks needed: the number that would decide with a power of 80 % if the observed effect is real."
            .to_owned(),
    ];
    let mut blocks = Vec::from(benchmark(bakeoff));
    blocks.extend(warm_ups(bakeoff).map(Block::Table));
    blocks.extend([Block::Text(design), Block::Table(factors)]);
    blocks.extend(special(bakeoff, comparisons));
    blocks.push(Block::List(tests));
    blocks.extend(families(bakeoff, comparisons));
    blocks.push(Block::Code { title: "The order drawn".into(), text: order(bakeoff) });
    Section { id: "method", title: "Method", blocks }
}

/// The families of a page that has more than one, and the rate of all together.
fn families(bakeoff: &Bakeoff, comparisons: &Comparisons) -> Vec<Block> {
    let all = analysis::families::families(bakeoff, comparisons);
    if all.len() < 2 {
        return Vec::new();
    }
    let mut table = Table::new(
        "Families of comparisons",
        &["family", "on this page", "#comparisons", "#a false result, at most"],
    );
    for family in &all {
        let (name, place) = match family.subject {
            FamilySubject::Metrics => ("metrics".to_owned(), "All numbers: p, p (Holm), deciding interval"),
            FamilySubject::Functions => {
                ("functions".to_owned(), "Functions behind the differences: interval, time")
            }
            FamilySubject::Gate(gate) => (format!("gate {}", crate::gates::name(&gate)), "Gates: result"),
        };
        let numbers = [family.comparisons.to_string(), share(family.rate)];
        table.row([name, place.to_owned()].into_iter().chain(numbers).map(Words::from).collect());
    }
    let together = format!(
        "Each family holds its own rate. A false result in any of them has a probability of at most {}. Intervals \
         that are in none of them (cells, slopes, scaling) hold one by one.",
        share(analysis::families::rate_of_any(&all))
    );
    vec![Block::Table(table), Block::Text(together)]
}

/// Paragraphs about a design that leaves combinations out, or drops configurations.
fn special(bakeoff: &Bakeoff, comparisons: &Comparisons) -> impl Iterator<Item = Block> {
    let cells = comparisons.cells_of(Metric::Throughput).count();
    let grid: usize = bakeoff.factors.iter().map(|factor| factor.values.len()).product();
    let left_out = (cells < grid).then(|| {
        Block::Text(format!(
            "The plan measures {cells} of the {grid} combinations of these values. A configuration is compared \
             with the reference only in conditions in which both are measured."
        ))
    });
    let sequential = bakeoff.judge.sequential.then(|| {
        Block::Text(format!(
            "Sequential: after each block, from block {} on, a configuration is dropped if its interval of the \
             first metric lies beyond δ on the worse side in every condition. That interval is valid after any \
             number of blocks; the intervals of all comparisons by that metric ever miss the truth at a rate of \
             at most {}, and the judgement at the end has the rest of alpha = {}.",
            record::bakeoff::blocks_min(bakeoff.judge.alpha),
            bakeoff.judge.alpha_of_dropping(),
            bakeoff.judge.alpha
        ))
    });
    left_out.into_iter().chain(sequential).chain(turns(bakeoff).map(Block::Text))
}

/// Paragraph about a design in slices.
fn turns(bakeoff: &Bakeoff) -> Option<String> {
    let all: Vec<Turns> = bakeoff.sealed().filter_map(|(_, run)| run.turns).collect();
    let (first, fewest) = (all.first()?, all.iter().map(|turns| turns.count).min()?);
    let most = all.iter().map(|turns| turns.count).max()?;
    let count = if fewest == most { most.to_string() } else { format!("{fewest} to {most}") };
    Some(format!(
        "In slices: the series of a block are alive at once, and the order above is that in which they start. They \
         are loaded in {count} turns of {} each, in rounds of an order drawn at random from the seed and the block, \
         while the idle servers are frozen. A turn ends when the last event that began in it ends. Times of a run \
         count its turns alone; {} after each thaw do not count. Memory and I/O of the servers, and the load of the \
         machine over time, are not measured.",
        span(first.slice.as_secs_f64()),
        span(first.settle.as_secs_f64()),
    ))
}

/// `block 1: wal (threads=4, threads=1), delete (...)`, one line per block.
fn order(bakeoff: &Bakeoff) -> String {
    let whole: Vec<String> =
        bakeoff.factors.iter().filter(|f| f.plot == Plot::Whole).map(|f| f.name.clone()).collect();
    let sub: Vec<String> =
        bakeoff.factors.iter().filter(|f| f.plot == Plot::Sub).map(|f| f.name.clone()).collect();
    let series_text = |trials: &[Trial]| {
        let cells: Vec<String> = trials.iter().map(|t| configuration(&only(&t.levels, &sub))).collect();
        format!("{} ({})", configuration(&only(&trials[0].levels, &whole)), cells.join(", "))
    };
    let block_text = |trials: &[Trial]| {
        let series: Vec<String> = trials.chunk_by(|a, b| a.series == b.series).map(series_text).collect();
        format!("block {}: {}", trials[0].block, series.join(", "))
    };
    bakeoff.trials.chunk_by(|a, b| a.block == b.block).map(block_text).collect::<Vec<_>>().join("\n")
}
