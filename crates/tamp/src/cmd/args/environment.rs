//! Options that the environment sets.

use super::Args;
use super::sizes::size;
use std::ffi::OsString;
use tamp::{Format, Level};

impl Args {
    /// Takes options that the command line leaves out from the environment: `TAMP_LEVEL`, `TAMP_THREADS`,
    /// `TAMP_FORMAT`, `TAMP_MEMORY`.
    pub(super) fn take_defaults(
        &mut self,
        environment: &dyn Fn(&str) -> Option<OsString>,
        has_threads: bool,
    ) -> Result<(), String> {
        let value = |name: &str| environment(name).filter(|value| !value.is_empty());
        let wrong = |name: &str, expected: &str| format!("{name} in the environment: expected {expected}");
        let text = |value: &OsString| value.to_str().map(str::to_owned);
        if let Some(value) = value("TAMP_LEVEL").filter(|_| self.level.is_none()) {
            let level = text(&value).and_then(|text| text.parse().ok()).and_then(Level::new);
            self.level = Some(level.ok_or_else(|| wrong("TAMP_LEVEL", "0 to 9"))?);
        }
        if let Some(value) = value("TAMP_THREADS").filter(|_| !has_threads) {
            let threads = text(&value).and_then(|text| text.parse().ok());
            self.threads = threads.ok_or_else(|| wrong("TAMP_THREADS", "a number"))?;
        }
        if let Some(value) = value("TAMP_MEMORY").filter(|_| self.memory.is_none()) {
            let bytes = text(&value).and_then(|text| size(&text).ok());
            self.memory = Some(bytes.ok_or_else(|| wrong("TAMP_MEMORY", "a size such as 256MiB"))?);
        }
        // An option that only Zstandard supports chooses the format, too.
        let is_zst =
            self.zst || self.long.is_some() || self.dictionary.is_some() || self.patch_from.is_some();
        let typed = [(is_zst, Format::Zst), (self.lz4, Format::Lz4), (self.bgzf, Format::Bgzf)];
        self.chosen = typed.iter().find(|(is_typed, _)| *is_typed).map(|&(_, format)| format);
        if self.chosen.is_none() {
            self.chosen = self.suffix_of_output().and_then(|suffix| suffix.format);
        }
        if let Some(value) = value("TAMP_FORMAT").filter(|_| self.chosen.is_none()) {
            let format = value.to_str().and_then(Format::of_name);
            self.chosen = Some(format.ok_or_else(|| wrong("TAMP_FORMAT", "zst, lz4 or bgzf"))?);
        }
        // A default must not conflict with an option.
        self.chosen = self.chosen.filter(|&format| self.lz4 || !(self.rsyncable && format == Format::Lz4));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_typed_comes_from_the_environment() {
        let read = |line: &str, set: &[(&str, &str)]| {
            let environment = |name: &str| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            Args::read(line.split(' ').map(OsString::from), &environment)
        };
        let set =
            [("TAMP_LEVEL", "5"), ("TAMP_THREADS", "1"), ("TAMP_FORMAT", "lz4"), ("TAMP_MEMORY", "1GiB")];
        let args = read("tamp x", &set).unwrap();
        assert_eq!((args.level, args.threads(), args.format()), (Level::new(5), 1, Format::Lz4));
        assert_eq!(args.reading().memory_bytes, 1 << 30);
        let args = read("tamp -2 -T0 --zst --memory 1M x", &set).unwrap();
        assert_eq!((args.level, args.format()), (Level::new(2), Format::Zst));
        assert_eq!((args.threads(), args.reading().memory_bytes), (tamp::threads_allowed(), 1 << 20));
        assert_eq!(read("tamp --long x", &set).unwrap().format(), Format::Zst);
        for name in ["TAMP_LEVEL", "TAMP_THREADS", "TAMP_FORMAT", "TAMP_MEMORY"] {
            let error = read("tamp x", &[(name, "nonsense")]).unwrap_err().to_string();
            assert!(error.contains(name), "{error}");
            assert!(read("tamp x", &[(name, "")]).is_ok());
        }
    }
}
