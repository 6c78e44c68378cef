//! Pages, files and answers of made-up results and of the references.

mod answers;
mod browser;
mod common;
mod export;
mod headline;
mod large;
mod page;
