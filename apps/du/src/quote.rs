//! Names within messages, quoted as GNU's programs do it: no byte of a name reaches a
//! terminal as a command to it, and what a shell would take apart can be pasted.

use std::sync::LazyLock;

use regex::Regex;

use crate::locale::is_utf8;

/// Characters with a meaning of their own to some shell, wherever they stand.
const SPECIAL: &[u8] = b"!\"$&()*;<=>?[\\^`|";

/// A name for a shell, always in quotes.
pub(crate) fn in_shell(name: &[u8]) -> Vec<u8> {
    in_shell_by(name, is_utf8())
}

/// A name for a shell, in quotes where it needs them or holds a colon: for what stands
/// before one.
pub(crate) fn if_needed(name: &[u8]) -> Vec<u8> {
    let units = units(name, is_utf8());
    let plain = |(at, unit): (usize, &Unit<'_>)| match *unit.bytes {
        [b'{' | b'}'] => name.len() > 1,
        [b'#' | b'~'] => at > 0,
        [b':' | b' ' | b'\''] => false,
        [byte] if SPECIAL.contains(&byte) => false,
        _ => unit.printable,
    };
    if !name.is_empty() && units.iter().enumerate().all(plain) {
        name.to_vec()
    } else {
        in_shell(name)
    }
}

/// A word in the quotation marks of the locale.
pub(crate) fn in_words(word: &[u8]) -> Vec<u8> {
    in_words_by(word, is_utf8())
}

/// A character, or a byte that is none.
struct Unit<'a> {
    bytes: &'a [u8],
    printable: bool,
}

fn units(name: &[u8], utf8: bool) -> Vec<Unit<'_>> {
    let byte = |bytes| Unit { bytes, printable: matches!(bytes, [b' '..=b'~']) };
    if !utf8 {
        return name.chunks(1).map(byte).collect();
    }
    let mut units = Vec::new();
    let mut at = 0;
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            let bytes = &name[at..at + character.len_utf8()];
            units.push(Unit { bytes, printable: is_printable(character) });
            at += bytes.len();
        }
        let invalid = &name[at..at + chunk.invalid().len()];
        units.extend(invalid.chunks(1).map(|bytes| Unit { bytes, printable: false }));
        at += invalid.len();
    }
    units
}

fn is_printable(character: char) -> bool {
    // Controls, what is no character, and what ends a line or a paragraph.
    static UNSEEN: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"[\p{Cc}\p{Cn}\u{2028}\u{2029}]").ok());
    if character.is_ascii() {
        return !character.is_control();
    }
    let mut bytes = [0; 4];
    let text = character.encode_utf8(&mut bytes);
    UNSEEN.as_ref().is_some_and(|unseen| !unseen.is_match(text))
}

/// The letter that stands for a control character behind a backslash.
fn letter(byte: u8) -> Option<u8> {
    Some(match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        _ => return None,
    })
}

fn octal(out: &mut Vec<u8>, byte: u8) {
    out.extend(format!("\\{byte:03o}").bytes());
}

fn in_shell_by(name: &[u8], utf8: bool) -> Vec<u8> {
    let units = units(name, utf8);
    let harmless = |(at, unit): (usize, &Unit<'_>)| match *unit.bytes {
        [b'\'' | b' '] => true,
        [b'#' | b'~'] => at == 0,
        [b'{' | b'}'] => name.len() == 1,
        [byte] if SPECIAL.contains(&byte) => false,
        _ => unit.printable,
    };
    if name.contains(&b'\'') && units.iter().enumerate().all(harmless) {
        return [b"\"", name, b"\""].concat();
    }
    let mut out = b"'".to_vec();
    // Within `$'…'`.
    let mut escaping = false;
    for unit in &units {
        match *unit.bytes {
            [b'\''] => {
                out.extend(br"'\''");
                escaping = false;
            }
            [byte] if letter(byte).is_some() => {
                out.extend(if escaping { &b"\\"[..] } else { br"'$'\" });
                out.extend(letter(byte));
                escaping = true;
            }
            _ if unit.printable => {
                out.extend(if escaping { &b"''"[..] } else { b"" });
                out.extend(unit.bytes);
                escaping = false;
            }
            _ => {
                out.extend(if escaping { &b""[..] } else { b"'$'" });
                unit.bytes.iter().for_each(|&byte| octal(&mut out, byte));
                escaping = true;
            }
        }
    }
    out.push(b'\'');
    out
}

fn in_words_by(word: &[u8], utf8: bool) -> Vec<u8> {
    let (left, right) = if utf8 { ("\u{2018}", "\u{2019}") } else { ("'", "'") };
    let mut out = left.as_bytes().to_vec();
    for unit in units(word, utf8) {
        match unit.bytes {
            [b'\\'] => out.extend(br"\\"),
            &[byte] if letter(byte).is_some() => {
                out.push(b'\\');
                out.extend(letter(byte));
            }
            bytes if bytes == right.as_bytes() => {
                out.push(b'\\');
                out.extend(bytes);
            }
            bytes if unit.printable => out.extend(bytes),
            bytes => bytes.iter().for_each(|&byte| octal(&mut out, byte)),
        }
    }
    out.extend(right.bytes());
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, expected) in [
            (&b"a b"[..], &b"'a b'"[..]),
            (b"", b"''"),
            (b"no\nname", br"'no'$'\n''name'"),
            (b"\n\x01", br"''$'\n\001'"),
            (b"it's", b"\"it's\""),
            (b"it's$", br"'it'\''s$'"),
            (b"\\", br"'\'"),
            (b"\xff'\t", br"''$'\377'\'''$'\t'"),
            ("\u{e9}".as_bytes(), "'\u{e9}'".as_bytes()),
            (b"\xc2\x80", br"''$'\302\200'"),
        ] {
            let quoted = in_shell_by(name, true);
            assert_eq!(quoted, expected, "{}", quoted.escape_ascii());
        }
        assert_eq!(in_shell_by("\u{e9}".as_bytes(), false), br"''$'\303\251'");
    }

    #[test]
    fn words() {
        assert_eq!(in_words_by(b"a'\\\n\x01\xff", false), br"'a\'\\\n\001\377'");
        assert_eq!(in_words_by(b"a'", true), "\u{2018}a'\u{2019}".as_bytes());
    }

    #[test]
    fn quotes_only_where_needed() {
        for plain in ["abc", "-", "a.b/c", "a#", "{}", "a~@"] {
            assert_eq!(if_needed(plain.as_bytes()), plain.as_bytes());
        }
        for odd in ["", "a b", "#", "{", "a:b", "a*", "a\\", "a\n", "$"] {
            assert_ne!(if_needed(odd.as_bytes()), odd.as_bytes(), "{odd}");
        }
    }
}
