//! The server as its clients see it: tools of Redis, pipelines, and those who mean no good.

mod bounds;
mod listening;
mod page;
mod printed;
mod protocol;
mod scene;
mod tools;
mod transactions;
