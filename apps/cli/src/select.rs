//! Which cases a person asked for, of all that there are.

use std::collections::HashSet;

use anyhow::{Result, anyhow, bail};
use clap::Args;
use kumiki_cases::check;
use kumiki_measure::case::{Case, Choice, Level};

use crate::size::size;

/// Choice of cases.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Select {
    /// Part of a case's name (`fork`, `ipc.pipe`) or `parameter=value`
    /// (`touch=write`); several names add up, several parameters narrow down
    #[arg(value_name = "FILTER")]
    pub(crate) filters: Vec<String>,
    #[command(flatten)]
    pub(crate) sizes: Sizes,
}

/// Choice of sizes.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Sizes {
    /// Sizes to sweep instead of each case's own, e.g. 0,64K,1M
    #[arg(long, value_delimiter = ',', value_parser = size, value_name = "SIZE,…",
        allow_negative_numbers = true)]
    pub(crate) sizes: Option<Vec<u64>>,
}

/// Names with which a filter that fits nothing is answered, at most.
const NEAREST: usize = 5;

/// A name is worth saying that is this much as near as the nearest.
const NEAR: f64 = 0.7;

/// The cases of `level` that `select` keeps, or an error that says which filter
/// fits nothing.
pub(crate) fn cases(select: &Select, level: Level) -> Result<Vec<Case>> {
    let mut sizes = select.sizes.sizes.clone();
    if let Some(sizes) = &mut sizes {
        // A size given twice would be two cases of one name.
        sizes.sort_unstable();
        sizes.dedup();
    }
    let choice = Choice { level: Some(level), sizes };
    kumiki_experiments::policy()?;
    let cases = filter(catalogue(&choice), &select.filters, level)?;
    if select.sizes.sizes.is_some() {
        check(&cases)?;
    }
    Ok(cases)
}

/// Checks that a word names a case of the shortest runs.
pub(crate) fn known(word: &str) -> Result<()> {
    let level = Level::Quick;
    let choice = Choice { level: Some(level), sizes: None };
    filter(catalogue(&choice), &[word.to_owned()], level).map(|_| ())
}

/// The operating system's own cases, then the papers' experiments.
pub(crate) fn catalogue(choice: &Choice) -> Vec<Case> {
    let mut cases = kumiki_cases::catalogue(choice);
    cases.extend(kumiki_experiments::catalogue(choice));
    cases
}

fn filter(mut cases: Vec<Case>, filters: &[String], level: Level) -> Result<Vec<Case>> {
    for filter in filters {
        if !cases.iter().any(|case| fits(case, filter)) {
            return Err(unknown(&cases, filter, level));
        }
    }
    let (params, names): (Vec<&String>, Vec<&String>) =
        filters.iter().partition(|filter| filter.contains('='));
    cases.retain(|case| {
        (names.is_empty() || names.iter().any(|name| fits(case, name)))
            && params.iter().all(|param| fits(case, param))
    });
    if cases.is_empty() {
        bail!("no case fits {} together; `kumiki measure ls` lists them", filters.join(" "));
    }
    Ok(cases)
}

/// True if any case of any run fits.
pub(crate) fn fits_any(filter: &str) -> bool {
    every().iter().any(|case| fits(case, filter))
}

fn every() -> Vec<Case> {
    catalogue(&Choice { level: Some(Level::Full), sizes: None })
}

/// Error where nothing fits, with the names that could have been meant.
fn unknown(cases: &[Case], filter: &str, level: Level) -> anyhow::Error {
    let longer = every().into_iter().filter(|case| fits(case, filter)).map(|case| case.level).min();
    match longer.filter(|longer| *longer > level) {
        Some(Level::Full) => anyhow!("what fits {filter:?} is measured by longer runs: add --full"),
        Some(_) => anyhow!("what fits {filter:?} is measured by longer runs: leave out --quick"),
        None => {
            anyhow!("no case fits {filter:?}; {}", nearest(cases, filter))
        }
    }
}

/// The nearest of the names; for `parameter=value` of the values of that
/// parameter, or of the parameters.
fn nearest(cases: &[Case], filter: &str) -> String {
    let (what, words): (_, Vec<String>) = match filter.split_once('=') {
        None => ("names", cases.iter().map(|case| case.name.to_owned()).collect()),
        Some((name, _)) => {
            let value = |case: &Case| Some(format!("{name}={}", case.params.get(name)?));
            let values: Vec<String> = cases.iter().filter_map(value).collect();
            match values.is_empty() {
                true => {
                    ("parameters", cases.iter().flat_map(|c| c.params.keys().cloned()).collect())
                }
                false => ("values", values),
            }
        }
    };
    let mut seen = HashSet::new();
    let mut once: Vec<String> =
        words.into_iter().filter(|word| seen.insert(word.clone())).collect();
    let asked =
        if what == "parameters" { filter.split('=').next().unwrap_or(filter) } else { filter };
    let all = once.len();
    // Stable: those that are equally near stay in the catalogue's order.
    once.sort_by(|a, b| likeness(b, asked).total_cmp(&likeness(a, asked)));
    let near = NEAR * once.first().map_or(0.0, |first| likeness(first, asked));
    once.retain(|word| likeness(word, asked) >= near);
    once.truncate(NEAREST);
    format!("the nearest of {all} {what}: {}; `kumiki measure ls` lists the cases", once.join(", "))
}

/// Likeness of two words from 0 to 1, by the whole name or by any part of it from a dot on: `frok`
/// is like `process.fork`.
fn likeness(word: &str, asked: &str) -> f64 {
    let parts = word.split('.').chain(word.match_indices('.').map(|(at, _)| &word[at + 1..]));
    parts
        .chain([word])
        .map(|part| strsim::normalized_damerau_levenshtein(part, asked))
        .fold(0.0, f64::max)
}

fn fits(case: &Case, filter: &str) -> bool {
    match filter.split_once('=') {
        Some((name, value)) => case.params.get(name).is_some_and(|v| v.to_string() == value),
        None => case.name.contains(filter),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(filters: &[&str]) -> Result<usize> {
        let filters: Vec<String> = filters.iter().map(|f| (*f).to_owned()).collect();
        let choice = Choice { level: Some(Level::Quick), sizes: None };
        filter(catalogue(&choice), &filters, Level::Quick).map(|cases| cases.len())
    }

    #[test]
    fn names_add_up_and_parameters_narrow_down() {
        let all = kept(&[]).unwrap();
        let entry = kept(&["entry."]).unwrap();
        let fork = kept(&["process.fork"]).unwrap();
        assert!(entry > 0 && fork > 0 && entry + fork < all);
        assert_eq!(kept(&["entry.", "process.fork"]).unwrap(), entry + fork);
        let written = kept(&["process.fork", "touch=write"]).unwrap();
        assert!(0 < written && written < fork);
    }

    #[test]
    fn a_filter_that_fits_nothing_is_named() {
        let error = kept(&["entry.", "frok"]).unwrap_err().to_string();
        assert!(error.starts_with("no case fits \"frok\"; the nearest of "), "{error}");
        assert!(error.contains(" names: process.fork, "), "{error}");
        assert!(error.split(", ").count() <= NEAREST && !error.contains("entry."), "{error}");
        let near = |filter: &str, first: &str| {
            let error = kept(&[filter]).unwrap_err().to_string();
            assert!(error.contains(first), "{error}");
        };
        near("pipe.latncy", " names: ipc.pipe.latency");
        near("touch=wirte", " values: touch=write");
        near("data_byte=1", " parameters: data_bytes");
        assert!(kept(&["entry.getppid", "touch=write"]).is_err());
    }

    #[test]
    fn what_longer_runs_measure_is_said() {
        let quick = catalogue(&Choice { level: Some(Level::Quick), sizes: None });
        let pairs = |case: &Case| -> Vec<String> {
            case.params.iter().map(|(name, value)| format!("{name}={value}")).collect()
        };
        let mut longer = every().iter().flat_map(pairs).collect::<Vec<_>>();
        longer.retain(|filter| !quick.iter().any(|case| fits(case, filter)));
        let error = kept(&[&longer[0]]).unwrap_err().to_string();
        assert!(error.contains("longer runs"), "{error}");
    }
}
