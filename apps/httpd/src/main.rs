//! `kumiki-httpd`: a folder over HTTP.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use kumiki_httpd::args::Args;

fn main() -> ExitCode {
    match kumiki_httpd::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "kumiki-httpd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
