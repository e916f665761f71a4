//! The style rules that a program can check, over every Rust file of the workspace.
//!
//! - A comment line is at most 110 columns wide.
//! - A comment avoids the words in [`BANNED`], each with its reason.
//! - The first line of a doc comment is a noun phrase or a verb in the third person: it does not begin with a
//!   word in [`CLAUSES`].
//! - A file has at most 600 lines, a function at most 70.

use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS_MAX: usize = 110;
const FILE_LINES_MAX: usize = 600;
const FUNCTION_LINES_MAX: usize = 70;

/// Words that comments avoid, and the reason.
const BANNED: [(&str, &str); 20] = [
    ("who", "a thing is not a person: name the actor"),
    ("whoever", "name the actor"),
    ("whom", "name the actor"),
    ("whose", "name the owner, or use `of`"),
    ("nobody", "write `nothing` or `no` and the actor"),
    ("somebody", "name the actor"),
    ("everybody", "name the actors"),
    ("anybody", "name the actor"),
    ("is none", "say what it is instead"),
    ("are none", "say what they are instead"),
    ("is told", "name what tells, or use `reports`, `knows`, `is notified`"),
    ("are told", "the same"),
    ("is said", "use `is printed`, `is reported`"),
    ("are said", "the same"),
    ("so that it", "use `so` or `to`"),
    ("of its own", "use `its own` or `separate`"),
    ("of their own", "use `their own` or `separate`"),
    ("in the mean", "use `on average`"),
    ("goes on with", "use `continues with`"),
    ("as it comes", "use `immediately`"),
];

/// Words that begin a clause instead of naming the thing.
const CLAUSES: [&str; 22] = [
    "what", "where", "who", "whose", "which", "why", "when", "how", "as", "of", "from", "by", "it", "its",
    "they", "their", "there", "those", "this", "that", "also", "no",
];

#[test]
fn the_text_of_the_code_keeps_to_the_rules() {
    let mut found = String::new();
    for file in files() {
        let text = fs::read_to_string(&file).expect("a source file is UTF-8");
        let place = file.strip_prefix(root()).unwrap_or(&file).display();
        found.extend(
            violations(&text, is_help(&file)).map(|(line, what)| format!("{place}:{line}: {what}\n")),
        );
    }
    assert!(found.is_empty(), "\n{found}");
}

#[test]
fn each_rule_finds_what_breaks_it() {
    let found = |text: &str| violations(text, false).map(|(_, what)| what).collect::<Vec<_>>().join("; ");
    assert_eq!(found("/// The rate.\nfn rate() {}\n"), "");
    assert!(found("// Nobody waits.\n").starts_with("`nobody`"), "{}", found("// Nobody waits.\n"));
    assert!(found("/// What it costs.\n").contains("begins with `what`"));
    assert_eq!(violations("/// How long each copy works.\n", true).count(), 0, "help of an option");
    assert_eq!(found("/// The cost:\n/// what it is.\n"), "", "only the first line names the thing");
    assert_eq!(found("//! What a page holds.\n"), "", "a module's text may ask a question");
    assert!(found(&format!("// {}\n", "x".repeat(COLUMNS_MAX))).contains("columns"));
    assert!(found(&"\n".repeat(FILE_LINES_MAX + 1)).contains("lines"));
    let long = format!("fn long() {{\n{}}}\n", "    call();\n".repeat(FUNCTION_LINES_MAX));
    assert!(found(&long).contains("function"), "{}", found(&long));
    assert_eq!(found("let s = \"nobody\"; // a word in a string\n"), "");
}

/// Whether doc comments of this file are help texts. Help of an option answers a question of a user: "how
/// long each copy works".
fn is_help(file: &Path) -> bool {
    file.components().any(|part| part.as_os_str() == "cmd")
}

/// The violations in a file: line number and what is wrong.
fn violations(text: &str, is_help: bool) -> impl Iterator<Item = (usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    if lines.len() > FILE_LINES_MAX {
        found.push((1, format!("{} lines; at most {FILE_LINES_MAX}", lines.len())));
    }
    let mut was_doc = false;
    for (index, line) in lines.iter().enumerate() {
        let trimmed = line.trim_start();
        let is_doc = trimmed.starts_with("///");
        if trimmed.starts_with("//") {
            let comment = trimmed.trim_start_matches(['/', '!']).trim();
            let columns = line.chars().count();
            if columns > COLUMNS_MAX && !comment.contains("http") && !comment.starts_with('|') {
                found.push((index + 1, format!("{columns} columns; at most {COLUMNS_MAX}")));
            }
            found.extend(banned(comment).map(|(word, why)| (index + 1, format!("`{word}`: {why}"))));
            if is_doc
                && !is_help
                && !was_doc
                && let Some(word) = clause(comment)
            {
                found.push((index + 1, format!("a doc comment begins with `{word}`: name the thing")));
            }
        }
        was_doc = is_doc || (was_doc && trimmed.starts_with("#["));
        if let Some(length) = function_length(&lines[index..])
            && length > FUNCTION_LINES_MAX
        {
            found.push((index + 1, format!("a function of {length} lines; at most {FUNCTION_LINES_MAX}")));
        }
    }
    found.into_iter()
}

fn banned(comment: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    // Code in a comment may have any name.
    let prose: String = comment.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let words: Vec<String> = prose
        .split(|c: char| !c.is_alphanumeric() && c != '\'')
        .map(str::to_lowercase)
        .filter(|w| !w.is_empty())
        .collect();
    let prose = format!(" {} ", words.join(" "));
    BANNED.into_iter().filter(move |(word, _)| prose.contains(&format!(" {word} ")))
}

fn clause(comment: &str) -> Option<&'static str> {
    let first = comment.split([' ', ',', ':', '.']).next()?.to_lowercase();
    CLAUSES.into_iter().find(|word| *word == first)
}

/// The length of the function that begins at the first line; `None` if none begins there.
fn function_length(lines: &[&str]) -> Option<usize> {
    let first = lines.first()?;
    let indent = first.len() - first.trim_start().len();
    let mut words = first.split_whitespace();
    words
        .find(|word| {
            !(word.starts_with("pub")
                || matches!(*word, "in" | "const" | "async" | "unsafe" | "extern" | "\"C\""))
                || *word == "fn"
        })
        .filter(|word| *word == "fn")?;
    if first.trim_end().ends_with([';', '}']) {
        return None;
    }
    let closing = format!("{}}}", " ".repeat(indent));
    let ends = |line: &&str| {
        **line == closing
            || (line.starts_with(&" ".repeat(indent))
                && line.trim_end().ends_with(';')
                && line.len() - line.trim_start().len() == indent)
    };
    lines.iter().position(ends).map(|end| end + 1)
}

/// Every Rust file of the workspace's crates except generated code.
fn files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in fs::read_dir(root().join("crates")).expect("the workspace has crates") {
        let folder = folder.expect("a folder can be listed");
        let mut open = vec![folder.path()];
        while let Some(path) = open.pop() {
            for entry in fs::read_dir(&path).expect("a folder can be listed") {
                let path = entry.expect("a folder can be listed").path();
                if path.is_dir() && !path.ends_with("target") {
                    open.push(path);
                } else if path.extension().is_some_and(|e| e == "rs") {
                    found.push(path);
                }
            }
        }
    }
    found.sort();
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the workspace is there")
}
