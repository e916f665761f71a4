//! Secrets of a plan during its execution: read once, passed to the processes and the load, and masked in
//! every text.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader, Read};

use plan::{Plan, Reference};

use crate::error::RunnerError;

/// Minimum length of a text that is hidden on its own: a shorter one is part of too many words.
const HIDDEN_BYTES_MIN: usize = 4;

/// Values of a plan's references. `Debug` shows none of them.
#[derive(Clone, Default)]
pub(crate) struct Secrets(BTreeMap<Reference, String>);

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl Secrets {
    /// Reads every secret that a plan refers to.
    pub(crate) fn read(plan: &Plan) -> Result<Self, RunnerError> {
        let mut values = BTreeMap::new();
        for reference in plan.secrets() {
            let value = match &reference {
                Reference::Env(name) => std::env::var(name).map_err(|e| e.to_string()),
                Reference::File(path) => fs::read_to_string(path)
                    .map(|text| {
                        text.strip_suffix('\n').map_or(text.clone(), |t| t.trim_end_matches('\r').to_owned())
                    })
                    .map_err(|e| e.to_string()),
            };
            let value = value.map_err(|why| RunnerError::Secret { reference: reference.to_string(), why })?;
            values.insert(reference, value);
        }
        Ok(Self(values))
    }

    /// Returns the plan with its secrets, for execution. It must never be stored.
    pub(crate) fn reveal(&self, plan: &Plan) -> Plan {
        plan.revealed(&|reference| self.0.get(reference).cloned().unwrap_or_else(|| reference.to_string()))
    }

    /// Replaces each secret in a text by its reference.
    pub(crate) fn hide(&self, text: &str) -> String {
        String::from_utf8(self.hide_bytes(text.as_bytes())).expect("text is replaced by text")
    }

    /// Replaces each secret in bytes by its reference. The longest value wins at each place.
    fn hide_bytes(&self, bytes: &[u8]) -> Vec<u8> {
        let hidden = self.longest_first();
        let mut shown = Vec::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((first, tail)) = rest.split_first() {
            if let Some((value, reference)) =
                hidden.iter().find(|(value, _)| rest.starts_with(value.as_bytes()))
            {
                shown.extend(reference.to_string().into_bytes());
                rest = &rest[value.len()..];
            } else {
                shown.push(*first);
                rest = tail;
            }
        }
        shown
    }

    /// Returns each line of each value, since a server may print a value in several lines.
    fn longest_first(&self) -> Vec<(&str, &Reference)> {
        let lines =
            self.0.iter().flat_map(|(reference, value)| value.lines().map(move |line| (line, reference)));
        let mut lines: Vec<_> = lines.filter(|(line, _)| line.len() >= HIDDEN_BYTES_MIN).collect();
        lines.sort_by_key(|(line, _)| std::cmp::Reverse(line.len()));
        lines
    }

    /// Replaces each secret in a log by its reference, line by line.
    pub(crate) fn hide_in(&self, log: impl Read) -> impl Read {
        Hidden { secrets: self.clone(), log: BufReader::new(log), line: Vec::new(), at: 0 }
    }
}

/// Length above which a line of a log is split.
const LINE_BYTES_MAX: u64 = 1 << 20;

struct Hidden<R> {
    secrets: Secrets,
    log: BufReader<R>,
    line: Vec<u8>,
    at: usize,
}

impl<R: Read> Read for Hidden<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            self.line.clear();
            self.at = 0;
            self.log.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut self.line)?;
            if !self.secrets.0.is_empty() {
                self.line = self.secrets.hide_bytes(&self.line);
            }
        }
        let count = buffer.len().min(self.line.len() - self.at);
        buffer[..count].copy_from_slice(&self.line[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets() -> Secrets {
        let of = |name: &str| Reference::Env(name.to_owned());
        Secrets(BTreeMap::from([(of("PW"), "hu\"sh 77".to_owned()), (of("ONE"), "x".to_owned())]))
    }

    #[test]
    fn a_text_has_the_reference_for_the_secret() {
        assert_eq!(secrets().hide("no: hu\"sh 77, x"), "no: {env:PW}, x");
        assert!(!format!("{:?}", secrets()).contains("hu"));
    }

    #[test]
    fn the_longest_secret_is_hidden_first() {
        let of = |name: &str| Reference::Env(name.to_owned());
        let values = [("AA", "hunterzz"), ("BB", "hunterzz2REST"), ("CC", "2REST")];
        let secrets = Secrets(values.map(|(name, value)| (of(name), value.to_owned())).into());
        assert_eq!(secrets.hide("hunterzz2REST hunterzz 2REST"), "{env:BB} {env:AA} {env:CC}");
    }

    #[test]
    fn a_log_has_it_too_and_every_other_byte_as_it_was() {
        let log: &[u8] = b"one\r\n\xff\xfe\nlogin hu\"sh 77 ok\n\n\xff bad hu\"sh 77\xfe\nlast";
        let mut hidden = Vec::new();
        secrets().hide_in(log).read_to_end(&mut hidden).unwrap();
        assert_eq!(hidden, b"one\r\n\xff\xfe\nlogin {env:PW} ok\n\n\xff bad {env:PW}\xfe\nlast");
    }
}
