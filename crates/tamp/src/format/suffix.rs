//! Suffixes of compressed files.

use crate::Format;

/// Meaning of a file name's suffix; case does not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suffix {
    /// Suffix without its dot.
    pub name: &'static str,
    /// Format that tamp writes for this suffix; `None` if it only reads such files.
    pub format: Option<Format>,
    /// Suffix of the content; may be empty.
    pub content: &'static str,
}

/// All suffixes; the first of each format is its default.
const SUFFIXES: [Suffix; 12] = [
    suffix("zst", Some(Format::Zst), ""),
    suffix("tzst", Some(Format::Zst), "tar"),
    suffix("lz4", Some(Format::Lz4), ""),
    suffix("tlz4", Some(Format::Lz4), "tar"),
    suffix("gz", Some(Format::Bgzf), ""),
    suffix("tgz", Some(Format::Bgzf), "tar"),
    suffix("taz", Some(Format::Bgzf), "tar"),
    suffix("bgz", Some(Format::Bgzf), ""),
    suffix("bgzf", Some(Format::Bgzf), ""),
    suffix("zz", None, ""),
    suffix("zlib", None, ""),
    suffix("tzz", None, "tar"),
];

const fn suffix(name: &'static str, format: Option<Format>, content: &'static str) -> Suffix {
    Suffix { name, format, content }
}

impl Suffix {
    /// Returns the suffix with this name, given without its dot; `None` if it is not one of compressed files.
    pub fn of(name: &str) -> Option<Self> {
        SUFFIXES.into_iter().find(|suffix| suffix.name.eq_ignore_ascii_case(name))
    }
}

impl Format {
    /// Default suffix of its files.
    pub fn suffix(self) -> &'static str {
        let usual = SUFFIXES.iter().find(|suffix| suffix.format == Some(self));
        usual.expect("every format has a suffix").name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_has_its_usual_suffix_and_capitals_do_not_count() {
        for (format, name) in [(Format::Zst, "zst"), (Format::Lz4, "lz4"), (Format::Bgzf, "gz")] {
            assert_eq!(format.suffix(), name);
            assert_eq!(Suffix::of(&name.to_uppercase()).unwrap().format, Some(format));
        }
        assert_eq!((Suffix::of("zz").unwrap().format, Suffix::of("txt")), (None, None));
        assert_eq!(Suffix::of("tlz4").map(|suffix| suffix.content), Some("tar"));
    }
}
