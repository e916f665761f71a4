//! Checks whether this machine can execute a plan and is quiet enough to measure.
//!
//! Problems that would appear after a minute, or distort results for hours, are found in the first second.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use archive::Archive;
use load::Stop;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::statvfs::statvfs;
use plan::{Plan, Prepare, Ready, ServerSpec};
use probes::limits::Limits;
use probes::{cpu_list, proc_stat};
use record::bakeoff::Levels;
use record::clock::{Clock as _, Monotonic};
use record::limits::CpuLimits;

use crate::account::{self, Account};
use crate::control_group::ControlGroup;
use crate::doctor;
use crate::error::RunnerError;
use crate::listener::Address;
use crate::memory_nodes;
use crate::process::{Placement, Process};

/// A finding about the machine that the user must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Finding and advice.
    pub text: String,
}

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The measurement may be disturbed.
    Warning,
    /// The plan cannot be executed.
    Problem,
}

/// Time for which the machine is watched before it counts as quiet.
const WATCH: Duration = Duration::from_millis(500);
/// Maximum utilization by other work of a quiet machine.
pub(crate) const BUSY_RATIO_MAX: f64 = 0.05;
/// Minimum of free space: less does not suffice for logs.
const FREE_BYTES_MIN: u64 = 100 << 20;
/// Folder of what the plan builds, before it is built.
const NOT_BUILT: &str = "{build}";
/// Placeholder for the scratch folder in paths that are checked before it exists.
const NOWHERE: &str = "/nonexistent";

/// Checks whether the machine is fit for the plan, without starting any part of it.
///
/// # Errors
///
/// [`RunnerError::Target`] if no driver accepts the plan's target.
pub fn preflight(plan: &Plan, archive: &Archive) -> Result<Vec<Finding>, RunnerError> {
    let mut found = Found(Vec::new());
    for trial in plan.trials().iter().filter(|t| t.block == 1) {
        let target = plan.target(&trial.levels, Path::new(NOWHERE));
        load::check_target(&target)
            .map_err(|source| RunnerError::Target { plan: plan.name().to_owned(), source })?;
    }
    let account = if plan.has_server() { account::choose(plan.server_user()) } else { Ok(None) };
    for levels in plan.configurations() {
        found.look_at_steps(plan, &levels);
        for spec in plan.servers(&levels, Path::new(NOWHERE)) {
            if let Ok(account) = &account {
                found.look_at_server(&spec, *account);
            }
        }
    }
    if let Err(problem) = account {
        found.problem(problem);
    }
    found.look_at_cpus("client.cpus", plan.client().map(|client| &client.cpus[..]));
    if plan.slices().is_some()
        && let Err(problem) = ControlGroup::can_freeze_here()
    {
        found.problem(problem);
    }
    found.look_for_room("the scratch folder", &std::env::temp_dir());
    found.look_for_room("the archive", archive.dir());
    found.look_at_scratch_name();
    found.look_at_limits(&Limits::of_self().cpu());
    found.look_for_quiet(Path::new("/"));
    found.look_for_noise();
    let mut findings: Vec<Finding> = Vec::new();
    for finding in found.0 {
        if !findings.contains(&finding) {
            findings.push(finding);
        }
    }
    Ok(findings)
}

struct Found(Vec<Finding>);

impl Found {
    fn problem(&mut self, text: String) {
        self.0.push(Finding { severity: Severity::Problem, text });
    }

    fn warning(&mut self, text: String) {
        self.0.push(Finding { severity: Severity::Warning, text });
    }

    fn look_at_steps(&mut self, plan: &Plan, levels: &Levels) {
        let nowhere = Path::new(NOWHERE);
        let prepare = match plan.prepare(levels, nowhere, 1) {
            Prepare::Run(step) => Some(step),
            Prepare::Builtin | Prepare::Nothing => None,
        };
        for (phase, step) in [("setup", plan.setup(levels, nowhere, 1)), ("prepare", prepare)] {
            let Some(step) = step else { continue };
            // Only the first word is checked, and only if it must be a command.
            let word = step.command.split_ascii_whitespace().next().unwrap_or_default();
            let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+".contains(c));
            if plain && !word.is_empty() && !word.starts_with(NOWHERE) && !is_command(word) {
                self.problem(format!("{phase} needs `{word}`, which is not installed or not on PATH"));
            }
        }
    }

    fn look_at_server(&mut self, spec: &ServerSpec, account: Option<Account>) {
        let program = &spec.command.program;
        let comes_later = |path: &str| path.starts_with(NOWHERE) || path.starts_with(NOT_BUILT);
        if !comes_later(program) && !is_command(program) {
            self.problem(format!("the server `{program}` is not installed or not on PATH"));
        }
        for (_, libraries) in spec.environment.iter().filter(|(name, _)| name == "LD_PRELOAD") {
            for library in libraries.split([':', ' ']).filter(|l| !l.is_empty() && !comes_later(l)) {
                if let Err(why) = loads(library, account) {
                    self.problem(format!("LD_PRELOAD: {why}"));
                }
            }
        }
        match &spec.ready {
            Ready::Socket(path) if Address::Unix(path.into()).answers() => {
                self.problem(format!(
                    "another server already answers at {path}: stop it, or use {{scratch}}"
                ));
            }
            Ready::Tcp { host, port } if Address::Tcp(host.clone(), *port).answers() => {
                self.problem(format!(
                    "another server already answers at {host}:{port}: stop it, or use another port"
                ));
            }
            _ => {}
        }
        self.look_at_cpus("server.cpus", spec.cpus.as_deref());
        let nodes = memory_nodes::of_machine(Path::new("/"));
        if let Some(missing) = spec.mem.iter().flatten().find(|node| !nodes.contains(node)) {
            let all: Vec<String> = nodes.iter().map(u32::to_string).collect();
            self.problem(format!(
                "`server.mem` names memory node {missing}, which this machine does not have: it has {}",
                all.join(", ")
            ));
        }
    }

    fn look_at_cpus(&mut self, key: &str, wanted: Option<&[u32]>) {
        let online = cpu_list::online(Path::new("/"));
        if let (Some(wanted), Some(online)) = (wanted, online)
            && let Some(missing) = wanted.iter().find(|cpu| !online.contains(cpu))
        {
            let last = online.last().copied().unwrap_or_default();
            self.problem(format!(
                "`{key}` names CPU {missing}, which is not online here; the last online CPU is {last}"
            ));
        }
    }

    fn look_for_room(&mut self, what: &str, folder: &Path) {
        if let Some(text) = lacks_room(what, folder, FREE_BYTES_MIN) {
            self.warning(text);
        }
    }

    /// Checks the folder of `{scratch}`, which becomes part of command lines and URLs.
    fn look_at_scratch_name(&mut self) {
        let folder = std::env::temp_dir();
        let plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "._-/+".contains(c));
        if !folder.to_str().is_some_and(plain) {
            self.problem(format!(
                "the name of the scratch folder {} has blanks or characters that do not fit into command \
                 lines or URLs; set TMPDIR to another",
                folder.display()
            ));
        }
    }

    fn look_at_limits(&mut self, own: &CpuLimits) {
        if let Some(text) = own.warning() {
            self.warning(text);
        }
    }

    fn look_for_noise(&mut self) {
        for symptom in doctor::noisy() {
            let costs: Vec<&str> = symptom
                .costs
                .iter()
                .map(|cost| cost.split_once(": ").map_or(cost.as_str(), |(_, cost)| cost))
                .collect();
            let mend = symptom.mend.map_or(String::new(), |mend| format!(" ({mend})"));
            self.warning(format!("{}: {}{mend}", symptom.what, costs.join("; ")));
        }
    }

    fn look_for_quiet(&mut self, root: &Path) {
        let Ok(before) = proc_stat::read(root) else { return };
        let from_ns = Monotonic.now_ns();
        let until_ns = from_ns + u64::try_from(WATCH.as_nanos()).expect("half a second");
        while Monotonic.now_ns() < until_ns {
            Monotonic.sleep_until_ns(until_ns);
        }
        let Ok(after) = proc_stat::read(root) else { return };
        let Some(ratio) = busy_ratio(&before, &after) else { return };
        if ratio > BUSY_RATIO_MAX {
            self.warning(format!(
                "other work uses {:.0} % of the CPUs: it adds noise, so the blocks can only show larger \
                 differences",
                ratio * 100.0
            ));
        }
    }
}

/// Describes a disk with too little free space; `None` also if it is unknown: an archive that cannot be read
/// cannot be written either, and reports that itself.
pub(crate) fn lacks_room(what: &str, folder: &Path, free_bytes_min: u64) -> Option<String> {
    let stat = statvfs(folder).ok()?;
    let free_bytes = stat.blocks_available() * stat.fragment_size();
    let free_mib = free_bytes >> 20;
    (free_bytes < free_bytes_min).then(|| format!("{what} {} has only {free_mib} MiB left", folder.display()))
}

/// Whether the shell finds that command. The shell itself is asked, since only it knows its built-in
/// commands.
fn is_command(name: &str) -> bool {
    let asked = Command::new("sh").args(["-c", "command -v \"$1\" >/dev/null 2>&1", "sh", name]).status();
    asked.is_ok_and(|status| status.success())
}

/// Time limit for loading a library, which executes code in it.
const LOADS_WITHIN: Duration = Duration::from_secs(10);
/// Maximum output of the loader that is read.
const SAID_BYTES_MAX: u64 = 64 << 10;

/// Checks that the loader finds a library: it preloads it into a program that does no work, with the rights
/// of the server.
fn loads(library: &str, account: Option<Account>) -> Result<(), String> {
    if library.contains('/') && !fs::exists(library).unwrap_or(false) {
        return Err(format!("{library} does not exist"));
    }
    let said = said_by_loader(library, account).unwrap_or_default();
    // The loader only warns, and continues without it.
    match said.lines().find(|line| line.contains("LD_PRELOAD")) {
        None => Ok(()),
        Some(_) => Err(format!("the loader cannot find {library}; install its package, or give its path")),
    }
}

fn said_by_loader(library: &str, account: Option<Account>) -> io::Result<String> {
    let (said, to_write) = io::pipe()?;
    fcntl(&said, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    let mut command = Command::new("true");
    command.env("LD_PRELOAD", library).env("LC_ALL", "C").current_dir("/");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(to_write);
    let mut process = Process::spawn(command, &Placement { account, ..Placement::ANYWHERE })?;
    process.wait(LOADS_WITHIN, &Stop::new());
    process.finish()?;
    let mut bytes = Vec::new();
    match said.take(SAID_BYTES_MAX).read_to_end(&mut bytes) {
        // Processes that the library has started may still hold the pipe.
        Err(e) if e.kind() != io::ErrorKind::WouldBlock => Err(e),
        _ => Ok(String::from_utf8_lossy(&bytes).into_owned()),
    }
}

/// Returns the share of all counted ticks in which the CPUs were not idle.
pub(crate) fn busy_ratio(before: &proc_stat::ProcStat, after: &proc_stat::ProcStat) -> Option<f64> {
    let (mut idle, mut all) = (0, 0);
    for (cpu, now) in after {
        let then = before.get(cpu)?;
        // The idle columns may fall by a tick (proc(5)): then they add 0.
        let since = |of: fn(&proc_stat::Ticks) -> u64| of(now).saturating_sub(of(then));
        let idle_here = since(|t| t.idle) + since(|t| t.iowait);
        idle += idle_here;
        all += idle_here + since(|t| t.user + t.nice + t.system + t.irq + t.softirq + t.steal);
    }
    (all > 0).then(|| 1.0 - idle as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use probes::proc_stat::{ProcStat, Ticks};

    use super::*;

    #[test]
    fn commands_are_found_as_the_shell_finds_them() {
        assert!(is_command("sh"));
        assert!(is_command("cd"));
        assert!(is_command("/bin/sh"));
        assert!(!is_command("no-such-command-here"));
    }

    #[test]
    fn the_loader_knows_what_it_can_preload() {
        assert_eq!(loads("libc.so.6", None), Ok(()));
        assert!(loads("libno-such-allocator.so.1", None).unwrap_err().contains("libno-such-allocator.so.1"));
        assert_eq!(loads("/no/such.so", None), Err("/no/such.so does not exist".into()));
    }

    /// The library may belong to another user: the account that the plan names for the server.
    #[test]
    fn root_a_library_is_tried_with_the_rights_of_the_server() {
        let folder = tempfile::tempdir().unwrap();
        let (source, library, note) =
            (folder.path().join("x.c"), folder.path().join("x.so"), folder.path().join("note"));
        let code = format!(
            "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void run(void) {{ \
             FILE *f = fopen(\"{}\", \"w\"); if (f) {{ fprintf(f, \"%d\", (int)getuid()); fclose(f); }} }}\n",
            note.display()
        );
        fs::write(&source, code).unwrap();
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        let account = account::choose(None).unwrap();
        let (Some(account), true) = (account, built.is_ok_and(|status| status.success())) else {
            println!("skipped: not root, or no C compiler");
            return;
        };
        fs::write(&note, "").unwrap();
        for path in [folder.path(), &note] {
            fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        }
        assert_eq!(loads(library.to_str().unwrap(), Some(account)), Ok(()));
        assert_eq!(fs::read_to_string(&note).unwrap(), account.uid.to_string());
    }

    #[test]
    fn busy_is_what_was_not_idle() {
        let at = |user, idle| ProcStat::from([(0, Ticks { user, idle, ..Ticks::default() })]);
        assert_eq!(busy_ratio(&at(10, 10), &at(20, 40)), Some(0.25));
        assert_eq!(busy_ratio(&at(10, 10), &at(10, 10)), None);
    }
}
