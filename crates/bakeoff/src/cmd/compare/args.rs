//! The options of `bakeoff compare`.

use record::gate::Gate;
use record::quantity;

use crate::cmd::gates::Outputs;
use crate::command_options::CommandOptions;
use crate::exit::{EndsWith as _, Exit};
use crate::given::{Given, refuse_idle};

/// Compare commands, in rounds in random order; or archived runs, labels and bake-offs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Archived runs, one side per argument, the reference first: a run id or unique prefix, several of them
    /// separated by commas, `latest`, or KEY=VALUE for all runs with that label
    #[arg(value_name = "RUN", conflicts_with = "commands")]
    pub(super) runs: Vec<String>,

    #[command(flatten)]
    pub(crate) command: CommandOptions,

    /// The command, or the side, that the others are compared with; by default the first
    #[arg(long, value_name = "COMMAND")]
    pub(super) reference: Option<String>,

    /// Differences within this share do not matter
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = quantity::ratio)]
    pub(super) rope: f64,

    /// Condition for exit code 0: 'time not worse by 5%', 'cpu <= 20ms'; of archived loads also throughput,
    /// p99 and cpu-per-event
    #[arg(long = "gate", value_name = "CONDITION", value_parser = gate)]
    pub(super) gates: Vec<Gate>,

    #[command(flatten)]
    pub(super) outputs: Outputs,

    /// Compare archived runs even if they measured different things
    #[arg(long)]
    pub(super) force: bool,

    /// Print how the verdict was reached
    #[arg(short, long)]
    pub(super) verbose: bool,

    /// The command line, from which the arguments without an effect are refused.
    #[arg(skip)]
    pub(crate) given: Vec<Given>,
}

/// Ids of the arguments that every comparison has.
const OF_ALL: [&str; 6] = ["archive", "json", "junit", "summary", "badge", "verbose"];
/// Further ones of archived runs. All other arguments are for commands alone.
const OF_RUNS: [&str; 5] = ["runs", "reference", "rope", "gates", "force"];
/// Those of archived runs that commands do not have.
const NOT_OF_COMMANDS: [&str; 2] = ["runs", "force"];
/// Exports of a stored comparison of commands.
const EXPORTS: [&str; 3] = ["export_json", "export_csv", "export_markdown"];

impl Args {
    /// Whether archived runs are compared, instead of commands.
    pub(crate) fn reads_archive(&self) -> bool {
        !self.command.has_commands()
    }

    /// Refuses arguments that have no effect on commands.
    pub(super) fn check_of_commands(&self) -> anyhow::Result<()> {
        let on = "commands, only on archived runs";
        refuse_idle(&self.given, |id| !NOT_OF_COMMANDS.contains(&id), on)
    }

    /// Refuses arguments that have no effect on sides of archived runs, which have been measured.
    pub(super) fn check_of_sides(&self) -> anyhow::Result<()> {
        let on = "archived runs, only on commands after `--`";
        refuse_idle(&self.given, |id| OF_ALL.contains(&id) || OF_RUNS.contains(&id), on)
    }

    /// Refuses arguments that have no effect on one stored comparison, which has been judged.
    ///
    /// - `is_of_commands`: whether it compares commands, instead of configurations.
    pub(super) fn check_of_stored(&self, is_of_commands: bool) -> anyhow::Result<()> {
        let has_effect =
            |id: &str| id == "runs" || OF_ALL.contains(&id) || (is_of_commands && EXPORTS.contains(&id));
        refuse_idle(&self.given, has_effect, "a stored comparison, which is shown as it was judged")
    }

    /// The gates on a comparison of commands.
    pub(crate) fn gates_of_commands(&self) -> anyhow::Result<Vec<Gate>> {
        let of_commands = self.gates.iter().map(|gate| Gate::read_of_commands(&gate.to_string()));
        let gates = of_commands.collect::<Result<Vec<_>, _>>();
        gates.map_err(|wrong| Exit::Usage.with(format!("--gate: {wrong}")))
    }

    /// The commands with all values in their places.
    pub(crate) fn expanded(&self) -> anyhow::Result<plan::Expanded> {
        self.command.lines(self.reference.as_deref())?.expanded().ends_with(Exit::Usage)
    }
}

const EXAMPLES: &str = "\
Examples:
  bakeoff compare -- 'gzip -6 -k -f x' 'zstd -3 -k -f x'
  bakeoff compare --time 20s --prepare 'sync' -- 'cp -r a b' 'rsync -a a/ b'
  bakeoff compare --parameter-list level 1,6,9 -- 'gzip -{level} -k -f x'
  bakeoff compare --gate 'time not worse by 3%' --junit gates.xml -- ./base ./head
  bakeoff compare build=old build=new        all runs with these labels
  bakeoff compare 01JA 01JB,01JC             runs by id prefix, several in one side
  bakeoff compare latest                     a stored comparison again, with its exit code

Warm-up and pilot come first; the pilot fixes the number of rounds, and is not part of the verdict. FASTER by \
22 % means that the other takes 1.22 times as long. Exit code 5: a command failed; 3: the result is INVALID; 1: \
a gate failed; 4: a gate is inconclusive.";

fn gate(text: &str) -> Result<Gate, String> {
    Gate::read_of_any(text).map_err(|wrong| wrong.to_string())
}
