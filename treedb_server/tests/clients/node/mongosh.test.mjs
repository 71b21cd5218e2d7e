// mongosh: the shell's helpers, each of which sends commands that no driver sends.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'node:test';
import { uriOf } from './connect.mjs';

const SHELL = fileURLToPath(new URL('node_modules/mongosh/bin/mongosh.js', import.meta.url));

async function shell(script) {
  const { stdout } = await promisify(execFile)(process.execPath,
    [SHELL, uriOf('node_mongosh'), '--quiet', '--norc', '--json=relaxed', '--eval', script], { timeout: 60_000 });
  return JSON.parse(stdout);
}

test('the helpers of the shell work', async () => {
  const found = await shell(`
    db.dropDatabase();
    db.films.insertMany([{ _id: 1, year: 1990 }, { _id: 2, year: 1991 }]);
    db.films.createIndex({ year: 1 });
    const session = db.getMongo().startSession();
    session.withTransaction(() => session.getDatabase(db.getName()).films.insertOne({ _id: 3, year: 1992 }));
    db.films.updateOne({ _id: 1 }, { $inc: { year: 5 } });
    db.films.renameCollection('movies');
    db.createView('late', 'movies', [{ $match: { year: { $gt: 1991 } } }]);
    let code;
    try { db.movies.insertOne({ _id: 1 }) } catch (error) { code = error.code }
    const answer = {
      collections: db.getCollectionNames().sort(),
      late: db.late.find().sort({ _id: 1 }).toArray(),
      indexes: db.movies.getIndexes().map(index => index.name),
      count: db.movies.countDocuments({}),
      stage: db.movies.find({ year: 1991 }).explain().queryPlanner.winningPlan.stage,
      stats: db.movies.stats().count,
      views: db.stats().views,
      databases: db.adminCommand({ listDatabases: 1 }).databases.map(each => each.name).includes('node_mongosh'),
      valid: db.movies.validate().valid,
      set: rs.status().members.length,
      primary: db.hello().isWritablePrimary,
      build: db.version(),
      ops: Array.isArray(db.currentOp().inprog),
      profiling: db.getProfilingStatus().was,
      users: db.getSiblingDB('admin').getUsers().users.length,
      log: db.adminCommand({ getLog: 'startupWarnings' }).ok,
      group: db.movies.aggregate([{ $group: { _id: null, n: { $sum: '$year' } } }]).toArray(),
      code,
    };
    db.dropDatabase();
    answer`);
  assert.deepEqual(found, {
    collections: ['late', 'movies'], late: [{ _id: 1, year: 1995 }, { _id: 3, year: 1992 }], indexes: ['_id_', 'year_1'],
    count: 3, stage: 'FETCH', stats: 3, views: 1, databases: true, valid: true, set: 1, primary: true,
    build: found.build, ops: true, profiling: 0, users: 1, log: 1, group: [{ _id: null, n: 5978 }], code: 11000,
  });
});
