-- The collations that other tests name are there whether or not the server was built with ICU: without it, the C
-- library's order of characters stands for them, which is not an order of bytes to the server either.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY '{en-x-icu,de-x-icu}'::text[] LOOP
        IF NOT EXISTS (SELECT FROM pg_collation WHERE collname = name) THEN
            EXECUTE format('CREATE COLLATION %I (provider = libc, locale = %L)', name, 'C.UTF-8');
        END IF;
    END LOOP;
END $$;
SELECT collname, collencoding IN (-1, 6) AS fits FROM pg_collation WHERE collname IN ('en-x-icu', 'de-x-icu') ORDER BY 1;
