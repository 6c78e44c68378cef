//! A thousand places and a hundred thousand names: what they cost, and how soon a death is noticed.
//!
//! Ten processes have a hundred places each, as cores of a hundred machines. They are behind one NATS server,
//! and then at two leaf nodes of a cluster of three, whose third server has the client. `docs/design/places.md`
//! has a model and what was seen.

use std::fmt::Write;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::future::join_all;
use kumiki_places::standard::Counter;
use kumiki_places::{News, Served};
use kumiki_resource::Interface;

use crate::nats::NatsServer;
use crate::scene::{Other, PATIENCE, block_on, client, interface, server, stay};

const PROCESSES: usize = 10;
/// Another number of processes.
const PROCESSES_OF: &str = "KUMIKI_SCALE_PROCESSES";
const PLACES: usize = 100;
const NAMES: usize = 100;
/// For how long beats are counted.
const COUNTED: Duration = Duration::from_secs(10);

const URL: &str = "KUMIKI_TEST_SCALE_AT";
const FIRST: &str = "KUMIKI_TEST_SCALE_FIRST";

/// No test, but a process of the one below.
#[test]
fn a_hundred_machines_of_another_test() {
    let (Ok(url), Ok(first)) = (std::env::var(URL), std::env::var(FIRST)) else { return };
    let first: usize = first.parse().unwrap();
    let places: Vec<(Interface, Served)> = (first..first + PLACES)
        .map(|number| {
            // Managers of their own sleep until they are asked; a hundred that look every 50 ms do not.
            let interface = interface(1);
            let served = server(&url, &format!("m{number}")).serve(&interface).unwrap();
            (interface, served)
        })
        .collect();
    for (interface, _) in &places {
        let at = interface.places()[0];
        // By its owner at once: asked one by one each waits for the owner's next look.
        let made = interface.run(at, || {
            (0..NAMES).try_for_each(|name| {
                interface.create::<Counter>(at, Some(&format!("name{name}")), 0).map(|_| ())
            })
        });
        made.unwrap().unwrap();
    }
    stay();
}

/// Servers, the client's first, and URLs that processes are behind.
struct Servers {
    all: Vec<NatsServer>,
    urls: Vec<String>,
    _folder: tempfile::TempDir,
}

impl Servers {
    fn one() -> Servers {
        let server = NatsServer::start();
        let urls = vec![server.url()];
        Servers { all: vec![server], urls, _folder: tempfile::tempdir().unwrap() }
    }

    /// Three servers, and a leaf node at each of two of them.
    fn cluster() -> Servers {
        let folder = tempfile::tempdir().unwrap();
        let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let start = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            NatsServer::start_with(&["-c", path.to_str().unwrap()])
        };
        let (routes, leaves) = ([free(), free(), free()], [free(), free(), free()]);
        let all_routes: Vec<_> = routes.iter().map(|route| format!("nats://{route}")).collect();
        let mut all: Vec<_> = (0..3)
            .map(|number| {
                let (listen, leaf, routes) = (routes[number], leaves[number], all_routes.join(","));
                let text = format!(
                    "server_name: s{number}\ncluster {{ name: c, listen: \"{listen}\", routes: [{routes}] }}\n\
                     leafnodes {{ listen: \"{leaf}\" }}\n"
                );
                start(&format!("s{number}"), &text)
            })
            .collect();
        let mut urls = Vec::new();
        for number in [1, 2] {
            let text = format!(
                "server_name: l{number}\nleafnodes {{ remotes: [{{ url: \"nats-leaf://{}\" }}] }}\n",
                leaves[number]
            );
            let leaf = start(&format!("l{number}"), &text);
            urls.push(leaf.url());
            all.push(leaf);
        }
        Servers { all, urls, _folder: folder }
    }
}

/// Resident memory of a process, bytes.
fn resident(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let pages: u64 = text.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

fn mib(bytes: u64) -> u64 {
    bytes >> 20
}

#[test]
#[ignore = "some minutes, ten processes: `cargo xtask stress scale`, for the figures of docs/design/places.md"]
fn a_thousand_places_and_a_hundred_thousand_names() {
    for (what, is_cluster) in [("one server", false), ("cluster, leaf nodes", true)] {
        let servers = if is_cluster { Servers::cluster() } else { Servers::one() };
        let (mut table, begin) = (String::new(), Instant::now());
        let start = |number: usize| {
            let (url, first) = (&servers.urls[number % servers.urls.len()], number * PLACES);
            let variables = [(URL, url.as_str()), (FIRST, &first.to_string())];
            Other::start("scale::a_hundred_machines_of_another_test", &variables)
        };
        let count = std::env::var(PROCESSES_OF).map_or(PROCESSES, |count| count.parse().unwrap());
        let mut processes: Vec<Other> = (0..count).map(start).collect();
        writeln!(table, "{what}: all serve after {:.1} s", begin.elapsed().as_secs_f64()).unwrap();
        block_on(measure(&servers, &mut processes, &mut table));
        println!("{table}");
    }
}

async fn measure(servers: &Servers, processes: &mut Vec<Other>, table: &mut String) {
    let all = processes.len() * PLACES;
    let url = servers.all[0].url();
    let client = client(&url).await;
    // Routes between servers take their time to tell each other of subjects.
    let end = Instant::now() + PATIENCE;
    let places = loop {
        let begin = Instant::now();
        let seen = client.places().await.unwrap();
        if seen.len() == all {
            writeln!(table, "  found in {} ms", begin.elapsed().as_millis()).unwrap();
            break seen;
        }
        assert!(Instant::now() < end, "{} places are seen", seen.len());
    };

    let listener = async_nats::connect(&url).await.unwrap();
    let mut beats = listener.subscribe("kumiki.beat.>").await.unwrap();
    let (mut count, mut bytes) = (0, 0);
    let until = tokio::time::Instant::now() + COUNTED;
    while let Ok(Some(beat)) = tokio::time::timeout_at(until, beats.next()).await {
        count += 1;
        bytes += beat.subject.len() + beat.payload.len();
    }
    drop(beats);
    let seconds = COUNTED.as_secs_f64();
    let (per_s, bytes_s) = (f64::from(count) / seconds, bytes as f64 / seconds / 1024.0);
    writeln!(table, "  beats: {per_s:.0} a second, {bytes_s:.0} KiB a second at a listener")
        .unwrap();
    assert!(count > 0);

    let begin = Instant::now();
    let mut names = 0;
    for some in places.chunks(50) {
        let listed = some.iter().map(|seen| client.ls(&seen.place, "**/counter/*"));
        names += join_all(listed).await.into_iter().map(|all| all.unwrap().len()).sum::<usize>();
    }
    assert_eq!(names, all * NAMES);
    writeln!(table, "  {names} names listed in {} ms", begin.elapsed().as_millis()).unwrap();

    let of_places: u64 = processes.iter().map(|other| resident(other.pid())).sum();
    let each = of_places / all as u64 / 1024;
    let of_servers: Vec<_> = servers.all.iter().map(|one| mib(resident(one.pid()))).collect();
    writeln!(table, "  resident: {each} KiB a place; servers {of_servers:?} MiB").unwrap();

    // One process of them dies, and some watch.
    let dying = processes.pop().unwrap();
    let first = all - PLACES;
    let ours = places.iter().filter(|seen| {
        let number = seen.place[1..].split('.').next().unwrap().parse::<usize>().unwrap();
        number >= first
    });
    let mut watches = Vec::new();
    for seen in ours.take(20) {
        let mut watch = client.watch(&seen.place, "**").await.unwrap();
        assert!(matches!(watch.next().await, News::Here { .. }));
        watches.push(watch);
    }
    let died = Instant::now();
    drop(dying);
    let noticed = watches.iter_mut().map(async |watch| {
        while watch.next().await != News::Gone {}
        died.elapsed().as_millis()
    });
    let mut noticed = tokio::time::timeout(PATIENCE, join_all(noticed)).await.expect("they hear");
    noticed.sort_unstable();
    let (least, median, most) =
        (noticed[0], noticed[noticed.len() / 2], noticed[noticed.len() - 1]);
    writeln!(
        table,
        "  a death is noticed after {least}, {median}, {most} ms (least, median, most)"
    )
    .unwrap();
}
