//! `kumiki-httpd`: a folder over HTTP.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use kumiki_httpd::args::Args;

fn main() -> ExitCode {
    match kumiki_httpd::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kumiki-httpd: {error:#}");
            ExitCode::FAILURE
        }
    }
}
