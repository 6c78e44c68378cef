//! The plain server: one thread with an epoll, which makes each call on a file as it comes; or many
//! threads, of which each waits.
//! Its parser and its head are the least that does, so that what is compared is the calls.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use anyhow::{Context, Result};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

const LISTENER: u64 = u64::MAX;
pub(super) const CHUNK: usize = 64 * 1024;

/// Serves the folder on a port that it prints, until it is killed.
pub(crate) fn serve(folder: &Path) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut clients: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        epoll::wait(&epoll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            if event.data.u64() == LISTENER {
                while let Ok((client, _)) = listener.accept() {
                    client.set_nonblocking(true)?;
                    client.set_nodelay(true)?;
                    let mark = EventData::new_u64(clients.len() as u64);
                    epoll::add(&epoll, &client, mark, EventFlags::IN)?;
                    clients.push(Some(client));
                }
                continue;
            }
            let at = event.data.u64() as usize;
            let Some(client) = &mut clients[at] else { continue };
            if answer(client, folder).is_err() {
                clients[at] = None;
            }
        }
    }
}

/// The same by threads that wait: each serves one connection at a time.
pub(crate) fn serve_by_threads(folder: &Path) -> Result<()> {
    const THREADS: usize = 64;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?);
    let serve = || {
        while let Ok((mut client, _)) = listener.accept() {
            let _ = client.set_nodelay(true);
            while answer(&mut client, folder).is_ok() {}
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(serve))));
    Ok(())
}

fn answer(client: &mut TcpStream, folder: &Path) -> Result<()> {
    let mut input = [0; 4096];
    let count = match client.read(&mut input) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Ok(()),
        read => read?,
    };
    let path = folder.join(target(&input[..count])?);
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let length = file.metadata()?.len();
    let mut data = Vec::new();
    write_head(&mut data, length)?;
    let (head, mut offset) = (data.len(), 0);
    loop {
        let part = usize::try_from(length - offset)?.min(CHUNK);
        let start = if offset == 0 { head } else { 0 };
        data.resize(start + part, 0);
        file.read_exact_at(&mut data[start..], offset)?;
        offset += part as u64;
        send(client, &data)?;
        if offset == length {
            return Ok(());
        }
    }
}

/// Target of a request that has come whole.
pub(super) fn target(input: &[u8]) -> Result<&str> {
    let rest = std::str::from_utf8(input)?.strip_prefix("GET /");
    rest.and_then(|rest| rest.split(' ').next()).context("no GET")
}

pub(super) fn write_head(data: &mut Vec<u8>, length: u64) -> Result<()> {
    Ok(write!(data, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n")?)
}

/// The bench's clients take what they are sent, soon.
fn send(client: &mut TcpStream, mut data: &[u8]) -> Result<()> {
    while !data.is_empty() {
        match client.write(data) {
            Ok(count) => data = &data[count..],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                let mut poll = [rustix::event::PollFd::new(client, rustix::event::PollFlags::OUT)];
                rustix::event::poll(&mut poll, None)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
