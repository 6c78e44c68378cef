//! A place that has a million resources, served again.

use std::sync::Arc;
use std::time::Instant;

use kumiki_journal::{Segments, Snapshot};
use kumiki_resource::{Interface, Name};

use crate::durable::entry::{Entry, FORM, FileHead, KeptKind};
use crate::durable::{Disk, Folder};
use crate::standard::{Add, Counter, Get};
use crate::{Allow, Client, Lease, Parts, Server};

const MANY: u64 = 1_000_000;

/// A folder that a place of so many counters would have left, each with its number as its value.
fn left(folder: &std::path::Path, place: &str) {
    let disk: Arc<dyn Disk> = Arc::new(Folder::open(folder).unwrap());
    let kind = |number, name: &str| KeptKind { number, name: name.to_owned() };
    let kinds = vec![kind(0, "counter"), kind(1, "lease")];
    let head = FileHead { form: FORM, place: place.to_owned(), life: 7, epoch: 1, kinds };
    let head = head.written().unwrap();
    let mut snapshot = Snapshot::begin(&disk, &head, 1).unwrap();
    for number in 0..MANY {
        let (id, name) = (1 << 20 | number, Some(format!("n{number}")));
        let state = crate::wire::named(&(number as i64)).unwrap();
        let entry = Entry::Made { id, name, form: 1, state };
        rmp_serde::encode::write(snapshot.frame(), &[entry]).unwrap();
        snapshot.gathered().unwrap();
    }
    snapshot.end().unwrap();
    drop(Segments::begin(&disk, head, 1).unwrap());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "a million resources: half a minute in a test build. With `--release --nocapture` it says how long a restart takes"]
async fn a_million_named_counters_are_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let host = format!("million{}", std::process::id());
    let place = format!("{host}.core{cpu}");
    left(&folder.path().join(format!("core{cpu}")), &place);
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let parts = Parts::new().durable::<Counter>().part::<Add>().part::<Get>();
    let server = Server::here(host).parts(parts).allow(Allow::everything()).managing();
    let begin = Instant::now();
    let served = server.durable(folder.path()).serve(&interface).unwrap();
    println!("{MANY} named counters after {} ms", begin.elapsed().as_millis());
    assert_eq!(served.restored()[0].resources as u64, MANY);
    let client = Client::here().with_timeout(std::time::Duration::from_secs(60));
    for number in [0, 1, 77_777, MANY - 1] {
        let name: Name = format!("{place}/counter/n{number}").parse().unwrap();
        let counter = client.open::<Counter>(&name).await.unwrap();
        assert_eq!(client.call::<Get>(&counter, ()).await.unwrap(), number as i64);
    }
}
