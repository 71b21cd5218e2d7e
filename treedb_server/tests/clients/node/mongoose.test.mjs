// mongoose: schemas, validation, population, hooks, optimistic versions, transactions.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import mongoose from 'mongoose';
import { uriOf } from './connect.mjs';

const { Schema } = mongoose;
let Author, Book;
before(async () => {
  await mongoose.connect(uriOf('node_mongoose'), { serverSelectionTimeoutMS: 5000 });
  await mongoose.connection.dropDatabase();
  Author = mongoose.model('Author', new Schema({ name: { type: String, required: true, unique: true }, born: Number }, { timestamps: true }));
  Book = mongoose.model('Book', new Schema({
    title: { type: String, index: true },
    author: { type: Schema.Types.ObjectId, ref: 'Author' },
    tags: [String],
    ratings: [{ by: String, stars: { type: Number, min: 1, max: 5 } }],
    price: Schema.Types.Decimal128,
    extra: { type: Map, of: Number },
  }, { optimisticConcurrency: true }));
  await Promise.all([Author.init(), Book.init()]);
});
after(async () => {
  await mongoose.connection.dropDatabase();
  await mongoose.disconnect();
});

test('indexes of the schema are in the database', async () => {
  assert.deepEqual((await Author.listIndexes()).map((index) => [index.name, index.unique ?? false]), [['_id_', false], ['name_1', true]]);
  assert.deepEqual(await Book.diffIndexes(), { toDrop: [], toCreate: [] });
  await Book.syncIndexes();
});

test('documents are validated, saved, populated and changed', async () => {
  await assert.rejects(Author.create({ born: 1900 }), mongoose.Error.ValidationError);
  const ann = await Author.create({ name: 'Ann', born: 1900 });
  assert.ok(ann.createdAt instanceof Date);
  await assert.rejects(Author.create({ name: 'Ann' }), (error) => error.code === 11000 && error.keyPattern.name === 1);
  const book = await Book.create({ title: 'One', author: ann, tags: ['x'], price: '12.50', extra: { pages: 7 } });
  book.tags.push('y');
  book.ratings.push({ by: 'bob', stars: 5 });
  book.extra.set('weight', 3);
  await book.save();
  const found = await Book.findOne({ 'ratings.stars': { $gt: 4 } }).populate('author');
  assert.equal(found.author.name, 'Ann');
  assert.deepEqual([...found.tags], ['x', 'y']);
  assert.equal(found.price.toString(), '12.50');
  assert.equal(found.extra.get('weight'), 3);
  assert.deepEqual(await Book.findOne().select('title -_id').lean(), { title: 'One' });
});

test('the second of two who changed one document is told', async () => {
  await Book.create({ title: 'Two' });
  const [first, second] = await Promise.all([Book.findOne({ title: 'Two' }), Book.findOne({ title: 'Two' })]);
  first.title = 'Two!';
  await first.save();
  second.title = 'Two?';
  await assert.rejects(second.save(), mongoose.Error.VersionError);
});

test('queries, cursors, bulk writes and aggregations', async () => {
  await Author.insertMany(Array.from({ length: 300 }, (_, i) => ({ name: `author ${String(i).padStart(3, '0')}`, born: 1900 + i % 30 })));
  let seen = 0;
  for await (const author of Author.find({ name: /^author/ }).sort('name').cursor({ batchSize: 50 })) {
    assert.equal(author.name, `author ${String(seen).padStart(3, '0')}`);
    seen += 1;
  }
  assert.equal(seen, 300);
  const result = await Author.bulkWrite([
    { updateMany: { filter: { born: 1900 }, update: { $set: { born: 1850 } } } },
    { deleteMany: { filter: { born: 1901 } } },
  ]);
  assert.deepEqual([result.modifiedCount, result.deletedCount], [11, 10]);
  const [oldest] = await Author.aggregate().match({ born: { $lt: 1910 } }).group({ _id: '$born', n: { $sum: 1 } }).sort('_id').limit(1);
  assert.deepEqual(oldest, { _id: 1850, n: 11 });
  assert.equal(await Author.countDocuments().where('born').gte(1929), 10);
  const page = await Author.find({ born: 1905 }).skip(2).limit(3).sort('-name');
  assert.equal(page.length, 3);
});

test('a transaction that fails leaves its documents as they were', async () => {
  await Author.create({ name: 'Eve', born: 1 });
  await assert.rejects(mongoose.connection.transaction(async (session) => {
    const eve = await Author.findOne({ name: 'Eve' }).session(session);
    eve.born = 2;
    await eve.save({ session });
    await Author.create([{ name: 'Eve' }], { session });
  }), (error) => error.code === 11000);
  assert.equal((await Author.findOne({ name: 'Eve' })).born, 1);
});

test('a model can be watched', async () => {
  const stream = Author.watch([], { fullDocument: 'updateLookup' });
  const event = new Promise((resolve) => stream.once('change', resolve));
  await new Promise((resolve) => setTimeout(resolve, 400));
  await Author.create({ name: 'Zoe' });
  assert.equal((await event).fullDocument.name, 'Zoe');
  await stream.close();
});
