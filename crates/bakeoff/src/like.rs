//! `bakeoff load --like LINE`: replaces the command line of another tool by ours before it is parsed.
//!
//! The translated words stand in the place of `load --like LINE`. Options and a target that the user wrote
//! beside `--like` replace the translated ones of the same name.

use std::ffi::OsString;
use std::io::{Read as _, Write};

use clap::CommandFactory as _;
use plan::like::{self, Remark, RemarkKind, Translation, Word};
use record::printable::printable_lines;
use record::target::mask_text;
use serde_json::json;

use crate::cli::{Cli, is_given};
use crate::exit::{EndsWith as _, Exit};
use crate::{script_options, text_file};

/// Longest text of command lines that is read from standard input.
const LINES_BYTES_MAX: u64 = 8 << 20;

/// Command line after the replacement of `--like`.
#[derive(Debug)]
pub(crate) enum Arguments {
    /// Words to parse and run.
    Words(Vec<OsString>),
    /// Translations to print, and no command to run.
    Printed(Exit),
}

/// The parts of a command line with `--like`.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    line: String,
    is_dry_run: bool,
    is_json: bool,
    /// Words before `load`, and words after it without `--like` and `--dry-run`.
    before: Vec<String>,
    beside: Vec<String>,
}

/// Replaces `--like LINE` in a command line; prints the translation and its remarks.
///
/// # Errors
///
/// A line that cannot be translated, or not as a whole.
pub(crate) fn expanded(words: Vec<OsString>, out: &mut dyn Write) -> anyhow::Result<Arguments> {
    let texts: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some(asked) = asked(&texts) else { return Ok(Arguments::Words(words)) };
    if asked.line == "-" {
        return Ok(Arguments::Printed(print_lines(out)?));
    }
    let translation = like::translate(&asked.line).map_err(|error| hidden(&error)).ends_with(Exit::Usage)?;
    if asked.is_dry_run {
        if asked.is_json {
            crate::cmd::print_json(out, &document(&asked.line, &translation))?;
        } else {
            writeln!(out, "{}", translation.typed())?;
        }
        out.flush()?;
        tell(&translation, "bakeoff load: ");
        return Ok(Arguments::Printed(exit_of(&translation)));
    }
    tell(&translation, "bakeoff load: ");
    let said = format!("bakeoff load: like {}: {}", translation.tool, translation.shown());
    print_error(&said);
    if !translation.is_whole() {
        return Err(Exit::Usage.with(
            "not run: the translation lacks the missing parts; print it with --dry-run and complete it",
        ));
    }
    let merged = merged(&asked, &translation)?;
    Ok(Arguments::Words(merged.into_iter().map(OsString::from).collect()))
}

fn exit_of(translation: &Translation) -> Exit {
    if translation.is_whole() { Exit::Good } else { Exit::Usage }
}

/// Finds `load ... --like LINE`; `None` for any other command line.
fn asked(words: &[String]) -> Option<Asked> {
    let mut load = 1;
    // Options of every command may stand before it.
    while let Some(word) = words.get(load).filter(|word| word.starts_with("--")) {
        load += if word == "--archive" { 2 } else { 1 };
    }
    words.get(load).filter(|word| *word == "load")?;
    let (before, rest) = (words[..load].to_vec(), &words[load + 1..]);
    let mut line = None;
    let (mut is_dry_run, mut beside) = (false, Vec::new());
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        if word == "--like" {
            // Without a line, clap reports the missing value.
            line = Some(rest.next()?.clone());
        } else if let Some(text) = word.strip_prefix("--like=") {
            line = Some(text.to_owned());
        } else if word == "--dry-run" {
            is_dry_run = true;
        } else {
            beside.push(word.clone());
        }
    }
    let is_json = before.iter().chain(&beside).any(|word| word == "--json");
    Some(Asked { line: line?, is_dry_run, is_json, before, beside })
}

/// The translated words, without those that the user replaced, and the user's words after them.
fn merged(asked: &Asked, translation: &Translation) -> anyhow::Result<Vec<String>> {
    let mut command = Cli::command().ignore_errors(true);
    let verb = translation.words.first().map(text_of).transpose()?.unwrap_or_default();
    // The options of a script are not ours, and would end the reading.
    let beside = match script_of(translation) {
        Some(file) => script_options::without(&asked.beside, file),
        None => asked.beside.clone(),
    };
    let given: Vec<String> = asked.before.iter().cloned().chain([verb.clone()]).chain(beside).collect();
    let matches = command.try_get_matches_from_mut(given).ok();
    let matches = matches.as_ref().and_then(|matches| matches.subcommand()).map(|(_, matches)| matches);
    let subcommand = command.find_subcommand(&verb);
    let has = |name: &str| subcommand.zip(matches).is_some_and(|(c, m)| is_given(c, m, name));
    let has_target = matches.is_some_and(|m| m.try_get_one::<String>("target").is_ok_and(|t| t.is_some()));
    let mut words = asked.before.clone();
    let mut translated = translation.words.iter();
    while let Some(word) = translated.next() {
        let text = text_of(word)?;
        let option = text.strip_prefix("--").filter(|_| matches!(word, Word::Plain(_)));
        let is_replaced = option.map_or(has_target && matches!(word, Word::Target(_)), has);
        // A value may begin as an option does.
        let has_value = option.zip(subcommand).is_some_and(|(name, command)| takes_value(command, name));
        let value = if has_value { translated.next() } else { None };
        if !is_replaced {
            words.push(text);
            words.extend(value.map(text_of).transpose()?);
        }
    }
    words.extend(asked.beside.iter().cloned());
    Ok(words)
}

/// The script in Lua that a translation runs.
fn script_of(translation: &Translation) -> Option<&str> {
    let mut words = translation.words.iter();
    words.find(|word| matches!(word, Word::Plain(text) if text == "--script"))?;
    match words.next()? {
        Word::Plain(file) => Some(file),
        _ => None,
    }
}

/// Whether the option has a value in the next word.
fn takes_value(command: &clap::Command, name: &str) -> bool {
    let argument = command.get_arguments().find(|a| a.get_long() == Some(name));
    argument.is_some_and(|a| a.get_action().takes_values())
}

/// Text of a word; of a file, its contents, in which `${` has no meaning.
fn text_of(word: &Word) -> anyhow::Result<String> {
    match word {
        Word::Plain(text) | Word::Target(text) | Word::Header(text) => Ok(text.clone()),
        Word::File(path) => {
            let text = text_file::read(path, text_file::DOCUMENT_BYTES_MAX);
            let text = text.map_err(|e| Exit::Usage.with(format!("cannot read {}: {e}", path.display())))?;
            Ok(text.replace("${", "$${"))
        }
    }
}

/// Translates every line of standard input. A line that ends with a backslash includes the next one; empty
/// lines and comments are skipped.
fn print_lines(out: &mut dyn Write) -> anyhow::Result<Exit> {
    let mut text = String::new();
    let read = std::io::stdin().lock().take(LINES_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|e| Exit::Usage.with(format!("cannot read command lines from standard input: {e}")))?;
    if text.len() as u64 > LINES_BYTES_MAX {
        return Err(Exit::Usage.with("more than 8 MiB of command lines"));
    }
    let mut exit = Exit::Good;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut line = line.to_owned();
        while line.ends_with('\\') {
            let Some((_, next)) = lines.next() else { break };
            line.extend(["\n", next]);
        }
        if line.trim().is_empty() || line.trim_start().starts_with("# ") {
            continue;
        }
        let place = format!("{}: ", index + 1);
        match like::translate(&line) {
            Ok(translation) => {
                writeln!(out, "{}", translation.typed())?;
                tell(&translation, &place);
                if !translation.is_whole() {
                    exit = Exit::Usage;
                }
            }
            Err(error) => {
                // The output has a line for each command line.
                writeln!(out, "#")?;
                print_error(&format!("{place}{}", hidden(&error)));
                exit = Exit::Usage;
            }
        }
    }
    out.flush()?;
    Ok(exit)
}

/// Prints the remarks of a translation, each on a line of standard error; the parts that are left out without
/// an explanation share one.
fn tell(translation: &Translation, before: &str) {
    let of = |kind: RemarkKind| translation.remarks.iter().filter(move |remark| remark.kind == kind);
    for Remark { part, text, .. } in of(RemarkKind::Missing) {
        let text = if text.is_empty() { "no equivalent" } else { text };
        print_error(&format!("{before}missing: {part}: {text}"));
    }
    for Remark { part, text, .. } in of(RemarkKind::Differs) {
        print_error(&format!("{before}differs: {part}: {text}"));
    }
    for Remark { part, text, .. } in of(RemarkKind::LeftOut).filter(|remark| !remark.text.is_empty()) {
        print_error(&format!("{before}left out: {part}: {text}"));
    }
    let plain = of(RemarkKind::LeftOut).filter(|remark| remark.text.is_empty());
    let plain: Vec<&str> = plain.map(|remark| remark.part.as_str()).collect();
    if !plain.is_empty() {
        print_error(&format!("{before}left out, without effect on the load: {}", plain.join(", ")));
    }
}

/// Prints a line to standard error, passwords masked. If it is closed, the line is lost.
fn print_error(line: &str) {
    let _ = writeln!(std::io::stderr(), "{}", printable_lines(&mask_text(line)));
}

/// An error, passwords masked.
fn hidden(error: &like::LikeError) -> String {
    mask_text(&error.to_string())
}

fn document(line: &str, translation: &Translation) -> serde_json::Value {
    let of = |kind: RemarkKind| -> Vec<serde_json::Value> {
        let remarks = translation.remarks.iter().filter(|remark| remark.kind == kind);
        remarks.map(|remark| json!({ "part": mask_text(&remark.part), "text": remark.text })).collect()
    };
    json!({
        "schema": "bakeoff.like/1", "tool": translation.tool, "like": mask_text(line),
        "line": translation.shown(), "whole": translation.is_whole(),
        "missing": of(RemarkKind::Missing), "differs": of(RemarkKind::Differs), "left_out": of(RemarkKind::LeftOut),
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Command lines of documentation and issues, each after a line with its source.
    const LINES: &str = include_str!("../../plan/testdata/like/lines.txt");

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    fn merged_with(line: &str, beside: &str) -> String {
        let asked = Asked {
            line: line.to_owned(),
            is_dry_run: false,
            is_json: false,
            before: words("bakeoff"),
            beside: if beside.is_empty() { Vec::new() } else { words(beside) },
        };
        merged(&asked, &like::translate(line).unwrap()).unwrap().join("|")
    }

    #[test]
    fn a_line_is_found_wherever_it_stands() {
        for given in ["bakeoff|load|--like|wrk x|--time|5s", "bakeoff|load|--time|5s|--like=wrk x"] {
            let asked = asked(&words(given)).unwrap();
            assert_eq!(
                (asked.line.as_str(), asked.beside.join("|").as_str()),
                ("wrk x", "--time|5s"),
                "{given}"
            );
        }
        let global = asked(&words("bakeoff|--json|--archive|load|load|--like=wrk x|--dry-run")).unwrap();
        assert_eq!(global.before, words("bakeoff|--json|--archive|load"));
        assert!(global.is_json && global.is_dry_run && global.beside.is_empty());
        for other in [
            "bakeoff|load|null:",
            "bakeoff|load|--like",
            "bakeoff|run|--like|x",
            "bakeoff|record|--|tool|load|--like|x",
            "bakeoff",
        ] {
            assert_eq!(asked(&words(other)), None, "{other}");
        }
    }

    #[cfg(feature = "lua")]
    #[test]
    fn words_after_an_option_of_a_script_replace_too() {
        if !Path::new("/usr/share/sysbench/select_random_points.lua").exists() {
            println!("skipped: sysbench is not installed");
            return;
        }
        let line = "sysbench select_random_points --threads=4 --table-size=100 run";
        let merged = merged_with(line, "--table-size|5000|--threads|8");
        assert!(merged.matches("--threads|").count() == 1 && merged.contains("--threads|8"), "{merged}");
    }

    #[test]
    fn words_beside_a_line_replace_the_translated_ones() {
        let line = "wrk -t2 -c4 -d30s http://h/";
        assert_eq!(
            merged_with(line, ""),
            "bakeoff|load|http://h/|--connections|4|--threads|2|--retry|0|--time|30s"
        );
        assert_eq!(
            merged_with(line, "http://other/|--time|5s|--rate=10"),
            "bakeoff|load|--connections|4|--threads|2|--retry|0|http://other/|--time|5s|--rate=10"
        );
        assert_eq!(
            merged_with("hey -m POST -d 'a b' http://h/", "--body|x|--header|A: b|--timeout=1s|--method|PUT"),
            "bakeoff|load|http://h/|--connections|50|--retry|0|--events|200|--warmup|0s|--body|x|--header|A: b|--timeout=1s|--method|PUT"
        );
    }

    #[test]
    fn a_value_may_begin_as_an_option_does() {
        for (line, beside, value) in [
            ("hey -m POST -d '--b1' http://h/", "", "|--body|--b1|"),
            ("hey -m POST -d '--b1' http://h/", "--time|5s", "|--body|--b1|"),
            // The value has the name of an option that is replaced.
            ("hey -m POST -d '--time' http://h/", "--time|5s", "|--body|--time|"),
            ("memtier_benchmark --command '--x'", "", "|--command|--x@1|"),
        ] {
            let merged = format!("{}|", merged_with(line, beside));
            assert!(merged.contains(value), "{line}: {merged}");
            let words = merged.split('|').filter(|word| !word.is_empty()).map(OsString::from);
            let read = Cli::read_from(&words.collect::<Vec<_>>());
            assert!(read.is_ok(), "{merged}: {:?}", read.err());
        }
        let merged = merged_with("hey -m POST -d '--b1' http://h/", "--body|x");
        assert!(merged.ends_with("|--body|x") && !merged.contains("--b1"), "{merged}");
    }

    #[test]
    fn every_translated_line_is_one_that_load_accepts() {
        let mut accepted = 0;
        let entries = LINES.split("\n\n").filter_map(|entry| entry.trim_matches('\n').split_once('\n'));
        for (_, line) in entries {
            let Ok(translation) = like::translate(line) else { continue };
            let reads_a_file = |word: &Word| matches!(word, Word::File(_));
            let mut words = vec!["bakeoff".to_owned()];
            for word in &translation.words {
                words.push(if reads_a_file(word) { "body".to_owned() } else { text_of(word).unwrap() });
            }
            // Scripts in Lua declare options. Those of sysbench are here if it is installed.
            let is_absent = |word: &String| word.contains(".lua") && !Path::new(word).exists();
            if words.iter().any(is_absent) {
                continue;
            }
            for word in &mut words {
                if word.contains(".sql") {
                    *word = "builtin-select-only".to_owned();
                }
            }
            if translation.is_whole() {
                let words: Vec<OsString> = words.into_iter().map(OsString::from).collect();
                let read = Cli::read_from(&words);
                assert!(read.is_ok(), "{line}\n{words:?}\n{:?}", read.err());
                accepted += 1;
            }
        }
        assert!(accepted >= 35, "{accepted}");
    }
}
