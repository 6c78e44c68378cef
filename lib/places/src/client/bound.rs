//! A program part of a resource, kept by who knows both by their names alone: asked for once, and then each call is one
//! request, without a look at a name.

use std::sync::{Mutex, MutexGuard, PoisonError};

use kumiki_resource::Name;
use serde_json::Value;

use crate::client::Client;
use crate::client::named::{KnownCall, is_over};
use crate::error::{Error, Result};
use crate::wire::json::{from_json, to_json};

/// A program part of one resource, bound ([`Client::bind_named`]).
///
/// It is of one resource in one life of its place. If that has gone, a call says so, once
/// ([`Error::Refused`]), and has not run; the next one binds anew, to whatever has the name then.
#[derive(Debug)]
pub struct NamedBinding {
    name: Name,
    part: String,
    /// None since it was told to be over.
    known: Mutex<Option<KnownCall>>,
}

impl Client {
    /// Binds a program part of the resource of this name.
    ///
    /// # Errors
    /// As [`open`](Client::open); [`Error::Value`] where the place has no such part.
    pub async fn bind_named(&self, name: &Name, part: &str) -> Result<NamedBinding> {
        let known = Mutex::new(Some(self.known(name, part).await?));
        Ok(NamedBinding { name: name.clone(), part: part.to_owned(), known })
    }
}

impl NamedBinding {
    /// Name of the resource.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// Calls the part by this client, and gives what it gives.
    ///
    /// # Errors
    /// As [`call`](Client::call).
    pub async fn call(&self, client: &Client, input: &Value) -> Result<Value> {
        let input = from_json(input)?;
        let bound = *self.known();
        let known = match bound {
            Some(known) => known,
            None => {
                let known = client.known(&self.name, &self.part).await?;
                *self.known() = Some(known);
                known
            }
        };
        let outcome = client.call_known(&self.name, &self.part, known, input).await;
        if matches!(&outcome, Err(Error::Refused { why, .. }) if is_over(*why)) {
            let mut bound = self.known();
            // Another call may have bound it anew meanwhile.
            if *bound == Some(known) {
                *bound = None;
            }
        }
        to_json(&outcome?)
    }

    fn known(&self) -> MutexGuard<'_, Option<KnownCall>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
