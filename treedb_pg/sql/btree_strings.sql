-- treedb_btree on strings of characters, bytes and bits, in collations of all sorts.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA strings;
SET search_path = strings, public;
\set file :dir '/sql/include/twins.psql'
\i :file
\set ECHO all
DO $$
BEGIN
    CREATE COLLATION without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN feature_not_supported THEN
    CREATE COLLATION without_case FROM "en-x-icu";
END $$;
CREATE DOMAIN word AS varchar(20) COLLATE "de-x-icu" CHECK (value <> 'never');
INSERT INTO types (type, literals, random, class, modifier, symbols) VALUES
    ('text', '{"",a,A,ab,"a b",ä,Straße,z,ZZ}', $$CASE n % 3 WHEN 0 THEN md5(n::text) WHEN 1 THEN 'Straße ' || n % 97 ELSE left(upper(md5(n::text)), n % 7) END$$, '', 'COLLATE "C"', DEFAULT),
    ('text', '{"",a,A,ab,"a b",ä,Straße,z,ZZ}', $$CASE n % 3 WHEN 0 THEN md5(n::text) WHEN 1 THEN 'Straße ' || n % 97 ELSE left(upper(md5(n::text)), n % 7) END$$, '', 'COLLATE "en-x-icu"', DEFAULT),
    ('text', '{"",a,A,ab,AB,"a b",ä,Ä,z}', $$CASE n % 2 WHEN 0 THEN upper(left(md5(n::text), 2)) ELSE left(md5(n::text), 2) END$$, '', 'COLLATE without_case', DEFAULT),
    ('varchar', '{"",a,A,ab,"a ",z}', $$left(md5(n::text), n % 7)$$, '', '(10)', DEFAULT),
    ('varchar', '{"",a,A,ab,"a ",z}', $$left(md5(n::text), n % 7)$$, 'varchar_ops', '(10) COLLATE "en-x-icu"', DEFAULT),
    ('word', '{"",a,A,ab,"a ",z}', $$left(md5(n::text), n % 7)$$, '', '', DEFAULT),
    -- Trailing blanks do not count, but come back. Equal values have different numbers of them only among the literals: a
    -- server with assertions refuses to build a btree over many such values.
    ('bpchar', '{"",a,"a ","a  ",b,"b b","b b  ",A}', $$left(md5(n::text), n % 3) || '  '$$, '', 'COLLATE "C"', DEFAULT),
    ('bpchar', '{"",a,"a ","a  ",b,"b b","b b  ",A,ä}', $$left(md5(n::text), n % 3) || '  '$$, '', 'COLLATE "en-x-icu"', DEFAULT),
    ('bpchar', '{"",a,abcd}', $$left(md5(n::text), n % 5)$$, '', '(5)', DEFAULT),
    ('name', '{"",a,A,abc,zzz}', $$left(md5(n::text), n % 20)$$, '', '', DEFAULT),
    ('name', '{"",a,A,ab,aB}', $$CASE n % 2 WHEN 0 THEN upper(left(md5(n::text), 3)) ELSE left(md5(n::text), 3) END$$, '', 'COLLATE "en-x-icu"', DEFAULT),
    ('bytea', '{"\\x","\\x00","\\x0000","\\x00ff","\\x01","\\xff","\\xff00","\\xffff"}', $$decode(left(md5((n % 90)::text), 2 * (n % 4)), 'hex') || decode(repeat('00', n % 3), 'hex')$$, '', '', DEFAULT),
    ('bit(5)', '{00000,10101,11111}', $$n % 32$$, '', '', DEFAULT),
    ('varbit', '{"",0,00,1,10,000000000,0000000000000000,11111111}', $$(n % 64)::bit(6)$$, '', '', DEFAULT),
    ('text', '{"",a,A,ab,ä,z}', $$left(md5(n::text), n % 7)$$, 'text_pattern_ops', 'COLLATE "en-x-icu"', '{~<~,~<=~,=,~>=~,~>~}'),
    ('varchar', '{"",a,A,ab,ä,z}', $$left(md5(n::text), n % 7)$$, 'varchar_pattern_ops', 'COLLATE "en-x-icu"', '{~<~,~<=~,=,~>=~,~>~}'),
    ('bpchar', '{"",a,"a ",A,ab,ä,z}', $$left(md5(n::text), n % 3) || '  '$$, 'bpchar_pattern_ops', 'COLLATE "en-x-icu"', '{~<~,~<=~,=,~>=~,~>~}'),
    ('uuid', '{00000000-0000-0000-0000-000000000000,80000000-0000-0000-0000-000000000000,ffffffff-ffff-ffff-ffff-ffffffffffff}', $$md5((n % 200)::text)$$, '', '', DEFAULT);
SELECT make();
VACUUM ANALYZE;
SELECT * FROM problems();
SELECT * FROM compare();
SELECT change();
VACUUM;
SELECT * FROM problems();
SELECT * FROM compare();

-- names and texts compare with each other
SELECT c.type AS of_column, a.type AS of_argument, count(*), coalesce(min(difference(number, format('SELECT id, v FROM <table> WHERE v %s %L::%s COLLATE "C" ORDER BY v', s, l, a.type))), 'same') AS result
    FROM (VALUES (1, 'text'), (10, 'name')) c (number, type), unnest('{text,name,varchar}'::text[]) a (type), unnest(ARRAY['', 'a', 'ab', 'zzz', repeat('e', 100)]) l, unnest('{<,<=,=,>=,>}'::text[]) s
    WHERE a.type <> c.type GROUP BY 1, 2 ORDER BY 1, 2;
SELECT difference(1, 'SELECT id, v FROM <table> WHERE v = ANY (''{a,Straße,nothing}''::name[])'), difference(10, 'SELECT id, v FROM <table> WHERE v = ANY (''{a,abc,nothing}''::text[])');
SET client_min_messages = warning;
DROP SCHEMA strings CASCADE;
