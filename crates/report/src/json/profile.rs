//! `bakeoff.profile/1`: the stacks of an interval, written and read; `bakeoff.profile-compare/1`: two
//! profiles.

use std::collections::BTreeMap;
use std::fmt;

use analysis::profile::FunctionChange;
use record::missing::{Maybe, Missing};
use record::profile::{
    Profile, ProfileCost, ProfileDoubts, ProfileFilter, ProfileKind, ProfileStack, ThreadState,
};
use serde_json::{Value, json};

use super::object::Object;
use crate::text::filters_differ;

/// Error for a document that is not a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotAProfile {
    /// Position in the document: `stacks[3].ns`.
    pub place: String,
    /// Value that this position should hold.
    pub expected: &'static str,
}

impl fmt::Display for NotAProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}", self.place, self.expected)
    }
}

impl std::error::Error for NotAProfile {}

/// Maximum depth of a stack that is read; the stacks that bakeoff writes are shallower.
const FRAMES_MAX: usize = 512;

/// The document of a profile. Frames are outermost first.
pub fn profile(profile: &Profile) -> Value {
    let stack = |s: &ProfileStack| {
        json!({
            "comm": s.comm,
            "state": s.state.word(),
            "frames": s.frames,
            "count": s.count,
            "ns": s.ns,
        })
    };
    Object::default()
        .with("schema", "bakeoff.profile/1")
        .with("kind", profile.kind.word())
        .maybe("only", only(profile))
        .with("elapsed_s", profile.seconds())
        .with("cpus", profile.cpus)
        .maybe("period_ns", profile.period_ns.clone())
        .with("count", profile.count())
        .with("total_ns", profile.total_ns())
        .maybe("idle_samples", profile.idle_samples.clone())
        .with("still_off", profile.still_off)
        .with("stacks", profile.stacks.iter().map(stack).collect::<Vec<_>>())
        .with("doubts", doubts(profile))
        .with("notes", profile.notes.clone())
        .with("lower_bounds", !profile.lost.is_empty())
        .with("lost", json!(profile.lost))
        .maybe("own_cost", profile.cost.as_ref().map(|c| own_cost(profile, c)).map_err(Clone::clone))
        .finish()
}

/// The filter by its options; one that was not given is absent.
fn only(profile: &Profile) -> Maybe<Value> {
    let only = profile.only.as_ref().map_err(Clone::clone)?;
    let parts = [
        ("pid", only.pid.map(Value::from)),
        ("comm", only.comm.clone().map(Value::from)),
        ("cgroup", only.cgroup.clone().map(Value::from)),
    ];
    Ok(parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

fn doubts(profile: &Profile) -> Value {
    let d = &profile.doubts;
    json!({
        "unnamed_ns": d.unnamed_ns,
        "ended_ns": d.ended_ns,
        "without_callers_ns": d.without_callers_ns,
        "truncated_ns": d.truncated_ns,
        "without_stack_ns": d.without_stack_ns,
    })
}

fn own_cost(profile: &Profile, cost: &ProfileCost) -> Value {
    let seconds = profile.seconds().max(1e-9);
    let event = match profile.kind {
        ProfileKind::OnCpu => "a sample",
        ProfileKind::OffCpu => "a switch",
    };
    json!({
        "process_ratio": cost.reader_s / seconds,
        "programs_ratio": cost.kernel_s / seconds,
        "events": [{ "event": event, "count": cost.events, "ns_per_event": cost.ns_per_event }],
    })
}

/// Reads a profile from its document.
///
/// # Errors
///
/// [`NotAProfile`], with the first position that does not parse.
pub fn read_profile(document: &Value) -> Result<Profile, NotAProfile> {
    let wrong = |place: &str, expected| NotAProfile { place: place.to_owned(), expected };
    if document["schema"] != "bakeoff.profile/1" {
        return Err(wrong("schema", "`bakeoff.profile/1`, as `bakeoff profile --json` writes it"));
    }
    let kind = document["kind"].as_str().and_then(ProfileKind::from_word);
    let elapsed_s = document["elapsed_s"].as_f64().filter(|s| (0.0..1e9).contains(s));
    let stacks = document["stacks"].as_array().ok_or_else(|| wrong("stacks", "a list"))?;
    let stacks: Vec<ProfileStack> = stacks.iter().enumerate().map(read_stack).collect::<Result<_, _>>()?;
    let times = stacks.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.ns));
    let counts = stacks.iter().try_fold(0_u64, |sum, s| sum.checked_add(s.count));
    if times.is_none() || counts.is_none() {
        return Err(wrong("stacks", "times and counts whose sums fit in 64 bits"));
    }
    let maybe = |name: &str| -> Maybe<u64> {
        let why = document["missing"][name].as_str().unwrap_or("the document does not say");
        document[name].as_u64().ok_or_else(|| Missing::because(why))
    };
    let doubt = |name: &str| document["doubts"][name].as_u64().unwrap_or(0);
    let lost = document["lost"].as_object();
    let lost = lost.into_iter().flatten().filter_map(|(reason, n)| Some((reason.clone(), n.as_u64()?)));
    let notes = document["notes"].as_array().into_iter().flatten();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 1e18, not below 0")]
    let elapsed_ns = (elapsed_s.ok_or_else(|| wrong("elapsed_s", "seconds"))? * 1e9).round() as u64;
    Ok(Profile {
        only: read_only(&document["only"]),
        kind: kind.ok_or_else(|| wrong("kind", "`on-cpu` or `off-cpu`"))?,
        elapsed_ns,
        cpus: document["cpus"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or(1),
        period_ns: maybe("period_ns"),
        idle_samples: maybe("idle_samples"),
        stacks,
        still_off: document["still_off"].as_u64().unwrap_or(0),
        doubts: ProfileDoubts {
            unnamed_ns: doubt("unnamed_ns"),
            ended_ns: doubt("ended_ns"),
            without_callers_ns: doubt("without_callers_ns"),
            truncated_ns: doubt("truncated_ns"),
            without_stack_ns: doubt("without_stack_ns"),
        },
        notes: notes.filter_map(|note| note.as_str().map(str::to_owned)).collect(),
        lost: lost.collect::<BTreeMap<_, _>>(),
        cost: Err(Missing::because("it is not read back")),
    })
}

fn read_only(value: &Value) -> Maybe<ProfileFilter> {
    let only = value.as_object().ok_or_else(|| Missing::because("the document does not say"))?;
    let text = |name: &str| only.get(name).and_then(Value::as_str).map(str::to_owned);
    let pid = only.get("pid").and_then(Value::as_u64).and_then(|pid| u32::try_from(pid).ok());
    Ok(ProfileFilter { pid, comm: text("comm"), cgroup: text("cgroup") })
}

fn read_stack((n, stack): (usize, &Value)) -> Result<ProfileStack, NotAProfile> {
    let wrong = |name: &str, expected| NotAProfile { place: format!("stacks[{n}].{name}"), expected };
    let count = |name: &str| stack[name].as_u64().ok_or_else(|| wrong(name, "a whole number"));
    let frames = stack["frames"].as_array().filter(|f| f.len() <= FRAMES_MAX);
    let frames = frames.ok_or_else(|| wrong("frames", "a list of at most 512 names"))?;
    let frames = frames.iter().map(|f| f.as_str().map(str::to_owned));
    let state = stack["state"].as_str().and_then(ThreadState::from_word);
    Ok(ProfileStack {
        comm: stack["comm"].as_str().ok_or_else(|| wrong("comm", "a name"))?.to_owned(),
        state: state.ok_or_else(|| wrong("state", "`running`, `blocked` or `runnable`"))?,
        frames: frames.collect::<Option<_>>().ok_or_else(|| wrong("frames", "names"))?,
        count: count("count")?,
        ns: count("ns")?,
    })
}

/// The document of two profiles, function by function.
pub fn profile_changes([before, after]: [&Profile; 2], changes: &[FunctionChange]) -> Value {
    let side = |p: &Profile| {
        Object::default()
            .maybe("only", only(p))
            .with("elapsed_s", p.seconds())
            .with("cpus", p.cpus)
            .with("count", p.count())
            .with("total_ns", p.total_ns())
            .with("doubts", doubts(p))
            .with("notes", p.notes.clone())
            .with("lower_bounds", !p.lost.is_empty())
            .with("lost", json!(p.lost))
            .finish()
    };
    let function = |c: &FunctionChange| {
        let margin = &c.margin_ratio;
        Object::default()
            .with("function", c.name.as_str())
            .with("a_self_ratio", c.self_ratio[0])
            .with("b_self_ratio", c.self_ratio[1])
            .with("difference", c.difference())
            .maybe("low", margin.as_ref().map(|m| c.difference() - m).map_err(Clone::clone))
            .maybe("high", margin.as_ref().map(|m| c.difference() + m).map_err(Clone::clone))
            .with("a_total_ratio", c.total_ratio[0])
            .with("b_total_ratio", c.total_ratio[1])
            .finish()
    };
    json!({
        "schema": "bakeoff.profile-compare/1",
        "kind": after.kind.word(),
        "a": side(before),
        "b": side(after),
        "notes": filters_differ([before, after]).into_iter().collect::<Vec<_>>(),
        "functions": changes.iter().map(function).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Profile {
        let stack = |state, frames: &[&str], ns| ProfileStack {
            comm: "app".to_owned(),
            state,
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            count: 3,
            ns,
        };
        let comm = Some("app".to_owned());
        Profile {
            only: Ok(ProfileFilter { pid: Some(7), comm, cgroup: None }),
            kind: ProfileKind::OffCpu,
            elapsed_ns: 1_500_000_000,
            cpus: 2,
            period_ns: Err(Missing::because("an off-CPU profile has no samples")),
            idle_samples: Err(Missing::because("an off-CPU profile has no samples")),
            stacks: vec![
                stack(ThreadState::Blocked, &["main", "nanosleep", "do_nanosleep_[k]"], 900),
                stack(ThreadState::Runnable, &["main", "[waits for a CPU]"], 5),
            ],
            still_off: 1,
            doubts: ProfileDoubts { ended_ns: 7, ..ProfileDoubts::default() },
            notes: vec!["a note".to_owned()],
            lost: [("no-room".to_owned(), 2)].into(),
            cost: Err(Missing::because("it is not read back")),
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        let written = profile(&sample());
        assert_eq!(written["missing"]["period_ns"], "an off-CPU profile has no samples");
        assert_eq!(written["only"], json!({"pid": 7, "comm": "app"}));
        assert_eq!(read_profile(&written).unwrap(), sample());
        // A document of an older version.
        let mut old = written;
        old.as_object_mut().unwrap().remove("only");
        assert!(read_profile(&old).unwrap().only.is_err());
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_place() {
        let changed = |at: &str, value: Value| {
            let mut document = profile(&sample());
            *document.pointer_mut(at).unwrap() = value;
            read_profile(&document).unwrap_err().to_string()
        };
        assert!(changed("/schema", "bakeoff.locks/1".into()).contains("bakeoff profile --json"));
        assert!(changed("/stacks/1/ns", (-1).into()).starts_with("stacks[1].ns"));
        assert!(changed("/stacks/0/state", "dead".into()).contains("runnable"));
        assert!(changed("/stacks/0/frames", vec!["f"; 513].into()).contains("512"));
        assert!(changed("/elapsed_s", "long".into()).starts_with("elapsed_s"));
        assert!(read_profile(&profile(&sample())).is_ok());
        let mut document = profile(&sample());
        document["stacks"][0]["ns"] = u64::MAX.into();
        assert!(read_profile(&document).unwrap_err().to_string().contains("64 bits"));
    }

    #[test]
    fn a_comparison_has_the_doubts_of_both_sides_and_says_whether_they_are_of_the_same_threads() {
        let other = Profile { only: Ok(ProfileFilter::default()), ..sample() };
        let document = profile_changes([&sample(), &other], &[]);
        for side in ["a", "b"] {
            assert_eq!(document[side]["doubts"]["ended_ns"], 7);
            assert_eq!(
                (&document[side]["notes"][0], &document[side]["lost"]["no-room"]),
                (&json!("a note"), &json!(2))
            );
        }
        assert_eq!(document["b"]["only"], json!({}));
        assert!(document["notes"][0].as_str().unwrap().contains("process 7 and threads named `app`"));
        assert_eq!(profile_changes([&other, &other], &[])["notes"], json!([]));
    }
}
