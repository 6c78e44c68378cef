//! The server as a program.

mod confined;
mod failing;
mod files;
mod fuse;
mod hanging;
mod hostile;
mod kept;
mod many;
mod odd;
mod page;
mod printed;
mod process;
mod rfc;
mod scene;
mod traced;

const PROGRAM: &str = env!("CARGO_BIN_EXE_kumiki-httpd");
/// Exit status after an error of the program's own.
const FAILED: i32 = 1;
