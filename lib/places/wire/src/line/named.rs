//! Calls on a line by names alone, with JSON.

use kumiki_resource::{Id, Name};
use serde_json::Value;

use crate::error::{Error, Result};
use crate::line::Line;
use crate::wire::json::{from_json, to_json};
use crate::wire::{Offer, Operation};

impl Line {
    /// Makes a resource of this name with these wishes, and gives its id.
    ///
    /// # Errors
    /// As [`create`](Line::create); [`Error::Value`] where the place has no such kind.
    pub fn create_named(&mut self, name: &Name, wishes: &Value) -> Result<Id> {
        let spec = from_json(wishes)?;
        let version = self.version(name, None)?;
        let (kind, unique) = (name.kind().to_owned(), Some(name.unique().to_owned()));
        let operation = Operation::Create { kind, version, unique, spec };
        id(name, self.raw(&operation)?).map(Id::from_u64)
    }

    /// Calls a program part of the resource of this name, and gives what it gives.
    ///
    /// # Errors
    /// As [`call`](Line::call); [`Error::Value`] where the place has no such part.
    pub fn call_named(&mut self, name: &Name, part: &str, input: &Value) -> Result<Value> {
        let input = from_json(input)?;
        let version = self.version(name, Some(part))?;
        let (kind, unique) = (name.kind().to_owned(), name.unique().to_owned());
        let id = id(name, self.raw(&Operation::Open { kind, unique })?)?;
        let (kind, part) = (name.kind().to_owned(), part.to_owned());
        to_json(self.raw(&Operation::Call { id, kind, part, version, input })?)
    }

    fn version(&mut self, name: &Name, part: Option<&str>) -> Result<u32> {
        self.is_of(name)?;
        version(&self.operation::<Vec<Offer>>(&Operation::Offers)?, name, part)
    }
}

/// The version that a place which offers this has of a kind or program part.
pub fn version(offers: &[Offer], name: &Name, part: Option<&str>) -> Result<u32> {
    let kind = name.kind();
    let found = offers.iter().find(|offer| offer.kind == kind && offer.part.as_deref() == part);
    if let Some(offer) = found {
        return Ok(offer.version);
    }
    let of_kind = offers.iter().filter(|offer| offer.kind == kind || part.is_none());
    let known = of_kind.filter(|offer| offer.part.is_some() == part.is_some());
    let known: Vec<_> = known.map(|offer| offer.part.as_ref().unwrap_or(&offer.kind)).collect();
    let known: Vec<_> = known.into_iter().map(String::as_str).collect();
    let what = match part {
        Some(part) => format!("program part {part} of kind {kind}"),
        None => format!("kind {kind}"),
    };
    let why = format!("it has: {}", known.join(", "));
    Err(Error::Value { what: format!("place {} has no {what}", name.place()), why })
}

/// The id that a place has given.
pub fn id(name: &Name, answer: &[u8]) -> Result<u64> {
    to_json(answer)?.as_u64().ok_or_else(|| Error::Value {
        what: format!("what place {} has given is no id", name.place()),
        why: "it is something else".to_owned(),
    })
}
