//! Packs a result, read as JSON from standard input, as a reference that is
//! shipped with the tool: `reference NAME CONDITIONS`.

use std::error::Error;
use std::path::Path;

use kumiki_measure::file::read_results;
use kumiki_report::reference::pack;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(name), Some(conditions), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return Err("usage: kumiki results export ID | reference NAME CONDITIONS".into());
    };
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if name.is_empty() || !name.chars().all(fits) {
        return Err(format!("name {name:?}: use small letters, digits, '-' and '.'").into());
    }
    let results = read_results(Path::new("/dev/stdin"))?;
    let packed = pack(&results, &conditions)?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("references");
    let path = folder.join(format!("{name}.json.xz"));
    std::fs::write(&path, &packed).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("{}: {} rows in {} bytes", path.display(), results.rows.len(), packed.len());
    Ok(())
}
