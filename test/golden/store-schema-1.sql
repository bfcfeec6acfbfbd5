-- The statements of schema 1, as stores of that schema were made. Never to be changed.
PRAGMA application_id = 0x48505831;
PRAGMA user_version = 1;
CREATE TABLE hx_snapshot(snapshot INTEGER PRIMARY KEY, taken_at_ns INTEGER NOT NULL, taken_at TEXT NOT NULL, pid INTEGER, comm TEXT, exe TEXT, pause_us INTEGER, method TEXT, allocator TEXT, heap_bytes INTEGER, heap_objects INTEGER, reachable_bytes INTEGER, reachable_objects INTEGER, leaked_bytes INTEGER, leaked_objects INTEGER, free_bytes INTEGER, overhead_bytes INTEGER, rss_bytes INTEGER, scheme TEXT, interior INTEGER NOT NULL, complete INTEGER NOT NULL, notes TEXT);
CREATE TABLE hx_account(snapshot INTEGER, position INTEGER, part TEXT, bytes INTEGER, PRIMARY KEY(snapshot, position)) WITHOUT ROWID;
CREATE TABLE hx_root(snapshot INTEGER, root_id INTEGER, kind INTEGER, kind_name TEXT, name TEXT, module TEXT, address INTEGER, size INTEGER, direct_objects INTEGER, value INTEGER, tid INTEGER, PRIMARY KEY(snapshot, root_id)) WITHOUT ROWID;
CREATE TABLE hx_leak(snapshot INTEGER, kind TEXT, type TEXT, site TEXT, bytes INTEGER, objects INTEGER);
CREATE INDEX hx_leak_snapshot ON hx_leak(snapshot);
CREATE TABLE hx_loss(snapshot INTEGER, what TEXT, count INTEGER, bytes INTEGER, address INTEGER);
CREATE INDEX hx_loss_snapshot ON hx_loss(snapshot);
CREATE TABLE hx_block(id INTEGER PRIMARY KEY, snapshot INTEGER, family INTEGER, first_row INTEGER, n INTEGER, first_key INTEGER, last_key INTEGER, bytes INTEGER);
CREATE UNIQUE INDEX hx_block_place ON hx_block(snapshot, family, first_row);
CREATE TABLE hx_column(id INTEGER PRIMARY KEY, data BLOB);
CREATE VIEW snapshots AS SELECT snapshot, taken_at, pid, comm, exe, pause_us, method, allocator, heap_bytes, heap_objects, reachable_bytes, reachable_objects, leaked_bytes, leaked_objects, free_bytes, overhead_bytes, rss_bytes, scheme, complete, notes FROM hx_snapshot;
CREATE VIEW account AS SELECT snapshot, part, bytes FROM hx_account WHERE snapshot IN (SELECT snapshot FROM hx_snapshot);
CREATE VIEW roots AS SELECT snapshot, root_id, kind_name AS kind, name, module, address, size, direct_objects, NULL AS retained_bytes FROM hx_root WHERE snapshot IN (SELECT snapshot FROM hx_snapshot);
CREATE VIEW leaks AS SELECT snapshot, kind, type, site, bytes, objects FROM hx_leak WHERE snapshot IN (SELECT snapshot FROM hx_snapshot);
CREATE VIEW losses AS SELECT snapshot, what, count, bytes, address FROM hx_loss WHERE snapshot IN (SELECT snapshot FROM hx_snapshot);
