//! Numbers as a person reads them: three significant digits, the unit that
//! fits, and a space between them that neither breaks nor spreads.

use crate::schema::{Params, Slope, Trend, Unit, Value};

/// Narrow no-break space, between a number and its unit and between thousands.
pub const THIN: char = '\u{202f}';

/// Three significant digits: `0`, `0.0123`, `1.46`, `14.6`, `146`, `1 460`.
/// Never an exponent; the digits of a number of a thousand or more stay.
pub fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // The exponent after rounding: 9.996 is 10.0, not 10.00.
    let exponent = exponent(value);
    if exponent >= 3 {
        return thousands(value.round());
    }
    let decimals = (2 - exponent).clamp(0, 9) as usize;
    let text = format!("{:.decimals$}", value.abs());
    if value < 0.0 { format!("−{text}") } else { text }
}

/// Decimal exponent of `value` rounded to three significant digits.
fn exponent(value: f64) -> i32 {
    let text = format!("{value:.2e}");
    text.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0)
}

/// A whole number, its thousands apart from 10 000 on.
fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value < 0.0 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if digits.len() > 4 && i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(THIN);
        }
        out.push(digit);
    }
    out
}

/// A count: `30`, `12 000`.
pub fn count(value: u64) -> String {
    thousands(value as f64)
}

/// The factor and the name of the unit that suits `value`.
fn scale(value: f64, unit: Unit) -> (f64, &'static str) {
    match unit {
        Unit::GigabytesPerSecond if value == 0.0 || !value.is_finite() => (1.0, "GB/s"),
        Unit::GigabytesPerSecond => match exponent(value) {
            0.. => (1.0, "GB/s"),
            -3..0 => (1e3, "MB/s"),
            _ => (1e6, "kB/s"),
        },
        Unit::Cpus => (1.0, "cpu"),
        Unit::Watts if value != 0.0 && exponent(value) < 0 => (1e3, "mW"),
        Unit::Watts => (1.0, "W"),
        Unit::Nanoseconds if value == 0.0 || !value.is_finite() => (1.0, "ns"),
        Unit::Nanoseconds => match exponent(value) {
            ..3 => (1.0, "ns"),
            3..6 => (1e-3, "µs"),
            6..9 => (1e-6, "ms"),
            _ => (1e-9, "s"),
        },
    }
}

/// A figure with its unit: `86.0 ns`, `14.6 µs`, `7.80 GB/s`.
pub fn quantity(value: f64, unit: Unit) -> String {
    let (factor, name) = scale(value, unit);
    format!("{}{THIN}{name}", number(value * factor))
}

/// A time: `86.0 ns`, `14.6 µs`.
pub fn time(ns: f64) -> String {
    quantity(ns, Unit::Nanoseconds)
}

/// Size at which a line breaks, and the jump there; nothing of a line that does not.
pub fn breaks(slope: &Slope) -> String {
    let Some(knee) = slope.knee_bytes else { return String::new() };
    match slope.jump {
        Some(jump) => format!("{}, jump by {}", bytes(knee), time(jump.ns)),
        None => bytes(knee),
    }
}

/// A slope's figure, or the word for what may be said instead.
pub fn growth(slope: &Slope) -> String {
    match slope.trend {
        Trend::Grows | Trend::Falls if slope.is_graded() => time(slope.ns_per_page),
        Trend::Grows | Trend::Falls | Trend::Flat | Trend::Unclear => slope.trend.word().to_owned(),
    }
}

/// An interval, both ends in the unit of the larger one: `[14.2, 15.0] µs`.
pub fn interval([low, high]: [f64; 2], unit: Unit) -> String {
    let (factor, name) = scale(low.abs().max(high.abs()), unit);
    format!("[{}, {}]{THIN}{name}", number(low * factor), number(high * factor))
}

/// Multiple in words: `1.46 ×`.
pub fn times(ratio: f64) -> String {
    format!("{}{THIN}×", number(ratio))
}

/// A date of RFC 3339 to the minute: `2026-11-25 01:02`.
pub fn minute(started: &str) -> String {
    started.get(..16).map_or_else(|| started.to_owned(), |text| text.replace('T', " "))
}

/// A size in binary units: `0`, `64 KiB`, `1.5 MiB`.
pub fn bytes(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if value == 0 {
        return "0".to_owned();
    }
    let power = (value.ilog2() / 10) as usize;
    let (unit, name) = (1u64 << (10 * power), UNITS[power]);
    if value % unit == 0 {
        format!("{}{THIN}{name}", value / unit)
    } else {
        format!("{}{THIN}{name}", number(value as f64 / unit as f64))
    }
}

/// A frequency: `2.60 GHz`.
pub fn hertz(value: f64) -> String {
    format!("{}{THIN}GHz", number(value / 1e9))
}

/// A length of time that a person waits: `48 s`, `4 min 12 s`; of less than a second its
/// time, as `0 s` says that there was none.
pub fn wait(seconds: f64) -> String {
    if seconds > 0.0 && seconds < 1.0 {
        return time(seconds * 1e9);
    }
    let whole = seconds.round() as u64;
    match (whole / 60, whole % 60) {
        (0, s) => format!("{s}{THIN}s"),
        (m, 0) => format!("{m}{THIN}min"),
        (m, s) => format!("{m}{THIN}min {s}{THIN}s"),
    }
}

const MILLION: u64 = 1_000_000;

/// Says yes of a parameter that is a size.
pub fn is_size(name: &str) -> bool {
    name.ends_with("bytes")
}

/// One parameter in words: `data 1 MiB`, `written`, `huge pages`.
pub fn param(name: &str, value: &Value) -> String {
    match (name, value) {
        ("touch", Value::Word(word)) => match word.as_str() {
            "none" => "untouched".to_owned(),
            "read" => "read".to_owned(),
            "write" => "written".to_owned(),
            other => format!("touch {other}"),
        },
        ("cpu", Value::Word(word)) => format!("{word} cpu"),
        ("way" | "step" | "call", Value::Word(word)) => word.replace('_', " "),
        ("files", Value::Word(word)) if word == "own" => "own open files".to_owned(),
        ("files", Value::Word(word)) if word == "one" => "one open file".to_owned(),
        ("processing_threads", Value::Number(0)) => "plain calls".to_owned(),
        ("processing_threads", Value::Number(1)) => "1 processing thread".to_owned(),
        ("requests", Value::Number(1)) => "1 request".to_owned(),
        ("processing_threads" | "requests", Value::Number(n)) => {
            format!("{} {}", count(*n), words(name))
        }
        ("huge", Value::Flag(true)) => "huge pages".to_owned(),
        ("huge", Value::Flag(false)) => "ordinary pages".to_owned(),
        ("bytes", Value::Number(n)) => bytes(*n),
        (_, Value::Flag(true)) => words(name),
        (_, Value::Flag(false)) => format!("no {}", words(name)),
        (_, Value::Number(n)) => {
            let text = match name.rsplit_once('_') {
                Some((_, "bytes")) => bytes(*n),
                Some((_, "ns")) => time(*n as f64),
                Some((_, "ticks")) if *n >= MILLION && n % MILLION == 0 => {
                    format!("{}{THIN}million ticks", count(*n / MILLION))
                }
                Some((_, "ticks")) => format!("{}{THIN}ticks", count(*n)),
                _ => count(*n),
            };
            format!("{} {text}", words(name))
        }
        (_, Value::Word(word)) => format!("{} {word}", words(name)),
    }
}

/// One parameter's value in words, for a column that names the parameter.
pub fn value(name: &str, value: &Value) -> String {
    let whole = param(name, value);
    whole.strip_prefix(&format!("{} ", words(name))).map(str::to_owned).unwrap_or(whole)
}

/// Parameters in words, apart by middle dots. Where a case has several sizes,
/// those of zero go without saying, and so do ordinary pages.
pub fn params(params: &Params) -> String {
    let several = params.keys().filter(|name| is_size(name)).count() > 1;
    let text = said(params, several);
    let sizes = |(name, value): (&String, &Value)| is_size(name) && *value != Value::Number(0);
    if several && !params.iter().any(sizes) { format!("all sizes 0 · {text}") } else { text }
}

/// The parameters that stay while one size varies, in words.
pub fn fixed(params: &Params) -> String {
    said(params, true)
}

fn said(params: &Params, without_zeros: bool) -> String {
    let goes_without = |name: &str, value: &Value| match value {
        Value::Number(0) => without_zeros && is_size(name),
        Value::Flag(false) => name == "huge",
        _ => false,
    };
    let said = params.iter().filter(|(name, value)| !goes_without(name, value));
    said.map(|(name, value)| param(name, value)).collect::<Vec<_>>().join(" · ")
}

/// A parameter's name as words, without the unit that its values carry.
pub fn words(name: &str) -> String {
    if let Some((_, words)) = SHORT.iter().find(|(short, _)| *short == name) {
        return (*words).to_owned();
    }
    let name = name.trim_end_matches("_bytes").trim_end_matches("_ns");
    name.trim_end_matches("_ticks").replace('_', " ")
}

/// Parameters whose names are no words.
const SHORT: [(&str, &str); 4] = [
    ("anon_bytes", "memory"),
    ("args_bytes", "arguments"),
    ("env_bytes", "environment"),
    ("asleep_ns", "asleep for"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(text: &str) -> String {
        text.replace(THIN, " ")
    }

    #[test]
    fn three_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.012345, "0.0123"),
            (1.0, "1.00"),
            (9.996, "10.0"),
            (99.96, "100"),
            (-0.25, "−0.250"),
            (1234.4, "1234"),
            (12345.4, "12 345"),
            (-1234567.0, "−1 234 567"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(plain(&number(value)), text, "{value}");
        }
    }

    #[test]
    fn the_unit_that_fits_after_rounding() {
        for (ns, text) in [
            (0.0, "0 ns"),
            (86.04, "86.0 ns"),
            (999.4, "999 ns"),
            (999.6, "1.00 µs"),
            (14_613.0, "14.6 µs"),
            (999_700.0, "1.00 ms"),
            (175_978_000.0, "176 ms"),
            (2.5e9, "2.50 s"),
            (-1500.0, "−1.50 µs"),
        ] {
            assert_eq!(plain(&time(ns)), text, "{ns}");
        }
    }

    #[test]
    fn both_ends_of_an_interval_share_the_unit() {
        assert_eq!(plain(&interval([980.0, 1020.0], Unit::Nanoseconds)), "[0.980, 1.02] µs");
        assert_eq!(plain(&interval([7.7, 7.9], Unit::GigabytesPerSecond)), "[7.70, 7.90] GB/s");
        assert_eq!(plain(&quantity(0.0125, Unit::GigabytesPerSecond)), "12.5 MB/s");
        assert_eq!(plain(&quantity(0.00412, Unit::Cpus)), "0.00412 cpu");
        assert_eq!(plain(&interval([0.5, 1.0], Unit::Cpus)), "[0.500, 1.00] cpu");
        assert_eq!(plain(&quantity(0.25, Unit::Watts)), "250 mW");
        assert_eq!(plain(&quantity(0.0, Unit::Watts)), "0 W");
        assert_eq!(plain(&quantity(5.05e-5, Unit::GigabytesPerSecond)), "50.5 kB/s");
    }

    #[test]
    fn sizes_are_binary() {
        for (value, text) in [
            (0, "0"),
            (344, "344 B"),
            (65536, "64 KiB"),
            (1_572_864, "1.50 MiB"),
            (8 << 30, "8 GiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(plain(&bytes(value)), text, "{value}");
        }
    }

    #[test]
    fn parameters_read_as_words() {
        assert_eq!(plain(&param("data_bytes", &Value::Number(1 << 20))), "data 1 MiB");
        assert_eq!(param("touch", &Value::from("write")), "written");
        assert_eq!(param("huge", &Value::from(false)), "ordinary pages");
        assert_eq!(param("working_set", &Value::from("hot")), "working set hot");
        assert_eq!(plain(&param("processes", &Value::Number(20_000))), "processes 20 000");
        assert_eq!(plain(&param("threshold_ticks", &100u64.into())), "threshold 100 ticks");
        assert_eq!(param("threshold_ticks", &"infinite".into()), "threshold infinite");
        assert_eq!(value("threshold_ticks", &"infinite".into()), "infinite");
        assert_eq!(plain(&value("threshold_ticks", &100u64.into())), "100 ticks");
        assert_eq!(value("way", &"two_phase".into()), "two phase");
        assert_eq!(param("way", &"block_256".into()), "block 256");
        assert_eq!(param("step", &"gettid_awake".into()), "gettid awake");
        assert_eq!(param("processing_threads", &0u64.into()), "plain calls");
        assert_eq!(param("processing_threads", &3u64.into()), "3 processing threads");
        assert_eq!(param("requests", &300u64.into()), "300 requests");
        assert_eq!(param("files", &"one".into()), "one open file");
        assert_eq!(plain(&param("asked_ns", &Value::Number(50_000))), "asked 50.0 µs");
    }

    #[test]
    fn sizes_of_zero_go_without_saying() {
        let with = |data: u64, bss: u64| {
            let all = [
                ("data_bytes", Value::Number(data)),
                ("bss_bytes", Value::Number(bss)),
                ("huge", Value::Flag(false)),
                ("touch", Value::from("write")),
            ];
            plain(&params(&all.map(|(name, value)| (name.to_owned(), value)).into()))
        };
        assert_eq!(with(4096, 0), "data 4 KiB · written");
        assert_eq!(with(0, 0), "all sizes 0 · written");
        assert_eq!(fixed(&[("data_bytes".to_owned(), Value::Number(0))].into()), "");
        assert_eq!(params(&[("bytes".to_owned(), Value::Number(0))].into()), "0");
    }

    #[test]
    fn waits() {
        assert_eq!(plain(&wait(0.412)), "412 ms");
        assert_eq!([plain(&wait(0.0)), plain(&wait(1.4))], ["0 s", "1 s"]);
        assert_eq!(plain(&wait(47.6)), "48 s");
        assert_eq!(plain(&wait(240.0)), "4 min");
        assert_eq!(plain(&wait(252.0)), "4 min 12 s");
    }
}
