//! Stores some films, and finds them.

use treedb_client::bson::rawdoc;
use treedb_client::{Client, Find, Result, Shape, values};

fn main() -> Result<()> {
    // The address that `treedb serve --native 127.0.0.1:27117` listens on.
    films("127.0.0.1:27117")
}

pub(crate) fn films(address: &str) -> Result<()> {
    let mut client = Client::connect(address)?;
    client.insert_one("shop.films", &rawdoc! { "_id": 1, "title": "Alien", "year": 1979 })?;
    client.insert_one("shop.films", &rawdoc! { "_id": 2, "title": "Brazil", "year": 1985 })?;
    assert!(client.get("shop.films", 1)?.is_some());

    let filter = rawdoc! { "year": { "$lt": 1990 } };
    for film in client.find(&Find::new("shop.films", &filter).limit(10))? {
        println!("{:?}", film?);
    }

    // What is done often is sent once, and then only the values.
    let filter = rawdoc! { "year": { "$gte": { "$param": 0 } } };
    let since =
        client.prepare("shop.films", Shape::Find { filter: &filter, sort: None, projection: None })?;
    assert_eq!(client.execute_find(since, &values([1980]), 0)?.count(), 1);

    // Several requests that do not wait for each other; answers may be taken in any order.
    let mut pipeline = client.pipeline();
    let tickets = (0..100_u32)
        .map(|n| pipeline.kv_put("squares", &n.to_be_bytes(), &(n * n).to_be_bytes()))
        .collect::<Result<Vec<_>>>()?;
    for ticket in tickets {
        pipeline.wait(ticket)?;
    }
    Ok(())
}
