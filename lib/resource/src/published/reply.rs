//! What a process answers: a listing, or why there is none. The bytes are another party's:
//! they are bounded, and nothing in them is believed to be what ours would write.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::list::Listed;
use crate::name::plain;

/// The longest answer, bytes: some hundred thousand resources.
pub const MOST_BYTES: usize = 32 << 20;
/// The longest text of a refusal that is repeated, characters.
const REFUSAL: usize = 400;

/// A client's reply.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Reply {
    Listing(Vec<Listed>),
    Refusal { error: String },
}

#[derive(Deserialize)]
struct Refusal {
    error: String,
}

impl Reply {
    pub(super) fn of(listing: Result<Vec<Listed>>) -> Reply {
        match listing {
            Ok(listing) => Reply::Listing(listing),
            Err(error) => Reply::Refusal { error: error.to_string() },
        }
    }

    /// Text that is sent.
    pub(super) fn text(&self) -> serde_json::Result<String> {
        self.text_within(MOST_BYTES)
    }

    fn text_within(&self, most: usize) -> serde_json::Result<String> {
        let text = serde_json::to_string(self)?;
        if text.len() <= most {
            return Ok(text);
        }
        let error = format!(
            "a listing of {} bytes, of {most} at most: ask with a pattern that matches less",
            text.len()
        );
        serde_json::to_string(&Reply::Refusal { error })
    }
}

/// The listing in what `process` has answered.
///
/// # Errors
/// [`Error::Refused`] with the process's words; [`Error::Forged`] if it is no listing:
/// malformed, longer than [`MOST_BYTES`], or with a name that no resource can have.
pub fn parse(process: u32, bytes: &[u8]) -> Result<Vec<Listed>> {
    let forged = |why: &str| Error::Forged { process, why: plain(why, REFUSAL) };
    if bytes.len() > MOST_BYTES {
        return Err(forged(&format!("it has more than {MOST_BYTES} bytes")));
    }
    // By the first byte. Tried one after the other, each would be kept in memory in a form
    // that takes ten times its bytes.
    let malformed = |error: serde_json::Error| forged(&error.to_string());
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        None => Err(forged("it is empty")),
        Some(b'{') => {
            let Refusal { error } = serde_json::from_slice(bytes).map_err(malformed)?;
            Err(Error::Refused { process, error: plain(&error, REFUSAL) })
        }
        Some(_) => serde_json::from_slice(bytes).map_err(malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::id::{Id, KindId, Place, Serial};
    use crate::kind::About;
    use crate::name::Name;

    fn listed(name: &str, owner: &str, state: &str) -> Listed {
        let id = Id::new(Place(1), KindId(2), Serial { index: 3, usage: 4 });
        let about = About { state: state.to_owned(), bytes: u64::MAX };
        let (name, owner) = (name.to_owned(), owner.to_owned());
        Listed { name, id, named: true, owner, calls: u64::MAX, about }
    }

    fn sent(listing: Vec<Listed>) -> Vec<u8> {
        Reply::Listing(listing).text().unwrap().into_bytes()
    }

    /// Nothing of a listing that was accepted is structure, or a terminal's business.
    fn holds(listing: &[Listed]) {
        for Listed { name, owner, about, .. } in listing {
            assert_eq!(name.parse::<Name>().unwrap().to_string(), *name);
            for text in [name, owner, &about.state] {
                assert!(!text.chars().any(char::is_control), "{text:?}");
                assert!(text.len() <= 1000, "{}", text.len());
            }
        }
    }

    #[test]
    fn what_ours_send_arrives() {
        let listing = vec![listed("core1/memory/a", "core1", "4 frames")];
        assert_eq!(parse(1, &sent(listing.clone())).unwrap(), listing);
        assert_eq!(parse(1, &sent(Vec::new())).unwrap(), []);
    }

    #[test]
    fn names_that_no_resource_can_have_are_refused() {
        let long = format!("core0/memory/{}", "a".repeat(201));
        for name in ["core0/memory/a\n9 forged", "core0/memory/\x1b[2J", "alone", "", &long] {
            let error = parse(7, &sent(vec![listed(name, "core0", "idle")])).unwrap_err();
            assert!(matches!(error, Error::Forged { process: 7, .. }), "{error}");
            let text = error.to_string();
            assert!(!text.chars().any(char::is_control) && text.len() < 1000, "{text}");
        }
    }

    #[test]
    fn other_texts_lose_what_terminals_obey() {
        let listing = parse(1, &sent(vec![listed("a/b/c", "x\x1b[31m", &"y\n".repeat(1000))]));
        let listing = listing.unwrap();
        holds(&listing);
        assert_eq!(listing[0].owner, "x\u{fffd}[31m");
        let refusal = Reply::Refusal { error: "no\r\x1b]0;title\x07".repeat(1000) };
        let error = parse(1, refusal.text().unwrap().as_bytes()).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, Error::Refused { .. }), "{text}");
        assert!(!text.chars().any(char::is_control) && text.len() < 2000, "{text}");
    }

    #[test]
    fn a_listing_that_is_too_long_is_a_refusal() {
        let reply = Reply::Listing(vec![listed("a/b/c", "d", "e"); 10]);
        let error = parse(1, reply.text_within(500).unwrap().as_bytes()).unwrap_err();
        assert!(error.to_string().contains("matches less"), "{error}");
        assert!(matches!(parse(1, &vec![b' '; MOST_BYTES + 1]), Err(Error::Forged { .. })));
    }

    #[test]
    fn what_nobody_asked_for_takes_no_memory() {
        // Kept, each of these empty lists would take more than ten times its bytes.
        let of = |more: &str| {
            format!(
                r#"[{{"name":"a/b/c","id":"{}","named":true,"owner":"","calls":0,"state":"","bytes":0,"more":{more}}}]"#,
                listed("a/b/c", "", "").id
            )
        };
        assert_eq!(parse(1, of("[[],[]]").as_bytes()).unwrap().len(), 1);
        // Nor the stack.
        let deep = of(&"[".repeat(1 << 20));
        assert!(matches!(parse(1, deep.as_bytes()), Err(Error::Forged { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_listing_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            parse(1, &bytes).as_deref().map(holds).ok();
        }

        #[test]
        fn any_texts_are_harmless(name in "[a-z]{1,3}/[a-z]{1,3}/\\PC{0,5}|.{0,20}", owner in ".{0,300}", state in "(.|\n|\x1b){0,300}") {
            parse(1, &sent(vec![listed(&name, &owner, &state)])).as_deref().map(holds).ok();
        }

        #[test]
        fn what_is_changed_on_its_way_is_harmless(at in any::<prop::sample::Index>(), byte: u8) {
            let mut bytes = sent(vec![listed("core1/memory/a", "core1", "idle"); 3]);
            let at = at.index(bytes.len());
            bytes[at] = byte;
            parse(1, &bytes).as_deref().map(holds).ok();
        }
    }
}
