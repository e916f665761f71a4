//! A page as one HTML file: no network; light and dark; readable in print, on a telephone, without script.
//!
//! A page with figures over time has one script, always the same: zoom and values under the cursor.

use std::fmt::Write;

use record::printable::is_unseen;

use crate::page::{Block, Course, Figure, Folded, Grid, Page, Section, Table, Tone, Words};

const STYLE: &str = include_str!("page.css");
/// Style of what the script adds to a page.
const SCRIPT_STYLE: &str = concat!(include_str!("uplot/uPlot.min.css"), "\n", include_str!("explore.css"));
/// The script of pages with figures over time, without its tags: uPlot with its licence, and our use of it.
pub const SCRIPT: &str = concat!(
    "/*\n",
    include_str!("uplot/LICENSE"),
    "*/\n",
    include_str!("uplot/uPlot.iife.min.js"),
    "\n",
    include_str!("explore.js")
);

/// Text that is safe between tags and in attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML forbids these characters, and some of them change the order in which text is displayed.
            c if is_unseen(c) && !matches!(c, '\n' | '\t') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// Text with true minus signs, and with no line break between a number and its unit.
fn typeset(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // The start of a text counts as an opening bracket.
    let mut before = '(';
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let is_sign = letter == '-' && is_sign(before, letters.clone());
        out.push(if is_sign { '\u{2212}' } else { letter });
        before = letter;
    }
    // A number and its percent sign stay on one line.
    escape(&out).replace("&gt;=", "≥\u{202f}").replace(" %", "\u{a0}%")
}

/// Whether a hyphen between `before` and `after` makes a number negative. `gzip -1` has an option.
fn is_sign(before: char, after: impl Iterator<Item = char>) -> bool {
    let after: String = after.take_while(|c| c.is_ascii_digit() || matches!(c, '.' | ' ' | '%')).collect();
    let number = after.starts_with(|c: char| c.is_ascii_digit());
    match before {
        '[' | '(' => number,
        ' ' => number && (after.contains('%') || after.trim_end().contains('.')),
        _ => false,
    }
}

struct Html {
    out: String,
    /// Number of figures so far; gives their ids.
    figures: usize,
}

/// Writes the page.
pub(crate) fn render(page: &Page) -> String {
    let mut html = Html { out: String::new(), figures: 0 };
    let has_script = page.figures().any(|figure| figure.data.course.is_some());
    html.put(format_args!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{title}</title>\n<style>\n{STYLE}{more}</style>\n</head>\n<body>\n",
        title = escape(&page.title),
        more = if has_script { SCRIPT_STYLE } else { "" }
    ));
    html.head(page);
    html.put(format_args!("<main>\n"));
    for section in &page.sections {
        html.section(section);
    }
    for folded in &page.folded {
        html.folded(folded);
    }
    html.put(format_args!("</main>\n"));
    if has_script {
        html.put(format_args!("<script>{SCRIPT}</script>\n"));
    }
    html.put(format_args!("</body>\n</html>\n"));
    html.out
}

impl Html {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to a String cannot fail");
    }

    fn head(&mut self, page: &Page) {
        self.put(format_args!("<header>\n<p class=\"kicker\">{}</p>\n", escape(&page.title)));
        let tone = page.standing.tone.map_or("even", class);
        self.put(format_args!(
            "<p class=\"standing {tone}\">{}</p>\n<h1>{}</h1>\n",
            escape(&page.standing.text),
            typeset(&page.claim)
        ));
        let byline: Vec<String> = page.byline.iter().map(|b| format!("<span>{}</span>", escape(b))).collect();
        self.put(format_args!("<p class=\"byline\">{}</p>\n", byline.join("\n")));
        for block in &page.lead {
            self.block(block);
        }
        if !page.caveats.is_empty() {
            self.put(format_args!("<ul class=\"caveats\">\n"));
            for caveat in &page.caveats {
                self.put(format_args!("<li>{}</li>\n", typeset(caveat)));
            }
            self.put(format_args!("</ul>\n"));
        }
        if !page.question.is_empty() {
            self.put(format_args!("<p class=\"question\">{}</p>\n", escape(&page.question)));
        }
        self.put(format_args!("</header>\n"));
    }

    fn section(&mut self, section: &Section) {
        self.put(format_args!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{}</h2>\n",
            escape(section.title),
            id = section.id
        ));
        for block in &section.blocks {
            self.block(block);
        }
        self.put(format_args!("</section>\n"));
    }

    fn folded(&mut self, folded: &Folded) {
        let section = &folded.section;
        self.put(format_args!(
            "<section id=\"{id}\" aria-labelledby=\"{id}-title\">\n<details class=\"folded\">\n<summary>\
             <h2 id=\"{id}-title\">{}</h2> <span>{}</span></summary>\n",
            escape(section.title),
            escape(&folded.note),
            id = section.id
        ));
        for block in &section.blocks {
            self.block(block);
        }
        self.put(format_args!("</details>\n</section>\n"));
    }

    fn block(&mut self, block: &Block) {
        match block {
            Block::Text(text) => self.put(format_args!("<p>{}</p>\n", typeset(text))),
            Block::Quoted(text) => {
                self.put(format_args!("<div class=\"notes\">\n"));
                for paragraph in text.split("\n\n").map(str::trim).filter(|p| !p.is_empty()) {
                    self.put(format_args!("<p>{}</p>\n", escape(paragraph)));
                }
                self.put(format_args!("</div>\n"));
            }
            Block::List(items) => {
                self.put(format_args!("<ul>\n"));
                for item in items {
                    self.put(format_args!("<li>{}</li>\n", typeset(item)));
                }
                self.put(format_args!("</ul>\n"));
            }
            Block::Table(table) => self.table(table),
            Block::Folded(table) => {
                self.put(format_args!("<details><summary>{}</summary>\n", escape(&table.caption)));
                self.table(table);
                self.put(format_args!("</details>\n"));
            }
            Block::Figure(figure) => self.figure(figure),
            Block::Grids(grids) => {
                self.put(format_args!("<div class=\"grids\">\n"));
                for grid in grids {
                    self.grid(grid);
                }
                self.put(format_args!("</div>\n"));
            }
            Block::Code { title, text } => self.put(format_args!(
                "<details><summary>{}</summary>\n<pre tabindex=\"0\">{}</pre>\n</details>\n",
                escape(title),
                escape(text)
            )),
        }
    }

    fn grid(&mut self, grid: &Grid) {
        // More conditions than this need the width of the page.
        let width = if grid.columns.len() > 4 { " whole" } else { "" };
        let caption = escape(&grid.caption);
        self.put(format_args!(
            "<div class=\"scroll{width}\" tabindex=\"0\" role=\"group\" aria-label=\"{caption}\">\
             <table class=\"verdicts\">\n<caption>{caption}</caption>\n"
        ));
        if grid.columns.iter().any(|column| !column.is_empty()) {
            self.put(format_args!("<thead><tr><td></td>"));
            for column in &grid.columns {
                self.put(format_args!("<th scope=\"col\">{}</th>", escape(column)));
            }
            self.put(format_args!("</tr></thead>\n"));
        }
        self.put(format_args!("<tbody>\n"));
        for row in &grid.rows {
            let (name, series) = (escape(&row.name), row.series % 7);
            self.put(format_args!("<tr><th scope=\"row\" class=\"s{series}\">{name}</th>"));
            for cell in &row.cells {
                match cell {
                    Some(cell) => self.put(format_args!(
                        "<td class=\"{}\"><b>{}</b> <span>{} {}</span></td>",
                        class(cell.tone),
                        typeset(&cell.ratio),
                        cell.sign,
                        cell.word
                    )),
                    None => self.put(format_args!("<td>-</td>")),
                }
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody></table></div>\n"));
    }

    fn table(&mut self, table: &Table) {
        self.put(format_args!(
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{caption}\"><table>\n\
             <caption>{caption}</caption>\n<thead><tr>",
            caption = escape(&table.caption)
        ));
        for column in &table.columns {
            let class = if column.numeric { " class=\"n\"" } else { "" };
            if column.head.is_empty() {
                self.put(format_args!("<td></td>"));
            } else {
                self.put(format_args!("<th scope=\"col\"{class}>{}</th>", escape(&column.head)));
            }
        }
        self.put(format_args!("</tr></thead>\n<tbody>\n"));
        for row in &table.rows {
            self.put(format_args!("<tr>"));
            for (cell, column) in row.iter().zip(&table.columns) {
                self.cell(cell, column.numeric);
            }
            self.put(format_args!("</tr>\n"));
        }
        self.put(format_args!("</tbody></table></div>\n"));
    }

    fn cell(&mut self, cell: &Words, numeric: bool) {
        let class = if numeric { " class=\"n\"" } else { "" };
        let text = if numeric { typeset(&cell.text) } else { escape(&cell.text) };
        match cell.tone {
            Some(tone) => {
                self.put(format_args!(
                    "<td{class}><span class=\"word {}\">{text}</span></td>",
                    self::class(tone)
                ));
            }
            None => self.put(format_args!("<td{class}>{text}</td>")),
        }
    }

    fn figure(&mut self, figure: &Figure) {
        self.figures += 1;
        let number = self.figures;
        let course = figure.data.course.as_ref().map(course).unwrap_or_default();
        self.put(format_args!(
            "<figure id=\"figure-{number}\"{course}>\n<figcaption><b>Figure {number}. {}.</b> {}</figcaption>\n",
            escape(&figure.title),
            typeset(&figure.caption)
        ));
        for (form, svg) in [("wide", &figure.drawing.wide), ("narrow", &figure.drawing.narrow)] {
            let id = format!("figure-{number}-{form}");
            self.put(format_args!(
                "<svg class=\"{form}\" viewBox=\"0 0 {:.0} {:.0}\" role=\"img\" \
                 aria-labelledby=\"{id}-title {id}-desc\" xmlns=\"http://www.w3.org/2000/svg\">\n\
                 <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{}</svg>\n",
                svg.width,
                svg.height,
                escape(&figure.title),
                escape(&figure.description),
                svg.body
            ));
        }
        self.put(format_args!("<details><summary>The numbers of figure {number}</summary>\n"));
        self.table(&figure.data);
        self.put(format_args!("</details>\n</figure>\n"));
    }
}

/// Facts of a figure for the script: the columns of its table that are lines, and their axis.
fn course(course: &Course) -> String {
    let columns: Vec<String> = course.columns.iter().map(usize::to_string).collect();
    format!(" data-lines=\"{}\" data-scale=\"{}\"", columns.join(" "), course.axis)
}

fn class(tone: Tone) -> &'static str {
    match tone {
        Tone::Good => "good",
        Tone::Bad => "bad",
        Tone::Doubt => "doubt",
        Tone::Even => "even",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_a_tag_or_leaves_an_attribute() {
        assert_eq!(
            escape("<a href=\"x\" title='y'>&\u{1}"),
            "&lt;a href=&quot;x&quot; title=&#39;y&#39;&gt;&amp;\u{fffd}"
        );
    }

    #[test]
    fn a_sign_is_a_minus_and_a_hyphen_stays_one() {
        assert_eq!(
            typeset("[-7.0 %, +9.2 %] at 2026-11-21"),
            "[\u{2212}7.0\u{a0}%, +9.2\u{a0}%] at 2026-11-21"
        );
        assert_eq!(typeset(">=1ms"), "≥\u{202f}1ms");
        assert_eq!(typeset("gzip -1, pigz -1 -p2: -50 %"), "gzip -1, pigz -1 -p2: \u{2212}50\u{a0}%");
        assert_eq!(typeset("-3 ms to -0.5 ms"), "\u{2212}3 ms to \u{2212}0.5 ms");
    }
}
