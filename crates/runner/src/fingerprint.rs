//! Facts about the machine before a trial, and identity of the programs of server and commands.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use nix::unistd::Pid;
use plan::Plan;
use record::bakeoff::{Bakeoff, Levels};
use record::environment::Environment;
use record::missing::Missing;
use record::target::Target;

/// Facts: programs of the server, and their checksums in the same order.
const SERVER: [&str; 2] = ["server.program", "server.program.sha256"];
/// Facts: programs of an `exec:` load, and their checksums.
const COMMAND: [&str; 2] = ["command.program", "command.program.sha256"];

/// Reads the machine's facts again. Returns those that changed since `first`, such as a governor, a
/// mitigation or a setting of the kernel.
pub(crate) fn refresh(environment: &mut Environment, first: &Environment) -> Option<String> {
    let mut changed = Vec::new();
    for (name, value) in probes::environment::read(Path::new("/")).facts {
        // The kernel corrects its estimate of the clock.
        if let (Some(was), Ok(is)) = (first.fact(&name), &value)
            && was != is
            && name != "cpu.clock_mhz"
        {
            changed.push(format!("{name} changed from {was} to {is}"));
        }
        environment.facts.insert(name, value);
    }
    (!changed.is_empty()).then(|| changed.join(", "))
}

/// Records the programs of a server: the files that its processes execute, and their checksums.
///
/// - `pids`: the processes that listen, or all if none does. The shell of a wrapper is not the server.
pub(crate) fn server(pids: &[Pid], environment: &mut Environment) {
    let found = pids.iter().filter_map(|pid| {
        let file = format!("/proc/{pid}/exe");
        // A process that has ended executes no file. The link opens the file even if it was replaced.
        let path = match fs::read_link(&file) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return None,
            path => path,
        };
        Some(path.and_then(|path| Ok((path, checksum(Path::new(&file))?))).map_err(|e| (file, e)))
    });
    note(SERVER, found.collect(), "no process of the server was found", environment);
}

/// Records the programs that an `exec:` load executes: the files on PATH, in a shell's text for each command
/// position.
///
/// Programs that these start are unknown.
pub(crate) fn command(target: &Target, environment: &mut Environment) {
    let Some(words) = load::exec_words(target) else { return };
    let programs = match &words[..] {
        [shell, option, text] if shell == "sh" && option == "-c" => {
            std::iter::once("sh").chain(commands_of(text)).collect()
        }
        words => vec![words[0].as_str()],
    };
    let found = programs.into_iter().filter_map(find).map(|path| {
        let sum = checksum(&path);
        sum.map(|sum| (path.clone(), sum)).map_err(|e| (path.display().to_string(), e))
    });
    note(COMMAND, found.collect(), "it is not on PATH", environment);
}

/// Checksum of each program, or the file that cannot be read and its error.
type Programs = Result<BTreeMap<PathBuf, String>, (String, io::Error)>;

fn note([name, sum_name]: [&str; 2], programs: Programs, absent: &str, environment: &mut Environment) {
    let programs = match programs {
        Ok(programs) if programs.is_empty() => Err(Missing::because(absent)),
        Ok(programs) => Ok(programs),
        Err((file, error)) => Err(Missing::because(format!("{file}: {error}"))),
    };
    let paths = |all: &BTreeMap<PathBuf, String>| all.keys().map(|path| path.display().to_string()).collect();
    let listed = |list: Vec<String>| list.join(", ");
    environment.facts.insert(name.to_owned(), programs.as_ref().map(paths).map(listed).map_err(Clone::clone));
    environment.facts.insert(sum_name.to_owned(), programs.map(|all| listed(all.into_values().collect())));
}

/// Checksums of the programs of the first run of each cell, by the name of their fact and the levels that
/// choose them.
#[derive(Debug, Default)]
pub(crate) struct FirstPrograms(BTreeMap<(&'static str, Levels), BTreeMap<String, String>>);

impl FirstPrograms {
    /// Programs of the runs that a bake-off already has.
    pub(crate) fn of(bakeoff: &Bakeoff, plan: &Plan) -> Self {
        let mut first = Self::default();
        for (trial, run) in bakeoff.sealed() {
            first.compare(&run.environment, &trial.levels, plan.whole_factors());
        }
        first
    }

    /// Compares the programs of a run with those of the first run; keeps them if it is the first. Returns
    /// those that were replaced since.
    ///
    /// - `whole`: factors that choose a server.
    pub(crate) fn compare<'a>(
        &mut self,
        environment: &Environment,
        levels: &Levels,
        whole: impl Iterator<Item = &'a str>,
    ) -> Option<String> {
        let whole: Vec<&str> = whole.collect();
        let of_server = levels.iter().filter(|(name, _)| whole.contains(&name.as_str()));
        let of_server: Levels = of_server.map(|(name, value)| (name.clone(), value.clone())).collect();
        let mut replaced = Vec::new();
        for ([name, sums], levels) in [(SERVER, of_server), (COMMAND, levels.clone())] {
            let (Some(paths), Some(sums)) = (environment.fact(name), environment.fact(sums)) else {
                continue;
            };
            let owned = |(path, sum): (&str, &str)| (path.to_owned(), sum.to_owned());
            let now: BTreeMap<String, String> = paths.split(", ").zip(sums.split(", ")).map(owned).collect();
            let first = self.0.entry((name, levels)).or_insert_with(|| now.clone());
            // A helper that only some readings meet is no other program.
            replaced.extend(now.into_iter().filter_map(|(path, sum)| {
                let was = first.get(&path).filter(|was| **was != sum)?;
                Some(format!(
                    "{path} is another program than in the first series: its SHA-256 was {was}, is {sum}"
                ))
            }));
        }
        (!replaced.is_empty()).then(|| replaced.join("; "))
    }
}

/// Words before a command that belong to the shell, or that only execute the next one.
const BEFORE_COMMANDS: [&str; 14] = [
    "!", "{", "if", "then", "else", "elif", "while", "until", "do", "time", "exec", "command", "env", "nohup",
];
/// Commands that a shell executes itself although files with these names exist.
const BUILT_IN: [&str; 9] = ["[", "cd", "echo", "false", "kill", "printf", "pwd", "test", "true"];

/// Returns the words of a shell's text at command positions, also inside quotes, as in `sh -c '...'`.
pub(crate) fn commands_of(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(['|', '&', ';', '(', ')', '`', '"', '\'', '\n']);
    parts.filter_map(|part| {
        let is_before = |word: &&str| BEFORE_COMMANDS.contains(word) || word.contains('=');
        let word = part.split_whitespace().find(|word| !is_before(word))?;
        (!BUILT_IN.contains(&word)).then_some(word)
    })
}

/// Returns the file of a program name, by PATH.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let found = if name.contains('/') {
        Some(PathBuf::from(name))
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
    };
    found.and_then(|path| fs::canonicalize(path).ok()).filter(|path| path.is_file())
}

/// Size limit of a program. No real one is larger, but a server may execute a sparse file.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// Returns the checksum of a file. A file with equal inode, size and time is read once.
pub(crate) fn checksum(path: &Path) -> io::Result<String> {
    /// Device, inode, size, seconds and nanoseconds of the last change.
    type Key = (u64, u64, u64, i64, i64);
    static KNOWN: Mutex<BTreeMap<Key, String>> = Mutex::new(BTreeMap::new());
    let mut file = File::open(path)?;
    let found = file.metadata()?;
    if found.len() > PROGRAM_BYTES_MAX {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            "it is larger than 1 GiB, so it was not read",
        ));
    }
    let key = (found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec());
    let mut known = KNOWN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some(sum) = known.get(&key) {
        return Ok(sum.clone());
    }
    let sum = archive::sha256(&mut file)?;
    known.insert(key, sum.clone());
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_by_coreutils(path: &str) -> String {
        let asked = std::process::Command::new("sha256sum").arg(path).output().unwrap();
        let sum = String::from_utf8(asked.stdout).unwrap();
        sum.split_whitespace().next().unwrap_or_else(|| panic!("no sum of {path}")).to_owned()
    }

    #[test]
    fn a_server_is_known_by_the_content_of_the_file_that_it_executes() {
        let mut environment = Environment::default();
        server(&[nix::unistd::getpid()], &mut environment);
        let own = std::env::current_exe().unwrap().display().to_string();
        assert_eq!(environment.fact(SERVER[0]), Some(own.as_str()));
        assert_eq!(environment.fact(SERVER[1]), Some(sum_by_coreutils(&own).as_str()));
        server(&[], &mut environment);
        assert_eq!(environment.fact(SERVER[0]), None);
        assert_eq!(environment.fact(SERVER[1]), None);
    }

    #[test]
    fn the_programs_of_a_command_are_found_behind_its_shell() {
        for (target, names) in [
            ("exec:sleep 0.1", "sleep"),
            ("exec:gzip -1 <x | cat >/dev/null", "sh gzip cat"),
            ("exec:A=1 env LC_ALL=C sort x && echo done", "sh sort"),
            ("exec:if test -e x; then exec sleep 1; fi", "sh sleep"),
            ("exec:sh -c 'sleep 1; gzip x'", "sh sleep gzip"),
        ] {
            let mut environment = Environment::default();
            command(&Target::new(target), &mut environment);
            let wanted: std::collections::BTreeSet<PathBuf> =
                names.split(' ').map(|name| find(name).unwrap()).collect();
            let paths: Vec<String> = wanted.iter().map(|path| path.display().to_string()).collect();
            let sums: Vec<String> = paths.iter().map(|path| sum_by_coreutils(path)).collect();
            assert_eq!(environment.fact(COMMAND[0]), Some(paths.join(", ").as_str()), "{target}");
            assert_eq!(environment.fact(COMMAND[1]), Some(sums.join(", ").as_str()), "{target}");
        }
        let mut environment = Environment::default();
        command(&Target::new("exec:no-such-program"), &mut environment);
        assert!(environment.facts[COMMAND[0]].is_err());
        command(&Target::new("null:"), &mut environment);
    }

    #[test]
    fn a_program_with_a_hole_of_a_tebibyte_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 40).unwrap();
        assert_eq!(checksum(file.path()).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
