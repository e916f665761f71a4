//! A page in the requested form.

use std::path::Path;

use crate::page::Page;
use crate::{html, markdown};

/// The form of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// One HTML file, with its pictures.
    Html,
    /// Markdown: the tables without the pictures.
    Markdown,
}

impl Form {
    /// The form for a file name's extension; `None` for other extensions.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "html" | "htm" => Some(Self::Html),
            "md" | "markdown" => Some(Self::Markdown),
            _ => None,
        }
    }
}

/// The text of a page. The same archive and the same version give the same bytes.
pub fn render(page: &Page, form: Form) -> String {
    match form {
        Form::Html => html::render(page),
        Form::Markdown => markdown::render(page),
    }
}
