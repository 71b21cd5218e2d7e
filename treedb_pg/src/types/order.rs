//! What the server asks of a type with an order: six comparisons, the one with three outcomes, and two hashes.

use std::cell::Cell;
use std::cmp::Ordering;

use treedb_query::doc::{Value, compare, key};

use crate::shim::function::Args;

/// How the stored bytes of a type are read.
pub(super) type Decode = for<'a> fn(&'a [u8]) -> Value<'a>;

/// The order of the first two arguments.
pub(super) fn order(args: &Args, decode: Decode) -> Ordering {
    compare::compare(decode(&args.bytes(0)), decode(&args.bytes(1)))
}

/// Most bytes of memory that are kept for the next key.
const KEPT: usize = 4096;

thread_local! {
    /// Memory for a key.
    static KEY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Calls `with` with the order-preserving key of the first argument. Values that are equal have equal keys.
pub(super) fn with_key<R>(args: &Args, decode: Decode, with: impl FnOnce(&[u8]) -> R) -> R {
    with_key_of(decode(&args.bytes(0)), with)
}

/// The same of a value.
pub(super) fn with_key_of<R>(value: Value<'_>, with: impl FnOnce(&[u8]) -> R) -> R {
    let mut key = KEY.take();
    key.clear();
    key::encode_value(value, &mut key);
    let result = with(&key);
    if key.capacity() <= KEPT {
        KEY.set(key);
    }
    result
}

/// Defines the functions of an ordered type under the names given; `$decode` reads its bytes.
macro_rules! ordered {
    (
        $decode:path, $lt:ident, $le:ident, $eq:ident, $ne:ident, $ge:ident, $gt:ident, $cmp:ident,
        $hash:ident, $hash_extended:ident
    ) => {
        ordered!(@test $decode, $lt, is_lt, "`<`");
        ordered!(@test $decode, $le, is_le, "`<=`");
        ordered!(@test $decode, $eq, is_eq, "`=`");
        ordered!(@test $decode, $ne, is_ne, "`<>`");
        ordered!(@test $decode, $ge, is_ge, "`>=`");
        ordered!(@test $decode, $gt, is_gt, "`>`");
        $crate::shim::function::pg_function! {
            /// -1, 0 or 1.
            fn $cmp(args: [Varlena, Varlena]) -> i32 {
                $crate::types::order::order(args, $decode) as i32
            }
        }
        $crate::shim::function::pg_function! {
            /// Hash.
            fn $hash(args: [Varlena]) -> i32 {
                $crate::types::order::with_key(args, $decode, $crate::shim::server::hash)
            }
        }
        $crate::shim::function::pg_function! {
            /// Hash with a seed.
            fn $hash_extended(args: [Varlena, Int8]) -> i64 {
                let hash = |key: &[u8]| $crate::shim::server::hash_extended(key, args.int8(1));
                $crate::types::order::with_key(args, $decode, hash)
            }
        }
    };
    (@test $decode:path, $name:ident, $test:ident, $doc:literal) => {
        $crate::shim::function::pg_function! {
            #[doc = $doc]
            fn $name(args: [Varlena, Varlena]) -> bool {
                $crate::types::order::order(args, $decode).$test()
            }
        }
    };
}
pub(super) use ordered;
