//! Folders that a place has left, into which it is to come back, and does not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use kumiki_places::durable::{Disk, DiskFile};
use kumiki_places::standard::{Add, Counter};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Client, Error, Lease, Server};
use kumiki_resource::Interface;

use crate::disks::Held;
use crate::here::unique;
use crate::killed::{durable_at, parts};
use crate::scene::{PATIENCE, block_on};

/// A disk whose process is killed after so many operations: none of the later ones is done.
struct Killed {
    held: Held,
    left: Arc<AtomicUsize>,
    /// Gives the names the other way round: a folder's order is nobody's choice.
    is_reversed: bool,
}

struct KilledFile {
    file: Box<dyn DiskFile>,
    left: Arc<AtomicUsize>,
}

fn lives(left: &AtomicUsize) -> io::Result<()> {
    let is_left = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
    is_left.map(drop).map_err(|_| io::Error::other("its process was killed"))
}

impl Disk for Killed {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = self.held.list()?;
        if self.is_reversed {
            names.reverse();
        }
        Ok(names)
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.held.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        lives(&self.left)?;
        let file = self.held.create(name, bytes)?;
        Ok(Box::new(KilledFile { file, left: Arc::clone(&self.left) }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        let file = self.held.open(name)?;
        Ok(Box::new(KilledFile { file, left: Arc::clone(&self.left) }))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        lives(&self.left)?;
        self.held.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        lives(&self.left)?;
        self.held.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        lives(&self.left)?;
        self.held.sync()
    }

    fn name(&self) -> String {
        self.held.name()
    }

    fn file_bytes(&self) -> u64 {
        self.held.file_bytes()
    }
}

impl DiskFile for KilledFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        lives(&self.left)?;
        self.file.write(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        lives(&self.left)?;
        self.file.flush()
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        lives(&self.left)?;
        self.file.end(bytes)
    }
}

#[test]
fn a_place_that_does_not_come_back_has_still_left() {
    let name = unique("comes-not-back");
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let (home, away) = (Held::default(), Held::default());
    let on = |disk: &Held| {
        let disk = disk.clone();
        move |_: &str| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>)
    };
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        // Two lives: the first one's log alone is a whole place, of an earlier state.
        let served = durable_at(cpu, Server::here(&name), on(&home)).unwrap();
        client.create::<Counter>(&served.2, Some("hits"), 40).await.unwrap();
        drop(served);
        let (interface, served, place) = durable_at(cpu, Server::here(&name), on(&home)).unwrap();
        let hits = format!("{place}/counter/hits").parse().unwrap();
        let hits = client.open::<Counter>(&hits).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 41);
        client.take_place(&place, &away, "away").await.unwrap();
        drop((interface, served));
        assert!(home.names().iter().filter(|name| name.starts_with("log-")).count() > 1);

        // Its list does not have `move` here: who takes it back is refused, when the folder is no more what it was.
        let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
        let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
        let server = Server::here(&name).parts(parts()).allow(Allow::listing()).managing();
        let served = server.durable_on(on(&away)).serve(&interface).unwrap();
        let take =
            async |disk: &dyn Disk| client.take_place(&place, disk, "home").await.unwrap_err();
        let stays_left = |disk: &Held, at: &str| {
            // Its name is in use by the one that serves: what is refused is the folder, before that.
            let error = durable_at(cpu, Server::here(&name), on(disk)).map(drop).unwrap_err();
            match &error {
                Error::Moved { to, .. } => assert_eq!(to, "away", "{at}"),
                Error::NotDurable { why, .. } => {
                    assert!(why.contains("was not heard of to its end"), "{at}: {error}");
                }
                _ => panic!("{at}: {error}"),
            }
            matches!(error, Error::Moved { .. })
        };
        for is_reversed in [false, true] {
            let mut kept = 0;
            for operations in 0.. {
                let (held, left) = (home.copy(), Arc::new(AtomicUsize::new(operations)));
                let killed = Killed { held: held.clone(), left: Arc::clone(&left), is_reversed };
                let error = take(&killed).await;
                let at = format!("reversed {is_reversed}, killed at operation {operations}");
                let is_moved = stays_left(&held, &at);
                if left.load(SeqCst) > 0 {
                    assert!(
                        matches!(error, Error::Refused { why: Why::NotAllowed, .. }),
                        "{error}"
                    );
                    assert!(is_moved, "{at}");
                    kept = operations;
                    break;
                }
            }
            assert!(kept > 10, "it is killed at each of its operations: {kept}");
        }
        // Again and again.
        for _ in 0..3 {
            let error = take(&home).await;
            assert!(matches!(error, Error::Refused { why: Why::NotAllowed, .. }), "{error}");
            assert!(stays_left(&home, "refused"));
        }
        drop(served);
    });
}
