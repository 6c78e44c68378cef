//! `kumiki-kv`: a key-value server that speaks RESP.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use kumiki_kv::args::Args;

fn main() -> ExitCode {
    match kumiki_kv::server::run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who has closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "kumiki-kv: {error:#}");
            ExitCode::from(2)
        }
    }
}
