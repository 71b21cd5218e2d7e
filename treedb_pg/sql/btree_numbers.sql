-- treedb_btree on numbers, and on what is stored as one: the same answers as from btree, in the same order.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA numbers;
SET search_path = numbers, public;
\set file :dir '/sql/include/twins.psql'
\i :file
\set ECHO all
INSERT INTO types (type, literals, random) VALUES
    ('int2', '{-32768,-1,0,1,32767}', 'n % 300 - 150'),
    ('int4', '{-2147483648,-1,0,1,2147483647}', '(random() - 0.5) * 4e9'),
    ('int8', '{-9223372036854775808,-1,0,1,9223372036854775807}', '(random() - 0.5) * 1.8e19'),
    ('float4', '{-Infinity,-1e-45,-0,0,1e-45,1.5,3.4e38,Infinity,NaN}', '(random() - 0.5) * 100'),
    ('float8', '{-Infinity,-5e-324,-0,0,5e-324,1.5,1.7e308,Infinity,NaN}', '(random() - 0.5) * 10 ^ (n % 300)'),
    -- equal, but not the same: 1 and 1.00
    ('numeric', '{-Infinity,-1e100,-1.000,-1,-1e-20,-0,0,0.00,1e-30,1,1.0,1.00,99999.99999,100000,123456789012345678901234567890.5,1e1000,Infinity,NaN}',
        'CASE n % 3 WHEN 0 THEN round(((random() - 0.5) * 100)::numeric, n % 5) ELSE ((random() - 0.5) * 10 ^ (n % 40))::numeric END'),
    ('numeric', '{-9.99,-1.00,0.00,1.00,9.99}', 'random() * 10 - 5');
UPDATE types SET modifier = '(3,2)' WHERE number = 7;
INSERT INTO types (type, literals, random) VALUES
    ('money', '{-92233720368547758.08,-0.01,0,1234.56,92233720368547758.07}', '((random() - 0.5) * 1e6)::numeric'),
    ('oid', '{0,1,2147483647,2147483648,4294967295}', '(n::int8 * 8589934)'),
    ('bool', '{f,t}', 'n % 3 = 0'),
    ('"char"', '{"",a,Z,~}', 'n % 256 - 128'),
    ('xid8', '{0,1,9223372036854775808,18446744073709551615}', '(n::int8 * 1000003)::text'),
    ('pg_lsn', '{0/0,0/1,1/0,FFFFFFFF/FFFFFFFF,80000000/0}', $$'0/0'::pg_lsn + n::numeric * 123456789012$$),
    ('tid', '{"(0,0)","(0,1)","(0,65535)","(1,0)","(65536,1)","(4294967295,65535)"}', $$format('(%s,%s)', n * 1000, n % 300)$$);
SELECT make();
VACUUM ANALYZE;
SELECT * FROM problems();
SELECT * FROM compare();
SELECT change();
VACUUM;
SELECT * FROM problems();
SELECT * FROM compare();

-- arguments of the other types of a family, in and out of the column's range
WITH column_type (number, type) AS (VALUES (1, 'int2'), (2, 'int4'), (3, 'int8'), (4, 'float4'), (5, 'float8')),
    argument (type, literal) AS (SELECT t, l FROM unnest('{int2,int4,int8}'::text[]) t, unnest('{-32768,-1,0,7,32767}'::text[]) l
        UNION ALL SELECT 'int8', l FROM unnest('{-9223372036854775808,-2147483649,2147483648,9223372036854775807}'::text[]) l
        UNION ALL SELECT t, l FROM unnest('{float4,float8}'::text[]) t, unnest('{-Infinity,-0,0,0.1,1e-45,1.5,Infinity,NaN}'::text[]) l)
SELECT c.type AS of_column, a.type AS of_argument, count(*), coalesce(min(difference(number, format('SELECT id, v FROM <table> WHERE v %s %L::%s ORDER BY v', s, literal, a.type))), 'same') AS result
    FROM column_type c JOIN argument a ON left(a.type, 3) = left(c.type, 3) AND a.type <> c.type, unnest('{<,<=,=,>=,>}'::text[]) s GROUP BY 1, 2 ORDER BY 1, 2;
SELECT difference(1, 'SELECT id, v FROM <table> WHERE v = ANY (''{-1,5,32768,9999999999}''::int8[])'), difference(3, 'SELECT id, v FROM <table> WHERE v IN (1::int2, 0::int2)'),
       difference(2, 'SELECT id, v FROM <table> WHERE v < ANY (''{-1,5,NULL}''::int8[])'), difference(4, 'SELECT id, v FROM <table> WHERE v >= ANY (''{99,48,NaN}''::float8[])');
SET client_min_messages = warning;
DROP SCHEMA numbers CASCADE;
