//! `tamp`: gzip's command line, every core, files that stock tools read.
//!
//! Called as `untamp` it decompresses, as `tampcat` it decompresses to standard output.

#![deny(unsafe_code)]

mod cmd;
#[expect(unsafe_code, reason = "a look at descriptors before the runtime's")]
mod descriptors;
#[expect(unsafe_code, reason = "signal handlers")]
mod signal;

use cmd::args::Args;
use std::process::ExitCode;

fn main() -> ExitCode {
    signal::prepare();
    let args = match Args::from_command_line(std::env::args_os()) {
        Ok(args) => args,
        Err(error) => {
            // clap returns help and version as errors.
            let code = if error.use_stderr() { cmd::EXIT_USAGE } else { 0 };
            return if error.print().is_ok() { ExitCode::from(code) } else { ExitCode::FAILURE };
        }
    };
    ExitCode::from(cmd::run(&args))
}
