//! Orders to another machine by `ssh`.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use super::order::{HostAnswer, HostOrder};
use crate::error::FleetError;

/// Longest answer.
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// Gives an order to `host`.
///
/// The order, which has secrets, is on the standard input of `ssh`. `ssh` asks for nothing: keys and the keys
/// of hosts must be known.
///
/// - `config`: configuration of `ssh`, if it is not the user's.
/// - `program`: the program `bakeoff` on that machine.
///
/// # Errors
///
/// `ssh` cannot be started or reaches no machine, or the machine does not obey.
pub fn order(
    host: &str,
    config: Option<&Path>,
    program: &str,
    order: &HostOrder,
) -> Result<HostAnswer, FleetError> {
    let absent = |text: String| FleetError::Host { host: host.to_owned(), text };
    let mut command = Command::new("ssh");
    command.args(["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]);
    command.args(["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]);
    if let Some(config) = config {
        command.arg("-F").arg(config);
    }
    command.args(["--", host, &format!("{} fleet on-host", quoted(program))]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| FleetError::Program {
        program: "ssh".to_owned(),
        text: format!("{error}: apt-get install openssh-client"),
    })?;
    let text = serde_json::to_vec(order).expect("it has no map with keys that are no strings");
    let (mut input, mut output) = (child.stdin.take(), child.stdout.take());
    let mut errors = child.stderr.take();
    let (mut answer, mut said) = (Vec::new(), Vec::new());
    std::thread::scope(|scope| {
        scope.spawn(|| errors.take().map(|errors| errors.take(ANSWER_BYTES_MAX).read_to_end(&mut said)));
        // If the other side ends before it has read everything, its error says why.
        let _ = input.take().map(|mut input| input.write_all(&text));
        output.take().map(|output| output.take(ANSWER_BYTES_MAX).read_to_end(&mut answer))
    });
    let status = child.wait().map_err(|error| absent(error.to_string()))?;
    if !status.success() {
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("ssh failed");
        return Err(absent(last.trim_start_matches("bakeoff: ").to_owned()));
    }
    serde_json::from_slice(&answer).map_err(|error| absent(format!("invalid answer: {error}")))
}

/// Whether `ssh` takes the text as a host.
pub fn is_host(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-') && text.chars().all(|c| c.is_ascii_graphic())
}

/// The text as one word of any login shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
