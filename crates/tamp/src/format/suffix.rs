//! What compressed files are called.

use crate::Format;

/// What the suffix of a file's name says, in capitals or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Suffix {
    /// Without its dot.
    pub name: &'static str,
    /// The format that tamp writes under such a name; `None`: it only reads such files.
    pub format: Option<Format>,
    /// The suffix of the content; empty: none.
    pub content: &'static str,
}

/// All of them; of each format the usual one first.
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
    /// The suffix with this name, given without its dot; `None`: it is not one of compressed files.
    pub fn of(name: &str) -> Option<Self> {
        SUFFIXES.into_iter().find(|suffix| suffix.name.eq_ignore_ascii_case(name))
    }
}

impl Format {
    /// How its files are named.
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
