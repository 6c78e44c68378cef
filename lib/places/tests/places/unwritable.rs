//! Kinds whose code fails at the wrong moment: a state that cannot be written, and an end that panics.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kumiki_places::durable::Disk;
use kumiki_places::standard::{Add, Counter};
use kumiki_places::wire::Why;
use kumiki_places::{
    Allow, Client, Durable, Error, Lease, Part, Parts, Portable, Run, Served, Server,
};
use kumiki_resource::kind::{About, Kind};
use kumiki_resource::{Interface, Name, Place};

use crate::disks::Held;
use crate::here::unique;
use crate::scene::{PATIENCE, block_on};

/// A state that is well.
const WELL: u8 = 0;
/// A path that is no UTF-8, as folders of this system may have.
const NOT_UTF8: u8 = 1;
/// A state whose code panics.
const PANICS: u8 = 2;
/// A state that is well, of one whose end panics.
const ENDS_BADLY: u8 = 3;

/// A path, of one of these.
struct Odd(u8);

impl Kind for Odd {
    const NAME: &'static str = "odd";
    type Spec = u8;
    type Pool = ();

    fn pool(_: Place) -> kumiki_resource::Result<()> {
        Ok(())
    }

    fn create(is: u8, (): &mut ()) -> kumiki_resource::Result<Odd> {
        Ok(Odd(is))
    }

    fn destroy(self, (): &mut ()) {
        assert_ne!(self.0, ENDS_BADLY, "its end panics");
    }

    fn about(&self) -> About {
        About::default()
    }
}

impl Portable for Odd {}

impl Durable for Odd {
    type State = PathBuf;

    fn state(&self) -> PathBuf {
        match self.0 {
            WELL | ENDS_BADLY => "well".into(),
            NOT_UTF8 => OsString::from_vec(vec![0xff]).into(),
            _ => panic!("its state panics"),
        }
    }

    fn restored(path: PathBuf, (): &mut ()) -> kumiki_resource::Result<Odd> {
        assert_eq!(path, PathBuf::from("well"));
        Ok(Odd(WELL))
    }
}

/// Gives it another state.
struct Set;

impl Part for Set {
    type Kind = Odd;
    const NAME: &'static str = "set";
    type In = u8;
    type Out = ();
}

impl Run for Set {
    fn run(odd: &mut Odd, (): &mut (), is: u8) {
        odd.0 = is;
    }
}

fn serve(name: &str, disk: &Held) -> (Interface, Served, String) {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Odd>().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let parts = Parts::new().durable::<Odd>().part::<Set>().durable::<Counter>().part::<Add>();
    let (server, disk) = (Server::here(name).parts(parts).allow(Allow::everything()), disk.clone());
    let server = server.managing();
    let server = server.durable_on(move |_| Ok(Arc::new(disk.clone()) as Arc<dyn Disk>));
    let served = server.serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    (interface, served, place)
}

#[test]
fn who_has_done_what_cannot_be_written_is_not_answered() {
    for is in [NOT_UTF8, PANICS] {
        for doing in ["create", "call", "each"] {
            let (name, disk) = (unique("unwritable"), Held::default());
            let (_interface, served, place) = serve(&name, &disk);
            let at = format!("{doing} of {is}");
            block_on(async {
                let client = Client::here().with_timeout(PATIENCE);
                let well = client.create::<Odd>(&place, Some("well"), WELL).await.unwrap();
                let hasty = Client::here().with_timeout(Duration::from_secs(1));
                let outcome = match doing {
                    "create" => hasty.create::<Odd>(&place, Some("odd"), is).await.map(drop),
                    "call" => hasty.call::<Set>(&well, is).await,
                    _ => hasty.each::<Set>([(&well, is)]).await.remove(0),
                };
                assert!(outcome.is_err(), "{at} was answered");
                // Who asked may hear that nobody is there before its end is told.
                let until = Instant::now() + PATIENCE;
                while served.ended().is_none() && Instant::now() < until {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let ended = served.ended().unwrap_or_else(|| panic!("{at}: it goes on"));
                let said = ended.to_string();
                assert!(matches!(*ended, Error::NotDurable { .. }), "{at}: {said}");
                assert!(said.contains("the state of odd"), "{at}: {said}");
                drop(served);
                // What was answered is there, and nothing else.
                let (_interface, served, place) = serve(&name, &disk);
                assert_eq!(served.restored()[0].resources, 1, "{at}");
                client.create::<Odd>(&place, Some("odd"), WELL).await.unwrap();
            });
        }
    }
}

#[test]
fn who_panics_at_its_end_has_gone_after_a_restart_too() {
    let (name, disk) = (unique("end-panics"), Held::default());
    let (_interface, served, place) = serve(&name, &disk);
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let first = client.create::<Odd>(&place, Some("first"), WELL).await.unwrap();
        let named = client.create::<Odd>(&place, Some("name"), ENDS_BADLY).await.unwrap();
        let other = client.create::<Odd>(&place, Some("other"), ENDS_BADLY).await.unwrap();
        for one in [named, other] {
            let error = client.destroy(one).await.unwrap_err();
            assert!(matches!(error, Error::Refused { why: Why::Panicked, .. }), "{error}");
        }
        client.destroy(first).await.unwrap();
        // The name is free, and the last slot that is: it is not the former one's.
        let again = client.create::<Odd>(&place, Some("name"), WELL).await.unwrap();
        drop(served);
        let (_interface, served, place) = serve(&name, &disk);
        assert_eq!(served.restored()[0].resources, 1);
        let name: Name = format!("{place}/odd/name").parse().unwrap();
        assert_eq!(client.open::<Odd>(&name).await.unwrap().id(), again.id());
    });
}
