//! Places of this machine's other processes, by the same calls.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kumiki_places::standard::{Add, Counter, Get, parts};
use kumiki_places::wire::Why;
use kumiki_places::{Allow, Block, Choice, Client, Error, Lease, Part, Served, Server, Work};
use kumiki_resource::{Interface, Name};

use crate::scene::{PATIENCE, block_on};

/// Sleeps until its process is killed.
struct Never;

impl Part for Never {
    type Kind = Counter;
    const NAME: &'static str = "never";
    type In = ();
    type Out = ();
}

impl Block for Never {
    fn begin(counter: &mut Counter, (): &mut (), (): ()) -> Work<()> {
        counter.0 += 1;
        Box::new(|| std::thread::sleep(2 * PATIENCE))
    }
}

/// A place's name that no other process and test has.
fn unique(test: &str) -> String {
    format!("t{}{test}", std::process::id())
}

fn served(name: &str, allow: Option<Allow>) -> kumiki_places::Result<(Interface, Served, String)> {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let mut server = Server::here(name).parts(parts().blocking::<Never>());
    if let Some(allow) = allow {
        server = server.allow(allow);
    }
    let served = server.managing().serve(&interface)?;
    let place = served.names()[0].to_owned();
    Ok((interface, served, place))
}

const NAME: &str = "KUMIKI_TEST_PLACE_HERE";

/// A process that serves a place until it is killed.
struct Other(Child);

impl Other {
    fn start(name: &str) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "here::a_process_of_another_test", "--nocapture"])
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("it serves")), "it has ended");
        std::thread::spawn(move || said.for_each(drop));
        Other(child)
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// No test, but the process of others.
#[test]
fn a_process_of_another_test() {
    let Ok(name) = std::env::var(NAME) else { return };
    let served = served(&name, Some(Allow::everything())).unwrap();
    println!("it serves {:?}", served.1);
    // Ends with whoever has started it, if that does not kill it.
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn another_process_is_called_by_name_and_its_end_answers_every_pending_call() {
    let name = unique("called");
    let other = Other::start(&name);
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let places = client.choose(&format!("{name}.*"), Choice::Any).await.unwrap();
        let place = places[0].clone();
        let hits = client.create::<Counter>(&place, Some("hits"), 40).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 2).await.unwrap(), 42);
        let each = client.each::<Add>((0..300).map(|_| (&hits, 1))).await;
        assert_eq!(each.last().unwrap().as_ref().unwrap(), &342);
        let opened: Name = format!("{place}/counter/hits").parse().unwrap();
        let opened = client.open::<Counter>(&opened).await.unwrap();
        assert_eq!(client.call::<Get>(&opened, ()).await.unwrap(), 342);
        let seen = client.places().await.unwrap();
        assert!(seen.iter().any(|seen| seen.place == place), "{seen:?}");
        assert_eq!(client.ls(&place, "**/counter/*").await.unwrap().len(), 1);

        // Several that block, and the process is killed under them.
        let all = [(); 8].map(|()| client.call::<Never>(&hits, ()));
        let kill = async {
            while client.call::<Get>(&hits, ()).await.unwrap() < 350 {}
            drop(other);
        };
        let begin = Instant::now();
        let (outcomes, ()) = tokio::join!(futures_util::future::join_all(all), kill);
        for outcome in outcomes {
            let error = outcome.unwrap_err();
            assert!(matches!(error, Error::Unknown { .. }), "{error}");
        }
        let error = client.call::<Add>(&hits, 1).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        assert!(begin.elapsed() < PATIENCE / 2, "it waited for its patience");

        // Another life of the name knows nothing of before.
        let _again = Other::start(&name);
        let error = client.call::<Add>(&hits, 1).await.unwrap_err();
        assert!(matches!(error, Error::Refused { why: Why::Stale, .. }), "{error}");
        let hits = client.create::<Counter>(&place, Some("hits"), 1).await.unwrap();
        assert_eq!(client.call::<Add>(&hits, 1).await.unwrap(), 2);
    });
}

#[test]
fn if_nothing_is_said_names_may_be_listed_and_nothing_else() {
    let (interface, _served, place) = served(&unique("listed"), None).unwrap();
    let own = interface.create::<Counter>(interface.places()[0], Some("a"), 1).unwrap();
    block_on(async {
        let client = Client::here();
        assert_eq!(client.ls(&place, "**/counter/a").await.unwrap().len(), 1);
        let name: Name = format!("{place}/counter/a").parse().unwrap();
        let opened = client.open::<Counter>(&name).await.unwrap();
        for error in [
            client.create::<Counter>(&place, None, 0).await.map(|_| ()).unwrap_err(),
            client.call::<Get>(&opened, ()).await.map(|_| ()).unwrap_err(),
        ] {
            assert!(matches!(error, Error::Refused { why: Why::NotAllowed, .. }), "{error}");
        }
        let error = client.watch(&place, "**").await.map(|_| ()).unwrap_err();
        assert!(error.to_string().contains("without a NATS server"), "{error}");
    });
    interface.destroy(own).unwrap();
}

#[test]
fn a_name_is_one_process_own_and_free_when_that_has_ended() {
    let name = unique("own");
    let first = served(&name, None).unwrap();
    let error = served(&name, None).map(|_| ()).unwrap_err();
    assert!(matches!(&error, Error::PlaceTaken { place } if *place == first.2), "{error}");
    drop(first);
    let (_interface, _served, place) = served(&name, None).unwrap();
    block_on(async {
        let error = Client::here().create::<Counter>("nobody.core0", None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        let outside = Client::here().create::<Counter>("../x.core0", None, 0).await.unwrap_err();
        assert!(matches!(outside, Error::Gone { .. }), "{outside}");
        Client::here().ls(&place, "**").await.unwrap();
    });
}

#[test]
fn what_a_stranger_sends_to_a_socket_harms_nobody() {
    use std::io::Write;
    let (_interface, _served, place) = served(&unique("noise"), Some(Allow::everything())).unwrap();
    let folder = kumiki_resource::published::folder().unwrap();
    let connect = || UnixStream::connect(folder.join(format!("{place}.place"))).unwrap();
    let frame = |bytes: u32, message: &[u8]| {
        [&7_u64.to_le_bytes()[..], &bytes.to_le_bytes(), message].concat()
    };
    // Half a frame, from one that stays.
    let mut half = connect();
    half.write_all(&frame(100, b"abc")).unwrap();
    // More than a message may be: its connection ends.
    let mut large = connect();
    large.write_all(&frame(u32::MAX, b"")).unwrap();
    large.set_read_timeout(Some(PATIENCE)).unwrap();
    assert_eq!(large.read(&mut [0]).unwrap(), 0);
    // No message of ours: it is told.
    let mut noise = connect();
    noise.write_all(&frame(3, b"\x01\xff\xff")).unwrap();
    let mut reply = [0; 12];
    noise.set_read_timeout(Some(PATIENCE)).unwrap();
    noise.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..8], 7_u64.to_le_bytes());
    // One that asks without end and takes no reply waits for itself alone.
    let mut slow = connect();
    slow.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let many = frame(3, b"\x01\xff\xff").repeat(1000);
    let mut sent = 0;
    while slow.write_all(&many).is_ok() {
        sent += many.len();
        assert!(sent < 64 << 20, "somebody keeps it all");
    }
    block_on(async {
        let client = Client::here().with_timeout(PATIENCE);
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
    });
}
