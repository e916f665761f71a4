//! `report --open`: a page in a browser.

use std::io::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::exit::{EndsWith as _, Exit};
use crate::screen::Screen;

/// A process that shows a page as soon as it is written.
///
/// It starts before the command drops its rights, and inherits none of what the command opens later.
#[derive(Debug)]
pub(super) struct Viewer {
    shell: Child,
}

/// Waits for a line; without one, the command has failed and there is nothing to show.
const WAIT: &str = "read -r go && exec \"$0\" \"$1\"";

impl Viewer {
    /// Starts the process, which waits.
    pub(super) fn waiting(page: &Path) -> anyhow::Result<Self> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let browser = set("BROWSER");
        if browser.is_none() && set("DISPLAY").is_none() && set("WAYLAND_DISPLAY").is_none() {
            return Err(Exit::CannotHere.with(
                "--open: there is no display; set $BROWSER, or write the page with -o and open it elsewhere",
            ));
        }
        let browser = browser.unwrap_or_else(|| "xdg-open".into());
        if !is_program(Path::new(&browser)) {
            let name = browser.to_string_lossy().into_owned();
            return Err(Exit::CannotHere.with(format!(
                "--open: there is no program {name}; set $BROWSER, or write the page with -o and open it yourself"
            )));
        }
        let page = std::path::absolute(page)?;
        let mut shell = Command::new("sh");
        shell.args(["-c", WAIT]).arg(&browser).arg(page);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: shell.spawn().ends_with(Exit::CannotHere)? })
    }

    /// Shows the page. The browser may outlive this process.
    pub(super) fn show(mut self, page: &Path) {
        let told = self.shell.stdin.take().is_some_and(|mut line| line.write_all(b"go\n").is_ok());
        if !told {
            Screen::new().line(&format!("bakeoff report: no browser; open {} yourself", page.display()));
        }
    }
}

/// Whether a shell would find this program.
fn is_program(name: &Path) -> bool {
    if name.components().count() > 1 {
        return name.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}
