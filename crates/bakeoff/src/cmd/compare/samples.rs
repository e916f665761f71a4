//! A sample of every argument of `compare`, for tests that cover all of them: a new one cannot be forgotten.

use clap::CommandFactory as _;

use crate::cli::Cli;

/// The arguments of a command, without help and version.
pub(crate) fn arguments(name: &str) -> Vec<clap::Arg> {
    let mut command = Cli::command();
    command.build();
    let command = command.find_subcommand(name).unwrap();
    let is_ours = |a: &&clap::Arg| !matches!(a.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(is_ours).cloned().collect()
}

pub(crate) fn dashed(argument: &clap::Arg) -> String {
    let short = || format!("-{}", argument.get_short().unwrap());
    argument.get_long().map_or_else(short, |long| format!("--{long}"))
}

/// Words after `compare` that give one argument a value besides its default; the commands follow.
pub(crate) fn sample(id: &str) -> &'static [&'static str] {
    match id {
        "time" => &["--time", "2m"],
        "blocks" => &["--blocks", "9"],
        "warmup" => &["--warmup", "3"],
        "prepare" => &["--prepare", "sync"],
        "conclude" => &["--conclude", "sync"],
        "setup" => &["--setup", "sync"],
        "cleanup" => &["--cleanup", "sync"],
        "shell" => &["--shell", "sh"],
        "no_shell" => &["-N"],
        "parameter_list" => &["-L", "n", "1,2"],
        "parameter_scan" => &["-P", "n", "1", "3"],
        "parameter_step_size" => &["-P", "n", "1", "3", "-D", "2"],
        "ignore_failure" => &["--ignore-failure=1"],
        "input" => &["--input", "/dev/zero"],
        "output" => &["--output", "pipe"],
        "show_output" => &["--show-output"],
        "command_name" => &["-n", "old"],
        "timeout" => &["--timeout", "9s"],
        "events" => &["--events"],
        "seed" => &["--seed", "77"],
        "title" => &["--title", "Two of them"],
        "labels" => &["--label", "a=b"],
        "no_archive" => &["--no-archive"],
        "export_json" => &["--export-json", "x.json"],
        "export_csv" => &["--export-csv", "x.csv"],
        "export_markdown" => &["--export-markdown", "x.md"],
        "beside_others" => &["--beside-others"],
        "reference" => &["--reference", "B"],
        "rope" => &["--rope", "3%"],
        "gates" => &["--gate", "cpu not worse by 5%"],
        "junit" => &["--junit", "x.xml"],
        "summary" => &["--summary", "x.md"],
        "badge" => &["--badge", "x.svg"],
        "force" => &["--force"],
        "verbose" => &["--verbose"],
        "archive" => &["--archive", "/tmp/a"],
        "json" => &["--json"],
        other => panic!("give a sample of {other}"),
    }
}

#[test]
fn an_argument_that_has_no_effect_on_archived_runs_or_on_commands_is_refused() {
    let of = |id: &str, what: &[&str]| {
        let sample = sample(id).iter();
        let line = ["bakeoff", "compare"].iter().chain(sample).chain(what);
        let words: Vec<std::ffi::OsString> = line.map(std::ffi::OsString::from).collect();
        let Ok(Cli { command: crate::cli::Command::Compare(args), .. }) = Cli::read_from(&words) else {
            panic!("{words:?}")
        };
        *args
    };
    let of_runs =
        ["archive", "json", "junit", "summary", "badge", "verbose", "reference", "rope", "gates", "force"];
    for argument in arguments("compare") {
        let id = argument.get_id().as_str();
        if matches!(id, "commands" | "runs") {
            continue;
        }
        let is_refused = |checked: anyhow::Result<()>| {
            checked.is_err_and(|error| {
                let error = format!("{error:#}");
                assert!(error.contains(&dashed(&argument)) && !error.contains('\n'), "{error}");
                true
            })
        };
        assert_eq!(is_refused(of(id, &["a", "b"]).check_of_sides()), !of_runs.contains(&id), "{id}");
        assert_eq!(is_refused(of(id, &["--", "a", "b"]).check_of_commands()), id == "force", "{id}");
        let of_stored = of_runs[..6].contains(&id);
        assert_eq!(is_refused(of(id, &["a"]).check_of_stored(false)), !of_stored, "{id}");
        let of_stored = of_stored || id.starts_with("export_");
        assert_eq!(is_refused(of(id, &["a"]).check_of_stored(true)), !of_stored, "{id}");
    }
}
