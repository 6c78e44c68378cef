//! `kumiki-kv`: a key-value server that speaks RESP.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use kumiki_kv::args::Args;
use kumiki_sys::sentence::with_causes;
use kumiki_sys::stdio::printed;

/// Bytes that C's library keeps at the end of each worker's heap, at most.
const KEPT: u32 = 1 << 20;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args.by_todays_names(),
        // Help and version are data; clap would print them and not look whether they arrived.
        Err(shown) if !shown.use_stderr() => {
            let text = shown.render().to_string();
            return ExitCode::from(printed("kumiki-kv", text.as_bytes(), 2));
        }
        Err(wrong) => wrong.exit(),
    };
    // What is freed is to leave, also at the end of a worker's heap.
    kumiki_sys::heap::keep_at_most(KEPT);
    let heard = kumiki_sys::event::to_file().map_err(anyhow::Error::from);
    match heard.and_then(|()| kumiki_kv::server::run(&args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Who has closed standard error does not want to know.
            let _ = writeln!(std::io::stderr(), "kumiki-kv: {}", with_causes(error.as_ref()));
            ExitCode::from(2)
        }
    }
}
