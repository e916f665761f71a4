//! Options of a command line in the forms of `getopt_long`, of Go's `flag`, and of sysbench.

use super::error::LikeError;

/// Option of a tool.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spec {
    /// Names without dashes: those of one letter are short. The first identifies the option.
    pub(super) names: &'static [&'static str],
    /// Whether it has a value.
    pub(super) takes: Takes,
}

/// Whether an option has a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    Value,
    /// A value if one is attached by `=`.
    Attached,
}

/// Shape of the options of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// `-c4`, `-c 4`, `-kq`, `--name=value`, `--name value`, and unique beginnings of long names.
    Getopt,
    /// `-name value`, `-name=value`, with one dash or two; the options end at the first other word.
    Go,
}

/// Option of a command line, or another word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Item {
    Option {
        /// First name of its [`Spec`].
        name: &'static str,
        /// Option as it was written, with its value.
        written: String,
        /// Value; empty if it has none.
        value: String,
    },
    /// An option that the tool does not have, as far as this module knows.
    Unknown(String),
    Word(String),
}

/// Defines the options of a tool: names separated by blanks; `NAME=` takes a value.
macro_rules! specs {
    ($($kind:ident: $([$($name:literal)+])*;)*) => {
        &[$($($crate::like::options::Spec {
            names: &[$($name),+],
            takes: $crate::like::options::Takes::$kind,
        },)*)*]
    };
}
pub(super) use specs;

/// Splits words into options and others.
///
/// # Errors
///
/// A value that is missing.
pub(super) fn scan(
    tool: &'static str,
    words: &[String],
    specs: &'static [Spec],
    style: Style,
) -> Result<Vec<Item>, LikeError> {
    let mut items = Vec::new();
    let mut words = words.iter();
    let mut has_ended = false;
    while let Some(word) = words.next() {
        if has_ended || word == "-" || !word.starts_with('-') {
            has_ended |= style == Style::Go;
            items.push(Item::Word(word.clone()));
        } else if word == "--" {
            has_ended = true;
        } else if style == Style::Go || word.starts_with("--") {
            items.push(long(tool, word, &mut words, specs, style)?);
        } else {
            short(tool, word, &mut words, specs, &mut items)?;
        }
    }
    Ok(items)
}

type Words<'a> = std::slice::Iter<'a, String>;

fn long(
    tool: &'static str,
    word: &str,
    words: &mut Words<'_>,
    specs: &'static [Spec],
    style: Style,
) -> Result<Item, LikeError> {
    let bare = word.trim_start_matches('-');
    let (name, attached) = match bare.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (bare, None),
    };
    let Some(spec) = named(specs, name, style) else { return Ok(Item::Unknown(word.to_owned())) };
    let name = spec.names[0];
    Ok(match (spec.takes, attached) {
        (Takes::Value, None) => {
            let value = words.next().ok_or_else(|| no_value(tool, word))?;
            Item::Option { name, written: format!("{word} {value}"), value: value.clone() }
        }
        // The switch is off, which is the default of every one.
        (Takes::Attached, Some("false" | "f" | "F" | "FALSE" | "False" | "0")) if style == Style::Go => {
            Item::Unknown(word.to_owned())
        }
        (_, value) => {
            Item::Option { name, written: word.to_owned(), value: value.unwrap_or_default().to_owned() }
        }
    })
}

/// The option of this long name, or of a unique beginning of it.
fn named(specs: &'static [Spec], name: &str, style: Style) -> Option<&'static Spec> {
    let is_long = |n: &&&str| style == Style::Go || n.len() > 1;
    let exact = specs.iter().find(|spec| spec.names.iter().filter(is_long).any(|n| *n == name));
    if exact.is_some() || style == Style::Go || name.is_empty() {
        return exact;
    }
    let mut begun =
        specs.iter().filter(|spec| spec.names.iter().filter(is_long).any(|n| n.starts_with(name)));
    begun.next().filter(|_| begun.next().is_none())
}

/// Reads a group of short options: `-kc10` is `-k` and `-c 10`.
fn short(
    tool: &'static str,
    word: &str,
    words: &mut Words<'_>,
    specs: &'static [Spec],
    items: &mut Vec<Item>,
) -> Result<(), LikeError> {
    let mut letters = word[1..].chars();
    while let Some(letter) = letters.next() {
        let mut buffer = [0; 4];
        let letter: &str = letter.encode_utf8(&mut buffer);
        let Some(spec) = specs.iter().find(|spec| spec.names.contains(&letter)) else {
            items.push(Item::Unknown(if word.len() == 2 {
                word.to_owned()
            } else {
                format!("-{letter} in {word}")
            }));
            // The letters after it may be its value.
            return Ok(());
        };
        let name = spec.names[0];
        if spec.takes != Takes::Value {
            items.push(Item::Option { name, written: format!("-{letter}"), value: String::new() });
            continue;
        }
        let attached = letters.as_str();
        let (written, value) = if attached.is_empty() {
            let value = words.next().ok_or_else(|| no_value(tool, word))?;
            (format!("-{letter} {value}"), value.clone())
        } else {
            (format!("-{letter}{attached}"), attached.to_owned())
        };
        items.push(Item::Option { name, written, value });
        return Ok(());
    }
    Ok(())
}

fn no_value(tool: &'static str, option: &str) -> LikeError {
    LikeError::Malformed { tool, problem: format!("{option} needs a value") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: &[Spec] = specs! {
        Value: ["client" "c"] ["time" "T"] ["clear"];
        Nothing: ["k"] ["no-vacuum" "n"];
        Attached: ["tls"];
    };

    fn items(line: &str, style: Style) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let items = match scan("tool", &words, SPECS, style) {
            Ok(items) => items,
            Err(error) => return error.to_string(),
        };
        let shown = items.iter().map(|item| match item {
            Item::Option { name, value, .. } => format!("{name}={value}"),
            Item::Unknown(text) => format!("?{text}"),
            Item::Word(text) => text.clone(),
        });
        shown.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn options_are_read_as_getopt_reads_them() {
        let getopt = |line| items(line, Style::Getopt);
        assert_eq!(getopt("-c4 -c 5 --client=6 --client 7 x"), "client=4 client=5 client=6 client=7 x");
        assert_eq!(getopt("-knc10 --cli 3 --tim=2"), "k= no-vacuum= client=10 client=3 time=2");
        assert_eq!(getopt("--cl 3"), "?--cl 3", "the beginning of two names is neither");
        assert_eq!(getopt("--tls --tls=on -- -k"), "tls= tls=on -k");
        assert_eq!(getopt("-kx4 -"), "k= ?-x in -kx4 -");
        assert_eq!(getopt("-c"), "tool: -c needs a value");
        assert_eq!(getopt("--time"), "tool: --time needs a value");
    }

    #[test]
    fn options_are_read_as_go_reads_them() {
        let go = |line| items(line, Style::Go);
        assert_eq!(
            go("-c 4 --c=5 -no-vacuum -x http://h -c 6"),
            "client= ?-x http://h -c 6".replace("client=", "client=4 client=5 no-vacuum=")
        );
        assert_eq!(go("-cl 4"), "?-cl 4");
    }
}
