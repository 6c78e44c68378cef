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
        table.load_style(NOTHING).set_header(headings);
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
