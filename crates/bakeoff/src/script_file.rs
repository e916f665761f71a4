//! Files of scripts, as the command line names them.

use record::load::ScriptFile;

use crate::text_file;

/// Reads `FILE` or `FILE@WEIGHT`, as in pgbench, and the file; `builtin-NAME` is a script of pgbench itself.
pub(crate) fn script(text: &str) -> Result<ScriptFile, String> {
    let (name, weight) = match text.rsplit_once('@') {
        Some((name, weight)) if !weight.contains('/') => {
            let weight = weight.parse();
            (
                name,
                weight
                    .map_err(|_| "the weight after `@` is a whole number, as in transfer.sql@3".to_owned())?,
            )
        }
        _ => (text, 1),
    };
    let text = match plan::like::builtin_script(name) {
        Some(text) => text.to_owned(),
        None => text_file::read(name.as_ref(), text_file::DOCUMENT_BYTES_MAX)
            .map_err(|e| format!("cannot read {name}: {e}"))?,
    };
    Ok(ScriptFile { name: name.to_owned(), weight, text })
}
