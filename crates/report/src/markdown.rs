//! A page as Markdown: for a repository, a wiki, a ticket. Pictures stay behind; the tables say what they show.

use std::fmt::Write;

use analysis::Comparisons;
use analysis::scale::{Scale, Versus};
use analysis::sweep::{self, Sweep};
use record::bakeoff::Bakeoff;
use record::environment::Environment;
use record::run::Run;

use crate::page::{self, Block, Page, Table};

/// The page of a bake-off.
pub fn page(bakeoff: &Bakeoff, comparisons: &Comparisons) -> String {
    render(&page::bakeoff(bakeoff, comparisons))
}

/// The page of a single load run.
pub fn load(run: &Run) -> String {
    render(&page::load(run))
}

/// One machine, or several side by side.
pub fn hosts(hosts: &[(String, &Environment)]) -> String {
    render(&page::hosts(hosts))
}

/// The page of a sweep over buffer sizes, and of what it says beside another.
pub fn sweep(bakeoff: &Bakeoff, sweep: &Sweep, versus: &[sweep::Versus]) -> String {
    render(&page::sweep(bakeoff, sweep, versus))
}

/// The page of a scale run, and of what it says beside another.
pub fn scale(bakeoff: &Bakeoff, scale: &Scale, versus: Option<&Versus>) -> String {
    render(&page::scale(bakeoff, scale, versus))
}

fn render(page: &Page) -> String {
    let mut out = format!(
        "# {}\n\n**{}:** {}\n\n",
        escape(&page.title),
        escape(&page.standing.text),
        escape(&page.claim)
    );
    for caveat in &page.caveats {
        put(&mut out, format_args!("- {}\n", escape(caveat)));
    }
    if !page.caveats.is_empty() {
        out.push('\n');
    }
    put(&mut out, format_args!("{}\n", escape(&page.byline.join(" · "))));
    if !page.question.is_empty() {
        put(&mut out, format_args!("\n> {}\n", escape(&page.question)));
    }
    for section in &page.sections {
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
        // The author wrote Markdown: it stays as it is.
        Block::Quoted(text) => put(out, format_args!("{}\n", text.trim_end())),
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
        Block::Code { title, text } => {
            // A fence longer than any run of backticks in the text cannot be closed by it.
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

/// Text as text: nothing in it is a table's bar, emphasis, code, a link or HTML, and it stays on its line.
fn escape(text: &str) -> String {
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
    out
}

fn put(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a String cannot fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("a|b <c> *d*\n[e](f)"), r"a\|b &lt;c&gt; \*d\* \[e\](f)");
    }
}
