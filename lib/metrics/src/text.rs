//! The text of OpenMetrics.

use std::fmt::Write as _;

/// A family's kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Count that only grows.
    Counter,
    /// Amount that goes up and down.
    Gauge,
}

/// Figures of one program, family by family.
#[derive(Debug)]
pub struct Text {
    prefix: &'static str,
    text: String,
}

impl Text {
    /// None yet, of families whose names begin with `prefix`: `kumiki_kv`.
    pub fn new(prefix: &'static str) -> Self {
        Text { prefix, text: String::new() }
    }

    /// A family of one figure.
    pub fn one(&mut self, kind: Kind, name: &str, help: &str, value: u64) {
        self.family(kind, name, help, [(String::new(), value as f64)]);
    }

    /// A family, with a figure for each value of its labels: `{place="web.core1"}`, or nothing.
    pub fn family(
        &mut self,
        kind: Kind,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (String, f64)>,
    ) {
        let Text { prefix, text } = self;
        let (word, total) = match kind {
            Kind::Counter => ("counter", "_total"),
            Kind::Gauge => ("gauge", ""),
        };
        // Into a text it cannot fail.
        let _ = write!(text, "# TYPE {prefix}_{name} {word}\n# HELP {prefix}_{name} {help}\n");
        for (labels, value) in values {
            let _ = writeln!(text, "{prefix}_{name}{total}{labels} {value}");
        }
    }

    /// All of it.
    pub fn end(mut self) -> String {
        self.text.push_str("# EOF\n");
        self.text
    }
}

/// One label with its value, as a text that it may be: `{place="web.core1"}`.
pub fn label(name: &str, value: &str) -> String {
    let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("{{{name}=\"{value}\"}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_has_its_kind_and_a_line_a_figure() {
        let mut text = Text::new("x");
        text.one(Kind::Counter, "calls", "Calls.", 3);
        let value = |name: &str, value| (label("place", name), value);
        text.family(Kind::Gauge, "busy", "Busy.", [value("a", 0.5), value("\"\\\n", 1.0)]);
        assert_eq!(
            text.end(),
            "# TYPE x_calls counter\n# HELP x_calls Calls.\nx_calls_total 3\n\
             # TYPE x_busy gauge\n# HELP x_busy Busy.\nx_busy{place=\"a\"} 0.5\n\
             x_busy{place=\"\\\"\\\\\\n\"} 1\n# EOF\n"
        );
    }
}
