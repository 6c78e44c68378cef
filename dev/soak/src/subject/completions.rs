//! `Completions` of `kumiki-parasc`: loops that have only one descriptor to go by, as those of
//! servers; what they read is warm, cold, or comes late, and some of it is given up.

use std::fs::File;
use std::future::Future;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use fastrand::Rng;
use kumiki_parasc::op::{Errno, Pread, Read};
use kumiki_parasc::{Completed, Completions, Config, Engine, Failed, Job};
use rustix::event::{PollFd, PollFlags, poll};

use crate::faults;
use crate::ground::Ground;
use crate::site::Site;
use crate::soak::Soak;
use crate::watch::Pending;

const LOOPS: u64 = 3;
/// Requests of a loop under way.
const UNDER_WAY: usize = 24;

/// Source of a read: a number of bytes of a page, or a pipe.
#[derive(Clone, Copy, Debug)]
enum ReadFrom {
    Page { at: usize, oldest: u32, start: usize, asked: usize },
    Pipe,
}

type UnderWay = Pin<Box<dyn Future<Output = (ReadFrom, Result<Vec<u8>>)> + Send>>;

pub(crate) fn soak(soak: &'static Soak, ground: &Ground) -> Result<()> {
    let site = Site::new(ground)?;
    let engine = Arc::new(Engine::new(&Config::default())?);
    std::thread::scope(|threads| {
        let (site, engine) = (&site, &engine);
        threads.spawn(move || faults::draw(soak, site.faults(), Duration::from_millis(30)));
        let (writes, to_write) = sync_channel(1000);
        threads.spawn(move || write(to_write, soak.rng(LOOPS)));
        for number in 0..LOOPS {
            let writes = writes.clone();
            threads.spawn(move || {
                let mut own = Loop { soak, site, engine, rng: soak.rng(number), writes };
                if let Err(error) = own.run() {
                    soak.fail(&format!("loop {number}: {error:#}"));
                }
            });
        }
        drop(writes);
        soak.guard();
    });
    for what in ["read", "read from a pipe", "given up"] {
        ensure!(soak.counted(what) > 0, "nothing was {what}");
    }
    Ok(())
}

/// Writes to pipes for which somebody waits, after a while.
fn write(pipes: Receiver<std::io::PipeWriter>, mut rng: Rng) {
    for mut pipe in pipes {
        if rng.u8(..8) == 0 {
            std::thread::sleep(Duration::from_micros(rng.u64(..200)));
        }
        // Who waited may have given it up.
        let _ = pipe.write_all(b"late");
    }
}

struct Loop<'a> {
    soak: &'static Soak,
    site: &'a Site,
    engine: &'a Arc<Engine>,
    rng: Rng,
    writes: SyncSender<std::io::PipeWriter>,
}

impl Loop<'_> {
    fn run(&mut self) -> Result<()> {
        let mut completions = Completions::new()?;
        let mut waits: Vec<(_, Pending<'_>)> = Vec::new();
        while !self.soak.is_over() || !completions.is_empty() {
            while completions.len() < UNDER_WAY && !self.soak.is_over() {
                let (what, future) = self.request()?;
                let pending = self.soak.request(what);
                waits.push((completions.add(future), pending));
            }
            if self.rng.u8(..) == 0 && !waits.is_empty() {
                let (key, _) = waits.swap_remove(self.rng.usize(..waits.len()));
                ensure!(completions.give_up(key), "{key:?} was not there to be given up");
                self.soak.count("given up");
                continue;
            }
            // For ever: that it is not so long is the guard's.
            match poll(&mut [PollFd::new(&completions, PollFlags::IN)], None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error).context("poll"),
            }
            for (key, (from, bytes)) in completions.take() {
                let at =
                    waits.iter().position(|(one, _)| *one == key).context("a key of nobody")?;
                drop(waits.swap_remove(at));
                self.check(from, bytes)?;
            }
        }
        Ok(())
    }

    fn check(&self, from: ReadFrom, bytes: Result<Vec<u8>>) -> Result<()> {
        let bytes = bytes?;
        match from {
            ReadFrom::Page { at, oldest, start, asked } => {
                self.site.pages[at].check_part(oldest, start, asked, &bytes)?;
                self.soak.count("read");
            }
            ReadFrom::Pipe => {
                ensure!(bytes == b"late", "a pipe gave {bytes:?}");
                self.soak.count("read from a pipe");
            }
        }
        Ok(())
    }

    fn request(&mut self) -> Result<(String, UnderWay)> {
        let engine = Arc::clone(self.engine);
        if self.rng.u8(..10) == 0 {
            let (reader, writer) = std::io::pipe().context("a pipe")?;
            self.writes.send(writer).context("nobody writes")?;
            let read = Read::new(OwnedFd::from(reader), vec![0; 4].into_boxed_slice());
            return Ok((
                "a read from a pipe".to_owned(),
                Box::pin(async move {
                    (ReadFrom::Pipe, made(engine.submit(read).await, Read::into_buffer))
                }),
            ));
        }
        let at = self.site.any(&mut self.rng);
        let page = &self.site.pages[at];
        let oldest = page.oldest();
        let file = File::open(self.site.folder.join(&page.name)).context("opening a file")?;
        let start = self.rng.usize(..=page.file.most);
        let asked = self.rng.usize(1..=16 << 10);
        let room = vec![0; asked].into_boxed_slice();
        let read = Pread::new(OwnedFd::from(file), start as u64, room);
        let tries = self.rng.bool();
        let from = ReadFrom::Page { at, oldest, start, asked };
        Ok((
            format!("a read of {}", page.name),
            Box::pin(async move {
                let done =
                    if tries { engine.attempt(read).await } else { engine.submit(read).await };
                (from, made(done, Pread::into_buffer))
            }),
        ))
    }
}

/// The bytes of a read that has ended.
fn made<J>(
    done: Result<Completed<J>, Failed<J>>,
    buffer: impl FnOnce(J) -> Box<[u8]>,
) -> Result<Vec<u8>>
where
    J: Job<Output = Result<usize, Errno>>,
{
    let done = done.map_err(|failed| failed.error)?;
    let count = done.output.context("the kernel's answer")?;
    Ok(buffer(done.operation)[..count].to_vec())
}
