//! Sizes and ranges of bytes.

use std::ops::Range;

/// Parses `256KiB`, `1M` or `4096`: units are powers of 1024, except `kB`, `MB`, `GB`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| "expected a size such as 256KiB".to_owned())?;
    let factor: u64 = match unit.trim() {
        "" | "B" => 1,
        "K" | "k" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        "T" | "TiB" => 1 << 40,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        _ => return Err("expected a size such as 256KiB".into()),
    };
    number.checked_mul(factor).ok_or_else(|| "this size does not fit in 64 bits".into())
}

/// Parses `A:B`; each side may be missing.
pub(super) fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once(':').ok_or("expected A:B, two byte offsets such as 1MiB:2MiB")?;
    let from = if from.is_empty() { 0 } else { size(from)? };
    let to = if to.is_empty() { u64::MAX } else { size(to)? };
    if from > to { Err("the range ends before it begins".into()) } else { Ok(from..to) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_ranges_read_as_written() {
        assert_eq!((size("256KiB"), size("1M"), size("7")), (Ok(262_144), Ok(1_048_576), Ok(7)));
        for wrong in ["", "x", "1X", "-1", "99999999999T"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((range("1K:2K"), range(":5"), range("5:")), (Ok(1024..2048), Ok(0..5), Ok(5..u64::MAX)));
        for wrong in ["5", "6:5", "a:b"] {
            assert!(range(wrong).is_err(), "{wrong}");
        }
    }
}
