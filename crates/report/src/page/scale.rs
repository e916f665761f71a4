//! The page of a scale run.

use analysis::scale::{Level, Scale, Versus};
use record::bakeoff::Bakeoff;
use record::run::RunState;

use super::disclosure::{disclosure, plan};
use super::{Block, Figure, Page, Section, Table, Tone, Words};
use crate::chart::{Kind, Line, Lines, Point, lines};
use crate::claim::beside_others;
use crate::number::{date_time, outward, percent, significant, significant_4, span};
use crate::words::{cliff_sentence, law_sentence, plural};

/// Lays out the page.
pub fn scale(bakeoff: &Bakeoff, scale: &Scale, versus: Option<&Versus>) -> Page {
    let header = &bakeoff.header;
    let invalid: Vec<String> = scale
        .levels
        .iter()
        .flat_map(|l| l.invalid.iter().map(move |why| format!("INVALID: {} copies, {why}", l.copies)))
        .collect();
    let (word, tone) = match (header.state, invalid.is_empty()) {
        (RunState::Sealed, true) => ("measured", Tone::Good),
        (RunState::Sealed, false) => ("levels INVALID", Tone::Bad),
        _ => (header.state.word(), Tone::Doubt),
    };
    let claim = scale
        .seduction
        .clone()
        .unwrap_or_else(|missing| format!("the result for one copy is unknown: {missing}"));
    let mut caveats: Vec<String> = beside_others(bakeoff).into_iter().collect();
    caveats.extend(invalid);
    caveats.extend(scale.caveats.iter().map(|caveat| format!("{}.", upper(caveat))));
    caveats.extend(scale.scaling.cliff.as_ref().map(|cliff| cliff_sentence(cliff, "copies")));
    caveats.extend(versus.map(|v| format!("{}.", v.sentence)));
    let table = levels(scale);
    Page {
        title: header.title.clone(),
        question: String::new(),
        standing: Words::toned(word, tone),
        claim: format!("{}.", upper(&claim)),
        caveats,
        byline: vec![
            format!("as of {}", date_time(header.anchor.unix_ns)),
            format!("run {}", header.id),
            format!("{} in random order", plural(bakeoff.blocks as usize, "round")),
            format!("seed {}", bakeoff.seed),
        ],
        lead: figure(scale, table.clone()).into_iter().map(Block::Figure).collect(),
        sections: [charts(scale, &table), Some(laws(scale))].into_iter().flatten().collect(),
        folded: vec![
            Section { id: "levels", title: "All numbers", blocks: vec![Block::Table(table)] }
                .folded(format!("{} of copies", plural(scale.levels.len(), "number"))),
            method(bakeoff).folded("rounds, laws and their tests"),
            disclosure(header, &bakeoff.environment, Vec::new(), vec![plan(&bakeoff.plan_text)])
                .folded("the command that repeats it, the plan, the machine"),
        ],
    }
}

fn upper(sentence: &str) -> String {
    let mut letters = sentence.chars();
    letters.next().map_or(String::new(), |c| c.to_uppercase().chain(letters).collect())
}

fn levels(scale: &Scale) -> Table {
    let mut table = Table::new(
        "Every number of copies",
        &[
            "#copies",
            "#work per second",
            "#95 % interval",
            "#a copy per second",
            "#efficiency",
            "#fairness",
            "#CPU s per run",
            "#busy",
            "saturated CPUs",
            "#rounds",
        ],
    );
    for level in &scale.levels {
        table.row(row(level));
    }
    table
}

fn charts(scale: &Scale, table: &Table) -> Option<Section> {
    let figure = efficiency(scale, table.clone())?;
    Some(Section { id: "charts", title: "One copy and many", blocks: vec![Block::Figure(figure)] })
}

fn row(level: &Level) -> Vec<Words> {
    let or_why =
        |value: record::missing::Maybe<String>| -> Words { value.unwrap_or_else(|_| "-".to_owned()).into() };
    let work = match &level.work_per_s {
        Ok((work, _)) => significant_4(*work).into(),
        Err(_) => Words::toned("INVALID", Tone::Bad),
    };
    let interval = level.work_per_s.clone().and_then(|(_, interval)| interval);
    let saturated = level.saturated.clone().map(|cpus| match cpus.len() {
        0 => "none".to_owned(),
        1..=8 => cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(", "),
        n => format!("{n} of them"),
    });
    vec![
        level.copies.to_string().into(),
        work,
        or_why(interval.map(|ends| {
            let (low, high) = outward(ends, significant_4);
            format!("{low} .. {high}")
        })),
        or_why(level.per_copy_per_s.clone().map(significant_4)),
        or_why(level.efficiency.clone().map(percent)),
        or_why(level.fairness.clone().map(percent)),
        or_why(level.cpu_s_per_run.clone().map(significant)),
        or_why(level.busy_ratio.clone().map(percent)),
        or_why(saturated),
        level.rounds.len().to_string().into(),
    ]
}

fn figure(scale: &Scale, data: Table) -> Option<Figure> {
    let point = |level: &Level| {
        let (work, interval) = level.work_per_s.clone().ok()?;
        Some(Point {
            x: f64::from(level.copies),
            y: work,
            interval: interval.ok(),
            dots: level.rounds.iter().map(|(_, x)| *x).collect(),
        })
    };
    let points: Vec<Point> = scale.levels.iter().filter_map(point).collect();
    if points.len() < 2 {
        return None;
    }
    let mut series =
        vec![Line { name: "measured".into(), points, banded: false, joined: true, gaps: Vec::new() }];
    if let Ok(chosen) = &scale.scaling.chosen {
        let fitted = scale.scaling.laws.iter().find(|f| f.law == *chosen).expect("it was fitted");
        let along = fitted.band.iter().map(|(n, band)| Point {
            x: *n,
            y: fitted.curve.at(*n),
            interval: *band,
            dots: Vec::new(),
        });
        series.push(Line {
            name: chosen.word().into(),
            points: along.collect(),
            banded: true,
            joined: true,
            gaps: Vec::new(),
        });
    }
    if let Some((alone, _)) =
        scale.levels.first().filter(|l| l.copies == 1).and_then(|l| l.work_per_s.clone().ok())
    {
        let cpus = f64::from(scale.cpus.clone().unwrap_or(1));
        let most = scale.levels.iter().map(|l| f64::from(l.copies)).fold(1.0, f64::max);
        let ends = [1.0, cpus.min(most), most];
        let ideal = ends.map(|n| Point { x: n, y: alone * n.min(cpus), interval: None, dots: Vec::new() });
        series.push(Line {
            name: "one CPU a copy".into(),
            points: ideal.into(),
            banded: true,
            joined: true,
            gaps: Vec::new(),
        });
    }
    Some(Figure {
        title: "Work per second of the whole machine".into(),
        caption:
            "Dots are rounds, bars 95 % intervals over rounds; the straight line extrapolates one copy, up \
             to the number of CPUs; the curve is the fitted law with its band."
                .into(),
        description: "Work per second against the number of copies; the numbers are in the table.".into(),
        drawing: lines(&Lines {
            x_title: "copies",
            y_title: "work per second",
            x_kind: Kind::Linear,
            y_kind: Kind::Linear,
            x_range: None,
            x_ticks: ticks(scale),
            y_label: significant,
            series,
        }),
        data,
    })
}

fn efficiency(scale: &Scale, data: Table) -> Option<Figure> {
    let line = |name: &str, of: fn(&Level) -> Option<f64>| Line {
        name: name.into(),
        points: scale
            .levels
            .iter()
            .filter_map(|l| {
                Some(Point { x: f64::from(l.copies), y: of(l)?, interval: None, dots: Vec::new() })
            })
            .collect(),
        banded: false,
        joined: true,
        gaps: Vec::new(),
    };
    let series: Vec<Line> = [
        line("efficiency", |l| l.efficiency.clone().ok()),
        line("machine busy", |l| l.busy_ratio.clone().ok()),
    ]
    .into_iter()
    .filter(|l| l.points.len() > 1)
    .collect();
    if series.is_empty() {
        return None;
    }
    Some(Figure {
        title: "Efficiency, and how busy the machine is".into(),
        caption: "Efficiency is a copy's work beside the others as a share of its work alone. If efficiency \
                  falls while the machine is not busy, copies wait for something other than CPUs."
            .into(),
        description:
            "Efficiency and busy share of the machine by number of copies; the numbers are in the table."
                .into(),
        drawing: lines(&Lines {
            x_title: "copies",
            y_title: "share",
            x_kind: Kind::Linear,
            y_kind: Kind::Linear,
            x_range: None,
            x_ticks: ticks(scale),
            y_label: percent,
            series,
        }),
        data,
    })
}

fn ticks(scale: &Scale) -> Vec<(f64, String)> {
    scale.levels.iter().map(|l| (f64::from(l.copies), l.copies.to_string())).collect()
}

fn laws(scale: &Scale) -> Section {
    let mut table = Table::new(
        "The laws, fitted to the levels within the CPUs",
        &[
            "law",
            "#lambda (work/s of one)",
            "#sigma (contention)",
            "#kappa (coherency)",
            "#AICc",
            "#lack of fit p",
        ],
    );
    for fitted in &scale.scaling.laws {
        let of = |value: f64, place: usize| -> Words {
            if value.abs() < f64::MIN_POSITIVE {
                return "0".into();
            }
            match &fitted.intervals {
                Ok(all) => {
                    let (low, high) = all[place];
                    let (low, high) = outward((low, high), significant);
                    format!("{} [{low}, {high}]", significant(value)).into()
                }
                Err(_) => significant(value).into(),
            }
        };
        table.row(vec![
            fitted.law.word().into(),
            of(fitted.curve.lambda, 0),
            of(fitted.curve.sigma, 1),
            of(fitted.curve.kappa, 2),
            fitted.aicc.clone().map_or("-".into(), |a| format!("{a:.1}").into()),
            fitted.lack_of_fit_p.clone().map_or("-".into(), |p| crate::number::p_value(p).into()),
        ]);
    }
    let mut blocks = vec![Block::List(law_sentence(&scale.scaling, "copies"))];
    if scale.scaling.laws.iter().any(|fitted| fitted.intervals.is_ok()) {
        blocks.push(Block::Table(table));
    }
    Section { id: "laws", title: "How it scales", blocks }
}

fn method(bakeoff: &Bakeoff) -> Section {
    let text = format!(
        "All copies start together and repeat the command until each has worked for {} and finished a run; \
         then all are stopped, and unfinished runs are not counted. A copy's rate is its finished runs \
         divided by the time from its start to the end of the last one; the machine's rate is the sum. Every \
         number of copies is measured once in each of {} rounds, in an order drawn from the seed.",
        span(bakeoff.measure.as_secs_f64()),
        bakeoff.blocks
    );
    let laws = "X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1)) is fitted to the logarithms of work \
                per second at the levels within the CPUs; linear has neither sigma nor kappa, Amdahl's law \
                no kappa. Intervals and laws need six rounds: the interval is Student's t over one fit for \
                each round, and the law is the one with the most parameters whose last one significantly \
                differs from 0. The ratio of all copies between two machines allows for the choice of the \
                best level, so its interval is wider than a plain 95 % interval. A peak is named only if \
                kappa is significantly over 0 and the peak lies within 1.5 times the largest level. A fall \
                steeper than any such law allows is a cliff, and no law is chosen then.";
    Section { id: "method", title: "Method", blocks: vec![Block::Text(text), Block::Text(laws.into())] }
}
