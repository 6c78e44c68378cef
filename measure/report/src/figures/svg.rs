//! Draws what plotters asks for as SVG that the page's style sheet colours.

use std::cell::RefCell;
use std::convert::Infallible;
use std::fmt::Write as _;
use std::rc::Rc;

use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// plotters counts whole pixels; each is so many of the drawing's parts, so that
/// points stay where they are when a reader zooms in.
pub(super) const PARTS: i32 = 10;

/// Colours name a class of the style sheet, which knows the theme.
pub(super) const GRID: RGBColor = RGBColor(0, 0, 1);
pub(super) const RULE: RGBColor = RGBColor(0, 0, 2);
pub(super) const LABEL: RGBColor = RGBColor(0, 0, 3);
/// A line of data: its group has the colour.
pub(super) const DATA: RGBColor = RGBColor(0, 0, 4);

fn class(colour: BackendColor) -> &'static str {
    match colour.rgb {
        (0, 0, 1) => "grid",
        (0, 0, 2) => "rule",
        (0, 0, 3) => "label",
        _ => "data",
    }
}

/// A drawing that grows; others write between what plotters draws.
#[derive(Clone, Default)]
pub(super) struct Svg {
    text: Rc<RefCell<String>>,
    size: (u32, u32),
}

type Drawn = Result<(), DrawingErrorKind<Infallible>>;

impl Svg {
    /// Width and height in pixels of the page.
    pub(super) fn new((width, height): (u32, u32)) -> Self {
        Svg { text: Rc::default(), size: (width * PARTS as u32, height * PARTS as u32) }
    }

    /// Adds elements.
    pub(super) fn write(&self, elements: &str) {
        self.text.borrow_mut().push_str(elements);
    }

    /// Parts drawn so far.
    pub(super) fn text(&self) -> String {
        self.text.borrow().clone()
    }
}

/// Parts as pixels, with a tenth where it is needed.
pub(super) fn pixels(parts: i32) -> String {
    let (whole, tenth) = (parts.abs() / PARTS, parts.abs() % PARTS);
    let sign = if parts < 0 { "-" } else { "" };
    if tenth == 0 { format!("{sign}{whole}") } else { format!("{sign}{whole}.{tenth}") }
}

/// Text that stays text within an element.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl DrawingBackend for Svg {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, colour: BackendColor) -> Drawn {
        self.draw_path([point, point], &colour)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Drawn {
        let point = |(x, y)| format!("{},{}", pixels(x), pixels(y));
        let points: Vec<String> = path.into_iter().map(point).collect();
        // Writing to a String cannot fail.
        let _ = write!(
            self.text.borrow_mut(),
            r#"<polyline class="{}" points="{}"/>"#,
            class(style.color()),
            points.join(" ")
        );
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Drawn {
        let anchor = match style.anchor().h_pos {
            HPos::Left => "start",
            HPos::Center => "middle",
            HPos::Right => "end",
        };
        let down = match style.anchor().v_pos {
            VPos::Top => ".75em",
            VPos::Center => ".35em",
            VPos::Bottom => "-.25em",
        };
        let _ = write!(
            self.text.borrow_mut(),
            r#"<text class="{}" x="{}" y="{}" dy="{down}" text-anchor="{anchor}">{}</text>"#,
            class(style.color()),
            pixels(x),
            pixels(y),
            escape(text)
        );
        Ok(())
    }

    /// Nothing is laid out by the size of a text: the browser knows it.
    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        _: &str,
        _: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Infallible>> {
        Ok((0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenths_of_pixels() {
        for (parts, text) in [(0, "0"), (10, "1"), (-15, "-1.5"), (1234, "123.4"), (-4, "-0.4")] {
            assert_eq!(pixels(parts), text);
        }
    }
}
