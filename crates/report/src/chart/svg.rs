//! The shapes that charts consist of.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::html::escape;

/// An SVG under construction.
#[derive(Debug, Default)]
pub(crate) struct Canvas {
    body: String,
}

/// Position of a text relative to its point.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

impl Canvas {
    pub(crate) fn finish(self) -> String {
        self.body
    }

    pub(crate) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ((x1, y1), (x2, y2)) = (from, to);
        self.put(format_args!(
            r#"<line class="{class}" x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}"/>"#
        ));
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), width: f64, height: f64) {
        self.put(format_args!(
            r#"<rect class="{class}" x="{x:.1}" y="{y:.1}" width="{:.1}" height="{:.1}"/>"#,
            width.max(0.0),
            height.max(0.0)
        ));
    }

    /// Draws cells of a heat map that have the same color, as one element; `fullness` in [0, 1].
    ///
    /// - `cells`: upper left corner, width and height.
    pub(crate) fn cells(&mut self, fullness: f64, cells: &[((f64, f64), f64, f64)]) {
        let mut d = String::new();
        for ((x, y), width, height) in cells {
            let _ = write!(d, "M{x:.1} {y:.1}h{width:.1}v{height:.1}h-{width:.1}z");
        }
        self.put(format_args!(r#"<path class="heat" fill-opacity="{fullness:.2}" d="{d}"/>"#));
    }

    /// Draws a line through all points.
    pub(crate) fn path(&mut self, class: &str, points: &[(f64, f64)]) {
        let Some(((x, y), rest)) = points.split_first() else { return };
        let mut d = format!("M{x:.1} {y:.1}");
        for (x, y) in rest {
            let _ = write!(d, "L{x:.1} {y:.1}");
        }
        self.put(format_args!(r#"<path class="{class}" d="{d}"/>"#));
    }

    /// Draws a dot at each point. Points on the same half of a pixel are drawn once, so the size of the
    /// drawing is bounded.
    pub(crate) fn dots(&mut self, class: &str, points: impl Iterator<Item = (f64, f64)>) {
        #[expect(clippy::cast_possible_truncation, reason = "places in a picture")]
        let halves = |v: f64| (2.0 * v).round() as i32;
        let seen: BTreeSet<(i32, i32)> = points.map(|(x, y)| (halves(x), halves(y))).collect();
        let mut d = String::new();
        for (x, y) in seen {
            let _ = write!(d, "M{} {}h0", f64::from(x) / 2.0, f64::from(y) / 2.0);
        }
        self.put(format_args!(r#"<path class="{class}" d="{d}"/>"#));
    }

    /// Draws an area between an upper and a lower line.
    pub(crate) fn band(&mut self, class: &str, upper: &[(f64, f64)], lower: &[(f64, f64)]) {
        let around: Vec<(f64, f64)> = upper.iter().chain(lower.iter().rev()).copied().collect();
        self.path(class, &around);
    }

    pub(crate) fn text(&mut self, class: &str, (x, y): (f64, f64), anchor: Anchor, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.put(format_args!(
            r#"<text class="{class}" x="{x:.1}" y="{y:.1}" text-anchor="{anchor}">{text}</text>"#
        ));
    }

    /// Draws the marker of a series, in rotation: circle, square, triangle, diamond.
    pub(crate) fn marker(&mut self, class: &str, (x, y): (f64, f64), r: f64, series: usize) {
        match series % 4 {
            0 => self.put(format_args!(r#"<circle class="{class}" cx="{x:.1}" cy="{y:.1}" r="{r:.1}"/>"#)),
            1 => self.rect(class, (x - 0.9 * r, y - 0.9 * r), 1.8 * r, 1.8 * r),
            2 => self
                .closed(class, &[(x, y - 1.2 * r), (x + 1.1 * r, y + 0.8 * r), (x - 1.1 * r, y + 0.8 * r)]),
            _ => {
                self.closed(class, &[(x, y - 1.3 * r), (x + 1.3 * r, y), (x, y + 1.3 * r), (x - 1.3 * r, y)]);
            }
        }
    }

    fn closed(&mut self, class: &str, points: &[(f64, f64)]) {
        let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        self.put(format_args!(r#"<polygon class="{class}" points="{}"/>"#, points.join(" ")));
    }

    fn put(&mut self, shape: std::fmt::Arguments<'_>) {
        self.body.write_fmt(shape).expect("writing to a String cannot fail");
        self.body.push('\n');
    }
}
