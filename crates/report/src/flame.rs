//! Stacks as text for other tools, and as a picture: a flame graph.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use record::printable::printable;
use record::profile::{Profile, ProfileKind, ProfileStack};

use crate::chart::{Drawing, Svg};
use crate::html::escape;
use crate::number::{count, latency, percent, span};

/// Writes a line for each stack: thread name and functions, outermost first, separated by semicolons, then a
/// blank and a number: samples on-CPU, microseconds off-CPU. `flamegraph.pl`, speedscope and others read this
/// format.
///
/// # Errors
///
/// Fails if writing to `out` fails.
pub fn folded_stacks(out: &mut dyn Write, profile: &Profile) -> io::Result<()> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    for stack in &profile.stacks {
        let amount = match profile.kind {
            ProfileKind::OnCpu => stack.count,
            ProfileKind::OffCpu => stack.ns,
        };
        let words = path_of(stack).map(|word| printable(word).replace(';', ":"));
        *lines.entry(words.collect::<Vec<_>>().join(";")).or_default() += amount;
    }
    for (line, amount) in lines {
        let amount = match profile.kind {
            ProfileKind::OnCpu => amount,
            ProfileKind::OffCpu => amount / 1_000,
        };
        if amount > 0 {
            writeln!(out, "{line} {amount}")?;
        }
    }
    Ok(())
}

fn path_of(stack: &ProfileStack) -> impl Iterator<Item = &str> {
    std::iter::once(stack.comm.as_str()).chain(stack.frames.iter().map(String::as_str))
}

/// A flame graph as an SVG document without a script. Width is time, a box stands on its caller, and its
/// tooltip has its time and share.
///
/// - `before`: an earlier profile. Colors show which functions grew (red) or shrank (blue) in share of all
///   time since then; shapes are those of `profile`.
pub fn flame_graph(profile: &Profile, before: Option<&Profile>) -> String {
    let root = Node::of(&profile.stacks);
    let total_ns = root.ns.max(1);
    let before = before.map(|profile| {
        let node = Node::of(&profile.stacks);
        let per = [total_ns, node.ns.max(1)].map(|ns| ns as f64);
        Before { node, per, whole: 1.0, unit: Unit::Share }
    });
    let scale = Scale { width: WIDTH - 2.0 * MARGIN, least: BOX_MIN, total_ns, before };
    let mut rows = Vec::new();
    let old = scale.before.as_ref().map(|before| &before.node);
    scale.draw(&root, "all", MARGIN, 0, old, &mut rows);
    let height = HEAD + height_of(&rows) + MARGIN;
    let mut body = String::new();
    for b in &rows {
        b.write(&mut body, height - MARGIN);
    }
    let title = title(profile.kind);
    let legend = if scale.before.is_some() { "; red grew in share, blue shrank" } else { "" };
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH:.0} {height:.0}\" width=\"{WIDTH:.0}\" role=\"img\">\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n\
         <text class=\"head\" x=\"{MARGIN:.0}\" y=\"20\">{title}</text>\n\
         <text class=\"sub\" x=\"{MARGIN:.0}\" y=\"38\">{}{legend}</text>\n{body}</svg>\n",
        escape(&facts(profile))
    )
}

/// The flame graph without head and style, for a page.
///
/// A name may have 4 KiB, and another program chooses it: tooltips are cut, and the number of boxes is
/// bounded.
pub(crate) fn drawing(profile: &Profile) -> Drawing {
    on_page(&Node::of(&profile.stacks), None, PAGE_BOXES_MAX)
}

/// Stacks, and the number of events that took their time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerEvent<'a> {
    pub(crate) stacks: &'a [ProfileStack],
    pub(crate) events: f64,
}

/// Variant of [`drawing`] in the colors of the difference between two times of an event: shapes are those of
/// `now`.
pub(crate) fn difference_drawing(now: PerEvent<'_>, before: PerEvent<'_>) -> Drawing {
    let node = Node::of(before.stacks);
    let per = [now.events, before.events].map(|events| events.max(f64::MIN_POSITIVE));
    let whole = (node.ns as f64 / per[1]).max(f64::MIN_POSITIVE);
    let before = Before { node, per, whole, unit: Unit::Event };
    on_page(&Node::of(now.stacks), Some(before), DIFFERENCE_BOXES_MAX)
}

fn on_page(root: &Node<'_>, before: Option<Before<'_>>, boxes_max: usize) -> Drawing {
    let mut scale = Scale { width: 0.0, least: PAGE_BOX_MIN, total_ns: root.ns.max(1), before };
    let mut draw = |width| {
        scale.width = width;
        let mut rows = Vec::new();
        let old = scale.before.as_ref().map(|before| &before.node);
        scale.draw(root, "all", 0.0, 0, old, &mut rows);
        // A function is not wider than its caller: no box loses the one that it stands on.
        rows.sort_by(|a, b| b.width.total_cmp(&a.width).then(a.depth.cmp(&b.depth)));
        rows.truncate(boxes_max);
        let height = height_of(&rows);
        let mut body = "<g class=\"flame\">\n".to_owned();
        for b in &mut rows {
            b.tip = shortened(&b.tip, TIP_LETTERS_MAX);
            b.write(&mut body, height);
        }
        body.push_str("</g>\n");
        Svg { width, height, body }
    };
    Drawing { wide: draw(Drawing::WIDE), narrow: draw(Drawing::NARROW) }
}

/// The name of a flame graph.
pub(crate) fn title(kind: ProfileKind) -> &'static str {
    match kind {
        ProfileKind::OnCpu => "On-CPU time by stack",
        ProfileKind::OffCpu => "Off-CPU time by stack",
    }
}

/// The text without control characters; of a long one, the beginning and the end, which holds its numbers.
pub(crate) fn shortened(text: &str, letters_max: usize) -> String {
    let text = printable(text);
    let length = text.chars().count();
    if length <= letters_max {
        return text.into_owned();
    }
    let half = letters_max.saturating_sub(3) / 2;
    let begin: String = text.chars().take(half).collect();
    let end: String = text.chars().skip(length - half).collect();
    format!("{begin}...{end}")
}

/// Height of the boxes.
fn height_of(rows: &[Box]) -> f64 {
    let depth = rows.iter().map(|b| b.depth).max().unwrap_or(0);
    (depth + 1) as f64 * ROW
}

/// `10 s on 2 CPUs, 13,160 samples`
fn facts(profile: &Profile) -> String {
    let cpus = if profile.cpus == 1 { "CPU" } else { "CPUs" };
    let events = match profile.kind {
        ProfileKind::OnCpu => "samples",
        ProfileKind::OffCpu => "times off the CPU",
    };
    let lost = if profile.lost.is_empty() { String::new() } else { ", some lost".to_owned() };
    format!(
        "{} on {} {cpus}, {} {events}, {} of thread time{lost}",
        span(profile.seconds()),
        profile.cpus,
        count(profile.count()),
        span(profile.total_ns() as f64 * 1e-9)
    )
}

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 10.0;
/// Height of the head above the boxes.
const HEAD: f64 = 50.0;
const ROW: f64 = 17.0;
/// Width of a monospaced letter of 12 pixels, in all fonts that browsers use for it.
const LETTER: f64 = 7.3;
/// Least width of a box; narrower ones are left out.
const BOX_MIN: f64 = 0.4;
/// Variant of [`BOX_MIN`] for pages.
const PAGE_BOX_MIN: f64 = 1.0;
/// Most boxes on a page; the widest ones are drawn. Accessibility checkers take seconds for thousands.
const PAGE_BOXES_MAX: usize = 500;
/// Variant of [`PAGE_BOXES_MAX`] for differences, of which a page may have several.
const DIFFERENCE_BOXES_MAX: usize = 250;
/// Longest tooltip on a page, in letters.
const TIP_LETTERS_MAX: usize = 160;

const STYLE: &str = "\
svg{background:#fdfdfb;color-scheme:light dark}text{font:12px \"Liberation Mono\",\"DejaVu Sans Mono\",monospace;fill:#1b1d20}\
.head{font:bold 15px \"Liberation Sans\",Arial,sans-serif}.sub{font:13px \"Liberation Sans\",Arial,sans-serif}\
rect{stroke:#fdfdfb;stroke-width:.5}.u0{fill:#f6a04d}.u1{fill:#f4b266}.u2{fill:#f0be5e}.u3{fill:#f2a97c}.u4{fill:#eec97d}\
.k{fill:#9cc7e0}.n{fill:#d5d6d2}g:hover rect{stroke:#1b1d20;stroke-width:1}\
@media (prefers-color-scheme:dark){svg{background:#16181b}.head,.sub{fill:#e6e7e5}rect{stroke:#16181b}}";

/// A function with one chain of callers, and the functions it called.
#[derive(Debug, Default)]
struct Node<'a> {
    ns: u64,
    calls: BTreeMap<&'a str, Node<'a>>,
}

impl<'a> Node<'a> {
    fn of(stacks: &'a [ProfileStack]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            // Sums over several profiles may reach the largest number.
            root.ns = root.ns.saturating_add(stack.ns);
            let mut at = &mut root;
            for word in path_of(stack) {
                at = at.calls.entry(word).or_default();
                at.ns = at.ns.saturating_add(stack.ns);
            }
        }
        root
    }
}

/// Conversion from time to pixels and colors.
#[derive(Debug)]
struct Scale<'a> {
    width: f64,
    /// Least width of a box.
    least: f64,
    total_ns: u64,
    before: Option<Before<'a>>,
}

/// The profile that another one is compared with.
#[derive(Debug)]
struct Before<'a> {
    node: Node<'a>,
    /// Divisors of the times, of the later profile and of this one.
    per: [f64; 2],
    /// Amount after the division that colors are relative to.
    whole: f64,
    unit: Unit,
}

/// Amounts after the division.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// Shares of all time.
    Share,
    /// Times of an event.
    Event,
}

#[derive(Debug)]
struct Box {
    x: f64,
    width: f64,
    depth: usize,
    name: String,
    tip: String,
    /// A class, or a color.
    fill: Result<&'static str, String>,
}

impl Scale<'_> {
    fn draw(
        &self,
        node: &Node<'_>,
        name: &str,
        x: f64,
        depth: usize,
        before: Option<&Node<'_>>,
        rows: &mut Vec<Box>,
    ) {
        let width = node.ns as f64 / self.total_ns as f64 * self.width;
        if width < self.least {
            return;
        }
        let share = node.ns as f64 / self.total_ns as f64;
        let mut tip = format!("{name}: {}, {}", span(node.ns as f64 * 1e-9), percent(share));
        let mut fill = Ok(class_of(name, depth));
        if let Some(Before { per, whole, unit, .. }) = &self.before {
            let now = node.ns as f64 / per[0];
            let was = before.map_or(0.0, |node| node.ns as f64 / per[1]);
            let _ = match unit {
                Unit::Share => write!(tip, ", before {}", percent(was)),
                Unit::Event => write!(tip, "; {} an event, reference {}", latency(now), latency(was)),
            };
            fill = Err(color_of((now - was) / whole));
        }
        rows.push(Box { x, width, depth, name: name.to_owned(), tip, fill });
        let mut from = x;
        for (name, called) in &node.calls {
            self.draw(called, name, from, depth + 1, before.and_then(|b| b.calls.get(name)), rows);
            from += called.ns as f64 / self.total_ns as f64 * self.width;
        }
    }
}

fn class_of(name: &str, depth: usize) -> &'static str {
    const USER: [&str; 5] = ["u0", "u1", "u2", "u3", "u4"];
    if depth <= 1 || name.starts_with('[') {
        return "n";
    }
    if name.ends_with("_[k]") {
        return "k";
    }
    let hash = name.bytes().fold(7_usize, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    USER[hash % USER.len()]
}

/// Red for growth, blue for shrinkage; full strength at 10 % of the whole.
fn color_of(difference: f64) -> String {
    let part = (difference.abs() / 0.1).min(1.0).sqrt();
    let pale = 235.0 - part * 130.0;
    if difference > 0.000_5 {
        format!("rgb(240,{pale:.0},{pale:.0})")
    } else if difference < -0.000_5 {
        format!("rgb({pale:.0},{pale:.0},240)")
    } else {
        "rgb(225,225,222)".to_owned()
    }
}

impl Box {
    /// - `bottom`: lower end of the first row.
    fn write(&self, body: &mut String, bottom: f64) {
        let y = bottom - (self.depth + 1) as f64 * ROW;
        let fill = match &self.fill {
            Ok(class) => format!("class=\"{class}\""),
            Err(color) => format!("fill=\"{color}\""),
        };
        let _ = write!(
            body,
            "<g><title>{}</title><rect {fill} x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
            escape(&printable(&self.tip)),
            self.x,
            self.width,
            ROW - 1.0
        );
        let text = fitting(&printable(&self.name), self.width);
        if !text.is_empty() {
            let _ = write!(
                body,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                self.x + 3.0,
                y + 12.0,
                escape(&text)
            );
        }
        body.push_str("</g>\n");
    }
}

/// The part of a name that fits in a box of this width; empty if it has fewer than three letters.
fn fitting(name: &str, width: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "letters in a box of 1,200 pixels"
    )]
    let room = ((width - 6.0) / LETTER).max(0.0) as usize;
    // Letters of other scripts may be twice as wide.
    let wide = |c: char| if c.is_ascii() { 1 } else { 2 };
    if name.chars().map(wide).sum::<usize>() <= room {
        return name.to_owned();
    }
    let mut used = 2;
    let cut: String = name
        .chars()
        .take_while(|c| {
            used += wide(*c);
            used <= room
        })
        .collect();
    if cut.chars().count() < 3 { String::new() } else { format!("{cut}..") }
}

#[cfg(test)]
mod tests {
    use record::missing::Missing;
    use record::profile::{ProfileDoubts, ProfileFilter, ThreadState};

    use super::*;

    fn profile(kind: ProfileKind, stacks: &[(&str, &[&str], u64)]) -> Profile {
        let stack = |(comm, frames, count): &(&str, &[&str], u64)| ProfileStack {
            comm: (*comm).to_owned(),
            state: ThreadState::Running,
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            count: *count,
            ns: count * 1_000_000,
        };
        Profile {
            only: Ok(ProfileFilter::default()),
            kind,
            elapsed_ns: 2_000_000_000,
            cpus: 2,
            period_ns: Ok(1_000_000),
            idle_samples: Ok(0),
            stacks: stacks.iter().map(stack).collect(),
            still_off: 0,
            doubts: ProfileDoubts::default(),
            notes: Vec::new(),
            lost: [].into(),
            cost: Err(Missing::because("not measured")),
        }
    }

    fn folded(profile: &Profile) -> String {
        let mut out = Vec::new();
        folded_stacks(&mut out, profile).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn times_that_no_clock_has_are_drawn() {
        let mut of = profile(ProfileKind::OnCpu, &[("app", &["main", "a"], 1), ("app", &["main", "b"], 1)]);
        of.stacks.iter_mut().for_each(|stack| stack.ns = u64::MAX);
        let side = PerEvent { stacks: &of.stacks, events: 2.0 };
        assert!(difference_drawing(side, side).wide.body.contains("main"));
    }

    #[test]
    fn a_folded_line_has_its_number_behind_the_last_blank() {
        let stacks: &[(&str, &[&str], u64)] = &[
            ("web server", &["main", "<[u8; 4] as Show>::show", "read_[k]"], 7),
            ("web server", &["main", "<[u8; 4] as Show>::show", "read_[k]"], 2),
            ("a\nb;c", &["main"], 1),
        ];
        let lines = "a\\nb:c;main 1\nweb server;main;<[u8: 4] as Show>::show;read_[k] 9\n";
        assert_eq!(folded(&profile(ProfileKind::OnCpu, stacks)), lines);
        let lines = folded(&profile(ProfileKind::OffCpu, stacks));
        assert!(lines.contains("read_[k] 9000\n"), "{lines}");
    }

    /// x, width and text of each box.
    fn boxes(svg: &str) -> Vec<(f64, f64, Option<String>)> {
        let number = |line: &str, name: &str| -> f64 {
            let from = line.find(&format!(" {name}=\"")).unwrap() + name.len() + 3;
            line[from..].split('"').next().unwrap().parse().unwrap()
        };
        let boxes = svg.lines().filter(|line| line.starts_with("<g>"));
        boxes
            .map(|line| {
                let text = line
                    .split_once("<text")
                    .map(|(_, rest)| rest.split_once('>').unwrap().1.split_once('<').unwrap().0.to_owned());
                (number(line, "x"), number(line, "width"), text)
            })
            .collect()
    }

    #[test]
    fn every_word_fits_its_box_and_boxes_fit_the_picture() {
        let long =
            "std::collections::hash::map::HashMap<alloc::string::String, core::option::Option<u64>>::insert";
        let names: Vec<String> = (1..60).map(|n| format!("{}{n}", &long[..(n * 97) % long.len()])).collect();
        let frames: Vec<Vec<&str>> =
            names.iter().map(|n| vec!["main", n.as_str(), "数据库查询函数_名字"]).collect();
        let stacks: Vec<(&str, &[&str], u64)> =
            frames.iter().zip(1..).map(|(frames, n)| ("app", frames.as_slice(), n * n)).collect();
        let svg = flame_graph(&profile(ProfileKind::OnCpu, &stacks), None);
        let boxes = boxes(&svg);
        assert!(boxes.len() > 50, "{}", boxes.len());
        for (x, width, text) in &boxes {
            assert!(*x >= 9.9 && x + width <= 1190.1, "{x} {width}");
            if let Some(text) = text {
                let letters: usize = text.chars().map(|c| if c.is_ascii() { 1 } else { 2 }).sum();
                assert!(letters as f64 * LETTER + 5.0 <= *width, "{text:?} in {width}");
            }
        }
    }

    #[test]
    fn a_caller_is_as_wide_as_what_it_calls_and_itself() {
        let stacks: &[(&str, &[&str], u64)] =
            &[("app", &["main", "a"], 6), ("app", &["main", "b"], 3), ("app", &["main"], 1)];
        let svg = flame_graph(&profile(ProfileKind::OnCpu, stacks), None);
        let widths: Vec<f64> = boxes(&svg).iter().map(|b| b.1).collect();
        assert_eq!(widths, [1180.0, 1180.0, 1180.0, 708.0, 354.0]);
        assert!(svg.contains("<title>a: 6 ms, 60.0 %</title>"), "{svg}");
    }

    #[test]
    fn names_of_others_are_text_in_a_picture() {
        let stacks: &[(&str, &[&str], u64)] = &[("<script>", &["a\"&\u{1b}[2J</title>"], 6)];
        let svg = flame_graph(&profile(ProfileKind::OnCpu, stacks), None);
        assert!(
            !svg.contains("<script") && !svg.contains('\u{1b}') && svg.contains("&lt;script&gt;"),
            "{svg}"
        );
    }

    #[test]
    fn a_difference_says_what_the_share_was_before() {
        let before =
            profile(ProfileKind::OnCpu, &[("app", &["main", "a"], 500), ("app", &["main", "b"], 500)]);
        let after = profile(ProfileKind::OnCpu, &[("app", &["main", "a"], 75), ("app", &["main", "c"], 25)]);
        let svg = flame_graph(&after, Some(&before));
        assert!(svg.contains("<title>a: 75 ms, 75.0 %, before 50.0 %</title>"), "{svg}");
        assert!(svg.contains("<title>c: 25 ms, 25.0 %, before 0.0 %</title>"), "{svg}");
        assert!(svg.contains("red grew"), "{svg}");
    }

    #[test]
    fn a_picture_on_a_page_is_bounded_and_no_box_stands_on_nothing() {
        let names: Vec<String> = (0..1_000).map(|n| format!("{n}{}", "x".repeat(4_000))).collect();
        let frames: Vec<Vec<&str>> =
            names.chunks(10).map(|c| c.iter().map(String::as_str).collect()).collect();
        let stacks: Vec<(&str, &[&str], u64)> = frames.iter().map(|f| ("app", f.as_slice(), 1)).collect();
        let drawing = drawing(&profile(ProfileKind::OnCpu, &stacks));
        for svg in [&drawing.wide, &drawing.narrow] {
            let drawn = boxes(&svg.body);
            assert!(
                drawn.len() <= PAGE_BOXES_MAX && svg.body.len() < 400 * PAGE_BOXES_MAX,
                "{}",
                drawn.len()
            );
            assert!(drawn.iter().all(|(x, width, _)| *x >= 0.0 && x + width <= svg.width + 0.1));
        }
        // 100 towers of ten boxes do not fit; those that are drawn stand on a box.
        let height = |line: &str| -> f64 {
            line.split_once(" y=\"").unwrap().1.split('"').next().unwrap().parse().unwrap()
        };
        let rows: Vec<f64> =
            drawing.wide.body.lines().filter(|l| l.starts_with("<g><")).map(height).collect();
        let of_row = |row: usize| {
            let y = drawing.wide.height - (row + 1) as f64 * ROW;
            rows.iter().filter(|found| (**found - y).abs() < 0.1).count()
        };
        assert_eq!((of_row(0), of_row(1), of_row(2), of_row(3)), (1, 1, 100, 100));
        assert!((4..12).all(|row| of_row(row) <= of_row(row - 1)), "{rows:?}");
    }

    #[test]
    fn a_long_name_keeps_its_end() {
        assert_eq!(shortened("short", 9), "short");
        assert_eq!(shortened("a\u{1b}b", 40), "a\\x1bb");
        let tip = shortened(&format!("{}: 6 ms, 60.0 %", "x".repeat(500)), 60);
        assert!(tip.chars().count() <= 60 && tip.contains("...") && tip.ends_with("6 ms, 60.0 %"), "{tip}");
    }

    #[test]
    fn a_profile_of_nothing_is_a_picture_of_nothing() {
        let nothing = profile(ProfileKind::OffCpu, &[]);
        assert_eq!(folded(&nothing), "");
        assert!(flame_graph(&nothing, None).starts_with("<svg"));
    }
}
