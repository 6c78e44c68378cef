//! Container images as programs of others make them.

#[path = "../../src/fixtures/about.rs"]
mod about;
mod corpus;
mod expand;
