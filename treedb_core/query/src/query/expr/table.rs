//! The table of operators that evaluate all their operands first: name, operands, function.

use crate::doc::Value;
use crate::error::Result;

use super::{Found, Scope};
use super::{array, convert, date, logic, number, object, pattern, string};

/// A function of evaluated operands.
type Run = for<'a> fn(&Scope<'a>, &[Found<'a>]) -> Result<Found<'a>>;

/// One operator.
pub(super) struct Def {
    pub(super) name: &'static str,
    pub(super) operands: Operands,
    /// The result is null if an operand is null or missing; the function is not called then.
    pub(super) strict: bool,
    /// The same operands always give the same result.
    pub(super) pure: bool,
    pub(super) run: Run,
}

impl std::fmt::Debug for Def {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// The default value of an operand.
#[derive(Debug, Clone, Copy)]
pub(super) enum DefaultValue {
    Null,
    Text(&'static str),
    Int(i32),
    Bool(bool),
    MaxKey,
}

impl DefaultValue {
    pub(super) fn value(self) -> Value<'static> {
        match self {
            DefaultValue::Null => Value::Null,
            DefaultValue::Text(text) => Value::String(text.as_bytes()),
            DefaultValue::Int(value) => Value::Int32(value),
            DefaultValue::Bool(value) => Value::Bool(value),
            DefaultValue::MaxKey => Value::MaxKey,
        }
    }
}

type Operand = (&'static str, Option<DefaultValue>);

/// How an operator's operands are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operands {
    /// A list; the minimum and the maximum number of operands.
    List(usize, usize),
    /// A document with named operands; operands without a default are required.
    Named(&'static [Operand]),
    /// A document with named operands, or only the value of the named one.
    NamedOr(&'static [Operand], &'static str),
}

use DefaultValue::{Bool, Int, MaxKey, Null, Text};
use Operands::{List, Named, NamedOr};

const ANY: usize = usize::MAX;
const UTC: Operand = ("timezone", Some(Text("UTC")));

const fn def(name: &'static str, operands: Operands, run: Run) -> Def {
    Def { name, operands, strict: false, pure: true, run }
}

/// An operator whose result is null if an operand is null.
const fn strict(name: &'static str, operands: Operands, run: Run) -> Def {
    Def { name, operands, strict: true, pure: true, run }
}

const TRIM: &[Operand] = &[("input", None), ("chars", Some(MaxKey))];
const REGEX: &[Operand] = &[("input", None), ("regex", None), ("options", Some(MaxKey))];
const REPLACE: &[Operand] = &[("input", None), ("find", None), ("replacement", None)];
const PART: &[Operand] = &[("date", None), UTC];
const ADD: &[Operand] = &[("startDate", None), ("unit", None), ("amount", None), UTC];
const N: &[Operand] = &[("input", None), ("n", None)];
const CONVERT_ONE: Operands = List(1, 1);

static TABLE: &[Def] = &[
    def("$eq", List(2, 2), logic::eq),
    def("$ne", List(2, 2), logic::ne),
    def("$lt", List(2, 2), logic::lt),
    def("$lte", List(2, 2), logic::lte),
    def("$gt", List(2, 2), logic::gt),
    def("$gte", List(2, 2), logic::gte),
    def("$cmp", List(2, 2), logic::cmp),
    def("$not", List(1, 1), logic::not),
    def("$type", List(1, 1), logic::type_of),
    def("$isArray", List(1, 1), logic::is_array),
    def("$isNumber", List(1, 1), logic::is_number),
    Def { name: "$rand", operands: List(0, 1), strict: false, pure: false, run: logic::rand },
    def("$bsonSize", List(1, 1), logic::bson_size),
    def("$binarySize", List(1, 1), logic::binary_size),
    // Numbers.
    def("$add", List(0, ANY), number::add),
    strict("$subtract", List(2, 2), number::subtract),
    def("$multiply", List(0, ANY), number::multiply),
    strict("$divide", List(2, 2), number::divide),
    strict("$mod", List(2, 2), number::modulo),
    strict("$abs", List(1, 1), number::abs),
    strict("$ceil", List(1, 1), number::ceil),
    strict("$floor", List(1, 1), number::floor),
    strict("$round", List(1, 2), number::round),
    strict("$trunc", List(1, 2), number::trunc),
    strict("$sqrt", List(1, 1), number::sqrt),
    strict("$exp", List(1, 1), number::exp),
    strict("$ln", List(1, 1), number::ln),
    strict("$log10", List(1, 1), number::log10),
    strict("$log", List(2, 2), number::log),
    strict("$pow", List(2, 2), number::pow),
    strict("$sin", List(1, 1), number::sin),
    strict("$cos", List(1, 1), number::cos),
    strict("$tan", List(1, 1), number::tan),
    strict("$asin", List(1, 1), number::asin),
    strict("$acos", List(1, 1), number::acos),
    strict("$atan", List(1, 1), number::atan),
    strict("$atan2", List(2, 2), number::atan2),
    strict("$sinh", List(1, 1), number::sinh),
    strict("$cosh", List(1, 1), number::cosh),
    strict("$tanh", List(1, 1), number::tanh),
    strict("$asinh", List(1, 1), number::asinh),
    strict("$acosh", List(1, 1), number::acosh),
    strict("$atanh", List(1, 1), number::atanh),
    strict("$degreesToRadians", List(1, 1), number::to_radians),
    strict("$radiansToDegrees", List(1, 1), number::to_degrees),
    def("$bitAnd", List(0, ANY), number::bit_and),
    def("$bitOr", List(0, ANY), number::bit_or),
    def("$bitXor", List(0, ANY), number::bit_xor),
    strict("$bitNot", List(1, 1), number::bit_not),
    // Strings.
    def("$concat", List(0, ANY), string::concat),
    def("$toLower", List(1, 1), string::to_lower),
    def("$toUpper", List(1, 1), string::to_upper),
    def("$strcasecmp", List(2, 2), string::strcasecmp),
    def("$substr", List(3, 3), string::substr_bytes),
    def("$substrBytes", List(3, 3), string::substr_bytes),
    def("$substrCP", List(3, 3), string::substr_cp),
    def("$strLenBytes", List(1, 1), string::len_bytes),
    def("$strLenCP", List(1, 1), string::len_cp),
    def("$indexOfBytes", List(2, 4), string::index_of_bytes),
    def("$indexOfCP", List(2, 4), string::index_of_cp),
    strict("$split", List(2, 2), string::split),
    strict("$trim", Named(TRIM), string::trim),
    strict("$ltrim", Named(TRIM), string::ltrim),
    strict("$rtrim", Named(TRIM), string::rtrim),
    strict("$replaceOne", Named(REPLACE), string::replace_one),
    strict("$replaceAll", Named(REPLACE), string::replace_all),
    def("$regexMatch", Named(REGEX), pattern::regex_match),
    def("$regexFind", Named(REGEX), pattern::regex_find),
    def("$regexFindAll", Named(REGEX), pattern::regex_find_all),
    // Arrays and sets.
    strict("$arrayElemAt", List(2, 2), array::elem_at),
    strict("$first", List(1, 1), array::first),
    strict("$last", List(1, 1), array::last),
    def("$concatArrays", List(0, ANY), array::concat),
    def("$size", List(1, 1), array::size),
    strict("$slice", List(2, 3), array::slice),
    def("$in", List(2, 2), array::contains),
    def("$indexOfArray", List(2, 4), array::index_of),
    def("$range", List(2, 3), array::range),
    strict("$reverseArray", List(1, 1), array::reverse),
    def(
        "$zip",
        Named(&[("inputs", None), ("useLongestLength", Some(Bool(false))), ("defaults", Some(Null))]),
        array::zip,
    ),
    strict("$firstN", Named(N), array::first_n),
    strict("$lastN", Named(N), array::last_n),
    strict("$maxN", Named(N), array::max_n),
    strict("$minN", Named(N), array::min_n),
    def("$max", List(0, ANY), array::max),
    def("$min", List(0, ANY), array::min),
    def("$sum", List(0, ANY), array::sum),
    def("$avg", List(0, ANY), array::avg),
    def("$stdDevPop", List(0, ANY), array::std_dev_pop),
    def("$stdDevSamp", List(0, ANY), array::std_dev_samp),
    strict(
        "$percentile",
        Named(&[("input", None), ("p", None), ("method", Some(Text("approximate")))]),
        array::percentile,
    ),
    strict("$median", Named(&[("input", None), ("method", Some(Text("approximate")))]), array::median),
    def("$setUnion", List(0, ANY), array::set_union),
    def("$setIntersection", List(0, ANY), array::set_intersection),
    strict("$setDifference", List(2, 2), array::set_difference),
    def("$setEquals", List(2, ANY), array::set_equals),
    def("$setIsSubset", List(2, 2), array::set_is_subset),
    def("$allElementsTrue", List(1, 1), array::all_true),
    def("$anyElementTrue", List(1, 1), array::any_true),
    // Documents.
    def("$mergeObjects", List(0, ANY), object::merge),
    strict("$objectToArray", List(1, 1), object::to_array),
    strict("$arrayToObject", List(1, 1), object::from_array),
    def("$getField", NamedOr(&[("field", None), ("input", Some(MaxKey))], "field"), object::get_field),
    def("$setField", Named(&[("field", None), ("input", None), ("value", None)]), object::set_field),
    def("$unsetField", Named(&[("field", None), ("input", None)]), object::unset_field),
    // Types.
    def(
        "$convert",
        Named(&[
            ("input", None),
            ("to", None),
            ("onError", Some(MaxKey)),
            ("onNull", Some(Null)),
            ("format", Some(Null)),
            ("byteOrder", Some(Null)),
        ]),
        convert::convert,
    ),
    strict("$toBool", CONVERT_ONE, convert::to_bool),
    strict("$toInt", CONVERT_ONE, convert::to_int),
    strict("$toLong", CONVERT_ONE, convert::to_long),
    strict("$toDouble", CONVERT_ONE, convert::to_double),
    strict("$toDecimal", CONVERT_ONE, convert::to_decimal),
    strict("$toString", CONVERT_ONE, convert::to_string),
    strict("$toDate", CONVERT_ONE, convert::to_date),
    strict("$toObjectId", CONVERT_ONE, convert::to_object_id),
    strict("$toUUID", CONVERT_ONE, convert::to_uuid),
    // Dates.
    strict("$year", NamedOr(PART, "date"), date::year),
    strict("$month", NamedOr(PART, "date"), date::month),
    strict("$dayOfMonth", NamedOr(PART, "date"), date::day_of_month),
    strict("$dayOfWeek", NamedOr(PART, "date"), date::day_of_week),
    strict("$dayOfYear", NamedOr(PART, "date"), date::day_of_year),
    strict("$hour", NamedOr(PART, "date"), date::hour),
    strict("$minute", NamedOr(PART, "date"), date::minute),
    strict("$second", NamedOr(PART, "date"), date::second),
    strict("$millisecond", NamedOr(PART, "date"), date::millisecond),
    strict("$week", NamedOr(PART, "date"), date::week),
    strict("$isoWeek", NamedOr(PART, "date"), date::iso_week),
    strict("$isoWeekYear", NamedOr(PART, "date"), date::iso_week_year),
    strict("$isoDayOfWeek", NamedOr(PART, "date"), date::iso_day_of_week),
    def(
        "$dateToString",
        Named(&[("date", None), ("format", Some(MaxKey)), UTC, ("onNull", Some(Null))]),
        date::to_string,
    ),
    def(
        "$dateFromString",
        Named(&[
            ("dateString", None),
            ("format", Some(MaxKey)),
            UTC,
            ("onError", Some(MaxKey)),
            ("onNull", Some(Null)),
        ]),
        date::from_string,
    ),
    strict("$dateToParts", Named(&[("date", None), UTC, ("iso8601", Some(Bool(false)))]), date::to_parts),
    strict(
        "$dateFromParts",
        Named(&[
            ("year", Some(MaxKey)),
            ("month", Some(Int(1))),
            ("day", Some(Int(1))),
            ("isoWeekYear", Some(MaxKey)),
            ("isoWeek", Some(Int(1))),
            ("isoDayOfWeek", Some(Int(1))),
            ("hour", Some(Int(0))),
            ("minute", Some(Int(0))),
            ("second", Some(Int(0))),
            ("millisecond", Some(Int(0))),
            UTC,
        ]),
        date::from_parts,
    ),
    strict("$dateAdd", Named(ADD), date::add),
    strict("$dateSubtract", Named(ADD), date::subtract),
    strict(
        "$dateDiff",
        Named(&[
            ("startDate", None),
            ("endDate", None),
            ("unit", None),
            UTC,
            ("startOfWeek", Some(Text("sunday"))),
        ]),
        date::diff,
    ),
    strict(
        "$dateTrunc",
        Named(&[
            ("date", None),
            ("unit", None),
            ("binSize", Some(Int(1))),
            UTC,
            ("startOfWeek", Some(Text("sunday"))),
        ]),
        date::trunc,
    ),
    strict("$tsSecond", List(1, 1), date::ts_second),
    strict("$tsIncrement", List(1, 1), date::ts_increment),
];

/// The operator of that name.
pub(super) fn find(name: &str) -> Option<&'static Def> {
    TABLE.iter().find(|def| def.name == name)
}

/// All operators.
#[cfg(test)]
pub(super) fn all() -> &'static [Def] {
    TABLE
}
