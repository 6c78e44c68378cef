//! Writes the page of each result file: for a person who works on the page.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = std::env::args().skip(1);
    let results: Result<Vec<_>, _> =
        files.map(|file| kumiki_measure::file::read_results(Path::new(&file))).collect();
    print!("{}", kumiki_report::html(&results?));
    Ok(())
}
