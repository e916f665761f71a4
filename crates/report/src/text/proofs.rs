//! Proofs: the value of each instrument on each workload, beside the true value.

use std::io::{self, Write};

use record::missing::Maybe;
use record::proof::{Calibration, Proof, ProofVerdict, Unit};

use super::table::{Align, Table};
use super::{Style, Tint, paragraph};
use crate::number::{count, date_time, latency, rate};

/// Writes a row for each proof, then the totals and the reasons for impossible proofs.
///
/// Verdicts in brackets are those of samplers and of other tools; they are printed for comparison and decide
/// nothing.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn proofs(out: &mut dyn Write, proofs: &[Proof], style: Style) -> io::Result<()> {
    let mut table = Table::default()
        .column("workload", Align::Left, 0)
        .column("instrument", Align::Left, 0)
        .column("truth", Align::Right, 3)
        .column("found", Align::Right, 2)
        .column("error", Align::Right, 0)
        .column("its CPU", Align::Right, 4)
        .column("verdict", Align::Left, 0);
    let mut before = None;
    for proof in proofs {
        // The workload is printed once for all of its instruments.
        let again = before.replace(&proof.workload) == Some(&proof.workload);
        table.row(vec![
            (if again { String::new() } else { proof.workload.clone() }, None),
            (proof.instrument.clone(), None),
            (cell(&proof.truth, |v| value(v, proof.unit)), None),
            (cell(&proof.found, |v| value(v, proof.unit)), None),
            (cell(&proof.error(), |v| error(v, proof.unit)), None),
            (cell(&proof.cost_ratio, percent_of_cpu), None),
            verdict(proof),
        ]);
    }
    table.write(out, style)?;
    for calibration in totals(proofs) {
        writeln!(out)?;
        paragraph(out, &calibration, 2, style)?;
    }
    for (reason, what) in reasons(proofs) {
        paragraph(out, &format!("cannot: {what} ({reason})"), 2, style)?;
    }
    for (remark, what) in remarks(proofs) {
        paragraph(out, &format!("{what}: {remark}"), 2, style)?;
    }
    Ok(())
}

/// The last proofs on the run's machine, one line per subject, or one line that says that there are no
/// proofs.
pub(crate) fn cited(calibration: &[Calibration]) -> Vec<String> {
    if calibration.is_empty() {
        return vec!["Instruments: not proved on this machine; run bakeoff prove.".to_owned()];
    }
    calibration
        .iter()
        .map(|c| {
            let cannot =
                if c.cannot == 0 { String::new() } else { format!(", {} could not be made", c.cannot) };
            format!(
                "Instruments, {}: {} of {} proofs passed on this machine{cannot} ({}, run {}).",
                c.subject,
                c.passed,
                c.passed + c.failed + c.cannot,
                date_time(c.unix_ns),
                c.run
            )
        })
        .collect()
}

pub(crate) fn cell(value: &Maybe<f64>, text: impl Fn(f64) -> String) -> String {
    value.as_ref().map_or("-".to_owned(), |v| text(*v))
}

pub(crate) fn value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{:.2} %", value * 100.0),
        Unit::Ns => latency(value),
        Unit::PerS => format!("{}/s", rate(value)),
        Unit::Count | Unit::Bytes => whole(value),
    }
}

pub(crate) fn error(value: f64, unit: Unit) -> String {
    let sign = if value < 0.0 { "-" } else { "+" };
    match unit {
        // Percentage points without a unit: the difference of two ratios.
        Unit::Ratio => format!("{:+.2}", value * 100.0),
        Unit::Ns => format!("{sign}{}", latency(value.abs())),
        Unit::PerS => format!("{sign}{}/s", rate(value.abs())),
        Unit::Count | Unit::Bytes => format!("{sign}{}", whole(value.abs())),
    }
}

/// A count with a fractional part, such as a mean, has two decimals.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and in range"
)]
fn whole(value: f64) -> String {
    if value.fract() == 0.0 && (0.0..9e15).contains(&value) {
        count(value as u64)
    } else {
        format!("{value:.2}")
    }
}

pub(crate) fn percent_of_cpu(ratio: f64) -> String {
    if ratio < 0.0001 { "<0.01 %".to_owned() } else { format!("{:.2} %", ratio * 100.0) }
}

fn verdict(proof: &Proof) -> (String, Option<Tint>) {
    let word = proof.verdict().word();
    match (proof.ours, proof.verdict()) {
        (true, ProofVerdict::Pass) => (word.to_owned(), Some(Tint::Good)),
        (true, ProofVerdict::Fail) => ("FAIL".to_owned(), Some(Tint::Bad)),
        (true, ProofVerdict::Cannot) => (word.to_owned(), Some(Tint::Doubt)),
        (false, _) => (format!("({word})"), Some(Tint::Quiet)),
    }
}

/// A sentence for each subject.
pub(crate) fn totals(proofs: &[Proof]) -> Vec<String> {
    let mut subjects: Vec<&str> = Vec::new();
    for proof in proofs {
        if !subjects.contains(&proof.subject.as_str()) {
            subjects.push(&proof.subject);
        }
    }
    let sentence = |subject: &&str| {
        let of = |ours: bool, verdict: ProofVerdict| {
            let those = proofs.iter().filter(|p| p.subject == **subject && p.ours == ours);
            those.filter(|p| p.verdict() == verdict).count()
        };
        let all =
            |ours: bool| [ProofVerdict::Pass, ProofVerdict::Fail, ProofVerdict::Cannot].map(|v| of(ours, v));
        let [passed, failed, cannot] = all(true);
        let worst = worst_ratio(proofs, subject).map_or(String::new(), |(worst, workload)| {
            format!("; largest error of events {:.2} points, on {workload}", worst * 100.0)
        });
        let others = match all(false) {
            [0, 0, 0] => String::new(),
            [p, f, c] => format!(
                "; in brackets, for comparison only: samplers and external tools, {p} passed, {f} failed, \
                 {c} could not"
            ),
        };
        format!("{subject}: {passed} passed, {failed} failed, {cannot} could not be proved{worst}{others}")
    };
    subjects.iter().map(sentence).collect()
}

/// The largest error of the reference instrument, if its unit is a ratio.
fn worst_ratio<'a>(proofs: &'a [Proof], subject: &str) -> Option<(f64, &'a str)> {
    let first = proofs.iter().find(|p| p.subject == subject && p.ours && p.unit == Unit::Ratio)?;
    if first.instrument != "events" {
        return None;
    }
    let same = proofs.iter().filter(|p| p.subject == subject && p.instrument == first.instrument);
    let errors = same.filter_map(|p| Some((p.error().ok()?.abs(), p.workload.as_str())));
    errors.max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Reasons for impossible proofs, each once with its subjects.
pub(crate) fn reasons(proofs: &[Proof]) -> Vec<(String, String)> {
    let missing = proofs.iter().filter_map(|p| Some((p.error().err()?.reason, p)));
    grouped(missing)
}

pub(crate) fn remarks(proofs: &[Proof]) -> Vec<(String, String)> {
    let said = proofs.iter().filter(|p| p.error().is_ok()).filter_map(|p| Some((p.remark.clone()?, p)));
    grouped(said)
}

fn grouped<'a>(pairs: impl Iterator<Item = (String, &'a Proof)>) -> Vec<(String, String)> {
    let mut groups: Vec<(String, Vec<&Proof>)> = Vec::new();
    for (text, proof) in pairs {
        match groups.iter_mut().find(|(known, of)| *known == text && of[0].instrument == proof.instrument) {
            Some((_, of)) => of.push(proof),
            None => groups.push((text, vec![proof])),
        }
    }
    let told = |(text, of): (String, Vec<&Proof>)| {
        let workloads: Vec<&str> = of.iter().map(|p| p.workload.as_str()).collect();
        let all = proofs_of_instrument(&workloads);
        (text, format!("{}, {all}", of[0].instrument))
    };
    groups.into_iter().map(told).collect()
}

/// `hide 10 %`, or the number of workloads if there are many.
fn proofs_of_instrument(workloads: &[&str]) -> String {
    if workloads.len() > 3 { format!("{} workloads", workloads.len()) } else { workloads.join(", ") }
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;

    use super::*;

    fn proof(instrument: &str, ours: bool, found: Maybe<f64>) -> Proof {
        Proof {
            subject: "cpu".into(),
            instrument: instrument.into(),
            ours,
            workload: "hide 70 %".into(),
            truth: Ok(0.6973),
            found,
            limit: 0.005,
            unit: Unit::Ratio,
            cost_ratio: Ok(0.0123),
            remark: None,
        }
    }

    fn written(all: &[Proof], width: usize) -> String {
        let mut out = Vec::new();
        proofs(&mut out, all, Style { width, color: false }).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn others_decide_nothing_and_what_cannot_be_proved_says_why() {
        let all = [
            proof("events", true, Ok(0.6975)),
            proof("mpstat", false, Ok(0.0)),
            proof("top", false, Err(Missing::because("top cannot be run"))),
        ];
        let text = written(&all, 100);
        assert!(text.contains("+0.02") && text.contains("pass"), "{text}");
        assert!(text.contains("-69.73") && text.contains("(fail)"), "{text}");
        assert!(text.contains("cpu: 1 passed, 0 failed, 0 could not be proved"), "{text}");
        assert!(text.contains("cannot: top, hide 70 % (top cannot be run)"), "{text}");
        for line in written(&all, 40).lines() {
            assert!(line.chars().count() <= 40, "{line}");
        }
    }

    #[test]
    fn every_unit_has_its_own_words() {
        assert_eq!(error(-0.5, Unit::Ratio), "-50.00");
        assert_eq!(error(1_500.0, Unit::Ns), "+1.50 us");
        assert_eq!(error(-2.0, Unit::Count), "-2");
        assert_eq!(value(4_096.0, Unit::Bytes), "4,096");
        assert_eq!(value(500.0, Unit::PerS), format!("{}/s", rate(500.0)));
    }
}
