//! The content of a page, independent of HTML and Markdown: written once, rendered twice.

mod account;
mod bakeoff;
mod commands;
mod concurrency;
mod configuration;
mod cpus;
mod disclosure;
mod figures;
mod functions;
mod gates;
mod history;
mod hosts;
mod instruments;
mod lead;
mod load;
mod locks;
mod method;
mod noise;
mod over_time;
mod profiles;
mod proofs;
mod resources;
mod scale;
mod series;
mod several;
mod sweep;
mod values;

pub use bakeoff::{bakeoff, bakeoff_with};
pub use commands::commands;
pub(crate) use configuration::settings as load_settings;
pub use functions::{FLAMES_MAX, Stacks};
pub use history::history;
pub use hosts::hosts;
pub(crate) use hosts::{differs, facts};
pub use load::load;
pub use over_time::PLACES_MAX;
pub use scale::scale;
pub(crate) use series::written as series_value;
pub use several::{Member, several};
pub use sweep::sweep;

/// The color of a word. The word alone has the same meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Good,
    Bad,
    Doubt,
    Even,
}

/// A whole page.
#[derive(Debug)]
pub struct Page {
    /// The subject that was measured.
    pub(crate) title: String,
    /// The author's question; may be empty.
    pub(crate) question: String,
    /// The word that comes first: how far the page may be believed.
    pub(crate) standing: Words,
    /// The claim, one sentence.
    pub(crate) claim: String,
    /// The evidence that a reader sees first: a figure, a small table.
    pub(crate) lead: Vec<Block>,
    /// The limits of the claim.
    pub(crate) caveats: Vec<String>,
    /// `as of 2026-11-21 · 6 blocks · ...`.
    pub(crate) byline: Vec<String>,
    /// Sections shown below.
    pub(crate) sections: Vec<Section>,
    /// Sections shown on request; Markdown shows them last.
    pub(crate) folded: Vec<Folded>,
}

/// A section behind its heading.
#[derive(Debug)]
pub(crate) struct Folded {
    pub(crate) section: Section,
    /// The content, in a few words.
    pub(crate) note: String,
}

/// A heading and what is under it.
#[derive(Debug)]
pub(crate) struct Section {
    /// For links; unique on the page.
    pub(crate) id: &'static str,
    /// The heading.
    pub(crate) title: &'static str,
    /// The blocks below the heading.
    pub(crate) blocks: Vec<Block>,
}

/// A piece of a section.
#[derive(Debug)]
pub(crate) enum Block {
    /// A paragraph.
    Text(String),
    /// The author's own text: paragraphs separated by empty lines.
    Quoted(String),
    /// Points.
    List(Vec<String>),
    /// A table.
    Table(Table),
    /// A picture with its data.
    Figure(Figure),
    /// Verdicts side by side.
    Grids(Vec<Grid>),
    /// Text in a fixed pitch, under a title; folded where the form allows.
    Code { title: String, text: String },
    /// A long table, folded if the form allows it.
    Folded(Table),
}

/// Configurations by conditions: the ratio and the verdict of each pair, by one metric.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) caption: String,
    /// The conditions; an empty name if there is only one.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<GridRow>,
}

/// One configuration.
#[derive(Debug)]
pub(crate) struct GridRow {
    pub(crate) name: String,
    /// Index of its color.
    pub(crate) series: usize,
    /// `None` if the pair is not judged.
    pub(crate) cells: Vec<Option<GridCell>>,
}

/// One pair: color, sign and word say the same.
#[derive(Debug)]
pub(crate) struct GridCell {
    pub(crate) ratio: String,
    pub(crate) sign: &'static str,
    pub(crate) word: &'static str,
    pub(crate) tone: Tone,
}

/// Rows under heads.
#[derive(Debug, Clone)]
pub(crate) struct Table {
    /// The subject of the table.
    pub(crate) caption: String,
    /// The heads, and whether the column holds numbers.
    pub(crate) columns: Vec<Column>,
    /// One cell for each column.
    pub(crate) rows: Vec<Vec<Words>>,
    /// Lines that a page draws from the table when its reader zooms.
    pub(crate) course: Option<Course>,
}

/// Columns that are drawn over the first one, which is a time.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// Indexes of the columns.
    pub(crate) columns: Vec<usize>,
    /// `linear` or `log`.
    pub(crate) axis: &'static str,
}

/// The head of a column.
#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) head: String,
    pub(crate) numeric: bool,
}

/// A text with an optional tone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Words {
    pub(crate) text: String,
    pub(crate) tone: Option<Tone>,
}

/// A picture that can be read without seeing it.
#[derive(Debug)]
pub(crate) struct Figure {
    /// The subject, in a line.
    pub(crate) title: String,
    /// A reading aid.
    pub(crate) caption: String,
    /// The picture in words, for readers that cannot see it.
    pub(crate) description: String,
    /// The picture for a wide and for a narrow page.
    pub(crate) drawing: crate::chart::Drawing,
    /// The numbers behind it.
    pub(crate) data: Table,
}

impl Page {
    /// All figures of the page.
    pub(crate) fn figures(&self) -> impl Iterator<Item = &Figure> {
        let sections = self.sections.iter().chain(self.folded.iter().map(|folded| &folded.section));
        let blocks = self.lead.iter().chain(sections.flat_map(|section| &section.blocks));
        blocks.filter_map(|block| if let Block::Figure(figure) = block { Some(figure) } else { None })
    }
}

impl Section {
    /// The section behind its heading.
    pub(crate) fn folded(self, note: impl Into<String>) -> Folded {
        Folded { section: self, note: note.into() }
    }
}

impl Table {
    /// Returns an empty table. A head that starts with `#` marks a column of numbers.
    pub(crate) fn new(caption: impl Into<String>, heads: &[&str]) -> Self {
        let column = |head: &&str| match head.strip_prefix('#') {
            Some(head) => Column { head: head.to_owned(), numeric: true },
            None => Column { head: (*head).to_owned(), numeric: false },
        };
        Self {
            caption: caption.into(),
            columns: heads.iter().map(column).collect(),
            rows: Vec::new(),
            course: None,
        }
    }

    /// Lets the reader of a page zoom into `columns`, which follow the first column, a time in seconds.
    pub(crate) fn over_time(mut self, columns: &[&str], kind: crate::chart::Kind) -> Self {
        let place = |name: &&str| {
            let found = self.columns.iter().position(|column| column.head == *name);
            found.unwrap_or_else(|| panic!("{} has a column {name}", self.caption))
        };
        let axis = match kind {
            crate::chart::Kind::Linear => "linear",
            crate::chart::Kind::Log => "log",
        };
        self.course = Some(Course { columns: columns.iter().map(place).collect(), axis });
        self
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<Words>) {
        assert_eq!(cells.len(), self.columns.len(), "one cell for each column of {}", self.caption);
        self.rows.push(cells);
    }
}

impl Words {
    /// Returns text with a tone.
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone: Some(tone) }
    }
}

impl<T: Into<String>> From<T> for Words {
    fn from(text: T) -> Self {
        Self { text: text.into(), tone: None }
    }
}
