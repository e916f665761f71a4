//! A page against another: does every number of the one stand at the same place in the other?

use std::collections::BTreeMap;

use crate::provenance::split;

/// Result of a comparison of a page with the page that the archive gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// Whether the pages have the same bytes.
    pub same_bytes: bool,
    /// Number of texts with a number on the page.
    pub numbers: usize,
    /// Texts that differ, in the order of the page.
    pub differing: Vec<Differing>,
}

/// A text that differs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Differing {
    /// The place on the page: section, table, row and column.
    pub place: String,
    /// The text on the page; `None` if it lacks it.
    pub page: Option<String>,
    /// The text that the archive gives; `None` if it gives none there.
    pub archive: Option<String>,
}

/// A text on a page.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Piece {
    place: String,
    text: String,
}

/// Compares a page with the one that the archive gives.
///
/// Each text of a page has a place: its section, and in a table its row and column. Texts at the same place
/// must be equal. Drawings are compared as a whole.
pub fn compare(page: &str, archive: &str) -> Proof {
    let same_bytes = page == archive;
    let [ours, theirs] =
        [page, archive].map(|text| pieces(&split(text).map_or_else(|| text.to_owned(), |(_, rest)| rest)));
    let numbers = ours.iter().filter(|piece| has_number(&piece.text)).count();
    let mut differing = Vec::new();
    let mut given: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for piece in theirs.iter().rev() {
        given.entry(&piece.place).or_default().push(&piece.text);
    }
    for piece in &ours {
        let archive = given.get_mut(piece.place.as_str()).and_then(Vec::pop);
        if archive != Some(piece.text.as_str()) {
            let archive = archive.map(str::to_owned);
            differing.push(Differing { place: piece.place.clone(), page: Some(piece.text.clone()), archive });
        }
    }
    for (place, texts) in given {
        for text in texts.into_iter().rev() {
            let (place, archive) = (place.to_owned(), Some(text.to_owned()));
            differing.push(Differing { place, page: None, archive });
        }
    }
    Proof { same_bytes, numbers, differing }
}

fn has_number(text: &str) -> bool {
    text.contains(|c: char| c.is_ascii_digit())
}

fn pieces(page: &str) -> Vec<Piece> {
    if page.trim_start().starts_with("<!DOCTYPE") { Html::default().read(page) } else { of_markdown(page) }
}

/// Lines of Markdown; the cells of a table each alone.
fn of_markdown(page: &str) -> Vec<Piece> {
    let (mut section, mut heads, mut found) = (String::new(), Vec::new(), Vec::new());
    for line in page.lines().filter(|line| !line.trim().is_empty()) {
        if line.starts_with('#') {
            line.clone_into(&mut section);
        }
        let Some(row) = line.strip_prefix("| ") else {
            heads.clear();
            found.push(Piece { place: section.clone(), text: line.to_owned() });
            continue;
        };
        let cells: Vec<&str> = row.trim_end_matches(" |").split(" | ").collect();
        if heads.is_empty() {
            heads = cells.iter().map(|cell| (*cell).to_owned()).collect();
        }
        let row = cells.first().copied().unwrap_or_default();
        for (i, cell) in cells.iter().enumerate() {
            let column = heads.get(i).map_or("", String::as_str);
            found.push(Piece { place: format!("{section}, row {row}, {column}"), text: (*cell).to_owned() });
        }
    }
    found
}

/// Reader of the HTML that this program writes, and of any other without error.
#[derive(Debug, Default)]
struct Html {
    found: Vec<Piece>,
    section: String,
    caption: String,
    heads: Vec<String>,
    /// First cell of the row, and number of cells so far.
    row: Option<(String, usize)>,
    in_head: bool,
}

impl Html {
    fn read(mut self, page: &str) -> Vec<Piece> {
        let mut rest = page;
        while let Some(at) = rest.find('<') {
            self.text("text", &rest[..at]);
            let tag_end = rest[at..].find('>').map_or(rest.len(), |end| at + end + 1);
            let tag = &rest[at..tag_end];
            rest = &rest[tag_end..];
            rest = self.tag(tag, rest);
        }
        self.text("text", rest);
        self.found
    }

    /// Handles a tag; returns the text behind what belongs to it.
    fn tag<'a>(&mut self, tag: &str, rest: &'a str) -> &'a str {
        let name: String = tag
            .trim_start_matches('<')
            .chars()
            .take_while(|c| c.is_ascii_alphanumeric() || *c == '/')
            .collect();
        let until = |end: &str| rest.find(end).map_or((rest, ""), |at| (&rest[..at], &rest[at..]));
        match name.as_str() {
            // A script or a style can change what a reader sees, and so can a drawing.
            "style" | "script" | "svg" => {
                let (inside, behind) = until(&format!("</{name}>"));
                self.put(&format!("a {name} element"), &format!("{tag}{inside}"));
                return behind;
            }
            "section" | "main" | "header" => {
                attribute(tag, "id").unwrap_or(&name).clone_into(&mut self.section);
                self.caption.clear();
            }
            "caption" | "h1" | "h2" | "figcaption" | "th" | "td" => {
                let (inside, behind) = until(&format!("</{name}>"));
                self.element(&name, &format!("{tag}{inside}"));
                return behind;
            }
            "thead" => {
                self.in_head = true;
                self.heads.clear();
            }
            "/thead" => self.in_head = false,
            "tr" => self.row = Some((String::new(), 0)),
            "/table" => (self.caption, self.row) = (String::new(), None),
            _ => {
                // What a tag hides or names is part of the page.
                if let Some(at) = tag.find(' ') {
                    self.put("a tag", &format!("{name}{}", &tag[at..]));
                }
            }
        }
        rest
    }

    fn element(&mut self, name: &str, inside: &str) {
        let text = plain(inside);
        match (name, &mut self.row) {
            ("th" | "td", Some(_)) if self.in_head => {
                self.heads.push(text.clone());
                let place = format!("head of {}", self.caption);
                self.put(&place, inside);
            }
            ("th" | "td", Some((first, count))) => {
                if *count == 0 {
                    first.clone_from(&text);
                }
                let column = self.heads.get(*count).map_or("", String::as_str);
                let place = format!("{}, row {first}, {column}", self.caption);
                *count += 1;
                self.put(&place, inside);
            }
            ("caption", _) => {
                self.caption.clone_from(&text);
                self.put("caption", inside);
            }
            _ => self.put(name, inside),
        }
    }

    fn text(&mut self, place: &str, text: &str) {
        if !text.trim().is_empty() {
            self.put(place, text);
        }
    }

    fn put(&mut self, place: &str, text: &str) {
        let place =
            [self.section.as_str(), place].iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>();
        self.found.push(Piece { place: place.join(": "), text: text.trim().to_owned() });
    }
}

/// Text between tags.
fn plain(inside: &str) -> String {
    let mut out = String::new();
    let mut in_tag = false;
    for letter in inside.chars() {
        match letter {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => out.push(c),
            _ => {}
        }
    }
    out.replace('\u{a0}', " ").trim().to_owned()
}

fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// A text of a page as people read it, shortened to one line.
pub fn readable(text: &str) -> String {
    const CHARS: usize = 60;
    let text = plain(text).split_whitespace().collect::<Vec<_>>().join(" ");
    if text.chars().count() <= CHARS {
        return text;
    }
    text.chars().take(CHARS - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "<!DOCTYPE html>\n<html><head><style>td {}</style></head><body>\n<header><h1>wal is 6.6 times</h1></header>\n\
        <section id=\"numbers\"><h2>All numbers</h2><table><caption>p99</caption><thead><tr><th scope=\"col\">arm</th>\
        <th scope=\"col\">change</th></tr></thead><tbody><tr><td>wal</td><td class=\"n\">+16 %</td></tr>\
        <tr><td>memory</td><td class=\"n\">+17 %</td></tr></tbody></table><p>2 of 3 trials</p>\
        <svg viewBox=\"0 0 1 1\"><path d=\"M0 1\"/></svg></section></body></html>\n";

    /// The places that differ if `found` is replaced.
    fn changed(found: &str, instead: &str) -> Vec<String> {
        assert!(PAGE.contains(found), "{found}");
        let proof = compare(&PAGE.replacen(found, instead, 1), PAGE);
        assert!(!proof.same_bytes);
        proof.differing.into_iter().map(|differing| differing.place).collect()
    }

    #[test]
    fn a_page_agrees_with_itself() {
        let proof = compare(PAGE, PAGE);
        assert!(proof.same_bytes && proof.differing.is_empty(), "{proof:?}");
        assert!(proof.numbers >= 5, "{proof:?}");
        let markdown = "# A\n\n| arm | change |\n| --- | ---: |\n| wal | +16 % |\n";
        assert_eq!(compare(markdown, markdown).differing, []);
        assert_eq!(
            compare(&markdown.replace("16", "61"), markdown).differing[0].place,
            "# A, row wal, change"
        );
    }

    #[test]
    fn every_change_is_found_where_it_is() {
        assert_eq!(changed("6.6 times", "9.9 times"), ["header: h1"]);
        assert_eq!(changed("+16 %", "+61 %"), ["numbers: p99, row wal, change"]);
        assert_eq!(changed("2 of 3", "3 of 3"), ["numbers: text"]);
        assert_eq!(changed("M0 1", "M0 2"), ["numbers: a svg element"]);
        assert_eq!(changed("td {}", "td {display: none}"), ["a style element"]);
        assert_eq!(changed("<p>2", "<p hidden=\"\">2"), ["numbers: a tag"]);
        // A row that is removed, and one that is added.
        assert_eq!(changed("<tr><td>wal</td><td class=\"n\">+16 %</td></tr>", "").len(), 2);
        assert_eq!(changed("</tbody>", "<tr><td>mmap</td><td>+99 %</td></tr></tbody>").len(), 2);
        assert!(
            changed("<p>2", "<script>alert(1)</script><p>2")
                .contains(&"numbers: a script element".to_owned())
        );
        assert!(!changed("</body></html>", "</body>").iter().any(|place| place.contains("p99")));
    }

    #[test]
    fn a_damaged_page_is_read_without_an_error() {
        for end in 0..PAGE.len() {
            if PAGE.is_char_boundary(end) {
                compare(&PAGE[..end], PAGE);
            }
        }
        assert_eq!(readable("<td class=\"n\"><b>+16\u{a0}%</b></td>"), "+16 %");
    }
}
