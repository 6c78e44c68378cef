//! Places behind a real NATS server: each test starts one of its own.

mod arrivals;
mod attached;
mod batches;
mod blocking;
mod bounds;
mod calls;
mod chained;
mod chains;
mod control;
mod direct;
mod disks;
mod durable;
mod faults;
#[path = "../../examples/five_places.rs"]
mod five_places;
mod healed;
mod here;
mod hostile;
mod killed;
mod lines;
mod long_records;
mod moved;
mod names;
#[path = "../nats/mod.rs"]
mod nats;
mod once;
mod processes;
mod scale;
mod scene;
mod stopped;
mod taken_over;
mod unwritable;
mod users;
mod watch;
