//! Durable places whose resources have long states: room is made for what they write, or nothing is done.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use kumiki_places::durable::{Disk, DiskFile};
use kumiki_places::standard::{Add, Counter};
use kumiki_places::wire::Why;
use kumiki_places::{
    Allow, Client, Durable, Error, Lease, Part, Parts, Portable, Run, Served, Server,
};
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Interface, Place};

use crate::disks::{Held, SMALL};
use crate::here::unique;
use crate::scene::{PATIENCE, block_on};

/// A text.
struct Blob(String);

impl Kind for Blob {
    const NAME: &'static str = "blob";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> kumiki_resource::Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> kumiki_resource::Result<Blob> {
        Ok(Blob(String::new()))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About::default()
    }
}

impl Portable for Blob {}

impl Durable for Blob {
    type State = String;

    fn state(&self) -> String {
        self.0.clone()
    }

    fn restored(text: String, (): &mut ()) -> kumiki_resource::Result<Blob> {
        Ok(Blob(text))
    }
}

/// Fills it with so many bytes: what it will have is not known by what is asked.
struct Fill;

impl Part for Fill {
    type Kind = Blob;
    const NAME: &'static str = "fill";
    type In = usize;
    type Out = ();
}

impl Run for Fill {
    fn run(blob: &mut Blob, (): &mut (), bytes: usize) {
        blob.0 = "x".repeat(bytes);
    }
}

/// Appends to it; how long it is then.
struct Append;

impl Part for Append {
    type Kind = Blob;
    const NAME: &'static str = "append";
    type In = String;
    type Out = usize;
}

impl Run for Append {
    fn run(blob: &mut Blob, (): &mut (), text: String) -> usize {
        blob.0.push_str(&text);
        blob.0.len()
    }
}

fn serve(name: &str, disk: Arc<dyn Disk>) -> (Interface, Served, String) {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Blob>().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let parts = Parts::new().durable::<Blob>().part::<Fill>().part::<Append>();
    let parts = parts.durable::<Counter>().part::<Add>();
    let server = Server::here(name).parts(parts).allow(Allow::everything()).managing();
    let server = server.durable_on(move |_| Ok(Arc::clone(&disk)));
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    (interface, served, place)
}

/// Returns when a file is made ahead: that is after who waited for the last one is answered.
async fn has_spare(disk: &Held) {
    while !disk.names().iter().any(|name| name == "spare") {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// More than a log's file has.
const LONG: usize = 5 * SMALL as usize;

#[test]
fn a_record_that_is_longer_than_a_file_has_one_made_for_it_or_nothing_is_done() {
    let (name, disk) = (unique("long"), Held::default());
    let (interface, served, place) = serve(&name, Arc::new(disk.clone()));
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let blob = client.create::<Blob>(&place, Some("blob"), ()).await.unwrap();
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        client.call::<Fill>(&blob, LONG).await.unwrap();
        // A file for it is made before it runs.
        assert_eq!(client.call::<Append>(&blob, "y".to_owned()).await.unwrap(), LONG + 1);
        // The one that was made is used up.
        client.call::<Append>(&blob, "y".to_owned()).await.unwrap();
        has_spare(&disk).await;
        disk.is_full.store(true, SeqCst);
        let refused = loop {
            match client.call::<Append>(&blob, "y".to_owned()).await {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(matches!(refused, Error::Refused { why: Why::Full, .. }), "{refused}");
        let said = refused.to_string();
        assert!(said.contains("it may write 3") && said.contains("nothing was done"), "{said}");
        assert!(said.contains("no storage space"), "{said}");
        // What was ahead is there as before, and what is short goes on.
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 1);
        assert!(served.ended().is_none());
        disk.is_full.store(false, SeqCst);
        // For a second it is not tried again.
        let length = loop {
            if let Ok(length) = client.call::<Append>(&blob, "z".to_owned()).await {
                break length;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        drop((interface, served));
        let (_interface, served, _) = serve(&name, Arc::new(disk.clone()));
        assert_eq!(served.restored()[0].resources, 2);
        let now = client.call::<Append>(&blob, String::new()).await.unwrap();
        assert_eq!(now, length, "what was answered is there, and nothing that was refused");
    });
}

#[test]
fn what_has_become_longer_than_was_known_waits_for_room_and_its_place_goes_on() {
    let (name, disk) = (unique("grows"), Held::default());
    let (_interface, served, place) = serve(&name, Arc::new(disk.clone()));
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let blob = client.create::<Blob>(&place, Some("blob"), ()).await.unwrap();
        let other = client.create::<Blob>(&place, Some("other"), ()).await.unwrap();
        disk.is_full.store(true, SeqCst);
        let grows = tokio::spawn({
            let (client, blob) = (client.clone(), blob.clone());
            async move { client.call::<Fill>(&blob, LONG).await }
        });
        // Longer than it takes to try twice.
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert!(served.ended().is_none(), "{:?}", served.ended());
        assert!(!grows.is_finished(), "it was answered before it was written");
        disk.is_full.store(false, SeqCst);
        grows.await.unwrap().unwrap();
        let length = client.call::<Append>(&blob, String::new()).await.unwrap();
        assert_eq!(length, LONG);
        // And one that ends while it waits has not done what it has not answered.
        has_spare(&disk).await;
        disk.is_full.store(true, SeqCst);
        let hasty = Client::here().with_timeout(Duration::from_millis(300));
        let error = hasty.call::<Fill>(&other, LONG).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
    });
    drop(served);
    disk.is_full.store(false, SeqCst);
    let (_interface, _served, _) = serve(&name, Arc::new(disk));
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        for (unique, long) in [("blob", LONG), ("other", 0)] {
            let name = format!("{place}/blob/{unique}").parse().unwrap();
            let blob = client.open::<Blob>(&name).await.unwrap();
            let length = client.call::<Append>(&blob, String::new()).await.unwrap();
            assert_eq!(length, long, "{unique}");
        }
    });
}

/// A disk on which a snapshot takes long.
struct SlowSnapshots(Held);

/// A file of it, each of whose pieces takes so long.
struct SlowFile(Box<dyn DiskFile>);

const PIECE: Duration = Duration::from_millis(500);

impl Disk for SlowSnapshots {
    fn list(&self) -> io::Result<Vec<String>> {
        self.0.list()
    }

    fn read(&self, name: &str) -> io::Result<Vec<u8>> {
        self.0.read(name)
    }

    fn create(&self, name: &str, bytes: u64) -> io::Result<Box<dyn DiskFile>> {
        let file = self.0.create(name, bytes)?;
        Ok(if name == "unfinished" { Box::new(SlowFile(file)) } else { file })
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn DiskFile>> {
        self.0.open(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.0.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn name(&self) -> String {
        self.0.name()
    }

    fn file_bytes(&self) -> u64 {
        self.0.file_bytes()
    }
}

impl DiskFile for SlowFile {
    fn write(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        std::thread::sleep(PIECE);
        self.0.write(at, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn end(&mut self, bytes: u64) -> io::Result<()> {
        self.0.end(bytes)
    }
}

#[test]
fn who_is_to_have_a_place_does_not_wait_for_a_snapshot_of_it() {
    /// Pieces of a snapshot.
    const PIECES: usize = 40;
    let (name, disk) = (unique("slow-snapshot"), Held::default());
    let (interface, served, place) = serve(&name, Arc::new(SlowSnapshots(disk.clone())));
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let mut blobs = Vec::new();
        let is_at_it = || disk.names().iter().any(|name| name == "unfinished");
        for _ in 0..PIECES {
            let blob = client.create::<Blob>(&place, None, ()).await.unwrap();
            client.call::<Fill>(&blob, 1 << 20).await.unwrap();
            blobs.push(blob);
        }
        // One of a few pieces may be under way: then one of all of them.
        while is_at_it() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        while !is_at_it() {
            client.call::<Append>(&blobs[0], String::new()).await.unwrap();
        }
    });
    let begin = Instant::now();
    drop((interface, served));
    let took = begin.elapsed();
    assert!(took < PIECE * PIECES as u32 / 3, "it has ended after {} ms", took.as_millis());
    assert!(!disk.names().iter().any(|name| name == "unfinished"), "{:?}", disk.names());
    // The logs have all that it would have had.
    let (_interface, served, _) = serve(&name, Arc::new(disk));
    assert_eq!(served.restored()[0].resources, PIECES);
}
