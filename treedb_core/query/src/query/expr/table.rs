//! The table of operators that evaluate all their operands first: name, operands, function.

use crate::doc::Value;
use crate::error::{ErrorCode, Result};

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

/// What an operand without a value stands for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Absent {
    /// An error of this code.
    Refused(ErrorCode),
    Default(DefaultValue),
    /// An error of this code where the operands are named, and the default in the short form.
    DefaultIfShort(ErrorCode, DefaultValue),
    /// Nothing: the operator goes without it.
    Nothing,
}

/// A document of named operands.
#[derive(Debug, Clone, Copy)]
pub(super) struct NamedOperands {
    /// The code of the error of anything but a document.
    pub(super) shape: ErrorCode,
    /// The code of the error of an operand that does not exist.
    pub(super) unknown: ErrorCode,
    pub(super) operands: &'static [(&'static str, Absent)],
}

/// How an operator's operands are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operands {
    /// A list: the minimum and the maximum number of operands, and the code of the error of another number.
    List(usize, usize, ErrorCode),
    /// A document with named operands.
    Named(NamedOperands),
    /// A document with named operands, or only the value of the named one; the code of the error of a list of several.
    NamedOr(NamedOperands, &'static str, ErrorCode),
}

use DefaultValue::{Bool, Int, MaxKey, Null, Text};
use ErrorCode as C;
use Operands::{List, Named, NamedOr};

const ANY: usize = usize::MAX;

/// Operands that are a list.
const fn list(least: usize, most: usize) -> Operands {
    let code = if least < most && most < ANY { C::Location28667 } else { C::Location16020 };
    List(least, most, code)
}

const fn names(
    shape: ErrorCode,
    unknown: ErrorCode,
    operands: &'static [(&'static str, Absent)],
) -> NamedOperands {
    NamedOperands { shape, unknown, operands }
}

/// An operand that is required.
const fn needed(name: &'static str, code: ErrorCode) -> (&'static str, Absent) {
    (name, Absent::Refused(code))
}

/// An operand with a default.
const fn or(name: &'static str, default: DefaultValue) -> (&'static str, Absent) {
    (name, Absent::Default(default))
}

/// An operand that may be left out.
const fn optional(name: &'static str) -> (&'static str, Absent) {
    (name, Absent::Nothing)
}

const UTC: (&str, Absent) = or("timezone", Text("UTC"));

const fn def(name: &'static str, operands: Operands, run: Run) -> Def {
    Def { name, operands, strict: false, pure: true, run }
}

/// An operator whose result is null if an operand is null.
const fn strict(name: &'static str, operands: Operands, run: Run) -> Def {
    Def { name, operands, strict: true, pure: true, run }
}

const TRIM: Operands = Named(names(
    C::Location50696,
    C::Location50694,
    &[needed("input", C::Location50695), or("chars", MaxKey)],
));
const REGEX: Operands = Named(names(
    C::Location51103,
    C::Location31024,
    &[needed("input", C::Location31022), needed("regex", C::Location31023), or("options", MaxKey)],
));
const REPLACE: Operands = Named(names(
    C::Location51751,
    C::Location51750,
    &[
        needed("input", C::Location51749),
        needed("find", C::Location51748),
        needed("replacement", C::Location51747),
    ],
));
const PART: Operands = NamedOr(
    names(C::Location40535, C::Location40535, &[needed("date", C::Location40539), UTC]),
    "date",
    C::Location40536,
);
const ADD: Operands = Named(names(
    C::Location5166400,
    C::Location5166401,
    &[
        needed("startDate", C::Location5166402),
        needed("unit", C::Location5166402),
        needed("amount", C::Location5166402),
        UTC,
    ],
));
const CONVERT_ONE: Operands = List(1, 1, C::Location50723);

const N: &[(&str, Absent)] = &[needed("n", C::Location5787906), needed("input", C::Location5787907)];

/// `$firstN` and its like; the code is that of what is no document.
const fn n_of(shape: ErrorCode) -> Operands {
    Named(names(shape, C::Location5787901, N))
}

/// `$setField` and `$unsetField`.
const fn set_field(operands: &'static [(&'static str, Absent)]) -> Operands {
    Named(names(C::Location4161100, C::Location4161101, operands))
}

/// The operands of operators that the parser has nodes of their own for.
pub(super) const COND: NamedOperands = names(
    C::Location16020,
    C::Location17083,
    &[needed("if", C::Location17080), needed("then", C::Location17081), needed("else", C::Location17082)],
);
pub(super) const SWITCH: NamedOperands =
    names(C::Location40060, C::Location40067, &[needed("branches", C::Location40068), optional("default")]);
pub(super) const BRANCH: NamedOperands = names(
    C::Location40062,
    C::Location40063,
    &[needed("case", C::Location40064), needed("then", C::Location40065)],
);
pub(super) const LET: NamedOperands = names(
    C::Location16874,
    C::Location16875,
    &[needed("vars", C::Location16876), needed("in", C::Location16877)],
);
pub(super) const MAP: NamedOperands = names(
    C::Location16878,
    C::Location16879,
    &[needed("input", C::Location16880), needed("in", C::Location16882), optional("as")],
);
pub(super) const FILTER: NamedOperands = names(
    C::Location28646,
    C::Location28647,
    &[needed("input", C::Location28648), needed("cond", C::Location28650), optional("as"), optional("limit")],
);
pub(super) const REDUCE: NamedOperands = names(
    C::Location40075,
    C::Location40076,
    &[
        needed("input", C::Location40077),
        needed("initialValue", C::Location40078),
        needed("in", C::Location40079),
    ],
);
pub(super) const SORT_ARRAY: NamedOperands = names(
    C::Location2942500,
    C::Location2942501,
    &[needed("input", C::Location2942502), needed("sortBy", C::Location2942503)],
);

static TABLE: &[Def] = &[
    def("$eq", list(2, 2), logic::eq),
    def("$ne", list(2, 2), logic::ne),
    def("$lt", list(2, 2), logic::lt),
    def("$lte", list(2, 2), logic::lte),
    def("$gt", list(2, 2), logic::gt),
    def("$gte", list(2, 2), logic::gte),
    def("$cmp", list(2, 2), logic::cmp),
    def("$not", list(1, 1), logic::not),
    def("$type", list(1, 1), logic::type_of),
    def("$isArray", list(1, 1), logic::is_array),
    def("$isNumber", list(1, 1), logic::is_number),
    Def { name: "$rand", operands: list(0, 1), strict: false, pure: false, run: logic::rand },
    def("$bsonSize", list(1, 1), logic::bson_size),
    def("$binarySize", list(1, 1), logic::binary_size),
    // Numbers.
    def("$add", list(0, ANY), number::add),
    strict("$subtract", list(2, 2), number::subtract),
    def("$multiply", list(0, ANY), number::multiply),
    strict("$divide", list(2, 2), number::divide),
    strict("$mod", list(2, 2), number::modulo),
    strict("$abs", list(1, 1), number::abs),
    strict("$ceil", list(1, 1), number::ceil),
    strict("$floor", list(1, 1), number::floor),
    strict("$round", list(1, 2), number::round),
    strict("$trunc", list(1, 2), number::trunc),
    strict("$sqrt", list(1, 1), number::sqrt),
    strict("$exp", list(1, 1), number::exp),
    strict("$ln", list(1, 1), number::ln),
    strict("$log10", list(1, 1), number::log10),
    strict("$log", list(2, 2), number::log),
    strict("$pow", list(2, 2), number::pow),
    strict("$sin", list(1, 1), number::sin),
    strict("$cos", list(1, 1), number::cos),
    strict("$tan", list(1, 1), number::tan),
    strict("$asin", list(1, 1), number::asin),
    strict("$acos", list(1, 1), number::acos),
    strict("$atan", list(1, 1), number::atan),
    strict("$atan2", list(2, 2), number::atan2),
    strict("$sinh", list(1, 1), number::sinh),
    strict("$cosh", list(1, 1), number::cosh),
    strict("$tanh", list(1, 1), number::tanh),
    strict("$asinh", list(1, 1), number::asinh),
    strict("$acosh", list(1, 1), number::acosh),
    strict("$atanh", list(1, 1), number::atanh),
    strict("$degreesToRadians", list(1, 1), number::to_radians),
    strict("$radiansToDegrees", list(1, 1), number::to_degrees),
    def("$bitAnd", list(0, ANY), number::bit_and),
    def("$bitOr", list(0, ANY), number::bit_or),
    def("$bitXor", list(0, ANY), number::bit_xor),
    strict("$bitNot", list(1, 1), number::bit_not),
    // Strings.
    def("$concat", list(0, ANY), string::concat),
    def("$toLower", list(1, 1), string::to_lower),
    def("$toUpper", list(1, 1), string::to_upper),
    def("$strcasecmp", list(2, 2), string::strcasecmp),
    def("$substr", list(3, 3), string::substr_bytes),
    def("$substrBytes", list(3, 3), string::substr_bytes),
    def("$substrCP", list(3, 3), string::substr_cp),
    def("$strLenBytes", list(1, 1), string::len_bytes),
    def("$strLenCP", list(1, 1), string::len_cp),
    def("$indexOfBytes", list(2, 4), string::index_of_bytes),
    def("$indexOfCP", list(2, 4), string::index_of_cp),
    strict("$split", list(2, 2), string::split),
    strict("$trim", TRIM, string::trim),
    strict("$ltrim", TRIM, string::ltrim),
    strict("$rtrim", TRIM, string::rtrim),
    strict("$replaceOne", REPLACE, string::replace_one),
    strict("$replaceAll", REPLACE, string::replace_all),
    def("$regexMatch", REGEX, pattern::regex_match),
    def("$regexFind", REGEX, pattern::regex_find),
    def("$regexFindAll", REGEX, pattern::regex_find_all),
    // Arrays and sets.
    strict("$arrayElemAt", list(2, 2), array::elem_at),
    strict("$first", list(1, 1), array::first),
    strict("$last", list(1, 1), array::last),
    def("$concatArrays", list(0, ANY), array::concat),
    def("$size", list(1, 1), array::size),
    strict("$slice", list(2, 3), array::slice),
    def("$in", list(2, 2), array::contains),
    def("$indexOfArray", list(2, 4), array::index_of),
    def("$range", list(2, 3), array::range),
    strict("$reverseArray", list(1, 1), array::reverse),
    def(
        "$zip",
        Named(names(
            C::Location34460,
            C::Location34464,
            &[needed("inputs", C::Location34465), or("useLongestLength", Bool(false)), or("defaults", Null)],
        )),
        array::zip,
    ),
    strict("$firstN", n_of(C::Location5787801), array::first_n),
    strict("$lastN", n_of(C::Location5787801), array::last_n),
    strict("$maxN", n_of(C::Location5787900), array::max_n),
    strict("$minN", n_of(C::Location5787900), array::min_n),
    def("$max", list(0, ANY), array::max),
    def("$min", list(0, ANY), array::min),
    def("$sum", list(0, ANY), array::sum),
    def("$avg", list(0, ANY), array::avg),
    def("$stdDevPop", list(0, ANY), array::std_dev_pop),
    def("$stdDevSamp", list(0, ANY), array::std_dev_samp),
    strict(
        "$percentile",
        Named(names(
            C::Location7436200,
            C::Location40415,
            &[
                needed("input", C::Location40414),
                needed("p", C::Location40414),
                or("method", Text("approximate")),
            ],
        )),
        array::percentile,
    ),
    strict(
        "$median",
        Named(names(
            C::Location7436201,
            C::Location40415,
            &[needed("input", C::Location40414), or("method", Text("approximate"))],
        )),
        array::median,
    ),
    def("$setUnion", list(0, ANY), array::set_union),
    def("$setIntersection", list(0, ANY), array::set_intersection),
    strict("$setDifference", list(2, 2), array::set_difference),
    def("$setEquals", List(2, ANY, C::Location17045), array::set_equals),
    def("$setIsSubset", list(2, 2), array::set_is_subset),
    def("$allElementsTrue", list(1, 1), array::all_true),
    def("$anyElementTrue", list(1, 1), array::any_true),
    // Documents.
    def("$mergeObjects", list(0, ANY), object::merge),
    strict("$objectToArray", list(1, 1), object::to_array),
    strict("$arrayToObject", list(1, 1), object::from_array),
    def(
        "$getField",
        NamedOr(
            names(
                C::Location3041701,
                C::Location3041701,
                &[
                    needed("field", C::Location3041702),
                    ("input", Absent::DefaultIfShort(C::Location3041703, MaxKey)),
                ],
            ),
            "field",
            C::Location3041704,
        ),
        object::get_field,
    ),
    def(
        "$setField",
        set_field(&[
            needed("field", C::Location4161102),
            needed("input", C::Location4161109),
            needed("value", C::Location4161103),
        ]),
        object::set_field,
    ),
    def(
        "$unsetField",
        set_field(&[needed("field", C::Location4161102), needed("input", C::Location4161109)]),
        object::unset_field,
    ),
    // Types.
    def(
        "$convert",
        Named(names(
            C::FailedToParse,
            C::FailedToParse,
            &[
                needed("input", C::FailedToParse),
                needed("to", C::FailedToParse),
                or("onError", MaxKey),
                or("onNull", Null),
                or("format", Null),
                or("byteOrder", Null),
            ],
        )),
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
    strict("$year", PART, date::year),
    strict("$month", PART, date::month),
    strict("$dayOfMonth", PART, date::day_of_month),
    strict("$dayOfWeek", PART, date::day_of_week),
    strict("$dayOfYear", PART, date::day_of_year),
    strict("$hour", PART, date::hour),
    strict("$minute", PART, date::minute),
    strict("$second", PART, date::second),
    strict("$millisecond", PART, date::millisecond),
    strict("$week", PART, date::week),
    strict("$isoWeek", PART, date::iso_week),
    strict("$isoWeekYear", PART, date::iso_week_year),
    strict("$isoDayOfWeek", PART, date::iso_day_of_week),
    def(
        "$dateToString",
        Named(names(
            C::Location18629,
            C::Location18534,
            &[needed("date", C::Location18628), or("format", MaxKey), UTC, or("onNull", Null)],
        )),
        date::to_string,
    ),
    def(
        "$dateFromString",
        Named(names(
            C::Location40540,
            C::Location40541,
            &[
                needed("dateString", C::Location40542),
                or("format", MaxKey),
                UTC,
                or("onError", MaxKey),
                or("onNull", Null),
            ],
        )),
        date::from_string,
    ),
    strict(
        "$dateToParts",
        Named(names(
            C::Location40524,
            C::Location40520,
            &[needed("date", C::Location40522), UTC, or("iso8601", Bool(false))],
        )),
        date::to_parts,
    ),
    strict(
        "$dateFromParts",
        Named(names(
            C::Location40519,
            C::Location40518,
            &[
                or("year", MaxKey),
                or("month", Int(1)),
                or("day", Int(1)),
                or("isoWeekYear", MaxKey),
                or("isoWeek", Int(1)),
                or("isoDayOfWeek", Int(1)),
                or("hour", Int(0)),
                or("minute", Int(0)),
                or("second", Int(0)),
                or("millisecond", Int(0)),
                UTC,
            ],
        )),
        date::from_parts,
    ),
    strict("$dateAdd", ADD, date::add),
    strict("$dateSubtract", ADD, date::subtract),
    strict(
        "$dateDiff",
        Named(names(
            C::Location5166301,
            C::Location5166302,
            &[
                needed("startDate", C::Location5166303),
                needed("endDate", C::Location5166304),
                needed("unit", C::Location5166305),
                UTC,
                or("startOfWeek", Text("sunday")),
            ],
        )),
        date::diff,
    ),
    strict(
        "$dateTrunc",
        Named(names(
            C::Location5439007,
            C::Location5439008,
            &[
                needed("date", C::Location5439009),
                needed("unit", C::Location5439010),
                or("binSize", Int(1)),
                UTC,
                or("startOfWeek", Text("sunday")),
            ],
        )),
        date::trunc,
    ),
    strict("$tsSecond", list(1, 1), date::ts_second),
    strict("$tsIncrement", list(1, 1), date::ts_increment),
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
