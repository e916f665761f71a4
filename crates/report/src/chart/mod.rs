//! Pictures as SVG: no script, no embedded fonts, colors from the page's variables.
//!
//! Each picture is drawn twice, for a wide and for a narrow page, so that its text has the size of the page's
//! text on both. Series differ by color, by marker and by the label at their end; each of the three suffices.

mod cloud;
mod forest;
mod heat;
mod lines;
mod scale;
mod scatter;
mod svg;

pub(crate) use cloud::{Cloud, cloud};
pub(crate) use forest::{Forest, ForestRow, forest};
pub(crate) use heat::{Heat, HeatColumn, heat};
pub(crate) use lines::{Line, Lines, Point, lines};
pub(crate) use scale::{Kind, round_values};
pub(crate) use scatter::{Mark, PointGroup, Scatter, scatter};

/// One picture in two widths.
#[derive(Debug)]
pub(crate) struct Drawing {
    /// For a page of at least 700 pixels, and for print.
    pub(crate) wide: Svg,
    /// For a telephone.
    pub(crate) narrow: Svg,
}

/// The content of an `<svg>` element, and its size.
#[derive(Debug)]
pub(crate) struct Svg {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) body: String,
}

impl Drawing {
    /// Width of [`Self::wide`].
    pub(crate) const WIDE: f64 = 880.0;
    /// Width of [`Self::narrow`].
    pub(crate) const NARROW: f64 = 350.0;

    /// Draws the picture in both widths.
    pub(crate) fn of(draw: impl Fn(f64) -> Svg) -> Self {
        Self { wide: draw(Self::WIDE), narrow: draw(Self::NARROW) }
    }
}
