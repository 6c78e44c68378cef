//! Streams as their users have them: credit against a model, many at once, programs.

mod credit;
mod many;
mod programs;
