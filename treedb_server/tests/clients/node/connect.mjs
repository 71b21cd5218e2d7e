// What the tests share: the server's connection string, and a database for each file.
import { MongoClient } from 'mongodb';

export const uri = process.env.TREEDB_URI;
if (!uri) throw new Error('TREEDB_URI is not set: run scripts/client_tests.sh node');

export async function connect(options = {}) {
  return new MongoClient(uri, { serverSelectionTimeoutMS: 5000, ...options }).connect();
}

// The connection string with a database in its path, as mongoose and mongosh take it.
export function uriOf(database) {
  return uri.replace('/?', `/${database}?`);
}

// The next `count` events of a change stream.
export async function collect(stream, count) {
  const events = [];
  for await (const event of stream) {
    events.push(event);
    if (events.length === count) break;
  }
  return events;
}
