// mongosh: the shell's helpers, each of which sends commands that no driver sends.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { test } from 'node:test';
import { uriOf } from './connect.mjs';

const SHELL = fileURLToPath(new URL('node_modules/mongosh/bin/mongosh.js', import.meta.url));

const PAGE = fileURLToPath(new URL('../../../../docs/from-mongodb.md', import.meta.url));

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

test('the helpers of administrators work', async () => {
  const found = await shell(`
    const admin = db.getSiblingDB('admin');
    db.dropDatabase();
    db.films.insertMany([{ _id: 1, year: 1990 }, { _id: 2, year: 1991 }]);
    db.films.createIndex({ year: 1 });
    db.createRole({ role: 'counter', privileges: [{ resource: { db: db.getName(), collection: 'films' }, actions: ['find'] }], roles: [] });
    db.createUser({ user: 'ann', pwd: 'secret', roles: ['counter'] });
    db.grantRolesToUser('ann', ['read']);
    const user = db.getUser('ann'), role = db.getRole('counter', { showPrivileges: true });
    db.dropUser('ann');
    db.dropRole('counter');
    const was = db.setProfilingLevel(2).was;
    db.films.find({ year: 1991 }).comment('profiled').toArray();
    db.setProfilingLevel(0);
    const profiled = db.system.profile.find({ 'command.comment': 'profiled' }).toArray();
    const sized = db.system.profile.stats().capped;
    db.system.profile.drop();
    const stream = db.films.watch();
    db.films.insertOne({ _id: 3 });
    let event = null;
    for (let i = 0; i < 100 && !event; i++) event = stream.tryNext();
    stream.close();
    const status = db.serverStatus(), oplog = db.getReplicationInfo();
    const answer = {
      host: rs.conf().members.length,
      user: user.roles.map(each => each.role).sort(),
      role: role.privileges[0].actions,
      users: db.getUsers().users.length,
      was, sized,
      profiled: profiled.map(each => each.planSummary),
      dropped: db.system.profile.countDocuments({}),
      event: [event?.operationType, event?.documentKey],
      status: [typeof status.asserts.user, status.metrics.cursor.timedOut, typeof status.transactions.totalStarted],
      returned: db.films.find({ year: 1991 }).explain('executionStats').executionStats.nReturned,
      killed: db.killOp(123456789).ok,
      oplog: [oplog.configuredLogSizeMB ?? oplog.logSizeMB, oplog.usedMB > 0, oplog.timeDiff >= 0],
      local: db.getSiblingDB('local').getCollectionNames().includes('oplog.rs'),
      databases: db.getMongo().getDBNames().filter(name => name === 'admin' || name === 'local').sort(),
      again: db.films.drop() && db.films.drop(),
    };
    db.createCollection('plain');
    db.createCollection('plain');
    db.dropDatabase();
    answer`);
  assert.deepEqual(found, {
    host: 1, user: ['counter', 'read'], role: ['find'], users: 0, was: 0, sized: true, profiled: ['IXSCAN { year: 1 }'], dropped: 0,
    event: ['insert', { _id: 3 }], status: ['number', 0, 'object'], returned: 1, killed: 1, oplog: [found.oplog[0], true, true], local: true,
    databases: ['admin', 'local'], again: true,
  });
  assert(found.oplog[0] > 0);
});

test('the statements of docs/from-mongodb.md work in mongosh', async () => {
  const page = await readFile(PAGE, 'utf8');
  const blocks = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, text]) => text);
  assert.ok(blocks.length >= 3);
  const run = async (script) => (await promisify(execFile)(process.execPath,
    [SHELL, uriOf('node_from_mongodb'), '--quiet', '--norc', '--eval', script], { timeout: 60_000 })).stdout;
  await run('db.dropAllUsers(); db.dropDatabase()');
  const shown = [];
  for (const block of blocks) shown.push(await run(block));
  await run('db.dropAllUsers(); db.dropDatabase()');
  assert.match(shown[0], /ann/);
  assert.match(shown.at(-1), /Aliens.*score: 1[^]*Alien'.*score: 0.99/);
});
