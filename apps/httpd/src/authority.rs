//! Whose a request is: `host:port`, of `Host` and of a target that is a whole URI.

/// True if it is a host, with a port or without (RFC 3986, sections 3.2.2 and 3.2.3). A user before
/// it is none of ours (RFC 9110, section 4.2.4), and no host is an error (section 4.2.1).
pub(crate) fn is_authority(authority: &[u8]) -> bool {
    let (is_host, rest) = match authority.strip_prefix(b"[") {
        Some(literal) => {
            let end = literal.iter().position(|byte| *byte == b']').unwrap_or(literal.len());
            let (address, rest) = literal.split_at(end);
            (is_address(address), rest.strip_prefix(b"]").unwrap_or(b"?"))
        }
        None => {
            let end = authority.iter().position(|byte| *byte == b':').unwrap_or(authority.len());
            let (name, rest) = authority.split_at(end);
            (!name.is_empty() && name.iter().all(is_of_name), rest)
        }
    };
    let is_port = rest.is_empty()
        || rest.strip_prefix(b":").is_some_and(|port| port.iter().all(u8::is_ascii_digit));
    is_host && is_port
}

/// Letters of a registered name. A comma is one, too, but two lines that somebody has joined have
/// it as well.
fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(byte)
}

/// An IPv6 address, or one of a later kind.
fn is_address(literal: &[u8]) -> bool {
    let of_later = literal.first().is_some_and(|byte| byte.eq_ignore_ascii_case(&b'v'));
    let text = std::str::from_utf8(literal).unwrap_or_default();
    text.parse::<std::net::Ipv6Addr>().is_ok()
        || of_later && literal.iter().all(|byte| is_of_name(byte) || *byte == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_told_from_what_is_none() {
        for authority in
            ["a", "a.b-c:80", "127.0.0.1:8080", "[::1]", "[::1]:80", "a:", "xn--4ca_", "[v1.a:b]"]
        {
            assert!(is_authority(authority.as_bytes()), "{authority}");
        }
        for authority in [
            "", ":80", "a b", "u@a", "a,b", "a/b", "a?b", "a#b", "a\\b", "a:x", "a:1:2", "[::1",
            "[a]", "[]", "[::1]x", "[::1]]", "ä",
        ] {
            assert!(!is_authority(authority.as_bytes()), "{authority}");
        }
    }
}
