//! Commands of a plan and their accounts, which a reader sees before submitting the plan.

use std::collections::{BTreeSet, HashSet};
use std::path::Path;

use plan::{Plan, Prepare, Ready, Step};
use record::bakeoff::Levels;
use record::printable::printable;

/// Different commands of a plan that are listed.
const COMMANDS_MAX: usize = 200;

/// The commands of a plan, each once: phase, account and command line. `{scratch}` is the folder of a series.
pub(crate) fn executes(plan: &Plan) -> Vec<String> {
    let scratch = Path::new("{scratch}");
    let (own, other) = accounts(plan);
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    let mut add = |what: &str, who: &str, command: &str| {
        let line = format!("{what}, as {who}: {}", printable(command));
        if seen.insert(line.clone()) {
            found.push(line);
        }
    };
    let trials = plan.trials();
    let cells: BTreeSet<&Levels> = trials.iter().map(|trial| &trial.levels).collect();
    for levels in plan.configurations() {
        if let Some(build) = plan.build(&levels, Path::new("{build}"), scratch) {
            add("build", &other, &build.step.command);
        }
        for number in 1..=plan.instances(&levels) {
            let step = |step: Option<Step>| step.map(|step| step.command);
            if let Some(command) = step(plan.setup(&levels, scratch, number)) {
                add("setup", &other, &command);
            }
            if let Prepare::Run(step) = plan.prepare(&levels, scratch, number) {
                add("prepare", &other, &step.command);
            }
        }
        for server in plan.servers(&levels, scratch) {
            let words = std::iter::once(&server.command.program).chain(&server.command.arguments);
            let words: Vec<&str> = words.map(String::as_str).collect();
            add("server", &other, &words.join(" "));
            if let Ready::Command(command) = &server.ready {
                add("server, until it is ready", &other, command);
            }
        }
    }
    for levels in cells {
        for target in plan.target(levels, scratch).lines().filter(|target| target.scheme() == "exec") {
            let shown = target.masked();
            add("load, each event", &own, shown.strip_prefix("exec:").unwrap_or(&shown));
        }
        for number in 1..=plan.instances(levels) {
            if let Some(step) = plan.verify(levels, scratch, number) {
                add("verify", &other, &step.command);
            }
            for of in plan.server_values(levels, scratch, number) {
                add(&format!("value {} at each interval", of.name), &other, &of.step.command);
            }
            for of in plan.server_settings(levels, scratch, number) {
                add(&format!("settings {}", of.name), &other, &of.step.command);
            }
        }
        for (name, step) in plan.values(levels, scratch) {
            add(&format!("value {name}"), &other, &step.command);
        }
    }
    if let Some(script) = plan.script_path() {
        add("load, the script", &own, &script.display().to_string());
    }
    let more = found.len().saturating_sub(COMMANDS_MAX);
    found.truncate(COMMANDS_MAX);
    if more > 0 {
        found.push(format!("and {more} more commands"));
    }
    found
}

/// Accounts of the load and of everything else, as the runner chooses them: a server and the commands beside
/// it lose the rights of root.
fn accounts(plan: &Plan) -> (String, String) {
    let id = nix::unistd::geteuid();
    let own = nix::unistd::User::from_uid(id).ok().flatten().map_or_else(|| id.to_string(), |user| user.name);
    let other = match (plan.has_server(), plan.server_user()) {
        (true, Some(user)) => user.to_owned(),
        (true, None) if id.is_root() => "an unprivileged user made for the run".to_owned(),
        _ => own.clone(),
    };
    (own, other)
}
