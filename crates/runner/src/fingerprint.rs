//! What the machine was like just before a trial, and which program its server is.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use probes::proc_stat;
use record::clock::{Clock as _, Monotonic};
use record::environment::Environment;
use record::missing::{Maybe, Missing};

use crate::preflight::{BUSY_RATIO_MAX, busy_ratio};

/// How long the machine is watched before each trial.
const WATCH: Duration = Duration::from_millis(200);
/// Share of the CPUs' time that is not idle just before a trial.
const BUSY: &str = "trial.busy_before_ratio";
/// Set where that is too much for a quiet machine.
const OTHER_WORK: &str = "trial.other_work";
const PROGRAM: &str = "server.program";
const PROGRAM_SUM: &str = "server.program.sha256";

/// Reads the machine's facts anew: a governor, a mitigation or a kernel setting may have changed since the last trial.
pub(crate) fn refresh(environment: &mut Environment) {
    for (name, value) in probes::environment::read(Path::new("/")).facts {
        environment.facts.insert(name, value);
    }
}

/// Watches the machine, and notes how busy it is; yields a note where it is not quiet.
///
/// The server of the trial runs already: what it does without a load counts as well.
pub(crate) fn judge_quiet(environment: &mut Environment) -> Option<String> {
    let busy = watched();
    environment.facts.remove(OTHER_WORK);
    let ratio = busy.as_ref().ok().copied();
    environment.facts.insert(BUSY.to_owned(), busy.map(|ratio| format!("{ratio:.3}")));
    let ratio = ratio.filter(|ratio| *ratio > BUSY_RATIO_MAX)?;
    environment.facts.insert(OTHER_WORK.to_owned(), Ok("yes".to_owned()));
    Some(format!("other work keeps the CPUs {:.0} % busy just before this trial", ratio * 100.0))
}

fn watched() -> Maybe<f64> {
    let read = || proc_stat::read(Path::new("/")).map_err(|e| Missing::because(format!("/proc/stat: {e}")));
    let before = read()?;
    let until_ns = Monotonic.now_ns() + u64::try_from(WATCH.as_nanos()).expect("a moment");
    while Monotonic.now_ns() < until_ns {
        Monotonic.sleep_until_ns(until_ns);
    }
    busy_ratio(&before, &read()?).ok_or_else(|| Missing::because("no tick was booked"))
}

/// Notes which program the server is: its file, and the checksum of that.
pub(crate) fn program(name: &str, environment: &mut Environment) {
    let path = find(name);
    let missing = || Missing::because(format!("no file `{name}` on PATH"));
    let shown = path.as_ref().map(|path| path.display().to_string());
    let sum = path
        .ok_or_else(missing)
        .and_then(|path| checksum(&path).map_err(|e| Missing::because(format!("{}: {e}", path.display()))));
    environment.facts.insert(PROGRAM.to_owned(), shown.ok_or_else(missing));
    environment.facts.insert(PROGRAM_SUM.to_owned(), sum);
}

fn find(name: &str) -> Option<PathBuf> {
    let found = if name.contains('/') {
        Some(PathBuf::from(name))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    found.and_then(|path| fs::canonicalize(path).ok())
}

/// The checksum of a file that was read last: a file that is the same by inode, size and time is not read again.
fn checksum(path: &Path) -> std::io::Result<String> {
    type Known = ((u64, u64, u64, i64, i64), String);
    static LAST: Mutex<Option<Known>> = Mutex::new(None);
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    let key = (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    let mut last = LAST.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, sum)) = last.as_ref().filter(|(known, _)| *known == key) {
        return Ok(sum.clone());
    }
    let sum = archive::sha256(&mut file)?;
    *last = Some((key, sum.clone()));
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_known_by_its_content() {
        let mut environment = Environment::default();
        program("sh", &mut environment);
        let path = environment.fact(PROGRAM).expect("every system has a shell").to_owned();
        let asked = std::process::Command::new("sha256sum").arg(&path).output().unwrap();
        let sum = String::from_utf8(asked.stdout).unwrap();
        assert_eq!(environment.fact(PROGRAM_SUM), sum.split_whitespace().next());
        program("no-such-program", &mut environment);
        assert_eq!(environment.fact(PROGRAM), None);
    }

    #[test]
    fn how_busy_the_machine_is_is_a_fact_of_the_trial() {
        let mut environment = Environment::default();
        let note = judge_quiet(&mut environment);
        assert!(environment.facts.contains_key(BUSY));
        assert_eq!(note.is_some(), environment.fact(OTHER_WORK).is_some());
    }
}
