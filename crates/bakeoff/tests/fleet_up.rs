//! Fleets on other machines: a real sshd on loopback, and a NATS server with a password.

#![cfg(feature = "fleet")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test binary; clippy only knows its test functions"
)]

mod lab;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use lab::{Ended, Lab, assert_balanced};
use serde_json::Value;

const PASSWORD: &str = "hunter2hunter2";
const PROGRAM: &str = env!("CARGO_BIN_EXE_bakeoff");

/// A process that is killed when dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A NATS server, an sshd with its own state folder, and the configuration of ssh that reaches it as `gen1`
/// and `gen2`; `elsewhere` has a key that ssh does not know.
struct Machines {
    lab: Lab,
    nats_port: u16,
    ssh_port: u16,
    _nats: Server,
    _sshd: Server,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    folders.map(|folder| folder.join(name)).find(|file| file.is_file())
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdin(Stdio::null()).stdout(Stdio::null())
}

fn await_port(port: u16) {
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        thread::sleep(Duration::from_millis(20));
    }
}

impl Machines {
    fn start() -> Option<Self> {
        let (Some(nats), Some(sshd)) = (program("nats-server"), program("sshd")) else {
            println!(
                "skipped: nats-server or sshd is not installed (apt-get install nats-server openssh-server)"
            );
            return None;
        };
        let lab = Lab::new();
        let (nats_port, ssh_port) = (free_port(), free_port());
        for key in ["host", "user"] {
            let path = lab.path(key);
            let mut command = Command::new("ssh-keygen");
            command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&path);
            assert!(quiet(&mut command).status().unwrap().success());
        }
        if nix::unistd::geteuid().is_root() {
            // As root, sshd separates its privileges there.
            fs::create_dir_all("/run/sshd").unwrap();
        }
        let path = |name: &str| lab.path(name).display().to_string();
        fs::create_dir(lab.path("remote")).unwrap();
        let sshd_config = format!(
            "Port {ssh_port}\nListenAddress 127.0.0.1\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\nUsePAM no\n\
             StrictModes no\nPasswordAuthentication no\nSetEnv XDG_STATE_HOME={}\n",
            path("host"),
            path("user.pub"),
            path("remote"),
        );
        fs::write(lab.path("sshd_config"), sshd_config).unwrap();
        let host_key = fs::read_to_string(lab.path("host.pub")).unwrap();
        fs::write(lab.path("known"), format!("[127.0.0.1]:{ssh_port} {host_key}")).unwrap();
        let ssh_config = format!(
            "Host elsewhere\n UserKnownHostsFile /dev/null\nHost *\n HostName 127.0.0.1\n Port {ssh_port}\n \
             IdentityFile {}\n IdentitiesOnly yes\n UserKnownHostsFile {}\n GlobalKnownHostsFile /dev/null\n",
            path("user"),
            path("known"),
        );
        fs::write(lab.path("ssh_config"), ssh_config).unwrap();
        let nats_config = format!(
            "listen: \"127.0.0.1:{nats_port}\"\njetstream {{ store_dir: \"{}\" }}\n\
             authorization {{ user: fleet, password: \"{PASSWORD}\" }}\n",
            path("stream"),
        );
        fs::write(lab.path("nats.conf"), nats_config).unwrap();
        fs::write(lab.path("url"), format!("nats://fleet:{PASSWORD}@127.0.0.1:{nats_port}\n")).unwrap();
        let mut command = Command::new(nats);
        let nats = quiet(command.arg("-c").arg(lab.path("nats.conf"))).stderr(Stdio::null()).spawn().unwrap();
        let log = fs::File::create(lab.path("sshd.log")).unwrap();
        let mut command = Command::new(sshd);
        let sshd =
            quiet(command.args(["-D", "-e", "-f"]).arg(lab.path("sshd_config"))).stderr(log).spawn().unwrap();
        let machines = Self { lab, nats_port, ssh_port, _nats: Server(nats), _sshd: Server(sshd) };
        await_port(machines.nats_port);
        await_port(machines.ssh_port);
        Some(machines)
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.lab.command(words);
        let url = format!("{{file:{}}}", self.lab.path("url").display());
        command.env("XDG_STATE_HOME", self.lab.path("here")).env("NATS_URL", url);
        command
    }

    fn run(&self, words: &[&str]) -> Ended {
        Ended::of(self.command(words).output().unwrap())
    }

    fn json(&self, words: &[&str], code: i32) -> Value {
        let ended = self.run(&[words, &["--json"]].concat());
        assert_eq!(ended.code, Some(code), "{words:?}: {}{}", ended.err, self.sshd_log());
        serde_json::from_str(&ended.out).unwrap()
    }

    fn sshd_log(&self) -> String {
        fs::read_to_string(self.lab.path("sshd.log")).unwrap_or_default()
    }

    fn up<'a>(config: &'a str, on: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        [&["fleet", "up", "--on", on, "--ssh-config", config, "--program", PROGRAM][..], more].concat()
    }

    fn ssh_config(&self) -> String {
        self.lab.path("ssh_config").display().to_string()
    }

    /// Command lines of the agents with files on this test's other machine.
    fn agents(&self) -> Vec<String> {
        let remote = self.lab.path("remote").display().to_string();
        let of = |entry: fs::DirEntry| fs::read(entry.path().join("cmdline")).ok();
        let lines = fs::read_dir("/proc").unwrap().flatten().filter_map(of);
        let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
        lines.filter(|line| line.contains(" agent ") && line.contains(&remote)).collect()
    }

    /// Files of the two machines, which must be private.
    fn private_files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for folder in ["here/bakeoff", "remote/bakeoff"] {
            let mut folders = vec![self.lab.path(folder)];
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                    let path = entry.path();
                    let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
                    assert_eq!(mode, if path.is_dir() { 0o700 } else { 0o600 }, "{}", path.display());
                    if path.is_dir() {
                        folders.push(path);
                    } else {
                        found.push(path);
                    }
                }
            }
        }
        found
    }
}

impl Drop for Machines {
    fn drop(&mut self) {
        // Agents of a test that failed.
        let _ = self.run(&["fleet", "down"]);
    }
}

#[test]
fn a_fleet_by_ssh_is_started_shown_used_and_ended_and_no_command_line_has_a_secret() {
    let Some(machines) = Machines::start() else { return };
    let config = machines.ssh_config();
    let up = machines.json(&Machines::up(&config, "ssh:gen1,gen2", &["-n", "3", "--name", "lab"]), 0);
    let of = |host: usize| {
        let agents = up["hosts"][host]["agents"].as_array().unwrap();
        agents.iter().map(|agent| agent["agent"].as_str().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((of(0), of(1)), (vec!["lab-1", "lab-3"], vec!["lab-2"]), "{up}");
    assert_hides_the_password(&machines, 3);

    let status = machines.json(&["fleet", "status"], 0);
    let agents = status["agents"].as_array().unwrap();
    assert_eq!(
        agents.iter().map(|a| a["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["lab-1", "lab-2", "lab-3"]
    );
    for agent in agents {
        let clock = &agent["clock"];
        assert!(
            clock["offset_ns"].as_i64().unwrap().unsigned_abs() <= clock["bound_ns"].as_u64().unwrap(),
            "{agent}"
        );
        assert!(
            agent["cpus"].as_u64() > Some(0)
                && agent["fits"] == true
                && agent["left"] == serde_json::json!([])
        );
    }
    let load = [
        "load",
        "null:",
        "--rate",
        "900",
        "--threads",
        "3",
        "--fleet",
        "3",
        "--time",
        "400ms",
        "--warmup",
        "0",
    ];
    let load = machines.json(&load, 0);
    assert_balanced(&load);
    assert_eq!((load["planned"].as_u64(), load["agents"].as_array().unwrap().len()), (Some(360), 3));

    // An agent that dies is missed by name.
    let victim = agents_pid(&up, "lab-2");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(victim), nix::sys::signal::Signal::SIGKILL).unwrap();
    let status = machines.json(&["fleet", "status"], 1);
    assert_eq!(status["silent"], serde_json::json!([{"agent": "lab-2", "fleet": "lab", "on": "gen2"}]));
    let again = machines.run(&Machines::up(&config, "ssh:gen1", &["--name", "lab"]));
    assert_eq!(again.code, Some(2), "{}", again.err);
    let down = machines.run(&["fleet", "down"]);
    assert_eq!(down.code, Some(0), "{}", down.err);
    assert!(down.err.contains("lab-2") && down.err.contains("had ended before"), "{}", down.err);
    assert_eq!(machines.agents(), Vec::<String>::new());
    // An agent that was killed leaves its lock, which is empty.
    let files = machines.private_files();
    assert!(files.iter().all(|path| path.ends_with("lab-2/lock")), "no secret stays: {files:?}");
    assert_eq!(machines.run(&["fleet", "down"]).code, Some(2));
    let status = machines.json(&["fleet", "status"], 1);
    assert_eq!((&status["agents"], &status["silent"]), (&serde_json::json!([]), &serde_json::json!([])));
}

/// Checks that the password is in no command line, and only in a file of each host.
fn assert_hides_the_password(machines: &Machines, agents: usize) {
    let lines = machines.agents();
    assert_eq!(lines.len(), agents, "{lines:?}");
    assert!(lines.iter().all(|line| !line.contains(PASSWORD)), "{lines:?}");
    let files = machines.private_files();
    let has_password = |path: &PathBuf| fs::read_to_string(path).unwrap().contains(PASSWORD);
    let with_password: Vec<&PathBuf> = files.iter().filter(|path| has_password(path)).collect();
    assert!(
        with_password.len() == 2 && with_password.iter().all(|path| path.ends_with("url")),
        "{with_password:?}"
    );
}

fn agents_pid(up: &Value, name: &str) -> i32 {
    let agents = up["hosts"].as_array().unwrap().iter().flat_map(|host| host["agents"].as_array().unwrap());
    let agent = agents.into_iter().find(|agent| agent["agent"] == name).unwrap();
    i32::try_from(agent["pid"].as_i64().unwrap()).unwrap()
}

#[test]
fn a_fleet_of_which_a_part_does_not_start_leaves_no_agent() {
    let Some(machines) = Machines::start() else { return };
    let config = machines.ssh_config();
    // The key of the second host is not known: nothing is sent to it.
    let unknown = machines.run(&Machines::up(&config, "ssh:gen1,elsewhere", &[]));
    assert_eq!(unknown.code, Some(6), "{}", unknown.err);
    assert!(unknown.err.contains("host elsewhere: Host key verification failed"), "{}", unknown.err);
    assert_eq!(machines.agents(), Vec::<String>::new());
    // A host that cannot be asked stays in the account.
    assert!(unknown.err.contains("fleet down"), "{}", unknown.err);
    let down = machines.run(&["fleet", "down"]);
    assert_eq!((down.code, machines.private_files().len()), (Some(6), 1), "{}", down.err);
    fs::remove_dir_all(machines.lab.path("here")).unwrap();

    // A wrong password.
    let url = format!("nats://fleet:wrong@127.0.0.1:{}", machines.nats_port);
    let mut command = machines.command(&Machines::up(&config, "ssh:gen1", &["-n", "2"]));
    let wrong = Ended::of(command.env("NATS_URL", url).output().unwrap());
    assert_eq!(wrong.code, Some(6), "{}", wrong.err);
    assert!(wrong.err.contains("uthorization") && wrong.err.contains("no agent was left"), "{}", wrong.err);
    assert!(!wrong.err.contains("wrong@"), "{}", wrong.err);
    // A program that is not there.
    let words =
        ["fleet", "up", "--on", "ssh:gen1", "--ssh-config", &config, "--program", "/nonexistent/b'akeoff"];
    let absent = machines.run(&words);
    assert_eq!(absent.code, Some(6), "{}", absent.err);
    assert!(absent.err.contains("/nonexistent/b'akeoff"), "{}", absent.err);
    assert_eq!(machines.agents(), Vec::<String>::new());
}

#[test]
fn a_killed_up_leaves_nothing_that_down_does_not_end() {
    let Some(machines) = Machines::start() else { return };
    let config = machines.ssh_config();
    let (mut killed, mut ended) = (0, 0);
    for ms in [30, 60, 90, 120, 150, 180, 220, 260, 300, 400, 600] {
        let words = Machines::up(&config, "ssh:gen1,gen2", &["-n", "4"]);
        let mut up = machines.command(&words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(Duration::from_millis(ms));
        let _ = up.kill();
        killed += usize::from(!up.wait().unwrap().success());
        let down = machines.run(&["fleet", "down"]);
        match down.code {
            // It was killed before it began.
            Some(2) => {}
            code => {
                assert_eq!(code, Some(0), "{ms}: {}", down.err);
                ended += 1;
            }
        }
        // An order on its way must not start agents after the end.
        await_no_order(&machines);
        assert_eq!(machines.agents(), Vec::<String>::new(), "{ms}: {}", down.err);
    }
    assert!(killed > 3 && ended > 3, "{killed} {ended}");
    // A file of `up` that was half written when it was killed has no name yet.
    let is_known = |path: &PathBuf| path.extension().is_some_and(|e| e == "turn" || e == "new");
    let marks = machines.private_files();
    assert!(marks.iter().all(is_known), "{marks:?}");
}

/// Waits until no order of this test is obeyed any more.
fn await_no_order(machines: &Machines) {
    let remote = format!("XDG_STATE_HOME={}", machines.lab.path("remote").display());
    let obeys = |entry: fs::DirEntry| {
        let read = |name: &str| fs::read(entry.path().join(name)).unwrap_or_default();
        let line = String::from_utf8_lossy(&read("cmdline")).into_owned();
        line.contains("on-host") && String::from_utf8_lossy(&read("environ")).contains(&remote)
    };
    // Twice: sshd may have an order that its process does not have yet.
    for _ in 0..2 {
        while fs::read_dir("/proc").unwrap().flatten().any(obeys) {
            thread::sleep(Duration::from_millis(20));
        }
        thread::sleep(Duration::from_millis(150));
    }
}

#[test]
fn what_is_refused_off_host_stays_refused_and_a_password_on_the_command_line_too() {
    let lab = Lab::new();
    let up = |on: &str, more: &[&str]| {
        let words = [&["fleet", "up", "--on", on], more].concat();
        let mut command = lab.command(&words);
        command.env_remove("NATS_URL").env("XDG_STATE_HOME", lab.path("state"));
        Ended::of(command.output().unwrap())
    };
    let key = lab.path("agents.nk");
    fs::write(&key, "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY\n").unwrap();
    let key = key.to_str().unwrap();
    let image = ["--image", "lab.example/bakeoff"];
    for (on, more, text) in [
        ("ssh:gen1", &["--server", "nats://lab.example:4222"][..], "needs TLS"),
        ("ssh:gen1", &["--server", "tls://lab.example:4222"], "needs credentials"),
        ("systemd", &["--server", "nats://lab.example:4222"], "needs TLS"),
        ("srun", &["--server", "tls://lab.example:4222"], "needs credentials"),
        ("ssh:gen1", &["--server", "nats://u:pw@127.0.0.1"], "$NATS_URL"),
        ("srun", &["--server", "nats://127.0.0.1"], "cannot reach"),
        ("kubernetes", &[&["--server", "nats://127.0.0.1"], &image[..]].concat(), "cannot reach"),
        ("kubernetes", &["--server", "tls://lab.example", "--nkey", key], "--image"),
        ("ssh:-oProxyCommand=touch", &["--server", "nats://127.0.0.1"], "not a host for ssh"),
        (
            "systemd",
            &["--server", "tls://lab.example", "--nkey", key, "--image", "x"],
            "only for --on kubernetes",
        ),
        ("srun", &["--server", "tls://lab.example", "--nkey", "/k/{agent}"], "share one key"),
        ("ssh:gen1", &[], "no NATS server"),
    ] {
        let ended = up(on, more);
        assert_eq!(ended.code, Some(2), "{on} {more:?}: {}", ended.err);
        assert!(ended.err.contains(text), "{on} {more:?}: {}", ended.err);
        assert!(ended.out.is_empty() && !lab.path("state").exists());
    }
    // A secret in the environment does not get into a text.
    let mut command = lab.command(&["fleet", "up", "--on", "systemd"]);
    let ended = Ended::of(command.env("NATS_URL", "tls://u:hunter2@lab.example").output().unwrap());
    assert!(
        ended.code == Some(2) && !format!("{}{}", ended.out, ended.err).contains("hunter2"),
        "{}",
        ended.err
    );
}

#[test]
fn a_unit_is_one_that_systemd_takes() {
    let lab = Lab::new();
    let key = lab.path("agents.nk");
    fs::write(&key, "SUAMK2FG4MI6UE3ACF3FK3OIQBCEIEZV7NSWFFEW63UXMRLFM2XLAXK4GY\n").unwrap();
    let words =
        ["fleet", "up", "-n", "4", "--on", "systemd", "--name", "lab", "--server", "tls://lab.example:4222"];
    let unit = lab.run(&[&words[..], &["--nkey", key.to_str().unwrap()]].concat());
    assert_eq!(unit.code, Some(0), "{}", unit.err);
    assert!(!unit.out.contains("SUAMK2FG") && unit.out.contains("Type=notify"), "{}", unit.out);
    assert!(unit.err.contains("systemctl start lab@{1..4}"), "{}", unit.err);
    let Some(analyze) = program("systemd-analyze") else {
        println!("skipped: systemd-analyze is not installed");
        return;
    };
    let verify = |text: &str| {
        fs::write(lab.path("lab@.service"), text).unwrap();
        let mut command = Command::new(&analyze);
        let verified =
            Ended::of(command.args(["verify", "--man=no"]).arg(lab.path("lab@.service")).output().unwrap());
        (verified.code, verified.err)
    };
    let (code, err) = verify(&unit.out);
    assert!(code == Some(0) && !err.contains("lab@"), "{err}");
    // The check can fail.
    let (code, err) =
        verify(&unit.out.replace("Type=notify", "Type=nothing").replace("ExecStart=/", "ExecStart=/no/"));
    assert!(code != Some(0) || err.contains("lab@"), "{code:?} {err}");
}
