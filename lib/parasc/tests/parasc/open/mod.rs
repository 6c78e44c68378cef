//! Requests submitted and placed one by one, by any thread.

mod by_hand;
mod copies;
mod deaths;
mod ends;
#[path = "../../filter/mod.rs"]
pub(crate) mod filter;
mod filtered;
mod mortal;
mod panics;
mod submit;

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::thread;
use std::time::Duration;

use kumiki_parasc::op::Read;
use kumiki_parasc::{Config, Engine, Operation, Pending, Request};

fn engine() -> Engine {
    Engine::new(&Config::default()).unwrap()
}

/// Blocks until the writer writes.
type ReadOfPipe = Read<OwnedFd, Box<[u8]>>;

fn read_of_pipe() -> (ReadOfPipe, File) {
    let (reader, writer) = kumiki_sys::descriptors::pipe().unwrap();
    (Read::new(reader.into(), vec![0; 8].into_boxed_slice()), writer)
}

fn release(mut writer: File) {
    writer.write_all(b"go").unwrap();
}

/// A read of an empty pipe that a thread is at.
fn read_under_way(engine: &Engine) -> (Pending<ReadOfPipe>, File) {
    let (mut read, writer) = read_of_pipe();
    let request = read.request();
    let pending = engine.submit(read);
    until_made(&request);
    (pending, writer)
}

/// Returns when a thread of this process is in the call.
fn until_made(operation: &Request) {
    while !is_being_made(operation) {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a thread of this process is in the call.
fn is_being_made(operation: &Request) -> bool {
    let [first, second, ..] = operation.args;
    let start = format!("{} {first:#x} {second:#x} ", operation.sysnum);
    let mut tasks = std::fs::read_dir("/proc/self/task").unwrap();
    tasks.any(|task| {
        let call = std::fs::read_to_string(task.unwrap().path().join("syscall"));
        call.is_ok_and(|call| call.starts_with(&start))
    })
}

fn getppid() -> Request {
    Request::new(libc::SYS_getppid, [])
}

fn ppid() -> i64 {
    i64::from(std::os::unix::process::parent_id())
}
