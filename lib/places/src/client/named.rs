//! Kinds and program parts by their names alone, with JSON: for people, and for languages without the types.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use kumiki_resource::{Id, Name};
use serde_json::Value;

use crate::client::Client;
use crate::error::{Error, Result};
use crate::line::named::{id, version};
use crate::refused::Why;
use crate::wire::Operation;
use crate::wire::json::{from_json, to_json};

/// Names of which something is known, at most: with one more all are forgotten.
const MOST_NAMES: usize = 1024;

/// Id and version of a name and a program part: a call needs no question before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KnownCall {
    /// Life of the place; an id is one life's, and is never used again.
    life: u64,
    id: u64,
    version: u32,
}

/// Names that were called.
#[derive(Debug, Default)]
pub(crate) struct Names(Mutex<HashMap<(String, String), KnownCall>>);

impl Names {
    fn held(&self) -> MutexGuard<'_, HashMap<(String, String), KnownCall>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn get(&self, name: &Name, part: &str) -> Option<KnownCall> {
        self.held().get(&(name.to_string(), part.to_owned())).copied()
    }

    fn add(&self, name: &Name, part: &str, known: KnownCall) {
        let mut names = self.held();
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        names.insert((name.to_string(), part.to_owned()), known);
    }

    fn forget(&self, name: &Name, part: &str) {
        self.held().remove(&(name.to_string(), part.to_owned()));
    }
}

/// True if a refusal says that a resource or a part is not what it was, and nothing has run.
pub(crate) fn is_over(why: Why) -> bool {
    let over = [
        Why::OtherLife,
        Why::Stale,
        Why::NoResource,
        Why::NotFound,
        Why::NoPart,
        Why::OtherVersion,
    ];
    over.contains(&why)
}

impl Client {
    /// Makes a resource of this name with these wishes, and gives its id.
    ///
    /// # Errors
    /// As [`create`](Client::create); [`Error::Value`] where the place has no such kind.
    pub async fn create_named(&self, name: &Name, wishes: &Value) -> Result<Id> {
        let spec = from_json(wishes)?;
        let version = self.version(name, None).await?;
        let (kind, unique) = (name.kind().to_owned(), Some(name.unique().to_owned()));
        let operation = Operation::Create { kind, version, unique, spec };
        id(name, &self.ask(name.place(), operation).await?).map(Id::from_u64)
    }

    /// Calls a program part of the resource of this name, and gives what it gives. The first call asks for the id and
    /// the part's version, and later ones do only where these have changed.
    ///
    /// # Errors
    /// As [`call`](Client::call); [`Error::Value`] where the place has no such part.
    pub async fn call_named(&self, name: &Name, part: &str, input: &Value) -> Result<Value> {
        let input = from_json(input)?;
        if let Some(known) = self.inner.names.get(name, part) {
            match self.call_known(name, part, known, input.clone()).await {
                // It has not run, and what is known of the name is over: another resource has it, perhaps.
                Err(Error::Refused { why, .. }) if is_over(why) => {
                    self.inner.names.forget(name, part);
                }
                outcome => return to_json(&outcome?),
            }
        }
        let known = self.known(name, part).await?;
        let given = self.call_known(name, part, known, input).await?;
        self.inner.names.add(name, part, known);
        to_json(&given)
    }

    /// Asks for what a call of a name's part needs.
    pub(crate) async fn known(&self, name: &Name, part: &str) -> Result<KnownCall> {
        let (opened, version) =
            tokio::try_join!(self.opened(name), self.version(name, Some(part)))?;
        let (life, id) = opened;
        Ok(KnownCall { life, id, version })
    }

    /// Calls a part of which that is known.
    pub(crate) async fn call_known(
        &self,
        name: &Name,
        part: &str,
        KnownCall { life, id, version }: KnownCall,
        input: Bytes,
    ) -> Result<Bytes> {
        let (kind, part) = (name.kind().to_owned(), part.to_owned());
        let operation = Operation::Call { id, kind, part, version, input };
        Ok(self.ask_with_life(name.place(), life, operation).await?.1)
    }

    /// Destroys the resource of this name.
    ///
    /// # Errors
    /// As [`destroy`](Client::destroy).
    pub async fn destroy_named(&self, name: &Name) -> Result<()> {
        let ((_, id), kind) = (self.opened(name).await?, name.kind().to_owned());
        self.ask(name.place(), Operation::Destroy { id, kind }).await?;
        Ok(())
    }

    /// The life of a name's place, and its resource's id.
    async fn opened(&self, name: &Name) -> Result<(u64, u64)> {
        let (kind, unique) = (name.kind().to_owned(), name.unique().to_owned());
        let operation = Operation::Open { kind, unique };
        let (life, answer) = self.ask_with_life(name.place(), 0, operation).await?;
        Ok((life, id(name, &answer)?))
    }

    /// The version that the place has of a kind or program part: whoever has names alone knows no other.
    async fn version(&self, name: &Name, part: Option<&str>) -> Result<u32> {
        version(&self.offers(name.place()).await?, name, part)
    }
}
