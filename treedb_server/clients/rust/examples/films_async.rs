//! Stores a film and finds some, while another task counts them.

use treedb_client::bson::rawdoc;
use treedb_client::{AsyncClient, Find};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

#[tokio::main]
async fn main() -> Result<()> {
    films("127.0.0.1:27117").await
}

pub(crate) async fn films(address: &str) -> Result<()> {
    let client = AsyncClient::connect(address).await?;
    client.insert_one("shop.films", &rawdoc! { "_id": 3, "title": "Crash", "year": 1996 }).await?;

    // One connection for any number of tasks, which share it by clones.
    let other = client.clone();
    let count = tokio::spawn(async move { other.count("shop.films", &rawdoc! {}).await });

    let filter = rawdoc! { "year": { "$gte": 1990 } };
    let mut films = client.find(&Find::new("shop.films", &filter)).await?;
    while let Some(film) = films.next().await {
        println!("{:?}", film?);
    }
    let count = count.await.map_err(std::io::Error::other)??;
    println!("{count} films");
    Ok(())
}
