//! An error, as a person or a script reads it.

use std::io::{self, Write};

use anyhow::{Error, Result, bail};
use kumiki_sys::sentence::with_causes;
use serde::Serialize;

use crate::output;

/// Form of errors: nothing or `text` for people, `json` for scripts.
const FORM: &str = "KUMIKI_ERRORS";

/// An error as one line of JSON.
#[derive(Serialize)]
struct Failure<'a> {
    error: &'a str,
    /// Kind of the error and the thing that it is about, where it is of nodes and known.
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<kumiki_node::ErrorKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    about: Option<kumiki_node::Subject>,
}

/// Refuses a form that there is not.
pub(crate) fn check_form() -> Result<()> {
    match std::env::var_os(FORM) {
        Some(form) if form != "json" && form != "text" => {
            bail!("{FORM}={} is no form of errors: json or text", form.display())
        }
        _ => Ok(()),
    }
}

/// Says it on standard error.
pub(crate) fn tell(error: &Error) {
    let text = with_causes(error.as_ref());
    if std::env::var_os(FORM).is_none_or(|form| form != "json") {
        return output::talk(text);
    }
    let _ = writeln!(io::stderr(), "{}", json(error, &text));
}

fn json(error: &Error, text: &str) -> String {
    let of_nodes = error.downcast_ref::<kumiki_node::Error>();
    let failure = Failure {
        error: text,
        kind: of_nodes.map(kumiki_node::Error::kind),
        about: of_nodes.and_then(kumiki_node::Error::subject),
    };
    serde_json::to_string(&failure).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use kumiki_node::{Error, ErrorKind, Subject};

    use super::*;

    #[test]
    fn a_script_reads_what_failed_and_on_which_thing() {
        let error = Error::refused(ErrorKind::NotFound, Subject::node("n9"), "there is no node n9");
        let error = anyhow::Error::from(error).context("starting");
        assert_eq!(
            json(&error, "starting: there is no node n9"),
            r#"{"error":"starting: there is no node n9","kind":"NotFound","about":{"node":"n9"}}"#
        );
        let other = anyhow::Error::msg("no \"such\" case");
        assert_eq!(json(&other, "no \"such\" case"), r#"{"error":"no \"such\" case"}"#);
    }
}
