//! The same text on a narrow terminal and on a wide one.

use bakeoff_report::text::Style;

/// The text at 40 and at 100 columns.
pub(crate) fn narrow_and_wide(write: impl Fn(&mut Vec<u8>, Style) -> std::io::Result<()>) -> String {
    let at = |width| {
        let mut out = Vec::new();
        write(&mut out, Style { width, color: false }).expect("writing to memory cannot fail");
        format!("--- {width} columns\n{}", String::from_utf8(out).expect("it is text"))
    };
    [40, 100].map(at).concat()
}
