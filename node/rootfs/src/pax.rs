//! Records of extended headers (POSIX `pax`, "pax Extended Header"): what does not fit a member's
//! own header.

use std::collections::BTreeMap;

use crate::error::Fault;

/// Length of all records of one header: what Go's `archive/tar` takes, too.
pub(crate) const RECORDS_BYTES: u64 = 1 << 20;
/// Prefix of an extended attribute's name, as tar programs have it.
const ATTRIBUTE: &[u8] = b"SCHILY.xattr.";
/// Prefix of an attribute that bsdtar writes once more.
const ATTRIBUTE_AGAIN: &[u8] = b"LIBARCHIVE.xattr.";
/// The attribute of this name, as `tar --selinux` has it.
const SELINUX: (&[u8], &[u8]) = (b"RHT.security.selinux", b"security.selinux");
const SPARSE: &[u8] = b"GNU.sparse.";
/// Words for names that are bytes as they are.
const CHARSETS: [&[u8]; 2] = [b"BINARY", b"ISO-IR 10646 2000 UTF-8"];
const NANOSECONDS: u32 = 1_000_000_000;

/// A point in time: seconds since 1970, and a part of a second after them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) seconds: i64,
    pub(crate) nanoseconds: u32,
}

/// Records that stand before a member.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) linked: Option<Vec<u8>>,
    pub(crate) size: Option<u64>,
    pub(crate) user: Option<i64>,
    pub(crate) group: Option<i64>,
    pub(crate) modified: Option<Time>,
    pub(crate) attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(crate) sparse: Sparse,
    /// Attributes that stood there in a form that is not read.
    again: Vec<Vec<u8>>,
}

/// Records of a file with holes, in GNU's formats 0.0, 0.1 and 1.0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    pub(crate) name: Option<Vec<u8>>,
    /// Size of the whole file.
    pub(crate) size: Option<u64>,
    pub(crate) version: (Option<u64>, Option<u64>),
    pub(crate) count: Option<u64>,
    /// Offsets and lengths in turn.
    pub(crate) map: Option<Vec<u64>>,
}

impl Records {
    /// Takes the records of a header that stands before one member.
    pub(crate) fn read(bytes: &[u8], global: &Records) -> Result<Self, Fault> {
        let mut records = Records {
            user: global.user,
            group: global.group,
            modified: global.modified,
            ..Records::default()
        };
        each(bytes, |key, value| records.take(key, value))?;
        let again = records.again.iter().find(|name| !records.attributes.contains_key(*name));
        match again {
            None => Ok(records),
            Some(name) => Err(format!(
                "its attribute {} in libarchive's own form alone: make the archive with `bsdtar \
                 --options xattrheader=SCHILY`",
                String::from_utf8_lossy(name)
            )),
        }
    }

    /// Takes the records of a header for all members that follow.
    pub(crate) fn read_global(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let mut have = Records::default();
        each(bytes, |key, value| match key {
            b"uid" | b"gid" | b"mtime" => have.take(key, value),
            b"path" | b"linkpath" | b"size" => Err(of_one(key)),
            _ if [ATTRIBUTE, ATTRIBUTE_AGAIN, SPARSE].iter().any(|of| key.starts_with(of)) => {
                Err(of_one(key))
            }
            _ => have.take(key, value),
        })?;
        self.user = have.user.or(self.user);
        self.group = have.group.or(self.group);
        self.modified = have.modified.or(self.modified);
        Ok(())
    }

    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), Fault> {
        // Without a value, what an earlier record said is forgotten.
        let some = (!value.is_empty()).then_some(value);
        match key {
            b"path" => self.path = some.map(<[u8]>::to_vec),
            b"linkpath" => self.linked = some.map(<[u8]>::to_vec),
            b"size" => self.size = some.map(|text| number(key, text)).transpose()?,
            b"uid" => self.user = some.map(|text| signed(key, text)).transpose()?,
            b"gid" => self.group = some.map(|text| signed(key, text)).transpose()?,
            b"mtime" => self.modified = some.map(time).transpose()?,
            b"hdrcharset" if some.is_some_and(|charset| !CHARSETS.contains(&charset)) => {
                let charset = String::from_utf8_lossy(value);
                return Err(format!("names in {charset}: UTF-8, or bytes, are expected"));
            }
            _ if key == SELINUX.0 => {
                self.attributes.insert(SELINUX.1.to_vec(), value.to_vec());
            }
            b"SCHILY.acl.access" | b"SCHILY.acl.default" => return plain_acl(value),
            b"SCHILY.realsize" => return Err("a file with holes as star has them".to_owned()),
            b"SUN.holesdata" => return Err("a file with holes as Solaris has them".to_owned()),
            _ => {
                if let Some(name) = key.strip_prefix(ATTRIBUTE) {
                    self.attributes.insert(name.to_vec(), value.to_vec());
                } else if let Some(name) = key.strip_prefix(ATTRIBUTE_AGAIN) {
                    self.again.push(unquoted(name));
                } else if let Some(what) = key.strip_prefix(SPARSE) {
                    self.sparse.take(what, value)?;
                }
            }
        }
        Ok(())
    }
}

impl Sparse {
    fn take(&mut self, what: &[u8], value: &[u8]) -> Result<(), Fault> {
        let one = || number(what, value);
        match what {
            b"name" => self.name = Some(value.to_vec()),
            b"size" | b"realsize" => self.size = Some(one()?),
            b"major" => self.version.0 = Some(one()?),
            b"minor" => self.version.1 = Some(one()?),
            b"numblocks" => self.count = Some(one()?),
            // In 0.0 each is a record of its own.
            b"offset" | b"numbytes" => {
                let map = self.map.get_or_insert_default();
                let is_offset = map.len().is_multiple_of(2);
                if is_offset != (what == b"offset") {
                    return Err("a map of holes whose offsets and lengths do not take turns".into());
                }
                map.push(one()?);
            }
            b"map" => {
                let numbers = value.split(|&byte| byte == b',');
                let numbers = numbers.filter(|text| !value.is_empty() || !text.is_empty());
                self.map = Some(numbers.map(|text| number(what, text)).collect::<Result<_, _>>()?);
            }
            other => {
                let other = String::from_utf8_lossy(other);
                return Err(format!("a record GNU.sparse.{other}, which is of no known format"));
            }
        }
        Ok(())
    }
}

/// Checks that an access control list says no more than permissions do, which are there, too.
fn plain_acl(list: &[u8]) -> Result<(), Fault> {
    let plain = |entry: &[u8]| {
        let entry = entry.trim_ascii();
        let who = [&b"user::"[..], b"group::", b"other::"];
        entry.is_empty() || who.iter().any(|who| entry.starts_with(who))
    };
    match list.split(|byte| matches!(byte, b',' | b'\n')).find(|entry| !plain(entry)) {
        None => Ok(()),
        Some(entry) => Err(format!(
            "its access control list ({}) in the form of tar programs: make the archive with \
             --no-acls, or with the attribute system.posix_acl_access",
            String::from_utf8_lossy(entry).trim()
        )),
    }
}

fn of_one(key: &[u8]) -> Fault {
    let key = String::from_utf8_lossy(key);
    format!("a header for all files that follow says {key}, which is one file's own")
}

/// Hands each record on: `LENGTH KEY=VALUE` and the end of a line, all of it LENGTH bytes.
fn each(
    mut bytes: &[u8],
    mut take: impl FnMut(&[u8], &[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let damaged = || "an extended header that is damaged".to_owned();
    while !bytes.is_empty() {
        let space = bytes.iter().take(20).position(|&byte| byte == b' ').ok_or_else(damaged)?;
        let length = decimal(&bytes[..space]).and_then(|length| usize::try_from(length).ok());
        let (record, rest) =
            length.and_then(|length| bytes.split_at_checked(length)).ok_or_else(damaged)?;
        let record = record.get(space + 1..).and_then(|record| record.strip_suffix(b"\n"));
        let record = record.ok_or_else(damaged)?;
        let equals = record.iter().position(|&byte| byte == b'=').ok_or_else(damaged)?;
        take(&record[..equals], &record[equals + 1..])?;
        bytes = rest;
    }
    Ok(())
}

/// Digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(text).ok()?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| is_number)
}

fn number(key: &[u8], text: &[u8]) -> Result<u64, Fault> {
    decimal(text).ok_or_else(|| {
        let (key, text) = (String::from_utf8_lossy(key), String::from_utf8_lossy(text));
        format!("{key} {text:?}: a number is expected")
    })
}

/// An owner; a negative one is refused with its value.
fn signed(key: &[u8], text: &[u8]) -> Result<i64, Fault> {
    let (negative, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let value = number(key, digits)?;
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    Ok(if negative { -value } else { value })
}

/// Seconds and parts of one, cut to nanoseconds towards the past, as GNU tar does.
fn time(text: &[u8]) -> Result<Time, Fault> {
    let wrong = || format!("mtime {:?}: a time is expected", String::from_utf8_lossy(text));
    let (negative, rest) = match text.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut halves = rest.splitn(2, |&byte| byte == b'.');
    let whole = halves.next().and_then(decimal).ok_or_else(wrong)?;
    let whole = i64::try_from(whole).map_err(|_| wrong())?;
    let part = halves.next().unwrap_or_default();
    if !part.iter().all(u8::is_ascii_digit) {
        return Err(wrong());
    }
    let (counted, cut) = part.split_at(part.len().min(9));
    let digits = counted.iter().chain(std::iter::repeat(&b'0')).take(9);
    let nanoseconds = digits.fold(0, |value, digit| value * 10 + u32::from(digit - b'0'));
    if !negative {
        return Ok(Time { seconds: whole, nanoseconds });
    }
    let nanoseconds = nanoseconds + u32::from(cut.iter().any(|&digit| digit != b'0'));
    Ok(match nanoseconds {
        0 => Time { seconds: -whole, nanoseconds: 0 },
        _ => Time { seconds: -whole - 1, nanoseconds: NANOSECONDS - nanoseconds },
    })
}

/// A name in which what is not plain stands as in an address of the web.
fn unquoted(name: &[u8]) -> Vec<u8> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let Some((&first, after)) = rest.split_first() {
        let quoted = match after {
            [high, low, ..] if first == b'%' => digit(high).zip(digit(low)),
            _ => None,
        };
        (rest, _) = match quoted {
            Some((high, low)) => (&after[2..], plain.push(high << 4 | low)),
            None => (after, plain.push(first)),
        };
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let rest = [b" ", key.as_bytes(), b"=", value, b"\n"].concat();
        let mut length = rest.len() + 1;
        while length != rest.len() + length.to_string().len() {
            length += 1;
        }
        [length.to_string().as_bytes(), &rest].concat()
    }

    fn read(key: &str, value: &[u8]) -> Result<Records, Fault> {
        Records::read(&record(key, value), &Records::default())
    }

    #[test]
    fn a_record_has_the_length_that_it_says() {
        let two = [record("path", b"a\nb=c"), record("SCHILY.xattr.user.x", b"\0\n")].concat();
        let records = Records::read(&two, &Records::default()).unwrap();
        assert_eq!(records.path.unwrap(), b"a\nb=c");
        assert_eq!(records.attributes[&b"user.x"[..]], b"\0\n");
        for damaged in
            [&b"9 path=ab\n"[..], b"99 path=a\n", b"path=a\n", b"10 path=ab", b"0 a=b\n", b" "]
        {
            let fault = Records::read(damaged, &Records::default()).unwrap_err();
            assert!(fault.contains("damaged"), "{fault}");
        }
    }

    #[test]
    fn a_time_is_cut_towards_the_past() {
        let at = |text: &str| read("mtime", text.as_bytes()).unwrap().modified.unwrap();
        let time = |seconds, nanoseconds| Time { seconds, nanoseconds };
        assert_eq!(at("1.5"), time(1, 500_000_000));
        assert_eq!(at("12"), time(12, 0));
        assert_eq!(at("-1.25"), time(-2, 750_000_000));
        assert_eq!(at("-3"), time(-3, 0));
        assert_eq!(at("-1.10000000000001"), time(-2, 899_999_999));
        assert_eq!(at("0.0000000009"), time(0, 0));
        for wrong in ["x", "1e9", "1.-1", "+1", "99999999999999999999", "-"] {
            assert!(read("mtime", wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_understood_and_would_change_a_file_is_refused() {
        for (key, value, says) in [
            ("SUN.holesdata", "1", "Solaris"),
            ("SCHILY.acl.access", "user::rw-,user:7:r--", "its access control list (user:7:r--)"),
            ("SCHILY.realsize", "1", "star"),
            ("GNU.sparse.other", "1", "GNU.sparse.other"),
            ("GNU.sparse.numbytes", "1", "take turns"),
            ("hdrcharset", "EBCDIC", "names in EBCDIC"),
            ("LIBARCHIVE.xattr.user.a%20b", "YQ", "attribute user.a b in libarchive's"),
            ("uid", "1.0", "a number is expected"),
            ("size", "-1", "a number is expected"),
        ] {
            let fault = read(key, value.as_bytes()).unwrap_err();
            assert!(fault.contains(says), "{fault}");
        }
        assert!(read("SCHILY.acl.access", b"user::rw-,group::r--,other::---").is_ok());
        assert!(read("comment", b"any").is_ok() && read("hdrcharset", b"BINARY").is_ok());
        let mut global = Records::default();
        global.read_global(&record("mtime", b"7")).unwrap();
        global.read_global(&record("comment", b"of git")).unwrap();
        assert_eq!(Records::read(b"", &global).unwrap().modified.unwrap().seconds, 7);
        for one in ["path", "size", "GNU.sparse.name", "SCHILY.xattr.user.x"] {
            assert!(global.read_global(&record(one, b"1")).unwrap_err().contains(one));
        }
    }
}
