// A shop: node shop.mjs seed | order CUSTOMER ITEM QUANTITY | report | watch
import { MongoClient } from 'mongodb';

const USAGE = 'usage: shop seed | order CUSTOMER ITEM QUANTITY | report | watch';
const STOCK = [['coffee', 7, 10], ['tea', 4, 20], ['sugar', 2, 5]];

class NotEnough extends Error {}

async function seed(shop) {
  for (const [name, price, stock] of STOCK) {
    await shop.collection('items').updateOne({ _id: name }, { $setOnInsert: { price, stock } }, { upsert: true });
  }
  await shop.collection('orders').createIndex({ item: 1, at: -1 });
  console.log(`${await shop.collection('items').countDocuments()} items in stock`);
}

async function order(shop, customer, name, quantity) {
  const left = await shop.client.withSession((session) => session.withTransaction(async () => {
    // The condition and the change are one operation; a transaction adds the order, or takes the change back.
    const item = await shop.collection('items').findOneAndUpdate(
      { _id: name, stock: { $gte: quantity } }, { $inc: { stock: -quantity } }, { returnDocument: 'after', session });
    if (!item) throw new NotEnough(`not enough ${name}`);
    await shop.collection('orders').insertOne(
      { customer, item: name, quantity, price: quantity * item.price, at: new Date() }, { session });
    return item.stock;
  }));
  console.log(`${customer} ordered ${quantity} ${name}, ${left} left`);
}

async function report(shop) {
  const rows = shop.collection('orders').aggregate([
    { $group: { _id: '$item', quantity: { $sum: '$quantity' }, orders: { $sum: 1 }, price: { $sum: '$price' } } },
    { $sort: { price: -1, _id: 1 } },
  ]);
  for await (const row of rows) console.log(`${row._id}: ${row.quantity} in ${row.orders} orders, ${row.price}`);
}

async function watch(shop) {
  const changes = shop.collection('orders').watch([{ $match: { operationType: 'insert' } }]);
  // The stream begins where the server is when it opens it, which the first look does.
  let change = await changes.tryNext();
  console.log('watching');
  for (;; change = await changes.next()) {
    if (!change) continue;
    const { customer, item, quantity } = change.fullDocument;
    console.log(`${customer}: ${quantity} ${item}`);
  }
}

const client = new MongoClient(process.env.SHOP_URI ?? 'mongodb://127.0.0.1:27017/?replicaSet=rs0');
const shop = client.db('shop');
const [command, ...rest] = process.argv.slice(2);
try {
  if (command === 'seed' && rest.length === 0) await seed(shop);
  else if (command === 'order' && rest.length === 3 && /^\d+$/.test(rest[2])) await order(shop, rest[0], rest[1], Number(rest[2]));
  else if (command === 'report' && rest.length === 0) await report(shop);
  else if (command === 'watch' && rest.length === 0) await watch(shop);
  else {
    console.error(USAGE);
    process.exitCode = 2;
  }
} catch (error) {
  if (!(error instanceof NotEnough)) throw error;
  console.error(error.message);
  process.exitCode = 1;
} finally {
  await client.close();
}
