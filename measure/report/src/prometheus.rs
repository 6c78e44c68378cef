//! A result as metrics, in Prometheus's text format (version 0.0.4).

use std::fmt::Write as _;

use kumiki_measure::schema::{Results, Row, Unit};

/// Names of a row's units there, and factors of its figures.
const UNITS: [(Unit, &str, &str, f64); 4] = [
    (Unit::Nanoseconds, "operation_seconds", "Time of one operation.", 1e-9),
    (Unit::GigabytesPerSecond, "bandwidth_bytes_per_second", "Bytes moved a second.", 1e9),
    (Unit::Cpus, "cpus", "Seconds of processor time a second.", 1.0),
    (Unit::Watts, "power_watts", "Joules a second.", 1.0),
];

/// The figures of every row, one a line: quiet cost, median, p99, both ends of the quiet
/// cost's interval; and whether the row was disturbed.
pub fn metrics(results: &Results) -> String {
    let mut text = String::new();
    for (unit, name, help, factor) in UNITS {
        let rows: Vec<&Row> = results.rows.iter().filter(|row| row.unit == unit).collect();
        if rows.is_empty() {
            continue;
        }
        let _ = writeln!(text, "# HELP kumiki_{name} {help}\n# TYPE kumiki_{name} gauge");
        for row in &rows {
            // Of fewer visits than an interval takes these two are not there.
            let [low, high] = row.quiet_ci.unwrap_or([f64::NAN; 2]);
            let figures = [
                ("quiet", row.quiet),
                ("quiet_low", low),
                ("quiet_high", high),
                ("median", row.median),
                ("p99", row.p99),
            ];
            for (figure, value) in figures.into_iter().filter(|(_, value)| value.is_finite()) {
                let labels = labels(row, Some(figure));
                let _ = writeln!(text, "kumiki_{name}{{{labels}}} {}", value * factor);
            }
        }
    }
    if !results.rows.is_empty() {
        let help = "Whether other work disturbed the row.";
        let _ = writeln!(text, "# HELP kumiki_disturbed {help}\n# TYPE kumiki_disturbed gauge");
    }
    for row in &results.rows {
        let disturbed = u8::from(row.disturbed);
        let _ = writeln!(text, "kumiki_disturbed{{{}}} {disturbed}", labels(row, None));
    }
    text
}

fn labels(row: &Row, figure: Option<&str>) -> String {
    let mut labels = vec![label("case", &row.case)];
    // `case` and `figure` are ours; a parameter of that name gets another.
    let own = |name: &str| {
        if matches!(name, "case" | "figure") { format!("param_{name}") } else { name.to_owned() }
    };
    labels.extend(row.params.iter().map(|(name, value)| label(&own(name), &value.to_string())));
    labels.extend(figure.map(|figure| label("figure", figure)));
    labels.join(",")
}

/// `name="value"`: a name has letters, digits and `_` only and no digit first; in a value
/// these three characters are escaped.
fn label(name: &str, value: &str) -> String {
    let mut name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{name}=\"{value}\"")
}

#[cfg(test)]
mod tests {
    use kumiki_measure::schema::{Machine, Params, Run, Visit};

    use super::*;

    #[test]
    fn every_line_is_a_metric() {
        let hostile = Params::from([("a-b".to_owned(), "x\"} 1\ny\\".into())]);
        let visit = Visit { samples: vec![100.0; 5], ..Visit::default() };
        let row = |unit| {
            Row::summarise("file.read", hostile.clone(), unit, vec![0], vec![visit.clone(); 3])
        };
        let rows = vec![row(Unit::Nanoseconds), row(Unit::GigabytesPerSecond)];
        let text = metrics(&Results::new(Run::default(), Machine::default(), rows, Vec::new()));
        let labels = "case=\"file.read\",a_b=\"x\\\"} 1\\ny\\\\\"";
        let line = format!("kumiki_operation_seconds{{{labels},figure=\"median\"}} ");
        let value =
            text.lines().find_map(|l| l.strip_prefix(&line)).unwrap_or_else(|| panic!("{text}"));
        assert!((value.parse::<f64>().unwrap() - 1e-7).abs() < 1e-15, "{value}");
        assert!(text.contains(&format!("kumiki_disturbed{{{labels}}} 0")), "{text}");
        assert!(text.contains("kumiki_bandwidth_bytes_per_second{"), "{text}");
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (head, value) = line.rsplit_once(' ').unwrap();
            assert!(head.ends_with('}') && value.parse::<f64>().is_ok(), "{line}");
        }
    }
}
