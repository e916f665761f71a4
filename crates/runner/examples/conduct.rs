//! Conducts a bake-off in a separate process, so a test can kill it.
//!
//! `conduct run ARCHIVE PLAN` and `conduct resume ARCHIVE ID` print the bake-off's id on standard output,
//! then its result. `conduct plant ARCHIVE ID` adds a line to the journal, as a stranger may have: the
//! workspace of `FOLDER`, `MARK` and `GROUP`, for root.

use std::io::Write as _;
use std::path::Path;

use archive::{Archive, Step};
use bakeoff_runner::{Event, Options, Outcome, RunnerError, resume, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, archive, subject] = &arguments[..] else {
        return Err("usage: conduct run ARCHIVE PLAN | conduct resume ARCHIVE ID".into());
    };
    let archive = Archive::open(Path::new(archive))?;
    let stop = load::Stop::new();
    // Tests run in parallel. The lock applies to tests that name one.
    let beside_others =
        std::env::var_os("BAKEOFF_MACHINE_LOCK").is_none() || std::env::var_os("BESIDE").is_some();
    let options = Options {
        beside_others,
        plan_file: None,
        wait: false,
        id: None,
        generator: None,
        trust: |_| std::env::var_os("TRUST").is_some(),
    };
    let mut out = std::io::stdout().lock();
    let mut tell = |event: &Event<'_>| {
        if let Event::Started { id, .. } = event {
            // The test that reads this may have ended.
            let _ = writeln!(out, "{id}").and_then(|()| out.flush());
        }
    };
    let outcome: Result<Outcome, RunnerError> = match what.as_str() {
        "run" => {
            let plan = plan::read(&std::fs::read_to_string(subject)?, subject)?;
            run(&plan, &archive, &options, &stop, &mut tell)
        }
        "plant" => {
            let named = |name| std::env::var(name).unwrap_or_default();
            let (folder, mark) = (named("FOLDER"), named("MARK"));
            let control_group = Some(named("GROUP")).filter(|group| !group.is_empty());
            let step = Step::Workspace { folder, owner: 0, control_group, mark };
            return Ok(archive.journal(subject.parse()?)?.say(step)?);
        }
        _ => resume(&archive, subject.parse()?, &options, &stop, &mut tell),
    };
    let outcome = outcome?;
    drop(out);
    let _ = writeln!(std::io::stdout(), "{outcome:?}");
    Ok(())
}
