//! Which cases a person asked for, of all that there are.

use std::collections::HashSet;

use anyhow::{Result, bail};
use kumiki_measure::case::{Case, Choice, Level};
use kumiki_measure::cases::check;

use crate::args::Select;

/// The cases of `level` that `select` keeps, or an error that says which filter
/// fits nothing.
pub(crate) fn cases(select: &Select, level: Level) -> Result<Vec<Case>> {
    let mut sizes = select.sizes.clone();
    if let Some(sizes) = &mut sizes {
        // A size given twice would be two cases of one name.
        sizes.sort_unstable();
        sizes.dedup();
    }
    let choice = Choice { level: Some(level), sizes };
    let cases = filter(catalogue(&choice), &select.filters)?;
    if select.sizes.is_some() {
        check(&cases)?;
    }
    Ok(cases)
}

/// The operating system's own cases, then the papers' experiments.
fn catalogue(choice: &Choice) -> Vec<Case> {
    let mut cases = kumiki_measure::cases::catalogue(choice);
    cases.extend(kumiki_experiments::catalogue(choice));
    cases
}

fn filter(mut cases: Vec<Case>, filters: &[String]) -> Result<Vec<Case>> {
    for filter in filters {
        if !cases.iter().any(|case| fits(case, filter)) {
            bail!("no case fits {filter:?}; there are: {}", known(&cases, filter));
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

/// What could have been meant: the names; for `parameter=value` the values of
/// that parameter, or the parameters.
fn known(cases: &[Case], filter: &str) -> String {
    let words: Vec<String> = match filter.split_once('=') {
        None => cases.iter().map(|case| case.name.to_owned()).collect(),
        Some((name, _)) => {
            let value = |case: &Case| Some(format!("{name}={}", case.params.get(name)?));
            let values: Vec<String> = cases.iter().filter_map(value).collect();
            match values.is_empty() {
                true => cases.iter().flat_map(|case| case.params.keys().cloned()).collect(),
                false => values,
            }
        }
    };
    let mut seen = HashSet::new();
    let once: Vec<String> = words.into_iter().filter(|word| seen.insert(word.clone())).collect();
    once.join(", ")
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
        filter(catalogue(&choice), &filters).map(|cases| cases.len())
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
        assert!(error.contains("\"frok\"") && error.contains("process.fork"), "{error}");
        assert!(kept(&["entry.getppid", "touch=write"]).is_err());
    }
}
