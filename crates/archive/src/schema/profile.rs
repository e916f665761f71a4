//! Profiles of a run: their facts are in the manifest, their stacks in `profile.jsonl.zst` and
//! `off-cpu.jsonl.zst`, one per line, folded.

use std::cell::Cell;
use std::collections::BTreeMap;

use record::profile::{
    Profile, ProfileCost, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, RUN_NAMES_BYTES_MAX,
    RUN_STACKS_MAX, RunProfile, ThreadState,
};
use record::resources::UsedBy;
use serde::{Deserialize, Serialize};

use super::{Real, Reasons, Wrong, word};

/// Most functions of a stack that is read; the instrument writes at most half as many.
const FRAMES_MAX: usize = 512;

/// Facts of a profile.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ProfileForm {
    kind: String,
    of: String,
    only: Option<FilterForm>,
    elapsed_ns: u64,
    cpus: usize,
    period_ns: Option<u64>,
    idle_samples: Option<u64>,
    /// Sums over the stacks.
    stacks: usize,
    count: u64,
    total_ns: u64,
    summed_stacks: u64,
    still_off: u64,
    doubts: DoubtsForm,
    notes: Vec<String>,
    lost: BTreeMap<String, u64>,
    cost: Option<CostForm>,
    #[serde(default, skip_serializing_if = "Reasons::is_empty")]
    missing: Reasons,
}

#[derive(Debug, Serialize, Deserialize)]
struct FilterForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    comm: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cgroup: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::struct_field_names, reason = "the names of the JSON have their unit")]
struct DoubtsForm {
    unnamed_ns: u64,
    ended_ns: u64,
    without_callers_ns: u64,
    truncated_ns: u64,
    without_stack_ns: u64,
}

#[derive(Debug, Serialize, Deserialize)]
struct CostForm {
    ns_per_event: Real,
    events: u64,
    kernel_s: Real,
    reader_s: Real,
}

/// One line of the stacks.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StackForm {
    /// Name of the threads and functions, outermost first, separated by semicolons.
    stack: String,
    state: String,
    count: u64,
    ns: u64,
}

/// Stacks of a profile in an export.
#[derive(Debug, Serialize)]
pub(crate) struct StacksForm {
    kind: &'static str,
    stacks: Vec<StackForm>,
}

/// Name of the file with the stacks of a profile.
pub(crate) fn file_of(kind: ProfileKind) -> String {
    format!("{}.jsonl.zst", kind.instrument())
}

/// Whether the archive itself writes a file of this name, one stack per line.
pub(crate) fn is_file_of_stacks(name: &str) -> bool {
    ProfileKind::ALL.iter().any(|kind| file_of(*kind) == name)
}

impl ProfileForm {
    pub(crate) fn of(profile: &RunProfile) -> Self {
        let RunProfile { of, profile, summed_stacks } = profile;
        let (count, total_ns) = (profile.count(), profile.total_ns());
        let Profile {
            kind,
            only,
            elapsed_ns,
            cpus,
            period_ns,
            idle_samples,
            stacks,
            still_off,
            doubts,
            notes,
            lost,
            cost,
        } = profile;
        let mut missing = Reasons::default();
        Self {
            kind: kind.word().to_owned(),
            of: of.word().to_owned(),
            only: missing.split("only", only, FilterForm::of),
            elapsed_ns: *elapsed_ns,
            cpus: *cpus,
            period_ns: missing.split("period_ns", period_ns, |ns| *ns),
            idle_samples: missing.split("idle_samples", idle_samples, |n| *n),
            stacks: stacks.len(),
            count,
            total_ns,
            summed_stacks: *summed_stacks,
            still_off: *still_off,
            doubts: DoubtsForm::of(*doubts),
            notes: notes.clone(),
            lost: lost.clone(),
            cost: missing.split("cost", cost, CostForm::of),
            missing,
        }
    }

    /// Kind of the profile.
    pub(crate) fn kind(&self) -> Result<ProfileKind, Wrong> {
        word("kind", &self.kind, ProfileKind::from_word)
    }

    /// The inverse of [`Self::of`].
    ///
    /// - `stacks`: from the profile's file. Their sums must be those of the manifest.
    pub(crate) fn read(&self, stacks: Vec<ProfileStack>) -> Result<RunProfile, Wrong> {
        let sum =
            |of: fn(&ProfileStack) -> u64| stacks.iter().try_fold(0_u64, |sum, s| sum.checked_add(of(s)));
        if (stacks.len(), sum(|s| s.count), sum(|s| s.ns))
            != (self.stacks, Some(self.count), Some(self.total_ns))
        {
            return Err(Wrong("the sums of its stacks differ from those in the manifest".to_owned()));
        }
        let filter = |form: &FilterForm| Ok(form.read());
        let cost = |form: &CostForm| Ok(form.read());
        Ok(RunProfile {
            of: word("of", &self.of, UsedBy::from_word)?,
            profile: Profile {
                kind: self.kind()?,
                only: self.missing.join("only", self.only.as_ref(), filter)?,
                elapsed_ns: self.elapsed_ns,
                cpus: self.cpus,
                period_ns: self.missing.join("period_ns", self.period_ns, Ok)?,
                idle_samples: self.missing.join("idle_samples", self.idle_samples, Ok)?,
                stacks,
                still_off: self.still_off,
                doubts: self.doubts.read(),
                notes: self.notes.clone(),
                lost: self.lost.clone(),
                cost: self.missing.join("cost", self.cost.as_ref(), cost)?,
            },
            summed_stacks: self.summed_stacks,
        })
    }
}

impl FilterForm {
    fn of(filter: &ProfileFilter) -> Self {
        let ProfileFilter { pid, comm, cgroup } = filter.clone();
        Self { pid, comm, cgroup }
    }

    fn read(&self) -> ProfileFilter {
        let Self { pid, comm, cgroup } = self;
        ProfileFilter { pid: *pid, comm: comm.clone(), cgroup: cgroup.clone() }
    }
}

impl DoubtsForm {
    fn of(doubts: ProfileDoubts) -> Self {
        let ProfileDoubts { unnamed_ns, ended_ns, without_callers_ns, truncated_ns, without_stack_ns } =
            doubts;
        Self { unnamed_ns, ended_ns, without_callers_ns, truncated_ns, without_stack_ns }
    }

    fn read(&self) -> ProfileDoubts {
        let Self { unnamed_ns, ended_ns, without_callers_ns, truncated_ns, without_stack_ns } = *self;
        ProfileDoubts { unnamed_ns, ended_ns, without_callers_ns, truncated_ns, without_stack_ns }
    }
}

impl CostForm {
    fn of(cost: &ProfileCost) -> Self {
        let ProfileCost { ns_per_event, events, kernel_s, reader_s } = *cost;
        let [ns_per_event, kernel_s, reader_s] = [ns_per_event, kernel_s, reader_s].map(Real);
        Self { ns_per_event, events, kernel_s, reader_s }
    }

    fn read(&self) -> ProfileCost {
        let Self { ns_per_event, events, kernel_s, reader_s } = self;
        ProfileCost {
            ns_per_event: ns_per_event.0,
            events: *events,
            kernel_s: kernel_s.0,
            reader_s: reader_s.0,
        }
    }
}

impl StackForm {
    pub(crate) fn of(stack: &ProfileStack) -> Self {
        let ProfileStack { comm, state, frames, count, ns } = stack;
        // A semicolon separates functions.
        let names = std::iter::once(comm).chain(frames).map(|name| name.replace(';', ":"));
        let stack = names.collect::<Vec<_>>().join(";");
        Self { stack, state: state.word().to_owned(), count: *count, ns: *ns }
    }
}

impl StacksForm {
    pub(crate) fn of(profile: &RunProfile) -> Self {
        let RunProfile { profile, .. } = profile;
        Self { kind: profile.kind.word(), stacks: profile.stacks.iter().map(StackForm::of).collect() }
    }
}

/// Limits of the stacks in a file, which may come from another user.
#[derive(Debug, Default)]
pub(crate) struct StacksRead {
    stacks: Cell<usize>,
    bytes: Cell<usize>,
}

impl StacksRead {
    /// The inverse of [`StackForm::of`].
    pub(crate) fn read(&self, form: StackForm) -> Result<ProfileStack, Wrong> {
        let StackForm { stack, state, count, ns } = form;
        self.stacks.set(self.stacks.get() + 1);
        self.bytes.set(self.bytes.get() + stack.len());
        // A sum for each state follows the stacks.
        let sums = ThreadState::ALL.len();
        if self.stacks.get() > RUN_STACKS_MAX + sums || self.bytes.get() > RUN_NAMES_BYTES_MAX + 64 * sums {
            let what =
                format!("it has more than {RUN_STACKS_MAX} stacks or {RUN_NAMES_BYTES_MAX} bytes of names");
            return Err(Wrong(what));
        }
        let mut names = stack.split(';').map(str::to_owned);
        let comm = names.next().unwrap_or_default();
        let frames: Vec<String> = names.take(FRAMES_MAX + 1).collect();
        if frames.len() > FRAMES_MAX {
            return Err(Wrong(format!("a stack has more than {FRAMES_MAX} functions")));
        }
        Ok(ProfileStack { comm, state: word("state", &state, ThreadState::from_word)?, frames, count, ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_reads_back_whatever_its_names_but_for_semicolons() {
        let frames = ["main", "<[u8: 4] as Show>::show", "a\nb\u{1b}[2J", "", "\"\\</script>", "数据"];
        let stack = ProfileStack {
            comm: "a b".to_owned(),
            state: ThreadState::Blocked,
            frames: frames.map(str::to_owned).to_vec(),
            count: 3,
            ns: u64::MAX,
        };
        let line = serde_json::to_string(&StackForm::of(&stack)).unwrap();
        assert!(!line.contains('\n') && !line.contains('\u{1b}'), "{line}");
        let again = StacksRead::default().read(serde_json::from_str(&line).unwrap());
        assert_eq!(again, Ok(stack.clone()));
        let odd = ProfileStack { frames: vec!["a;b".to_owned()], ..stack };
        assert_eq!(StacksRead::default().read(StackForm::of(&odd)).unwrap().frames, ["a:b"]);
    }

    #[test]
    fn a_file_of_a_stranger_has_limits() {
        let form =
            |stack: &str| StackForm { stack: stack.to_owned(), state: "running".to_owned(), count: 1, ns: 1 };
        let read = StacksRead::default();
        let many = RUN_STACKS_MAX + ThreadState::ALL.len();
        assert!((0..many).all(|_| read.read(form("app;main")).is_ok()));
        assert!(read.read(form("app;main")).is_err());
        assert!(StacksRead::default().read(form(&"x".repeat(RUN_NAMES_BYTES_MAX + 500))).is_err());
        assert!(StacksRead::default().read(form(&";".repeat(FRAMES_MAX + 1))).is_err());
        assert!(StacksRead::default().read(StackForm { state: "dead".to_owned(), ..form("a") }).is_err());
    }
}
