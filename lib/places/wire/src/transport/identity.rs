//! Where a NATS server is, and as whom to speak to it.

use std::fmt;
use std::path::{Path, PathBuf};

use async_nats::{ConnectOptions, ServerAddr};
use percent_encoding::percent_decode_str;

use crate::error::{Error, Result};
use crate::transport::secret::Secret;

/// Address of a NATS server, and the identity to use there.
///
/// Secrets in it are never shown: neither by its `Debug` nor in an error.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Nats {
    /// `nats://HOST:PORT`, `tls://…`; several with commas between. `USER:PASSWORD@` or `TOKEN@` before a host is used, with
    /// `%2C` for a comma and so on.
    pub url: String,
    /// A file of credentials, as `nsc` writes it.
    pub credentials: Option<PathBuf>,
    /// A file with an NKEY's seed, `SU…`, alone or in a line of its own.
    pub nkey: Option<PathBuf>,
    /// A user's name and password, if the URL has none.
    pub user: Option<(String, Secret)>,
    /// A token, if the URL has none.
    pub token: Option<Secret>,
    /// The client's certificate and its key, both PEM.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// Certificates of authorities that are believed beside the system's, PEM.
    pub authorities: Option<PathBuf>,
}

/// User and password, or a token alone.
type Login = (Secret, Option<Secret>);

/// Variables of the environment that NATS' own tools read, too.
const VARIABLES: [&str; 8] = [
    "NATS_CREDS",
    "NATS_NKEY",
    "NATS_USER",
    "NATS_PASSWORD",
    "NATS_TOKEN",
    "NATS_CERT",
    "NATS_KEY",
    "NATS_CA",
];

impl Nats {
    /// A server, and what its URL says of who asks.
    pub fn at(url: impl Into<String>) -> Nats {
        Nats { url: url.into(), ..Nats::default() }
    }

    /// A server, and who asks by the environment: `NATS_CREDS`, `NATS_NKEY`, `NATS_CERT`, `NATS_KEY` and `NATS_CA` name
    /// files; `NATS_USER`, `NATS_PASSWORD` and `NATS_TOKEN` are themselves. They are read here, and an empty one is none.
    pub fn from_environment(url: impl Into<String>) -> Nats {
        Nats::with_variables(url.into(), |name| std::env::var(name).ok())
    }

    fn with_variables(url: String, variable: impl Fn(&str) -> Option<String>) -> Nats {
        let values = VARIABLES.map(|name| variable(name).filter(|value| !value.is_empty()));
        let [credentials, nkey, user, password, token, certificate, key, authorities] = values;
        let path = |value: Option<String>| value.map(PathBuf::from);
        Nats {
            url,
            credentials: path(credentials),
            nkey: path(nkey),
            user: user.map(|user| (user, password.unwrap_or_default().into())),
            token: token.map(Secret::from),
            certificate: path(certificate).zip(path(key)),
            authorities: path(authorities),
        }
    }

    /// The URL without what is secret in it.
    #[doc(hidden)]
    pub fn shown(&self) -> String {
        shown(&self.url)
    }

    /// Addresses, options, and who it is for people.
    #[doc(hidden)]
    pub fn options(&self) -> Result<(Vec<ServerAddr>, ConnectOptions, String)> {
        let mut options = ConnectOptions::new();
        let (addresses, found) = self.addresses()?;
        let (mut user, mut token) = (self.user.clone(), self.token.clone());
        match found {
            Some((name, Some(password))) => {
                (user, token) = (Some((name.exposed().to_owned(), password)), None);
            }
            Some((one, None)) => (user, token) = (None, Some(one)),
            None => {}
        }
        let mut whom = "who asks without a name".to_owned();
        if token.is_some() {
            whom = "the token's user".to_owned();
        }
        if let Some((user, password)) = user {
            whom = format!("user {user:?}");
            options = options.user_and_password(user, password.exposed().to_owned());
        }
        if let Some(token) = token {
            options = options.token(token.exposed().to_owned());
        }
        if let Some(path) = &self.nkey {
            options = options.nkey(seed(path)?.exposed().to_owned());
            whom = format!("the NKEY of {}", path.display());
        }
        if let Some(path) = &self.credentials {
            let text = read(path)?;
            let refused =
                |source| io(format!("reading the credentials {}", path.display()), source);
            options = options.credentials(text.exposed()).map_err(refused)?;
            whom = format!("the user of {}", path.display());
        }
        if let Some(path) = &self.authorities {
            is_there(path)?;
            options = options.add_root_certificates(path.clone());
        }
        if let Some((certificate, key)) = &self.certificate {
            is_there(certificate)?;
            is_there(key)?;
            options = options.add_client_certificate(certificate.clone(), key.clone());
            if self.nkey.is_none() && self.credentials.is_none() {
                whom = format!("the certificate {}", certificate.display());
            }
        }
        Ok((addresses, options, whom))
    }

    /// The servers, and the user and password, or the token alone, of the first URL that has one.
    fn addresses(&self) -> Result<(Vec<ServerAddr>, Option<Login>)> {
        let refused = |why: String| Error::Value {
            what: format!("{} is no NATS server's URL", self.shown()),
            why,
        };
        let decoded =
            |text: &str| Secret::from(percent_decode_str(text).decode_utf8_lossy().into_owned());
        let (mut addresses, mut found) = (Vec::new(), None);
        for part in self.url.split(',').map(str::trim) {
            let address: ServerAddr =
                part.parse().map_err(|error: std::io::Error| refused(error.to_string()))?;
            if let Some(user) = address.username() {
                let its = (decoded(user), address.password().map(decoded));
                found.get_or_insert(its);
            }
            // What is secret goes no further than this.
            let mut url = address.into_inner();
            let cut = url.set_username("").and_then(|()| url.set_password(None));
            cut.map_err(|()| refused("it names no host".to_owned()))?;
            let bare = ServerAddr::from_url(url);
            addresses.push(bare.map_err(|error| refused(error.to_string()))?);
        }
        Ok((addresses, found))
    }
}

impl fmt::Debug for Nats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nats")
            .field("url", &self.shown())
            .field("credentials", &self.credentials)
            .field("nkey", &self.nkey)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("token", &self.token)
            .field("certificate", &self.certificate)
            .field("authorities", &self.authorities)
            .finish()
    }
}

/// A URL, or several, without users, passwords and tokens, also where it is none.
fn shown(url: &str) -> String {
    let last = url.rfind('@').unwrap_or(0);
    let (mut shown, mut end) = (Vec::new(), 0);
    for part in url.split(',') {
        end += part.len();
        let scheme = part.find("://").map_or("", |at| part[..at + 3].trim_start());
        shown.push(match part.rfind('@') {
            Some(at) => format!("{scheme}{}", &part[at + 1..]),
            // A password has a comma that should have been written otherwise.
            None if end < last && is_split(&url[end + 1..]) => format!("{scheme}…"),
            None => part.trim().to_owned(),
        });
        end += 1;
    }
    shown.join(",")
}

/// True if the next part is the rest of a password and its host.
fn is_split(rest: &str) -> bool {
    let next = rest.split(',').find(|part| part.contains("://") || part.contains('@'));
    next.is_some_and(|part| !part.contains("://"))
}

fn io(what: String, source: std::io::Error) -> Error {
    Error::Io { what, source }
}

fn read(path: &Path) -> Result<Secret> {
    let text = std::fs::read_to_string(path);
    text.map(Secret::from).map_err(|error| io(format!("reading {}", path.display()), error))
}

fn is_there(path: &Path) -> Result<()> {
    let opened = std::fs::File::open(path);
    opened.map(drop).map_err(|error| io(format!("reading {}", path.display()), error))
}

/// The seed of a file.
fn seed(path: &Path) -> Result<Secret> {
    let text = read(path)?;
    let seed = text.exposed().lines().map(str::trim).find(|line| line.starts_with("SU"));
    seed.map(Secret::from).ok_or_else(|| Error::Value {
        what: format!("reading the NKEY {}", path.display()),
        why: "no line of it begins with SU, as a user's seed does: `nk -gen user` makes one"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_s_secrets_are_used_and_not_shown() {
        for (url, who, hosts) in [
            ("nats://u:p%2Cw@h:1", Some(("u", Some("p,w"))), "nats://h:1"),
            ("u:p@h", Some(("u", Some("p"))), "h"),
            ("tls://tok%40en@h", Some(("tok@en", None)), "tls://h"),
            ("nats://a, tls://u:@b", Some(("u", Some(""))), "nats://a,tls://b"),
            ("nats://u:p@a,nats://v:q@b:2", Some(("u", Some("p"))), "nats://a,nats://b:2"),
            ("127.0.0.1:4222", None, "127.0.0.1:4222"),
        ] {
            let nats = Nats::at(url);
            let (addresses, found) = nats.addresses().unwrap();
            let found = found
                .as_ref()
                .map(|(user, password)| (user.exposed(), password.as_ref().map(Secret::exposed)));
            // An empty password is a password only where a colon stands.
            let who = who.map(|(user, password)| (user, password.filter(|text| !text.is_empty())));
            assert_eq!(found, who, "{url}");
            assert_eq!(nats.shown(), hosts);
            assert!(
                addresses.iter().all(|one| one.username().is_none() && one.password().is_none())
            );
        }
    }

    #[test]
    fn no_error_and_no_debug_shows_a_secret() {
        let secret = "geheim";
        for url in [
            "nats://u:geheim@h:99999",
            "nats://u:geheim@",
            "http://u:geheim@h",
            "nats://geheim@",
            "nats://u:ge,heim@h:x",
            "u:geheim,geheim@h:x",
            "nats://a,nats://u:geheim/x@h",
            "nats://u:geheim,x/geheim@h",
            "nats:///geheim@h",
        ] {
            let nats = Nats { token: Some(secret.into()), ..Nats::at(url) };
            let mut said = format!("{nats:?}");
            if let Err(error) = nats.options() {
                said = format!("{said} {error} {error:?}");
            }
            assert!(!said.contains(secret) && !said.contains("heim"), "{url}: {said}");
        }
        let nats = Nats { user: Some(("u".into(), secret.into())), ..Nats::at("h") };
        assert!(!format!("{nats:?} {:?}", nats.user).contains(secret));
    }

    #[test]
    fn the_environment_says_who_asks() {
        let all = |name: &str| Some(format!("of {name}"));
        let nats = Nats::with_variables("h".to_owned(), all);
        assert_eq!(nats.nkey, Some(PathBuf::from("of NATS_NKEY")));
        assert_eq!(nats.user, Some(("of NATS_USER".to_owned(), "of NATS_PASSWORD".into())));
        let pair = (PathBuf::from("of NATS_CERT"), PathBuf::from("of NATS_KEY"));
        assert_eq!((nats.certificate, nats.token), (Some(pair), Some("of NATS_TOKEN".into())));
        let none = Nats::with_variables("h".to_owned(), |_| Some(String::new()));
        assert!(none.credentials.is_none() && none.user.is_none() && none.certificate.is_none());
    }

    #[test]
    fn a_seed_is_found_among_comments() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nk");
        std::fs::write(&path, "-----BEGIN USER NKEY SEED-----\n SUAB \n------END\n").unwrap();
        assert_eq!(seed(&path).unwrap().exposed(), "SUAB");
        std::fs::write(&path, "SAAB\n").unwrap();
        let error = seed(&path).unwrap_err().to_string();
        assert!(error.contains("SU") && !error.contains("SAAB"), "{error}");
        assert!(seed(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
