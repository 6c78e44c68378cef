//! The command as a person runs it: each test starts the program in a home of its
//! own and looks at what it prints, keeps and leaves.
//!
//! One program: no test changes anything of this process but the cpus of its own
//! thread, so that none needs a process of its own.

mod ab;
mod ahead;
mod common;
mod compare;
mod database;
mod docs;
mod doctor;
mod interrupt;
mod many;
mod measure;
mod output;
mod programs;
mod questions;
mod report;
mod resource;
mod results;
mod terminal;
mod units;
