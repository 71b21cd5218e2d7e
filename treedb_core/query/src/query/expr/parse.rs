//! Parses MongoDB's notation into the expression tree.

use std::collections::HashSet;

use crate::doc::path::is_dollar_prefixed;
use crate::doc::{Doc, Element, OwnedValue, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Sort;

use super::scope::{Arena, Globals, Names, Scope};
use super::table::{self, Absent, NamedOperands, Operands};
use super::{Base, Node};

/// Operators that are not supported, and what to use instead.
const UNSUPPORTED: &[(&str, &str)] = &[
    ("$function", "write it with $map, $filter, $reduce and $switch"),
    ("$accumulator", "use $push, and $reduce or $map after the $group"),
];

/// What MongoDB keeps of a document beside its fields; the first is all that there is here.
const METADATA: &[&str] = &[
    "vectorSearchScore",
    "geoNearDistance",
    "geoNearPoint",
    "indexKey",
    "randVal",
    "recordId",
    "score",
    "scoreDetails",
    "searchHighlights",
    "searchScore",
    "searchScoreDetails",
    "searchSequenceToken",
    "sortKey",
    "textScore",
];

pub(super) fn expression(value: Value<'_>, names: &mut Names) -> Result<Node> {
    match value {
        Value::String(text) => string(text, names),
        Value::Document(doc) => match doc.operator() {
            Some(first) => operator(doc, &first, names),
            None => object(doc, names),
        },
        Value::Array(array) => {
            let items =
                array.elements().map(|item| expression(item.value(), names)).collect::<Result<_>>()?;
            Ok(fold_constants(Node::Array(items), names))
        }
        value => Ok(Node::Const(OwnedValue::from_value(value))),
    }
}

/// Constant folding: replaces a node whose operands are all constants by its value. If evaluating it fails,
/// the node is kept, so that the error is reported when the expression is evaluated.
fn fold_constants(node: Node, names: &Names) -> Node {
    let constant = |node: &Node| matches!(node, Node::Const(_));
    let fold = match &node {
        Node::Array(items) => items.iter().all(constant),
        Node::Object(fields) => fields.iter().all(|(_, field)| constant(field)),
        Node::Call(def, args) => def.pure && args.iter().all(constant),
        _ => false,
    };
    if !fold {
        return node;
    }
    let (arena, globals) = (Arena::new(), Globals::default());
    let mut scope = Scope::new(Doc::EMPTY, &globals, &arena);
    scope.collation = names.collation();
    let found = node.eval(&mut scope).ok();
    let value = match found {
        Some(Some(value)) => Some(OwnedValue::from_value(value)),
        _ => None,
    };
    value.map_or(node, Node::Const)
}

fn string(text: &[u8], names: &Names) -> Result<Node> {
    let text = std::str::from_utf8(text).unwrap_or("\u{fffd}");
    let Some(path) = text.strip_prefix('$') else {
        return Ok(Node::Const(OwnedValue::from_value(Value::String(text.as_bytes()))));
    };
    if path.is_empty() {
        return Err(QueryError::new(ErrorCode::Location16872, "'$' by itself is not a valid FieldPath"));
    }
    let Some(variable) = path.strip_prefix('$') else {
        check_path(path)?;
        return Ok(Node::Path(Base::Current, Path::new(path)));
    };
    let (name, path) = match variable.split_once('.') {
        Some((name, path)) => (name, Some(path)),
        None => (variable, None),
    };
    if name.is_empty() {
        return Err(QueryError::new(ErrorCode::FailedToParse, "empty variable names are not allowed"));
    }
    if let Some(path) = path {
        check_names(variable)?;
        check_path(path)?;
    }
    let base = match (name, path) {
        ("ROOT", _) => Base::Root,
        ("CURRENT", _) => Base::Current,
        ("REMOVE", _) => return Ok(Node::Missing),
        ("NOW", None) => return Ok(Node::Now),
        ("DESCEND" | "PRUNE" | "KEEP", None) => {
            return Ok(Node::Const(OwnedValue::from_value(Value::String(
                name.to_ascii_lowercase().as_bytes(),
            ))));
        }
        _ => names.find(name).ok_or_else(|| {
            QueryError::new(ErrorCode::Location17276, format!("Use of undefined variable: {name}"))
        })?,
    };
    Ok(match path {
        Some(path) => Node::Path(base, Path::new(path)),
        None => Node::Whole(base),
    })
}

/// Rejects paths with empty parts.
pub(crate) fn check_names(path: &str) -> Result<()> {
    let wrong = |code, what: &str| Err(QueryError::new(code, format!("FieldPath {what}: '{path}'")));
    if path.is_empty() {
        return wrong(ErrorCode::Location40352, "cannot be constructed with empty string");
    }
    if path.ends_with('.') {
        return wrong(ErrorCode::Location40353, "must not end with a '.'");
    }
    if path.split('.').any(str::is_empty) {
        return wrong(ErrorCode::Location15998, "field names may not be empty strings");
    }
    Ok(())
}

/// Rejects paths with empty parts or parts that begin with `$`.
pub(crate) fn check_path(path: &str) -> Result<()> {
    check_names(path)?;
    let wrong = |code, what: &str| Err(QueryError::new(code, format!("FieldPath {what}: '{path}'")));
    if path.starts_with('$') || path.split('.').any(is_dollar_prefixed) {
        let what = "field names may not start with '$'. Consider using $getField or $setField";
        return wrong(ErrorCode::Location16410, what);
    }
    if path.contains('\0') {
        return wrong(ErrorCode::Location16411, "field names may not contain a zero byte");
    }
    Ok(())
}

fn object(doc: Doc<'_>, names: &mut Names) -> Result<Node> {
    let (mut fields, mut known) = (Vec::new(), HashSet::new());
    for element in doc.elements() {
        let name = element.name_str();
        if name.starts_with('$') {
            return Err(QueryError::new(
                ErrorCode::Location16410,
                format!(
                    "FieldPath field names may not start with '$': '{name}'. An operator must be the only field of its \
                     document"
                ),
            ));
        }
        if name.contains('.') {
            return Err(QueryError::new(
                ErrorCode::Location16412,
                format!(
                    "FieldPath field names may not contain '.' in a document expression: '{name}'. Consider using \
                     $getField or $setField"
                ),
            ));
        }
        if name.is_empty() {
            return Err(QueryError::new(
                ErrorCode::Location15998,
                "FieldPath field names may not be empty strings, in a document expression",
            ));
        }
        if !known.insert(name) {
            return Err(QueryError::new(
                ErrorCode::Location16406,
                format!("duplicate field name specified in object literal: '{name}'"),
            ));
        }
        fields.push((name.to_owned(), expression(element.value(), names)?));
    }
    Ok(fold_constants(Node::Object(fields), names))
}

fn operator(doc: Doc<'_>, first: &Element<'_>, names: &mut Names) -> Result<Node> {
    let name = first.name_str();
    if doc.elements().nth(1).is_some() {
        return Err(QueryError::new(
            ErrorCode::Location15983,
            format!(
                "an object representing an expression must have exactly one field: {}",
                crate::doc::shown(Value::Document(doc))
            ),
        ));
    }
    let value = first.value();
    match name {
        "$literal" | "$const" => Ok(Node::Const(OwnedValue::from_element(first))),
        "$and" => Ok(Node::And(list(value, names)?)),
        "$or" => Ok(Node::Or(list(value, names)?)),
        "$ifNull" => {
            let all = list(value, names)?;
            if all.len() < 2 {
                return Err(QueryError::new(
                    ErrorCode::Location1257300,
                    format!("$ifNull needs at least two arguments, had: {}", all.len()),
                ));
            }
            Ok(Node::IfNull(all))
        }
        "$cond" => cond(value, names),
        "$meta" => score_metadata(value, names).map(|()| Node::Score),
        "$switch" => switch(value, names),
        "$let" => let_in(value, names),
        "$map" => {
            let [input, body] = named(name, value, &table::MAP)?.required();
            let input = Box::new(expression(input, names)?);
            let body = with_variable(name, value, names, |names| expression(body, names))?;
            Ok(Node::Map { input, body: Box::new(body) })
        }
        "$filter" => {
            let args = named(name, value, &table::FILTER)?;
            let limit = args.get("limit");
            let [input, condition] = args.required();
            let input = Box::new(expression(input, names)?);
            let limit = limit.map(|limit| expression(limit, names).map(Box::new)).transpose()?;
            let condition =
                Box::new(with_variable(name, value, names, |names| expression(condition, names))?);
            Ok(Node::Filter { input, condition, limit })
        }
        "$reduce" => {
            let [input, initial, body] = named(name, value, &table::REDUCE)?.required();
            let input = Box::new(expression(input, names)?);
            let initial = Box::new(expression(initial, names)?);
            names.locals.extend(["this".to_owned(), "value".to_owned()]);
            let body = expression(body, names);
            names.locals.truncate(names.locals.len().saturating_sub(2));
            Ok(Node::Reduce { input, initial, body: Box::new(body?) })
        }
        "$sortArray" => {
            let [input, by] = named(name, value, &table::SORT_ARRAY)?.required();
            let input = Box::new(expression(input, names)?);
            match by {
                Value::Document(by) => {
                    let by = bson::RawDocument::from_bytes(by.as_bytes())?;
                    let sort = Sort::parse(by)?.ok_or_else(|| {
                        QueryError::bad_value("$sortArray: 'sortBy' must name a field or be 1 or -1")
                    })?;
                    let sort = Some(sort.collated(names.collation()));
                    Ok(Node::SortArray { input, sort, descending: false })
                }
                by => match by.as_integer() {
                    Some(1) => Ok(Node::SortArray { input, sort: None, descending: false }),
                    Some(-1) => Ok(Node::SortArray { input, sort: None, descending: true }),
                    _ => Err(QueryError::new(
                        ErrorCode::Location2942506,
                        "$sortArray: 'sortBy' must be 1, -1 or a document like { field: 1 }",
                    )),
                },
            }
        }
        "$rand" if !is_empty(value) => Err(QueryError::new(
            ErrorCode::Location3040501,
            "$rand does not currently accept arguments: write { $rand: {} }",
        )),
        _ => call(name, value, names),
    }
}

/// An empty document or an empty array.
fn is_empty(value: Value<'_>) -> bool {
    matches!(value, Value::Document(doc) | Value::Array(doc) if doc.is_empty())
}

/// Checks that the operand of `$meta` is `vectorSearchScore`, and that the documents have it.
///
/// # Errors
/// `Location17307`, `Location17308`; `Location40218` where documents have no scores.
pub(crate) fn score_metadata(operand: Value<'_>, names: &Names) -> Result<()> {
    let Value::String(metadata) = operand else {
        return Err(QueryError::new(ErrorCode::Location17307, "$meta only supports string arguments"));
    };
    let metadata = String::from_utf8_lossy(metadata);
    match &*metadata {
        "vectorSearchScore" if names.has_scores() => Ok(()),
        known if METADATA.contains(&known) => Err(QueryError::new(
            ErrorCode::Location40218,
            format!(
                "query requires {known} metadata, but it is not available: a pipeline that begins with $vectorSearch has \
                 vectorSearchScore, up to a stage that makes new documents"
            ),
        )),
        unknown => Err(QueryError::new(
            ErrorCode::Location17308,
            format!("Unsupported argument to $meta: {unknown}"),
        )),
    }
}

fn call(name: &str, value: Value<'_>, names: &mut Names) -> Result<Node> {
    let Some(def) = table::find(name) else {
        if let Some((_, instead)) = UNSUPPORTED.iter().find(|(unsupported, _)| *unsupported == name) {
            return Err(QueryError::new(
                ErrorCode::NotImplemented,
                format!("{name} is not supported: {instead}"),
            ));
        }
        return Err(QueryError::new(
            ErrorCode::InvalidPipelineOperator,
            format!("Unrecognized expression '{name}'"),
        ));
    };
    let args = match def.operands {
        Operands::List(least, most, code) => {
            let args = list(value, names)?;
            if args.len() < least || args.len() > most {
                let wanted = match (least, most) {
                    (a, b) if a == b => format!("exactly {a}"),
                    (a, usize::MAX) => format!("at least {a}"),
                    (a, b) => format!("{a} to {b}"),
                };
                return Err(QueryError::new(
                    code,
                    format!("Expression {name} takes {wanted} arguments. {} were passed in.", args.len()),
                ));
            }
            args
        }
        Operands::Named(all) => named_operands(name, value, &all, names)?,
        Operands::NamedOr(all, short, code) => match value {
            Value::Document(doc) if doc.operator().is_none() => named_operands(name, value, &all, names)?,
            value => {
                let mut given = list(value, names)?;
                let (Some(only), true) = (given.pop(), given.is_empty()) else {
                    return Err(QueryError::new(
                        code,
                        format!("{name} accepts exactly one argument if given an array"),
                    ));
                };
                let mut only = Some(only);
                let operand =
                    |(operand, absent): &(&'static str, Absent)| match only.take_if(|_| *operand == short) {
                        Some(node) => Ok(node),
                        None => absent_operand(name, operand, *absent),
                    };
                all.operands.iter().map(operand).collect::<Result<_>>()?
            }
        },
    };
    Ok(fold_constants(Node::Call(def, args), names))
}

fn named_operands(name: &str, value: Value<'_>, all: &NamedOperands, names: &mut Names) -> Result<Vec<Node>> {
    let args = named(name, value, all)?;
    if name == "$dateFromParts" {
        check_date_parts(&args)?;
    }
    let operand = |(operand, absent): &(&'static str, Absent)| match args.get(operand) {
        Some(value) => expression(value, names),
        None => absent_operand(name, operand, *absent),
    };
    all.operands.iter().map(operand).collect()
}

/// What stands in for an operand that is not given.
fn absent_operand(name: &str, operand: &str, absent: Absent) -> Result<Node> {
    match absent {
        Absent::Refused(code) => Err(missing(code, name, operand)),
        Absent::Default(default) | Absent::DefaultIfShort(_, default) => {
            Ok(Node::Const(OwnedValue::from_value(default.value())))
        }
        Absent::Nothing => Ok(Node::Missing),
    }
}

fn missing(code: ErrorCode, name: &str, operand: &str) -> QueryError {
    QueryError::new(code, format!("Missing '{operand}' parameter to {name}"))
}

/// Refuses parts of a date of both kinds, and of none.
fn check_date_parts(args: &Arguments<'_, '_>) -> Result<()> {
    let has = |parts: &[&str]| parts.iter().any(|part| args.get(part).is_some());
    let (code, message) = match (has(&["year"]), has(&["isoWeekYear"])) {
        (false, false) => {
            (ErrorCode::Location40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present")
        }
        (true, _) if has(&["isoWeekYear", "isoWeek", "isoDayOfWeek"]) => {
            (ErrorCode::Location40489, "$dateFromParts does not allow mixing natural dates with ISO dates")
        }
        (_, true) if has(&["month", "day"]) => {
            (ErrorCode::Location40525, "$dateFromParts does not allow mixing ISO dates with natural dates")
        }
        _ => return Ok(()),
    };
    Err(QueryError::new(code, message))
}

/// The operands: the elements of an array, or a single value.
fn list(value: Value<'_>, names: &mut Names) -> Result<Vec<Node>> {
    match value {
        Value::Array(array) => array.elements().map(|item| expression(item.value(), names)).collect(),
        value => Ok(vec![expression(value, names)?]),
    }
}

/// The named operands of an operator: there are all that it requires, and no others than it has.
struct Arguments<'v, 'n> {
    doc: Doc<'v>,
    all: &'n NamedOperands,
}

fn named<'v, 'n>(operator: &str, value: Value<'v>, all: &'n NamedOperands) -> Result<Arguments<'v, 'n>> {
    let Value::Document(doc) = value else {
        return Err(QueryError::new(
            all.shape,
            format!("{operator} only supports an object as its argument, found {}", value.type_name()),
        ));
    };
    let known = |name: &[u8]| all.operands.iter().any(|(known, _)| known.as_bytes() == name);
    if let Some(unknown) = doc.elements().find(|element| !known(element.name)) {
        return Err(QueryError::new(
            all.unknown,
            format!("Unrecognized argument to {operator}: {}", unknown.name_str()),
        ));
    }
    for (name, absent) in all.operands {
        if let (Absent::Refused(code) | Absent::DefaultIfShort(code, _), None) = (absent, doc.get(name)) {
            return Err(missing(*code, operator, name));
        }
    }
    Ok(Arguments { doc, all })
}

impl<'v> Arguments<'v, '_> {
    fn get(&self, name: &str) -> Option<Value<'v>> {
        self.doc.get(name)
    }

    /// The operands that are required, in the order of their definition.
    fn required<const N: usize>(&self) -> [Value<'v>; N] {
        let required = self.all.operands.iter().filter(|(_, absent)| matches!(absent, Absent::Refused(_)));
        let mut found = [Value::Null; N];
        for (argument, (name, _)) in found.iter_mut().zip(required) {
            *argument = self.get(name).unwrap_or(Value::Null);
        }
        found
    }
}

/// Parses the body of an operator with its variable in scope: the name given by `as`, or `this`.
fn with_variable(
    operator: &str,
    spec: Value<'_>,
    names: &mut Names,
    body: impl FnOnce(&mut Names) -> Result<Node>,
) -> Result<Node> {
    let Value::Document(doc) = spec else { return body(names) };
    let name = match doc.get("as") {
        None => "this".to_owned(),
        Some(Value::String(name)) => String::from_utf8_lossy(name).into_owned(),
        Some(other) => {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                format!("{operator}: 'as' must be a string, found {}", other.type_name()),
            ));
        }
    };
    check_variable(&name)?;
    names.locals.push(name);
    let body = body(names);
    names.locals.pop();
    body
}

/// Rejects names that are not allowed for a user's variable.
pub(crate) fn check_variable(name: &str) -> Result<()> {
    let first = name.chars().next();
    let valid = first.is_some_and(|first| first.is_ascii_lowercase() || !first.is_ascii())
        && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_' || !char.is_ascii());
    if valid {
        return Ok(());
    }
    Err(QueryError::new(
        ErrorCode::FailedToParse,
        format!("'{name}' starts with or contains an invalid character for a user variable name"),
    ))
}

fn cond(value: Value<'_>, names: &mut Names) -> Result<Node> {
    let parts = match value {
        Value::Document(_) => named("$cond", value, &table::COND)?.required::<3>(),
        Value::Array(array) => {
            let parts: Vec<_> = array.elements().map(|element| element.value()).collect();
            <[Value<'_>; 3]>::try_from(parts).map_err(|parts| {
                QueryError::new(
                    ErrorCode::Location16020,
                    format!("Expression $cond takes exactly 3 arguments. {} were passed in.", parts.len()),
                )
            })?
        }
        _ => {
            return Err(QueryError::new(
                ErrorCode::Location16020,
                "Expression $cond takes exactly 3 arguments. 1 were passed in.",
            ));
        }
    };
    let [condition, yes, no] = parts;
    let parts = [expression(condition, names)?, expression(yes, names)?, expression(no, names)?];
    Ok(Node::Cond(Box::new(parts)))
}

fn switch(value: Value<'_>, names: &mut Names) -> Result<Node> {
    let args = named("$switch", value, &table::SWITCH)?;
    let [branches] = args.required();
    let Value::Array(branches) = branches else {
        return Err(QueryError::new(ErrorCode::Location40061, "$switch: 'branches' must be an array"));
    };
    let branches = branches
        .elements()
        .map(|branch| {
            let [case, then] = named("$switch", branch.value(), &table::BRANCH)?.required();
            Ok((expression(case, names)?, expression(then, names)?))
        })
        .collect::<Result<Vec<_>>>()?;
    if branches.is_empty() {
        return Err(QueryError::new(ErrorCode::Location40068, "$switch requires at least one branch"));
    }
    let default = args.get("default").map(|value| expression(value, names).map(Box::new)).transpose()?;
    Ok(Node::Switch { branches, default })
}

fn let_in(value: Value<'_>, names: &mut Names) -> Result<Node> {
    let [vars, body] = named("$let", value, &table::LET)?.required();
    let Value::Document(vars) = vars else {
        return Err(QueryError::new(ErrorCode::FailedToParse, "$let: 'vars' must be a document"));
    };
    let (mut values, mut new, mut current) = (Vec::new(), Vec::new(), None);
    for element in vars.elements() {
        let node = expression(element.value(), names)?;
        if element.name == b"CURRENT" {
            current = Some(Box::new(node));
            continue;
        }
        check_variable(element.name_str())?;
        values.push(node);
        new.push(element.name_str().to_owned());
    }
    let depth = names.locals.len();
    names.locals.extend(new);
    let body = expression(body, names);
    names.locals.truncate(depth);
    Ok(Node::Let { values, current, body: Box::new(body?) })
}
