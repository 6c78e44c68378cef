//! A machine with places, another process that has some, and a client.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use kumiki_places::run::Process;
use kumiki_places::standard::{Counter, parts};
use kumiki_places::wire::{self, Operation, Reply, Request};
use kumiki_places::{Allow, Client, Lease, Nats, Result, Served, Server};
use kumiki_resource::{Interface, Memory, Policy};

/// Nothing takes this long, on however busy a machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// An interface on some of the cpus that this process may use.
pub(crate) fn interface(cores: usize) -> Interface {
    let cpus = kumiki_sys::affinity::current().unwrap();
    Interface::builder()
        .kind::<Counter>()
        .kind::<Memory>()
        .kind::<Lease>()
        .cores(cpus.iter().take(cores))
        .policy(Policy::default())
        .per_core()
        .unwrap()
}

/// Serves one place, managed by the thread that hears its requests.
pub(crate) fn managing(server: Server) -> Result<(Interface, Served, String)> {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Counter>().kind::<Memory>().kind::<Process>();
    let interface = builder.kind::<Lease>().cores([]).adopted([cpu]).per_core().unwrap();
    let served = server.managing().serve(&interface)?;
    let place = served.names()[0].to_owned();
    Ok((interface, served, place))
}

/// A machine whose place is managed by the thread that hears its requests.
pub(crate) fn managed(url: &str, host: &str) -> (Interface, Served, String) {
    managing(server(url, host)).unwrap()
}

/// A process that serves places until it is killed.
pub(crate) struct Other(Child);

impl Other {
    /// Runs a test of this program as a process of its own, with these variables; it [stays](stay).
    pub(crate) fn start(test: &str, variables: &[(&str, &str)]) -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test, "--nocapture"])
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("it serves")), "it has ended");
        // What it says later has nobody to read it, and room in the pipe.
        std::thread::spawn(move || said.for_each(drop));
        Other(child)
    }
}

impl Other {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The other process' side: it says that it serves, and ends with whoever has started it, if that does not
/// kill it.
pub(crate) fn stay() {
    println!("it serves");
    let _ = std::io::stdin().read(&mut [0]);
}

/// A machine with one place that allows everything, and the place's name.
pub(crate) fn machine(url: &str, host: &str) -> (Interface, Served, String) {
    let interface = interface(1);
    let served = server(url, host).serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    (interface, served, place)
}

pub(crate) fn server(url: &str, host: &str) -> Server {
    Server::new(Nats::at(url), host).parts(parts()).allow(Allow::everything())
}

pub(crate) async fn client(url: &str) -> Client {
    Client::connect(&Nats::at(url)).await.unwrap().with_timeout(PATIENCE)
}

/// Runs a test's asynchronous part.
pub(crate) fn block_on<T>(part: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().unwrap().block_on(part)
}

/// The subject of a place's present life, for who speaks without a client.
pub(crate) async fn subject(nats: &async_nats::Client, place: &str) -> String {
    let operations = vec![(0, Operation::Age)];
    let request = Request { life: 0, lease: 0, key: 0, first: 0, open: vec![], operations };
    let bytes = [&[wire::VERSION][..], &rmp_serde::to_vec(&request).unwrap()].concat();
    let reply = nats.request(format!("kumiki.place.{place}"), bytes.into()).await.unwrap();
    let life = wire::parse::<Reply>(&reply.payload).unwrap().life;
    format!("kumiki.place.{place}.{life:016x}")
}
