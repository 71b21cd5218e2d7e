// The Node driver.
import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { after, before, test } from 'node:test';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import {
  Binary, Decimal128, Double, GridFSBucket, Int32, Long, MongoClient, MongoBulkWriteError, MongoClientBulkWriteError,
  MongoServerError, ObjectId,
  Timestamp, UUID,
} from 'mongodb';
import { collect, connect, uri } from './connect.mjs';

let client, db;
before(async () => {
  client = await connect();
  db = client.db('node_driver');
  await db.dropDatabase();
});
after(async () => {
  await db.dropDatabase();
  await client.close();
});

async function rejects(work, code, name) {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof MongoServerError, String(error));
    assert.equal(error.code, code, error.message);
    if (name) assert.equal(error.codeName, name);
    return true;
  });
}

test('a wrong password is refused', async () => {
  const wrong = new MongoClient(uri, { auth: { username: 'root', password: 'wrong' }, serverSelectionTimeoutMS: 5000 });
  await rejects(wrong.db('x').command({ listCollections: 1 }), 18, 'AuthenticationFailed');
  await wrong.close();
  await db.command({ ping: 1 });
});

test('documents are created, read, updated and deleted', async () => {
  const films = db.collection('films');
  const { insertedIds } = await films.insertMany([{ title: 'a', year: 1990 }, { title: 'b', year: 1991, cast: ['x', 'y'] }]);
  assert.ok(insertedIds[0] instanceof ObjectId);
  assert.equal((await films.findOne({ cast: 'y' })).title, 'b');
  const updated = await films.updateMany({ year: { $gte: 1990 } }, { $inc: { year: 10 }, $push: { cast: { $each: ['z'] } } });
  assert.deepEqual([updated.matchedCount, updated.modifiedCount], [2, 2]);
  const upserted = await films.updateOne({ title: 'c' }, { $setOnInsert: { year: 2020 } }, { upsert: true });
  assert.equal(upserted.upsertedCount, 1);
  const before = await films.findOneAndUpdate({ title: 'c' }, { $set: { seen: true } });
  assert.equal(before.seen, undefined);
  const replaced = await films.findOneAndReplace({ title: 'c' }, { title: 'd' }, { returnDocument: 'after', projection: { _id: 0 } });
  assert.deepEqual(replaced, { title: 'd' });
  assert.equal((await films.deleteMany({ title: { $in: ['a', 'd'] } })).deletedCount, 2);
  assert.deepEqual(await films.distinct('cast'), ['x', 'y', 'z']);
  assert.equal(await films.countDocuments(), 1);
  assert.equal(await films.estimatedDocumentCount(), 1);
});

test('every type of BSON comes back as it was sent', async () => {
  const document = {
    _id: new ObjectId(), int: new Int32(5), long: Long.fromString('9007199254740993'), double: new Double(1.5),
    decimal: Decimal128.fromString('1.10'), text: 'é\u0000x', date: new Date(0), binary: new Binary(Buffer.from([0, 255])),
    uuid: new UUID(), regex: /a+/i, timestamp: new Timestamp({ t: 5, i: 6 }), nothing: null, list: [1, [2]], nested: { a: { b: true } },
  };
  await db.collection('types').insertOne(document);
  const options = { promoteValues: false, promoteLongs: false };
  const found = await db.collection('types').findOne({ _id: document._id }, options);
  assert.equal(found.long.toString(), '9007199254740993');
  assert.equal(found.decimal.toString(), '1.10');
  assert.ok(found.double instanceof Double && found.int instanceof Int32);
  assert.deepEqual(new UUID(found.uuid.toUUID()).toString(), document.uuid.toString());
  assert.deepEqual(Object.keys(found), Object.keys(document));
});

test('a bulk write reports what it did and which operations failed', async () => {
  const items = db.collection('bulk');
  await items.createIndex({ n: 1 }, { unique: true });
  const done = await items.bulkWrite([
    { insertOne: { document: { n: 1 } } }, { insertOne: { document: { n: 2 } } },
    { updateOne: { filter: { n: 2 }, update: { $set: { x: 1 } } } }, { deleteOne: { filter: { n: 1 } } },
    { replaceOne: { filter: { n: 7 }, replacement: { n: 7 }, upsert: true } },
  ]);
  assert.deepEqual([done.insertedCount, done.modifiedCount, done.deletedCount, done.upsertedCount], [2, 1, 1, 1]);
  await assert.rejects(items.insertMany([{ n: 3 }, { n: 2 }, { n: 4 }], { ordered: false }), (error) => {
    assert.ok(error instanceof MongoBulkWriteError);
    assert.equal(error.code, 11000);
    assert.equal(error.result.insertedCount, 2);
    assert.equal(error.writeErrors[0].index, 1);
    return true;
  });
});

test('a bulk write of the client writes to several collections', async () => {
  const [a, b] = ['client_bulk_a', 'client_bulk_b'].map((name) => `${db.databaseName}.${name}`);
  const done = await client.bulkWrite([
    { name: 'insertOne', namespace: a, document: { _id: 1, n: 1 } }, { name: 'insertOne', namespace: b, document: { _id: 1 } },
    { name: 'updateOne', namespace: a, filter: { _id: 1 }, update: { $inc: { n: 1 } } },
    { name: 'replaceOne', namespace: b, filter: { _id: 2 }, replacement: { n: 2 }, upsert: true },
    { name: 'updateMany', namespace: b, filter: {}, update: [{ $set: { v: '$$v' } }] },
    { name: 'deleteOne', namespace: b, filter: { _id: 1 } },
  ], { verboseResults: true, let: { v: 7 } });
  assert.deepEqual([done.insertedCount, done.matchedCount, done.modifiedCount, done.upsertedCount, done.deletedCount], [2, 3, 3, 1, 1]);
  assert.deepEqual(done.insertResults.get(0), { insertedId: 1 });
  assert.equal(done.updateResults.get(3).upsertedId, 2);
  assert.equal(done.deleteResults.get(5).deletedCount, 1);
  assert.deepEqual(await db.collection('client_bulk_b').find().toArray(), [{ _id: 2, n: 2, v: 7 }]);
  const twice = [3, 3, 4].map((_id) => ({ name: 'insertOne', namespace: a, document: { _id } }));
  await assert.rejects(client.bulkWrite(twice, { ordered: false }), (error) => {
    assert.ok(error instanceof MongoClientBulkWriteError, String(error));
    assert.deepEqual([...error.writeErrors].map(([at, { code }]) => [at, code]), [[1, 11000]]);
    assert.equal(error.partialResult.insertedCount, 2);
    return true;
  });
  const session = client.startSession();
  await session.withTransaction(() => client.bulkWrite([
    { name: 'insertOne', namespace: a, document: { _id: 5 } }, { name: 'deleteMany', namespace: b, filter: {} },
  ], { session }));
  await session.endSession();
  assert.equal(await db.collection('client_bulk_a').countDocuments({ _id: 5 }), 1);
  assert.equal(await db.collection('client_bulk_b').countDocuments(), 0);
  const { acknowledged } = await client.bulkWrite([{ name: 'insertOne', namespace: b, document: { _id: 6 } }],
    { ordered: false, writeConcern: { w: 0 } });
  assert.equal(acknowledged, false);
});

test('indexes are made, listed, used and dropped', async () => {
  const items = db.collection('indexes');
  await items.insertMany(Array.from({ length: 200 }, (_, i) => ({ a: i % 10, b: i, when: new Date() })));
  assert.equal(await items.createIndex({ a: 1, b: -1 }, { name: 'ab' }), 'ab');
  await items.createIndexes([{ key: { b: 1 }, unique: true, partialFilterExpression: { b: { $gt: 5 } } },
    { key: { when: 1 }, expireAfterSeconds: 3600 }]);
  const names = (await items.listIndexes().toArray()).map((index) => index.name);
  assert.deepEqual(names, ['_id_', 'ab', 'b_1', 'when_1']);
  const plan = await items.find({ a: 3 }).sort({ b: -1 }).explain('executionStats');
  assert.equal(plan.executionStats.nReturned, 20);
  assert.equal(plan.executionStats.totalDocsExamined, 20);
  await rejects(items.insertOne({ b: 150 }), 11000);
  await rejects(items.createIndex({ a: -1 }, { name: 'ab' }), 86, 'IndexKeySpecsConflict');
  await items.dropIndex('ab');
  assert.equal(await items.indexExists('ab'), false);
});

test('an aggregation runs over several batches and collections', async () => {
  await db.collection('orders').insertMany(Array.from({ length: 500 }, (_, i) => ({ _id: i, customer: i % 50, price: i })));
  await db.collection('customers').insertMany(Array.from({ length: 50 }, (_, i) => ({ _id: i, name: `c${i}` })));
  const rows = await db.collection('orders').aggregate([
    { $match: { price: { $gte: 100 } } },
    { $group: { _id: '$customer', total: { $sum: '$price' }, orders: { $push: '$_id' } } },
    { $lookup: { from: 'customers', localField: '_id', foreignField: '_id', as: 'customer' } },
    { $unwind: '$customer' },
    { $sort: { total: -1 } },
    { $project: { _id: 0, name: '$customer.name', total: 1, count: { $size: '$orders' } } },
  ], { batchSize: 7 }).toArray();
  assert.equal(rows.length, 50);
  const prices = [149, 199, 249, 299, 349, 399, 449, 499];
  assert.deepEqual(rows[0], { total: prices.reduce((sum, price) => sum + price), name: 'c49', count: 8 });
});

test('a cursor goes beyond one batch, and closes early', async () => {
  const items = db.collection('many');
  await items.insertMany(Array.from({ length: 1000 }, (_, i) => ({ _id: i })));
  const seen = [];
  for await (const item of items.find().sort({ _id: 1 }).batchSize(100)) seen.push(item._id);
  assert.deepEqual(seen, Array.from({ length: 1000 }, (_, i) => i));
  const cursor = items.find().batchSize(10);
  await cursor.next();
  const id = cursor.id;
  await cursor.close();
  await rejects(db.command({ getMore: id, collection: 'many' }), 43, 'CursorNotFound');
});

test('a transaction commits all of it, or none', async () => {
  const accounts = db.collection('accounts');
  await accounts.insertMany([{ _id: 'a', n: 10 }, { _id: 'b', n: 0 }]);
  const transfer = (amount) => client.withSession((session) => session.withTransaction(async () => {
    await accounts.updateOne({ _id: 'b' }, { $inc: { n: amount } }, { session });
    const { n } = await accounts.findOneAndUpdate({ _id: 'a' }, { $inc: { n: -amount } }, { session, returnDocument: 'after' });
    if (n < 0) throw new Error('not enough');
    return n;
  }));
  assert.equal(await transfer(4), 6);
  await assert.rejects(transfer(7), /not enough/);
  assert.deepEqual(await accounts.find().sort({ _id: 1 }).toArray(), [{ _id: 'a', n: 6 }, { _id: 'b', n: 4 }]);
});

test('transactions that meet are tried again until each has had its turn', async () => {
  const counter = db.collection('counter');
  await counter.insertOne({ _id: 1, n: 0 });
  await Promise.all(Array.from({ length: 8 }, () => client.withSession((session) => session.withTransaction(async () => {
    const { n } = await counter.findOne({ _id: 1 }, { session });
    await counter.updateOne({ _id: 1 }, { $set: { n: n + 1 } }, { session });
  }))));
  assert.equal((await counter.findOne({ _id: 1 })).n, 8);
});

test('a change stream shows changes and resumes after its token', async () => {
  const watched = db.collection('watched');
  await watched.insertOne({ _id: 0 });
  const stream = watched.watch([{ $match: { operationType: { $ne: 'drop' } } }], { fullDocument: 'updateLookup' });
  const events = collect(stream, 3);
  await new Promise((resolve) => setTimeout(resolve, 300));
  await watched.insertOne({ _id: 1, a: 1 });
  await watched.updateOne({ _id: 1 }, { $set: { a: 2 } });
  await watched.deleteOne({ _id: 1 });
  const [insert, update, remove] = await events;
  assert.deepEqual([insert.operationType, update.operationType, remove.operationType], ['insert', 'update', 'delete']);
  assert.deepEqual(update.updateDescription.updatedFields, { a: 2 });
  await stream.close();
  const again = watched.watch([], { resumeAfter: insert._id });
  assert.equal((await again.next()).operationType, 'update');
  await again.close();
});

test('a write whose connection breaks is sent again, and done once', async () => {
  const once = db.collection('once');
  await once.insertOne({ _id: 0, n: 0 });
  for (const failure of [{ closeConnection: true }, { errorCode: 10107, errorLabels: ['RetryableWriteError'] }]) {
    await client.db('admin').command({ configureFailPoint: 'failCommand', mode: { times: 1 },
      data: { failCommands: ['update'], ...failure } });
    await once.updateOne({ _id: 0 }, { $inc: { n: 1 } });
  }
  assert.equal((await once.findOne()).n, 2);
  // The write was done, and the answer lost.
  await client.db('admin').command({ configureFailPoint: 'onPrimaryTransactionalWrite', mode: { times: 1 }, data: { closeConnection: true } });
  await once.updateOne({ _id: 0 }, { $inc: { n: 1 } });
  assert.equal((await once.findOne()).n, 3);
});

test('a read whose connection breaks is sent again', async () => {
  await client.db('admin').command({ configureFailPoint: 'failCommand', mode: { times: 1 },
    data: { failCommands: ['find'], closeConnection: true } });
  assert.equal(await db.collection('once').findOne({ _id: 'nobody' }), null);
});

test('errors have the codes and names that applications look for', async () => {
  const items = db.collection('errors');
  await items.insertOne({ _id: 1 });
  await rejects(items.insertOne({ _id: 1 }), 11000);
  await rejects(items.find({ $bad: 1 }).toArray(), 2, 'BadValue');
  await rejects(items.updateOne({}, { $set: { _id: 2 } }), 66);
  await rejects(db.command({ nonsense: 1 }), 59, 'CommandNotFound');
  await rejects(db.createCollection('errors', { capped: true, size: 1000 }), 48, 'NamespaceExists');
  await rejects(items.aggregate([{ $nonsense: 1 }]).toArray(), 40324);
  await db.command({ collMod: 'errors', validator: { n: { $type: 'int' } } });
  await rejects(items.insertOne({ n: 'text' }), 121);
  await rejects(items.find({}, { maxTimeMS: 1 }).sort({ a: 1 }).hint('nothing').toArray(), 2);
});

test('files of GridFS come back whole, by range, and are gone when deleted', async () => {
  const bucket = new GridFSBucket(db, { chunkSizeBytes: 100_000 });
  const content = randomBytes(1_234_567);
  const upload = bucket.openUploadStream('photo', { metadata: { by: 'ann' } });
  await pipeline(Readable.from([content]), upload);
  const chunks = [];
  for await (const chunk of bucket.openDownloadStreamByName('photo')) chunks.push(chunk);
  const digest = (data) => createHash('sha256').update(data).digest('hex');
  assert.equal(digest(Buffer.concat(chunks)), digest(content));
  const part = [];
  for await (const chunk of bucket.openDownloadStream(upload.id, { start: 250_000, end: 450_000 })) part.push(chunk);
  assert.equal(digest(Buffer.concat(part)), digest(content.subarray(250_000, 450_000)));
  assert.equal((await bucket.find({ 'metadata.by': 'ann' }).next()).length, content.length);
  await bucket.delete(upload.id);
  assert.equal(await db.collection('fs.chunks').countDocuments(), 0);
});

test('compressed messages are understood both ways', async () => {
  const compressed = await connect({ compressors: ['zlib'] });
  const items = compressed.db('node_driver').collection('compressed');
  await items.insertOne({ _id: 1, text: 'abc'.repeat(10_000) });
  assert.equal((await items.findOne()).text.length, 30_000);
  await compressed.close();
});
