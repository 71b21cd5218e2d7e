//! The examples of the Rust client, which its documentation shows, against the server.

use std::path::Path;

use treedb_client::Find;

use crate::server::Server;

#[allow(dead_code, reason = "its main is not called")]
#[path = "../../clients/rust/examples/films_async.rs"]
mod asynchronous;
#[allow(dead_code, reason = "its main is not called")]
#[path = "../../clients/rust/examples/films.rs"]
mod blocking;

#[test]
fn the_examples_of_the_rust_client_do_what_they_say() {
    let server = Server::start();
    let address = server.address.to_string();
    blocking::films(&address).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(asynchronous::films(&address)).unwrap();
    let mut client = server.client();
    let all = bson::rawdoc! {};
    let titles: Vec<String> = client
        .find(&Find::new("shop.films", &all).sort(&bson::rawdoc! { "_id": 1 }))
        .unwrap()
        .map(|film| film.unwrap().get_str("title").unwrap().to_owned())
        .collect();
    assert_eq!(titles, ["Alien", "Brazil", "Crash"]);
    assert_eq!(client.kv_get("squares", &9_u32.to_be_bytes()).unwrap().unwrap(), 81_u32.to_be_bytes());
}

#[test]
fn the_page_of_the_rust_client_shows_its_examples() {
    let client = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/rust");
    let read = |name: &str| std::fs::read_to_string(client.join(name)).unwrap();
    let page = read("README.md");
    for example in ["examples/films.rs", "examples/films_async.rs"] {
        assert!(page.contains(&format!("```rust\n{}```", read(example))), "{example}");
    }
}
