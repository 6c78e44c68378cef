//! The data file `dev/bench/promises.toml`, read: each entry one promise, or one for each of its
//! sizes and numbers of busy processes.

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::super::judge::{Bound, KUMIKI};
use super::{Figure, More, Over, Promise, Sizes, Term};

pub(super) const FILE: &str = include_str!("../../../../bench/promises.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) machine: Vec<Measured>,
    promise: Vec<Entry>,
}

/// A machine on which promises were made.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Measured {
    pub(super) name: String,
    pub(super) is: String,
}

/// A promise as it is written; what the fields mean stands in the file.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    bench: String,
    name: String,
    case: String,
    #[serde(default = "kumiki")]
    subject: String,
    n: Option<SizesWritten>,
    #[serde(default)]
    busy: Vec<usize>,
    #[serde(default)]
    figure: Figure,
    over: Option<Over>,
    over_case: Option<String>,
    over_n: Option<usize>,
    plus: Option<More>,
    minus: Option<More>,
    named: Option<String>,
    unit: Option<String>,
    at_most: Option<Limit>,
    below: Option<Limit>,
    at_least: Option<Limit>,
    or: Option<Or>,
    floor: Option<String>,
    machine: String,
    made: String,
}

/// Another figure, which is enough too: what it does not say is as in the first.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Or {
    subject: Option<String>,
    n: Option<usize>,
    over: Option<Over>,
    over_n: Option<usize>,
    named: Option<String>,
    at_most: Option<f64>,
    at_least: Option<f64>,
}

fn kumiki() -> String {
    KUMIKI.to_owned()
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum SizesWritten {
    At(usize),
    Each(Vec<usize>),
    Any(Any),
    Range { from: usize, to: Option<usize> },
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Any {
    Any,
}

/// One limit, or one for each size.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Limit {
    One(f64),
    Each(Vec<f64>),
}

impl Limit {
    fn at(&self, size: usize) -> Option<f64> {
        match self {
            Limit::One(limit) => Some(*limit),
            Limit::Each(limits) => limits.get(size).copied(),
        }
    }
}

/// Reads the file.
pub(super) fn read(text: &str) -> Result<(Vec<Measured>, Vec<Promise>)> {
    let File { machine, promise } =
        toml::from_str(text).context("reading dev/bench/promises.toml")?;
    for machine in &machine {
        ensure!(!machine.is.is_empty(), "machine {}: what it is stands nowhere", machine.name);
    }
    let mut all = Vec::new();
    for entry in &promise {
        let context = || format!("dev/bench/promises.toml, {}", entry.name);
        ensure!(
            machine.iter().any(|machine| machine.name == entry.machine),
            "{}: no [[machine]] is called {}",
            context(),
            entry.machine
        );
        let (day, by) = entry.made.split_once(", ").with_context(context)?;
        ensure!(
            !by.is_empty() && day.len() == 10 && day.split('-').count() == 3,
            "{}: made is {:?}: a day and who, as \"2026-11-25, maintainers\"",
            context(),
            entry.made
        );
        all.extend(entry.expanded().with_context(context)?);
    }
    Ok((machine, all))
}

impl Entry {
    /// A promise for each number of busy processes and each size.
    fn expanded(&self) -> Result<Vec<Promise>> {
        let sizes: Vec<_> = match &self.n {
            Some(SizesWritten::Each(sizes)) => sizes.iter().copied().map(Some).collect(),
            _ => vec![None],
        };
        for limit in [&self.at_most, &self.below, &self.at_least].into_iter().flatten() {
            let has_all = !matches!(limit, Limit::Each(limits) if limits.len() != sizes.len());
            ensure!(has_all, "there is not one limit for each size");
        }
        let busy: Vec<_> = match self.busy.as_slice() {
            [] => vec![None],
            all => all.iter().copied().map(Some).collect(),
        };
        let each = busy
            .into_iter()
            .flat_map(|busy| sizes.iter().enumerate().map(move |(at, size)| (busy, at, *size)));
        each.map(|(busy, at, size)| self.one(busy, at, size)).collect()
    }

    fn one(&self, busy: Option<usize>, at: usize, size: Option<usize>) -> Result<Promise> {
        let filled = |text: &str| {
            let filled = |text: String, mark: &str, number: Option<usize>| {
                number.map_or(text.clone(), |number| text.replace(mark, &number.to_string()))
            };
            filled(filled(text.to_owned(), "{busy}", busy), "{n}", size)
        };
        let n = match &self.n {
            None => None,
            Some(SizesWritten::At(n)) => Some(Sizes::At(*n)),
            Some(SizesWritten::Each(_)) => size.map(Sizes::At),
            Some(SizesWritten::Any(Any::Any)) => Some(Sizes::Range { from: 0, to: None }),
            Some(SizesWritten::Range { from, to }) => Some(Sizes::Range { from: *from, to: *to }),
        };
        let of = |limit: &Option<Limit>| limit.as_ref().and_then(|limit| limit.at(at));
        let term = Term {
            case: filled(&self.case),
            subject: self.subject.clone(),
            n,
            figure: self.figure,
            over: self.over.clone(),
            over_case: self.over_case.clone(),
            over_n: self.over_n,
            plus: self.plus.clone(),
            minus: self.minus.clone(),
            named: self.named.clone(),
            unit: self.unit.clone(),
            bound: bound(of(&self.at_most), of(&self.below), of(&self.at_least))?,
        };
        term.check()?;
        let or = self.or.as_ref().map(|or| or.term(&term)).transpose()?;
        ensure!(or.is_none() || !term.is_of_many(), "several sizes have no other figure");
        let (bench, floor) = (self.bench.clone(), self.floor.clone());
        Ok(Promise { bench, name: filled(&self.name), term, or, floor })
    }
}

impl Or {
    fn term(&self, first: &Term) -> Result<Term> {
        let first = first.clone();
        let term = Term {
            subject: self.subject.clone().unwrap_or(first.subject),
            n: self.n.map(Sizes::At).or(first.n),
            over: self.over.clone().or(first.over),
            over_n: self.over_n.or(first.over_n),
            named: self.named.clone(),
            bound: bound(self.at_most, None, self.at_least)?,
            ..first
        };
        term.check()?;
        Ok(term)
    }
}

fn bound(at_most: Option<f64>, below: Option<f64>, at_least: Option<f64>) -> Result<Bound> {
    match (at_most, below, at_least) {
        (Some(limit), None, None) => Ok(Bound::AtMost(limit)),
        (None, Some(limit), None) => Ok(Bound::Below(limit)),
        (None, None, Some(limit)) => Ok(Bound::AtLeast(limit)),
        _ => bail!("one of at_most, below, at_least is needed"),
    }
}
