//! Checks what a plan builds.

use super::checker::Checker;
use crate::error::{Position, ProblemKind};
use crate::parsed::ParsedPlan;
use crate::template::{AnyTemplated, BUILD};

impl Checker<'_> {
    /// Checks that `[build]` is consistent, and that something uses what it builds.
    pub(super) fn build(&mut self, parsed: &ParsedPlan, templates: &[&dyn AnyTemplated]) {
        let Some(build) = &parsed.build else { return };
        let mut bad = |position: Position, key: &str, found: String, expected: &str| {
            let (key, expected) = (key.to_owned(), expected.to_owned());
            self.problem(position, ProblemKind::BadValue { key, found, expected });
        };
        for factor in parsed.factors.iter().filter(|factor| factor.name.value == BUILD) {
            let expected = "another name: `{build}` stands for the folder of what [build] builds";
            bad(factor.name.position, "factors", format!("`{BUILD}`"), expected);
        }
        if let (Some(revision), None) = (&build.revision, &build.source) {
            bad(revision.position, "build.revision", "a revision".to_owned(), "`source`, its git repository");
        }
        let is_name = |name: &&String| {
            !name.is_empty()
                && !name.starts_with(|c: char| c.is_ascii_digit())
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        };
        let wrong =
            build.env.as_ref().and_then(|env| Some((env.position, env.value.iter().find(|n| !is_name(n))?)));
        if let Some((position, name)) = wrong {
            let expected = "names of environment variables: letters, digits and `_`";
            bad(position, "build.env", format!("`{name}`"), expected);
        }
        let uses = |template: &&dyn AnyTemplated| {
            template.names().contains(&BUILD) && !template.path().starts_with("build.")
        };
        let position = build.run.run.as_ref().map(|run| run.position);
        if let Some(position) = position.filter(|_| !templates.iter().any(uses)) {
            self.remark(
                position,
                "nothing uses `{build}`: commands may use `$BAKEOFF_build`; otherwise this command builds \
                 what no trial runs",
            );
        }
    }
}
