//! The native protocol through TLS.

use std::path::Path;
use std::process::Command;

use bson::rawdoc;
use treedb_client::{Client, Error, Find, Tls};

use crate::server::{PATIENCE, Server};

fn openssl(dir: &Path, arguments: &str) {
    let done = Command::new("openssl").args(arguments.split(' ')).current_dir(dir).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// An authority, and a certificate by it for 127.0.0.1. Returns what a client needs to trust it.
pub(crate) fn certificates(dir: &Path) -> Tls {
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
    openssl(dir, &format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
    openssl(dir, &format!("req {key} -keyout server.key -out server.csr -subj /CN=server"));
    std::fs::write(dir.join("names"), "subjectAltName=IP:127.0.0.1").unwrap();
    openssl(
        dir,
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem",
    );
    Tls::with_roots("127.0.0.1", dir.join("ca.pem")).unwrap()
}

#[test]
fn a_native_client_talks_through_tls_and_trusts_only_whom_it_should() {
    let dir = tempfile::tempdir().unwrap();
    let tls = certificates(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let flags = ["--tls-certificate", &path("server.pem"), "--tls-key", &path("server.key")];
    let server = Server::with_flags(&dir.path().join("data"), &flags);

    let mut client = Client::connect_tls(server.address, Some(PATIENCE), &tls).unwrap();
    let long = "x".repeat(1 << 20);
    for id in 0..12 {
        client.insert_one("a.b", &rawdoc! { "_id": id, "text": long.as_str() }).unwrap();
    }
    let all = rawdoc! {};
    assert_eq!(client.find(&Find::new("a.b", &all)).unwrap().map(Result::unwrap).count(), 12);
    assert_eq!(client.stream(&Find::new("a.b", &all).batch(1)).unwrap().map(Result::unwrap).count(), 12);
    // Both sides write at once.
    let mut pipeline = client.pipeline();
    let tickets: Vec<_> = (0..12).map(|id| pipeline.get("a.b", id).unwrap()).collect();
    for ticket in tickets {
        assert_eq!(pipeline.wait(ticket).unwrap().unwrap().get_str("text").unwrap().len(), 1 << 20);
    }
    drop(pipeline);

    let other = Tls::with_roots("localhost", path("ca.pem")).unwrap();
    let refused = Client::connect_tls(server.address, Some(PATIENCE), &other).unwrap_err();
    assert!(refused.to_string().contains("certificate"), "{refused}");
    let itself = Tls::with_roots("127.0.0.1", path("server.pem")).unwrap();
    let refused = Client::connect_tls(server.address, Some(PATIENCE), &itself);
    assert!(matches!(refused, Err(Error::Io { .. })), "its own certificate is no authority");
    assert!(Client::connect_timeout(server.address, PATIENCE).is_err(), "without TLS");
    assert!(matches!(Tls::with_roots("127.0.0.1", path("server.key")), Err(Error::Tls(_))));
    client.ping().unwrap();
    assert!(server.stop().success());
}

/// Has the authority of `dir` sign its `server.csr` for a time that is over.
fn expired(dir: &Path) {
    let configuration = "[ca]\ndefault_ca = authority\n[authority]\ndatabase = issued\nserial = serial\nnew_certs_dir = .\n\
                         certificate = ca.pem\nprivate_key = ca.key\ndefault_md = sha256\npolicy = any\n\
                         [any]\ncommonName = supplied\n";
    std::fs::write(dir.join("ca.cnf"), configuration).unwrap();
    std::fs::write(dir.join("issued"), "").unwrap();
    std::fs::write(dir.join("serial"), "77\n").unwrap();
    openssl(
        dir,
        "ca -batch -config ca.cnf -in server.csr -out expired.pem -extfile names -notext -startdate 20200101000000Z -enddate 20200102000000Z",
    );
}

#[test]
fn a_certificate_that_is_expired_for_another_host_or_signed_by_itself_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let tls = certificates(dir.path());
    expired(dir.path());
    openssl(dir.path(), "x509 -req -in server.csr -signkey server.key -days 2 -extfile names -out own.pem");
    std::fs::write(dir.path().join("names"), "subjectAltName=DNS:db.example.com").unwrap();
    openssl(
        dir.path(),
        "x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out other.pem",
    );
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let served = |certificate: &str, tls: &Tls| {
        let data = dir.path().join(format!("data of {certificate}"));
        let server = Server::with_flags(
            &data,
            &["--tls-certificate", &path(certificate), "--tls-key", &path("server.key")],
        );
        Client::connect_tls(server.address, Some(PATIENCE), tls).and_then(|mut client| client.ping())
    };
    let refused = |certificate: &str, why: &str| {
        let error = served(certificate, &tls).expect_err(certificate).to_string();
        assert!(error.replace(' ', "").to_lowercase().contains(why), "{certificate}: {error}");
    };
    served("server.pem", &tls).unwrap();
    refused("expired.pem", "expired");
    refused("other.pem", "notvalidforname");
    refused("own.pem", "unknownissuer");
    // A client that wants to talk to that host accepts the second.
    let elsewhere = Tls::with_roots("db.example.com", path("ca.pem")).unwrap();
    served("other.pem", &elsewhere).unwrap();
}
