//! Files that the command of a scale run names: its programs and its input.
//!
//! A path does not identify content. Two runs of one command line are the same work only if its files have
//! the same content, on another machine and in a resumed run. Files that the command writes are left out:
//! they change while it runs once, before any round. Files that a program opens by itself, without a name on
//! the command line, are not found.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use plan::ScalePlan;
use record::environment::Environment;
use record::missing::Maybe;

use crate::fingerprint::{checksum, commands_of, find};

/// Prefix of the facts that hold the files; a number follows.
const FILE: &str = "scale.file.";
/// Maximum number of files that are compared.
const FILES_MAX: usize = 64;
/// Size above which a file is compared only by its size.
const HASHED_BYTES_MAX: u64 = 1 << 30;

/// Files and their state when they were found.
#[derive(Debug)]
pub(crate) struct Files(BTreeMap<PathBuf, Stamp>);

/// Device, inode, size, and seconds and nanoseconds of the last change.
type Stamp = (u64, u64, u64, i64, i64);

impl Files {
    /// Returns the files that the command of any copy names.
    pub(crate) fn named_by(plan: &ScalePlan) -> Self {
        let kinds = plan.kinds_of_work().clamp(1, u32::try_from(FILES_MAX).unwrap_or(u32::MAX));
        Self::of_commands((0..kinds).map(|copy| plan.command_of(copy)))
    }

    fn of_commands(commands: impl Iterator<Item = Vec<String>>) -> Self {
        let mut paths = BTreeSet::new();
        for words in commands {
            paths.extend(words.first().and_then(|program| find(program)));
            for word in words.iter().skip(1) {
                let is_text = word.contains(' ');
                paths.extend(commands_of(word).filter(|_| is_text).filter_map(find));
                paths.extend(parts(word).filter_map(file));
            }
        }
        let stamped = paths.into_iter().filter_map(|path| stamp(&path).map(|stamp| (path, stamp)));
        Self(stamped.take(FILES_MAX).collect())
    }

    /// Returns sizes and checksums of the files that have not changed since.
    pub(crate) fn facts(&self) -> BTreeMap<String, Maybe<String>> {
        let is_same = |(path, before): &(&PathBuf, &Stamp)| stamp(path).as_ref() == Some(*before);
        let content = |(path, stamp): (&PathBuf, &Stamp)| {
            let sum = if stamp.2 > HASHED_BYTES_MAX { None } else { checksum(path).ok() };
            let sum = sum.map_or("sha256 unknown".to_owned(), |sum| format!("sha256 {sum}"));
            format!("{} bytes, {sum}, {}", stamp.2, path.display())
        };
        let told = self.0.iter().filter(is_same).map(content);
        (1..).zip(told).map(|(number, text): (u32, _)| (format!("{FILE}{number:02}"), Ok(text))).collect()
    }
}

/// Returns a clause for each file that both runs know with different content.
pub(crate) fn differing(this: &Environment, that: &Environment) -> Vec<String> {
    let (this, that) = (by_path(this), by_path(that));
    let differs = |(path, here): (&&str, &&str)| {
        let there = that.get(path).filter(|there| *there != here)?;
        Some(format!("the file {path}: {here} here, {there} there"))
    };
    this.iter().filter_map(differs).collect()
}

/// Returns the content by path.
fn by_path(environment: &Environment) -> BTreeMap<&str, &str> {
    let names = environment.facts.keys().filter(|name| name.starts_with(FILE));
    let parsed = names.filter_map(|name| {
        let text = environment.fact(name)?;
        let after_size = text.find(", ")? + 2;
        let after_sum = after_size + text[after_size..].find(", ")?;
        Some((&text[after_sum + 2..], &text[..after_sum]))
    });
    parsed.collect()
}

/// Returns a word, its part after a `=` (`if=FILE`), and the words of a shell's text, without those that the
/// text writes to.
fn parts(word: &str) -> impl Iterator<Item = &str> {
    let separators = [' ', '\t', '\n', '|', '&', ';', '(', ')', '`', '"', '\'', '<'];
    let words = word.split(separators).flat_map(|part| part.split('>').take(1));
    let behind = words.clone().filter_map(|part| part.split_once('=').map(|(_, behind)| behind));
    std::iter::once(word).chain(words).chain(behind)
}

fn file(name: &str) -> Option<PathBuf> {
    if name.is_empty() {
        return None;
    }
    fs::canonicalize(name).ok().filter(|path| path.is_file())
}

fn stamp(path: &Path) -> Option<Stamp> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(words: &[&str]) -> Environment {
        environment(&Files::of_commands(std::iter::once(
            words.iter().map(|word| (*word).to_owned()).collect(),
        )))
    }

    fn environment(files: &Files) -> Environment {
        Environment { facts: files.facts(), ..Environment::default() }
    }

    fn paths(environment: &Environment) -> Vec<String> {
        by_path(environment).into_keys().map(str::to_owned).collect()
    }

    #[test]
    fn programs_and_what_they_read_are_found_in_words_and_in_texts_of_a_shell() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = fs::canonicalize(folder.path()).unwrap().join(name);
            fs::write(&path, name).unwrap();
            path.display().to_string()
        };
        let (a, b, out) = (path("a, b"), path("b"), path("out"));
        let program = |name: &str| find(name).unwrap().display().to_string();
        for (words, found) in [
            (vec!["cat".to_owned(), a.clone()], vec![program("cat"), a.clone()]),
            (
                vec!["dd".to_owned(), format!("if={b}"), "of=/dev/null".to_owned()],
                vec![program("dd"), b.clone()],
            ),
            (
                vec!["sh".to_owned(), "-c".to_owned(), format!("sort <{b} | gzip >{out}")],
                vec![program("sh"), program("sort"), program("gzip"), b.clone()],
            ),
            (vec!["sh".to_owned(), b.clone()], vec![program("sh"), b.clone()]),
        ] {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let found: BTreeSet<String> = found.into_iter().collect();
            assert_eq!(paths(&of(&words)).into_iter().collect::<BTreeSet<_>>(), found, "{words:?}");
        }
    }

    #[test]
    fn other_content_behind_the_same_name_differs_and_what_the_command_writes_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("big.log");
        let name = file.to_str().unwrap();
        fs::write(&file, "as it was").unwrap();
        let before = of(&["cat", name]);
        assert!(before.facts.values().any(|fact| fact.as_deref().unwrap().starts_with("9 bytes, sha256 ")));
        assert_eq!(differing(&before, &of(&["cat", name])), [""; 0]);
        fs::write(&file, "as it is!").unwrap();
        let found = differing(&before, &of(&["cat", name]));
        assert!(
            found.len() == 1 && found[0].contains(name) && found[0].contains("9 bytes, sha256"),
            "{found:?}"
        );
        // A file that is written after it was found.
        let files = Files::of_commands(std::iter::once(vec!["cat".to_owned(), name.to_owned()]));
        fs::write(&file, "as the command left it").unwrap();
        assert!(!paths(&environment(&files)).iter().any(|path| path.ends_with("big.log")));
    }
}
