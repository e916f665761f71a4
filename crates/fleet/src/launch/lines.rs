//! Texts for launchers that the user runs: a unit of systemd, and a line for `srun`.

use std::fmt::Write as _;

/// Agents that systemd or `srun` starts. No secret is among them: files have these.
#[derive(Debug, Clone)]
pub struct Lines {
    /// Name of the fleet.
    pub name: String,
    /// Number of agents.
    pub agents: u32,
    /// The program.
    pub program: String,
    /// Address of the NATS server without a password, or the file that has it.
    pub server: ServerWord,
    /// File with the seed of the agents' `NKey`; `{agent}` stands for an agent's name.
    pub nkey: Option<String>,
    /// File with certificates to trust besides the system's (PEM).
    pub ca: Option<String>,
}

/// Address of a NATS server on a command line.
#[derive(Debug, Clone)]
pub enum ServerWord {
    /// The address, which has no password.
    Address(String),
    /// A file with the address.
    File(String),
}

/// A unit for the system's manager, as a template: each instance is an agent with an unprivileged user.
/// systemd reads the files with secrets as root and hands them to the agent alone.
pub fn unit(lines: &Lines) -> String {
    let mut credentials = String::new();
    let mut words = vec![lines.program.clone(), "agent".to_owned()];
    let mut raw = vec!["--id".to_owned(), "%p-%i".to_owned()];
    let mut load = |name: &str, path: &str| {
        let path = unit_text(path).replace("{agent}", "%p-%i");
        let _ = writeln!(credentials, "LoadCredential={name}:{path}");
    };
    match &lines.server {
        ServerWord::Address(url) => words.extend(["--server".to_owned(), url.clone()]),
        ServerWord::File(path) => {
            load("url", path);
            raw.extend(["--server".to_owned(), "{file:%d/url}".to_owned()]);
        }
    }
    for (option, name, path) in [("--nkey", "nkey", &lines.nkey), ("--ca", "ca.pem", &lines.ca)] {
        if let Some(path) = path {
            load(name, path);
            raw.extend([option.to_owned(), format!("%d/{name}")]);
        }
    }
    raw.extend(["--spool".to_owned(), "%S/%p/%i/spool".to_owned()]);
    let words: Vec<String> = words.iter().map(|word| unit_word(word)).chain(raw).collect();
    format!(
        "# {name}@.service: agents of a load. Documentation: docs/fleet.md
[Unit]
Description=bakeoff: agent %i of the fleet %p
Documentation=man:bakeoff-agent(1)
Wants=network-online.target
After=network-online.target

[Service]
Type=notify
ExecStart={line}
{credentials}DynamicUser=yes
StateDirectory=%p/%i
StateDirectoryMode=0700
Restart=on-failure
RestartSec=2
TimeoutStopSec=60

NoNewPrivileges=yes
CapabilityBoundingSet=
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
RestrictSUIDSGID=yes
UMask=0077

[Install]
WantedBy=multi-user.target
",
        name = lines.name,
        line = words.join(" "),
    )
}

/// A line that starts the agents as tasks of Slurm; each is named for its host and process.
pub fn srun(lines: &Lines) -> String {
    let mut words = vec![
        "srun".to_owned(),
        format!("--job-name={}", lines.name),
        format!("--ntasks={}", lines.agents),
        // One that ends early does not end the others.
        "--kill-on-bad-exit=0".to_owned(),
        "--wait=0".to_owned(),
        lines.program.clone(),
        "agent".to_owned(),
        "--server".to_owned(),
        match &lines.server {
            ServerWord::Address(url) => url.clone(),
            ServerWord::File(path) => format!("{{file:{path}}}"),
        },
    ];
    for (option, path) in [("--nkey", &lines.nkey), ("--ca", &lines.ca)] {
        words.extend(path.iter().flat_map(|path| [option.to_owned(), path.clone()]));
    }
    record::run::command_line(words)
}

/// A text in a unit, where `%` begins a specifier.
fn unit_text(text: &str) -> String {
    text.replace('%', "%%")
}

/// A text as one word of a unit's command line.
fn unit_word(text: &str) -> String {
    let text = unit_text(text).replace('\\', r"\\").replace('"', "\\\"").replace('$', "$$");
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,+@%{}".contains(c);
    if text.chars().all(is_plain) { text } else { format!("\"{text}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Lines {
        Lines {
            name: "lab".to_owned(),
            agents: 3,
            program: "/opt/my lab/bakeoff".to_owned(),
            server: ServerWord::File("/etc/bakeoff/100%".to_owned()),
            nkey: Some("/etc/bakeoff/{agent}.nk".to_owned()),
            ca: None,
        }
    }

    #[test]
    fn a_unit_names_files_and_no_secret() {
        let text = unit(&lines());
        assert!(text.contains("LoadCredential=url:/etc/bakeoff/100%%\n"), "{text}");
        assert!(text.contains("LoadCredential=nkey:/etc/bakeoff/%p-%i.nk\n"), "{text}");
        let line = "ExecStart=\"/opt/my lab/bakeoff\" agent --id %p-%i --server {file:%d/url} --nkey %d/nkey \
                    --spool %S/%p/%i/spool\n";
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn a_line_for_srun_is_one_line_of_a_shell() {
        let server = ServerWord::Address("tls://lab.example:4222".to_owned());
        assert_eq!(
            srun(&Lines { server, nkey: Some("/home/it's/k".to_owned()), ..lines() }),
            "srun --job-name=lab --ntasks=3 --kill-on-bad-exit=0 --wait=0 '/opt/my lab/bakeoff' agent --server \
             tls://lab.example:4222 --nkey '/home/it'\\''s/k'"
        );
    }
}
