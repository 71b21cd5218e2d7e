use bson::{Document, doc};

use super::super::statement::{Call, Statement, parse};
use super::collection::on_collection;
use super::cursor::on_cursor;
use super::database::on_database;
use super::{ON_COLLECTION, ON_CURSOR, ON_DATABASE, Plan, Show};

fn plan(text: &str) -> Result<Plan, String> {
    let parsed = parse(text, &|| Ok("secret".to_owned())).unwrap().unwrap().0;
    let Statement::Calls(calls) = parsed else { panic!("{text}") };
    Plan::of(&calls, "shop").map(Option::unwrap)
}

fn command(text: &str) -> Document {
    plan(text).unwrap_or_else(|error| panic!("{text}: {error}")).command
}

#[test]
fn methods_are_the_commands_that_drivers_send() {
    for (text, expected) in [
        (
            "db.a.find({x: 1}, {y: 1}).sort({z: -1}).skip(2).limit(5).hint('x_1')",
            doc! {"find": "a", "filter": {"x": 1}, "projection": {"y": 1}, "sort": {"z": -1}, "skip": 2, "limit": 5, "hint": "x_1"},
        ),
        ("db.a.find().limit(3).count()", doc! {"count": "a", "query": {}}),
        ("db.a.find({x: 1}).limit(3).size()", doc! {"count": "a", "query": {"x": 1}, "limit": 3}),
        ("db.a.findOne()", doc! {"find": "a", "filter": {}, "limit": 1, "singleBatch": true}),
        (
            "db.a.updateMany({x: 1}, {$set: {y: 2}}, {upsert: true})",
            doc! {"update": "a", "updates": [{"q": {"x": 1}, "u": {"$set": {"y": 2}}, "multi": true, "upsert": true}]},
        ),
        (
            "db.a.replaceOne({x: 1}, {y: 2})",
            doc! {"update": "a", "updates": [{"q": {"x": 1}, "u": {"y": 2}, "multi": false}]},
        ),
        ("db.a.deleteMany({})", doc! {"delete": "a", "deletes": [{"q": {}, "limit": 0}]}),
        ("db.a.deleteOne({x: 1})", doc! {"delete": "a", "deletes": [{"q": {"x": 1}, "limit": 1}]}),
        (
            "db.a.aggregate([{$match: {x: 1}}], {allowDiskUse: true})",
            doc! {"aggregate": "a", "pipeline": [{"$match": {"x": 1}}], "cursor": {}, "allowDiskUse": true},
        ),
        (
            "db.aggregate([{$currentOp: {}}])",
            doc! {"aggregate": 1, "pipeline": [{"$currentOp": {}}], "cursor": {}},
        ),
        (
            "db.a.countDocuments({x: 1}, {limit: 5})",
            doc! {"aggregate": "a", "pipeline": [{"$match": {"x": 1}}, {"$limit": 5}, {"$group": {"_id": 1, "n": {"$sum": 1}}}], "cursor": {}},
        ),
        (
            "db.a.createIndex({x: 1, y: -1, t: 'text'}, {unique: true})",
            doc! {"createIndexes": "a", "indexes": [{"key": {"x": 1, "y": -1, "t": "text"}, "name": "x_1_y_-1_t_text", "unique": true}]},
        ),
        (
            "db.a.findOneAndUpdate({x: 1}, {$inc: {n: 1}}, {returnDocument: 'after', projection: {n: 1}})",
            doc! {"findAndModify": "a", "query": {"x": 1}, "update": {"$inc": {"n": 1}}, "new": true, "fields": {"n": 1}},
        ),
        (
            "db.a.find({x: 1}).explain('executionStats')",
            doc! {"explain": {"find": "a", "filter": {"x": 1}}, "verbosity": "executionStats"},
        ),
        (
            "db.a.explain().aggregate([])",
            doc! {"explain": {"aggregate": "a", "pipeline": [], "cursor": {}}, "verbosity": "queryPlanner"},
        ),
        (
            "db.createUser({user: 'ann', pwd: passwordPrompt(), roles: []})",
            doc! {"createUser": "ann", "pwd": "secret", "roles": []},
        ),
        ("db.a.hideIndex('x_1')", doc! {"collMod": "a", "index": {"name": "x_1", "hidden": true}}),
        (
            "db.a.unhideIndex({x: 1})",
            doc! {"collMod": "a", "index": {"keyPattern": {"x": 1}, "hidden": false}},
        ),
        (
            "db.a.updateSearchIndex('near', {fields: []})",
            doc! {"updateSearchIndex": "a", "name": "near", "definition": {"fields": []}},
        ),
        ("db.fsyncLock()", doc! {"fsync": 1, "lock": true}),
        ("db.fsyncUnlock()", doc! {"fsyncUnlock": 1}),
        ("db.updateUser('ann', {pwd: 'x'})", doc! {"updateUser": "ann", "pwd": "x"}),
        ("db.runCommand('ping')", doc! {"ping": 1}),
    ] {
        assert_eq!(command(text), expected, "{text}");
    }
    for text in ["db.adminCommand({ping: 1})", "db.fsyncLock()", "db.getSiblingDB('x').fsyncUnlock()"] {
        assert_eq!(plan(text).unwrap().database, "admin", "{text}");
    }
    assert_eq!(plan("db.getSiblingDB('x').a.find()").unwrap().database, "x");
    let renamed = plan("db.a.renameCollection('b')").unwrap();
    assert_eq!(renamed.command, doc! {"renameCollection": "shop.a", "to": "shop.b", "dropTarget": false});
    let inserted = command("db.a.insertOne({x: 1})");
    let document = inserted.get_array("documents").unwrap()[0].as_document().unwrap();
    assert_eq!(document.keys().collect::<Vec<_>>(), ["_id", "x"]);
}

#[test]
fn wrong_calls_are_told_the_form() {
    for (text, what) in [
        ("db.a.fnd()", "did you mean find?"),
        ("db.a.xyzzy()", "help lists them"),
        ("db.runComand({ping: 1})", "did you mean runCommand?"),
        ("db.a.find().srt({a: 1})", "did you mean sort?"),
        ("db.a.find(5)", "find({filter}, {projection})"),
        ("db.a.deleteMany()", "deleteMany({filter})"),
        ("db.a.updateOne({}, {x: 1})", "$set"),
        ("db.a.replaceOne({}, {$set: {x: 1}})", "updateOne"),
        ("db.a.insertMany([1])", "only documents"),
        ("db.a.drop().sort({})", "nothing that sort"),
        ("db.a.drop(1, 2)", "drop()"),
        ("db.a.aggregate([]).limit(1)", "cursors have no method limit"),
    ] {
        let error = plan(text).unwrap_err();
        assert!(error.contains(what), "{text}: {error}");
    }
}

#[test]
fn an_explained_plan_is_explained_once_and_never_run() {
    let explained = |text: &str| plan(text).unwrap().explained("executionStats");
    let delete = doc! {"delete": "a", "deletes": [{"q": {"x": ".explain("}, "limit": 0}]};
    for text in ["db.a.deleteMany({x: '.explain('})", "db.a.deleteMany({x: '.explain('}) // old"] {
        let expected = doc! {"explain": delete.clone(), "verbosity": "executionStats"};
        assert_eq!(explained(text).command, expected, "{text}");
        assert_eq!(explained(text).show, Show::Reply);
    }
    let already = doc! {"explain": {"find": "a", "filter": {}}, "verbosity": "queryPlanner"};
    assert_eq!(explained("db.a.find({}).explain()").command, already);
    // A field of that name is no command.
    assert!(explained("db.runCommand({drop: 'a', explain: 1})").command.contains_key("verbosity"));
}

#[test]
fn every_method_that_help_lists_exists() {
    let is_known = |result: Result<(Document, Show), String>| match result {
        Ok(_) => true,
        Err(error) => !error.contains("have no method"),
    };
    let call = |name: &str| Call { name: name.to_owned(), arguments: vec![] };
    for (name, form) in ON_DATABASE {
        let elsewhere = ["auth", "getCollection", "getName", "getSiblingDB"];
        assert!(elsewhere.contains(name) || is_known(on_database(&call(name), "")), "{name}");
        assert!(form.starts_with(name));
    }
    for (name, form) in ON_COLLECTION {
        let elsewhere = ["explain", "renameCollection"];
        assert!(elsewhere.contains(name) || is_known(on_collection(&call(name), "a")), "{name}");
        assert!(form.starts_with(name));
    }
    for (name, form) in ON_CURSOR {
        let found = on_cursor(doc! {"find": "a"}, Show::Documents, &[call(name)]);
        assert!(is_known(found), "{name}");
        assert!(form.starts_with(name));
    }
}
