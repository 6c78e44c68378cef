//! Tables for people.

use std::fmt::Display;

use anyhow::Result;
use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, presets::NOTHING};
use kumiki_sys::visible::visible;

use crate::output;

/// A table for people; each cell is one line.
#[derive(Debug)]
pub struct Rows(Table);

impl Rows {
    /// None yet, with these headings; all columns but the first `left` are aligned to
    /// the right.
    pub fn new(headings: &[&str], left: usize) -> Rows {
        let mut table = Table::new();
        table.load_preset(NOTHING).set_header(headings);
        // Where the terminal is too narrow parameters are broken, between words.
        let parameters = headings.iter().position(|name| ["parameters", "with"].contains(name));
        if let (Some(parameters), Some(_)) = (parameters, table.width()) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
            for i in (0..headings.len()).filter(|i| *i != parameters) {
                if let Some(column) = table.column_mut(i) {
                    column.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        for i in left..headings.len() {
            if let Some(column) = table.column_mut(i) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        Rows(table)
    }

    /// Indents the rows; there is no room before the first column: its cells bring their own.
    pub fn indented(mut self) -> Rows {
        if let Some(column) = self.0.column_mut(0) {
            column.set_padding((0, 1));
        }
        self
    }

    /// Adds a row.
    pub fn add(&mut self, cells: impl IntoIterator<Item: Display>) {
        self.0.add_row(cells.into_iter().map(|cell| visible(cell).to_string()));
    }

    /// Prints the table.
    ///
    /// # Errors
    /// It went nowhere.
    pub fn print(&self) -> Result<()> {
        output::text(format_args!("{self}\n"))
    }

    /// True if there is no row yet.
    pub fn is_empty(&self) -> bool {
        self.0.row_iter().next().is_none()
    }
}

impl Display for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.trim_fmt())
    }
}

/// True if standard output is a terminal of fewer columns.
pub fn narrow(columns: usize) -> bool {
    Table::new().width().is_some_and(|width| usize::from(width) < columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_begin_where_their_heading_does_and_figures_end_there() {
        let mut rows = Rows::new(&["call", "ns", "of"], 1);
        assert!(rows.is_empty());
        rows.add(["getppid", "71", "2"]);
        rows.add(["a\u{1b}[1m", "1234", "30"]);
        let text = rows.to_string();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], " call          ns  of");
        assert_eq!(lines[1], " getppid       71   2");
        // What would speak to the terminal is shown instead.
        assert!(lines[2].ends_with("  1234  30") && !lines[2].contains('\u{1b}'), "{text}");
        assert!(Rows::new(&["x"], 1).indented().to_string().starts_with('x'));
    }
}
