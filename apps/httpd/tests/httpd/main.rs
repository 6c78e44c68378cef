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
