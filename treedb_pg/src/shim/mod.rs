//! The only module of the extension with `unsafe` code (the compiler denies it everywhere else): the way into the
//! server's C functions and structures.
//!
//! What is exported is safe, and sound: values know how they are stored and how long their memory lives, pages
//! whether they may be written, handles release what they hold. The callbacks and SQL-callable functions that the
//! server calls begin here, in one place for each kind, and hand such types to the rest of the extension.
//!
//! Handles belong to the statement that made them. They are not `Send`, so they can be kept neither in a `static` nor
//! in the state of a call site or scan; that none is put into a `thread_local` the types cannot express.
//!
//! * [`function`], [`declared`]: SQL-callable functions, and their SQL declarations compared at compile time
//! * [`trigger`]: trigger functions
//! * [`datum`], [`memory`], [`text`], [`rows`]: values that are read, made and returned; [`allocator`]: memory of our own
//! * [`error`], [`error_frame`], [`fault`]: SQL errors; the server's on their way through Rust; faults on demand, for tests
//! * [`subtransaction`], [`setting`]: what can be undone alone; settings
//! * [`relation`], [`catalog`], [`expression`]: open relations; names, types and privileges; expressions of indexes
//! * [`invalidation`]: changes of the catalog, for what is cached of it
//! * [`snapshot`]: snapshots and transaction ids
//! * [`buffer`], [`wal`]: pages of an index, pinned and locked; changes of pages as atomic WAL records
//! * [`index_method`]: the trait of an index access method and its callbacks, with [`index_build`], [`index_scan`]
//!   and [`vacuum`] for what they are passed; [`parallel_scan`], [`parallel_build`]: what the
//!   processes of one share; [`index_delete`] finds entries of dead rows; [`index_options`]: storage
//!   parameters; [`operator_class`]: whether an operator class is valid
//! * [`distance_method`], [`vector_options`]: the same for access methods that return rows by distance; [`unread_distance`]: distances that
//!   a query does not return; [`upcoming_rows`]: rows that the executor is about to fetch
//! * [`key_lock`]: locks of keys, and waiting for transactions that are at work on a row
//! * [`comparison`], [`compression`]: comparison functions of operator classes; the server's compression
//! * [`table_method`]: the same for a table access method, with [`heap`], [`rewrite`] and [`row_form`]
//! * [`table`], [`btree_scan`], [`nearest_scan`], [`modify`], [`hot_update`]: reading tables, the server's btrees and indexes of
//!   vectors, changing rows
//! * [`sort_support`]: abbreviated sort keys
//! * [`analyze`]: statistics of columns that ANALYZE collects
//! * [`streamed`], [`function_path`], [`custom_scan`]: functions in FROM whose rows are produced one by one
//! * [`custom_path`], [`scan_node`]: custom paths of the planner's; the executor's nodes of custom scans; [`prepared`]: their expressions
//! * [`scan_team`]: scans of a table by several processes; [`row_claims`]: rows found by several processes; [`parallel_segment`]: what they have in common with parallel builds
//! * [`filter_path`], [`table_paths`], [`filter_scan`], [`value_condition`], [`unknown_values`], [`unknown_terms`], [`relation_set`], [`row_order`]: tables in FROM whose rows are found by a filter on their documents, in an order of
//!   values of these perhaps; [`value_share`]: the estimators of comparisons of values
//! * [`sorted_bytes`]: strings of bytes, sorted
//! * [`temp_file`], [`thread`], [`release`]: temporary files; what threads other than the server's may do; handles
//!   that the server has released already
//! * [`setting`]: settings, and what is done when the library is loaded
//! * [`server`]: functions whose headers the generated bindings do not read; [`compat`]: what differs between the
//!   server's versions; [`unguarded`]: functions that are called several in one boundary for errors

pub(crate) mod allocator;
pub(crate) mod analyze;
pub(crate) mod btree_scan;
pub(crate) mod buffer;
pub(crate) mod catalog;
pub(crate) mod comparison;
mod compat;
pub(crate) mod compression;
mod custom_path;
pub(crate) mod custom_scan;
pub(crate) mod datum;
pub(crate) mod declared;
pub(crate) mod distance_method;
pub(crate) mod error;
pub(crate) mod error_frame;
pub(crate) mod expression;
pub(crate) mod fault;
pub(crate) mod filter_path;
pub(crate) mod filter_scan;
pub(crate) mod function;
pub(crate) mod function_path;
pub(crate) mod heap;
mod hot_update;
pub(crate) mod index_build;
pub(crate) mod index_delete;
pub(crate) mod index_method;
pub(crate) mod index_options;
pub(crate) mod index_scan;
pub(crate) mod invalidation;
pub(crate) mod key_lock;
pub(crate) mod memory;
pub(crate) mod modify;
pub(crate) mod nearest_scan;
pub(crate) mod operator_class;
pub(crate) mod parallel_build;
pub(crate) mod parallel_scan;
mod parallel_segment;
mod prepared;
pub(crate) mod relation;
mod relation_set;
pub(crate) mod release;
pub(crate) mod rewrite;
pub(crate) mod row_claims;
pub(crate) mod row_form;
pub(crate) mod row_order;
pub(crate) mod rows;
mod scan_node;
pub(crate) mod scan_team;
pub(crate) mod server;
pub(crate) mod setting;
pub(crate) mod snapshot;
pub(crate) mod sort_support;
pub(crate) mod sorted_bytes;
pub(crate) mod streamed;
pub(crate) mod subtransaction;
pub(crate) mod table;
pub(crate) mod table_method;
mod table_paths;
pub(crate) mod temp_file;
pub(crate) mod text;
pub(crate) mod thread;
pub(crate) mod trigger;
mod unguarded;
mod unknown_terms;
mod unknown_values;
pub(crate) mod unread_distance;
pub(crate) mod upcoming_rows;
pub(crate) mod vacuum;
pub(crate) mod value_condition;
pub(crate) mod value_share;
pub(crate) mod vector_options;
pub(crate) mod wal;
