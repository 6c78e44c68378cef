//! A machine with places, and a client.

use std::time::Duration;

use kumiki_places::standard::{Counter, parts};
use kumiki_places::{Allow, Client, Lease, Nats, Served, Server};
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

/// A machine whose place is managed by the thread that hears its requests.
pub(crate) fn managed(url: &str, host: &str) -> (Interface, Served, String) {
    let cpu = kumiki_sys::affinity::current().unwrap().first().unwrap();
    let builder = Interface::builder().kind::<Counter>().kind::<Memory>().kind::<Lease>();
    let interface = builder.cores([]).adopted([cpu]).per_core().unwrap();
    let served = server(url, host).managing().serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    (interface, served, place)
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
