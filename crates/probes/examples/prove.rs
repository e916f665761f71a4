//! Proves the CPU's instruments on this machine: `prove [SECONDS]`. The hogs are the example `hog`.

use std::io::{self, Write};
use std::process::Command;
use std::{env, path::PathBuf};

use bakeoff_probes::prove::{self, Hog, Settings};
use record::missing::Maybe;
use record::proof::Proof;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = env::args().nth(1).map_or(Ok(3), |w| w.parse())?;
    let hog: PathBuf = env::current_exe()?.with_file_name("hog");
    let settings = Settings { seconds, cpu: None, peers: true };
    let command = |work: &Hog| {
        let mut command = Command::new(&hog);
        match work {
            Hog::Hide { cpu, ratio } => {
                command.args(["hide", &cpu.to_string(), &(ratio * 100.0).to_string(), "600"])
            }
            Hog::Antihide { cpu } => command.args(["antihide", &cpu.to_string(), "600"]),
            Hog::Spin { cpus } => {
                let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
                command.args(["spin", &cpus.join(","), "600"])
            }
        };
        command
    };
    let mut out = io::stdout().lock();
    prove::cpu(&settings, &command, &mut |proof| {
        // Nobody reads on: the table is for people.
        let _ = line(&mut out, proof);
    })?;
    Ok(())
}

fn line(out: &mut dyn Write, proof: &Proof) -> io::Result<()> {
    let percent =
        |r: &Maybe<f64>| r.as_ref().map_or_else(ToString::to_string, |r| format!("{:.2}", r * 100.0));
    writeln!(
        out,
        "{:10} {:22} truth {:>7} found {:>7} error {:>7} cost {:>9} {}{}",
        proof.workload,
        proof.instrument,
        percent(&proof.truth),
        percent(&proof.found),
        percent(&proof.error()),
        proof.cost_ratio.as_ref().map_or_else(|_| "-".to_owned(), |c| format!("{:.4} %", c * 100.0)),
        proof.verdict().word(),
        if proof.ours { "" } else { " (not ours)" },
    )
}
