//! Results of benches, that pages are made of.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use kumiki_report::Bench;

/// The longest result that is read, bytes: a bench's own has some ten thousand.
const MOST_BYTES: u64 = 16 << 20;

/// Reads what `cargo xtask bench NAME --json` has written here.
pub(crate) fn read(path: &Path, name: &str) -> Result<Bench> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text));
    read.with_context(|| format!("reading {}", path.display()))?;
    if text.len() as u64 > MOST_BYTES {
        bail!(
            "{} has more than {MOST_BYTES} bytes, and a bench's result has some ten thousand: is it another file?",
            path.display()
        );
    }
    Bench::read(&text).with_context(|| {
        format!("{} is not a result of `cargo xtask bench {name} --json`", path.display())
    })
}
