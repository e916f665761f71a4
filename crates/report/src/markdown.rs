//! A page as Markdown, for a repository, a wiki or a ticket. Pictures are left out; the tables hold the same
//! data.

use std::borrow::Cow;
use std::fmt::Write;

use record::printable::{printable, printable_block};

use crate::page::{Block, Grid, GridCell, Page, Table};

/// Writes the page.
pub(crate) fn render(page: &Page) -> String {
    let mut out = format!(
        "# {}\n\n**{}:** {}\n\n",
        escape(&page.title),
        escape(&page.standing.text),
        escape(&page.claim)
    );
    put(&mut out, format_args!("{}\n", escape(&page.byline.join(" · "))));
    for block in &page.lead {
        out.push('\n');
        render_block(&mut out, block);
    }
    if !page.caveats.is_empty() {
        out.push('\n');
    }
    for caveat in &page.caveats {
        put(&mut out, format_args!("- {}\n", escape(caveat)));
    }
    if !page.question.is_empty() {
        put(&mut out, format_args!("\n> {}\n", escape(&page.question)));
    }
    for section in page.sections.iter().chain(page.folded.iter().map(|f| &f.section)) {
        put(&mut out, format_args!("\n## {}\n", section.title));
        for block in &section.blocks {
            out.push('\n');
            render_block(&mut out, block);
        }
    }
    out
}

fn render_block(out: &mut String, block: &Block) {
    match block {
        Block::Text(text) => put(out, format_args!("{}\n", escape(text))),
        Block::Quoted(text) => put(out, format_args!("{}\n", tame(text))),
        Block::List(items) => {
            for item in items {
                put(out, format_args!("- {}\n", escape(item)));
            }
        }
        Block::Table(table) | Block::Folded(table) => render_table(out, table),
        Block::Figure(figure) => {
            put(out, format_args!("**{}.** {}\n\n", escape(&figure.title), escape(&figure.caption)));
            render_table(out, &figure.data);
        }
        Block::Grids(grids) => {
            for (i, grid) in grids.iter().enumerate() {
                if i > 0 {
                    out.push('\n');
                }
                render_grid(out, grid);
            }
        }
        Block::Code { title, text } => {
            // A fence longer than any run of backticks in the text cannot be closed by it.
            let text = printable_block(text);
            let mut fence = "```".to_owned();
            while text.contains(&fence) {
                fence.push('`');
            }
            put(out, format_args!("{}:\n\n{fence}text\n{}\n{fence}\n", escape(title), text.trim_end()));
        }
    }
}

fn render_table(out: &mut String, table: &Table) {
    put(out, format_args!("*{}*\n\n", escape(&table.caption)));
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    out.push_str(&row(table.columns.iter().map(|c| escape(&c.head)).collect()));
    let rule = |numeric: bool| if numeric { "---:" } else { "---" }.to_owned();
    out.push_str(&row(table.columns.iter().map(|c| rule(c.numeric)).collect()));
    for cells in &table.rows {
        out.push_str(&row(cells.iter().map(|c| escape(&c.text)).collect()));
    }
}

fn render_grid(out: &mut String, grid: &Grid) {
    let heads: Vec<&str> =
        ["configuration"].into_iter().chain(grid.columns.iter().map(String::as_str)).collect();
    let mut table = Table::new(grid.caption.clone(), &heads);
    for row in &grid.rows {
        let told = |cell: &Option<GridCell>| {
            cell.as_ref().map_or("-".to_owned(), |c| format!("{} {} {}", c.ratio, c.sign, c.word))
        };
        let cells = row.cells.iter().map(|cell| told(cell).into());
        table.row([row.name.clone().into()].into_iter().chain(cells).collect());
    }
    render_table(out, &table);
}

/// Escapes text so that no part of it is a table's bar, emphasis, code, a link or HTML, and it stays on one
/// line.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '|' | '*' | '`' | '[' | ']' | '\\' | '_' => {
                out.push('\\');
                out.push(letter);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '\n' | '\r' => out.push(' '),
            _ => out.push(letter),
        }
    }
    match printable(&out) {
        Cow::Borrowed(_) => out,
        Cow::Owned(written) => written,
    }
}

/// An author's Markdown without active content and without HTML that could pass for the page's: tags and
/// entities are escaped, and links lead only to pages that a browser fetches.
fn tame(text: &str) -> String {
    let text = printable_block(text.trim_end());
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let next = letters.peek().copied().unwrap_or(' ');
        match letter {
            '<' if next.is_ascii_alphabetic() || matches!(next, '/' | '!' | '?') => out.push_str("&lt;"),
            '&' if next.is_ascii_alphabetic() || next == '#' => out.push_str("&amp;"),
            ':' if SCRIPTS.iter().any(|scheme| ends_with_scheme(&out, scheme)) => out.push_str("%3A"),
            _ => out.push(letter),
        }
    }
    out
}

/// Schemes of links that run code or hold content.
const SCRIPTS: [&str; 3] = ["javascript", "vbscript", "data"];

/// Whether `text` ends with this scheme in the way that a link begins. Backslashes vanish in links.
fn ends_with_scheme(text: &str, scheme: &str) -> bool {
    let tail: String = text.chars().rev().filter(|c| *c != '\\').take(scheme.len() + 1).collect();
    let tail: String = tail.chars().rev().collect();
    let word = tail.get(tail.len().saturating_sub(scheme.len())..).unwrap_or_default();
    word.eq_ignore_ascii_case(scheme)
        && !tail.starts_with(|c: char| tail.len() > scheme.len() && c.is_alphanumeric())
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_authors_markdown_stays_and_runs_nothing() {
        for (text, tamed) in [
            ("# Notes\n\n- *one* [site](https://a.b/?x=1)", "# Notes\n\n- *one* [site](https://a.b/?x=1)"),
            ("a < b && c > d", "a < b && c > d"),
            ("<script>x</script><!-- <?x", "&lt;script>x&lt;/script>&lt;!-- &lt;?x"),
            ("[x](JavaScript:alert(1))", "[x](JavaScript%3Aalert(1))"),
            ("[x]( java\\script:y)", "[x]( java\\script%3Ay)"),
            ("[x](java&#115;cript:y)", "[x](java&amp;#115;cript:y)"),
            ("[x]: data:text/html,y", "[x]: data%3Atext/html,y"),
            ("metadata: 7", "metadata: 7"),
            ("a\u{1b}[2J\u{202e}b", r"a\x1b[2J\u{202e}b"),
        ] {
            assert_eq!(tame(text), tamed);
        }
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("a|b <c> *d*\n[e](f)"), r"a\|b &lt;c&gt; \*d\* \[e\](f)");
    }
}
