//! Names of functions as in their source code.
//!
//! Another user's program chooses its symbols. A mangled name of 300 bytes can stand for one of 100 MB,
//! because its parts refer to each other: writing stops at a limit, and such a name stays mangled.

use std::fmt::{self, Write as _};

/// Maximum length of a printed name, in bytes. Names of real templates stay below.
const NAME_BYTES_MAX: usize = 4 << 10;

/// Name to print for a symbol. Only mangled names are demangled: a C function's name may read like a mangled
/// type, `f` like `float`.
pub(crate) fn shown(symbol: &str) -> String {
    let demangled =
        if is_mangled(symbol) && symbol.len() <= NAME_BYTES_MAX { demangled(symbol) } else { None };
    demangled.unwrap_or_else(|| match symbol.len() {
        0..=NAME_BYTES_MAX => symbol.to_owned(),
        _ => format!("{}...", &symbol[..symbol.floor_char_boundary(NAME_BYTES_MAX - 3)]),
    })
}

/// Whether a name has the prefix of C++ or of one of Rust's schemes.
fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("_R")
}

fn demangled(symbol: &str) -> Option<String> {
    let mut out = BoundedText(String::new());
    if let Ok(name) = rustc_demangle::try_demangle(symbol) {
        return write!(out, "{name:#}").ok().map(|()| out.0);
    }
    let name = cpp_demangle::Symbol::new(symbol).ok()?;
    name.structured_demangle(&mut out, &cpp_demangle::DemangleOptions::default()).ok().map(|()| out.0)
}

/// Text up to the limit; an error beyond.
struct BoundedText(String);

impl fmt::Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.0.len() + text.len() > NAME_BYTES_MAX {
            return Err(fmt::Error);
        }
        self.0.push_str(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_are_mangled_are_demangled() {
        assert!(is_mangled("_ZN4core3fmt5Write9write_fmtE") && is_mangled("_RNvC6_123foo3bar"));
        for name in ["f", "Pi", "i", "main", "_start", "__lll_lock_wait"] {
            assert_eq!(shown(name), name);
        }
        assert_eq!(shown("_Z1f1A"), "f(A)");
        assert_eq!(shown("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE"), "core::fmt::Write::write_fmt");
    }

    #[test]
    fn a_name_that_stands_for_one_without_end_stays_as_it_is() {
        let number = |n: u32| {
            if n == 0 {
                "S_".to_owned()
            } else {
                format!("S{}_", char::from_digit(n - 1, 36).unwrap()).to_uppercase()
            }
        };
        // f(A, Ba<A, A>, Bb<Ba<A, A>, Ba<A, A> >, ...): each is twice the one before.
        let bomb = |doublings: u8| {
            let types = (0..doublings).map(|i| {
                let before = number(u32::from(i) * 2);
                format!("2B{}I{before}{before}E", char::from(b'a' + i))
            });
            format!("_Z1f1A{}", types.collect::<String>())
        };
        assert_eq!(shown(&bomb(2)), "f(A, Ba<A, A>, Bb<Ba<A, A>, Ba<A, A> >)");
        for doublings in 12..18 {
            assert_eq!(shown(&bomb(doublings)), bomb(doublings));
        }
        let long = "x".repeat(100_000);
        assert_eq!(shown(&long).len(), NAME_BYTES_MAX);
    }
}
