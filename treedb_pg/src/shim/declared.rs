//! The types that the extension's SQL script declares for a C function, compared with those that the Rust code
//! reads and returns.
//!
//! The server calls a C function with whatever the SQL declaration says, so a declaration that disagrees with the
//! code is a wild pointer. [`check`] runs at compile time: the extension does not build if they disagree. What
//! remains trusted is that no superuser declares the functions once more with other types.

/// The script.
const SQL: &[u8] = include_bytes!("../../treedb.sql");

/// What a type of SQL is to the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Class {
    /// A value of variable length: a document, a value, a key set, text, bytes, numbers.
    Varlena,
    /// An array of values of variable length.
    Array,
    /// `cstring`.
    CString,
    /// A structure of the server's.
    Internal,
    Bool,
    Int2,
    Int4,
    Int8,
    Float8,
    /// `regclass`, `oid`.
    Oid,
    Void,
    /// Rows of the columns that the function has as arguments with `OUT`.
    Record,
    /// The row that a trigger returns.
    Trigger,
    TableAm,
    IndexAm,
    /// Any other, which no code reads or returns.
    Unknown,
}

/// The class of a type name.
const fn class(name: &[u8]) -> Class {
    match name {
        b"bson" | b"bson_value" | b"keyset" | b"text" | b"bytea" | b"float4[]" | b"bit" | b"varbit" => {
            Class::Varlena
        }
        b"bson[]" | b"bson_value[]" | b"text[]" => Class::Array,
        b"cstring" => Class::CString,
        b"internal" => Class::Internal,
        b"bool" => Class::Bool,
        b"int2" => Class::Int2,
        b"int4" => Class::Int4,
        b"int8" => Class::Int8,
        b"float8" => Class::Float8,
        b"regclass" | b"oid" => Class::Oid,
        b"void" => Class::Void,
        b"record" => Class::Record,
        b"trigger" => Class::Trigger,
        b"table_am_handler" => Class::TableAm,
        b"index_am_handler" => Class::IndexAm,
        _ => Class::Unknown,
    }
}

const fn part(from: usize, to: usize) -> &'static [u8] {
    SQL.split_at(to).0.split_at(from).1
}

/// Whether `wanted` stands in the script at `at`.
const fn stands_at(at: usize, wanted: &[u8]) -> bool {
    if at + wanted.len() > SQL.len() {
        return false;
    }
    let mut i = 0;
    while i < wanted.len() {
        if SQL[at + i] != wanted[i] {
            return false;
        }
        i += 1;
    }
    true
}

const fn is_space(byte: u8) -> bool {
    byte == b' ' || byte == b'\n'
}

/// Where the word that ends at or before `to` begins and ends.
const fn last_word(mut to: usize) -> (usize, usize) {
    while is_space(SQL[to - 1]) {
        to -= 1;
    }
    let mut from = to;
    while !is_space(SQL[from - 1]) && SQL[from - 1] != b'(' && SQL[from - 1] != b',' {
        from -= 1;
    }
    (from, to)
}

/// Compares one declaration, whose list of arguments begins at `at`.
const fn compare(mut at: usize, arguments: &[Class], result: Class, set: bool) {
    let mut count = 0;
    while SQL[at] != b')' {
        // An argument ends at a comma or at the end of the list; a default is no part of its type.
        let mut end = at;
        let mut default = 0;
        while SQL[end] != b',' && SQL[end] != b')' {
            if stands_at(end, b" DEFAULT ") && default == 0 {
                default = end;
            }
            end += 1;
        }
        while is_space(SQL[at]) {
            at += 1;
        }
        // A column of the result.
        if !stands_at(at, b"OUT ") {
            let (from, to) = last_word(if default > 0 { default } else { end });
            assert!(count < arguments.len(), "the SQL script declares more arguments than the code reads");
            assert!(
                class(part(from, to)) as u8 == arguments[count] as u8,
                "the SQL script declares another type for an argument"
            );
            count += 1;
        }
        at = if SQL[end] == b',' { end + 1 } else { end };
    }
    assert!(count == arguments.len(), "the SQL script declares fewer arguments than the code reads");
    at += 1;
    assert!(stands_at(at, b" RETURNS "));
    at += b" RETURNS ".len();
    let is_set = stands_at(at, b"SETOF ");
    if is_set {
        at += b"SETOF ".len();
    }
    let mut end = at;
    while !is_space(SQL[end]) {
        end += 1;
    }
    assert!(is_set == set, "the SQL script and the code disagree on whether the function returns a set");
    assert!(class(part(at, end)) as u8 == result as u8, "the SQL script declares another type of result");
}

/// Compares every declaration of the C function `symbol`; `set` if it returns a set.
pub(crate) const fn check(symbol: &str, arguments: &[Class], result: Class, set: bool) {
    let symbol = symbol.as_bytes();
    let mut declarations = 0;
    // Where the list of arguments of the declaration begins that is being read.
    let mut open = 0;
    let mut at = 0;
    while at < SQL.len() {
        match SQL[at] {
            b'C' if stands_at(at, b"CREATE FUNCTION ") => {
                while SQL[at] != b'(' {
                    at += 1;
                }
                open = at + 1;
            }
            b'\''
                if stands_at(at + 1, symbol)
                    && at + 1 + symbol.len() < SQL.len()
                    && SQL[at + 1 + symbol.len()] == b'\'' =>
            {
                compare(open, arguments, result, set);
                declarations += 1;
            }
            _ => {}
        }
        at += 1;
    }
    assert!(declarations > 0, "the SQL script does not declare the function");
}
