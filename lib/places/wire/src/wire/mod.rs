//! Messages between clients and places: one byte of version, then MessagePack.
//!
//! A client asks on the subject `kumiki.place.PLACE`, or `kumiki.place.PLACE.LIFE` where one life of the place is
//! meant, one [`Request`] a message, and gets one [`Reply`]. Structures are arrays, and what program parts take and give is named fields, so
//! that a person's JSON says the same.
#![cfg_attr(not(test), warn(clippy::unwrap_used, clippy::expect_used))]

#[doc(hidden)]
pub mod batch;
#[doc(hidden)]
pub mod beat;
#[doc(hidden)]
pub mod busy;
pub mod chain;
#[doc(hidden)]
pub mod changes;
#[doc(hidden)]
pub mod host;
#[doc(hidden)]
pub mod json;
#[doc(hidden)]
pub mod lane;
#[doc(hidden)]
pub mod scalar;
#[doc(hidden)]
pub mod secret;

use std::fmt;

use bytes::Bytes;
use kumiki_resource::Listed;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::error::Error;
pub use crate::refused::Why;
use crate::wire::chain::StepCall;

/// The version of these messages.
pub const VERSION: u8 = 3;

/// Operations of one request, at most, a batch's calls included.
pub const MOST_OPERATIONS: usize = 4096;

/// Bytes of a batch's call.
#[doc(hidden)]
pub const CALL: usize = 17;

/// Prefix of a place's name in its subject.
#[doc(hidden)]
pub const SUBJECT: &str = "kumiki.place.";

/// Open ranges of one request, at most ([`Request::open`]).
pub const MOST_OPEN: usize = 64;

/// Subject of one life of a place.
#[doc(hidden)]
pub fn subject_of(place: &str, life: u64) -> String {
    format!("{SUBJECT}{place}.{life:016x}")
}

/// The service's name by NATS' service protocol.
#[doc(hidden)]
pub const SERVICE: &str = "kumiki";

/// A client's request of one place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the place's life that the client knows; 0 asks whichever there is.
    pub life: u64,
    /// The client's lease there; 0 of who has none, and then asks only what has no effect.
    pub lease: u64,
    /// The secret that the client chose for the lease.
    pub key: u64,
    /// The client has seen all answers before this serial, but those of `open`: their records may go.
    pub first: u64,
    /// Ranges of serials before `first` whose answers it has not seen, first and count, in their order; at most
    /// [`MOST_OPEN`]. So one call that takes long does not have all later answers kept.
    pub open: Vec<(u64, u64)>,
    /// Serial of the first operation. Those of the others stand beside them.
    pub operations: Vec<(u64, Operation)>,
}

/// A [`Request`] as its client writes it, with what it keeps to send it again.
#[derive(Debug, Serialize)]
#[doc(hidden)]
pub struct Asked<'a> {
    pub life: u64,
    pub lease: u64,
    pub key: u64,
    pub first: u64,
    pub open: Vec<(u64, u64)>,
    pub operations: &'a [(u64, Operation)],
}

/// One operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Operation {
    /// Asks for a lease; answers [`Granted`].
    Hello {
        /// A secret for it.
        key: u64,
        /// The client, for who looks.
        client: String,
    },
    /// Makes a resource; answers its id as a number.
    Create {
        /// Name of the kind.
        kind: String,
        /// The kind's version that the client knows.
        version: u32,
        /// Its name, or none.
        unique: Option<String>,
        /// The kind's wishes, in MessagePack.
        spec: Bytes,
    },
    /// Runs a program part; answers what it gives.
    Call {
        /// Number of the resource.
        id: u64,
        /// Kind of the resource.
        kind: String,
        /// Name of the part of that kind.
        part: String,
        /// The part's version that the client knows.
        version: u32,
        /// Input of the part, in MessagePack.
        input: Bytes,
    },
    /// Runs a program part on many resources, each with an input of one word; answers each one's.
    Each {
        /// Kind of the resources.
        kind: String,
        /// Name of the part of that kind.
        part: String,
        /// The part's version that the client knows.
        version: u32,
        /// 17 bytes a call: the input's form, the resource's id and the word, both little-endian.
        calls: Bytes,
    },
    /// Runs program parts one after the other, each with what the one before has given, as far as the place will; answers a
    /// [`ChainReply`](chain::ChainReply).
    Chain {
        /// The steps, the first of them the place's own.
        steps: Vec<StepCall>,
        /// Input of the first one, in MessagePack.
        input: Bytes,
    },
    /// Destroys a resource.
    Destroy {
        /// Number of the resource.
        id: u64,
        /// Kind of the resource.
        kind: String,
    },
    /// Asks for the id of a name, as a number.
    Open {
        /// The kind.
        kind: String,
        /// The name's last part.
        unique: String,
    },
    /// Asks for the resources whose names match, in the order of their names; answers a [`Page`].
    List {
        /// The pattern, of whole names.
        pattern: String,
        /// Lists those behind this name and id, the last of the page before.
        after: Option<(String, u64)>,
    },
    /// Asks for the kinds and program parts, as [`Offer`]s.
    Offers,
    /// Asks that changes of names be told for a while, at a subject of their own.
    Watch,
    /// Asks for the share of its time for which the place answered requests lately, in thousandths.
    Load,
    /// Asks for how long the place has served in this life, ms.
    Age,
    /// A step of a move to another folder.
    Leave {
        /// Number of the move, which its taker has drawn.
        ticket: u64,
        /// The step.
        step: LeaveStep,
    },
    /// Asks for a connection of its own, beside the NATS server; answers a [`DirectOffer`].
    Direct,
}

/// A step of a place that moves to another folder, asked for by who takes it. Each may be repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaveStep {
    /// Gives the files with their flushed bytes; the place serves on.
    Files,
    /// Gives so many bytes of a file from byte `at` on.
    Read {
        /// The file.
        file: String,
        /// Offset.
        at: u64,
        /// Bytes, at most.
        bytes: u64,
    },
    /// Has the place answer nobody for a while, and gives the files, to which nothing more is added.
    Freeze,
    /// Ends the place here for good, with a word for a person about where it has gone to; refused where it has not
    /// stood still since.
    Commit {
        /// Folder to which it goes, for a person.
        to: String,
    },
    /// Has the place go on.
    GiveUp,
}

impl Operation {
    /// True if it changes something, so that it must not run twice.
    #[doc(hidden)]
    pub fn has_effect(&self) -> bool {
        matches!(
            self,
            Operation::Create { .. }
                | Operation::Call { .. }
                | Operation::Each { .. }
                | Operation::Chain { .. }
                | Operation::Destroy { .. }
        )
    }

    /// True if the place ends by it: it has no lease, and may be repeated, but is no mere question.
    #[doc(hidden)]
    pub fn ends_place(&self) -> bool {
        matches!(self, Operation::Leave { step: LeaveStep::Commit { .. }, .. })
    }

    /// Calls of a batch; none of what is not one.
    #[doc(hidden)]
    pub fn calls(&self) -> usize {
        match self {
            Operation::Each { calls, .. } => calls.len() / CALL,
            _ => 0,
        }
    }

    /// Calls of any kind.
    #[doc(hidden)]
    pub fn runs(&self) -> usize {
        match self {
            Operation::Chain { steps, .. } => steps.len().max(1),
            other => other.calls().max(1),
        }
    }

    /// The number of serials that it takes: one, and one for each call of a batch.
    #[doc(hidden)]
    pub fn serials(&self) -> usize {
        1 + self.calls()
    }
}

/// A lease granted.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Granted {
    /// Number of the place's life.
    pub life: u64,
    /// The lease.
    pub lease: u64,
    /// Time that it holds after the last request, ms.
    pub holds_ms: u64,
    /// True if the place keeps it, with its answers, when its process ends and another one serves it again.
    pub durable: bool,
}

/// Address at which a place listens to a client that has asked by NATS, and how they know each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectOffer {
    /// Address and port.
    pub address: String,
    /// Public half of the place's key, a SubjectPublicKeyInfo.
    pub key: Bytes,
    /// Lets one connection in, once.
    pub token: Bytes,
    /// Time for which the connection holds after a token, ms.
    pub holds_ms: u64,
    /// Bytes of a message, at most.
    pub most: u64,
}

/// Files of a place that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeaveFiles {
    /// Names, the oldest first, and their flushed bytes.
    pub files: Vec<(String, u64)>,
}

/// Resources of a place, as many as one reply has room for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page {
    /// The resources.
    pub listed: Vec<Listed>,
    /// True if there are more behind them.
    pub more: bool,
}

/// The last of what is listed, behind which the next page begins.
#[doc(hidden)]
pub fn behind(all: &[Listed]) -> Option<(String, u64)> {
    all.last().map(|last| (last.name.clone(), last.id.to_u64()))
}

/// Adds a page's resources; whether there is a further one. A place that gives none, or the same again, would be
/// asked for ever.
#[doc(hidden)]
pub fn extend(all: &mut Vec<Listed>, page: Page, place: &str) -> Result<bool, Error> {
    let Page { listed, more } = page;
    let behind = behind(all);
    all.extend(listed);
    let goes_on = behind.is_none_or(|former| self::behind(all).is_some_and(|last| last > former));
    if more && (!goes_on || all.is_empty()) {
        let why = "a page of it does not follow the one before".to_owned();
        return Err(Error::Value { what: format!("the listing of {place}"), why });
    }
    Ok(more)
}

/// A kind or a program part that a place has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// The kind.
    pub kind: String,
    /// The part; none of the kind itself.
    pub part: Option<String>,
    /// Its version.
    pub version: u32,
    /// True if the place's allow-list lets it be asked for.
    pub allowed: bool,
}

/// A place's answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Number of the place's life.
    pub life: u64,
    /// One each operation, in their order.
    pub answers: Vec<Outcome>,
}

/// Answer of one operation, or why there is none.
pub type Outcome = Result<Bytes, Refusal>;

/// Refusal of an operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    /// Its kind as a number: others than [`Why`] knows may come from later versions.
    pub why: u16,
    /// A sentence for people.
    pub text: String,
}

impl Refusal {
    #[doc(hidden)]
    pub fn new(why: Why, text: impl Into<String>) -> Refusal {
        Refusal { why: why as u16, text: text.into() }
    }
}

/// Encodes a value as MessagePack, with names of fields, so that it says what JSON would.
#[doc(hidden)]
pub fn named<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, rmp_serde::encode::Error> {
    rmp_serde::to_vec_named(value).map(Bytes::from)
}

/// Appends it as MessagePack with names of fields.
#[inline]
#[doc(hidden)]
pub fn named_into<T: Serialize + ?Sized>(
    value: &T,
    to: &mut Vec<u8>,
) -> Result<(), rmp_serde::encode::Error> {
    value.serialize(&mut rmp_serde::Serializer::new(to).with_struct_map())
}

/// Reads a value from MessagePack.
#[doc(hidden)]
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Unread> {
    rmp_serde::from_slice(bytes).map_err(Unread)
}

/// Bytes that are not the value that they should be; shown, it says for people why.
#[derive(Debug)]
#[doc(hidden)]
pub struct Unread(pub rmp_serde::decode::Error);

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&why(&self.0))
    }
}

fn why(error: &rmp_serde::decode::Error) -> String {
    use rmp_serde::decode::Error;
    match error {
        Error::TypeMismatch(marker) => {
            format!("{} stands where it takes something else", kind(&format!("{marker:?}")))
        }
        Error::Syntax(text) => text.clone(),
        Error::LengthMismatch(count) => format!("a list or table of another length than {count}"),
        Error::InvalidMarkerRead(_) | Error::InvalidDataRead(_) => "it is cut short".to_owned(),
        other => other.to_string(),
    }
}

/// The kind of a value by its marker's name.
fn kind(marker: &str) -> &'static str {
    let is_of = |names: &[&str]| names.iter().any(|name| marker.starts_with(name));
    match marker {
        "Null" => "null",
        "True" | "False" => "true or false",
        "F32" | "F64" => "a number with a fraction",
        _ if is_of(&["FixStr", "Str"]) => "a text",
        _ if is_of(&["Bin"]) => "bytes",
        _ if is_of(&["FixArray", "Array"]) => "a list",
        _ if is_of(&["FixMap", "Map"]) => "a table",
        _ if is_of(&["FixPos", "FixNeg", "U", "I"]) => "a whole number",
        _ => "something that JSON has not",
    }
}

/// A whole message.
#[doc(hidden)]
pub fn message<T: Serialize>(value: &T) -> Result<Bytes, rmp_serde::encode::Error> {
    let mut bytes = vec![VERSION];
    rmp_serde::encode::write(&mut bytes, value)?;
    Ok(bytes.into())
}

/// Reads a whole message of another party.
///
/// # Errors
/// A sentence that says why it is none.
pub fn parse<T: DeserializeOwned>(message: &[u8]) -> Result<T, String> {
    match message {
        [] => Err("the message is empty".to_owned()),
        [VERSION, body @ ..] => {
            read(body).map_err(|error| format!("the message cannot be read: {error}"))
        }
        [other, ..] => Err(format!(
            "the message is of version {other}, and only {VERSION} is known here: use a Kumiki \
             of the same version on both sides"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_comes_back() {
        let call = Operation::Call {
            id: 7,
            kind: "counter".to_owned(),
            part: "add".to_owned(),
            version: 1,
            input: named(&5_i64).unwrap(),
        };
        let operations = vec![(9, Operation::Offers), (10, call)];
        let request = Request { life: 1, lease: 2, key: 3, first: 4, open: vec![], operations };
        let bytes = message(&request).unwrap();
        assert_eq!(parse::<Request>(&bytes).unwrap(), request);
        let Request { life, lease, key, first, open, operations } = &request;
        let (life, lease, key, first, open) = (*life, *lease, *key, *first, open.clone());
        let asked = Asked { life, lease, key, first, open, operations };
        assert_eq!(message(&asked).unwrap(), bytes);
    }

    #[test]
    fn a_cut_message_and_one_of_the_future_are_refused() {
        let request =
            Request { life: 1, lease: 2, key: 3, first: 4, open: vec![], operations: vec![] };
        let bytes = message(&request).unwrap();
        for cut in 0..bytes.len() {
            parse::<Request>(&bytes[..cut]).unwrap_err();
        }
        let mut later = bytes.to_vec();
        later[0] = VERSION + 1;
        assert!(
            parse::<Request>(&later).unwrap_err().contains(&format!("of version {}", VERSION + 1))
        );
    }

    #[test]
    fn what_stands_where_it_should_not_is_said_in_words() {
        let said = |value: &[u8]| read::<i64>(value).unwrap_err().to_string();
        for (value, kind) in [
            (named("text").unwrap(), "a text"),
            (named(&[1, 2]).unwrap(), "a list"),
            (Bytes::from_static(&[0xc4, 0]), "bytes"),
        ] {
            let said = said(&value);
            assert!(!said.contains("marker") && said.starts_with(kind), "{said}");
        }
        assert_eq!(said(&[0xd3, 1]), "it is cut short");
    }

    #[test]
    fn a_refusal_of_a_later_version_is_other() {
        assert_eq!(Why::from(Why::Taken as u16), Why::Taken);
        assert_eq!(Why::from(60_000), Why::Other);
    }
}
