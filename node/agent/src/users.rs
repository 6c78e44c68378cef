//! Users of a root by its own files, as an image's configuration names them.

use std::fs;
use std::path::Path;

use rustix::process::Gid;

use crate::{Error, ErrorKind, Result, Subject};

/// User and groups of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Who {
    pub(super) user: u32,
    pub(super) group: u32,
    pub(super) groups: Vec<Gid>,
}

/// `NAME`, `NAME:GROUP`, or their numbers, by `/etc/passwd` and `/etc/group` of the root.
pub(super) fn who(root: &Path, text: &str) -> Result<Who> {
    let read = |name: &str| fs::read_to_string(root.join("etc").join(name)).unwrap_or_default();
    find(&read("passwd"), &read("group"), text)
}

/// A user's folder, by the root's `/etc/passwd`.
pub(super) fn home(root: &Path, user: u32) -> String {
    home_in(&fs::read_to_string(root.join("etc/passwd")).unwrap_or_default(), user)
}

fn home_in(passwd: &str, user: u32) -> String {
    // NAME:x:UID:GID:COMMENT:HOME:…
    let mut lines = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let line = lines.find(|line| line.len() > 5 && line[2].parse() == Ok(user));
    let usual = if user == 0 { "/root" } else { "/" };
    line.map(|line| line[5]).filter(|home| !home.is_empty()).unwrap_or(usual).to_owned()
}

fn find(passwd: &str, group: &str, text: &str) -> Result<Who> {
    let (user, of) = text.split_once(':').map_or((text, None), |(user, of)| (user, Some(of)));
    let unknown = |what: &str, name: &str| {
        Error::refused(
            ErrorKind::NotFound,
            Subject::Word(name.to_owned()),
            format!("the image's program runs as {what} {name}, whom its /etc lacks"),
        )
    };
    // NAME:x:UID:GID:…
    let fields = |line: &str| line.split(':').map(str::to_owned).collect::<Vec<_>>();
    let line = passwd.lines().map(fields).find(|line| {
        line.len() > 3 && (line[0] == user || (user.parse::<u32>().is_ok() && line[2] == user))
    });
    let number = |text: &str| text.parse::<u32>().ok();
    let (name, uid, gid) = match line {
        Some(line) => {
            let numbers = number(&line[2]).zip(number(&line[3]));
            let (uid, gid) = numbers.ok_or_else(|| unknown("user", user))?;
            (line[0].clone(), uid, gid)
        }
        None if user.is_empty() => ("root".to_owned(), 0, 0),
        None => (String::new(), number(user).ok_or_else(|| unknown("user", user))?, 0),
    };
    // NAME:x:GID:MEMBER,MEMBER
    let lines: Vec<_> = group.lines().map(fields).filter(|line| line.len() > 2).collect();
    let gid = match of {
        None => gid,
        Some(of) => {
            let known = lines.iter().find(|line| line[0] == of).and_then(|line| number(&line[2]));
            known.or_else(|| number(of)).ok_or_else(|| unknown("group", of))?
        }
    };
    let member = |line: &&Vec<String>| {
        !name.is_empty() && line.get(3).is_some_and(|names| names.split(',').any(|one| one == name))
    };
    let others = lines.iter().filter(member).filter_map(|line| number(&line[2]));
    let mut groups: Vec<u32> = [gid].into_iter().chain(others).collect();
    groups.dedup();
    Ok(Who { user: uid, group: gid, groups: groups.into_iter().map(Gid::from_raw).collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:\nodd:x\n";
    const GROUP: &str = "root:x:0:\nwww-data:x:33:\nssl:x:101:www-data,other\n";

    #[test]
    fn a_home_is_the_user_s_or_the_usual_one() {
        let homes = [0, 33, 99].map(|user| home_in(PASSWD, user));
        assert_eq!(homes, ["/root", "/var/www", "/"]);
        assert_eq!(home_in("", 0), "/root");
    }

    #[test]
    fn users_are_found_by_names_and_numbers() {
        let of = |text: &str| {
            let who = find(PASSWD, GROUP, text).map_err(|error| error.to_string())?;
            let groups = who.groups.iter().map(|group| group.as_raw()).collect::<Vec<_>>();
            Ok::<_, String>((who.user, who.group, groups))
        };
        assert_eq!(of("").unwrap(), (0, 0, vec![0]));
        assert_eq!(of("www-data").unwrap(), (33, 33, vec![33, 101]));
        assert_eq!(of("33").unwrap(), (33, 33, vec![33, 101]));
        assert_eq!(of("www-data:ssl").unwrap(), (33, 101, vec![101]));
        assert_eq!(of("1000:7").unwrap(), (1000, 7, vec![7]));
        assert!(of("nobody").unwrap_err().contains("as user nobody"));
        assert!(of("root:wheel").unwrap_err().contains("as group wheel"));
        assert!(of("odd").is_err());
    }
}
