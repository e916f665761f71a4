//! Another user of this machine cannot affect a bake-off that root runs.
//!
//! Each test runs in a mount namespace with a separate /tmp; the attacker is `nobody`. Each ends with a
//! control: the same attack succeeds without the protection.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

use std::path::PathBuf;
use std::process::{Command, Output};

/// A server that reports readiness, and opens its socket and its folder to all users, as far as it can.
const PLAN: &str = r#"
schema = 1
title  = "Attacked"
[design]
blocks = 1
[load]
target = "null:"
rate   = 1000
[server]
command = "sh -c 'umask 0; id -u >{scratch}/user; echo precious >{scratch}/data; touch {scratch}/ready; exec sleep 1000'"
ready   = "test -e {scratch}/ready"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[values.looked_count]
run = "touch /tmp/open/look.$(id -u); until test -e /tmp/open/looked; do sleep 0.01; done; cat {scratch}/user"
"#;

/// Runs a script of a shell in a mount namespace with a separate /tmp, as root; `None` if this is not
/// possible here.
///
/// `$CONDUCT` conducts a bake-off, `as_nobody` runs a command as the attacker. `/tmp/open` is open to all.
fn attack(script: &str) -> Option<Output> {
    let can = nix::unistd::geteuid().is_root()
        && ["unshare", "setpriv", "mount"].iter().all(|tool| {
            Command::new("sh")
                .args(["-c", &format!("command -v {tool}")])
                .output()
                .is_ok_and(|o| o.status.success())
        })
        && Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|s| s.success());
    if !can {
        skip("not root, or no mount namespaces");
        return None;
    }
    let here = std::env::current_exe().expect("a test knows where it is");
    let conduct = here.ancestors().nth(2).expect("target/PROFILE/deps/test").join("examples/conduct");
    let outside = tempfile::tempdir().unwrap();
    let prelude = format!(
        r#"set -eu
        mount -t tmpfs -o mode=1777 tmpfs /tmp
        unset TMPDIR
        mkdir -m 0777 /tmp/open; chmod 0777 /tmp/open
        mkdir -m 0700 /tmp/root
        cat >/tmp/root/plan.toml <<'PLAN'
{PLAN}
PLAN
        cp {} /tmp/root/conduct
        CONDUCT=/tmp/root/conduct
        as_nobody() {{ setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }}
        "#,
        conduct.display(),
    );
    let output = Command::new("unshare")
        .args(["-m", "--propagation", "private", "sh", "-c", &format!("{prelude}\n{script}")])
        .current_dir(outside.path())
        .env("BAKEOFF_MACHINE_LOCK", "/tmp/root/lock")
        .output()
        .unwrap();
    Some(output)
}

/// Reports that a test does not run. A machine that tests changes as root has all that it needs: there, this
/// is a failure.
fn skip(why: &str) {
    let is_ci = std::env::var("CI").is_ok_and(|is| is == "true");
    assert!(!(is_ci && nix::unistd::geteuid().is_root()), "not skipped as root with CI=true: {why}");
    println!("skipped: {why}");
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn root_another_user_neither_enters_a_scratch_folder_nor_signals_the_server() {
    let Some(output) = attack(
        r#"
        $CONDUCT run /tmp/root/archive /tmp/root/plan.toml >/tmp/root/out &
        until ls /tmp/open/look.* >/dev/null 2>&1; do sleep 0.01; done
        folder=$(ls -d /tmp/bakeoff-*)
        stat -c '%a' "$folder"
        user=$(cat "$folder/user")
        test "$user" != 0 && test "$user" != 65534 && echo unprivileged
        ls /tmp/open | grep -q "look.$user" && echo commands-too
        as_nobody ls "$folder" >/dev/null 2>&1 || echo no-list
        as_nobody cat "$folder/data" >/dev/null 2>&1 || echo no-read
        server=$(pgrep -u "$user" -x sleep | head -1)
        as_nobody kill -9 "$server" 2>/dev/null || echo no-kill
        # The controls: an open folder, and a process of the attacker's own user.
        chmod 0755 "$folder"
        as_nobody ls "$folder" >/dev/null && echo control-list
        as_nobody cat "$folder/data" | grep -q precious && echo control-read
        chmod 0700 "$folder"
        setpriv --reuid=65534 --regid=65534 --clear-groups sleep 1000 & own=$!
        until test "$(stat -c %u /proc/$own)" = 65534; do :; done
        as_nobody kill -9 "$own" && echo control-kill
        as_nobody touch /tmp/open/looked
        wait; cat /tmp/root/out; ls -d /tmp/bakeoff-* 2>/dev/null || echo nothing-left
        "#,
    ) else {
        return;
    };
    let said = said(&output);
    for what in [
        "700\n",
        "unprivileged",
        "commands-too",
        "no-list",
        "no-read",
        "no-kill",
        "control-list",
        "control-read",
        "control-kill",
        "sealed: 1",
        "nothing-left",
    ] {
        assert!(
            said.contains(what) || (what == "sealed: 1" && said.contains("invalid: 1")),
            "{what}: {said}"
        );
    }
}

#[test]
fn root_a_planted_folder_makes_resume_neither_kill_nor_write() {
    let Some(output) = attack(
        r#"
        echo precious >/tmp/root/precious
        sleep 1000 & victim=$!
        as_nobody touch /tmp/open/looked
        $CONDUCT run /tmp/root/archive /tmp/root/plan.toml >/tmp/root/out & conduct=$!
        until ls -d /tmp/bakeoff-* >/dev/null 2>&1; do sleep 0.001; done
        kill -9 $conduct; wait $conduct 2>/dev/null || true
        id=$(ls /tmp/root/archive/bakeoffs)
        folder=$(ls -d /tmp/bakeoff-*)
        # What was done on a machine: the name of old, with a note of what to kill, and links to what to overwrite.
        started=$(cut -d' ' -f22 /proc/$victim/stat)
        plant() {
            as_nobody mkdir -p "$1/1"
            as_nobody sh -c "echo $victim $started >$1/server"
            for log in server.log setup.log ready.log looked_count.log; do
                as_nobody ln -s /tmp/root/precious "$1/1/$log"; as_nobody ln -s /tmp/root/precious "$1/$log"
            done
        }
        plant /tmp/bakeoff-$id
        # And more than he can do: he knows the random name, and the folder is gone, as after a cleaner of /tmp.
        rm -rf "$folder"; plant "$folder"
        $CONDUCT resume /tmp/root/archive $id >/tmp/root/out2; cat /tmp/root/out2
        kill -0 $victim && echo victim-lives
        cat /tmp/root/precious
        test -e "$folder/server" && echo not-removed
        # The controls: a program that believes what is planted does what the attacker wants, and `resume` removes the
        # folder of that name if it is root's own.
        read -r pid _ <"$folder/server"; kill "$pid"; wait $victim 2>/dev/null || echo control-killed
        echo log >"$folder/1/server.log"; echo "control-$(cat /tmp/root/precious)"
        rm -rf /tmp/bakeoff-* /tmp/root/archive; as_nobody rm -f /tmp/open/looked
        $CONDUCT run /tmp/root/archive /tmp/root/plan.toml >/tmp/root/out & conduct=$!
        until ls /tmp/root/archive/bakeoffs/* >/dev/null 2>&1 && ls -d /tmp/bakeoff-* >/dev/null 2>&1; do sleep 0.001; done
        kill -9 $conduct; wait $conduct 2>/dev/null || true
        mine=$(ls -d /tmp/bakeoff-*)
        as_nobody touch /tmp/open/looked
        $CONDUCT resume /tmp/root/archive "$(ls /tmp/root/archive/bakeoffs)" >/dev/null
        test -e "$mine" || echo control-removed
        "#,
    ) else {
        return;
    };
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("victim-lives\nprecious\nnot-removed\n"), "{said}");
    assert!(said.contains("planned: 0"), "{said}");
    for control in ["control-killed", "control-log", "control-removed"] {
        assert!(said.contains(control), "{control}: {said}");
    }
}

#[test]
fn root_a_database_of_a_shipped_plan_writes_no_file_for_others() {
    let plan: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "../../plans/mariadb-allocators-short.toml"].iter().collect();
    if Command::new("sh").args(["-c", "command -v mariadbd"]).output().is_ok_and(|o| !o.status.success()) {
        skip("mariadbd is not installed");
        return;
    }
    let Some(output) = attack(&format!(
        r#"
        # One configuration, one cell, one block of the shipped plan; the rest is the plan's.
        sed -e 's/\["libc", "jemalloc", "tcmalloc"\]/["libc"]/' -e 's/\[1, 2, 4\]/[1]/' -e 's/blocks      = 6/blocks = 1/' \
            -e '/server.env/d' -e '/^family/d' -e '/LD_PRELOAD/d' -e 's/10000/10/' -e 's/"1s"/"20ms"/' -e 's/"3s"/"100ms"/' \
            -e 's/"500ms"/"100ms"/' {} >/tmp/root/shipped.toml
        cat >>/tmp/root/shipped.toml <<'VALUE'
[values.looked_count]
run = "touch /tmp/open/look; until test -e /tmp/open/looked; do sleep 0.01; done; echo 1"
VALUE
        $CONDUCT run /tmp/root/archive /tmp/root/shipped.toml >/tmp/root/out &
        until ls /tmp/open/look >/dev/null 2>&1; do sleep 0.01; kill -0 $! || break; done
        socket=$(ls /tmp/bakeoff-*/mysql.sock)
        as_nobody mariadb -u root -S "$socket" -e "select 1" >/dev/null 2>&1 || echo no-login
        mariadb -u root -S "$socket" -e "select 'x' into outfile '/tmp/root/written'" >/dev/null 2>&1 || echo no-outfile
        as_nobody touch /tmp/open/looked
        wait; cat /tmp/root/out; ls /tmp/root
        # The control: the same database, run by root without its limits, in a folder that all may enter.
        sed -i -e 's/--secure-file-priv={{scratch}}/--user=root/' -e '/^\[server\]/a user = "root"' /tmp/root/shipped.toml
        rm /tmp/open/look /tmp/open/looked
        $CONDUCT run /tmp/root/other /tmp/root/shipped.toml >/tmp/root/out2 &
        until ls /tmp/open/look >/dev/null 2>&1; do sleep 0.01; kill -0 $! || break; done
        folder=$(ls -d /tmp/bakeoff-*); chmod 0755 "$folder"
        as_nobody mariadb -u root -S "$folder/mysql.sock" -e "select 'x' into outfile '/tmp/root/written'" &&
            stat -c 'control-%u' /tmp/root/written
        as_nobody touch /tmp/open/looked
        wait
        "#,
        plan.display()
    )) else {
        return;
    };
    let said = said(&output);
    assert!(said.contains("no-login") && said.contains("no-outfile"), "{said}");
    assert!(!said.contains("written"), "{said}");
    assert!(said.contains("control-0"), "the attack works where nothing protects from it: {said}");
    assert!(said.contains("failed: 0, planned: 0"), "{said}");
}

#[test]
fn root_an_instance_starts_in_its_folder_although_a_link_stands_in_its_place() {
    let Some(output) = attack(
        r#"
        mkdir -m 0700 /tmp/root/project
        cat >/tmp/root/two.toml <<'TWO'
schema = 1
title  = "Two instances"
[design]
blocks = 1
[load]
target = "null:"
rate   = 1000
[server]
instances = 2
command = "sh -c 'readlink /proc/self/cwd >/tmp/open/at.{instance}; touch /tmp/open/ready.{instance}; exec sleep 1000'"
ready   = "test -e /tmp/open/ready.{instance}"
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
[phases.setup]
run = """
test {instance} = 2 && exit
rmdir {scratch}/../2 && ln -s /tmp/root/project {scratch}/../2 && touch /tmp/open/linked
until test -e /tmp/open/looked; do sleep 0.01; done"""
TWO
        $CONDUCT run /tmp/root/archive /tmp/root/two.toml >/tmp/root/out 2>&1 & conduct=$!
        until test -e /tmp/open/linked; do sleep 0.01; kill -0 $conduct || break; done
        # The control: what enters the folder by its name is led elsewhere.
        (cd /tmp/bakeoff-*/2 && echo "control $(pwd -P)")
        as_nobody touch /tmp/open/looked
        wait $conduct || true
        cat /tmp/root/out; for at in /tmp/open/at.*; do echo "at $(cat $at)"; done
        "#,
    ) else {
        return;
    };
    let said = said(&output);
    assert!(said.contains("control /tmp/root/project\n") && !said.contains("at /tmp/root"), "{said}");
    // The folder that bakeoff made for it is gone by now, and the instance is in it.
    assert_eq!(said.matches("at /tmp/bakeoff-").count(), 2, "{said}");
}

/// A repository with a plan that builds from it, interrupted before it has built: `go` is missing.
const BUILDS: &str = r#"
    export HOME=/tmp/root XDG_CACHE_HOME=/tmp/root/cache
    export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a
    mkdir /tmp/root/source; chmod 0755 /tmp/root/source; cd /tmp/root/source; git init -q .
    git commit -q --allow-empty -m one; mkdir -p .git/info; touch .git/info/attributes
    cat >/tmp/root/built.toml <<'BUILT'
schema = 1
title  = "Built"
[design]
blocks = 1
[build]
source = "source"
run    = "test -e /tmp/root/go && touch /tmp/root/planted {build}/x"
[load]
target = "null:"
rate   = 1000
[phases]
prepare = "none"
warm-up = { min = "20ms" }
measure = { time = "100ms", interval = "100ms" }
BUILT
    id=$($CONDUCT run /tmp/root/archive /tmp/root/built.toml 2>/dev/null | head -1)
    again() { $CONDUCT resume /tmp/root/archive $id 2>&1 || true; }
    begin() { $CONDUCT run /tmp/root/other /tmp/root/built.toml 2>&1 || true; }
    touch /tmp/root/go
"#;

#[test]
fn root_a_repository_that_others_can_change_is_not_built_from() {
    let Some(output) = attack(&format!(
        r#"{BUILDS}
        # A repository with loose objects, a pack, a tag, a remote, a linked work tree and objects of another one.
        git gc -q; git tag one; git update-ref refs/remotes/origin/main HEAD; git commit -q --allow-empty -m two
        git init -q --bare ../other; realpath ../other/objects >.git/objects/info/alternates
        git worktree add -q ../linked
        find . | grep -v -e hooks/ -e '^./.git$' | sort >/tmp/root/paths; echo ../other/objects/pack >>/tmp/root/paths
        rm /tmp/root/go; id=$($CONDUCT run /tmp/root/archive /tmp/root/built.toml 2>/dev/null | head -1)
        while read -r path; do
            mode=$(stat -c %a "$path"); chmod o+w "$path"
            begin </dev/null | grep -q 'root does not build from .*any user: ' || echo "trusted $path"
            chmod "$mode" "$path"
        done </tmp/root/paths
        wc -l </tmp/root/paths; echo checked
        sed 's/"source"/"linked"/' /tmp/root/built.toml >/tmp/root/linked.toml
        chmod o+w ../linked/.git
        $CONDUCT run /tmp/root/other /tmp/root/linked.toml 2>&1 | grep -q 'root does not build from .*any user: ' && echo link
        chmod o-w ../linked/.git; touch /tmp/root/go
        for path in . .git .git/config .git/info .git/info/attributes .git/objects .git/HEAD .git/refs; do
            mode=$(stat -c %a $path)
            chmod o+w $path
            again | grep -q 'Untrusted.*any user: ' && echo asked
            TRUST=1 again | grep -q 'root does not build from' && echo refused
            begin | grep -q "root does not build from .*any user: .* is world-writable" && echo not-begun
            chmod $mode $path
        done
        chown 65534 .git/config; begin | grep -q 'root does not build from .*nobody' && echo owner
        SUDO_UID=65534 TRUST=1 again | grep -q 'root does not build from' && echo sudo
        chown 0 .git/config
        ls /tmp/root/planted 2>/dev/null || echo not-built
        again; ls /tmp/root/planted
        "#
    )) else {
        return;
    };
    let said = said(&output);
    assert!(!said.contains("trusted "), "{said}");
    for (what, times) in [
        ("checked\n", 1),
        ("link\n", 1),
        ("asked\n", 8),
        ("refused\n", 8),
        ("not-begun\n", 8),
        ("owner\n", 1),
        ("sudo\n", 1),
        ("not-built\n", 1),
    ] {
        assert_eq!(said.matches(what).count(), times, "{what}: {said}");
    }
    assert!(said.contains("planned: 0") && said.ends_with("/tmp/root/planted\n"), "the control: {said}");
}

/// Each of the files names a filter, which git would run as root.
#[test]
fn root_a_configuration_that_others_can_change_is_not_built_from() {
    let Some(output) = attack(&format!(
        r#"{BUILDS}
        echo '* filter=evil' >.gitattributes; git add .; git commit -q -m filtered
        filter() {{ printf '[filter "evil"]\nsmudge = "touch /tmp/root/filtered; cat"\n' | "$@"; }}
        as_nobody mkdir /tmp/theirs; filter as_nobody tee /tmp/theirs/config >/dev/null
        refused() {{
            begin | grep -q "root does not build from .*nobody, by git's configuration $1" && echo refused || begin
            test ! -e /tmp/root/filtered || echo "filtered $1"
        }}
        git config include.path /tmp/theirs/config; refused /tmp/theirs/config
        git config include.path ../../../theirs/config; refused .*/theirs/config
        git config include.path /tmp/theirs/missing; refused /tmp/theirs/missing
        git config --unset include.path
        git config includeIf.onbranch:other.path /tmp/theirs/config; refused /tmp/theirs/config
        git config --unset includeIf.onbranch:other.path
        printf '[include]\npath = /tmp/theirs/config\n' >.git/more
        git config include.path more; refused /tmp/theirs/config
        git config --unset include.path
        HOME=/tmp/theirs; refused /tmp/theirs/.config/git/config; HOME=/tmp/root
        # Attributes for all repositories name files for a filter of root.
        git config filter.evil.smudge 'touch /tmp/root/filtered; cat'; git rm -q .gitattributes; git commit -q -m plain
        echo '* filter=evil' | as_nobody tee /tmp/theirs/attributes >/dev/null
        git config core.attributesFile /tmp/theirs/attributes; refused /tmp/theirs/attributes
        git config --unset core.attributesFile
        mkdir -p /tmp/root/.config/git; cp /tmp/theirs/attributes /tmp/root/.config/git
        chown 65534 /tmp/root/.config/git/attributes; refused /tmp/root/.config/git/attributes
        rm -r /tmp/root/.config; git config --remove-section filter.evil
        echo '* filter=evil' >.gitattributes; git add .; git commit -q -m filtered
        cp /tmp/theirs/config /tmp/root/.gitconfig; chown 65534 /tmp/root/.gitconfig
        refused /tmp/root/.gitconfig; rm /tmp/root/.gitconfig
        # A repository as a folder of a commit.
        git clone -q --bare . sub; filter tee -a sub/config >/dev/null; git add sub; git commit -q -m sub
        sed 's/"source"/"source\/sub"/' /tmp/root/built.toml >/tmp/root/sub.toml
        $CONDUCT run /tmp/root/other /tmp/root/sub.toml 2>&1 | grep -q 'root does not build from .*the authors' && echo sub
        test ! -e /tmp/root/filtered || echo "filtered sub"
        git rm -rq --cached sub; git commit -q -m own
        $CONDUCT run /tmp/root/other /tmp/root/sub.toml >/tmp/root/said 2>&1 || true
        test -e /tmp/root/filtered && echo own; rm -rf /tmp/root/filtered /tmp/root/planted sub
        echo new >new; git add .; git commit -q -m new
        # The control: a file of root.
        cp /tmp/theirs/config /tmp/root/config; git config include.path /tmp/root/config; begin
        ls /tmp/root/filtered /tmp/root/planted
        "#
    )) else {
        return;
    };
    let said = said(&output);
    assert_eq!(said.matches("refused\n").count(), 9, "{said}");
    assert!(!said.contains("filtered /tmp") && !said.contains("filtered sub"), "{said}");
    assert!(said.contains("sub\n") && said.contains("own\n"), "{said}");
    assert!(said.ends_with("/tmp/root/filtered\n/tmp/root/planted\n"), "the control: {said}");
}

#[test]
fn root_a_commit_that_only_the_archive_names_is_not_built_unasked() {
    let Some(output) = attack(&format!(
        r#"{BUILDS}
        first=$(git rev-parse HEAD); git commit -q --allow-empty -m two; second=$(git rev-parse HEAD)
        again >/tmp/root/said; cat /tmp/root/said
        grep -q "the archive: it names commit $first where .*HEAD.* is $second now" /tmp/root/said && echo named
        grep -q "build.source = /tmp/root/source, commit $first" /tmp/root/said && echo listed
        ls /tmp/root/planted 2>/dev/null || echo not-built
        TRUST=1 again; ls /tmp/root/planted
        "#
    )) else {
        return;
    };
    let said = said(&output);
    for what in ["named\n", "listed\n", "not-built\n", "planned: 0"] {
        assert!(said.contains(what), "{what}: {said}");
    }
    assert!(said.ends_with("/tmp/root/planted\n"), "the control: {said}");
}

#[test]
fn root_an_account_with_other_processes_does_not_build() {
    let Some(output) = attack(&format!(
        r#"{BUILDS}
        cat >>/tmp/root/built.toml <<'SERVER'
[server]
user    = "nobody"
command = "sleep 1000"
ready   = "true"
SERVER
        begin; ls /tmp/root/planted 2>/dev/null || echo not-built
        sed -i 's/"nobody"/"root"/' /tmp/root/built.toml; begin; ls /tmp/root/planted
        "#
    )) else {
        return;
    };
    let said = said(&output);
    assert!(said.contains("root does not build for `server.user"), "{said}");
    assert!(said.contains("not-built\n") && said.ends_with("/tmp/root/planted\n"), "{said}");
}

/// The copy of a stranger's archive names what a live bake-off of root made.
#[test]
fn root_a_copied_journal_ends_no_live_bakeoff() {
    let Some(output) = attack(
        r#"
        $CONDUCT run /tmp/root/archive /tmp/root/plan.toml >/tmp/root/out & first=$!
        until ls /tmp/open/look.* >/dev/null 2>&1; do sleep 0.01; done
        folder=$(ls -d /tmp/bakeoff-*); id=$(ls /tmp/root/archive/bakeoffs)
        server=$(pgrep -u "$(cat "$folder/user")" -x sleep | head -1)
        cp -r /tmp/root/archive /tmp/root/copy
        $CONDUCT resume /tmp/root/copy $id 2>&1 || echo busy
        kill -0 $server && test -e "$folder/user" && echo lives-alone
        # It also names a folder that a dead process of root left, with the mark and the group of the live one.
        named() { grep -o "\"$1\":\"[^\"]*" /tmp/root/archive/bakeoffs/$id/events.jsonl | head -1 | cut -d'"' -f4; }
        dead=/tmp/bakeoff-00000000000000000000000000000000; mkdir -m 0700 $dead
        FOLDER=$dead MARK=$(named mark) GROUP=$(named control_group) $CONDUCT plant /tmp/root/copy $id >/dev/null
        env -u BAKEOFF_MACHINE_LOCK $CONDUCT resume /tmp/root/copy $id >/tmp/root/out2 2>&1 & second=$!
        until test "$(ls /tmp/open/look.* | wc -l)" = 2; do kill -0 $second; sleep 0.01; done
        kill -0 $server && test -e "$folder/user" && echo lives-beside
        as_nobody touch /tmp/open/looked
        wait $first && cat /tmp/root/out
        wait $second; rmdir $dead && echo dead-stays; ls -d /tmp/bakeoff-* 2>/dev/null || echo nothing-left
        # The control: the names of one workspace, which no process holds.
        mark=11111111111111111111111111111111; mkdir -m 0700 /tmp/bakeoff-$mark
        BAKEOFF_SERIES=$mark sleep 60 & left=$!
        FOLDER=/tmp/bakeoff-$mark MARK=$mark GROUP= $CONDUCT plant /tmp/root/copy $id >/dev/null
        env -u BAKEOFF_MACHINE_LOCK $CONDUCT resume /tmp/root/copy $id
        wait $left || echo control-ended
        test -e /tmp/bakeoff-$mark || echo control-removed
        "#,
    ) else {
        return;
    };
    let said = said(&output);
    for what in [
        "busy\n",
        "lives-alone\n",
        "lives-beside\n",
        "failed: 0, planned: 0",
        "dead-stays\n",
        "nothing-left\n",
        "control-ended\n",
        "control-removed\n",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
}
