//! The agent alone, for machines of programs that do not contain it, such as
//! this crate's tests.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    kumiki_lab::agent::run(std::env::args_os().skip(2))
}
