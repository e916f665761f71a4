//! A judged warm-up, as stored in the manifest.

use record::warm_up::{Course, JudgedCourse, WarmUp};
use serde::{Deserialize, Serialize};

use super::{Real, Wrong, word};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WarmUpForm {
    class: String,
    took_s: Real,
    batch_s: Real,
    batches: usize,
    metrics: Vec<CourseForm>,
}

#[derive(Debug, Serialize, Deserialize)]
struct CourseForm {
    metric: String,
    class: String,
    evidence: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    period_s: Option<Real>,
}

impl WarmUpForm {
    pub(crate) fn of(warm_up: &WarmUp) -> Self {
        let WarmUp { course, took_s, batch_s, batches, metrics } = warm_up;
        let metric = |judged: &JudgedCourse| {
            let JudgedCourse { metric, course, evidence, period_s } = judged.clone();
            CourseForm { metric, class: course.word().to_owned(), evidence, period_s: period_s.map(Real) }
        };
        Self {
            class: course.word().to_owned(),
            took_s: Real(*took_s),
            batch_s: Real(*batch_s),
            batches: *batches,
            metrics: metrics.iter().map(metric).collect(),
        }
    }

    pub(crate) fn read(self) -> Result<WarmUp, Wrong> {
        let course = |found: &str| word("class", found, Course::from_word);
        let metric = |form: CourseForm| {
            let CourseForm { metric, class, evidence, period_s } = form;
            let period_s = period_s.map(|period_s| period_s.0);
            Ok(JudgedCourse { metric, course: course(&class)?, evidence, period_s })
        };
        Ok(WarmUp {
            course: course(&self.class)?,
            took_s: self.took_s.0,
            batch_s: self.batch_s.0,
            batches: self.batches,
            metrics: self.metrics.into_iter().map(metric).collect::<Result<_, _>>()?,
        })
    }
}
