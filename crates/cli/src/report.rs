//! `kumiki report`: the page.

use anyhow::Result;

use crate::args::{Report, Select};
use crate::destination::Destination;
use crate::{Verdict, output, results, session};

pub(crate) fn run(args: Report) -> Result<Verdict> {
    let destination = Destination::new(&args.output)?;
    let db = args.how.db.db.as_deref();
    let load = |names: &[String]| -> Result<Vec<_>> {
        names.iter().map(|name| results::load(name, db)).collect()
    };
    let mut verdict = Verdict::Fine;
    let compared = if args.results.is_empty() {
        // Named results are read before the long work: they may not exist.
        let with = load(&args.with)?;
        let measured = session::measure(&Select::default(), &args.how)?;
        verdict = session::verdict(&measured);
        [vec![measured], with].concat()
    } else {
        load(&args.results)?
    };
    let page = kumiki_report::html(&compared);
    destination.write(|out| Ok(out.write_all(page.as_bytes())?))?;
    output::talk(format_args!("wrote {}", args.output.display()));
    Ok(verdict)
}
