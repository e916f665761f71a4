//! The page of a comparison of commands.

use analysis::Verdict;
use analysis::commands::{Results, Summary};
use record::commands::{Comparison, Peak, Phase};
use record::run::{Run, RunState};

use super::disclosure::disclosure;
use super::{Block, Page, Section, Table, Tone, Words};
use crate::number::{change, change_interval, date_time, latency, outward, p_value, share, significant};
use crate::text::{commands_answer, commands_remarks as remarks, pair_sentence};
use crate::words::plural;

/// Lays out the page.
pub fn commands(run: &Run, comparison: &Comparison, results: &Results) -> Page {
    let header = &run.header;
    let (word, tone) = match header.state {
        RunState::Sealed => standing(results),
        RunState::Invalid => ("INVALID", Tone::Bad),
        RunState::Failed => ("FAILED", Tone::Bad),
        state => (state.word(), Tone::Doubt),
    };
    Page {
        title: header.title.clone(),
        question: String::new(),
        standing: Words::toned(word, tone),
        claim: commands_answer(header, comparison, results),
        lead: vec![Block::Table(times(comparison, results))],
        caveats: remarks(header, comparison, results),
        byline: vec![
            format!("as of {}", date_time(header.anchor.unix_ns)),
            format!("run {}", header.id),
            format!("{} of {} planned rounds", results.rounds, comparison.rounds_planned),
        ],
        sections: [Some(verdicts(comparison, results)), gates(comparison, results)]
            .into_iter()
            .flatten()
            .collect(),
        folded: vec![
            rounds(comparison).folded("the time of every execution, in the order drawn"),
            method(comparison, results).folded("the order, the number of rounds, the tests"),
            closing(run, comparison).folded("the command that repeats it, settings, versions, the machine"),
        ],
    }
}

fn gates(comparison: &Comparison, results: &Results) -> Option<Section> {
    let reference = Comparison::letter(comparison.reference);
    super::gates::of(&results.gates, comparison.rules.alpha, &[], &reference)
}

fn standing(results: &Results) -> (&'static str, Tone) {
    let has = |verdict| results.pairs.iter().any(|pair| pair.verdict == verdict);
    if has(Verdict::Better) || has(Verdict::Worse) {
        ("difference found", Tone::Good)
    } else if results.pairs.iter().all(|pair| pair.verdict == Verdict::Equivalent) {
        ("equivalent", Tone::Even)
    } else {
        ("no difference found", Tone::Even)
    }
}

fn times(comparison: &Comparison, results: &Results) -> Table {
    let heads = ["", "command", "#time", "#interval", "#CPU", "#memory at most", "#faults", "#rounds"];
    let mut table = Table::new("Every command, over the measured rounds", &heads);
    for (i, (name, summary)) in comparison.names().into_iter().zip(&results.summaries).enumerate() {
        let time = |s: f64| latency(s * 1e9);
        let interval = summary.time.as_ref().ok().and_then(|span| span.interval);
        table.row(vec![
            Comparison::letter(i).into(),
            name.into(),
            summary.time.as_ref().map_or("-".to_owned(), |span| time(span.mean)).into(),
            interval
                .map_or("-".to_owned(), |ends| {
                    let (low, high) = outward(ends, time);
                    format!("{low} to {high}")
                })
                .into(),
            summary.cpu.as_ref().map_or("-".to_owned(), |(user, system)| time(user + system)).into(),
            memory(summary).into(),
            summary.faults.as_ref().map_or("-".to_owned(), |faults| significant(*faults)).into(),
            results.rounds.to_string().into(),
        ]);
    }
    table
}

fn memory(summary: &Summary) -> String {
    match summary.memory {
        Ok(Peak::Bytes(bytes) | Peak::AtMost(bytes)) if bytes.is_finite() => {
            format!("{} MB", significant(bytes / 1e6))
        }
        _ => "-".to_owned(),
    }
}

fn verdicts(comparison: &Comparison, results: &Results) -> Section {
    let heads = ["command", "#time against the reference", "#interval", "#p (Holm)", "verdict", "in words"];
    let mut table = Table::new("Each command against its reference", &heads);
    for pair in &results.pairs {
        let estimate =
            |of: &dyn Fn(&analysis::Estimate) -> String| pair.estimate.as_ref().map_or("-".to_owned(), of);
        table.row(vec![
            Comparison::letter(pair.a).into(),
            estimate(&|e| change(e.ratio)).into(),
            estimate(&|e| change_interval(e.low, e.high)).into(),
            estimate(&|e| p_value(e.p_adjusted)).into(),
            pair.verdict.word().into(),
            pair_sentence(comparison, results, pair).into(),
        ]);
    }
    Section { id: "verdicts", title: "Verdicts", blocks: vec![Block::Table(table)] }
}

fn rounds(comparison: &Comparison) -> Section {
    let letters: Vec<String> =
        (0..comparison.commands.len()).map(|i| format!("#{}", Comparison::letter(i))).collect();
    let heads: Vec<&str> =
        ["#round", "phase", "order"].into_iter().chain(letters.iter().map(String::as_str)).collect();
    let mut table = Table::new("Time of every execution", &heads);
    for round in &comparison.rounds {
        let order: Vec<String> = round.turns.iter().map(|turn| Comparison::letter(turn.command)).collect();
        let time = |i: usize| -> Words {
            round.turn_of(i).map_or("-".to_owned(), |turn| latency(turn.time_s * 1e9)).into()
        };
        let mut row: Vec<Words> =
            vec![round.number.to_string().into(), round.phase.word().into(), order.join(" ").into()];
        row.extend((0..comparison.commands.len()).map(time));
        table.row(row);
    }
    Section { id: "rounds", title: "Rounds", blocks: vec![Block::Folded(table)] }
}

fn method(comparison: &Comparison, results: &Results) -> Section {
    let rules = &comparison.rules;
    let pilot = comparison.whole_rounds(Phase::Pilot).count();
    let text = [
        format!(
            "Each round runs every command once, in an order drawn from the seed {}. The number of measured rounds, {}, was \
             fixed before the first of them, from {}; warm-up and pilot are no part of the verdict.",
            rules.seed,
            comparison.rounds_planned,
            if pilot == 0 {
                "the user or the time".to_owned()
            } else {
                format!("a pilot of {}", plural(pilot, "round"))
            },
        ),
        format!(
            "For each round, d = ln(A / B) of the two times; the ratio is exp(mean d) with a t interval over the {} \
             rounds. Differences within {} do not matter: that is the band around a ratio of 1. Better or worse: the \
             interval at Holm's level lies outside the band, and the sign-flip test agrees at alpha = {}. \
             Equivalent: the interval at Hochberg's level lies inside the band.",
            results.rounds,
            share(rules.rope_ratio),
            rules.alpha
        ),
        "CPU time and faults are the kernel's account of the process from its execution on, and of the \
         children that it waited for; memory is the largest peak of a single process. The time begins before \
         the fork and ends when the kernel reports the exit. Its interval allows for drift from round to \
         round."
            .to_owned(),
    ];
    Section { id: "method", title: "Method", blocks: text.into_iter().map(Block::Text).collect() }
}

fn closing(run: &Run, comparison: &Comparison) -> Section {
    let asked = comparison.settings.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    disclosure(&run.header, &run.environment, asked, Vec::new())
}
