//! Builds what a plan compares: once for each content, before the first trial.
//!
//! The content is the commit's tree, the text of the command and the environment that the plan names. A cache
//! (`build/cache.rs`) keeps the output, so levels with the same content, a bake-off that is resumed, and the
//! next bake-off use the same files.

mod cache;
mod checkout;
mod git;
mod rights;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use archive::Journal;
use load::Stop;
use plan::{Build, Plan};
use record::bakeoff::Levels;
use record::environment::Environment;

use self::cache::Cache;
pub(crate) use self::rights::{check, commits, contents_again, repositories};
use crate::Event;
use crate::account::Account;
use crate::error::RunnerError;
use crate::step::{self, StepFailure};
use crate::workspace::{Inherit, Layout, Workspace};

/// Prefix of the facts that name what was built for a configuration.
const FACT: &str = "build.";

/// Name of the folder of the output in levels, which become variables: `$BAKEOFF_build`.
const VARIABLE: &str = "build";

/// Interval between two looks at a cache in which another process builds.
const LOOK: Duration = Duration::from_hours(1);

/// Content that a configuration is built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Content {
    levels: Levels,
    source: Option<Source>,
    /// Values of the variables that the plan names; those that are not set are absent.
    environment: Vec<(String, String)>,
    /// SHA-256 of all that the output depends on.
    key: String,
}

/// Files of one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Source {
    repository: PathBuf,
    commit: String,
    tree: String,
}

/// Returns the content of each configuration; empty if the plan builds nothing.
///
/// - `file`: the plan's own file; the repository's path is relative to its folder.
/// - `before`: facts of the bake-off if it is resumed: a branch may have moved since it began.
///
/// # Errors
///
/// The repository or the revision is not there, or a bake-off that is resumed would build something else.
pub(crate) fn contents(
    plan: &Plan,
    file: Option<&Path>,
    before: Option<&Environment>,
) -> Result<Vec<Content>, RunnerError> {
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for levels in plan.configurations() {
        // The key has the text as the plan's author wrote it: without secrets, and without names of folders.
        let Some(build) = plan.build(&levels, Path::new("{build}"), Path::new("{scratch}")) else { break };
        let failed = |reason| RunnerError::Revision { what: named(&levels), reason };
        let source = match &build.source {
            None => None,
            Some(path) => {
                let revision = before.and_then(|facts| commit_of(facts, &levels));
                let revision = revision.unwrap_or_else(|| build.revision.clone());
                Some(source(&folder.join(path), &revision).map_err(failed)?)
            }
        };
        let names = build.env.iter();
        let environment: Vec<(String, String)> =
            names.filter_map(|name| Some((name.clone(), std::env::var(name).ok()?))).collect();
        let key = key(&build, source.as_ref(), &environment);
        let content = Content { levels, source, environment, key };
        before.map_or(Ok(()), |before| same(&content, &build.env, before))?;
        found.push(content);
    }
    Ok(found)
}

/// Returns the user, other than this one and root, that may change a repository that the plan builds from.
pub(crate) fn stranger(plan: &Plan, file: Option<&Path>) -> Option<String> {
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    let builds = plan.configurations().into_iter();
    let builds =
        builds.filter_map(|levels| plan.build(&levels, Path::new("{build}"), Path::new("{scratch}")));
    let sources: BTreeSet<PathBuf> =
        builds.filter_map(|build| build.source).map(|path| folder.join(path)).collect();
    sources.iter().find_map(|path| checkout::other_writer_of(path))
}

fn source(repository: &Path, revision: &str) -> Result<Source, String> {
    // A relative path without a folder is empty.
    let repository = if repository.as_os_str().is_empty() { Path::new(".") } else { repository };
    let commit = checkout::id(repository, &format!("{revision}^{{commit}}"))?;
    let tree = checkout::id(repository, &format!("{commit}^{{tree}}"))?;
    Ok(Source { repository: repository.to_owned(), commit, tree })
}

/// Returns the checksum of what an output depends on. Each part has its length, so that no two lists of parts
/// have the same text.
fn key(build: &Build, source: Option<&Source>, environment: &[(String, String)]) -> String {
    let mut parts = vec!["1", std::env::consts::ARCH, &build.step.command];
    parts.push(source.map_or("", |source| &source.tree));
    parts.extend(environment.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]));
    let lines: Vec<String> = parts.iter().map(|part| format!("{} {part}\n", part.len())).collect();
    plan::sha256(&lines.concat())
}

/// Returns the facts about what is built for each configuration.
pub(crate) fn facts(contents: &[Content]) -> BTreeMap<String, record::missing::Maybe<String>> {
    let fact = |content: &Content| (format!("{FACT}{}", named(&content.levels)), Ok(text(content)));
    contents.iter().map(fact).collect()
}

fn text(content: &Content) -> String {
    let of = content.source.as_ref().map(|s| format!("commit {}, tree {}, ", s.commit, s.tree));
    format!("{}key {}", of.unwrap_or_default(), content.key)
}

/// Checks that a bake-off that is resumed builds what it began with: another build is another configuration.
fn same(content: &Content, names: &[String], before: &Environment) -> Result<(), RunnerError> {
    if fact(before, &content.levels) == Some(text(content).as_str()) {
        return Ok(());
    }
    let differs = if names.is_empty() {
        "the machine's architecture".to_owned()
    } else {
        format!("a value of `build.env` ({}), or the machine's architecture", names.join(", "))
    };
    Err(RunnerError::AnotherBuild { what: named(&content.levels), differs })
}

/// Returns the commit of a configuration from the facts of its bake-off.
fn commit_of(facts: &Environment, levels: &Levels) -> Option<String> {
    let commit = fact(facts, levels)?.strip_prefix("commit ")?.split(',').next()?;
    Some(commit.to_owned())
}

/// Returns what a configuration is built from, as text.
pub(crate) fn fact<'a>(facts: &'a Environment, levels: &Levels) -> Option<&'a str> {
    facts.fact(&format!("{FACT}{}", named(levels)))
}

fn named(levels: &Levels) -> String {
    let levels: Vec<String> = levels.iter().map(|(name, level)| format!("{name}={level}")).collect();
    if levels.is_empty() { "all configurations".to_owned() } else { levels.join(", ") }
}

/// Means to build.
pub(crate) struct Builder<'a> {
    /// The plan with its secrets.
    pub(crate) plan: &'a Plan,
    /// Account that the commands run as.
    pub(crate) account: Option<Account>,
    pub(crate) stop: &'a Stop,
    pub(crate) journal: &'a mut Journal,
    pub(crate) on_event: &'a mut dyn FnMut(&Event<'_>),
}

/// Builds what the cache does not have. Returns the folder of each configuration; `None` if the user stopped
/// it. A request to stop after the trial ends it after the build that runs: the cache keeps what was built.
pub(crate) fn all(
    builder: &mut Builder<'_>,
    contents: &[Content],
) -> Result<Option<Vec<(Levels, PathBuf)>>, RunnerError> {
    let Some(first) = contents.first() else { return Ok(Some(Vec::new())) };
    let failed = |content: &Content, reason| RunnerError::Build { what: named(&content.levels), reason };
    let cache = Cache::open(builder.account).map_err(|reason| failed(first, reason))?;
    let mut folders = Vec::new();
    for content in contents {
        let folder = match cache.find(&content.key) {
            Some(folder) => Ok(folder),
            None if builder.stop.is_last_trial() => return Ok(None),
            None => builder.cached(&cache, content),
        };
        match folder {
            Ok(folder) => folders.push((content.levels.clone(), folder)),
            Err(StepFailure::Stopped) => return Ok(None),
            Err(StepFailure::Failed(reason)) => return Err(failed(content, reason)),
        }
    }
    Ok(Some(folders))
}

impl Builder<'_> {
    /// Builds a content into the cache, unless another process has done so meanwhile.
    fn cached(&mut self, cache: &Cache, content: &Content) -> Result<PathBuf, StepFailure> {
        (self.on_event)(&Event::Note(&format!("building {}", named(&content.levels))));
        let lock = cache.lock(LOOK, self.stop)?;
        if let Some(folder) = cache.find(&content.key) {
            return Ok(folder);
        }
        cache.sweep(&lock);
        let place = cache.place().map_err(StepFailure::Failed)?;
        match self.build(content, place.folder()) {
            Ok(()) => place.publish(&content.key).map_err(StepFailure::Failed),
            Err(failure) => {
                place.remove();
                Err(failure)
            }
        }
    }

    /// Runs the command in a separate workspace.
    fn build(&mut self, content: &Content, folder: &Path) -> Result<(), StepFailure> {
        if self.stop.is_requested() {
            return Err(StepFailure::Stopped);
        }
        let layout = Layout::fresh(self.account);
        // A dead process's workspace is found by its name in the journal.
        self.journal.say(layout.step()).map_err(|error| StepFailure::Failed(error.to_string()))?;
        let variables = Levels::from([(VARIABLE.to_owned(), folder.display().to_string())]);
        let workspace = Workspace::open(layout, Inherit::Little, &variables);
        let mut workspace = workspace.map_err(|error| {
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            StepFailure::Failed(format!("{error}{}", cause.unwrap_or_default()))
        })?;
        workspace.add_variables(&content.environment);
        let outcome = self.in_workspace(content, folder, &workspace);
        // A process that survives could exchange files of the output while it is kept.
        let left = workspace.close();
        outcome?;
        if !left.is_empty() {
            return Err(StepFailure::Failed(format!("after the command: {}", left.join("; "))));
        }
        let is_empty = std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none());
        if is_empty {
            return Err(StepFailure::Failed(
                "the command succeeded, but wrote nothing to {build}".to_owned(),
            ));
        }
        Ok(())
    }

    fn in_workspace(
        &self,
        content: &Content,
        folder: &Path,
        workspace: &Workspace,
    ) -> Result<(), StepFailure> {
        let source = workspace.folder().join("source");
        let made = workspace.make_folder(&source);
        made.map_err(|e| StepFailure::Failed(format!("{}: {e}", source.display())))?;
        if let Some(of) = &content.source {
            // No process of the account runs yet, so nothing changes the folder meanwhile.
            checkout::files(&of.repository, &of.tree, &source, self.account).map_err(StepFailure::Failed)?;
        }
        let build = self.plan.build(&content.levels, folder, workspace.folder());
        let mut step = build.expect("a plan with contents builds them").step;
        step.command = format!("cd ./source || exit\n{}", step.command);
        step::run_before_servers("build", &step, workspace, self.stop)
    }
}

/// Returns the levels of a series with the folder of what was built for it.
pub(crate) fn with_folder(mut levels: Levels, plan: &Plan) -> Levels {
    if let Some(folder) = plan.built(&levels) {
        let folder = folder.to_owned();
        levels.insert(VARIABLE.to_owned(), folder);
    }
    levels
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(command: &str) -> Build {
        let step = plan::Step { command: command.into(), timeout: LOOK, retries: 0 };
        Build { step, source: None, revision: "HEAD".into(), env: Vec::new() }
    }

    #[test]
    fn a_key_follows_from_tree_command_and_environment_and_from_nothing_else() {
        let source = |commit: &str, tree: &str| Source {
            repository: commit.into(),
            commit: commit.into(),
            tree: tree.into(),
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let base = key(&build("make"), Some(&source("c1", "t1")), &[pair("CC", "gcc")]);
        // Another commit of the same files, in another folder.
        assert_eq!(key(&build("make"), Some(&source("c2", "t1")), &[pair("CC", "gcc")]), base);
        for other in [
            key(&build("make -j2"), Some(&source("c1", "t1")), &[pair("CC", "gcc")]),
            key(&build("make"), Some(&source("c1", "t2")), &[pair("CC", "gcc")]),
            key(&build("make"), Some(&source("c1", "t1")), &[pair("CC", "clang")]),
            key(&build("make"), Some(&source("c1", "t1")), &[]),
            key(&build("make"), None, &[pair("CC", "gcc")]),
            // A line break in a value is no border between parts.
            key(&build("make"), Some(&source("c1", "t1")), &[pair("CC", "gcc\n2 CX\n3 gcc")]),
        ] {
            assert_ne!(other, base);
        }
        let two = [pair("A", "b"), pair("C", "d")];
        assert_ne!(key(&build("x"), None, &two), key(&build("x"), None, &[pair("A", "b\n1 C\n1 d")]));
    }
}
