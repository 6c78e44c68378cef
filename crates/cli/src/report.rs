//! `kumiki report`: the page.

use std::fs::{self, OpenOptions};
use std::path::Path;

use anyhow::{Context, Result};

use crate::args::{Report, Select};
use crate::{Verdict, results, session};

pub(crate) fn run(args: Report) -> Result<Verdict> {
    writable(&args.output)?;
    let db = args.how.db.db.as_deref();
    let load = |names: &[String]| -> Result<Vec<_>> {
        names.iter().map(|name| results::load(name, db)).collect()
    };
    let compared = if args.results.is_empty() {
        // Named results are read before the long work: they may not exist.
        let with = load(&args.with)?;
        let (store, id) = session::measure(&Select::default(), &args.how)?;
        let mut all = vec![store.load(id)?];
        all.extend(with);
        all
    } else {
        load(&args.results)?
    };
    let page = kumiki_report::html(&compared);
    fs::write(&args.output, page)
        .with_context(|| format!("writing the page {}", args.output.display()))?;
    eprintln!("kumiki: wrote {}", args.output.display());
    Ok(Verdict::Fine)
}

/// Fails now, not after minutes of measuring, if the page cannot be written;
/// leaves an existing page as it is.
fn writable(path: &Path) -> Result<()> {
    let existed = path.exists();
    OpenOptions::new().append(true).create(true).open(path).with_context(|| {
        format!("the page {} cannot be written; choose another --output", path.display())
    })?;
    if !existed {
        fs::remove_file(path)?;
    }
    Ok(())
}
