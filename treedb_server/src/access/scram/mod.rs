//! The server's side of SCRAM. What it shares with clients, and theirs, is in [`treedb_protocol::scram`].
//!
//! | file | what it holds |
//! |---|---|
//! | `credentials` | what the server stores instead of a password |
//! | `server` | the server's side of an exchange |

mod credentials;
mod server;

pub(crate) use credentials::Credentials;
pub(crate) use server::{ClientFirst, Exchange};
pub(crate) use treedb_protocol::scram::{ClientExchange, Mechanism, Refused};

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(mechanism: Mechanism, stored: &str, given: &str) -> Result<(), Refused> {
        let credentials = Credentials::new(mechanism, "ann", stored).unwrap();
        let (mut client, first) = ClientExchange::new(mechanism, "ann", given).unwrap();
        let first = ClientFirst::parse(first.as_bytes())?;
        assert_eq!(first.user, "ann");
        let (server, second) = Exchange::new(first, credentials).unwrap();
        let third = client.answer(second.as_bytes())?;
        let last = server.finish(third.as_bytes())?;
        client.verify(last.as_bytes())
    }

    #[test]
    fn a_client_with_the_password_is_let_in_and_one_without_is_not() {
        for mechanism in [Mechanism::Sha1, Mechanism::Sha256] {
            assert_eq!(exchange(mechanism, "secret, = ü", "secret, = ü"), Ok(()));
            assert_eq!(exchange(mechanism, "secret", "Secret"), Err(Refused::WrongProof));
        }
        // Two spellings of one password: SASLprep makes them the same.
        assert_eq!(exchange(Mechanism::Sha256, "I\u{ad}X", "IX"), Ok(()));
    }

    /// The example of RFC 7677, section 3.
    #[test]
    fn the_example_of_the_standard_is_answered_as_it_says() {
        let first = ClientFirst::parse(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO").unwrap();
        let salt =
            [0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81];
        let credentials =
            Credentials::salted(Mechanism::Sha256, "user", "pencil", salt.to_vec(), 4096).unwrap();
        let nonce = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0".to_owned();
        let (server, second) = Exchange::with_nonce(first, credentials, &nonce);
        assert_eq!(
            second,
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let third = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                     p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(
            server.finish(third.as_bytes()).unwrap(),
            "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
        );
    }

    #[test]
    fn messages_of_another_shape_are_refused() {
        for first in [
            "",
            "n",
            "n,,",
            "n,,r=abc",
            "y,,n=a",
            "p=tls-unique,,n=a,r=b",
            "n,,n=,r=b",
            "n,,n=a,r=",
            "n,a=x,n=a,r=b",
            "n,,m=1,n=a,r=b",
            "n,,n=a=2D,r=b",
        ] {
            assert!(ClientFirst::parse(first.as_bytes()).is_err(), "{first}");
        }
        assert!(ClientFirst::parse(b"n,,n=\xff,r=b").is_err());
        assert_eq!(ClientFirst::parse(b"y,,n=a=2Cb=3D,r=x").unwrap().user, "a,b=");
        let credentials = Credentials::salted(Mechanism::Sha256, "a", "p", vec![1; 28], 4096).unwrap();
        let first = ClientFirst::parse(b"n,,n=a,r=x").unwrap();
        let (server, second) = Exchange::with_nonce(first, credentials, "y");
        assert!(second.starts_with("r=xy,s="));
        for third in [
            "",
            "c=biws",
            "c=biws,r=xy",
            "c=biws,r=xz,p=AAAA",
            "c=eSws,r=xy,p=AAAA",
            "c=biws,r=xy,p=?",
            "c=biws,r=xy,p=AAAA",
        ] {
            assert!(server.finish(third.as_bytes()).is_err(), "{third}");
        }
    }
}
