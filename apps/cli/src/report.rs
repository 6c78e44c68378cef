//! `kumiki report`: the page, and the answer in the terminal.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use kumiki_measure::label::is_name;

use crate::answer::Answer;
use crate::args::Report;
use crate::destination::{Destination, STDOUT};
use crate::results::{Loaded, label_of, load};
use crate::select::Select;
use crate::{Verdict, benched, output, owners, select, session};

/// Subject of the page.
enum Source {
    /// Results that a person named.
    Named(Vec<String>),
    /// This machine, now.
    Measured(Select),
}

pub(crate) fn run(args: Report) -> Result<Verdict> {
    output::check()?;
    let destination = Destination::new(&args.output)?;
    let of_a_bench = match (&args.nodes, &args.servers) {
        (Some(bench), _) => Some(owners::page(bench.as_deref())?),
        (None, Some(bench)) => Some(kumiki_report::servers_html(&benched::read(bench, "servers")?)),
        (None, None) if !args.places.is_empty() => {
            let read = |path: &PathBuf| benched::read(path, "resource");
            let benches: Result<Vec<_>> = args.places.iter().map(read).collect();
            Some(kumiki_report::places_html(&benches?))
        }
        (None, None) => None,
    };
    if let Some(page) = of_a_bench {
        destination.write(|out| Ok(out.write_all(page.as_bytes())?))?;
        return Ok(Verdict::Fine);
    }
    let db = args.how.db.db.as_deref();
    let load = |names: &[String]| -> Result<Vec<Loaded>> {
        names.iter().map(|name| load(name, db)).collect()
    };
    let (shown, interrupt) = match source(&args)? {
        Source::Named(names) => (load(&names)?, None),
        Source::Measured(select) => {
            // Named results are read before the long work: they may not exist.
            let with = load(&args.with)?;
            let measured = session::measure(&select, &args.how)?;
            let own = Loaded { name: format!("result {}", measured.id), results: measured.results };
            ([vec![own], with].concat(), Some(measured.interrupt))
        }
    };
    let (names, results): (Vec<_>, Vec<_>) =
        shown.into_iter().map(|loaded| (loaded.name, loaded.results)).unzip();
    let page = kumiki_report::html(&results);
    let to_stdout = is_stdout(&args.output);
    destination.write(|out| Ok(out.write_all(page.as_bytes())?))?;
    let path = fs::canonicalize(&args.output).unwrap_or_else(|_| args.output.clone());
    let answer = Answer {
        name: &names[0],
        results: &results[0],
        page: (!to_stdout).then_some(path.as_path()),
        verbose: args.verbose,
        rows_above: false,
    };
    let text = answer.text();
    // Where the page itself goes to standard output, nothing else may.
    if to_stdout {
        output::aside(&text)
    } else {
        output::text(text)?
    }
    Ok(interrupt.map_or(Verdict::Fine, |interrupt| session::verdict(&interrupt, &results[0])))
}

/// Results by the form of their names, filters otherwise, never both.
fn source(args: &Report) -> Result<Source> {
    if !args.results.is_empty() {
        return Ok(Source::Named(args.results.clone()));
    }
    let (names, filters): (Vec<String>, Vec<String>) =
        args.words.iter().cloned().partition(|word| is_name(word));
    let Some(name) = names.first() else {
        let select = Select { filters, sizes: args.sizes.clone() };
        labels(&select.filters, args)?;
        return Ok(Source::Measured(select));
    };
    if let Some(filter) = filters.first() {
        bail!(
            "{name:?} is a result and {filter:?} chooses what to measure: give one or the other \
             (a result's label goes to --results)"
        );
    }
    let sizes = args.sizes.sizes.is_some().then_some("--sizes");
    let with = (!args.with.is_empty()).then_some("--with");
    if let Some(option) = args.how.measuring().or(sizes).or(with) {
        bail!("{name:?} is a result and {option} belongs to a measurement: leave one of them out");
    }
    Ok(Source::Named(names))
}

/// A label is no filter: an error says where it goes.
fn labels(filters: &[String], args: &Report) -> Result<()> {
    for filter in filters.iter().filter(|filter| !select::fits_any(filter)) {
        if let Some(label) = label_of(filter, args.how.db.db.as_deref()) {
            bail!(
                "no case fits {label:?}, a result has that label: `kumiki report --results {label}`"
            );
        }
    }
    Ok(())
}

/// True if a file of this name is where standard output goes.
fn is_stdout(path: &Path) -> bool {
    if path == Path::new(STDOUT) {
        return true;
    }
    let own = std::io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let own = own.and_then(|file| file.metadata());
    match (own, fs::metadata(path)) {
        (Ok(own), Ok(file)) => (own.dev(), own.ino()) == (file.dev(), file.ino()),
        _ => false,
    }
}
