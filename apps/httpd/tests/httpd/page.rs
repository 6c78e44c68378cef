//! The manual page, held against the command line.

use clap::CommandFactory;
use kumiki_httpd::args::Args;

/// With `KUMIKI_WRITE_PAGE` in the environment it writes the page anew.
#[test]
fn the_manual_page_is_that_of_the_command_line() {
    let mut page = Vec::new();
    clap_mangen::Man::new(Args::command()).render(&mut page).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kumiki-httpd.1");
    if std::env::var_os("KUMIKI_WRITE_PAGE").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read(path).unwrap_or_default();
    assert!(written == page, "write it anew: KUMIKI_WRITE_PAGE=1 cargo test -p kumiki-httpd page");
}
