//! A place's key, by which its callers know it, and what TLS makes of it on both sides.

use std::fmt;
use std::io;
use std::sync::Arc;

use bytes::Bytes;
use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring as by_ring, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, PeerIncompatible, ServerConfig,
    SignatureScheme,
};
use tokio_rustls::TlsAcceptor;

use crate::error::{Error, Result};

/// A key of a place that listens.
pub struct PlaceKey {
    public: Bytes,
    config: Arc<ServerConfig>,
}

impl fmt::Debug for PlaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlaceKey").finish_non_exhaustive()
    }
}

impl PlaceKey {
    /// Draws one.
    pub fn draw() -> Result<PlaceKey> {
        let failed = |why: String| Error::Io {
            what: "drawing a place's key for connections of its callers' own".to_owned(),
            source: io::Error::other(why),
        };
        let drawn = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let drawn = drawn.map_err(|_| failed("the system gives no random bytes".to_owned()))?;
        let key = by_ring::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(drawn.as_ref()));
        let key = key.map_err(|error| failed(error.to_string()))?;
        let public = key.public_key().map(|public| Bytes::copy_from_slice(&public));
        let public = public.ok_or_else(|| failed("it has no public half".to_owned()))?;
        // The key stands where a certificate would.
        let stands = CertifiedKey::new(vec![CertificateDer::from(public.to_vec())], key);
        let builder = ServerConfig::builder_with_provider(provider());
        let builder = builder.with_protocol_versions(&[&TLS13]);
        let mut config = builder
            .map_err(|error| failed(error.to_string()))?
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(stands.into())));
        config.send_tls13_tickets = 0;
        Ok(PlaceKey { public, config: Arc::new(config) })
    }

    /// The half of it that its callers are told.
    pub fn public(&self) -> &Bytes {
        &self.public
    }

    /// Greets callers.
    pub fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(by_ring::default_provider())
}

/// A client that speaks to who has this key, and to nobody else.
pub(super) fn pinned(key: &Bytes) -> Result<Arc<ClientConfig>, rustls::Error> {
    let provider = provider();
    let algorithms = provider.signature_verification_algorithms;
    let verifier = PinnedKey { key: key.clone(), algorithms };
    let builder = ClientConfig::builder_with_provider(provider);
    let mut config = builder
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_no_client_auth();
    config.enable_sni = false;
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// The one key that is believed: NATS has told it, so that no authority has to.
#[derive(Debug)]
struct PinnedKey {
    key: Bytes,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for PinnedKey {
    fn verify_server_cert(
        &self,
        key: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if key.as_ref() == self.key {
            return Ok(ServerCertVerified::assertion());
        }
        Err(rustls::Error::InvalidCertificate(CertificateError::ApplicationVerificationFailure))
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::PeerIncompatible(PeerIncompatible::Tls12NotOffered))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        key: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(key.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}
