//! The tests of what a child is, of children made by a spawn server.

#[path = "../attributes.rs"]
mod attributes;
#[path = "../commands.rs"]
mod commands;
#[path = "../confined.rs"]
mod confined;
#[path = "../inherits.rs"]
mod inherits;
#[path = "../limits.rs"]
mod limits;

#[path = "../trees.rs"]
mod trees;

const BY_SERVER: bool = true;

fn new(program: impl AsRef<std::ffi::OsStr>) -> kumiki_spawn::Command {
    let mut command = kumiki_spawn::Command::new(program);
    command.by_server(BY_SERVER);
    command
}
