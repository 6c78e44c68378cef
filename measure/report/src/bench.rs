//! A bench's result, as somebody's file has it, and the table of its rows.

use kumiki_measure::bench::{Document, Row};
use kumiki_measure::schema::Machine;
use kumiki_sys::visible::visible;
use maud::{Markup, html};

use crate::format;

/// A file of `cargo xtask bench NAME --json FILE`.
#[derive(Clone, Debug)]
pub struct Bench {
    pub(crate) machine: Machine,
    pub(crate) rows: Vec<Row>,
}

impl Bench {
    /// Reads one, without anything that a terminal would carry out.
    ///
    /// # Errors
    /// No JSON, or none of a bench.
    pub fn read(bytes: &[u8]) -> serde_json::Result<Bench> {
        let Document { mut machine, mut rows, .. } = serde_json::from_slice(bytes)?;
        let of_rows =
            rows.iter_mut().flat_map(|row| [&mut row.case, &mut row.subject, &mut row.unit]);
        for text in of_rows.chain([&mut machine.hostname, &mut machine.kernel]) {
            *text = visible(&*text).to_string();
        }
        Ok(Bench { machine, rows })
    }

    pub(crate) fn row(&self, case: &str, subject: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.subject == subject)
    }

    /// Machine on which it was measured, as a sentence.
    pub(crate) fn measured_on(&self) -> String {
        let Machine { hostname, kernel, cpus, .. } = &self.machine;
        format!("Measured on {hostname}, Linux {kernel}, {cpus} cpus.")
    }

    /// All rows.
    pub(crate) fn table(&self) -> Markup {
        html! {
            div.scroll tabindex="0" role="region" aria-label="All figures" {
                table {
                    thead {
                        tr {
                            th scope="col" { "case" } th scope="col" { "subject" }
                            th.n scope="col" { "median" } th.n scope="col" { "95 % CI" }
                            th.n scope="col" { "p99" } th.n scope="col" { "÷ base" }
                            th.n scope="col" { "n" } th.n scope="col" { "failed" }
                        }
                    }
                    tbody { @for row in &self.rows { (one(row)) } }
                }
            }
        }
    }
}

fn one(row: &Row) -> Markup {
    let written = |number| quantity(number, &row.unit);
    html! {
        tr {
            th scope="row" { code { (row.case) } }
            td { (row.subject) }
            td.n { b { (written(row.median)) } }
            td.n.quiet { (written(row.ci[0])) "–" (written(row.ci[1])) }
            td.n { (written(row.p99)) }
            td.n { @if let Some(base) = row.base { (format!("{:.2}", row.median / base)) } }
            td.n { (row.n) }
            td.n { @if row.failed > 0 { (row.failed) } }
        }
    }
}

/// A number with its unit, times in the unit that reads best.
pub(crate) fn quantity(number: f64, unit: &str) -> String {
    match unit {
        "ns" => format::time(number),
        "ms" => format::time(number * 1e6),
        "1/s" => format!("{}/s", format::number(number)),
        _ => format!("{} {unit}", format::number(number)),
    }
}
