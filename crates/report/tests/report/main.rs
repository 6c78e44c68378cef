//! Pages, files and sentences of made-up results and of the references.

mod browser;
mod common;
mod export;
mod headline;
mod page;
mod verdict;
