//! Content codings: which a client takes, and which a file may be there in.

/// A coding, by the ending of files in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Brotli,
    Zstd,
    Gzip,
}

impl Encoding {
    /// The best first.
    pub(crate) const ALL: [Encoding; 3] = [Encoding::Brotli, Encoding::Zstd, Encoding::Gzip];

    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Encoding::Brotli => ".br",
            Encoding::Zstd => ".zst",
            Encoding::Gzip => ".gz",
        }
    }

    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Encoding::Brotli => "br",
            Encoding::Zstd => "zstd",
            Encoding::Gzip => "gzip",
        }
    }

    /// True if a client that sends this `Accept-Encoding` takes it: it is named there with another
    /// weight than 0. A `*` is not taken to mean it.
    pub(crate) fn is_taken_by(self, accepted: &[u8]) -> bool {
        let mut items = accepted.split(|byte| *byte == b',');
        items.any(|item| {
            let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let named =
                parts.next().is_some_and(|name| name.eq_ignore_ascii_case(self.name().as_bytes()));
            named && !parts.any(is_no_weight)
        })
    }
}

/// `q=0`, `q=0.0` and so on.
fn is_no_weight(parameter: &[u8]) -> bool {
    let Some(weight) = parameter.strip_prefix(b"q=").or_else(|| parameter.strip_prefix(b"Q="))
    else {
        return false;
    };
    weight.first() == Some(&b'0') && weight.iter().all(|byte| matches!(byte, b'0' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_coding_is_taken_if_it_is_named_with_a_weight() {
        let takes = |accepted: &str| Encoding::Gzip.is_taken_by(accepted.as_bytes());
        for accepted in ["gzip", "br, gzip", "GZIP;q=0.5", "deflate , gzip;q=1", "gzip;q=0.001"] {
            assert!(takes(accepted), "{accepted}");
        }
        for accepted in ["", "br", "gzip;q=0", "gzip; q=0.000", "xgzip", "*", "gzipped"] {
            assert!(!takes(accepted), "{accepted}");
        }
    }
}
