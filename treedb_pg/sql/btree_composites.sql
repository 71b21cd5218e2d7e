-- treedb_btree on types made of other types: enums, arrays, ranges, records, documents.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA composites;
SET search_path = composites, public, treedb;
\set file :dir '/sql/include/twins.psql'
\i :file
\set ECHO all
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a numeric, b text COLLATE "en-x-icu");
CREATE TYPE label_range AS RANGE (subtype = text, collation = "en-x-icu");
INSERT INTO types (type, literals, random, class, symbols) VALUES
    ('mood', '{sad,ok,happy}', $$('{sad,ok,happy}'::mood[])[1 + n % 3]$$, '', DEFAULT),
    ('int4[]', ARRAY['{}', '{NULL}', '{1}', '{1,NULL}', '{1,2}', '{NULL,1}', '[2:3]={1,2}', '{{1,2},{3,4}}', '{1,2,3,4}', '{-2147483648}'], 'ARRAY[n % 7, NULLIF(n % 5, 0), n % 3]', '', DEFAULT),
    ('text[]', ARRAY['{}', '{""}', '{NULL}', '{a}', '{a,b}', '{A,b}', '{a,NULL}', '{{a},{b}}', '{ä}'], $$string_to_array(left(md5(n::text), n % 5), NULL)$$, '', DEFAULT),
    ('numeric[]', ARRAY['{}', '{1}', '{1.0}', '{1.00,NULL}', '{NaN}', '{-Infinity,Infinity}'], 'ARRAY[round(random()::numeric, n % 3)]', '', DEFAULT),
    ('int4range', '{empty,"(,)","(,5)","[1,5)","[1,6)","[1,)","[2,3)"}', 'int4range(n % 9, n % 9 + n % 4)', '', DEFAULT),
    ('numrange', '{empty,"(,)","[1.0,2]","[1.00,2.0]","(1,2)","[NaN,NaN]"}', 'numrange(n % 5, n % 5 + n % 3 + 0.50)', '', DEFAULT),
    ('tstzrange', '{empty,"(,)","[2000-01-01 00:00+00,)","[-infinity,infinity]"}', $$tstzrange('2000-01-01 00:00+00'::timestamptz + n % 50 * interval '1 hour', NULL)$$, '', DEFAULT),
    ('label_range', '{empty,"(,)","[a,b]","[A,b]","[a,ä)"}', $$label_range(left(md5(n::text), 1), NULL)$$, '', DEFAULT),
    ('int4multirange', '{"{}","{[1,2)}","{[1,2),[5,6)}","{(,)}"}', 'int4multirange(int4range(n % 9, n % 9 + n % 4), int4range(50, 50 + n % 3))', '', DEFAULT),
    ('pair', '{"(,)","(1,)","(1.0,a)","(1.00,A)","(1,ä)","(NaN,z)","(,a)"}', $$row(round(random()::numeric, n % 3), left(md5(n::text), 1))$$, '', DEFAULT),
    ('pair', '{"(,)","(1,)","(1.0,a)","(1.00,A)","(1,ä)","(NaN,z)","(,a)"}', $$row(round(random()::numeric, n % 3), left(md5(n::text), 1))$$, 'record_image_ops', '{*<,*<=,*=,*>=,*>}'),
    ('jsonb', ARRAY['null', 'true', '0', '1', '1.0', '1.00', '"a"', '[]', '{}', '[1]', '{"a": 1}', '{"a": 1.0}', '[{"a": []}]'], $$jsonb_build_object('k', n % 20, left(md5(n::text), 1), NULL)$$, '', DEFAULT),
    ('tsvector', ARRAY['', 'a', 'a b', 'a:1 b:2A', 'cat'], $$to_tsvector('simple', left(md5(n::text), 5) || ' x')$$, '', DEFAULT),
    ('tsquery', ARRAY['b', 'a', 'a & b', '!a', 'a <-> b'], $$(left(md5(n::text), 2) || ' & x')::tsquery$$, '', DEFAULT),
    ('oidvector', ARRAY['', '0', '1 2', '4294967295'], $$(n % 9 || ' ' || n % 4)::oidvector$$, '', DEFAULT),
    ('bson', ARRAY['{}', '{"a": 1}', '{"a": 1.0}', '{"a": {"$numberDecimal": "1.00"}}', '{"a": null}', '{"b": 1}', '{"a": [1, 2]}'], $$format('{"a": %s}', n % 9)$$, '', DEFAULT);
SELECT make();
VACUUM ANALYZE;
SELECT * FROM problems();
SELECT * FROM compare();
SELECT change();
VACUUM;
SELECT * FROM problems();
SELECT * FROM compare();

-- labels that come between others after the index was built
ALTER TYPE mood ADD VALUE 'fine' BEFORE 'ok';
ALTER TYPE mood ADD VALUE 'gloomy' BEFORE 'sad';
ALTER TYPE mood ADD VALUE 'thrilled' AFTER 'happy';
INSERT INTO b1 SELECT 1000 + n, n % 5, ('{fine,gloomy,ok,thrilled}'::mood[])[1 + n % 4] FROM generate_series(1, 300) n;
INSERT INTO t1 SELECT 1000 + n, n % 5, ('{fine,gloomy,ok,thrilled}'::mood[])[1 + n % 4] FROM generate_series(1, 300) n;
UPDATE types SET literals = '{sad,ok,happy,gloomy,fine,thrilled}' WHERE number = 1;
DELETE FROM types WHERE number > 1;
VACUUM b1; VACUUM t1;
SELECT * FROM problems();
SELECT * FROM compare();
SET client_min_messages = warning;
DROP SCHEMA composites CASCADE;
