//! Conditions under which a trial begins.

use std::time::Duration;

/// Conditions under which a trial begins, and what follows if they do not hold in time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Admission {
    /// Largest share of the CPUs that other work may use.
    pub busy_ratio_max: f64,
    /// Least free space of the disks of the scratch folder and of the archive.
    pub free_bytes_min: u64,
    /// Longest wait for the conditions.
    pub wait: Duration,
    /// Fate of a trial for which they do not hold.
    pub otherwise: Otherwise,
}

/// Fate of a trial for which the conditions do not hold in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// Measured and flagged.
    Flag,
    /// Repeated once at the end of its block, and then measured in any case.
    Postpone,
}

impl Otherwise {
    pub(crate) fn read(word: &str) -> Option<Self> {
        match word {
            "flag" => Some(Self::Flag),
            "postpone" => Some(Self::Postpone),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(admission: &str) -> Result<crate::Plan, String> {
        let text = format!(
            "schema = 1\ntitle = \"t\"\n[design]\nblocks = 6\n[load]\ntarget = \"null:\"\n{admission}\n[phases]\n\
             measure = {{ time = \"2s\" }}\n"
        );
        crate::read(&text, "t.toml").map_err(|errors| errors.to_string())
    }

    #[test]
    fn conditions_of_a_trial_are_those_of_the_plan_and_a_test_of_it_has_none() {
        assert_eq!(plan("").unwrap().admission(), None);
        let (wait, otherwise) = (Duration::from_secs(30), Otherwise::Flag);
        let default = Admission { busy_ratio_max: 0.05, free_bytes_min: 100 << 20, wait, otherwise };
        assert_eq!(plan("[admission]").unwrap().admission(), Some(default));
        let written =
            plan("[admission]\nbusy = \"20%\"\nfree = \"2GiB\"\nwait = \"5m\"\notherwise = \"postpone\"");
        let (wait, otherwise) = (Duration::from_mins(5), Otherwise::Postpone);
        let expected = Admission { busy_ratio_max: 0.2, free_bytes_min: 2 << 30, wait, otherwise };
        assert_eq!(written.as_ref().unwrap().admission(), Some(expected));
        assert_eq!(written.unwrap().shortened().admission(), None);
        for (text, says) in [
            ("[admission]\nbusy = \"200%\"", "t.toml:8:8: `admission.busy`"),
            (
                "[admission]\notherwise = \"skip\"",
                "t.toml:8:13: `admission.otherwise` is \"skip\", expected one of",
            ),
            ("[admision]", "unknown key `admision` in the plan; did you mean `admission`?"),
        ] {
            let error = plan(text).unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
    }
}
