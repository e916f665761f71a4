//! Progress on standard error: a bar with the time left on a terminal, plain lines elsewhere.

use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use record::printable::{Form, Guarded, printable};
use report::text::Style;

/// Progress on standard error. Its output is dropped silently if standard error is closed.
#[derive(Debug)]
pub(crate) struct Screen {
    bar: Option<ProgressBar>,
}

impl Screen {
    /// Returns a screen, with a bar if standard error is a terminal.
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr_with_hz(5));
            bar.set_style(bar_style("{msg}"));
            bar
        });
        Self { bar }
    }

    /// Whether a bar is shown; lines would disturb it.
    pub(crate) fn is_bar(&self) -> bool {
        self.bar.is_some()
    }

    /// Starts to show `what` as a part of `total` time.
    pub(crate) fn phase(&mut self, what: &str, total: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_style(bar_style("{msg} [{wide_bar}] {elapsed} of {len}s, {eta} left"));
            bar.set_length(total.as_secs().max(1));
            bar.reset();
            bar.set_message(printable(what).into_owned());
        }
    }

    /// Starts to show `what`, of `total` parts.
    pub(crate) fn parts(&mut self, what: &str, total: u64) {
        if let Some(bar) = &self.bar {
            bar.set_style(bar_style("{msg} [{wide_bar}] {pos}/{len}, {eta} left"));
            let what = printable(what);
            if bar.length() != Some(total) || bar.message() != what {
                bar.set_length(total);
                bar.reset();
                bar.set_message(what.into_owned());
            }
        }
    }

    /// Moves the bar to `position`, in seconds or parts.
    pub(crate) fn at(&mut self, position: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(position);
        }
    }

    /// Prints a permanent line above the bar.
    pub(crate) fn line(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| to_stderr(text)),
            None => to_stderr(text),
        }
    }

    /// Removes the bar.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Moves a bar with the time, on a thread; ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Countdown {
    is_over: Arc<AtomicBool>,
    mover: Option<JoinHandle<()>>,
}

impl Countdown {
    /// Shows `what` with the time left of `total`; without a terminal, one line. Short work shows nothing.
    pub(crate) fn of(screen: &mut Screen, what: &str, total: Duration) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        if total <= WORTH_A_BAR {
            return Self { is_over, mover: None };
        }
        let Some(bar) = screen.bar.clone() else {
            screen.line(&format!("{what} for {} s", total.as_secs_f64()));
            return Self { is_over, mover: None };
        };
        screen.phase(what, total);
        let seen = Arc::clone(&is_over);
        let mover = thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                bar.set_position(bar.elapsed().as_secs().min(total.as_secs()));
                thread::park_timeout(Duration::from_millis(200));
            }
        });
        Self { is_over, mover: Some(mover) }
    }
}

impl Drop for Countdown {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(mover) = self.mover.take() {
            mover.thread().unpark();
            // The thread draws only; if it panicked, the command goes on without the bar.
            let _ = mover.join();
        }
    }
}

/// Work that takes longer than this shows its progress.
const WORTH_A_BAR: Duration = Duration::from_secs(2);

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Style of the terminal on standard output; `None` if it is not a terminal.
pub(crate) fn terminal() -> Option<Style> {
    let out = console::Term::stdout();
    out.is_term().then(|| style_of(&out))
}

/// Style of standard output: the width of its terminal, and color if the terminal supports it.
pub(crate) fn style() -> Style {
    style_of(&console::Term::stdout())
}

/// Style of standard error.
pub(crate) fn stderr_style() -> Style {
    style_of(&console::Term::stderr())
}

fn style_of(term: &console::Term) -> Style {
    match term.size_checked() {
        Some((_, columns)) if term.is_term() => {
            Style { width: usize::from(columns).max(20), color: term.features().colors_supported() }
        }
        _ => Style::PIPE,
    }
}

fn to_stderr(text: &str) {
    let (mut out, style) = (std::io::stderr(), stderr_style());
    for line in text.lines() {
        let line = if style.color { guarded(line) } else { printable(line).into_owned() };
        // If standard error is closed, the line is lost.
        // A line with colors is a row of a table: words that are moved would lose their columns.
        let is_text = !line.contains('\u{1b}') && line.chars().count() > style.width;
        let _ = if is_text && out.is_terminal() {
            report::text::folded(&mut out, "", &line, 4, style)
        } else {
            writeln!(out, "{line}")
        };
    }
}

/// The line without terminal control sequences, except the program's colors.
fn guarded(line: &str) -> String {
    let mut safe = Vec::with_capacity(line.len());
    let mut guard = Guarded::new(&mut safe, Form::Colored);
    let written = guard.write_all(line.as_bytes()).and_then(|()| guard.flush());
    written.expect("a Vec takes all that is written to it");
    String::from_utf8_lossy(&safe).into_owned()
}

fn bar_style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the templates are constants of this file")
        .progress_chars("=> ")
}
