-- treedb_btree on addresses.
\set ECHO none
\getenv dir PG_ABS_SRCDIR
CREATE SCHEMA networks;
SET search_path = networks, public;
\set file :dir '/sql/include/twins.psql'
\i :file
\set ECHO all
INSERT INTO types (type, literals, random, class) VALUES
    ('inet', '{0.0.0.0/0,0.0.0.0,10.0.0.0/8,10.0.0.0/9,10.0.0.0,10.1.2.3/8,10.1.2.3,255.255.255.255,::/0,::,::1,::ffff:10.1.2.3,fe80::1/64,ffff::}', $$'10.0.0.0'::inet + n * 77777 % 999983$$, ''),
    ('cidr', '{0.0.0.0/0,0.0.0.0/32,10.0.0.0/8,10.0.0.0/9,10.1.0.0/16,255.255.255.255/32,::/0,::1/128,fe80::/64}', $$set_masklen(('10.0.0.0'::inet + n * 777)::cidr, 8 + n % 25)$$, ''),
    ('cidr', '{0.0.0.0/0,10.0.0.0/8,10.1.0.0/16,255.255.255.255/32,::/0}', $$set_masklen(('10.0.0.0'::inet + n * 777)::cidr, 8 + n % 25)$$, 'cidr_ops'),
    ('macaddr', '{00:00:00:00:00:00,00:00:00:00:00:01,7f:ff:ff:ff:ff:ff,80:00:00:00:00:00,ff:ff:ff:ff:ff:ff}', $$left(md5((n % 200)::text), 12)$$, ''),
    ('macaddr8', '{00:00:00:00:00:00:00:00,7f:ff:ff:ff:ff:ff:ff:ff,80:00:00:00:00:00:00:00,ff:ff:ff:ff:ff:ff:ff:ff}', $$left(md5((n % 200)::text), 16)$$, '');
SELECT make();
VACUUM ANALYZE;
SELECT * FROM problems();
SELECT * FROM compare();
SELECT change();
VACUUM;
SELECT * FROM problems();
SELECT * FROM compare();
SET client_min_messages = warning;
DROP SCHEMA networks CASCADE;
