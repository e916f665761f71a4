//! The cache of what was built.
//!
//! `KEY` is a file with the name of a folder beside it, which is random. The folder is complete before the
//! file has its name, and is not changed afterwards, so a command may have its path built in. For a user the
//! cache has mode 0700. Root's has 0711, because servers run as other accounts: these can neither list it nor
//! guess a name in it. Files of a build that ran as another account are copied: the account then owns none of
//! them. Root's own output has separate keys: root runs nothing that an account built.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{
    DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, symlink,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

use load::Stop;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::Mode;
use nix::unistd::{Whence, geteuid, lseek};

use crate::account::Account;
use crate::options::other_writer_on;
use crate::process::{Waited, wait_for};
use crate::step::StepFailure;
use crate::{random, scratch};

/// Folder of the cache in the user's cache folder.
const NAME: &str = "bakeoff/builds";

/// Size limit of the output of one build.
const OUTPUT_BYTES_MAX: u64 = 32 << 30;

/// Cache folder of root: that of its home is closed to the accounts of servers.
const OF_ROOT: &str = "/var/cache";

pub(super) struct Cache {
    folder: PathBuf,
    account: Option<Account>,
}

/// A folder that is being built.
pub(super) struct Place<'a> {
    cache: &'a Cache,
    name: String,
    path: PathBuf,
}

impl Cache {
    /// Opens the cache of this user, and creates it if needed.
    pub(super) fn open(account: Option<Account>) -> Result<Self, String> {
        let named = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let is_root = geteuid().is_root();
        let parent = named("XDG_CACHE_HOME")
            .or_else(|| if is_root { Some(OF_ROOT.into()) } else { Some(named("HOME")?.join(".cache")) });
        let parent = parent.ok_or("no cache folder: set HOME or XDG_CACHE_HOME")?;
        Self::at(parent.join(NAME), account)
    }

    fn at(folder: PathBuf, account: Option<Account>) -> Result<Self, String> {
        let failed = |e: io::Error| format!("the build cache {}: {e}", folder.display());
        let mode = if geteuid().is_root() { 0o711 } else { 0o700 };
        // A folder that this user creates in `/tmp` would be safe; one that is created first would not.
        let above = folder.ancestors().find(|above| fs::symlink_metadata(above).is_ok());
        above.map_or(Ok(()), own)?;
        fs::DirBuilder::new().recursive(true).mode(mode).create(&folder).map_err(failed)?;
        let found = fs::symlink_metadata(&folder).map_err(failed)?;
        if !found.is_dir() || found.uid() != geteuid().as_raw() {
            return Err(format!(
                "the build cache {} is a symbolic link or belongs to another user: set XDG_CACHE_HOME to another folder",
                folder.display()
            ));
        }
        own(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(mode)).map_err(failed)?;
        if let Some(account) = account
            && let Some(closed) = scratch::out_of_reach(&folder, account)
        {
            return Err(format!(
                "the server's user, {}, may not enter {}: set XDG_CACHE_HOME to a folder that all users may enter",
                account.uid,
                closed.display()
            ));
        }
        Ok(Self { folder, account })
    }

    /// Returns the folder of a content that was built before.
    pub(super) fn find(&self, key: &str) -> Option<PathBuf> {
        self.named_in(&self.file_of(key))
    }

    /// Returns the name of a key's file: an account's output has another than root's own.
    fn file_of(&self, key: &str) -> String {
        let is_of_root = self.account.is_none() && geteuid().is_root();
        format!("{key}{}", if is_of_root { ".root" } else { "" })
    }

    /// Returns the folder that a file names.
    fn named_in(&self, file: &str) -> Option<PathBuf> {
        let flags = OFlag::O_NOFOLLOW.bits();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(self.folder.join(file)).ok()?;
        let name = io::read_to_string(io::Read::take(file, 64)).ok()?;
        let path =
            Some(name.trim()).filter(|name| random::is_token(name)).map(|name| self.folder.join(name))?;
        let found = fs::symlink_metadata(&path).ok()?;
        (found.is_dir() && found.uid() == geteuid().as_raw()).then_some(path)
    }

    /// Waits until no other process builds. A request to stop after the trial ends the wait: no build runs.
    pub(super) fn lock(&self, at_most: Duration, stop: &Stop) -> Result<File, StepFailure> {
        let path = self.folder.join("lock");
        let open = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = open.map_err(|e| StepFailure::Failed(format!("{}: {e}", path.display())))?;
        let mut is_ours = false;
        let waited = wait_for(at_most, stop, || {
            is_ours = file.try_lock().is_ok();
            is_ours || stop.is_last_trial()
        });
        match waited {
            Waited::Done if is_ours => Ok(file),
            Waited::Done | Waited::Stopped => Err(StepFailure::Stopped),
            Waited::TimedOut => {
                Err(StepFailure::Failed(format!("another process holds {} for too long", path.display())))
            }
        }
    }

    /// Removes folders that no file names: their processes died. Only the holder of the lock may do so.
    pub(super) fn sweep(&self, _lock: &File) {
        let names = || fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let named: Vec<PathBuf> =
            names().filter_map(|entry| self.named_in(entry.file_name().to_str()?)).collect();
        for entry in names() {
            let name = entry.file_name();
            let is_ours = name.to_str().and_then(|name| name.split('.').next()).is_some_and(random::is_token);
            if is_ours && entry.file_type().is_ok_and(|kind| kind.is_dir()) && !named.contains(&entry.path())
            {
                // It stays if it cannot be removed; the next build tries again.
                let _ = scratch::remove_tree(&entry.path());
            }
        }
    }

    /// Creates a folder for the output of a build.
    pub(super) fn place(&self) -> Result<Place<'_>, String> {
        let name = random::token();
        let path = self.folder.join(&name);
        scratch::make_folder(&path, self.account).map_err(|e| format!("{}: {e}", path.display()))?;
        Ok(Place { cache: self, name, path })
    }
}

impl Place<'_> {
    pub(super) fn folder(&self) -> &Path {
        &self.path
    }

    /// Removes what a failed build left.
    pub(super) fn remove(self) {
        // It stays if it cannot be removed; the next build tries again.
        let _ = scratch::remove_tree(&self.path);
    }

    /// Gives the folder to later bake-offs, under a key. All processes of its account have ended.
    pub(super) fn publish(self, key: &str) -> Result<PathBuf, String> {
        self.publish_at_most(key, OUTPUT_BYTES_MAX)
    }

    fn publish_at_most(self, key: &str, bytes_max: u64) -> Result<PathBuf, String> {
        let new = self.cache.folder.join(format!("{}.key", self.name));
        if let Err(why) = self.keep(key, &new, bytes_max) {
            let text = format!("cannot keep what was built in {}: {why}", self.path.display());
            let _ = fs::remove_file(&new);
            self.remove();
            return Err(text);
        }
        Ok(self.path)
    }

    fn keep(&self, key: &str, new: &Path, bytes_max: u64) -> io::Result<()> {
        if geteuid().is_root() {
            let theirs = self.path.with_file_name(format!("{}.theirs", self.name));
            fs::rename(&self.path, &theirs)?;
            let copied = copy(&theirs, &self.path, self.cache.account, bytes_max);
            let _ = scratch::remove_tree(&theirs);
            copied?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(new)?;
        writeln!(file, "{}", self.name)?;
        file.sync_all()?;
        fs::rename(new, self.cache.folder.join(self.cache.file_of(key)))
    }
}

/// Refuses a folder that another user may change, or put another one in its place.
fn own(folder: &Path) -> Result<(), String> {
    other_writer_on(folder).map_or(Ok(()), |who| {
        Err(format!(
            "the build cache cannot be below {}, which another user can change ({who}): set XDG_CACHE_HOME to a \
             folder that only this user can change",
            folder.display()
        ))
    })
}

const FOLDER: OFlag = OFlag::O_DIRECTORY.union(OFlag::O_NOFOLLOW).union(OFlag::O_CLOEXEC);

/// Copies a folder that other accounts may read afterwards: files, folders and links, without owners, special
/// bits and times.
///
/// - `owner`: the account that built it. A file of another user, or one with a second name, is refused.
/// - `bytes_max`: size limit of the copy.
fn copy(from: &Path, to: &Path, owner: Option<Account>, mut bytes_max: u64) -> io::Result<()> {
    copy_open(&nix::fcntl::open(from, FOLDER, Mode::empty())?, (from, to), owner, &mut bytes_max)
}

/// Variant of [`copy`] with a folder that is held open; `shown` names it in messages.
///
/// - `left`: bytes that may still be copied. Each entry counts as one block.
fn copy_open(
    from: &OwnedFd,
    (shown, to): (&Path, &Path),
    owner: Option<Account>,
    left: &mut u64,
) -> io::Result<()> {
    fs::DirBuilder::new().mode(0o700).create(to)?;
    for entry in fs::read_dir(format!("/proc/self/fd/{}", from.as_raw_fd()))? {
        let entry = entry?;
        let name = entry.file_name();
        let (kind, shown, copy_of) = (entry.file_type()?, shown.join(&name), to.join(&name));
        let refused = |why: &str| {
            let what = format!("{} {why}", shown.display());
            Err(io::Error::new(io::ErrorKind::InvalidInput, what))
        };
        let too_large = || refused("makes the output larger than 32 GiB");
        let Some(rest) = left.checked_sub(BLOCK) else { return too_large() };
        *left = rest;
        if kind.is_symlink() {
            symlink(readlinkat(from, name.as_os_str())?, copy_of)?;
            continue;
        }
        if !kind.is_dir() && !kind.is_file() {
            return refused("is neither a file, a folder nor a link");
        }
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
        let mut source = File::from(openat(from, name.as_os_str(), flags, Mode::empty())?);
        let found = source.metadata()?;
        if owner.is_some_and(|owner| found.uid() != owner.uid.as_raw()) {
            return refused("does not belong to the account that built it");
        }
        if found.is_dir() {
            copy_open(&source.into(), (&shown, &copy_of), owner, left)?;
        } else if !found.is_file() {
            return refused("is neither a file, a folder nor a link");
        } else if owner.is_some() && found.nlink() != 1 {
            return refused("has a second name, a hard link: copy it in the command of the build");
        } else {
            let runs = found.permissions().mode() & 0o111 != 0;
            let mut target = OpenOptions::new().write(true).create_new(true).mode(0o600).open(copy_of)?;
            if !copy_data(&mut source, &mut target, found.len(), left)? {
                return too_large();
            }
            target.set_permissions(Permissions::from_mode(if runs { 0o755 } else { 0o644 }))?;
        }
    }
    fs::set_permissions(to, Permissions::from_mode(0o755))
}

/// Size of a block on disk.
const BLOCK: u64 = 4_096;

/// Copies the data of a file and leaves out its holes, which take no space. Returns `false` if the data are
/// more than `left`.
fn copy_data(source: &mut File, target: &mut File, length: u64, left: &mut u64) -> io::Result<bool> {
    let seek = |file: &File, to: u64, whence| match lseek(file, i64::try_from(to).unwrap_or(i64::MAX), whence)
    {
        Ok(at) => Ok(Some(at.unsigned_abs())),
        Err(Errno::ENXIO) => Ok(None),
        Err(why) => Err(io::Error::from(why)),
    };
    let mut at = 0;
    while let Some(begin) = seek(source, at, Whence::SeekData)?.filter(|begin| *begin < length) {
        let end = seek(source, begin, Whence::SeekHole)?.unwrap_or(length).min(length);
        let Some(rest) = left.checked_sub(end - begin) else { return Ok(false) };
        *left = rest;
        source.seek(io::SeekFrom::Start(begin))?;
        target.seek(io::SeekFrom::Start(begin))?;
        io::copy(&mut source.take(end - begin), target)?;
        at = end;
    }
    target.set_len(length)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: u64 = u64::MAX;

    #[test]
    fn a_copy_takes_no_more_space_than_the_output_and_no_more_than_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir(&from).unwrap();
        let mut sparse = File::create(from.join("sparse")).unwrap();
        for at in [0, 64 << 20, 200 << 20] {
            sparse.seek(io::SeekFrom::Start(at)).unwrap();
            sparse.write_all(b"data").unwrap();
        }
        sparse.set_len(256 << 20).unwrap();
        fs::write(from.join("empty"), "").unwrap();
        let to = folder.path().join("to");
        copy(&from, &to, None, 1 << 20).unwrap();
        let found = fs::metadata(to.join("sparse")).unwrap();
        assert_eq!(found.len(), 256 << 20);
        assert!(found.blocks() * 512 <= 1 << 20, "{} blocks", found.blocks());
        // In parts: other tests of this process hold its memory against that of a command.
        let (was, is) = (File::open(from.join("sparse")).unwrap(), File::open(to.join("sparse")).unwrap());
        let mut parts = [vec![0; 1 << 20], vec![1; 1 << 20]];
        for at in (0..256_u64).map(|part| part << 20) {
            std::os::unix::fs::FileExt::read_exact_at(&was, &mut parts[0], at).unwrap();
            std::os::unix::fs::FileExt::read_exact_at(&is, &mut parts[1], at).unwrap();
            assert!(parts[0] == parts[1], "at {at}");
        }
        assert_eq!(fs::read(to.join("empty")).unwrap(), b"");
        // More data, and more files, than the limit.
        fs::write(from.join("data"), vec![1; 2 << 20]).unwrap();
        let refused = |to: &str| copy(&from, &folder.path().join(to), None, 1 << 20).unwrap_err().to_string();
        assert!(refused("data").contains("larger than"), "{}", refused("data2"));
        fs::remove_file(from.join("data")).unwrap();
        for i in 0..256 {
            fs::write(from.join(i.to_string()), "").unwrap();
        }
        assert!(refused("files").contains("larger than"), "{}", refused("files2"));
    }

    #[test]
    fn root_output_that_cannot_be_kept_leaves_nothing() {
        if !geteuid().is_root() {
            println!("skipped: not root");
            return;
        }
        let (_folder, cache) = cache();
        let names = || fs::read_dir(&cache.folder).unwrap().count();
        let place = cache.place().unwrap();
        fs::write(place.folder().join("a"), vec![1; 1 << 20]).unwrap();
        place.publish_at_most("key", 1 << 19).unwrap_err();
        assert_eq!((names(), cache.find("key")), (0, None));
        let place = cache.place().unwrap();
        fs::write(place.folder().join("a"), "x").unwrap();
        nix::unistd::mkfifo(&place.folder().join("pipe"), Mode::S_IRWXU).unwrap();
        place.publish("key").unwrap_err();
        assert_eq!((names(), cache.find("key")), (0, None));
        // The key's file cannot get its name.
        fs::create_dir(cache.folder.join(cache.file_of("key"))).unwrap();
        let place = cache.place().unwrap();
        fs::write(place.folder().join("a"), "x").unwrap();
        place.publish("key").unwrap_err();
        assert_eq!(names(), 1);
    }

    fn cache() -> (tempfile::TempDir, Cache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join(NAME), None).unwrap();
        (folder, cache)
    }

    #[test]
    fn what_was_built_is_found_and_what_was_not_finished_is_swept() {
        let (_folder, cache) = cache();
        assert_eq!(cache.find("key"), None);
        let place = cache.place().unwrap();
        fs::write(place.folder().join("program"), "x").unwrap();
        let unfinished = cache.place().unwrap().path.clone();
        let path = place.path.clone();
        assert_eq!(cache.find("key"), None);
        assert_eq!(place.publish("key").unwrap(), path);
        let lock = cache.lock(Duration::from_secs(1), &Stop::new()).unwrap();
        cache.sweep(&lock);
        assert!(!unfinished.exists() && path.join("program").exists());
        assert_eq!(cache.find("key"), Some(path.clone()));
        // A second process waits, and stops when its user wants it to.
        let stop = Stop::new();
        stop.request();
        assert!(matches!(cache.lock(Duration::from_mins(1), &stop), Err(StepFailure::Stopped)));
        // A folder that was removed is not found.
        fs::remove_dir_all(&path).unwrap();
        assert_eq!(cache.find("key"), None);
    }

    #[test]
    fn a_key_names_only_a_folder_of_the_cache() {
        let (folder, cache) = cache();
        fs::write(cache.folder.join("up"), "../../..\n").unwrap();
        fs::write(folder.path().join("outside"), format!("{}\n", "a".repeat(32))).unwrap();
        symlink(folder.path().join("outside"), cache.folder.join("link")).unwrap();
        fs::create_dir(cache.folder.join("a".repeat(32))).unwrap();
        assert_eq!((cache.find("up"), cache.find("link")), (None, None));
    }

    #[test]
    fn a_copy_has_no_special_bits_and_follows_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("bin")).unwrap();
        fs::write(from.join("bin/program"), "x").unwrap();
        fs::set_permissions(from.join("bin/program"), Permissions::from_mode(0o6777)).unwrap();
        fs::write(from.join("text"), "y").unwrap();
        symlink("/etc/shadow", from.join("link")).unwrap();
        copy(&from, &to, None, ALL).unwrap();
        let mode = |path: &str| fs::symlink_metadata(to.join(path)).unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("bin/program"), mode("text"), mode("bin")), (0o755, 0o644, 0o755));
        assert_eq!(fs::read_link(to.join("link")).unwrap(), Path::new("/etc/shadow"));
        nix::unistd::mkfifo(&from.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(copy(&from, &folder.path().join("other"), None, ALL).is_err());
    }

    #[test]
    fn a_file_of_another_user_or_with_a_second_name_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let from = folder.path().join("from");
        fs::create_dir(&from).unwrap();
        fs::write(from.join("program"), "x").unwrap();
        let account = Account { uid: geteuid(), gid: nix::unistd::getegid() };
        let other = Account { uid: nix::unistd::Uid::from_raw(account.uid.as_raw() + 1), ..account };
        let outcome =
            |to: &str, of| copy(&from, &folder.path().join(to), Some(of), ALL).map_err(|e| e.to_string());
        assert_eq!(outcome("1", account), Ok(()));
        assert!(outcome("2", other).unwrap_err().contains("does not belong"));
        fs::hard_link(from.join("program"), folder.path().join("second")).unwrap();
        assert!(outcome("3", account).unwrap_err().contains("has a second name"));
    }

    /// Another user created the folder of that name first; nothing is built or read there.
    #[test]
    fn a_cache_in_a_folder_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let open = folder.path().join("open");
        fs::create_dir_all(open.join("bakeoff")).unwrap();
        for name in ["open", "open/bakeoff"] {
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o777)).unwrap();
            let refused = Cache::at(open.join(NAME), None).map(drop).unwrap_err();
            assert!(refused.contains("set XDG_CACHE_HOME"), "{refused}");
            assert!(!open.join(NAME).exists());
            fs::set_permissions(folder.path().join(name), Permissions::from_mode(0o755)).unwrap();
        }
        // As `/tmp`: the folder is safe from others, what is in it already is not.
        fs::set_permissions(&open, Permissions::from_mode(0o1777)).unwrap();
        fs::set_permissions(open.join("bakeoff"), Permissions::from_mode(0o777)).unwrap();
        Cache::at(open.join(NAME), None).map(drop).unwrap_err();
        // The control.
        fs::set_permissions(open.join("bakeoff"), Permissions::from_mode(0o755)).unwrap();
        Cache::at(open.join(NAME), None).map(drop).unwrap();
        // And a folder that others can change although its own is there.
        fs::set_permissions(open.join("bakeoff"), Permissions::from_mode(0o777)).unwrap();
        Cache::at(open.join(NAME), None).map(drop).unwrap_err();
    }

    #[test]
    fn root_runs_nothing_that_an_account_built() {
        let (_folder, cache) = cache();
        let place = cache.place().unwrap();
        fs::write(place.folder().join("program"), "x").unwrap();
        place.publish("key").unwrap();
        let account =
            Account { uid: nix::unistd::Uid::from_raw(61_200), gid: nix::unistd::Gid::from_raw(61_200) };
        let of_account = Cache { folder: cache.folder.clone(), account: Some(account) };
        assert!(cache.find("key").is_some());
        assert_eq!(of_account.find("key").is_none(), geteuid().is_root());
        // What the other kind built is not swept.
        of_account.sweep(&of_account.lock(Duration::from_secs(1), &Stop::new()).unwrap());
        assert!(cache.find("key").is_some());
    }
}
