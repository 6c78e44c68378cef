//! Container images as programs of others make them.

#[path = "../../src/made_up/about.rs"]
mod about;
mod corpus;
mod expand;
