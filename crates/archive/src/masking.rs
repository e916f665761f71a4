//! The archive's own gate against passwords: whatever a caller forgot to mask is masked before it reaches a file.

use record::target::{self, Target};

/// The text of a document with every password masked: those of URLs, and `target` wherever it stands.
///
/// Works on the text rather than on its fields, so that a field that is added later is covered.
pub(crate) fn mask(document: Vec<u8>, target: Option<&Target>) -> Vec<u8> {
    let mut text = String::from_utf8(document).expect("serde_json writes UTF-8");
    if let Some(target) = target.filter(|t| t.expose() != t.masked()) {
        text = text.replace(&in_json(target.expose()), &in_json(&target.masked()));
    }
    target::mask_text(&text).into_bytes()
}

/// As it stands inside a JSON string.
fn in_json(text: &str) -> String {
    let quoted = serde_json::to_string(text).expect("text is always JSON");
    quoted[1..quoted.len() - 1].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_stays_a_document_and_loses_its_passwords() {
        let target = Target::new(r#"mysql://app:se"cr\et pass@localhost/bench"#);
        let shown = serde_json::json!({
            "command": format!("load {} --rate 5", target.expose()),
            "also": "saw postgres://u:hush@h/db, then failed",
        });
        let text = mask(serde_json::to_vec(&shown).unwrap(), Some(&target));
        let again: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(again["command"], "load mysql://app:***@localhost/bench --rate 5");
        assert_eq!(again["also"], "saw postgres://u:***@h/db, then failed");
    }
}
