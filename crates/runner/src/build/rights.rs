//! Checks of a build that root runs: another user must not decide what root reads, or which commit it builds.

use std::fs;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use plan::Plan;
use record::bakeoff::{Bakeoff, Levels};
use record::printable::printable;

use super::{Content, checkout, commit_of, contents, named, stranger};
use crate::account::Account;
use crate::error::RunnerError;
use crate::options::{Options, approve};

/// Refuses a build of root that another user could change while root reads it.
///
/// - `account`: account that builds; `None`: that of this process.
///
/// # Errors
///
/// [`RunnerError::NotFit`] with the way out.
pub(crate) fn check(plan: &Plan, file: Option<&Path>, account: Option<Account>) -> Result<(), RunnerError> {
    if !plan.builds() || !geteuid().is_root() {
        return Ok(());
    }
    let refused = |problem| Err(RunnerError::NotFit { problems: vec![problem] });
    if let (Some(_), Some(user)) = (account, plan.server_user()) {
        return refused(format!(
            "root does not build for `server.user = \"{user}\"`: other processes of that user could exchange files \
             while root reads them; leave `server.user` out, or run bakeoff as {user}"
        ));
    }
    match stranger(plan, file) {
        Some(who) => refused(format!(
            "root does not build from a repository that another user can change ({who}): git runs its filters as \
             root; clone it as root into a folder that only root can change"
        )),
        None => Ok(()),
    }
}

/// Returns the contents of a bake-off that is resumed. If the archive names another commit than the plan does
/// now, root is asked first.
///
/// - `was_asked`: whether the user has agreed to the list of commands and commits.
///
/// # Errors
///
/// Those of [`check`] and [`contents`], or the user does not agree.
pub(crate) fn contents_again(
    plan: &Plan,
    file: Option<&Path>,
    account: Option<Account>,
    (bakeoff, was_asked, options): (&Bakeoff, bool, &Options),
) -> Result<Vec<Content>, RunnerError> {
    check(plan, file, account)?;
    if geteuid().is_root() && !was_asked {
        let moved = moved(plan, file, bakeoff);
        approve(bakeoff.header.id, moved, plan.text(), commits(plan, file, bakeoff), options.trust)?;
    }
    contents(plan, file, Some(&bakeoff.environment))
}

/// Returns a line for each configuration about the commit that is built for it, without control characters.
pub(crate) fn commits(plan: &Plan, file: Option<&Path>, bakeoff: &Bakeoff) -> Vec<String> {
    let line = |(levels, path, revision): (Levels, PathBuf, String)| {
        let commit = commit_of(&bakeoff.environment, &levels);
        let what = commit.map_or_else(|| format!("revision {revision}"), |commit| format!("commit {commit}"));
        let path = fs::canonicalize(&path).or_else(|_| std::path::absolute(&path)).unwrap_or(path);
        printable(&format!("build.source = {}, {what} ({})", path.display(), named(&levels))).to_string()
    };
    sources(plan, file).map(line).collect()
}

/// Returns the first difference between a commit in the archive and that of the plan's revision now.
fn moved(plan: &Plan, file: Option<&Path>, bakeoff: &Bakeoff) -> Option<String> {
    sources(plan, file).find_map(|(levels, path, revision)| {
        let before = commit_of(&bakeoff.environment, &levels)?;
        let now = checkout::id(&path, &format!("{revision}^{{commit}}")).ok();
        let is = now.as_deref().unwrap_or("not there");
        let text = format!("the archive: it names commit {before} where \"{revision}\" is {is} now");
        (now.as_ref() != Some(&before)).then(|| printable(&text).to_string())
    })
}

/// Returns the repositories that the plan builds from.
pub(crate) fn repositories(plan: &Plan, file: Option<&Path>) -> Vec<PathBuf> {
    sources(plan, file).map(|(_, path, _)| path).collect()
}

/// Returns levels, repository and revision of each configuration that has a repository.
fn sources<'a>(
    plan: &'a Plan,
    file: Option<&'a Path>,
) -> impl Iterator<Item = (Levels, PathBuf, String)> + 'a {
    let folder = file.and_then(Path::parent).unwrap_or(Path::new(""));
    plan.configurations().into_iter().filter_map(move |levels| {
        let build = plan.build(&levels, Path::new("{build}"), Path::new("{scratch}"))?;
        let path = folder.join(build.source?);
        let path = if path.as_os_str().is_empty() { PathBuf::from(".") } else { path };
        Some((levels, path, build.revision))
    })
}
