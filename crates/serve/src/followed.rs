//! Facts about a run that runs, from its live file. Each line is read once.

use std::sync::Arc;

use archive::{Archive, JournalPlace, LivePlace, ServerLog, Standing};
use record::histogram::Bound;
use record::run::{RunHeader, RunId};
use serde_json::Value;

use crate::view::bound;

/// Intervals of a run that are shown.
const INTERVALS_MAX: usize = 120;
/// Notes of a run that are shown.
const NOTES_MAX: usize = 10;
/// Age of an interval, besides three of its lengths, up to which it is shown.
const STALE_AFTER_S: f64 = 2.0;
/// Age of an interval, besides one of its lengths, from which its age is shown with it.
const OF_NOW_S: f64 = 1.0;
/// Field of intervals alone.
const OF_INTERVALS: &str = "\"achieved_per_s\":";

/// Numbers of an interval that are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) offered_per_s: Option<f64>,
    pub(crate) done_per_s: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) bound_of_p99: Bound,
    pub(crate) lateness_p99_ns: Option<f64>,
    pub(crate) backlog: Option<f64>,
}

impl Point {
    /// - `interval`: null for a gap.
    pub(crate) fn of(interval: &Value) -> Option<Self> {
        let number = |name: &str| interval[name].as_f64();
        let p99 = |of: &str| interval[of]["p99"].as_f64();
        (!interval.is_null()).then(|| Self {
            offered_per_s: number("offered_per_s"),
            done_per_s: number("achieved_per_s"),
            p99_ns: p99("latency_ns"),
            bound_of_p99: bound(&interval["latency_ns"], "p99"),
            lateness_p99_ns: p99("lateness_ns"),
            backlog: number("backlog"),
        })
    }
}

/// Facts read about a run so far.
#[derive(Debug, Default)]
pub(crate) struct Followed {
    place: LivePlace,
    pub(crate) told: Told,
    /// Header of a single run.
    pub(crate) header: Option<RunHeader>,
    pub(crate) journal: JournalPlace,
    /// State of a bake-off, and the length of the journal from which it was read.
    pub(crate) standing: Option<(u64, bool, Arc<Standing>)>,
    pub(crate) log: Option<ServerLog>,
}

/// Content of a live file.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Told {
    /// Last intervals, oldest first; `None` between two trials.
    pub(crate) points: Vec<Option<Point>>,
    /// The last of them.
    last: Option<Arc<Value>>,
    /// Last notes, oldest first.
    pub(crate) notes: Vec<String>,
    pub(crate) step: String,
    /// Length of a load, and the time at which its first phase began.
    lasts_s: Option<f64>,
    began_unix_ns: Option<u64>,
}

impl Followed {
    /// Reads the lines that are new.
    pub(crate) fn read(&mut self, archive: &Archive, id: RunId) {
        let Some(read) = archive.live_text(id, &mut self.place) else { return };
        if read.is_first {
            self.told = Told::default();
        }
        self.told.take_all(&read.text);
    }
}

impl Told {
    /// Takes lines. Of many intervals, those that no page will show are not parsed.
    fn take_all(&mut self, text: &[u8]) {
        let lines = || text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let is_read = |line: &&[u8]| is_interval(line) && serde_json::from_slice::<Value>(line).is_ok();
        let is_long = lines().nth(INTERVALS_MAX).is_some();
        let first_shown = if is_long { lines().rev().filter(is_read).nth(INTERVALS_MAX - 1) } else { None };
        let is_old = |line: &[u8]| {
            first_shown.is_some_and(|first| line.as_ptr() < first.as_ptr() && is_interval(line))
        };
        for line in lines().filter(|line| !is_old(line)) {
            if let Ok(line) = serde_json::from_slice(line) {
                self.take(line);
            }
        }
    }

    fn take(&mut self, line: Value) {
        if let Some(note) = line["note"].as_str() {
            self.notes.push(note.to_owned());
        } else if line["achieved_per_s"].is_number() {
            self.points.push(Point::of(&line));
            self.last = Some(Arc::new(line));
        } else if let Some(phase) = line["phase"].as_str() {
            phase.clone_into(&mut self.step);
            self.began_unix_ns = self.began_unix_ns.or(line["at_unix_ns"].as_u64());
        } else if let Some(step) = line["step"].as_str() {
            self.step = format!("series {}: {step}", line["series"]);
            self.gap();
        } else if let Some(doing) = line["doing"].as_str() {
            doing.clone_into(&mut self.step);
            self.gap();
        } else if line["trial"].is_number() {
            self.gap();
        } else if let Some(lasts_s) = line["lasts_s"].as_f64() {
            self.lasts_s = Some(lasts_s);
        }
        let surplus = self.points.len().saturating_sub(INTERVALS_MAX);
        self.points.drain(..surplus);
        let surplus = self.notes.len().saturating_sub(NOTES_MAX);
        self.notes.drain(..surplus);
    }

    /// Ends a trial's intervals: those of the next one are of another configuration.
    fn gap(&mut self) {
        if self.points.last().is_some_and(Option::is_some) {
            self.points.push(None);
        }
        self.last = None;
    }

    /// The interval of this moment, and its age if the next one is overdue. An old one says nothing about
    /// this moment: between trials, or if the process hangs.
    pub(crate) fn present(&self, now_unix_ns: u64) -> Option<(&Arc<Value>, Option<u64>)> {
        let last = self.last.as_ref()?;
        let age_ns = now_unix_ns.saturating_sub(last["at_unix_ns"].as_u64()?);
        let (age_s, length_s) = (age_ns as f64 / 1e9, last["interval_s"].as_f64().unwrap_or(0.0));
        let shown = (age_s > length_s + OF_NOW_S).then_some(age_ns / 1_000_000_000);
        (age_s <= 3.0 * length_s + STALE_AFTER_S).then_some((last, shown))
    }

    /// Time at which a load ends according to its options; `None` if it takes longer.
    pub(crate) fn expected_end_unix_ns(&self, now_unix_ns: u64) -> Option<u64> {
        let lasts = std::time::Duration::try_from_secs_f64(self.lasts_s?).ok()?;
        let end = self.began_unix_ns?.checked_add(u64::try_from(lasts.as_nanos()).ok()?)?;
        (end >= now_unix_ns).then_some(end)
    }
}

/// Whether a line is that of an interval, without parsing it. In a text, the quotes of the name would be
/// escaped; the level of a factor with that name is a text.
fn is_interval(line: &[u8]) -> bool {
    let line = str::from_utf8(line).unwrap_or_default();
    let value = line.find(OF_INTERVALS).and_then(|at| line.as_bytes().get(at + OF_INTERVALS.len()));
    value.is_some_and(|byte| byte.is_ascii_digit() || *byte == b'-')
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;

    use record::clock::WallAnchor;
    use serde_json::json;

    use super::*;

    fn interval(n: u64, at_unix_ns: u64) -> Value {
        json!({"phase": "measure", "achieved_per_s": n, "interval_s": 1.0, "at_unix_ns": at_unix_ns})
    }

    #[test]
    fn a_viewer_holds_the_last_intervals_only() {
        let mut told = Told::default();
        for n in 0..500 {
            told.take(interval(n, n));
            told.take(json!({"note": n.to_string()}));
        }
        assert_eq!((told.points.len(), told.notes.len()), (INTERVALS_MAX, NOTES_MAX));
        assert_eq!(told.points.last().unwrap().unwrap().done_per_s, Some(499.0));
        assert_eq!(told.last.as_ref().unwrap()["achieved_per_s"], 499);
        told.take(json!({"phase": "measure"}));
        assert_eq!(told.step, "measure");
        told.take(json!({"doing": "block 2: 4 series in turns of 300 ms"}));
        assert_eq!(told.step, "block 2: 4 series in turns of 300 ms");
    }

    #[test]
    fn the_last_interval_of_a_trial_is_not_the_present_of_the_next() {
        let mut told = Told::default();
        told.take(interval(7, 1_000_000_000));
        let present = |told: &Told, now_s: u64| told.present(now_s * 1_000_000_000).is_some();
        assert!(present(&told, 2), "it ended a second ago");
        let age = |now_s: u64| told.present(now_s * 1_000_000_000).unwrap().1;
        assert_eq!([2, 3, 4, 6].map(age), [None, None, Some(3), Some(5)], "one of 1 s, of the time 1");
        assert!(!present(&told, 9), "the process hangs, or the server is being stopped");
        told.take(json!({"series": 2, "block": 1, "step": "setup"}));
        assert!(!present(&told, 2), "the next server is being set up");
        told.take(json!({"trial": 1, "levels": {}}));
        assert_eq!(told.points.iter().filter(|point| point.is_none()).count(), 1, "one gap is enough");
    }

    #[test]
    fn a_load_that_takes_longer_has_no_expected_end_in_the_past() {
        let mut told = Told::default();
        told.take(json!({"lasts_s": 2.0}));
        told.take(json!({"phase": "measure", "at_unix_ns": 1_000_000_000}));
        let end = |now_s: u64| told.expected_end_unix_ns(now_s * 1_000_000_000);
        assert_eq!([2, 3, 4].map(end), [Some(3_000_000_000), Some(3_000_000_000), None]);
    }

    /// Lines of a load with two trials, of which many have no place on a page. Each has its time.
    fn many(from: u64, intervals: u64) -> String {
        let mut lines = vec![json!({"lasts_s": 900.0}), json!({"phase": "warmup"})];
        for n in from..from + intervals {
            if n % 70 == 0 {
                lines.push(json!({"note": format!("says \"achieved_per_s\":{n}")}));
                lines.push(json!({"trial": n, "levels": {"achieved_per_s": "7"}}));
            }
            let p99 =
                json!({"p99": n * 1_000, "lower_bounds": if n % 3 == 0 { vec!["p99"] } else { vec![] }});
            lines.push(json!({"achieved_per_s": n, "latency_ns": p99, "backlog": 0, "interval_s": 1.0}));
        }
        let stamp = |(n, mut line): (u64, Value)| {
            line["at_unix_ns"] = json!(1_000_000_000 * from + n);
            format!("{line}\n")
        };
        (0..).zip(lines).map(stamp).collect()
    }

    #[test]
    fn intervals_that_are_not_parsed_change_nothing() {
        let text = many(1, 400);
        let (mut all, mut each) = (Told::default(), Told::default());
        all.take_all(text.as_bytes());
        text.lines().for_each(|line| each.take(serde_json::from_str(line).unwrap()));
        assert_eq!(all, each);
        assert!(all.points.len() == INTERVALS_MAX && all.notes.len() == 5 && all.points.contains(&None));
    }

    #[test]
    fn a_look_at_what_is_new_finds_the_same_as_a_look_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let archive = Archive::open(folder.path()).unwrap();
        let id = RunId::fresh(WallAnchor::now());
        let path = folder.path().join(format!("live/{id}.jsonl"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut followed = Followed::default();
        let mut looks = 0;
        let mut look = |what: &str| {
            let mut anew = Followed::default();
            anew.read(&archive, id);
            followed.read(&archive, id);
            assert_eq!(followed.told, anew.told, "{what}");
            looks += 1;
            anew.told.points.iter().flatten().count()
        };
        fs::write(&path, "").unwrap();
        assert_eq!(look("an empty file"), 0);
        // It grows by pieces that end within lines and within characters.
        let text = many(1, 200).replace("says", "sagt \u{b5}");
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        for piece in text.as_bytes().chunks(331) {
            file.write_all(piece).unwrap();
            look("a file that grows");
        }
        assert!(look("all of it") > 100);
        // It is cut within a line that was read, and goes on.
        file.set_len(text.len() as u64 - 30).unwrap();
        look("cut within its last line");
        file.write_all(&text.as_bytes()[text.len() - 30..]).unwrap();
        look("made whole again");
        file.set_len(text.len() as u64 / 2).unwrap();
        assert!(look("a file that shrank") > 0);
        file.write_all(format!("\n{}", many(5_000, 300)).as_bytes()).unwrap();
        look("a file that shrank and grew beyond the place");
        // Another one replaces it: shorter, as long, and longer.
        for (from, intervals) in [(7_000, 3), (8_000, 3), (9_000, 40)] {
            fs::remove_file(&path).unwrap();
            fs::write(&path, many(from, intervals)).unwrap();
            assert_eq!(look("a file that was removed and begun anew") as u64, intervals);
            let new = path.with_extension("new");
            fs::write(&new, many(from + 500, intervals)).unwrap();
            fs::rename(&new, &path).unwrap();
            assert_eq!(look("a file that took its name") as u64, intervals);
        }
        fs::write(&path, "").unwrap();
        assert_eq!(look("an emptied file"), 0);
        fs::write(&path, [0; 5_000]).unwrap();
        assert_eq!(look("zeros"), 0);
        assert!(looks > 50);
    }
}
