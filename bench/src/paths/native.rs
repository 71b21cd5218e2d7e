//! TreeDB's protocol.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bench_common::Random;
use bson::{RawDocument, RawDocumentBuf, rawdoc};
use treedb_client::{
    Ack, AsyncClient, Find, FindWith, GetWith, InsertWith, Inserted, Prepared, Shape, values,
};

use super::client::{Client, Key};
use super::members::{Member, Members, shape};
use crate::Result;
use crate::server::{Beginning, Done, Process, nanos, runtime};

/// A connection that sends whole requests.
pub(super) struct Plain {
    client: treedb_client::Client,
    namespace: String,
}

impl Plain {
    /// Connects.
    pub(super) fn connect(address: &str, namespace: &str) -> Result<Plain> {
        Ok(Plain { client: treedb_client::Client::connect(address)?, namespace: namespace.to_owned() })
    }
}

impl Client for Plain {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        all_of(members, self.client.insert_many(&self.namespace, members, true)?)
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        match key {
            Key::Id => Ok(self.client.get(&self.namespace, value)?),
            Key::Email => {
                let filter = key.filter(value);
                let find = Find::new(&self.namespace, &filter).limit(1);
                Ok(self.client.find(&find)?.next().transpose()?)
            }
        }
    }
}

fn all_of(members: &[Member], inserted: Inserted) -> Result<()> {
    match inserted.errors.into_iter().next() {
        Some(error) => Err(error.into()),
        None if inserted.count as usize == members.len() => Ok(()),
        None => Err("not all documents were inserted".into()),
    }
}

/// The values of documents, as an insert that has been prepared takes them.
fn rows(members: &[Member]) -> Vec<&RawDocument> {
    members.iter().map(|member| &*member.values).collect()
}

/// The filter of the find that is prepared.
fn by_email() -> RawDocumentBuf {
    rawdoc! { "email": { "$param": 0_i32 } }
}

fn find_shape(filter: &RawDocument) -> Shape<'_> {
    Shape::Find { filter, sort: None, projection: None }
}

/// A connection with statements.
pub(super) struct Statements {
    client: treedb_client::Client,
    get: Prepared,
    find: Prepared,
    insert: Prepared,
}

impl Statements {
    /// Connects and prepares them.
    pub(super) fn connect(address: &str, namespace: &str) -> Result<Statements> {
        let mut client = treedb_client::Client::connect(address)?;
        Ok(Statements {
            get: client.prepare(namespace, Shape::Get)?,
            find: client.prepare(namespace, find_shape(&by_email()))?,
            insert: client.prepare(namespace, Shape::Insert(&shape()))?,
            client,
        })
    }
}

impl Client for Statements {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        all_of(members, self.client.execute_insert(self.insert, &rows(members), true)?)
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        match key {
            Key::Id => Ok(self.client.execute_get(self.get, value)?),
            Key::Email => Ok(self.client.execute_find(self.find, &values([value]), 1)?.next().transpose()?),
        }
    }
}

/// A connection with statements that tasks share.
#[derive(Clone)]
pub(super) struct Shared {
    client: AsyncClient,
    get: Prepared,
    find: Prepared,
    insert: Prepared,
}

impl Shared {
    /// Connects and prepares the statements.
    pub(super) fn connect(address: &str, namespace: &str) -> Result<Shared> {
        runtime()?.block_on(async {
            let client = AsyncClient::connect(address).await?;
            Ok(Shared {
                get: client.prepare(namespace, Shape::Get).await?,
                find: client.prepare(namespace, find_shape(&by_email())).await?,
                insert: client.prepare(namespace, Shape::Insert(&shape())).await?,
                client,
            })
        })
    }
}

impl Client for Shared {
    async fn insert(&mut self, members: &[Member]) -> Result<()> {
        let with = InsertWith { rows: rows(members), ordered: true, ack: Ack::Server };
        all_of(members, self.client.execute(self.insert, with).await?)
    }

    async fn find_one(&mut self, key: Key, value: &str) -> Result<Option<RawDocumentBuf>> {
        let values = values([value]);
        match key {
            Key::Id => Ok(self.client.execute(self.get, GetWith { values: &values }).await?),
            Key::Email => {
                let with = FindWith { batch: 0, skip: 0, limit: 1, values: &values };
                Ok(self.client.execute(self.find, with).await?.documents.into_iter().next())
            }
        }
    }
}

/// Requests that are sent together. Twice as many have no answer yet.
const TOGETHER: usize = 32;

/// Finds documents by `_id` for some time on one connection, without waiting for an answer before the next request.
pub(super) fn pipelined(
    server: &Process,
    namespace: &str,
    members: &Members,
    time: Duration,
    seed: u64,
) -> Result<Done> {
    let mut client = treedb_client::Client::connect(server.native()?)?;
    let get = client.prepare(namespace, Shape::Get)?;
    let mut pipeline = client.pipeline();
    let mut numbers = Random::new(seed, members.len() as u64);
    let mut latencies = Vec::new();
    let mut waiting = VecDeque::new();
    let begun = Beginning::now(Some(server))?;
    loop {
        let more = begun.at.elapsed() < time;
        let (send, keep) = if more { (TOGETHER, TOGETHER) } else { (0, 0) };
        for _ in 0..send {
            let member = &members[numbers.next().unwrap_or(0) as usize];
            waiting.push_back((member, Instant::now(), pipeline.execute_get(get, member.id.as_str())?));
        }
        while waiting.len() > keep {
            let Some((member, began, ticket)) = waiting.pop_front() else { break };
            let found = pipeline.wait(ticket)?;
            latencies.push(nanos(began));
            member.check(found.as_deref())?;
        }
        if !more {
            return begun.done(vec![latencies]);
        }
    }
}
