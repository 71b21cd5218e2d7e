#!/usr/bin/env python3
"""Versions of the extension and of what it stores: scripts/pg_versions.sh [TEST..]

Updates from every released version, dump and restore, pg_upgrade, indexes whose pages another version has written. What
versions of the extension have created is in treedb_pg/released/, and the pages of their indexes beside it.

`scripts/pg_versions.sh --write-pages` writes the pages of the present version, for a version that changes their format
(`--write-graphs` those of treedb_hnsw);
`--write-reference` writes the reference part of docs/postgres.md.
"""
import concurrent.futures
import contextlib
import gzip
import io
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

import bson
import psycopg
from psycopg.types.json import Json, Jsonb

import claims
import reference
from claims import PAGE, check, lines, one, refused, same, same_lines
from cluster import ROOT, Cluster, shell

RELEASED = ROOT / "treedb_pg" / "released"
SETTINGS = ["shared_buffers = 8MB", "max_locks_per_transaction = 128", "autovacuum = off"]

# Everything that is a member of the extension, with all that its definition says.
MEMBERS = """
WITH member AS (
    SELECT classid, objid FROM pg_depend
    WHERE refclassid = 'pg_extension'::regclass AND refobjid = (SELECT oid FROM pg_extension WHERE extname = 'treedb') AND deptype = 'e'
), named AS (
    SELECT m.classid, m.objid, i.type || ' ' || i.identity AS name FROM member m, LATERAL pg_identify_object(m.classid, m.objid, 0) i
)
SELECT name, 'comment', obj_description(objid, classid::regclass::name) FROM named
UNION ALL SELECT name, 'function', pg_get_functiondef(p.oid) || p.prosupport::regproc::text || coalesce(p.proacl::text, '')
    FROM named JOIN pg_proc p ON p.oid = objid AND classid = 'pg_proc'::regclass WHERE prokind <> 'a'
UNION ALL SELECT name, 'type', concat_ws(' ', typlen, typbyval, typtype, typcategory, typispreferred, typdelim, typinput, typoutput, typreceive, typsend,
    typmodin, typmodout, typanalyze, typsubscript, typalign, typstorage, typnotnull, typbasetype::regtype, typelem::regtype, typcollation, typdefault, typacl)
    FROM named JOIN pg_type t ON t.oid = objid AND classid = 'pg_type'::regclass
UNION ALL SELECT name, 'operator', concat_ws(' ', oprcode, oprrest, oprjoin, oprcom::regoperator, oprnegate::regoperator, oprcanmerge, oprcanhash, oprresult::regtype)
    FROM named JOIN pg_operator o ON o.oid = objid AND classid = 'pg_operator'::regclass
UNION ALL SELECT name, 'operator class', concat_ws(' ', opcdefault, opcintype::regtype, opckeytype::regtype, f.opfname)
    FROM named JOIN pg_opclass c ON c.oid = objid AND classid = 'pg_opclass'::regclass JOIN pg_opfamily f ON f.oid = opcfamily
UNION ALL SELECT name, 'operators of a family', concat_ws(' ', amoplefttype::regtype, amoprighttype::regtype, amopstrategy, amoppurpose, amopopr::regoperator, amopsortfamily)
    FROM named JOIN pg_amop a ON a.amopfamily = objid AND classid = 'pg_opfamily'::regclass
UNION ALL SELECT name, 'functions of a family', concat_ws(' ', amproclefttype::regtype, amprocrighttype::regtype, amprocnum, amproc::regprocedure)
    FROM named JOIN pg_amproc a ON a.amprocfamily = objid AND classid = 'pg_opfamily'::regclass
UNION ALL SELECT name, 'cast', concat_ws(' ', castfunc::regprocedure, castcontext, castmethod) FROM named JOIN pg_cast c ON c.oid = objid AND classid = 'pg_cast'::regclass
UNION ALL SELECT name, 'relation', concat_ws(' ', relkind, relacl, reloptions, CASE relkind WHEN 'v' THEN pg_get_viewdef(c.oid) END)
    FROM named JOIN pg_class c ON c.oid = objid AND classid = 'pg_class'::regclass
UNION ALL SELECT name, 'column', concat_ws(' ', attnum, attname, atttypid::regtype, attacl)
    FROM named JOIN pg_attribute a ON a.attrelid = objid AND classid = 'pg_class'::regclass AND attnum > 0
UNION ALL SELECT name, 'access method', concat_ws(' ', amhandler, amtype) FROM named JOIN pg_am a ON a.oid = objid AND classid = 'pg_am'::regclass
UNION ALL SELECT name, 'initial privileges', p.initprivs::text FROM named n JOIN pg_init_privs p ON p.objoid = n.objid AND p.classoid = n.classid
UNION ALL SELECT DISTINCT n.name, 'depends', d.deptype::text || ' ' || pg_describe_object(d.refclassid, d.refobjid, d.refobjsubid)
    FROM named n JOIN pg_depend d ON d.objid = n.objid AND d.classid = n.classid AND d.refclassid <> 'pg_extension'::regclass
UNION ALL SELECT DISTINCT n.name, 'needed by', d.deptype::text || ' ' || pg_describe_object(d.classid, d.objid, d.objsubid)
    FROM named n JOIN pg_depend d ON d.refobjid = n.objid AND d.refclassid = n.classid AND d.classid IN ('pg_amop'::regclass, 'pg_amproc'::regclass, 'pg_rewrite'::regclass)
"""

# A database with all that the extension offers, and whatever else refers to it.
FILL = """
CREATE SCHEMA shop;
SELECT treedb.create_collection('shop.items', '{"validator": {"$jsonSchema": {"required": ["sku"], "properties": {"price": {"minimum": 0}}}}, "validationLevel": "moderate", "validationAction": "error"}');
SELECT treedb.create_collection('"Odd name''s"');
SELECT treedb.create_index('shop.items', '{"price": 1, "sku": -1}'), treedb.create_index('shop.items', '{"tags": 1}'),
    treedb.create_index('shop.items', '{"stock": 1}', '{"sparse": true, "name": "in stock"}'),
    treedb.create_index('shop.items', '{"price": -1}', '{"partialFilterExpression": {"price": {"$gt": 50}}}'), treedb.create_index('shop.items', '{"until": 1}', '{"expireAfterSeconds": 3600}'),
    treedb.create_index('shop.items', '{"attributes.$**": 1}'), treedb.create_index('shop.items', '{"sku": "hashed"}'),
    treedb.create_index('shop.items', '{"name": 1}', '{"collation": {"locale": "de", "strength": 2}}'), treedb.create_index('shop.items', '{"hidden": 1}', '{"hidden": true}');
INSERT INTO shop.items (doc) SELECT jsonb_build_object('_id', i, 'sku', 'sku' || i, 'price', i % 100 / 2.0, 'tags', jsonb_build_array(i % 7, 'tag' || i % 11), 'name', CASE i % 3 WHEN 0 THEN 'Ä' ELSE 'a' END || i,
    'attributes', jsonb_build_object('k' || i % 5, i)) || CASE WHEN i % 4 = 0 THEN jsonb_build_object('stock', i) ELSE '{}' END FROM generate_series(1, 1500) i;
SELECT treedb.insert_one('"Odd name''s"', '{"_id": {"$oid": "000102030405060708090a0b"}, "d": {"$numberDecimal": "1.50"}, "b": {"$binary": {"base64": "AAEC", "subType": "04"}}, "n": {"$numberLong": "9007199254740993"}, "l": {"$numberLong": "5"}, "t": {"$timestamp": {"t": 1, "i": 2}}, "m": {"$minKey": 1}, "r": {"$regularExpression": {"pattern": "^a", "options": "i"}}, "f": {"$numberDouble": "NaN"}, "z": {"$numberDouble": "-0.0"}}');
ALTER TABLE shop.items ADD COLUMN sku text GENERATED ALWAYS AS (doc OPERATOR(treedb.->>) 'sku') STORED, ADD COLUMN added date DEFAULT '2026-01-01',
    ADD CONSTRAINT has_sku CHECK (doc OPERATOR(treedb.@@) '{"sku": {"$exists": true}}');
CREATE INDEX items_doc ON shop.items USING treedb_btree (doc treedb.bson_ops);
CREATE INDEX items_value ON shop.items USING treedb_btree ((doc OPERATOR(treedb.->) 'price') DESC NULLS LAST, sku) WHERE doc OPERATOR(treedb.?) 'stock';
CREATE INDEX items_by_btree ON shop.items ((doc OPERATOR(treedb.->) 'price'));
CREATE INDEX items_by_hash ON shop.items USING hash (doc);
COMMENT ON TABLE shop.items IS 'a collection';
CREATE VIEW shop.cheap AS SELECT doc OPERATOR(treedb.->>) 'sku' AS sku FROM shop.items WHERE doc OPERATOR(treedb.@@) '{"price": {"$lt": 3}}';
CREATE VIEW shop.found AS SELECT f FROM treedb.find('shop.items', '{"tags": 3}', '{"sort": {"_id": 1}, "limit": 5}') f;
CREATE MATERIALIZED VIEW shop.totals AS SELECT treedb.aggregate('shop.items', '[{"$group": {"_id": null, "n": {"$sum": 1}}}]') AS doc;
CREATE FUNCTION shop.total() RETURNS bigint LANGUAGE sql BEGIN ATOMIC SELECT treedb.count('shop.items', '{"price": {"$gt": 10}}'); END;
DO $$ BEGIN CREATE ROLE dump_reader; EXCEPTION WHEN duplicate_object THEN NULL; END $$;
GRANT USAGE ON SCHEMA shop, treedb TO dump_reader;
CREATE TABLE shop.secured (doc treedb.bson);
GRANT SELECT ON shop.items, shop.secured TO dump_reader;
ALTER TABLE shop.secured ENABLE ROW LEVEL SECURITY;
CREATE POLICY public_ones ON shop.secured FOR SELECT TO dump_reader USING (doc OPERATOR(treedb.@@) '{"public": true}');
INSERT INTO shop.secured VALUES ('{"public": true}'), ('{}');
CREATE TYPE shop.mood AS ENUM ('low', 'high');
CREATE DOMAIN shop.small AS treedb.bson CHECK (octet_length(treedb.bytea(VALUE)) < 1000);
CREATE TABLE shop.rows (id int PRIMARY KEY, n numeric, t text, c text COLLATE "de-x-icu", b bytea, u uuid, w timestamptz, m shop.mood, a int[], j jsonb, r int4range, s shop.small, v varchar(20)) USING treedb;
CREATE INDEX rows_several ON shop.rows USING treedb_btree (n DESC NULLS FIRST, c, id) INCLUDE (t) WITH (fillfactor = 70);
CREATE INDEX rows_text ON shop.rows USING treedb_btree (t treedb.text_pattern_ops);
CREATE INDEX rows_lower ON shop.rows USING treedb_btree (lower(t)) WHERE id > 100;
CREATE INDEX rows_rest ON shop.rows USING treedb_btree (b, u, w);
CREATE INDEX rows_more ON shop.rows USING treedb_btree (m, a, r, v);
CREATE INDEX rows_json ON shop.rows USING treedb_btree (j);
ALTER TABLE shop.rows ADD CONSTRAINT no_two EXCLUDE USING treedb_btree (u WITH =);
ALTER INDEX shop.rows_lower ALTER COLUMN 1 SET STATISTICS 200;
INSERT INTO shop.rows SELECT i, CASE WHEN i % 9 > 0 THEN i / 7.0 END, md5(i::text), CASE i % 2 WHEN 0 THEN 'Ö' ELSE 'o' END || i % 50, decode(md5(i::text), 'hex'), md5(i::text)::uuid, '2026-01-01'::timestamptz + i * interval '1 h',
    CASE i % 2 WHEN 0 THEN 'low' ELSE 'high' END::shop.mood, ARRAY[i % 5, i], jsonb_build_object('k', i % 13), int4range(i, i + 5), '{"s": 1}', 'v' || i FROM generate_series(1, 1200) i;
CREATE TABLE shop.parts (id int, k text) PARTITION BY RANGE (id);
CREATE TABLE shop.parts_1 PARTITION OF shop.parts FOR VALUES FROM (0) TO (500);
CREATE TABLE shop.parts_2 PARTITION OF shop.parts FOR VALUES FROM (500) TO (1000);
CREATE INDEX parts_k ON shop.parts USING treedb_btree (k, id);
INSERT INTO shop.parts SELECT i, md5(i::text) FROM generate_series(0, 999) i;
CREATE UNLOGGED TABLE shop.fleeting (k int) USING treedb;
CREATE INDEX fleeting_k ON shop.fleeting USING treedb_btree (k);
INSERT INTO shop.fleeting SELECT generate_series(1, 300);
CREATE OPERATOR CLASS shop.reversed FOR TYPE int4 USING treedb_btree AS OPERATOR 1 >, OPERATOR 2 >=, OPERATOR 3 =, OPERATOR 4 <=, OPERATOR 5 <,
    FUNCTION 1 btint4cmp(int4, int4), FUNCTION 11 treedb.kind_generic();
ANALYZE;
"""

UNIQUE = """SELECT treedb.create_index('shop.items', '{"sku": 1}', '{"unique": true}')"""
# Locations, and vectors in a column and in documents, which version 0.1.0 has not.
VECTORS = """;
CREATE TABLE shop.places (id int, e real[]);
INSERT INTO shop.places SELECT i, ARRAY[i % 7, i % 11, i] FROM generate_series(1, 400) i;
CREATE INDEX places_e ON shop.places USING treedb_hnsw (e treedb.real_cosine_ops) WITH (dimensions = 3, m = 8);
CREATE TABLE shop.signs (id int, b bit(12));
INSERT INTO shop.signs SELECT i, (i * 37)::bit(12) FROM generate_series(1, 400) i;
CREATE INDEX signs_b ON shop.signs USING treedb_hnsw (b treedb.bit_jaccard_ops);
SELECT treedb.update_many('shop.items', '{}', '[{"$set": {"place": ["$price", "$_id"], "at": {"type": "Point", "coordinates": ["$price", "$price"]}}}]');
SELECT treedb.create_index('shop.items', '{"place": "2d", "sku": 1}', '{"bits": 20, "min": -100.5, "max": 5000}'), treedb.create_index('shop.items', '{"price": 1, "at": "2dsphere"}');
SELECT treedb.create_search_index('shop.items', '{"fields": [{"type": "vector", "path": "place", "numDimensions": 2, "similarity": "euclidean"}]}', '{"name": "by place"}');
ANALYZE"""
# What that was in version 0.1.0.
OLD_UNIQUE = """CREATE UNIQUE INDEX items_sku_1 ON shop.items USING btree (treedb.unique_key(doc, '{"sku":1}'))"""

# What must be the same afterwards: definitions, then contents. (An owner has one privilege more since version 17.)
DEFINITIONS = """
SELECT 'relation', c.oid::regclass::text, c.relkind::text, coalesce(m.amname, ''), c.relpersistence::text, coalesce(c.reloptions::text, ''), coalesce(obj_description(c.oid, 'pg_class'), ''), replace(coalesce(c.relacl::text, ''), 'arwdDxtm', 'arwdDxt'), c.relrowsecurity
    FROM pg_class c LEFT JOIN pg_am m ON m.oid = c.relam WHERE c.relnamespace IN ('shop'::regnamespace, 'public'::regnamespace) AND c.relkind <> 't'
UNION ALL SELECT 'index', i.indexrelid::regclass::text, i.indisvalid::text, pg_get_indexdef(i.indexrelid), i.indisunique::text, '', '', '', false
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid WHERE c.relnamespace IN ('shop'::regnamespace, 'public'::regnamespace)
UNION ALL SELECT 'trigger', t.tgrelid::regclass::text, '', pg_get_triggerdef(t.oid), '', '', '', '', false FROM pg_trigger t WHERE NOT t.tgisinternal
UNION ALL SELECT 'constraint', n.conrelid::regclass::text, '', pg_get_constraintdef(n.oid), n.conname, '', '', '', false FROM pg_constraint n
    -- (what is not null is a constraint of its own since version 18)
    WHERE n.contype <> 'n' AND n.connamespace IN ('shop'::regnamespace, 'public'::regnamespace)
UNION ALL SELECT 'policy', p.polrelid::regclass::text, '', pg_get_expr(p.polqual, p.polrelid), '', '', '', '', false FROM pg_policy p
UNION ALL SELECT 'view', c.oid::regclass::text, '', pg_get_viewdef(c.oid), '', '', '', '', false FROM pg_class c WHERE c.relnamespace = 'shop'::regnamespace AND c.relkind IN ('v', 'm')
UNION ALL SELECT 'function', p.oid::regprocedure::text, '', pg_get_functiondef(p.oid), '', '', '', '', false FROM pg_proc p WHERE p.pronamespace = 'shop'::regnamespace AND p.prokind = 'f'
UNION ALL SELECT 'collection', l::text, '', treedb.collection_options(l::text)::text, '', '', '', '', false FROM treedb.list_collections() l
UNION ALL SELECT 'index of a collection', l::text, '', i::text, '', '', '', '', false FROM treedb.list_collections() l, LATERAL treedb.list_indexes(l::text) i
"""
TABLES = ["shop.items", '"Odd name\'s"', "shop.secured", "shop.rows", "shop.parts", "shop.fleeting", "shop.cheap", "shop.found", "shop.totals"]
QUESTIONS = [("shop.items", question) for question in (
    '{"price": {"$gte": 10, "$lt": 12}}', '{"tags": 3}', '{"tags": "tag4"}', '{"sku": "sku77"}', '{"stock": {"$gt": 1400}}', '{"price": {"$gt": 49}}',
    '{"attributes.k3": {"$lt": 100}}', '{"_id": {"$in": [1, 5, 700]}}', '{"name": "a1"}')]


def contents(db):
    """The rows of every table, and the answers to questions, by index and without."""
    found = lines(db, "SELECT '\"Odd name''s\"', encode(doc::bytea, 'hex') FROM \"Odd name's\"")
    for table in TABLES:
        found += [f"{table}: {line}" for line in lines(db, f"SELECT count(*), md5(string_agg(t::text, E'\\n' ORDER BY t::text COLLATE \"C\")) FROM {table} t")]
    for collection, question in QUESTIONS:
        answers = {line for options in ("{}", '{"hint": "$natural"}')
                   for line in lines(db, "SELECT count(*), md5(string_agg(d::text, '' ORDER BY d::text COLLATE \"C\")) FROM treedb.find(%s, %s, %s) d", (collection, question, options))}
        check(len(answers) == 1, f"{question}: by index and without: {answers}")
        check(not next(iter(answers)).startswith("0 "), f"{question} finds nothing")
        found.append(f"{question}: {answers}")
    for order in ("n DESC NULLS FIRST, c, id", "t USING ~<~", "b, u, w", "m, a, r, v", "j"):
        for setting in ("off", "on"):
            db.execute(f"SET enable_seqscan = {setting}; SET enable_sort = {setting}; SET enable_bitmapscan = off")
            found.append(f"{order}: " + lines(db, f"SELECT md5(string_agg(x::text, ',')) FROM (SELECT ({', '.join(part.split()[0] for part in order.split(', '))}) AS x FROM shop.rows ORDER BY {order}) y")[0])
    db.execute("RESET enable_seqscan; RESET enable_sort; RESET enable_bitmapscan")
    if one(db, "SELECT to_regclass('shop.places') IS NOT NULL"):
        found += lines(db, "SELECT s FROM treedb.list_search_indexes('shop.items') s")
        answers = [lines(db, "SELECT document, distance FROM treedb.vector_search('shop.items', 'by place', '{25, 700}', 5, '{\"tags\": 3}', %s)", (options,)) for options in ("{}", '{"exact": true}')]
        check(len(answers[0]) == 5, f"the nearest: {answers[0]}")
        same(answers[0], answers[1], "the nearest, by index and without")
        db.execute("SET enable_seqscan = off; SET enable_sort = off")
        found += answers[0] + lines(db, "SELECT id FROM shop.places ORDER BY e OPERATOR(treedb.<=>) '{1, 2, 3}' LIMIT 3")
        found += lines(db, "SELECT b OPERATOR(treedb.<%%>) B'101101101101' FROM shop.signs ORDER BY b OPERATOR(treedb.<%%>) B'101101101101' LIMIT 3")
        db.execute("RESET enable_seqscan; RESET enable_sort")
    return found


def sound(db):
    """Nothing is wrong with any index, and what refuses documents still does."""
    for table in ("shop.items", '"Odd name\'s"', "shop.rows", "shop.parts_1", "shop.parts_2", "shop.fleeting"):
        same(lines(db, "SELECT treedb.check(%s)", (table,)), [], f"check of {table}")
    same(lines(db, "SELECT treedb.check(c.oid) FROM pg_class c WHERE c.oid = to_regclass('shop.places')"), [], "check of shop.places")
    refused(db, """SELECT treedb.insert_one('shop.items', '{"sku": "new", "price": -1}')""", "23514", "validation")
    refused(db, """SELECT treedb.insert_one('shop.items', '{"sku": "sku5"}')""", "23505", "E11000")
    refused(db, """SELECT treedb.insert_one('shop.items', '{"_id": 5, "sku": "other"}')""", "23505", "_id")
    refused(db, "INSERT INTO shop.rows SELECT 0, n, t, c, b, u FROM shop.rows WHERE id = 3", "23P01")
    with db.transaction(force_rollback=True):
        db.execute("""INSERT INTO shop.items VALUES ('{"sku": "fresh"}')""")
        check(one(db, """SELECT doc OPERATOR(treedb.->) '_id' IS NOT NULL FROM shop.items WHERE sku = 'fresh'"""), "no _id was given")
        db.execute("SET LOCAL ROLE dump_reader")
        same(one(db, "SELECT count(*) FROM shop.secured"), 1, "rows that the policy shows")
        check(one(db, "SELECT treedb.count('shop.items', '{}')") > 0, "the reader may read")


@contextlib.contextmanager
def database(cluster, name, collations=True):
    """A new database, dropped in the end; with the collations that a server without ICU lacks, unless a dump brings them."""
    with cluster.connect() as db:
        db.execute(f"CREATE DATABASE {name}")
    try:
        with connect(cluster, name) as db:
            if collations:
                db.execute((ROOT / "treedb_pg" / "sql" / "collations.sql").read_text())
            yield db
    finally:
        with cluster.connect() as db:
            db.execute(f"DROP DATABASE {name} WITH (FORCE)")


def connect(cluster, name):
    return psycopg.connect(host=str(cluster.dir), port=cluster.port, user="postgres", dbname=name, autocommit=True)


@contextlib.contextmanager
def installable(version):
    """The script of a released version where the server looks for it."""
    place = pathlib.Path(shell('"$PG_CONFIG" --sharedir')) / "extension" / f"treedb--{version}.sql"
    shutil.copy(RELEASED / f"{version}.sql", place)
    try:
        yield
    finally:
        place.unlink()


def released():
    found = sorted(path.stem for path in RELEASED.glob("*.sql"))
    check(found, "no released version")
    return found


def an_update_from_each_released_version_leaves_what_a_new_installation_has(cluster):
    for version in released():
        with installable(version), database(cluster, "updated") as db, cluster.connect() as new:
            db.execute(f"CREATE EXTENSION treedb VERSION '{version}'")
            before = lines(db, MEMBERS)
            db.execute("ALTER EXTENSION treedb UPDATE")
            current = one(new, "SELECT default_version FROM pg_available_extensions WHERE name = 'treedb'")
            for session in (db, new):
                same(one(session, "SELECT extversion FROM pg_extension WHERE extname = 'treedb'"), current, "version")
                same(one(session, "SELECT obj_description(oid, 'pg_extension') FROM pg_extension WHERE extname = 'treedb'"),
                     one(new, "SELECT comment FROM pg_available_extensions WHERE name = 'treedb'"), "description")
            check(set(before) != set(lines(db, MEMBERS)), f"the update from {version} changes nothing")
            same_lines(lines(db, MEMBERS), lines(new, MEMBERS), f"after an update from {version}, and of a new installation")
    return ", ".join(released())


def what_an_earlier_version_made_works_before_and_after_the_update(cluster):
    for version in released():
        with installable(version), database(cluster, "updated") as db:
            db.execute(f"CREATE EXTENSION treedb VERSION '{version}'")
            db.execute(FILL)
            error = refused(db, UNIQUE, "55000", "earlier version")
            check("ALTER EXTENSION treedb UPDATE" in error.diag.message_hint, f"the hint is {error.diag.message_hint}")
            db.execute(OLD_UNIQUE)
            before = (lines(db, DEFINITIONS), contents(db))
            sound(db)
            db.execute("ALTER EXTENSION treedb UPDATE")
            same_lines(before[0], lines(db, DEFINITIONS), "definitions before and after")
            same_lines(before[1], contents(db), "contents before and after")
            sound(db)
            db.execute("SELECT treedb.drop_index('shop.items', 'sku_1');" + UNIQUE + VECTORS)
            contents(db)
            sound(db)


def the_extension_is_created_by_a_superuser_and_not_dropped_while_it_is_used(cluster):
    with database(cluster, "dropped") as db:
        db.execute("CREATE ROLE plain; ALTER DATABASE dropped OWNER TO plain; SET ROLE plain")
        refused(db, "CREATE EXTENSION treedb", "42501", "permission denied")
        db.execute("RESET ROLE; CREATE EXTENSION treedb; GRANT USAGE ON SCHEMA treedb TO plain; SET ROLE plain; CREATE SCHEMA own; SET search_path = own")
        db.execute("""SELECT treedb.create_collection('films'); SELECT treedb.insert_one('films', '{"_id": 1, "year": 1979}');
            SELECT treedb.create_index('films', '{"year": 1}'); ALTER TABLE films ADD note text DEFAULT 'kept';
            CREATE TABLE rows (id int, e real[]); INSERT INTO rows VALUES (1, '{1, 2}'); CREATE INDEX rows_id ON rows USING treedb_btree (id);
            CREATE INDEX rows_e ON rows USING treedb_hnsw (e) WITH (dimensions = 2); CREATE TABLE ours (id int) USING treedb""")
        same(lines(db, "SELECT * FROM treedb.find('films', '{}')"), ['{"_id":1,"year":1979}'], "documents of a user who may use the schema")
        db.execute("RESET ROLE")
        refused(db, "DROP EXTENSION treedb", "2BP01", "column doc of table films")
        db.execute("CREATE TABLE films_json AS SELECT doc::jsonb AS doc FROM films; DROP EXTENSION treedb CASCADE")
        same(lines(db, "SELECT * FROM films"), ["kept"], "what is left of a collection")
        same(lines(db, "SELECT * FROM films_json"), ["{'_id': 1, 'year': 1979}"], "documents that were saved")
        same(lines(db, "SELECT * FROM rows"), ["1 | [1.0, 2.0]"], "rows of a table with indexes")
        same(lines(db, "SELECT relname FROM pg_class WHERE relnamespace = 'own'::regnamespace AND relkind IN ('r', 'i') ORDER BY 1"), ["films", "films_json", "rows"], "relations")
        same(lines(db, "SELECT count(*) FROM pg_depend WHERE refclassid = 'pg_namespace'::regclass AND refobjid = 'treedb'::regnamespace"), ["0"], "objects in the schema")
        # It can be created again.
        db.execute("CREATE EXTENSION treedb; ALTER DATABASE dropped OWNER TO postgres; DROP SCHEMA own CASCADE; DROP OWNED BY plain; DROP ROLE plain")


def documents_are_parameters_as_drivers_send_them(cluster):
    with database(cluster, "drivers") as db:
        db.execute("CREATE EXTENSION treedb; SELECT treedb.create_collection('films')")
        # The example of the page.
        page = (ROOT / "docs" / "postgres.md").read_text()
        example = page.split("**From a driver**")[1].split("```python\n")[1].split("```")[0]
        place = f"host={cluster.dir} port={cluster.port} user=postgres dbname=drivers"
        check('"dbname=mydb"' in example, "the example connects")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(example.replace("dbname=mydb", place), {})  # noqa: S102 - it is ours
        same(printed.getvalue(), "Brazil\n", "what the example prints")
        same(lines(db, "SELECT doc OPERATOR(treedb.->) 'seen' FROM films"), ["true"], "what it changes")
        # And the other forms.
        db.execute("CREATE TABLE forms (doc treedb.bson)")
        document = {"n": 1}
        texts = [json.dumps(document), Jsonb(document)]
        for value in [*texts, Json(document), bson.encode(document)]:
            for form in ("%s", "%b", "%t"):
                if form != "%b" or not isinstance(value, str):
                    db.execute(f"INSERT INTO forms VALUES ({form}::treedb.bson)", [value])
        for cast in ("text", "varchar"):
            db.execute(f"INSERT INTO forms VALUES (%s::{cast}::treedb.bson)", texts[:1])
        db.execute("INSERT INTO forms VALUES (%s::bytea::treedb.bson)", [bson.encode(document)])
        same(set(lines(db, "SELECT doc FROM forms")), {'{"n":1}'}, "documents")
        for value in texts:
            same(one(db, "SELECT %s::treedb.bson_value", [value]), '{"n":1}', "a value")
        with db.cursor(binary=True) as cursor:
            same(bson.decode(cursor.execute("SELECT doc FROM forms LIMIT 1").fetchone()[0]), document, "a document in binary format")


def indexes_of_collections_are_built_and_dropped_beside_writers(cluster):
    with database(cluster, "beside") as db, connect(cluster, "beside") as writer:
        db.execute("CREATE EXTENSION treedb; SET search_path = public, treedb; SELECT create_collection('films')")
        db.execute("SELECT insert_many('films', array_agg(format('{\"_id\": %s, \"year\": %s}', n, n % 50)::bson)) FROM generate_series(1, 2000) n")
        page = (ROOT / "docs" / "postgres.md").read_text()
        statements = page.split("**Indexes while others write.**")[1].split("```sql\n")[1].split("```")[0].splitlines()
        same([statement.split()[0] for statement in statements], ["CREATE", "CREATE", "DROP"], "statements of the page")
        for number, statement in enumerate(statements):
            # It waits for the writer, and lets it write.
            writer.autocommit = False
            writer.execute("SELECT treedb.insert_one('films', %s::treedb.bson)", [json.dumps({"_id": f"before {number}", "year": 7})])
            with concurrent.futures.ThreadPoolExecutor() as pool:
                running = pool.submit(db.execute, statement)
                with cluster.connect() as other:
                    while not one(other, "SELECT count(*) FROM pg_stat_activity WHERE datname = 'beside' AND wait_event_type = 'Lock'"):
                        check(not running.done(), f"{statement} does not wait for the writer")
                        time.sleep(0.01)
                writer.execute("SELECT treedb.insert_one('films', %s::treedb.bson)", [json.dumps({"_id": f"while {number}", "year": 7})])
                writer.commit()
                running.result(60)
        same(lines(db, "SELECT i ->> 'name' FROM list_indexes('films') i"), ["_id_", "year_1"], "indexes")
        same(lines(db, "SELECT treedb.check('films')"), [], "check")
        same(one(db, "SELECT explain('{\"find\": \"films\", \"filter\": {\"year\": 7}}')::jsonb @? '$.** ? (@.indexName == \"year_1\")'"), True, "the plan uses it")
        same(one(db, "SELECT count('films', '{\"year\": 7}')"), 46, "documents")


def a_dump_restores_everything(cluster):
    file = cluster.dir / "dump"
    with database(cluster, "source") as db:
        db.execute("CREATE EXTENSION treedb")
        db.execute(FILL + UNIQUE + VECTORS)
        sound(db)
        before = (lines(db, DEFINITIONS), contents(db))
        for form in ("custom", "plain"):
            # Without the setting a small `long` comes back as an `int`.
            cluster.program("pg_dump", f"--format={form}", "-f", str(file), "-d", "dbname=source options='-c treedb.exact_text=on'")
            with database(cluster, "target", collations=False) as other:
                if form == "custom":
                    cluster.program("pg_restore", "--exit-on-error", "-j", "2", "-d", "target", str(file))
                else:
                    cluster.program("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-o", "/dev/null", "-d", "target", "-f", str(file))
                # (an unlogged or logged table's statistics are not in a dump, and not compared)
                same_lines(before[0], lines(other, DEFINITIONS), f"definitions, {form}")
                same_lines(before[1], contents(other), f"contents, {form}")
                sound(other)


def upgraded(old, new, fill):
    """Fills one cluster and carries it over to another with pg_upgrade, which copies the files of indexes as they are."""
    try:
        old.create()
        with old.connect() as db:
            db.execute(fill)
            before = (lines(db, DEFINITIONS), contents(db))
            sound(db)
            # Releases of 15 since November 2026 keep a version of each column among its options, which pg_upgrade carries over, and an earlier
            # release of a later version refuses.
            db.execute("UPDATE pg_attribute SET attoptions = NULL WHERE attoptions::text LIKE '{pg_attver=%}'")
            files = one(db, "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname IN ('treedb_btree', 'treedb_hnsw') AND c.relkind = 'i'")
            versions = [one(db, "SHOW server_version")]
        old.stop()
        new.initialize()
        arguments = ["-b", old.shell('echo "$PG_BIN"'), "-d", str(old.data), "-D", str(new.data), "-U", "postgres", "-p", old.port, "-P", new.port, "-s", str(new.dir)]
        for more in (["--check"], []):
            new.shell('cd "$1"; shift; as_pg "$PG_BIN/pg_upgrade" "$@" || { tail -n 12 data/pg_upgrade_output.d/*/log/pg_upgrade_*.log; exit 1; }', new.dir, *arguments, *more)
        new.start()
        with new.connect() as db:
            versions.append(one(db, "SHOW server_version"))
            same(one(db, "SELECT count(*) FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE a.amname = 'treedb_btree' AND c.relkind = 'i' AND pg_relation_size(c.oid) > 0") > 10, True, "indexes with pages")
            db.execute("ANALYZE")
            # The versions of the server do not write queries of views in the same words.
            old_words, new_words = ([line for line in definitions if versions[0][:2] == versions[1][:2] or not line.startswith("view")] for definitions in (before[0], lines(db, DEFINITIONS)))
            same_lines(old_words, new_words, "definitions")
            same_lines(before[1], contents(db), "contents")
            sound(db)
            # And they are written to, by the library of the new server.
            db.execute("UPDATE shop.rows SET n = n + 1; DELETE FROM shop.rows WHERE id % 3 = 1; SELECT treedb.delete_many('shop.items', '{\"tags\": 3}')")
            db.execute("VACUUM (INDEX_CLEANUP ON) shop.rows, shop.items")
            sound(db)
        return f"{files} indexes, from {versions[0]} to {versions[1]}"
    finally:
        old.close()
        new.close()


def pg_upgrade_carries_everything_over(cluster):
    """From one cluster to another of the same server version."""
    del cluster
    return upgraded(Cluster(SETTINGS), Cluster(SETTINGS), FILL + UNIQUE + VECTORS)


def pg_upgrade_from_15_carries_everything_over(cluster):
    """From the server of PG_CONFIG_15 to a later one. The later one may lack ICU: what needs a collation of ICU's stays out."""
    del cluster
    fill = FILL.replace('COLLATE "de-x-icu"', 'COLLATE "C"')
    check(fill != FILL, "a column with a collation of ICU's")
    return upgraded(Cluster(SETTINGS, os.environ["PG_CONFIG_15"]), Cluster(SETTINGS), fill + UNIQUE + VECTORS)


def indexes_of_another_page_version_ask_for_reindex(cluster):
    """Whether the version is older or newer: every use is an error that says REINDEX, and REINDEX helps."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE v (id int, t text)")
        db.execute("INSERT INTO v SELECT i, md5(i::text) FROM generate_series(1, 2000) i")
        for name in ("v_old", "v_new"):
            db.execute(f"CREATE INDEX {name} ON v USING treedb_btree (t)")
        paths = {name: one(db, "SELECT pg_relation_filepath(%s)", (name,)) for name in ("v_old", "v_new")}
        db.execute("SELECT treedb.create_collection('vc'); SELECT treedb.create_index('vc', '{\"a\": 1}'); SELECT treedb.insert_one('vc', '{\"_id\": 1, \"a\": 1}')")
        paths["vc_a_1"] = one(db, "SELECT pg_relation_filepath('vc_a_1')")
        db.execute("CREATE TABLE near (e real[]); INSERT INTO near SELECT ARRAY[i, i % 7] FROM generate_series(1, 300) i; CREATE INDEX near_e ON near USING treedb_hnsw (e) WITH (dimensions = 2)")
        paths["near_e"] = one(db, "SELECT pg_relation_filepath('near_e')")
    cluster.stop()
    # The version is the third pair of bytes of the meta page's payload.
    for name, version in (("v_old", 1), ("v_new", 999), ("vc_a_1", 1), ("near_e", 1)):
        path = cluster.data / paths[name]
        data = bytearray(path.read_bytes())
        check(data[24:28] == (b"TDBh" if name == "near_e" else b"TDBt"), "the meta page begins with its magic number")
        data[28:30] = version.to_bytes(2, "little")
        path.write_bytes(data)
    cluster.start()
    with cluster.connect() as db:
        for name, version in (("v_old", 1), ("v_new", 999)):
            for other in {"v_old", "v_new"} - {name}:
                db.execute(f"UPDATE pg_index SET indisvalid = false, indisready = false WHERE indexrelid = '{other}'::regclass")
            db.execute(f"UPDATE pg_index SET indisvalid = true, indisready = true WHERE indexrelid = '{name}'::regclass")
            db.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SET enable_sort = off")
            for statement in ("SELECT t FROM v ORDER BY t LIMIT 1", "SELECT id FROM v WHERE t = 'a'", "INSERT INTO v VALUES (0, 'x')", "VACUUM (INDEX_CLEANUP ON) v",
                              f"SELECT treedb.index_pages('{name}')"):
                if statement.startswith("VACUUM"):
                    db.execute("RESET enable_seqscan; SET enable_indexscan = off; SET enable_indexonlyscan = off; DELETE FROM v WHERE id % 3 = 0; RESET enable_indexscan; RESET enable_indexonlyscan")
                error = refused(db, statement, "XX002", f'index "{name}" was written by another version of treedb')
                check(f"pages of version {version}," in error.diag.message_detail, f"{statement}: the detail is {error.diag.message_detail}")
                check("REINDEX" in error.diag.message_hint, f"{statement}: the hint is {error.diag.message_hint}")
            check(any("REINDEX" in line or "pages of version" in line for line in lines(db, "SELECT treedb.check(%s)", (name,))), "treedb.check says so")
            db.execute(f"REINDEX INDEX {name}")
            same(lines(db, "SELECT treedb.check(%s)", (name,)), [], "check after REINDEX")
            same(lines(db, "SELECT t FROM v ORDER BY t LIMIT 1"), lines(db, "SELECT min(t) FROM v"), "answer after REINDEX")
        refused(db, """SELECT treedb.insert_one('vc', '{"a": 2}')""", "XX002", "pages of version 1")
        refused(db, """SELECT treedb.find('vc', '{"a": 1}')""", "XX002", "pages of version 1")
        # Queries that need not use the index are planned without it.
        for condition in ("@> '{\"a\": 1}'", "? 'a'", "@@ '{\"a\": 1}'"):
            operator, wanted = condition.split(" ", 1)
            same(lines(db, f"SELECT doc FROM vc WHERE doc OPERATOR(treedb.{operator}) {wanted}"), ['{"_id":1,"a":1}'], f"{condition} without the index")
        db.execute("""EXPLAIN SELECT * FROM treedb.find('vc', '{"a": 1}')""")
        db.execute("REINDEX INDEX vc_a_1")
        same(lines(db, """SELECT treedb.find('vc', '{"a": 1}')"""), ['{"_id":1,"a":1}'], "find after REINDEX")
        nearest = "SELECT e FROM near ORDER BY e OPERATOR(treedb.<->) '{7, 3}' LIMIT 1"
        db.execute("SET enable_seqscan = off; SET enable_sort = off; DELETE FROM near WHERE e[1] = 9")
        for statement in (nearest, "INSERT INTO near VALUES ('{7, 3}')", "VACUUM (INDEX_CLEANUP ON) near"):
            error = refused(db, statement, "XX002", 'index "near_e" was written by another version of treedb')
            check("pages of version 1," in error.diag.message_detail, f"{statement}: the detail is {error.diag.message_detail}")
            check("REINDEX" in error.diag.message_hint, f"{statement}: the hint is {error.diag.message_hint}")
        db.execute("REINDEX INDEX near_e")
        same(lines(db, "SELECT treedb.check('near')"), [], "check after REINDEX")
        same(one(db, nearest), [8.0, 1.0], "the nearest row after REINDEX")
        db.execute("DROP TABLE v, vc, near")


def an_index_has_the_lowest_page_version_that_its_leaves_need(cluster):
    """One without rows of equal values can be read by a library that knows no grouped leaves; one that gets such rows cannot any more."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE needs (id int, n numeric)")
        db.execute("CREATE INDEX needs_n ON needs USING treedb_btree (n)")
        path = cluster.data / one(db, "SELECT pg_relation_filepath('needs_n')")

        def version():
            db.execute("CHECKPOINT")
            return int.from_bytes(path.read_bytes()[28:30], "little")

        db.execute("INSERT INTO needs SELECT i, i FROM generate_series(1, 3000) i; DELETE FROM needs WHERE id % 2 = 0")
        db.execute("VACUUM needs")
        same(version(), 3, "version of an index of different values")
        db.execute("INSERT INTO needs SELECT i, i % 3 FROM generate_series(1, 3000) i")
        same(version(), 6, "version after rows with equal values")
        same(lines(db, "SELECT treedb.check('needs')"), [], "check")
        db.execute("DROP TABLE needs")


# An index of each kind of entry, over rows that always get the same addresses.
PAGES = {
    "int": "CREATE INDEX pages_int ON pages USING treedb_btree (id DESC, s)",
    "text": "CREATE INDEX pages_text ON pages USING treedb_btree (t COLLATE \"C\") INCLUDE (id)",
    "numeric": "CREATE INDEX pages_numeric ON pages USING treedb_btree (n, id) WITH (fillfactor = 60)",
    "keys": "SELECT treedb.create_index('pages', '{\"a\": 1, \"b\": -1}', '{\"name\": \"keys\"}')",
}


def make_pages(db):
    """A table whose indexes were built over some rows and have got others one by one; some are dead."""
    db.execute("SELECT treedb.create_collection('pages')")
    # The stored entries point to rows of full pages.
    db.execute("ALTER TABLE pages SET (fillfactor = 100)")
    db.execute("DROP TRIGGER treedb_id ON pages; DROP INDEX pages__id_")
    db.execute("ALTER TABLE pages ADD id int, ADD s smallint, ADD t text, ADD n numeric; ALTER TABLE pages SET (autovacuum_enabled = off)")
    rows = """INSERT INTO pages SELECT jsonb_build_object('_id', i, 'a', jsonb_build_array(i %% 40, 'x' || i %% 30), 'b', i / 4.0)::treedb.bson, i, i %% 5, repeat(md5(i::text), 1 + i %% 3),
              CASE WHEN i %% 7 > 0 THEN (i * 1.5)::numeric(10, 2) END FROM generate_series(%s, %s) i"""
    db.execute(rows % (1, 400))
    for statement in PAGES.values():
        db.execute(statement)
    for start in range(401, 700, 50):
        db.execute(rows % (start, start + 49))
    db.execute("DELETE FROM pages WHERE id BETWEEN 100 AND 130")


def with_stored_pages(cluster, version):
    """A table as [`make_pages`] makes it, with the stored files of a version in the place of its indexes'."""
    with cluster.connect() as db:
        make_pages(db)
        paths = {kind: one(db, "SELECT pg_relation_filepath(%s)", (f"pages_{kind}",)) for kind in PAGES}
    cluster.stop()
    stored = {kind: RELEASED / f"pages-v{version}-{kind}.gz" for kind in PAGES}
    stored = {kind: file for kind, file in stored.items() if file.exists()}
    for kind, file in stored.items():
        (cluster.data / paths[kind]).write_bytes(gzip.decompress(file.read_bytes()))
    cluster.start()
    return stored


def page_version(cluster):
    """The version that this library writes."""
    with cluster.connect() as db:
        db.execute("CREATE TABLE one (a int); CREATE INDEX one_a ON one USING treedb_btree (a)")
        db.execute("CHECKPOINT")
        path = cluster.data / one(db, "SELECT pg_relation_filepath('one_a')")
        version = int.from_bytes(path.read_bytes()[28:30], "little")
        db.execute("DROP TABLE one")
        return version


def stored_versions():
    found = sorted({int(file.name.split("-")[1].removeprefix("v")) for file in RELEASED.glob("pages-*.gz")})
    check(found, "no stored pages: scripts/pg_versions.sh --write-pages")
    return found


def stored_pages_of_the_present_format_are_read_and_written(cluster):
    """The stored files of indexes, put in the place of those that this library has made over the same rows."""
    version = page_version(cluster)
    check(version in stored_versions(), f"no stored pages of version {version}: scripts/pg_versions.sh --write-pages")
    same(set(with_stored_pages(cluster, version)), set(PAGES), "kinds of stored pages")
    with cluster.connect() as db:
        same(lines(db, "SELECT treedb.check('pages')"), [], "check of stored pages")
        db.execute("SET enable_seqscan = off; SET enable_sort = off; SET enable_bitmapscan = off")
        for order, kind in (("id DESC, s", "int"), ('t COLLATE "C", id', "text"), ("n, id", "numeric")):
            inner = f"SELECT id FROM pages ORDER BY {order}"
            db.execute("SET enable_incremental_sort = on")
            check(f"pages_{kind}" in "\n".join(lines(db, "EXPLAIN " + inner)), f"not by pages_{kind}")
            by_index = lines(db, inner)
            db.execute("SET enable_indexscan = off; SET enable_indexonlyscan = off; SET enable_sort = on; SET enable_seqscan = on")
            same(by_index, lines(db, inner), f"order by {order}")
            db.execute("RESET enable_indexscan; RESET enable_indexonlyscan; SET enable_sort = off; SET enable_seqscan = off")
        for question in ('{"a": 7}', '{"a": "x3", "b": {"$gt": 50}}'):
            ways = [lines(db, "SELECT d::text FROM treedb.find('pages', %s, %s) d ORDER BY 1", (question, hint)) for hint in ('{"hint": "keys"}', '{"hint": "$natural"}')]
            check(ways[0], f"{question} finds nothing")
            same(ways[0], ways[1], question)
        # They are written to as well: append areas are merged, leaves are split, entries are removed.
        db.execute("INSERT INTO pages SELECT doc, id + 1000, s, md5(t), n FROM pages")
        db.execute("DELETE FROM pages WHERE id % 4 = 0")
        db.execute("VACUUM (INDEX_CLEANUP ON) pages")
        same(lines(db, "SELECT treedb.check('pages')"), [], "check after writing to stored pages")
        db.execute("DROP TABLE pages")
    return f"version {version}"


def stored_pages_of_earlier_formats_ask_for_reindex(cluster):
    current = page_version(cluster)
    earlier = [version for version in stored_versions() if version != current]
    for version in earlier:
        stored = with_stored_pages(cluster, version)
        with cluster.connect() as db:
            error = refused(db, "INSERT INTO pages (doc, id) VALUES ('{}', 1)", "XX002", f"pages of version {version}")
            check("REINDEX" in error.diag.message_hint, f"the hint is {error.diag.message_hint}")
            same(len(lines(db, "SELECT treedb.check('pages')")), len(stored), "indexes that treedb.check() complains of")
            db.execute("REINDEX TABLE pages")
            same(lines(db, "SELECT treedb.check('pages')"), [], "check after REINDEX")
            db.execute("INSERT INTO pages (doc, id) VALUES ('{}', 1); DROP TABLE pages")
    return f"versions {earlier}"


def an_installation_can_be_staged_in_a_folder(cluster):
    with tempfile.TemporaryDirectory() as stage:
        shell('DESTDIR=$1 PROFILE=${PROFILE:-dev} scripts/pg_install.sh "$PG_CONFIG"', stage, timeout=900)
        names = {path.name for path in pathlib.Path(stage).rglob("*") if path.is_file()}
    same({"treedb_pg.so", "treedb.control", "treedb--0.1.0--0.2.0.sql", "treedb--0.2.0.sql"} - names, set(), "files that are missing")


# Graphs of nodes that have their vectors and codes of their neighbours, and of nodes that have codes of 8 bits.
GRAPHS = {"links": "treedb.real_cosine_ops) WITH (dimensions = 500, m = 8)", "codes": "treedb.real_ip_ops) WITH (dimensions = 500, m = 64)"}
# Much alike, by whole numbers.
GRAPH_ROWS = "INSERT INTO graphs SELECT i, (SELECT array_agg(40 + (i * j + i / 7) %% 5 ORDER BY j) FROM generate_series(1, 500) j) FROM generate_series(%s, %s) i"
GRAPH_VERSION = 3


def make_graphs(db):
    db.execute("CREATE TABLE graphs (id int, e real[]) WITH (autovacuum_enabled = off)")
    db.execute(GRAPH_ROWS % (1, 40))
    for kind, rest in GRAPHS.items():
        db.execute(f"CREATE INDEX graphs_{kind} ON graphs USING treedb_hnsw (e {rest}")
    db.execute(GRAPH_ROWS % (41, 60))
    return {kind: one(db, "SELECT pg_relation_filepath(%s)", (f"graphs_{kind}",)) for kind in GRAPHS}


def stored_graphs_of_the_format_without_a_centre_are_read_and_written(cluster):
    with cluster.connect() as db:
        paths = make_graphs(db)
    cluster.stop()
    for kind, path in paths.items():
        (cluster.data / path).write_bytes(gzip.decompress((RELEASED / f"graph-v{GRAPH_VERSION}-{kind}.gz").read_bytes()))
    cluster.start()

    def versions():
        db.execute("CHECKPOINT")
        places = [cluster.data / one(db, "SELECT pg_relation_filepath(%s)", (f"graphs_{kind}",)) for kind in GRAPHS]
        return [int.from_bytes(place.read_bytes()[28:30], "little") for place in places]

    def answers():
        same(lines(db, "SELECT treedb.check('graphs')"), [], "check")
        for operator in ("<=>", "<#>"):
            order = f"e OPERATOR(treedb.{operator}) (SELECT e FROM graphs WHERE id = 50)"
            db.execute("SET enable_seqscan = off; SET enable_sort = off; SET treedb.hnsw_ef_search = 500")
            by_index = lines(db, f"SELECT {order} FROM graphs ORDER BY {order} LIMIT 5")
            db.execute("RESET enable_seqscan; RESET enable_sort; SET enable_indexscan = off")
            same(by_index, lines(db, f"SELECT {order} FROM graphs ORDER BY {order} LIMIT 5"), f"the nearest by {operator}")
            db.execute("RESET enable_indexscan")

    with cluster.connect() as db:
        same(versions(), [GRAPH_VERSION] * 2, "versions of stored graphs")
        answers()
        # An index of this version may choose a centre then.
        db.execute(GRAPH_ROWS % (61, 400))
        answers()
        db.execute("DELETE FROM graphs WHERE id % 3 = 0")
        db.execute("VACUUM (INDEX_CLEANUP ON) graphs")
        answers()
        same(versions(), [GRAPH_VERSION] * 2, "versions after all that")
        db.execute("REINDEX TABLE graphs")
        answers()
        same(versions(), [GRAPH_VERSION + 1] * 2, "versions after REINDEX")
        db.execute("DROP TABLE graphs")


def indexes_of_halfvec_with_floats_are_read_and_written(cluster):
    """As the version before wrote them: with the pages of an index of the same vectors of type `vector`, but for the kind of the column."""
    row = "SELECT i, e, e FROM (SELECT i, (SELECT array_agg((2 + sin(i * j))::real ORDER BY j) FROM generate_series(1, {}) j)::halfvec::vector AS e FROM generate_series(%s, %s) i) x"
    of = {"apart": (100, "l1_ops", "<+>"), "codes": (1536, "cosine_ops", "<=>")}
    with cluster.connect() as db:
        if not one(db, "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"):
            return "the server has no pgvector: nothing to test"
        db.execute("CREATE EXTENSION vector; SELECT treedb.enable_pgvector()")
        paths = {}
        for kind, (dimensions, ops, _) in of.items():
            db.execute(f"CREATE TABLE {kind} (id int, v vector({dimensions}), h halfvec({dimensions})) WITH (autovacuum_enabled = off)")
            db.execute(f"INSERT INTO {kind} {row.format(dimensions)}" % (1, 20))
            db.execute(f"CREATE INDEX {kind}_v ON {kind} USING treedb_hnsw (v vector_{ops}); CREATE INDEX {kind}_h ON {kind} USING treedb_hnsw (h halfvec_{ops})")
            db.execute(f"INSERT INTO {kind} {row.format(dimensions)}" % (21, 30))
            paths[kind] = [one(db, "SELECT pg_relation_filepath(%s)", (f"{kind}_{column}",)) for column in "vh"]
    cluster.stop()
    for v, h in paths.values():
        data = bytearray((cluster.data / v).read_bytes())
        # The kind follows the version: the metric's number, and 16 for `vector`, 32 for `halfvec`.
        check(data[28] == 4 and data[30] >> 4 == 1, "an index of vector has version 4")
        data[30] += 16
        check((cluster.data / h).read_bytes()[28:31] == bytes([5, 0, data[30]]), "an index of halfvec has version 5, and that kind")
        (cluster.data / h).write_bytes(data)
    cluster.start()

    with cluster.connect() as db:
        def is_of(version, flags):
            db.execute("CHECKPOINT")
            for kind in of:
                data = (cluster.data / one(db, "SELECT pg_relation_filepath(%s)", (f"{kind}_h",))).read_bytes()
                same((data[28], data[74]), (version, flags), f"version and flags of {kind}")

        def answers():
            for kind, (_, _, operator) in of.items():
                same(lines(db, "SELECT treedb.check(%s, true)", (kind,)), [], f"check of {kind}")
                order = f"h {operator} (SELECT h FROM {kind} WHERE id = 9)"
                db.execute("SET enable_seqscan = off; SET enable_sort = off; SET treedb.hnsw_ef_search = 500")
                check(f"{kind}_h" in "\n".join(lines(db, f"EXPLAIN SELECT id FROM {kind} ORDER BY {order} LIMIT 5")), f"not by {kind}_h")
                by_index = lines(db, f"SELECT {order} FROM {kind} ORDER BY {order} LIMIT 5")
                db.execute("RESET enable_seqscan; RESET enable_sort")
                exact = lines(db, f"SELECT {order} AS d FROM {kind} ORDER BY ({order}) + 0 LIMIT 5")
                # Those that codes tell apart, before there is a centre: by floats that were taken for halves, or the other way round, it would be none.
                check(by_index[0] == exact[0] and len(set(by_index) & set(exact)) >= 4, f"the nearest of {kind}: {by_index} and {exact}")

        is_of(4, 0)
        answers()
        for kind, (dimensions, _, _) in of.items():
            # They choose a centre then.
            db.execute(f"INSERT INTO {kind} {row.format(dimensions)}" % (31, 200))
        answers()
        for kind in of:
            db.execute(f"DELETE FROM {kind} WHERE id % 3 = 1")
            db.execute(f"VACUUM (INDEX_CLEANUP ON) {kind}")
        answers()
        is_of(4, 0)
        sizes = [one(db, "SELECT pg_relation_size(%s)", (f"{kind}_h",)) for kind in of]
        for kind in of:
            db.execute(f"REINDEX INDEX {kind}_h")
        answers()
        is_of(5, 1)
        # What no index has: floats of so many dimensions, another flag, a flag of another type's.
        db.execute("CREATE TABLE wide (h halfvec(3072), v vector(3)); CREATE INDEX wide_h ON wide USING treedb_hnsw (h halfvec_l2_ops); CREATE INDEX wide_v ON wide USING treedb_hnsw (v vector_l2_ops)")
        paths = {name: one(db, "SELECT pg_relation_filepath(%s)", (name,)) for name in ("wide_h", "wide_v")}
    cluster.stop()
    path = {name: cluster.data / path for name, path in paths.items()}
    pages = {name: path[name].read_bytes() for name in path}
    for name, version, flags, message in (("wide_h", 4, 0, "dimensions"), ("wide_h", 5, 0, "dimensions"), ("wide_h", 5, 0x8001, "flags"), ("wide_v", 5, 1, "flags")):
        data = bytearray(pages[name])
        data[28:30], data[74:76] = version.to_bytes(2, "little"), flags.to_bytes(2, "little")
        path[name].write_bytes(data)
        cluster.start()
        with cluster.connect() as db:
            error = refused(db, "INSERT INTO wide (%s) SELECT array_agg(1)::%s FROM generate_series(1, %s)" % (("h", "halfvec", 3072) if name == "wide_h" else ("v", "vector", 3)), "XX002", "")
            check(message in f"{error} {error.diag.message_detail}", f"{name} of version {version} with flags {flags}: {error.diag.message_detail}")
        cluster.stop()
        path[name].write_bytes(pages[name])
    cluster.start()
    with cluster.connect() as db:
        db.execute("DROP TABLE apart, codes, wide; DROP EXTENSION vector CASCADE")
    return f"sizes before REINDEX: {sizes}"


def the_docs_list_every_function_view_type_and_setting(cluster):
    with cluster.connect() as db:
        same_lines(reference.parts()[1].splitlines(), reference.made(db).splitlines(), "docs/postgres.md, and the catalog (scripts/pg_versions.sh --write-reference)")
        # And what the list says of privileges is of functions that there are.
        names = {name for name, *_ in db.execute(reference.FUNCTIONS)}
        same(set(reference.NEEDS) - names, set(), "functions that there are not")


def write_reference():
    cluster = Cluster().create()
    try:
        with cluster.connect() as db:
            reference.write(db)
    finally:
        cluster.close()


def write_graphs():
    """By the library whose sources are the last to have [`GRAPH_VERSION`]."""
    cluster = Cluster(SETTINGS).create()
    try:
        with cluster.connect() as db:
            paths = make_graphs(db)
        cluster.stop()
        for kind, path in paths.items():
            store(cluster.data / path, "graph", kind)
    finally:
        cluster.close()


def store(path, what, kind):
    data = bytearray(path.read_bytes())
    version = int.from_bytes(data[28:30], "little")
    for page in range(0, len(data), PAGE):
        # The position in the log of a server that is no more.
        data[page:page + 8] = bytes(8)
    file = RELEASED / f"{what}-v{version}-{kind}.gz"
    file.write_bytes(gzip.compress(bytes(data), 9, mtime=0))
    print(f"{file.relative_to(ROOT)}: {len(data)} bytes, {file.stat().st_size} compressed")


def write_pages():
    cluster = Cluster(SETTINGS).create()
    try:
        with cluster.connect() as db:
            make_pages(db)
            # Marks of dead entries.
            db.execute("SET enable_seqscan = off; SET enable_bitmapscan = off; SELECT t FROM pages WHERE t > ''; SELECT id FROM pages WHERE id > 0")
            paths = {kind: one(db, "SELECT pg_relation_filepath(%s)", (f"pages_{kind}",)) for kind in PAGES}
        cluster.stop()
        for kind, path in paths.items():
            store(cluster.data / path, "pages", kind)
    finally:
        cluster.close()


TESTS = [an_update_from_each_released_version_leaves_what_a_new_installation_has,
         what_an_earlier_version_made_works_before_and_after_the_update, the_extension_is_created_by_a_superuser_and_not_dropped_while_it_is_used,
         documents_are_parameters_as_drivers_send_them, indexes_of_collections_are_built_and_dropped_beside_writers, a_dump_restores_everything,
         pg_upgrade_carries_everything_over, *([pg_upgrade_from_15_carries_everything_over] if "PG_CONFIG_15" in os.environ else []), indexes_of_another_page_version_ask_for_reindex,
         an_index_has_the_lowest_page_version_that_its_leaves_need, stored_pages_of_the_present_format_are_read_and_written, stored_pages_of_earlier_formats_ask_for_reindex,
         an_installation_can_be_staged_in_a_folder, stored_graphs_of_the_format_without_a_centre_are_read_and_written, indexes_of_halfvec_with_floats_are_read_and_written,
         the_docs_list_every_function_view_type_and_setting]


if __name__ == "__main__":
    WRITE = {"--write-pages": write_pages, "--write-graphs": write_graphs, "--write-reference": write_reference}
    if sys.argv[1:] and sys.argv[1] in WRITE:
        sys.exit(WRITE[sys.argv[1]]())
    sys.exit(claims.run(TESTS, [*SETTINGS, "allow_system_table_mods = on"]))
