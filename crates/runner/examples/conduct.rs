//! Conducts a bake-off in a process of its own, so that a test can kill it.
//!
//! `conduct run ARCHIVE PLAN` and `conduct resume ARCHIVE ID`; says the bake-off's name on standard output, then what
//! came of it.

use std::io::Write as _;
use std::path::Path;

use archive::Archive;
use bakeoff_runner::{Event, Options, Outcome, RunnerError, resume, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, archive, subject] = &arguments[..] else {
        return Err("usage: conduct run ARCHIVE PLAN | conduct resume ARCHIVE ID".into());
    };
    let archive = Archive::open(Path::new(archive))?;
    let stop = load::Stop::new();
    // Tests run beside each other; the lock is theirs where they name it.
    let beside_others =
        std::env::var_os("BAKEOFF_MACHINE_LOCK").is_none() || std::env::var_os("BESIDE").is_some();
    let options = Options { beside_others, plan_file: None, trust: |_| std::env::var_os("TRUST").is_some() };
    let mut out = std::io::stdout().lock();
    let mut tell = |event: &Event<'_>| {
        if let Event::Started { id, .. } = event {
            // The test that reads this may have gone.
            let _ = writeln!(out, "{id}").and_then(|()| out.flush());
        }
    };
    let outcome: Result<Outcome, RunnerError> = match what.as_str() {
        "run" => {
            let plan = plan::read(&std::fs::read_to_string(subject)?, subject)?;
            run(&plan, &archive, &options, &stop, &mut tell)
        }
        _ => resume(&archive, subject.parse()?, &options, &stop, &mut tell),
    };
    let outcome = outcome?;
    drop(out);
    let _ = writeln!(std::io::stdout(), "{outcome:?}");
    Ok(())
}
