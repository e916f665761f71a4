//! A comparison of commands in the forms of hyperfine, for the readers that exist already.

use std::fmt::Write as _;
use std::io;

use analysis::commands::{Results, Summary};
use record::command::CommandEnd;
use record::commands::{Comparison, Peak, Phase, Turn};
use record::csv::write_row;
use serde_json::{Map, Value, json};

use crate::markdown::escape;
use crate::text::pair_sentence;

/// The document of hyperfine's `--export-json`: times of all measured rounds, and their summary.
///
/// Mean and standard deviation are arithmetic there, while our text prints geometric means.
pub fn hyperfine_json(comparison: &Comparison, results: &Results) -> Value {
    let of = |(i, command): (usize, &record::commands::Compared)| {
        let turns: Vec<&Turn> = comparison.turns_of(i, Phase::Measured).collect();
        let summary = &results.summaries[i];
        let (user, system) = summary.cpu.clone().unwrap_or((f64::NAN, f64::NAN));
        let mut object = Map::new();
        object.insert("command".into(), json!(command.text));
        if let Ok(spread) = &summary.spread {
            object.extend([
                ("mean".to_owned(), json!(spread.mean)),
                ("stddev".to_owned(), json!(spread.sd)),
                ("median".to_owned(), json!(spread.median)),
                ("user".to_owned(), json!(user)),
                ("system".to_owned(), json!(system)),
                ("min".to_owned(), json!(spread.min)),
                ("max".to_owned(), json!(spread.max)),
            ]);
        }
        let memory = |turn: &&Turn| match turn.memory {
            Peak::Bytes(bytes) => json!(bytes),
            // A bound is not a value.
            Peak::AtMost(_) => Value::Null,
        };
        object.insert("times".into(), turns.iter().map(|turn| json!(turn.time_s)).collect());
        object.insert("memory_usage_byte".into(), turns.iter().map(memory).collect());
        object.insert("exit_codes".into(), turns.iter().map(|turn| exit_code(turn)).collect());
        if !command.parameters.is_empty() {
            object.insert("parameters".into(), json!(command.parameters));
        }
        Value::Object(object)
    };
    json!({ "results": comparison.commands.iter().enumerate().map(of).collect::<Vec<_>>() })
}

fn exit_code(turn: &Turn) -> Value {
    match turn.end {
        CommandEnd::Code(code) => json!(code),
        CommandEnd::Signal(_) | CommandEnd::NoCommand => Value::Null,
    }
}

/// The table of hyperfine's `--export-csv`, in seconds.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn csv(out: &mut dyn io::Write, comparison: &Comparison, results: &Results) -> io::Result<()> {
    let mut parameters: Vec<&String> = comparison.commands.iter().flat_map(|c| c.parameters.keys()).collect();
    parameters.sort_unstable();
    parameters.dedup();
    let heads = ["command", "mean", "stddev", "median", "user", "system", "min", "max"].map(str::to_owned);
    write_row(out, heads.into_iter().chain(parameters.iter().map(|name| format!("parameter_{name}"))))?;
    for (command, summary) in comparison.commands.iter().zip(&results.summaries) {
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let spread = summary.spread.as_ref().ok();
        let cpu = summary.cpu.as_ref().ok();
        let cells = [
            command.text.clone(),
            number(spread.map(|s| s.mean)),
            number(spread.and_then(|s| s.sd)),
            number(spread.map(|s| s.median)),
            number(cpu.map(|(user, _)| *user)),
            number(cpu.map(|(_, system)| *system)),
            number(spread.map(|s| s.min)),
            number(spread.map(|s| s.max)),
        ];
        let value = |name: &&String| command.parameters.get(*name).cloned().unwrap_or_default();
        write_row(out, cells.into_iter().chain(parameters.iter().map(value)))?;
    }
    Ok(())
}

/// A table in Markdown: the columns of hyperfine's, and the verdict in place of a ratio without an interval.
pub fn markdown(comparison: &Comparison, results: &Results) -> String {
    let slowest =
        results.summaries.iter().filter_map(|s| Some(s.spread.as_ref().ok()?.mean)).fold(0.0, f64::max);
    let (scale, unit) = if slowest < 1.0 { (1e3, "ms") } else { (1.0, "s") };
    let mut out = format!(
        "| | Command | Mean [{unit}] | Min [{unit}] | Max [{unit}] | Against {} |\n|:---|:---|---:|---:|---:|:---|\n",
        Comparison::letter(comparison.reference)
    );
    for (i, (command, summary)) in comparison.commands.iter().zip(&results.summaries).enumerate() {
        let verdict = match results.pairs.iter().find(|pair| pair.a == i) {
            Some(pair) => pair_sentence(comparison, results, pair),
            None => "reference".to_owned(),
        };
        writeln!(
            out,
            "| {} | {} | {} | {} |",
            Comparison::letter(i),
            escape(&command.text),
            cells(summary, scale).join(" | "),
            escape(&verdict)
        )
        .expect("a String takes all that is written to it");
    }
    out
}

fn cells(summary: &Summary, scale: f64) -> [String; 3] {
    let Ok(spread) = &summary.spread else { return ["-", "-", "-"].map(str::to_owned) };
    let write = |seconds: f64| format!("{:.1}", seconds * scale);
    let mean = match spread.sd {
        Some(sd) => format!("{} ± {}", write(spread.mean), write(sd)),
        None => write(spread.mean),
    };
    [mean, write(spread.min), write(spread.max)]
}

#[cfg(test)]
mod tests {
    use analysis::commands::commands;
    use record::commands::{Compared, Round, Rules};
    use record::missing::Missing;

    use super::*;

    fn sample() -> (Comparison, Results) {
        let turn = |command: usize, time_s: f64| Turn {
            command,
            t_ms: 0,
            end: CommandEnd::Code(i32::from(command == 1)),
            time_s,
            user_s: 0.1,
            system_s: 0.2,
            events_s: Err(Missing::because("not measured")),
            instructions: Err(Missing::because("not measured")),
            memory: if command == 0 { Peak::Bytes(5e6) } else { Peak::AtMost(2e6) },
            minor_faults: 1,
            major_faults: 0,
            left: 0,
        };
        let round = |number| Round {
            number,
            phase: Phase::Measured,
            turns: vec![turn(0, 0.5 + f64::from(number) * 0.01), turn(1, 0.25)],
        };
        let compared = |text: &str, level: &str| Compared {
            text: text.into(),
            parameters: [("level".to_owned(), level.to_owned())].into(),
        };
        let comparison = Comparison {
            commands: vec![compared("gzip, | \"x\"", "1"), compared("=zstd", "a,b")],
            reference: 0,
            rules: Rules { rope_ratio: 0.01, alpha: 0.05, seed: 1, gates: Vec::new() },
            rounds_planned: 8,
            settings: [].into(),
            rounds: (1..=8).map(round).collect(),
        };
        let results = commands(&comparison, None);
        (comparison, results)
    }

    #[test]
    fn the_json_has_every_time_and_a_bound_of_memory_is_null() {
        let (comparison, results) = sample();
        let document = hyperfine_json(&comparison, &results);
        let first = &document["results"][0];
        assert_eq!(first["times"].as_array().unwrap().len(), 8);
        assert!((first["mean"].as_f64().unwrap() - 0.545).abs() < 1e-12, "{first}");
        assert_eq!(first["memory_usage_byte"][0], 5e6);
        let second = &document["results"][1];
        assert_eq!((&second["memory_usage_byte"][0], &second["exit_codes"][0]), (&Value::Null, &json!(1)));
        assert_eq!(second["parameters"]["level"], "a,b");
    }

    #[test]
    fn tables_survive_commands_with_separators() {
        let (comparison, results) = sample();
        let mut table = Vec::new();
        csv(&mut table, &comparison, &results).unwrap();
        let table = String::from_utf8(table).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[0], "command,mean,stddev,median,user,system,min,max,parameter_level");
        assert!(lines[1].starts_with("\"gzip, | \"\"x\"\"\",0.545"), "{}", lines[1]);
        // A spreadsheet must not read a command as a formula.
        assert!(lines[2].starts_with("'=zstd,") && lines[2].ends_with(",\"a,b\""), "{}", lines[2]);
        let table = markdown(&comparison, &results);
        let mut rows = table.lines().filter(|line| !line.starts_with("|:"));
        assert!(rows.all(|line| line.matches(" | ").count() == 5), "{table}");
        // B failed in every round.
        assert!(table.contains("B failed in 8 of 8 rounds and A in 0"), "{table}");
    }
}
