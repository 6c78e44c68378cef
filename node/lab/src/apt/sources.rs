//! Which package sources this machine uses for Debian, and the same for
//! another release: only the suites' names change.

use std::fs;
use std::path::{Path, PathBuf};

/// One source: a line of a `.list` or a stanza of a `.sources` file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Source {
    pub(crate) uris: Vec<String>,
    pub(crate) suites: Vec<String>,
    pub(crate) components: Vec<String>,
    /// A key file, or a key itself with its line breaks.
    pub(crate) signed_by: Option<String>,
}

/// The suites beside a release's own that hold newer packages of it.
const SUFFIXES: [&str; 3] = ["", "-updates", "-security"];

/// All sources that files below an apt folder such as `/etc/apt` name.
pub(crate) fn of_machine(apt: &Path) -> Vec<Source> {
    let mut files: Vec<PathBuf> = vec![apt.join("sources.list")];
    if let Ok(folder) = fs::read_dir(apt.join("sources.list.d")) {
        files.extend(folder.flatten().map(|entry| entry.path()));
    }
    files.sort();
    let parse = |file: PathBuf| {
        let Ok(text) = fs::read_to_string(&file) else { return Vec::new() };
        match file.extension().and_then(|extension| extension.to_str()) {
            Some("list") => text.lines().filter_map(line).collect(),
            Some("sources") => stanzas(&text),
            _ => Vec::new(),
        }
    };
    files.into_iter().flat_map(parse).collect()
}

/// Releases that have no suites beside their own.
const ALONE: [&str; 3] = ["sid", "unstable", "experimental"];
const BACKPORTS: &str = "-backports";

/// Sources that serve Debian's release `from`, with the suites of `to`; those of a release's
/// backports come beside the release's own, on which they build.
pub(crate) fn for_release(sources: &[Source], from: &str, to: &str) -> Vec<Source> {
    let (base, with_backports) = match to.strip_suffix(BACKPORTS) {
        Some(base) => (base, true),
        None => (to, false),
    };
    let renamed = |suite: &String| {
        let suffix = suite.strip_prefix(from)?;
        let is_there = SUFFIXES.contains(&suffix) && (suffix.is_empty() || !ALONE.contains(&base));
        let more = (suffix.is_empty() && with_backports).then(|| to.to_owned());
        is_there.then(|| [format!("{base}{suffix}")].into_iter().chain(more))
    };
    let of_debian = |source: &Source| {
        let suites: Vec<_> = source.suites.iter().filter_map(renamed).flatten().collect();
        let main = source.components.iter().any(|component| component == "main");
        let components = vec!["main".to_owned()];
        (main && !suites.is_empty()).then(|| Source { suites, components, ..source.clone() })
    };
    sources.iter().filter_map(of_debian).collect()
}

/// Contents of a `.sources` file; sources.list(5).
pub(crate) fn written(sources: &[Source]) -> String {
    let stanza = |source: &Source| {
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {}\nComponents: {}\n",
            source.uris.join(" "),
            source.suites.join(" "),
            source.components.join(" ")
        );
        if let Some(key) = &source.signed_by {
            text += &format!("Signed-By: {key}\n");
        }
        text
    };
    sources.iter().map(stanza).collect::<Vec<_>>().join("\n")
}

/// `deb [signed-by=FILE] URI SUITE COMPONENT…`.
fn line(text: &str) -> Option<Source> {
    let text = text.split('#').next()?.trim();
    let mut rest = text.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
    let mut signed_by = None;
    if let Some(options) = rest.strip_prefix('[') {
        let (options, after) = options.split_once(']')?;
        let key = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
        signed_by = key.map(str::to_owned);
        rest = after;
    }
    let mut words = rest.split_whitespace().map(str::to_owned);
    Some(Source {
        uris: vec![words.next()?],
        suites: vec![words.next()?],
        components: words.collect(),
        signed_by,
    })
}

/// The enabled binary sources of a deb822 file.
fn stanzas(text: &str) -> Vec<Source> {
    let uncommented: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    uncommented.split(|line| line.trim().is_empty()).filter_map(stanza).collect()
}

fn stanza(lines: &[&str]) -> Option<Source> {
    let field = |name: &str| {
        let of_name = |line: &&str| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
        };
        let at = lines.iter().position(|line| of_name(line).is_some())?;
        let mut value = of_name(&lines[at])?;
        // A field goes on in lines that begin with a space.
        for more in lines[at + 1..].iter().take_while(|line| line.starts_with([' ', '\t'])) {
            value = format!("{value}\n{more}");
        }
        Some(value)
    };
    let words = |name| -> Option<Vec<String>> {
        Some(field(name)?.split_whitespace().map(str::to_owned).collect())
    };
    let enabled = field("Enabled").is_none_or(|value| !value.eq_ignore_ascii_case("no"));
    (enabled && words("Types")?.iter().any(|kind| kind == "deb")).then_some(())?;
    Some(Source {
        uris: words("URIs")?,
        suites: words("Suites")?,
        components: words("Components").unwrap_or_default(),
        signed_by: field("Signed-By"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "\
# Debian
Types: deb deb-src
# a comment in between
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates bookworm-backports
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://elsewhere.example/other
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm
Components: main
";

    #[test]
    fn stanzas_are_read_with_comments_and_keys() {
        let sources = stanzas(STANZAS);
        assert_eq!(sources.len(), 2, "{sources:?}");
        assert_eq!(sources[0].uris, ["http://mirror.example/debian"]);
        assert_eq!(sources[0].suites.len(), 3);
        let key = sources[1].signed_by.as_ref().unwrap();
        assert!(key.contains("\n .\n abc"), "{key:?}");
    }

    #[test]
    fn lines_are_read_with_options() {
        let source = line("deb [arch=amd64 signed-by=/k.gpg] http://a.example/d bookworm main # x");
        let source = source.unwrap();
        assert_eq!(source.suites, ["bookworm"]);
        assert_eq!(source.components, ["main"]);
        assert_eq!(source.signed_by.as_deref(), Some("/k.gpg"));
        for other in ["", "# deb http://a b c", "deb-src http://a.example/d bookworm main", "deb"] {
            assert_eq!(line(other), None, "{other}");
        }
    }

    #[test]
    fn another_release_has_the_same_sources_with_its_suites() {
        let there = for_release(&stanzas(STANZAS), "bookworm", "trixie");
        assert_eq!(there.len(), 1, "what is not Debian's is left out");
        assert_eq!(there[0].suites, ["trixie", "trixie-updates"], "and no backports");
        assert_eq!(there[0].components, ["main"]);
        let text = written(&there);
        assert_eq!(stanzas(&text), there, "{text}");
    }

    #[test]
    fn files_of_both_kinds_are_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        fs::write(folder.path().join("sources.list"), "deb http://a.example/d bookworm main\n")
            .unwrap();
        fs::write(folder.path().join("sources.list.d/debian.sources"), STANZAS).unwrap();
        fs::write(folder.path().join("sources.list.d/old.save"), "deb http://b x main\n").unwrap();
        assert_eq!(of_machine(folder.path()).len(), 3);
    }

    #[test]
    fn backports_come_beside_their_release_and_sid_alone() {
        let main = line("deb http://a.example/d bookworm main").unwrap();
        let security = line("deb http://a.example/s bookworm-security main").unwrap();
        let suites = |to: &str| -> Vec<String> {
            let sources = for_release(&[main.clone(), security.clone()], "bookworm", to);
            sources.into_iter().flat_map(|source| source.suites).collect()
        };
        assert_eq!(suites("trixie"), ["trixie", "trixie-security"]);
        assert_eq!(suites("trixie-backports"), ["trixie", "trixie-backports", "trixie-security"]);
        assert_eq!(suites("sid"), ["sid"]);
    }
}
