//! The server as a program.

mod confined;
mod failing;
mod files;
mod hanging;
mod hostile;
mod many;
mod page;
mod printed;
mod process;
mod rfc;
mod scene;
