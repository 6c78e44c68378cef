//! The server as its clients see it: tools of Redis, pipelines, and those who mean no good.

mod bounds;
mod clients;
mod differ;
mod hostile;
mod listening;
mod page;
mod printed;
mod protocol;
mod redis;
mod scene;
mod tcl;
mod tools;
mod tracking;
mod transactions;
