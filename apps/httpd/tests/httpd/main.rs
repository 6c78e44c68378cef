//! The server as a program.

mod files;
mod hostile;
mod page;
mod process;
mod scene;
