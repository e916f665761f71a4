//! `bakeoff prepare` and `bakeoff cleanup`: build or remove a workload's data set.

use std::io::Write;

use record::load::{LoadSettings, PreparePolicy, Workload};
use record::target::Target;
use serde_json::json;

use crate::cmd::{Global, print_json};
use crate::exit::Exit;
use crate::exit::of_load;
use crate::load_options::DataOptions;
use crate::load_screen::LoadScreen;
use crate::signals;

/// Build a workload's data set if it is missing or incomplete
#[derive(Debug, clap::Args)]
#[command(after_help = PREPARE_EXAMPLES)]
pub(crate) struct PrepareArgs {
    #[command(flatten)]
    data: DataOptions,

    /// Rebuild it even if it is complete
    #[arg(long)]
    from_scratch: bool,

    /// Tables to build in parallel, each on its own connection (MariaDB, MySQL, PostgreSQL)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_024))]
    threads: u32,
}

/// Remove a workload's data set
#[derive(Debug, clap::Args)]
#[command(after_help = CLEANUP_EXAMPLES)]
pub(crate) struct CleanupArgs {
    #[command(flatten)]
    data: DataOptions,
}

const PREPARE_EXAMPLES: &str = "\
Examples:
  bakeoff prepare sqlite:/tmp/bench.db --tables 4 --rows 100000
  bakeoff prepare 'mysql://root@localhost/test?socket=/run/mysqld/mysqld.sock' --threads 4";

const CLEANUP_EXAMPLES: &str = "\
Examples:
  bakeoff cleanup sqlite:/tmp/bench.db --tables 4
  bakeoff cleanup redis://localhost --keys 10000";

impl PrepareArgs {
    /// Target of the data set.
    pub(crate) fn target(&self) -> Target {
        self.data.target()
    }
}

impl CleanupArgs {
    /// Target of the data set.
    pub(crate) fn target(&self) -> Target {
        self.data.target()
    }
}

pub(crate) fn prepare(args: &PrepareArgs, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    refuse_scripts(&args.data)?;
    let policy = if args.from_scratch { PreparePolicy::Always } else { PreparePolicy::Auto };
    let settings = LoadSettings { threads: args.threads, ..args.data.settings(policy) };
    signals::stop_on_interrupt()?;
    let mut screen = LoadScreen::new(&settings);
    let prepared = load::prepare(&settings, &signals::STOP, &mut |event| screen.show(event));
    drop(screen.finish());
    let prepared = prepared.map_err(of_load)?;
    if global.json {
        let document = json!({
            "schema": "bakeoff.prepare/1", "target": settings.target.masked(),
            "tables_found": prepared.found, "tables_built": prepared.built, "rows": prepared.rows,
        });
        print_json(out, &document)?;
    } else {
        let (found, built, rows) = (prepared.found, prepared.built, prepared.rows);
        let target = &settings.target;
        match settings.workload {
            Workload::Kv if built > 0 => writeln!(out, "{target}: filled with {rows} keys")?,
            Workload::Kv => writeln!(out, "{target}: already filled with {rows} keys")?,
            Workload::Native => writeln!(out, "{target}: there is nothing to prepare")?,
            _ => writeln!(
                out,
                "{target}: {built} tables built, {found} already complete, {rows} rows in each"
            )?,
        }
    }
    Ok(Exit::Good)
}

pub(crate) fn cleanup(args: &CleanupArgs, global: &Global, out: &mut dyn Write) -> anyhow::Result<Exit> {
    refuse_scripts(&args.data)?;
    let settings = args.data.settings(PreparePolicy::Never);
    let cleaned = load::cleanup(&settings).map_err(of_load)?;
    if global.json {
        let document = json!({
            "schema": "bakeoff.cleanup/1", "target": settings.target.masked(), "tables_removed": cleaned.removed,
        });
        print_json(out, &document)?;
    } else {
        let (target, removed) = (&settings.target, cleaned.removed);
        match settings.workload {
            Workload::Kv if removed > 0 => writeln!(out, "keys removed from {target}")?,
            Workload::Kv => writeln!(out, "{target} holds none of the keys")?,
            Workload::Native => writeln!(out, "{target}: there is nothing to remove")?,
            _ => writeln!(out, "{removed} tables removed from {target}")?,
        }
    }
    Ok(Exit::Good)
}

/// Refuses scripts: only their author knows which tables they use.
fn refuse_scripts(data: &DataOptions) -> anyhow::Result<()> {
    if !data.has_scripts() {
        return Ok(());
    }
    Err(Exit::Usage.with(
        "a script has no data set: leave --script out; for a Lua script, run \
         `bakeoff script FILE.lua prepare TARGET`",
    ))
}
