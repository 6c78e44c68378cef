//! Requests submitted and placed one by one, by any thread.

mod by_hand;
mod deaths;
mod ends;
mod filtered;
mod submit;

use std::io::Write;
use std::os::fd::OwnedFd;

use kumiki_parasc::op::Read;
use kumiki_parasc::{Config, Engine, Request};

fn engine() -> Engine {
    Engine::new(&Config::default()).unwrap()
}

/// Blocks until the writer writes.
type ReadOfPipe = Read<OwnedFd, Box<[u8]>>;

fn read_of_pipe() -> (ReadOfPipe, std::io::PipeWriter) {
    let (reader, writer) = std::io::pipe().unwrap();
    (Read::new(reader.into(), vec![0; 8].into_boxed_slice()), writer)
}

fn release(mut writer: std::io::PipeWriter) {
    writer.write_all(b"go").unwrap();
}

fn getppid() -> Request {
    Request::new(libc::SYS_getppid, [])
}

fn ppid() -> i64 {
    i64::from(std::os::unix::process::parent_id())
}
