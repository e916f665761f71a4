//! Attacks of another user on root's load: a database, a link, a module or a socket that root did not create.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod lab;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{PermissionsExt as _, lchown, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use lab::{Ended, Lab};
use nix::libc;

/// Number of the attacker, and of its group.
const NOBODY: u32 = 65_534;

/// A lab with a folder that others can enter; `None`: this process is not root, and cannot be another user.
#[expect(clippy::print_stderr, reason = "the output of a test")]
fn lab() -> Option<Lab> {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: only root can be another user too");
        return None;
    }
    let lab = Lab::new();
    set_mode(&lab.path("."), 0o711);
    Some(lab)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Gives a file, a folder or a link itself to the attacker.
fn give(path: &Path) {
    lchown(path, Some(NOBODY), Some(NOBODY)).unwrap();
}

fn folder(path: PathBuf) -> PathBuf {
    fs::create_dir_all(&path).unwrap();
    set_mode(&path, 0o755);
    path
}

fn load_of(lab: &Lab, target: &str) -> Ended {
    lab.run(&["load", target, "--rows", "1000", "--time", "200ms", "--warmup", "0", "--observe", "none"])
}

fn sqlite(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

#[test]
fn root_writes_no_file_through_another_users_link_to_a_database() {
    let Some(lab) = lab() else { return };
    let (nob, own) = (folder(lab.path("nob")), folder(lab.path("own")));
    give(&nob);
    // SQLite takes an empty file for a new database, and creates a missing one.
    let (empty, missing) = (own.join("empty"), own.join("missing"));
    fs::write(&empty, "").unwrap();
    for (owner, victim) in [(NOBODY, &empty), (NOBODY, &missing), (0, &empty), (0, &missing)] {
        for ending in ["", "-journal", "-wal"] {
            let link = nob.join(format!("b.db{ending}"));
            symlink(victim, &link).unwrap();
            lchown(&link, Some(owner), Some(owner)).unwrap();
            if owner == NOBODY || ending.is_empty() {
                let ended = load_of(&lab, &sqlite(&nob.join("b.db")));
                assert_ne!(ended.code, Some(0), "{owner} {ending}: {}", ended.out);
                let says = if owner == 0 { "other users can write" } else { "belongs to another user" };
                assert!(ended.err.contains(says), "{owner} {ending}: {}", ended.err);
            }
            fs::remove_file(&link).unwrap();
            assert_eq!(fs::metadata(&empty).unwrap().len(), 0);
            assert!(!missing.exists());
        }
    }
    // Control: a user's own link in a folder that no other user can write, to a file that is missing.
    for (name, target) in [("absolute", own.join("one.db")), ("relative", PathBuf::from("two.db"))] {
        symlink(&target, own.join(name)).unwrap();
        let ended = load_of(&lab, &sqlite(&own.join(name)));
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(own.join(name).is_symlink() && fs::metadata(own.join(&target)).unwrap().len() > 0);
    }
    // Control: a link in the way to the database.
    symlink(&own, lab.path("way")).unwrap();
    let ended = load_of(&lab, &sqlite(&lab.path("way/one.db")));
    assert_eq!(ended.code, Some(0), "{}", ended.err);
}

#[test]
fn root_opens_no_database_of_another_user() {
    let Some(lab) = lab() else { return };
    let database = lab.path("b.db");
    assert_eq!(load_of(&lab, &sqlite(&database)).code, Some(0));
    give(&database);
    let before = fs::read(&database).unwrap();
    let ended = load_of(&lab, &sqlite(&database));
    assert_ne!(ended.code, Some(0));
    assert!(ended.err.contains("belongs to another user (user id 65534)"), "{}", ended.err);
    assert!(fs::read(&database).unwrap() == before);
}

/// Runs, in `/`, a script that requires `module`; returns whether the module's text ran.
#[cfg(feature = "lua")]
fn is_run(lab: &Lab, script: &Path, module: &str, home: &Path) -> (bool, String) {
    let mark = lab.path("mark");
    fs::write(script, format!("local is_well, why = pcall(require, '{module}') print(why)")).unwrap();
    let mut command = lab.command(&["script", script.to_str().unwrap(), "null:"]);
    command.current_dir("/").env("HOME", home).env("MARK", &mark).env_remove("LUA_PATH");
    let ended = Ended::of(command.output().unwrap());
    assert_eq!(ended.code, Some(0), "{}", ended.err);
    (fs::remove_file(&mark).is_ok(), ended.out + &ended.err)
}

/// Writes a module that leaves a mark if it runs.
#[cfg(feature = "lua")]
fn module(path: &Path) {
    folder(path.parent().unwrap().to_owned());
    fs::write(path, "io.open(os.getenv('MARK'), 'w'):close()").unwrap();
    set_mode(path, 0o644);
}

#[cfg(feature = "lua")]
#[test]
fn root_runs_no_module_of_another_user_beside_a_script() {
    let Some(lab) = lab() else { return };
    let (own, home) = (folder(lab.path("own")), folder(lab.path("home")));
    let script = own.join("s.lua");
    for name in ["good", "sub.good", "evil", "open", "theirs.evil", "wide.evil", "theirs.deep.evil"] {
        module(&own.join(name.replace('.', "/") + ".lua"));
    }
    give(&own.join("evil.lua"));
    set_mode(&own.join("open.lua"), 0o666);
    give(&own.join("theirs"));
    set_mode(&own.join("wide"), 0o777);
    for (name, expected) in [
        ("good", true),
        ("sub.good", true),
        ("evil", false),
        ("open", false),
        ("theirs.evil", false),
        ("wide.evil", false),
        ("theirs.deep.evil", false),
    ] {
        let (has_run, said) = is_run(&lab, &script, name, &home);
        assert_eq!(has_run, expected, "{name}: {said}");
        assert!(expected || said.contains("another user can change it"), "{name}: {said}");
    }
    // The owner of the script decides what it does.
    let theirs = own.join("theirs/s.lua");
    fs::write(&theirs, "").unwrap();
    give(&theirs);
    give(&own.join("theirs/evil.lua"));
    assert!(is_run(&lab, &theirs, "evil", &home).0);
}

#[cfg(feature = "lua")]
#[test]
fn root_runs_no_module_in_a_home_of_another_user() {
    let Some(lab) = lab() else { return };
    let script = folder(lab.path("own")).join("s.lua");
    let below = ".luarocks/share/lua/5.1/evil.lua";
    for (given, mode) in [
        (None, 0o755),
        (Some(""), 0o755),
        (Some(".luarocks"), 0o755),
        (Some(".luarocks/share/lua/5.1"), 0o755),
        (Some(below), 0o644),
        (None, 0o777),
    ] {
        let home = folder(lab.path("home"));
        module(&home.join(below));
        set_mode(&home, 0o755);
        if let Some(given) = given {
            give(&home.join(given));
        }
        if mode == 0o777 {
            set_mode(&home.join(".luarocks/share"), mode);
        }
        let (has_run, said) = is_run(&lab, &script, "evil", &home);
        assert_eq!(has_run, given.is_none() && mode != 0o777, "{given:?} {mode:o}: {said}");
        // The file is not a library. If the loader of native modules opens it, the loader reports that.
        let native = home.join(".luarocks/lib/lua/5.1/native.so");
        folder(native.parent().unwrap().to_owned());
        fs::write(&native, "no library").unwrap();
        let is_opened = |said: &str| said.contains("native.so':\n\t");
        let (_, said) = is_run(&lab, &script, "native", &home);
        let is_home_theirs = matches!(given, Some("" | ".luarocks"));
        assert_eq!(is_opened(&said), !is_home_theirs, "{given:?} {mode:o}: {said}");
        for place in [".luarocks/lib", ".luarocks/lib/lua/5.1/native.so"] {
            give(&home.join(place));
            let (_, said) = is_run(&lab, &script, "native.below", &home);
            assert!(!is_opened(&said), "{place}: {said}");
            let (_, said) = is_run(&lab, &script, "native", &home);
            assert!(!is_opened(&said), "{place}: {said}");
            lchown(home.join(place), Some(0), Some(0)).unwrap();
        }
        fs::remove_dir_all(&home).unwrap();
    }
}

/// Listens at a socket as another user, and answers each connection; returns all that it has received.
fn listens_as_another(path: &Path) -> Arc<Mutex<Vec<u8>>> {
    let (path, heard) = (path.to_owned(), Arc::new(Mutex::new(Vec::new())));
    let all = Arc::clone(&heard);
    let (ready, is_ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // SAFETY: two system calls with integer arguments, which change this thread only, because they bypass
        // the C library.
        let is_another = unsafe {
            libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY) == 0
                && libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY) == 0
        };
        assert!(is_another);
        let listener = UnixListener::bind(path).unwrap();
        ready.send(()).unwrap();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut room = [0; 4096];
            let bytes = stream.read(&mut room).unwrap_or(0);
            all.lock().unwrap().extend(&room[..bytes]);
            let _ = stream.write_all(b"-ERR no\r\n");
        }
    });
    is_ready.recv().unwrap();
    heard
}

#[test]
fn a_password_does_not_go_to_another_users_socket() {
    let Some(lab) = lab() else { return };
    let (shared, own) = (folder(lab.path("shared")), folder(lab.path("theirs")));
    set_mode(&shared, 0o1777);
    give(&own);
    for (place, is_private) in [(&shared, false), (&own, true)] {
        let path = place.join("socket");
        let heard = listens_as_another(&path);
        let at = path.display().to_string();
        let redis = format!("redis+unix:{at}?password=s3cret");
        let with_user = format!("redis+unix:{at}?user=u&password=s3cret");
        let http = ["http://h/", "--unix-socket", at.as_str(), "--header"];
        let cases = [
            vec![redis.as_str()],
            vec![with_user.as_str(), "--command", "PING"],
            vec!["http://u:s3cret@h/", "--unix-socket", at.as_str()],
            [&http[..], &["Authorization: Bearer s3cret"]].concat(),
            [&http[..], &["proxy-authorization:s3cret"]].concat(),
            [&http[..], &["Cookie: id=s3cret"]].concat(),
            [&http[..], &["X-Api-Key: s3cret"]].concat(),
        ];
        for words in cases {
            for connections in [&[][..], &["--connections", "4"]] {
                heard.lock().unwrap().clear();
                let ended = lab.run(
                    &[&["load"][..], &words, connections, &["--events", "1", "--observe", "none"]].concat(),
                );
                let heard = String::from_utf8_lossy(&heard.lock().unwrap()).into_owned();
                // `u:s3cret` in base64.
                let is_sent = heard.contains("s3cret") || heard.contains("dTpzM2NyZXQ=");
                assert_eq!(is_sent, is_private, "{words:?}: {heard}{}", ended.err);
                let is_refused = ended.err.contains("in a directory that no other user can write to");
                assert_eq!(is_refused, !is_private, "{words:?}: {}", ended.err);
            }
        }
        // Control: without a password, any server is asked.
        heard.lock().unwrap().clear();
        lab.run(&["load", "http://h/", "--unix-socket", &at, "--events", "1"]);
        assert!(String::from_utf8_lossy(&heard.lock().unwrap()).contains("Host: h"));
    }
}
