//! A program part of a place behind a NATS server, beside NATS' own request and reply.
//!
//! Server and place are on the other cpu, the client on this one; all of it is of this process
//! and its child, and ends with it.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use futures_util::future::join_all;
use kumiki_measure::stopwatch::{Amount, Stopwatch};
use kumiki_places::standard::{Add, Counter, parts};
use kumiki_places::{Allow, Client, Control, Lease, Nats, Server};
use kumiki_resource::Interface;
use tokio::runtime::{Builder, Runtime};

use crate::child::{turns, with_us};
use crate::pair::Pair;

use super::request::{PLACE_BATCH as BATCH, Request};

/// Bytes of a request to a counter, and of its answer, as they are on the line.
const ASKED: usize = 68;
const ANSWERED: usize = 20;
/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(20);

const BATCHES: Amount = Amount {
    warm: 2,
    warm_span: Duration::from_millis(2),
    least: 3,
    most: 40,
    span: Duration::from_millis(60),
};

/// A NATS server of its own.
struct Engine {
    child: Child,
    url: String,
}

impl Engine {
    fn start() -> Result<Engine> {
        let folder = tempfile::tempdir()?;
        let mut command = with_us(Path::new("/usr/bin/env"));
        let child = command
            .arg("PATH=/usr/sbin:/usr/bin:/usr/local/bin:/bin")
            .args(["nats-server", "--addr", "127.0.0.1", "--port", "-1", "--ports_file_dir"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("starting nats-server")?;
        let file = folder.path().join(format!("nats-server_{}.ports", child.id()));
        // It ends also where it says nothing.
        let mut engine = Engine { child, url: String::new() };
        let end = Instant::now() + PATIENCE;
        loop {
            let mut text = String::new();
            if std::fs::File::open(&file)
                .is_ok_and(|mut file| file.read_to_string(&mut text).is_ok())
                && let Ok(ports) = serde_json::from_str::<serde_json::Value>(&text)
                && let Some(url) = ports["nats"][0].as_str()
            {
                engine.url = url.to_owned();
                return Ok(engine);
            }
            ensure!(engine.child.try_wait()?.is_none(), "nats-server has ended: is it installed?");
            ensure!(Instant::now() < end, "nats-server does not say its port");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

/// Serves by one call and by many.
fn serve(mut call: impl FnMut(), mut batch: impl FnMut()) -> Result<()> {
    let watch = Stopwatch::new();
    turns(|request| match request {
        Request::PlaceCall => Ok(Some(watch.each(Amount::hot(300), &mut call))),
        Request::PlaceBatch => Ok(Some(watch.means(BATCHES, |watch| {
            let start = watch.clock().start();
            batch();
            watch.ns(start, watch.clock().end()) / BATCH as f64
        }))),
        _ => Ok(None),
    })
}

/// Calls that run once or are said to be unknown; by a connection of their own, or by the server.
pub(crate) fn kumiki(pair: Pair, own: bool) -> Result<()> {
    pair.bind_helper()?;
    let engine = Engine::start()?;
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([pair.helper]).per_core()?;
    let server = Server::new(Nats::at(&engine.url), "bench").parts(parts()).managing();
    let server = if own { server.listening((Ipv4Addr::LOCALHOST, 0).into()) } else { server };
    let served = server.allow(Allow::everything()).serve(&interface)?;
    let place = served.names()[0].to_owned();
    pair.bind_main()?;
    let runtime = runtime()?;
    let (client, counter) = runtime.block_on(async {
        let client = Client::connect(&Nats::at(&engine.url)).await?;
        let counter = client.create::<Counter>(&place, None, 0).await?;
        let end = Instant::now() + PATIENCE;
        while client.has_direct(&place) != own {
            ensure!(Instant::now() < end, "there is no connection of its own");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok::<_, anyhow::Error>((client, counter))
    })?;
    let call = || {
        runtime.block_on(client.call::<Add>(&counter, 1)).expect("it serves");
    };
    let batch = || {
        let all = runtime.block_on(client.each::<Add>((0..BATCH).map(|_| (&counter, 1))));
        assert!(all.iter().all(Result::is_ok), "it serves");
    };
    serve(call, batch)
}

/// Serves by an interface control, whose calls hold up their thread.
pub(crate) fn control(pair: Pair) -> Result<()> {
    pair.bind_helper()?;
    let engine = Engine::start()?;
    let builder = Interface::builder().kind::<Counter>().kind::<Lease>();
    let interface = builder.cores([]).adopted([pair.helper]).per_core()?;
    let server = Server::new(Nats::at(&engine.url), "bench").parts(parts()).managing();
    let served = server.allow(Allow::everything()).serve(&interface)?;
    let place = served.names().first().context("a place")?.to_string();
    pair.bind_main()?;
    let control = Control::builder().nats(Nats::at(&engine.url)).build()?;
    let counter = control.create::<Counter>(&place, None, 0)?;
    let mut bound = control.bind::<Add>(&counter)?;
    let call = || _ = bound.call(1).expect("it serves");
    let batch = || {
        let all = control.each::<Add>((0..BATCH).map(|_| (&counter, 1)));
        assert!(all.iter().all(Result::is_ok), "it serves");
    };
    serve(call, batch)
}

/// By requests as large, which may be lost or run twice.
pub(crate) fn nats(pair: Pair) -> Result<()> {
    pair.bind_helper()?;
    let engine = Engine::start()?;
    let url = engine.url.clone();
    let (tell, told) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let answering = async move {
            let client = async_nats::connect(url).await?;
            let mut requests = client.subscribe("bench.place").await?;
            client.flush().await?;
            tell.send(())?;
            while let Some(request) = requests.next().await {
                if let Some(reply) = request.reply {
                    client.publish(reply, vec![0; ANSWERED].into()).await?;
                }
            }
            Ok::<_, anyhow::Error>(())
        };
        runtime()?.block_on(answering)
    });
    told.recv().context("the answering thread has ended")?;
    pair.bind_main()?;
    let runtime = runtime()?;
    let client = runtime.block_on(async_nats::connect(&engine.url))?;
    let ask = || async { client.request("bench.place", vec![0; ASKED].into()).await };
    let call = || {
        runtime.block_on(ask()).expect("it answers");
    };
    let batch = || {
        let all = runtime.block_on(join_all((0..BATCH).map(|_| ask())));
        assert!(all.iter().all(Result::is_ok), "it answers");
    };
    serve(call, batch)
}
