//! Secrets from the environment: the value itself, or `{file:PATH}`.

use std::fs::File;
use std::io::{self, Read as _};

use crate::error::SharedError;

/// Largest file with a secret.
const BYTES_MAX: u64 = 64 << 10;

/// Secret in the environment variable `name`; `None` if it is not set.
pub(crate) fn of(name: &'static str) -> Result<Option<String>, SharedError> {
    let Some(value) = std::env::var(name).ok().filter(|value| !value.is_empty()) else { return Ok(None) };
    let path = value.strip_prefix("{file:").and_then(|rest| rest.strip_suffix('}'));
    match path {
        None => Ok(Some(value)),
        Some(path) => read(path).map(Some).map_err(|source| SharedError::Secret { name, source }),
    }
}

fn read(path: &str) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
