//! `kumiki-httpd`: a folder over HTTP.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use kumiki_httpd::args::Args;
use kumiki_sys::sentence::with_causes;
use kumiki_sys::stdio::printed;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        // Help and version are data; clap would print them and not look whether they arrived.
        Err(shown) if !shown.use_stderr() => {
            let text = shown.render().to_string();
            return ExitCode::from(printed("kumiki-httpd", text.as_bytes(), 1));
        }
        Err(wrong) => wrong.exit(),
    };
    let heard = kumiki_sys::event::to_file().map_err(anyhow::Error::from);
    match heard.and_then(|()| kumiki_httpd::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Nobody may be there to read it.
            let _ = writeln!(std::io::stderr(), "kumiki-httpd: {}", with_causes(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}
