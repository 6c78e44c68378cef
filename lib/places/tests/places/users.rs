//! Who asks, as NATS knows it: users, tokens, NKEYs, certificates; and what a server denies him.

use std::path::Path;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use kumiki_places::standard::{Add, Counter, parts};
use kumiki_places::{Allow, Choice, Client, Error, Nats, News, Result, Served, Server};
use kumiki_resource::Interface;

use crate::nats::NatsServer;
use crate::scene::{PATIENCE, block_on, interface, machine};

/// A server by this configuration.
fn configured(folder: &Path, text: &str) -> NatsServer {
    let path = folder.join("nats.conf");
    std::fs::write(&path, text).unwrap();
    NatsServer::start_with(&["-c", path.to_str().unwrap()])
}

/// Serves one place as this user, calls it as that one.
fn serves(nats: Nats) -> Result<(Interface, Served, String)> {
    let interface = interface(1);
    let served = Server::new(nats, "m").parts(parts()).allow(Allow::everything());
    let served = served.serve(&interface)?;
    let place = served.names()[0].to_owned();
    Ok((interface, served, place))
}

fn works(nats: &Nats) {
    let (_interface, _served, place) = serves(nats.clone()).unwrap();
    block_on(async {
        let client = Client::connect(nats).await.unwrap().with_timeout(PATIENCE);
        let counter = client.create::<Counter>(&place, None, 1).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 2);
    });
}

/// Refused, and its secret is in no word of it.
fn is_refused(nats: &Nats, secret: &str) {
    let error = block_on(Client::connect(nats)).unwrap_err();
    let said = format!("{error} {error:?} {nats:?}");
    assert!(matches!(error, Error::Connect { .. }), "{said}");
    assert!(said.contains("127.0.0.1") && !said.contains(secret), "{said}");
}

#[test]
fn a_user_and_a_token_of_the_url_are_used_and_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let text = "authorization: {users: [{user: \"u@x\", password: \"p:geheim/\"}]}";
    let nats = configured(folder.path(), text);
    let at = |user: &str| Nats::at(nats.url().replace("//", &format!("//{user}@")));
    works(&at("u%40x:p%3Ageheim%2F"));
    is_refused(&at("u%40x:geheim"), "geheim");
    is_refused(&Nats::at(nats.url()), "geheim");
    let mut nats = at("");
    nats.user = Some(("u@x".to_owned(), "p:geheim/".into()));
    works(&nats);
    let folder = tempfile::tempdir().unwrap();
    let nats = configured(folder.path(), "authorization: {token: \"geheim\"}");
    let at = |user: &str| Nats::at(nats.url().replace("//", &format!("//{user}@")));
    works(&at("geheim"));
    is_refused(&at("geheimer"), "geheim");
}

#[test]
fn an_nkey_s_seed_signs_and_is_never_shown() {
    let folder = tempfile::tempdir().unwrap();
    let (own, other) = (nkeys::KeyPair::new_user(), nkeys::KeyPair::new_user());
    let text = format!("authorization: {{users: [{{nkey: {}}}]}}", own.public_key());
    let nats = configured(folder.path(), &text);
    let by = |pair: &nkeys::KeyPair, name: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("# a comment\n{}\n", pair.seed().unwrap())).unwrap();
        let mut nats = Nats::at(nats.url());
        nats.nkey = Some(path);
        nats
    };
    works(&by(&own, "own"));
    is_refused(&by(&other, "other"), &other.seed().unwrap());
}

/// Certificates of an authority of its own; none where openssl(1) is missing.
fn certificates(folder: &Path) -> bool {
    let openssl = |words: &str| {
        let words = words.split_whitespace();
        let done = std::process::Command::new("openssl").args(words).current_dir(folder).output();
        match done {
            Ok(done) => {
                assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
                true
            }
            Err(_) => false,
        }
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    if !openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=ca -days 9")) {
        return false;
    }
    std::fs::write(folder.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    for one in ["server", "client"] {
        openssl(&format!("req -new {key} -keyout {one}.key -out {one}.csr -subj /CN={one}"));
        let sign = "-CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -extfile names";
        openssl(&format!("x509 -req -in {one}.csr -out {one}.pem {sign}"));
    }
    true
}

#[test]
fn a_private_authority_and_a_client_s_certificate_are_used() {
    let folder = tempfile::tempdir().unwrap();
    if !certificates(folder.path()) {
        eprintln!("passed over: openssl(1) is not installed");
        return;
    }
    let path = |name: &str| folder.path().join(name);
    let text = format!(
        "tls: {{cert_file: {:?}, key_file: {:?}, ca_file: {:?}, verify: true}}",
        path("server.pem"),
        path("server.key"),
        path("ca.pem")
    );
    let nats = configured(folder.path(), &text);
    let mut by = Nats::at(nats.url().replace("nats://", "tls://"));
    by.authorities = Some(path("ca.pem"));
    block_on(Client::connect(&by)).unwrap_err();
    by.certificate = Some((path("client.pem"), path("client.key")));
    works(&by);
    by.authorities = None;
    block_on(Client::connect(&by)).unwrap_err();
    by.authorities = Some(path("none.pem"));
    let error = block_on(Client::connect(&by)).unwrap_err();
    assert!(error.to_string().contains("none.pem"), "{error}");
}

/// Users who may do less and less.
const USERS: &str = r#"authorization: {users: [
    {user: all, password: a}
    {user: none, password: a, permissions: {publish: "other", subscribe: ">"}}
    {user: deaf, password: a, permissions: {publish: ">", subscribe: "other"}}
    {user: calls, password: a, permissions: {publish: "kumiki.place.m.>", subscribe: "_INBOX.>"}}
]}"#;

#[test]
fn what_a_server_denies_is_not_sent_and_says_who_may_not_do_what() {
    let folder = tempfile::tempdir().unwrap();
    let nats = configured(folder.path(), USERS);
    let at = |user: &str| Nats::at(nats.url().replace("//", &format!("//{user}:a@")));
    let (_interface, served, place) = serves(at("all")).unwrap();
    block_on(async {
        let start = Instant::now();
        let of =
            async |user: &str| Client::connect(&at(user)).await.unwrap().with_timeout(PATIENCE);
        let none = of("none").await;
        for _ in 0..2 {
            let error = none.create::<Counter>(&place, None, 0).await.unwrap_err();
            assert!(matches!(error, Error::NotSent { .. }), "{error}");
            let said = error.to_string();
            let denied = format!("denies user \"none\" to publish to kumiki.place.{place}");
            assert!(said.contains(&denied) && said.contains("nothing was done"), "{said}");
        }
        assert!(matches!(none.offers(&place).await, Err(Error::NotSent { .. })));
        let error = none.places().await.unwrap_err().to_string();
        assert!(error.contains("denies user \"none\" to publish to $SRV."), "{error}");
        let error = none.watch(&place, "**").await.unwrap_err().to_string();
        assert!(error.contains("to publish to"), "{error}");
        // It reaches the place, and no answer reaches it: the lease was asked for, and nothing else.
        let deaf = of("deaf").await;
        for _ in 0..2 {
            let error = deaf.create::<Counter>(&place, None, 0).await.unwrap_err();
            assert!(matches!(error, Error::NotSent { .. }), "{error}");
            assert!(error.to_string().contains("\"deaf\" to subscribe to _INBOX."), "{error}");
        }
        let calls = of("calls").await;
        let counter = calls.create::<Counter>(&place, None, 0).await.unwrap();
        assert_eq!(calls.call::<Add>(&counter, 1).await.unwrap(), 1);
        let error = calls.watch(&place, "**").await.unwrap_err().to_string();
        assert!(error.contains("\"calls\" to subscribe to kumiki.change."), "{error}");
        let error = calls.choose("*", Choice::Any).await.unwrap_err().to_string();
        assert!(error.contains("\"calls\" to subscribe to kumiki.beat.>"), "{error}");
        assert_eq!(calls.call::<Add>(&counter, 1).await.unwrap(), 2);
        assert!(start.elapsed() < PATIENCE / 2, "it waited for its patience");
        // Only the one that was allowed was made.
        let all = of("all").await;
        assert_eq!(all.ls(&place, "*/counter/*").await.unwrap().len(), 1);
    });
    drop(served);
    let error = serves(at("calls")).unwrap_err().to_string();
    assert!(error.contains("opening a place") && error.contains("\"calls\" to"), "{error}");
}

/// The permissions that the design's page gives: a place and its callers need no more, and a caller speaks for no place.
#[test]
fn the_permissions_of_the_page_are_enough_and_no_more() {
    let page = include_str!("design.md");
    let begin = page.find("authorization { users: [").expect("the page has them");
    let text = page[begin..].split("```").next().unwrap().replace("\"…\"", "a");
    let folder = tempfile::tempdir().unwrap();
    let nats = configured(folder.path(), &text);
    let url = |user: &str| nats.url().replace("//", &format!("//{user}:a@"));
    let interface = interface(1);
    let server = Server::new(Nats::at(url("hostb")), "hostb").parts(parts());
    let served = server.allow(Allow::everything()).serve(&interface).unwrap();
    let place = served.names()[0].to_owned();
    let refused = Server::new(Nats::at(url("caller")), "hostb").serve(&interface).map(drop);
    assert!(refused.is_err(), "a caller serves nothing");
    let refused = Server::new(Nats::at(url("hostb")), "hostc").serve(&interface).map(drop);
    assert!(refused.is_err(), "a host has no other's names");
    block_on(async {
        let client = Client::connect(&Nats::at(url("caller"))).await.unwrap();
        let client = client.with_timeout(PATIENCE);
        let counter = client.create::<Counter>(&place, Some("hits"), 0).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
        assert_eq!(client.places().await.unwrap()[0].place, place);
        assert_eq!(client.choose("*", Choice::LeastLoaded).await.unwrap()[0], place);
        let mut news = client.watch(&place, "**").await.unwrap();
        client.create::<Counter>(&place, Some("more"), 0).await.unwrap();
        loop {
            let news = tokio::time::timeout(PATIENCE, news.next()).await.unwrap();
            if matches!(&news, News::Changed(change) if change.name.ends_with("/more")) {
                break;
            }
        }
        // Of a caller's forged beats and changes nobody hears anything.
        let as_user = async |user: &str| {
            let options = async_nats::ConnectOptions::new();
            let options = options.user_and_password(user.to_owned(), "a".to_owned());
            options.connect(nats.url()).await.unwrap()
        };
        let host = as_user("hostb").await;
        let mut beats = host.subscribe(format!("kumiki.beat.{place}")).await.unwrap();
        host.flush().await.unwrap();
        let stranger = as_user("caller").await;
        for subject in ["beat", "change"] {
            let subject = format!("kumiki.{subject}.{place}");
            stranger.publish(subject, "forged".into()).await.unwrap();
        }
        stranger.flush().await.unwrap();
        // The next one is the place's own, two seconds later at most.
        let next = tokio::time::timeout(PATIENCE, beats.next()).await.unwrap().unwrap();
        assert_ne!(&*next.payload, b"forged");
    });
    drop(served);
}

/// As `nats sub '>'` does, which answers nothing.
#[test]
fn a_tap_on_all_subjects_keeps_no_place_from_starting_and_hides_no_end() {
    let nats = NatsServer::start();
    block_on(async {
        let tap = async_nats::connect(nats.url()).await.unwrap();
        let mut all = tap.subscribe(">").await.unwrap();
        tap.flush().await.unwrap();
        tokio::spawn(async move { while all.next().await.is_some() {} });
        let (_interface, served, place) = machine(&nats.url(), "m");
        let client = Client::connect(&Nats::at(nats.url())).await.unwrap().with_timeout(PATIENCE);
        let counter = client.create::<Counter>(&place, None, 0).await.unwrap();
        assert_eq!(client.call::<Add>(&counter, 1).await.unwrap(), 1);
        let start = Instant::now();
        let error = client.create::<Counter>("nobody.core0", None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        let error = client.offers("nobody.core0").await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        drop(served);
        // It was sent, and nobody says that nobody has it.
        let hasty = client.with_timeout(Duration::from_millis(300));
        let error = hasty.call::<Add>(&counter, 1).await.unwrap_err();
        assert!(matches!(error, Error::Unknown { .. }), "{error}");
        // From then on it is asked for first.
        let error = client.create::<Counter>(&place, None, 0).await.unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{error}");
        let error = hasty.create::<Counter>(&place, None, 0).await.unwrap_err();
        assert!(matches!(error, Error::NotSent { .. }), "{error}");
        assert!(start.elapsed() < PATIENCE, "it waited for its patience");
    });
}
