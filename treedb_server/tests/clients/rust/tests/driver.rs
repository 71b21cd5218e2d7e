//! The MongoDB driver for Rust against `treedb serve`.

use std::io::{Read, Write};

use mongodb::IndexModel;
use mongodb::bson::{Bson, Document, doc};
use mongodb::error::{Error, ErrorKind, Result, WriteFailure};
use mongodb::options::{ClientOptions, Credential, FullDocumentType, IndexOptions, ReturnDocument};
use mongodb::sync::{Client, Collection, Database};

fn uri() -> String {
    std::env::var("TREEDB_URI").expect("TREEDB_URI is not set: run scripts/client_tests.sh rust")
}

/// A database that is empty, and a client of its own.
fn database(name: &str) -> Result<(Client, Database)> {
    let client = Client::with_uri_str(uri())?;
    let database = client.database(&format!("rust_{name}"));
    database.drop().run()?;
    Ok((client, database))
}

fn items(database: &Database) -> Collection<Document> {
    database.collection("items")
}

fn code(error: &Error) -> Option<i32> {
    match error.kind.as_ref() {
        ErrorKind::Command(error) => Some(error.code),
        ErrorKind::Write(WriteFailure::WriteError(error)) => Some(error.code),
        ErrorKind::InsertMany(error) => Some(error.write_errors.as_ref()?.first()?.code),
        _ => None,
    }
}

fn fail_once(client: &Client, point: &str, data: Document) -> Result<Document> {
    client
        .database("admin")
        .run_command(doc! { "configureFailPoint": point, "mode": { "times": 1 }, "data": data })
        .run()
}

#[test]
fn documents_are_created_read_updated_and_deleted() -> Result<()> {
    let (_client, db) = database("crud")?;
    let films = items(&db);
    films
        .insert_many([
            doc! { "title": "a", "year": 1990 },
            doc! { "title": "b", "year": 1991, "cast": ["x", "y"] },
        ])
        .run()?;
    assert_eq!(films.find_one(doc! { "cast": "y" }).run()?.unwrap().get_str("title")?, "b");
    assert_eq!(films.update_many(doc! {}, doc! { "$inc": { "year": 10 } }).run()?.modified_count, 2);
    let upserted = films
        .find_one_and_update(doc! { "title": "c" }, doc! { "$set": { "year": 1 } })
        .upsert(true)
        .return_document(ReturnDocument::After)
        .run()?;
    assert_eq!(upserted.unwrap().get_i32("year")?, 1);
    assert_eq!(films.delete_many(doc! { "year": { "$gt": 1 } }).run()?.deleted_count, 2);
    assert_eq!(films.count_documents(doc! {}).run()?, 1);
    assert_eq!(films.distinct("title", doc! {}).run()?, vec![Bson::from("c")]);
    db.drop().run()
}

#[test]
fn indexes_batches_and_pipelines() -> Result<()> {
    let (_client, db) = database("indexes")?;
    let items = items(&db);
    items.insert_many((0..1000).map(|i| doc! { "_id": i, "a": i % 10, "u": i })).run()?;
    let unique = IndexOptions::builder().unique(true).build();
    items
        .create_indexes([
            IndexModel::builder().keys(doc! { "a": 1, "_id": -1 }).build(),
            IndexModel::builder().keys(doc! { "u": 1 }).options(unique).build(),
        ])
        .run()?;
    assert_eq!(items.list_index_names().run()?, ["_id_", "a_1__id_-1", "u_1"]);
    let twice = items.insert_one(doc! { "u": 5 }).run().unwrap_err();
    assert_eq!(code(&twice), Some(11000));
    let found: Result<Vec<_>> = items.find(doc! {}).sort(doc! { "_id": 1 }).batch_size(99).run()?.collect();
    assert!(found?.iter().enumerate().all(|(i, item)| item.get_i32("_id").ok() == i32::try_from(i).ok()));
    let rows: Result<Vec<_>> = items
        .aggregate([doc! { "$group": { "_id": "$a", "n": { "$sum": 1 } } }, doc! { "$sort": { "_id": 1 } }])
        .batch_size(3)
        .run()?
        .collect();
    assert_eq!(rows?, (0..10).map(|i| doc! { "_id": i, "n": 100 }).collect::<Vec<_>>());
    items.drop_index("u_1").run()?;
    items.insert_one(doc! { "u": 5 }).run()?;
    db.drop().run()
}

#[test]
fn transactions_that_meet_are_tried_again_until_each_has_had_its_turn() -> Result<()> {
    let (client, db) = database("transactions")?;
    items(&db).insert_one(doc! { "_id": 1, "n": 0 }).run()?;
    std::thread::scope(|scope| {
        let adders: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let items = items(&db);
                    client.start_session().run()?.start_transaction().and_run(|session| {
                        let found = items.find_one(doc! { "_id": 1 }).session(&mut *session).run()?.unwrap();
                        let n = found.get_i32("n").map_err(Error::custom)?;
                        items
                            .update_one(doc! { "_id": 1 }, doc! { "$set": { "n": n + 1 } })
                            .session(&mut *session)
                            .run()
                    })
                })
            })
            .collect();
        adders.into_iter().try_for_each(|adder| adder.join().unwrap().map(drop))
    })?;
    assert_eq!(items(&db).find_one(doc! {}).run()?, Some(doc! { "_id": 1, "n": 8 }));
    db.drop().run()
}

#[test]
fn an_aborted_transaction_leaves_nothing() -> Result<()> {
    let (client, db) = database("aborted")?;
    items(&db).insert_one(doc! { "_id": 0 }).run()?;
    let mut session = client.start_session().run()?;
    session.start_transaction().run()?;
    items(&db).insert_one(doc! { "_id": 1 }).session(&mut session).run()?;
    assert_eq!(items(&db).count_documents(doc! {}).session(&mut session).run()?, 2);
    session.abort_transaction().run()?;
    assert_eq!(items(&db).count_documents(doc! {}).run()?, 1);
    db.drop().run()
}

#[test]
fn a_change_stream_shows_changes_and_resumes() -> Result<()> {
    let (_client, db) = database("changes")?;
    let items = items(&db);
    items.insert_one(doc! { "_id": 0 }).run()?;
    let mut changes = items.watch().full_document(FullDocumentType::UpdateLookup).run()?;
    items.insert_one(doc! { "_id": 1 }).run()?;
    items.update_one(doc! { "_id": 1 }, doc! { "$set": { "a": 5 } }).run()?;
    let insert = changes.next().unwrap()?;
    assert_eq!(insert.full_document, Some(doc! { "_id": 1 }));
    assert_eq!(changes.next().unwrap()?.full_document, Some(doc! { "_id": 1, "a": 5 }));
    let mut again = db.watch().resume_after(insert.id).run()?;
    assert!(again.next().unwrap()?.update_description.is_some());
    db.drop().run()
}

#[test]
fn a_write_whose_connection_breaks_is_sent_again_and_done_once() -> Result<()> {
    let (client, db) = database("retries")?;
    let items = items(&db);
    items.insert_one(doc! { "_id": 1, "n": 0 }).run()?;
    // Of this name alone: the tests run at the same time, and the fail point would be taken by another's command.
    let namespace = format!("{}.items", db.name());
    fail_once(
        &client,
        "failCommand",
        doc! { "failCommands": ["update"], "closeConnection": true, "namespace": &namespace },
    )?;
    items.update_one(doc! { "_id": 1 }, doc! { "$inc": { "n": 1 } }).run()?;
    fail_once(
        &client,
        "failCommand",
        doc! { "failCommands": ["find"], "closeConnection": true, "namespace": &namespace },
    )?;
    assert_eq!(items.find_one(doc! {}).run()?, Some(doc! { "_id": 1, "n": 1 }));
    db.drop().run()
}

#[test]
fn errors_have_the_codes_that_applications_look_for() -> Result<()> {
    let (_client, db) = database("errors")?;
    let items = items(&db);
    items.insert_one(doc! { "_id": 1 }).run()?;
    let refused = |error: Error| code(&error).unwrap_or_else(|| panic!("{error}"));
    assert_eq!(refused(items.insert_many([doc! { "_id": 2 }, doc! { "_id": 1 }]).run().unwrap_err()), 11000);
    assert_eq!(refused(items.find(doc! { "$bad": 1 }).run().err().unwrap()), 2);
    assert_eq!(
        refused(items.update_one(doc! { "_id": 1 }, doc! { "$set": { "_id": 5 } }).run().unwrap_err()),
        66
    );
    assert_eq!(refused(items.aggregate([doc! { "$nonsense": 1 }]).run().err().unwrap()), 40324);
    assert_eq!(refused(db.run_command(doc! { "nonsense": 1 }).run().unwrap_err()), 59);
    let mut options = ClientOptions::parse(uri()).run()?;
    options.credential =
        Some(Credential::builder().username("root".to_string()).password("wrong".to_string()).build());
    let wrong =
        Client::with_options(options)?.database("x").run_command(doc! { "ping": 1 }).run().unwrap_err();
    assert!(matches!(wrong.kind.as_ref(), ErrorKind::Authentication { .. }), "{wrong}");
    db.drop().run()
}

#[test]
fn a_file_of_gridfs_comes_back_whole() -> Result<()> {
    let (_client, db) = database("files")?;
    let bucket = db.gridfs_bucket(None);
    let content: Vec<u8> = (0..1_234_567_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut upload = bucket.open_upload_stream("photo").run()?;
    upload.write_all(&content).map_err(Error::custom)?;
    upload.close().map_err(Error::custom)?;
    let mut found = Vec::new();
    bucket.open_download_stream(upload.id().clone()).run()?.read_to_end(&mut found).map_err(Error::custom)?;
    assert!(found == content);
    bucket.delete(upload.id().clone()).run()?;
    assert_eq!(db.collection::<Document>("fs.chunks").count_documents(doc! {}).run()?, 0);
    db.drop().run()
}
