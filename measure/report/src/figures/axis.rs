//! An axis: its range, where its ticks are, and what they say.

use std::ops::Range;

use kumiki_measure::schema::Unit;
use plotters::coord::ranged1d::{
    KeyPointHint, KeyPointWeight, NoDefaultFormatting, Ranged, ValueFormatter,
};

use crate::format::THIN;

/// Unit of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Quantity {
    /// Bytes: ticks are powers of two.
    Bytes,
    /// Whole numbers.
    Count,
    /// Quantity that rows measure.
    Measured(Unit),
    /// Ways of doing one thing, from the top.
    Ways(Vec<String>),
}

/// An axis over `low` to `high`, either evenly or by the logarithm.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Axis {
    pub(super) quantity: Quantity,
    pub(super) log: bool,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Axis {
    /// An axis on which every one of the values is seen. One that is not
    /// logarithmic begins at zero.
    pub(super) fn over(quantity: Quantity, log: bool, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let ends = values.fold(None, |ends: Option<(f64, f64)>, value| {
            let (low, high) = ends.unwrap_or((value, value));
            Some((low.min(value), high.max(value)))
        });
        let (low, high) = match (ends, log) {
            (Some((low, high)), true) => {
                // A narrow range still shows two steps of its decade.
                let room = (high / low).powf(0.06).max(1.15);
                (low / room, high * room)
            }
            (Some((low, high)), false) => {
                let (low, high) = (low.min(0.0), high.max(0.0));
                let room = 0.05 * (high - low);
                (if low < 0.0 { low - room } else { 0.0 }, high + room)
            }
            (None, true) => (1.0, 10.0),
            (None, false) => (0.0, 1.0),
        };
        let high = if high > low { high } else { low + 1.0 };
        Axis { quantity, log, low, high }
    }

    /// One place for each way, the first at the top.
    pub(super) fn ways(names: Vec<String>) -> Self {
        let (low, high) = (-0.5, names.len() as f64 - 0.5);
        Axis { quantity: Quantity::Ways(names), log: false, low, high }
    }

    /// True if a value has a place on it.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.log || value > 0.0)
    }

    /// Place on the axis, 0 to 1.
    fn share(&self, value: f64) -> f64 {
        let share = if self.log {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        if share.is_nan() { 0.0 } else { share.clamp(-10.0, 10.0) }
    }

    /// Data for the page's script: what it counts, how, and its ends.
    pub(super) fn to_data(&self) -> String {
        let quantity = match &self.quantity {
            Quantity::Bytes => "bytes",
            Quantity::Count => "count",
            Quantity::Measured(unit) => unit.as_str(),
            Quantity::Ways(_) => "ways",
        };
        let log = if self.log { "log" } else { "linear" };
        format!("{quantity} {log} {} {}", self.low, self.high)
    }

    fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        match (&self.quantity, self.log) {
            (Quantity::Ways(names), _) => (0..names.len()).map(|at| at as f64).collect(),
            (Quantity::Bytes, true) => self.powers_of_two(most),
            (Quantity::Bytes, false) => self.multiples(most, |least| least.log2().ceil().exp2()),
            (Quantity::Count, false) => self.multiples(most, |least| one_two_five(least).max(1.0)),
            (_, false) => self.multiples(most, one_two_five),
            (_, true) => self.decades(most),
        }
    }

    fn powers_of_two(&self, most: usize) -> Vec<f64> {
        let (from, to) = (self.low.log2(), self.high.log2());
        let step = ((to - from) / most as f64).ceil().max(1.0);
        let first = (from / step).ceil() as i64;
        (first..).map(|at| at as f64 * step).take_while(|at| *at <= to).map(f64::exp2).collect()
    }

    fn multiples(&self, most: usize, step: impl Fn(f64) -> f64) -> Vec<f64> {
        let step = step((self.high - self.low) / most as f64);
        let first = (self.low / step).ceil() as i64;
        (first..).map(|at| at as f64 * step).take_while(|at| *at <= self.high).collect()
    }

    /// Powers of ten, with as many steps between as there is room for.
    fn decades(&self, most: usize) -> Vec<f64> {
        const STEPS: [&[f64]; 4] =
            [&[1.0, 2.0, 3.0, 5.0, 7.0], &[1.0, 2.0, 5.0], &[1.0, 3.0], &[1.0]];
        let powers = self.low.log10().floor() as i32..=self.high.log10().ceil() as i32;
        let at = |steps: &[f64], every: i32| -> Vec<f64> {
            let powers = powers.clone().filter(|power| power % every == 0);
            let all =
                powers.flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)));
            all.filter(|value| (self.low..=self.high).contains(value)).collect()
        };
        let mut coarser =
            STEPS.iter().map(|steps| at(steps, 1)).chain((2..9).map(|n| at(&[1.0], n)));
        coarser.find(|ticks| ticks.len() <= most).unwrap_or_default()
    }
}

/// The least of 1, 2, 5 times a power of ten that is not below `least`.
fn one_two_five(least: f64) -> f64 {
    let power = 10f64.powf(least.log10().floor());
    let fits = |factor: &f64| factor * power >= least * 0.9999;
    power * [1.0, 2.0, 5.0].into_iter().find(fits).unwrap_or(10.0)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (first, last): (i32, i32)) -> i32 {
        first + (self.share(*value) * f64::from(last - first)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match hint.weight() {
            KeyPointWeight::Bold => self.ticks(hint.max_num_points()),
            KeyPointWeight::Any => Vec::new(),
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match &self.quantity {
            Quantity::Ways(names) => names.get(*value as usize).cloned().unwrap_or_default(),
            Quantity::Count => short(*value),
            Quantity::Bytes => scaled(*value, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]),
            Quantity::Measured(Unit::Nanoseconds) => {
                scaled(*value, 1000.0, &["ns", "µs", "ms", "s"])
            }
            Quantity::Measured(Unit::GigabytesPerSecond) => {
                scaled(*value * 1e6, 1000.0, &["kB/s", "MB/s", "GB/s"])
            }
            Quantity::Measured(Unit::Watts) => scaled(*value * 1e3, 1000.0, &["mW", "W"]),
            Quantity::Measured(Unit::Cpus) => format!("{}{THIN}cpu", short(*value)),
        }
    }
}

/// A tick in the unit that fits: `64 KiB`, `1.5 µs`, `0`.
fn scaled(mut value: f64, step: f64, names: &[&str]) -> String {
    if value.abs() < 1e-9 {
        return short(value);
    }
    let mut at = 0;
    while at + 1 < names.len() && value.abs() >= step * 0.9999 {
        value /= step;
        at += 1;
    }
    format!("{}{THIN}{}", short(value), names[at])
}

/// Three digits at most, none that says nothing: `0.05`, `1.5`, `300`.
fn short(value: f64) -> String {
    if value.abs() < 1e-9 {
        return "0".to_owned();
    }
    let decimals = (2 - value.abs().log10().floor().min(2.0) as i32).clamp(0, 9) as usize;
    let text = format!("{value:.decimals$}");
    if !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(quantity: Quantity, log: bool, ends: [f64; 2], most: usize) -> Vec<String> {
        let axis = Axis { quantity, log, low: ends[0], high: ends[1] };
        axis.ticks(most).iter().map(|at| axis.format_ext(at).replace(THIN, " ")).collect()
    }

    #[test]
    fn sizes_have_binary_ticks() {
        let mib = f64::from(1 << 20);
        assert_eq!(
            ticks(Quantity::Bytes, false, [0.0, 17.0 * mib], 5),
            ["0", "4 MiB", "8 MiB", "12 MiB", "16 MiB"]
        );
        assert_eq!(
            ticks(Quantity::Bytes, true, [0.9, 70_000.0], 5),
            ["1 B", "16 B", "256 B", "4 KiB", "64 KiB"]
        );
    }

    #[test]
    fn times_have_decimal_ticks() {
        let ns = || Quantity::Measured(Unit::Nanoseconds);
        assert_eq!(ticks(ns(), false, [0.0, 2e6], 5), ["0", "500 µs", "1 ms", "1.5 ms", "2 ms"]);
        assert_eq!(
            ticks(ns(), true, [90.0, 1.2e6], 6),
            ["100 ns", "1 µs", "10 µs", "100 µs", "1 ms"]
        );
        assert_eq!(ticks(ns(), true, [90.0, 400.0], 6), ["100 ns", "200 ns", "300 ns"]);
    }

    #[test]
    fn counts_are_whole() {
        assert_eq!(ticks(Quantity::Count, false, [0.0, 3.0], 8), ["0", "1", "2", "3"]);
        assert_eq!(ticks(Quantity::Count, false, [0.0, 315.0], 4), ["0", "100", "200", "300"]);
        let cpus = ticks(Quantity::Measured(Unit::Cpus), false, [0.0, 1.05], 5);
        assert_eq!(cpus, ["0 cpu", "0.5 cpu", "1 cpu"]);
    }

    #[test]
    fn every_value_is_seen() {
        let values = [3.0, 0.0, 250.0];
        for log in [false, true] {
            let axis = Axis::over(Quantity::Count, log, values.into_iter());
            for value in values.into_iter().filter(|v| axis.shows(*v)) {
                assert!((0.0..=1.0).contains(&axis.share(value)), "{value} {axis:?}");
            }
        }
        assert!(!Axis::over(Quantity::Count, true, values.into_iter()).shows(0.0));
        let nothing = Axis::over(Quantity::Count, false, std::iter::empty());
        assert!(nothing.high > nothing.low);
    }
}
