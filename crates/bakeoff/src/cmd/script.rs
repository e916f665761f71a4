//! `bakeoff script`: run a command of a script in Lua.

use std::io::Write;

use record::load::{LoadSettings, OltpSettings, PreparePolicy, ScriptFile, settings};
use record::target::Target;

use crate::cmd::Global;
use crate::exit::Exit;
use crate::load_options::DataOptions;
use crate::script_file::script;
use crate::script_options::ScriptOptions;
use crate::setting_values::{default_of, whole};

/// Run a command of a sysbench script: prepare, prewarm, cleanup, help or its own
///
/// The script's options follow as --NAME VALUE; `--help` after FILE.lua lists them. Its output is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, override_usage = "bakeoff script <FILE.lua> [COMMAND] <TARGET> [OPTIONS]")]
pub(crate) struct Args {
    /// The script
    #[arg(value_name = "FILE.lua", value_parser = script)]
    file: ScriptFile,

    /// The command, and the target: `mysql://user:pw@host:port/db`, `postgres://user:pw@host:port/db`, or
    /// `null:` for a script without SQL. Without a command, the script is only loaded
    #[arg(value_name = "COMMAND> <TARGET", num_args = 1..=2, required = true)]
    words: Vec<String>,

    /// Threads of a command that the script allows to run in parallel
    #[arg(long, value_name = "N", default_value = settings::THREADS.default_text(), value_parser = whole::<u32>(&settings::THREADS))]
    threads: u32,

    /// Random seed
    #[arg(long, value_name = "N", default_value = settings::SEED.default_text(), value_parser = whole::<u64>(&settings::SEED))]
    seed: u64,

    /// Prepare statements on the server: yes or no
    #[arg(long, value_name = "YES|NO", default_value = default_of(&settings::PREPARED, "yes", "no"), action = clap::ArgAction::Set, value_parser = clap::builder::BoolishValueParser::new())]
    prepared: bool,

    #[arg(skip)]
    lua: ScriptOptions,
}

const EXAMPLES: &str = "\
Examples:
  bakeoff script oltp_read_write.lua prepare mysql://root@localhost/test --tables 4 --threads 4
  bakeoff script tpcc.lua check postgres://app@localhost/tpcc --scale 10
  bakeoff script tpcc.lua null: --help";

impl Args {
    /// Sets the options of the script.
    pub(crate) fn give(&mut self, lua: ScriptOptions) {
        self.lua = lua;
    }

    fn settings(&self, target: &str) -> LoadSettings {
        let base = DataOptions::plain(target).settings(PreparePolicy::Never);
        let mut scripts = base.scripts;
        scripts.files = vec![self.file.clone()];
        scripts.defines.clone_from(&self.lua.given);
        LoadSettings {
            workload: record::load::Workload::Script,
            scripts,
            oltp: OltpSettings { prepared: self.prepared, ..base.oltp },
            threads: self.threads,
            seed: self.seed,
            ..base
        }
    }
}

#[cfg(feature = "lua")]
pub(crate) fn run(args: &Args, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    use crate::cmd::print_json;
    use crate::exit::of_load;
    use crate::{script_options, signals};

    let (command, target) = match args.words.as_slice() {
        [command, target] => (Some(command.as_str()), target),
        [target] => (None, target),
        _ => unreachable!("one or two words"),
    };
    if !args.file.is_lua() {
        return Err(
            Exit::Usage.with(format!("{}: only scripts in Lua (FILE.lua) have commands", args.file.name))
        );
    }
    let settings = args.settings(target);
    load::check_target(&Target::new(target)).map_err(of_load)?;
    script_options::print_beside(global.json);
    signals::stop_on_interrupt()?;
    load::script_command(&settings, command, &signals::STOP).map_err(of_load)?;
    if global.json {
        let document = serde_json::json!({
            "schema": "bakeoff.script/1", "target": settings.target.masked(), "script": args.file.name,
            "command": command,
        });
        print_json(out, &document)?;
    }
    Ok(Exit::Good)
}

#[cfg(not(feature = "lua"))]
pub(crate) fn run(args: &Args, _: &Global, _: &mut dyn Write) -> anyhow::Result<Exit> {
    let _ = (args.settings(""), &args.words, Target::new(""));
    Err(Exit::CannotHere.with("this build cannot run Lua scripts: build bakeoff with the feature `lua`"))
}
