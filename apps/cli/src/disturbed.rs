//! What disturbed a run: counts, and by `--verbose` every row.

use kumiki_measure::schema::{Results, Row};
use kumiki_report::format;

use crate::output;

/// Lines about disturbed rows; none if there was no such row.
pub(crate) fn text(results: &Results, verbose: bool) -> String {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.disturbed).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut text = counts(results, &rows);
    if !verbose {
        text += " (--verbose names them)";
    }
    text = output::wrapped(&text, "");
    if verbose {
        for row in rows {
            let (params, causes) = (output::params(&row.params), row.disturbances.join("; "));
            text += &output::wrapped(&format!("{} {params}: {causes}", row.case), "  ");
        }
    }
    text
}

/// `3 of 200 rows disturbed: 2 by other work on these cpus, 1 by …`. A row counts
/// for each of its causes.
fn counts(results: &Results, rows: &[&Row]) -> String {
    let mut causes: Vec<(&str, usize)> = Vec::new();
    for row in rows {
        for cause in of(row) {
            match causes.iter_mut().find(|(known, _)| *known == cause) {
                Some((_, times)) => *times += 1,
                None => causes.push((cause, 1)),
            }
        }
    }
    causes.sort_by_key(|(_, times)| std::cmp::Reverse(*times));
    let shown: Vec<String> = causes.iter().map(|(cause, n)| format!("{cause} {n} ×")).collect();
    format!(
        "{} of {} rows disturbed: {}",
        format::count(rows.len() as u64),
        format::count(results.rows.len() as u64),
        shown.join(", ")
    )
}

/// Each cause that struck a visit of the row, once.
fn of(row: &Row) -> Vec<&str> {
    let mut causes: Vec<&str> =
        row.visits.iter().flat_map(|visit| &visit.disturbances).map(String::as_str).collect();
    causes.sort_unstable();
    causes.dedup();
    causes
}
