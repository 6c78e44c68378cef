//! What a command says to a person, and hears of one: lines, tables, times and percentages as people
//! write them, files that they ask for, Ctrl-C.

#![forbid(unsafe_code)]

pub mod destination;
pub mod duration;
pub mod interrupt;
pub mod output;
pub mod percent;
pub mod rows;
