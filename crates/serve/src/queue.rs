//! Submission of plans.

use archive::Submission;
use record::clock::WallAnchor;
use record::printable::printable;
use record::run::{NotARunId, RunId};
use serde_json::{Value, json};

/// Longest plan, in bytes.
pub(crate) const PLAN_BYTES_MAX: usize = 256 << 10;
/// Longest text for a submitter.
const BY_LENGTH_MAX: usize = 80;
/// Priorities that may be asked for.
const PRIORITY_MAX: i32 = 100;

/// A fault of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Line and column, from 1; `None` if it is not at a place.
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) text: String,
}

/// Facts about a plan that is sound.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Outline {
    pub(crate) title: String,
    pub(crate) trials: u32,
    pub(crate) configurations: u32,
    pub(crate) cells: u32,
    pub(crate) blocks: u32,
    pub(crate) time_min_s: f64,
    /// Difference that the bake-off detects, in standard deviations between blocks.
    pub(crate) detectable_sd: Option<f64>,
    /// Commands that it runs, with their accounts.
    pub(crate) runs: Vec<String>,
    /// Settings that can start a program, as parsed.
    pub(crate) settings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Wishes of a submitter.
#[derive(Debug, Clone, Default)]
pub(crate) struct Terms {
    pub(crate) priority: Option<String>,
    pub(crate) not_before: Option<String>,
    /// Further name, such as that of a job.
    pub(crate) by: Option<String>,
    /// Id of the entry, if the client has chosen one: it may then repeat the request.
    pub(crate) id: Option<String>,
}

/// Checks a plan.
pub(crate) fn check(text: &str) -> Result<Outline, Vec<Fault>> {
    Ok(outline(&read(text)?, text))
}

/// Checks a plan and its terms.
///
/// - `name`: of the identity that submits it.
pub(crate) fn submission(text: &str, terms: &Terms, name: &str) -> Result<Submission, Vec<Fault>> {
    let plan = read(text)?;
    let mut faults = Vec::new();
    let mut fault = |text: String| faults.push(Fault { place: None, text });
    let given =
        |value: &Option<String>| value.as_deref().map(str::trim).filter(|v| !v.is_empty()).map(str::to_owned);
    let priority = given(&terms.priority).map_or(Ok(0), |text| priority(&text));
    let priority = priority.map_err(&mut fault).unwrap_or_default();
    let id = given(&terms.id).map_or_else(|| Ok(RunId::fresh(WallAnchor::now())), |text| text.parse());
    let id = id.map_err(|why: NotARunId| fault(why.to_string()));
    let not_before_unix_ns =
        given(&terms.not_before).and_then(|text| match crate::view::read_moment(&text) {
            Ok(at) => Some(at),
            Err(why) => {
                fault(why);
                None
            }
        });
    let by = given(&terms.by);
    if by.as_ref().is_some_and(|by| by.chars().count() > BY_LENGTH_MAX) {
        fault(format!("a submitter's name has at most {BY_LENGTH_MAX} characters"));
    }
    let Ok(id) = id else { return Err(faults) };
    if !faults.is_empty() {
        return Err(faults);
    }
    Ok(Submission {
        id,
        plan: text.to_owned(),
        plan_sha256: plan.sha256().to_owned(),
        title: plan.title().to_owned(),
        by: by.map_or_else(|| name.to_owned(), |by| format!("{by} ({name})")),
        priority,
        not_before_unix_ns,
        estimate_s: plan.estimate().time_min.as_secs_f64(),
    })
}

/// Reads a priority.
pub(crate) fn priority(text: &str) -> Result<i32, String> {
    let bounds = -PRIORITY_MAX..=PRIORITY_MAX;
    text.trim().parse().ok().filter(|n| bounds.contains(n)).ok_or_else(|| {
        format!("`{text}` is not a priority: expected a whole number from -{PRIORITY_MAX} to {PRIORITY_MAX}")
    })
}

fn read(text: &str) -> Result<plan::Plan, Vec<Fault>> {
    let fault = |text: String| vec![Fault { place: None, text }];
    if text.len() > PLAN_BYTES_MAX {
        return Err(fault(format!("the plan has more than {PLAN_BYTES_MAX} bytes")));
    }
    let plan = plan::read(text, "plan.toml").map_err(|errors| {
        let of = |problem: &plan::Problem| Fault {
            place: Some((problem.position.line, problem.position.column)),
            text: problem.kind.to_string(),
        };
        errors.problems().iter().map(of).collect::<Vec<_>>()
    })?;
    let script = plan.script_path().filter(|path| path.is_relative());
    if let Some(path) = plan.notes_path().or(script) {
        return Err(fault(format!(
            "the plan refers to the file {}, but a queue stores only the plan's text",
            path.display()
        )));
    }
    let unbuilt: Vec<Fault> = plan
        .unsupported()
        .iter()
        .map(|note| Fault {
            place: Some((note.position.line, note.position.column)),
            text: format!("not implemented yet: {}", note.text),
        })
        .collect();
    if unbuilt.is_empty() { Ok(plan) } else { Err(unbuilt) }
}

fn outline(plan: &plan::Plan, text: &str) -> Outline {
    let estimate = plan.estimate();
    let design = analysis::power::Design {
        blocks: estimate.blocks,
        comparisons: plan.comparisons(),
        alpha: plan.judge().alpha,
    };
    Outline {
        title: plan.title().to_owned(),
        trials: estimate.trials,
        configurations: estimate.configurations,
        cells: estimate.cells_per_series,
        blocks: estimate.blocks,
        time_min_s: estimate.time_min.as_secs_f64(),
        detectable_sd: analysis::power::detectable_sd(&design),
        runs: crate::executes::executes(plan),
        settings: plan::listing(text).unwrap_or_default(),
        notes: plan.notes().iter().map(|note| format!("{}: {}", note.position, note.text)).collect(),
    }
}

/// Document of a check.
pub(crate) fn document(checked: &Result<Outline, Vec<Fault>>) -> Value {
    match checked {
        Ok(outline) => json!({
            "schema": "bakeoff.plan-check/1",
            "problems": [],
            "title": outline.title,
            "trials": outline.trials,
            "configurations": outline.configurations,
            "cells_per_series": outline.cells,
            "blocks": outline.blocks,
            "time_min_s": outline.time_min_s,
            "detectable_sd": outline.detectable_sd,
            "runs": outline.runs,
            "settings": outline.settings,
            "notes": outline.notes,
            "summary": summary(outline),
        }),
        Err(faults) => json!({"schema": "bakeoff.plan-check/1", "problems": problems(faults)}),
    }
}

/// List of faults for a document.
pub(crate) fn problems(faults: &[Fault]) -> Vec<Value> {
    let of = |fault: &Fault| {
        json!({
            "line": fault.place.map(|(line, _)| line),
            "column": fault.place.map(|(_, column)| column),
            "text": printable(&fault.text),
        })
    };
    faults.iter().map(of).collect()
}

/// The outline in a sentence.
pub(crate) fn summary(outline: &Outline) -> String {
    let power = outline.detectable_sd.map_or_else(
        || "no verdict is possible: too few blocks, or nothing is compared".to_owned(),
        |sd| {
            format!(
                "detects a difference of {sd:.1} standard deviations between blocks in {:.0} % of such \
                 bake-offs",
                analysis::power::POWER * 100.0
            )
        },
    );
    format!(
        "{}: {} trials ({} configurations x {} cells x {} blocks), at least {}; {power}",
        printable(&outline.title),
        outline.trials,
        outline.configurations,
        outline.cells,
        outline.blocks,
        crate::view::span(outline.time_min_s),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: &str = "schema = 1\ntitle = \"t\"\n[factors.threads]\nvalues = [1, 2]\nlevel = \"sub-plot\"\n\
                        [design]\nblocks = 6\n[load]\ntarget = \"null:\"\nthreads = \"{threads}\"\n[phases]\n\
                        measure = { time = \"1s\" }\n";

    #[test]
    fn a_fault_has_the_place_at_which_it_stands() {
        let faults = check(&PLAN.replace("blocks = 6", "blocs = 6")).unwrap_err();
        let places: Vec<_> = faults.iter().filter_map(|fault| fault.place).collect();
        assert!(places.contains(&(7, 1)), "{faults:?}");
        assert_eq!(check(PLAN).unwrap().trials, 12);
    }

    #[test]
    fn a_plan_with_more_cells_than_any_number_is_refused() {
        let factor = |n: u32| format!("[factors.f{n}]\nvalues = [1, 2]\nlevel = \"sub-plot\"\n");
        let many: String = (0..128).map(factor).collect();
        let faults = check(&PLAN.replace("[design]", &format!("{many}[design]"))).unwrap_err();
        assert!(faults.iter().any(|fault| fault.text.contains("trials")), "{faults:?}");
    }

    #[test]
    fn every_term_is_checked() {
        let terms = |priority: &str, not_before: &str, by: &str| Terms {
            priority: Some(priority.to_owned()),
            not_before: Some(not_before.to_owned()),
            by: Some(by.to_owned()),
            id: None,
        };
        let good = submission(PLAN, &terms(" 7 ", "", "job 4"), "ann").unwrap();
        assert_eq!((good.priority, good.not_before_unix_ns, good.by.as_str()), (7, None, "job 4 (ann)"));
        for wrong in [
            terms("101", "", ""),
            terms("high", "", ""),
            terms("-2147483648", "", ""),
            terms("", "soon", ""),
            terms("", "", &"x".repeat(81)),
        ] {
            assert_eq!(submission(PLAN, &wrong, "ann").unwrap_err().len(), 1, "{wrong:?}");
        }
    }

    #[test]
    fn a_plan_that_names_another_file_is_refused() {
        let with_notes = format!("{PLAN}[report]\nnotes = \"/etc/shadow\"\n");
        let faults = check(&with_notes).unwrap_err();
        assert!(faults[0].text.contains("/etc/shadow"), "{faults:?}");
    }
}
