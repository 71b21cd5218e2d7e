-- treedb_btree on dates, times and intervals, and on their comparisons with each other, which depend on the time zone.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA times;
SET search_path = times, public;
\set file :dir '/sql/include/twins.psql'
\i :file
\set ECHO all
INSERT INTO types (type, literals, random) VALUES
    ('date', '{-infinity,4713-01-01 BC,0001-12-31 BC,0001-01-01,1999-12-31,2000-01-01,2011-12-31,5874897-12-31,infinity}', $$'2012-01-01'::date - n % 400$$),
    ('time', '{00:00:00,00:00:00.000001,12:00,23:59:59.999999,24:00:00}', $$'00:00'::time + random() * interval '1 day'$$),
    -- 12:00+00 and 14:00+02 are the same time, but not equal
    ('timetz', '{00:00+00,12:00+00,14:00+02,10:00-02,24:00:00-15:59,00:00+15:59,23:59:59.999999+00}', $$('00:00'::time + random() * interval '1 day')::text || '+0' || n % 3$$),
    ('timestamp', '{-infinity,4713-01-01 00:00:00 BC,0001-12-31 23:59:59.999999 BC,1999-12-31 23:59:59.999999,2000-01-01,2000-01-01 00:00:00.000001,2011-12-30 12:00,294276-12-31 23:59:59.999999,infinity}',
        $$'2011-06-01'::timestamp + n % 250 * interval '1 day' + CASE n % 3 WHEN 0 THEN random() ELSE 0 END * interval '1 day'$$),
    ('timestamptz', '{-infinity,4713-01-02 00:00:00+00 BC,0001-12-31 23:59:59.999999+00 BC,2000-01-01 00:00+00,2011-12-30 10:00+00,2011-10-30 01:30+01,294276-12-31 00:00+00,infinity}',
        $$'2011-06-01 00:00+00'::timestamptz + n % 250 * interval '24 hours' + CASE n % 3 WHEN 0 THEN random() ELSE 0 END * interval '24 hours'$$),
    -- 1 day and 24 hours are equal, but not the same
    ('interval', '{-178000000 years,-1 month,-30 days,0,1 microsecond,1 day,24 hours,1 month,30 days,720 hours,1 mon -1 day,178000000 years}', $$n % 5 * interval '1 day' + n % 7 * interval '24 hours' - n % 3 * interval '1 month'$$);
SELECT make();
VACUUM ANALYZE;
SELECT * FROM problems();
SELECT * FROM compare();
SELECT change();
VACUUM;
SELECT * FROM problems();
SELECT * FROM compare();

-- arguments of the other types, at midnight and between, where days and hours are left out or come twice
CREATE FUNCTION compare_across() RETURNS TABLE (of_column text, of_argument text, queries bigint, result text) LANGUAGE sql AS $$
    WITH column_type (number, type) AS (VALUES (1, 'date'), (4, 'timestamp'), (5, 'timestamptz')),
        argument (type, literal) AS (SELECT t, l FROM unnest('{date,timestamp,timestamptz}'::text[]) t,
            unnest('{-infinity,4713-01-05 BC,1999-12-31,2000-01-01,2011-06-15,2011-10-30,2011-12-28,2011-12-30,2011-12-31,2012-01-01,infinity}'::text[]) l
            UNION ALL SELECT t, l FROM unnest('{timestamp,timestamptz}'::text[]) t, unnest('{2011-06-15 00:00:00.000001,2011-06-14 23:59:59.999999,2011-10-30 02:30,2011-10-30 01:30,294276-12-31 23:59:59}'::text[]) l
            UNION ALL SELECT 'timestamptz', l FROM unnest('{2011-06-15 00:00+00,2011-06-15 00:00+02,2011-12-30 10:00+00,2011-12-30 09:59:59+00,2011-12-31 10:00+00}'::text[]) l
            UNION ALL VALUES ('date', '5874897-12-31'), ('date', '294277-01-01'))
    SELECT c.type, a.type, count(*), coalesce(min(difference(number, format('SELECT id, v FROM <table> WHERE v %s %L::%s ORDER BY v', s, literal, a.type))), 'same') AS result
        FROM column_type c JOIN argument a ON a.type <> c.type, unnest('{<,<=,=,>=,>}'::text[]) s GROUP BY 1, 2 ORDER BY 1, 2
$$;
SET timezone = 'UTC'; SELECT * FROM compare_across();
SET timezone = 'Europe/Berlin'; SELECT * FROM compare_across();
SET timezone = 'Pacific/Apia'; SELECT * FROM compare_across();
SELECT difference(1, 'SELECT id, v FROM <table> WHERE v = ANY (ARRAY[''2011-12-30 10:00+00'', ''2011-06-14 12:00+00'', NULL]::timestamptz[])'),
       difference(4, 'SELECT id, v FROM <table> WHERE v IN (''2011-06-15''::date, ''2011-06-16''::date)'), difference(5, 'SELECT id, v FROM <table> WHERE v > ANY (ARRAY[''infinity'', ''2012-01-05'']::date[])'),
       difference(1, 'SELECT id, v FROM <table> WHERE v > ''2011-03-01 12:00''::timestamp AND v <= ''2011-10-30 12:00+00''::timestamptz ORDER BY v DESC');
RESET timezone;
SET client_min_messages = warning;
DROP SCHEMA times CASCADE;
