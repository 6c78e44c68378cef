//! Places that another process is to take over from the one that serves them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kumiki_places::durable::{Disk, Folder};
use kumiki_places::standard::{Add, Counter};
use kumiki_places::{Allow, Client, Error, Lease, Parts, Server};
use kumiki_resource::{Builder, Interface};

use crate::here::unique;
use crate::killed::{durable, parts};
use crate::scene::{PATIENCE, block_on};

#[test]
fn who_could_not_serve_a_place_does_not_take_it_over() {
    let (name, folder) = (unique("could-not-over"), tempfile::tempdir().unwrap());
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let path = folder.path().to_owned();
    let disk = move |core: &str| Ok(Arc::new(Folder::open(&path.join(core))?) as Arc<dyn Disk>);
    let (interface, served, place) = durable(Server::here(&name), disk).unwrap();
    let its = |builder: Builder| builder.kind::<Counter>().kind::<Lease>();
    let take = |server: Server, parts: Parts, kinds: &dyn Fn(Builder) -> Builder| {
        let interface = kinds(Interface::builder()).cores([]).adopted([cpu]).per_core().unwrap();
        let server = server.parts(parts).allow(Allow::everything()).managing();
        let taken = server.taking_over(folder.path()).serve(&interface);
        taken.map(|served| (interface, served))
    };
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let hits = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        let others = |builder: Builder| builder.kind::<Lease>().kind::<Counter>();
        let own = || Server::here(&name);
        let outcomes = [
            (take(own(), parts(), &others), "kind counter has number 0 in its ids, and 1 here"),
            (take(own(), Parts::new(), &its), "which is not kept here"),
            (take(own(), parts().kind::<kumiki_resource::Memory>(), &its), "it allows kind memory"),
            (take(Server::here(unique("another")), parts(), &its), "is of place"),
        ];
        for (sum, (outcome, why)) in (1..).zip(outcomes) {
            let error = outcome.map(drop).unwrap_err();
            assert!(matches!(error, Error::NotDurable { .. }), "{error}");
            assert!(error.to_string().contains(why), "{error}");
            assert!(served.endings().is_empty(), "{why}: {:?}", served.endings());
            let quick = Client::here().with_timeout(Duration::from_secs(5));
            assert_eq!(quick.call::<Add>(&hits, 1).await.unwrap(), sum, "{why}");
        }
        let core = folder.path().join(format!("core{cpu}"));
        assert!(Path::new(&core).exists() && !core.join("wanted").exists());
        // And who can, does.
        let (_interface, again) = take(own(), parts(), &its).unwrap();
        assert!(matches!(*served.ended().unwrap(), Error::HandedOver { .. }));
        drop((interface, served));
        assert_eq!(again.restored()[0].resources, 1);
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 5);
    });
}
