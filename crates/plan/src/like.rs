//! Translates a command line of another load generator into one of bakeoff.
//!
//! A load is defined by what a user wrote, in a plan or on a command line. sysbench, pgbench, memtier, wrk,
//! wrk2, hey, oha and ab each have a notation for the same things: a target, connections, a rate, a length, a
//! mix. This module reads that notation and yields the words of a `bakeoff` command, and [`Remark`]s on the
//! parts that have no equal or another meaning.
//!
//! Pure: text in, words out. A file that an option names is not read; its place is a [`Word::File`].

mod address;
mod draft;
mod error;
mod memtier;
mod options;
mod pgbench;
mod shell;
mod sysbench;
mod translation;
mod web;

pub use self::error::{LikeError, TOOLS};
pub use self::pgbench::script as builtin_script;
pub use self::translation::{Remark, RemarkKind, Translation, Word};

/// Translates a command line.
///
/// - `line`: as typed into a shell: with quotes, continued lines, variables before the command, and other
///   commands such as `sudo` or `taskset` before the tool.
///
/// # Errors
///
/// [`LikeError`], if the text cannot be split, names no known tool, or asks for something that is not a load.
pub fn translate(line: &str) -> Result<Translation, LikeError> {
    let said = shell::read(line)?;
    let mut draft = draft::Draft::new(said.tool);
    for (part, text) in &said.left_out {
        draft.left_out(part, text);
    }
    for name in &said.unknown_variables {
        draft.missing(
            &format!("${name}"),
            "bakeoff does not know the value of this variable: write the value instead",
        );
    }
    match said.tool {
        "sysbench" => sysbench::translate(&said, &mut draft)?,
        "pgbench" => pgbench::translate(&said, &mut draft)?,
        "memtier_benchmark" => memtier::translate(&said, &mut draft)?,
        "hey" => web::hey(&said, &mut draft)?,
        "oha" => web::oha(&said, &mut draft)?,
        "ab" => web::ab(&said, &mut draft)?,
        _ => web::wrk(&said, &mut draft)?,
    }
    Ok(draft.into_translation())
}

/// Splits a line into words as a shell does, without running anything. Operators are words.
///
/// # Errors
///
/// [`LikeError::Unclosed`], [`LikeError::TooLong`].
pub fn split(line: &str) -> Result<Vec<String>, LikeError> {
    shell::split(line)
}

#[cfg(test)]
mod tests;
