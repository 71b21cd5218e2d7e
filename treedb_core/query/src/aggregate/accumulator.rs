//! Accumulators: the functions of many values in `$group`, `$bucket`, `$bucketAuto` and `$setWindowFields`.

use std::collections::VecDeque;

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Collation, Doc, Element, OwnedValue, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::Sort;
use crate::query::expr::stats::{Deviation, Sum, percentile};
use crate::query::expr::{
    Arena, Expr, Found, Globals, Names, Scope, fractions, merged, nullish, positive, type_name,
};

use super::group_key::append_collated_key;
use super::key_table::{HashSeed, KeyTable};
use super::operand::{failed, known_fields_or, raw};

/// A parsed accumulator: `{ $sum: "$x" }`.
#[derive(Debug, Clone)]
pub(crate) struct Accumulator {
    kind: Kind,
    input: Expr,
    sort: Option<Sort>,
    /// How strings compare.
    collation: Collation,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    Sum,
    Avg,
    Min,
    Max,
    First,
    Last,
    Push,
    AddToSet,
    Deviation {
        sample: bool,
    },
    Merge,
    /// `$top`, `$bottom` and their `N`.
    Top {
        n: usize,
        many: bool,
        bottom: bool,
    },
    FirstN(usize),
    LastN(usize),
    Extreme {
        n: usize,
        greatest: bool,
    },
    Percentile {
        parts: Vec<f64>,
        many: bool,
    },
}

/// The state of an accumulator for one group.
#[derive(Debug, Clone)]
pub(crate) enum State {
    Sum(Sum),
    Deviation(Deviation),
    One(Option<OwnedValue>),
    /// The first value, which may be missing.
    First(Option<Option<OwnedValue>>),
    List(ArrayWriter),
    Set(Box<Set>),
    Fields(Vec<u8>),
    /// Sort keys and values, sorted.
    Ranked(Vec<(Vec<u8>, OwnedValue)>),
    Queue(VecDeque<OwnedValue>),
    Numbers(Vec<f64>),
}

/// Distinct values.
#[derive(Debug, Clone)]
pub(crate) struct Set {
    seen: KeyTable,
    list: ArrayWriter,
    key: Vec<u8>,
}

impl Set {
    fn new() -> Self {
        Set { seen: KeyTable::new(HashSeed::new()), list: ArrayWriter::new(), key: Vec::new() }
    }

    fn size(&self) -> usize {
        self.seen.size() + self.list.bytes()
    }

    /// Adds a value. Returns by how many bytes the set has grown.
    fn add(&mut self, value: Value<'_>, collation: &Collation) -> usize {
        let before = self.size();
        self.key.clear();
        append_collated_key(collation, value, &mut self.key);
        if self.seen.insert(&self.key) {
            self.list.push(value);
        }
        self.size() - before
    }
}

/// The value of an expression that does not depend on a document.
fn constant<T>(expr: &Expr, read: impl FnOnce(Found<'_>) -> Result<T>) -> Result<T> {
    let (arena, globals) = (Arena::new(), Globals::default());
    read(expr.eval(&mut Scope::new(Doc::EMPTY, &globals, &arena))?)
}

impl Accumulator {
    /// Parses a field of a stage: its name and `{ $operator: operand }`.
    ///
    /// # Errors
    /// `Location15952` for an unknown operator, `Location40234` and `Location40238` for anything but one operator,
    /// `Location40237` for an array of operands.
    pub(crate) fn parse(field: &Element<'_>, names: &Names) -> Result<Accumulator> {
        let wrong = |code, what: &str| {
            Err(QueryError::new(code, format!("The field '{}' must {what}", field.name_str())))
        };
        let not_one = || wrong(ErrorCode::Location40234, "be an accumulator object");
        let Value::Document(doc) = field.value() else { return not_one() };
        let mut elements = doc.elements();
        let Some(operator) = elements.next().filter(|first| first.name.starts_with(b"$")) else {
            return not_one();
        };
        if elements.next().is_some() {
            return wrong(ErrorCode::Location40238, "specify one accumulator");
        }
        let made = Self::operator(&operator, names)?;
        // The expression operators of the same names take several operands.
        if matches!(operator.value(), Value::Array(_)) {
            return Err(QueryError::new(
                ErrorCode::Location40237,
                format!("The {} accumulator is a unary operator", operator.name_str()),
            ));
        }
        Ok(made)
    }

    /// Parses the operator and its operand.
    pub(crate) fn operator(operator: &Element<'_>, names: &Names) -> Result<Accumulator> {
        let (name, value) = (operator.name_str(), operator.value());
        let made = |kind, input, sort: Option<Sort>| {
            let collation = names.collation().clone();
            let sort = sort.map(|sort| sort.collated(&collation));
            Ok(Accumulator { kind, input, sort, collation })
        };
        let plain = |kind| made(kind, Expr::parse(value, names)?, None);
        match name {
            "$sum" => plain(Kind::Sum),
            "$avg" => plain(Kind::Avg),
            "$min" => plain(Kind::Min),
            "$max" => plain(Kind::Max),
            "$first" => plain(Kind::First),
            "$last" => plain(Kind::Last),
            "$push" => plain(Kind::Push),
            "$addToSet" => plain(Kind::AddToSet),
            "$stdDevPop" => plain(Kind::Deviation { sample: false }),
            "$stdDevSamp" => plain(Kind::Deviation { sample: true }),
            "$mergeObjects" => plain(Kind::Merge),
            "$count" => match value {
                Value::Document(doc) if doc.is_empty() => {
                    made(Kind::Sum, Expr::constant(Value::Int32(1)), None)
                }
                _ => Err(failed("$count takes no arguments, i.e. $count:{}".to_owned())),
            },
            "$top" | "$bottom" | "$topN" | "$bottomN" => {
                let (many, bottom) = (name.ends_with('N'), name.starts_with("$bottom"));
                let known: &[&str] = if many { &["n", "sortBy", "output"] } else { &["sortBy", "output"] };
                let codes = (ErrorCode::Location5788001, ErrorCode::Location5788002);
                let args = arguments(name, value, known, codes)?;
                let n = if many { count(name, args, names, ErrorCode::Location5788003)? } else { 1 };
                let output = needed(name, args, "output", names, ErrorCode::Location5788004)?;
                let sort = match args.get("sortBy") {
                    Some(Value::Document(sort)) => Sort::parse(raw(sort)?)?,
                    Some(_) => return Err(failed(format!("{name} needs a document 'sortBy'"))),
                    None => return Err(missing(name, "sortBy", ErrorCode::Location5788005)),
                };
                made(Kind::Top { n, many, bottom }, output, sort)
            }
            "$firstN" | "$lastN" | "$maxN" | "$minN" => {
                let shape = match name {
                    "$firstN" | "$lastN" => ErrorCode::Location5787801,
                    _ => ErrorCode::Location5787900,
                };
                let args = arguments(name, value, &["input", "n"], (shape, ErrorCode::Location5787901))?;
                let n = count(name, args, names, ErrorCode::Location5787906)?;
                let kind = match name {
                    "$firstN" => Kind::FirstN(n),
                    "$lastN" => Kind::LastN(n),
                    name => Kind::Extreme { n, greatest: name == "$maxN" },
                };
                made(kind, needed(name, args, "input", names, ErrorCode::Location5787907)?, None)
            }
            "$percentile" | "$median" => {
                let many = name == "$percentile";
                let known: &[&str] = if many { &["input", "p", "method"] } else { &["input", "method"] };
                let shape = if many { ErrorCode::Location7429703 } else { ErrorCode::Location7436100 };
                let args = arguments(name, value, known, (shape, ErrorCode::Location40415))?;
                let input = needed(name, args, "input", names, ErrorCode::Location40414)?;
                let parts = if many {
                    constant(&needed(name, args, "p", names, ErrorCode::Location40414)?, fractions)?
                } else {
                    vec![0.5]
                };
                made(Kind::Percentile { parts, many }, input, None)
            }
            "$accumulator" => Err(QueryError::new(
                ErrorCode::NotImplemented,
                "$accumulator is not supported: use $push, and $reduce or $map after the $group",
            )),
            name => {
                Err(QueryError::new(ErrorCode::Location15952, format!("unknown group operator '{name}'")))
            }
        }
    }

    /// The argument for a document and, for accumulators that sort, the sort key.
    pub(crate) fn argument<'a>(&'a self, scope: &mut Scope<'a>) -> Result<(Found<'a>, Option<Vec<u8>>)> {
        let key = self.sort_key(scope)?;
        Ok((self.input.eval(scope)?, key))
    }

    /// The sort key of a document, for accumulators that sort.
    #[inline]
    pub(crate) fn sort_key(&self, scope: &Scope<'_>) -> Result<Option<Vec<u8>>> {
        match (&self.sort, scope.root()) {
            (Some(sort), Value::Document(doc)) => sort.key(raw(doc)?).map(Some),
            _ => Ok(None),
        }
    }

    /// The expression of the argument.
    pub(crate) fn input(&self) -> &Expr {
        &self.input
    }

    /// The sort, for accumulators that sort.
    pub(crate) fn sort(&self) -> Option<&Sort> {
        self.sort.as_ref()
    }

    /// True if the result depends on the order of the documents.
    pub(crate) fn needs_order(&self) -> bool {
        match self.kind {
            Kind::Sum | Kind::Avg | Kind::Min | Kind::Max | Kind::Deviation { .. } => false,
            Kind::Extreme { .. } | Kind::Percentile { .. } => false,
            // The order decides which of equal values are in the result, and in which order.
            Kind::Top { .. } | Kind::AddToSet => true,
            Kind::First | Kind::Last | Kind::Push | Kind::Merge | Kind::FirstN(_) | Kind::LastN(_) => true,
        }
    }

    /// The whole number that every document adds, if it is the same for all documents.
    pub(crate) fn count_step(&self) -> Option<Value<'_>> {
        match (&self.kind, self.input.as_constant()) {
            (Kind::Sum, Some(step @ (Value::Int32(_) | Value::Int64(_)))) => Some(step),
            _ => None,
        }
    }

    /// True if a state does not grow with the number of documents, so that merging two is cheap.
    pub(crate) fn is_constant_size(&self) -> bool {
        match self.kind {
            Kind::Sum | Kind::Avg | Kind::Min | Kind::Max | Kind::Deviation { .. } => true,
            Kind::Top { .. } | Kind::Extreme { .. } => true,
            Kind::First | Kind::Last | Kind::Push | Kind::AddToSet | Kind::Merge => false,
            Kind::FirstN(_) | Kind::LastN(_) | Kind::Percentile { .. } => false,
        }
    }

    /// Merges another state, whose documents all come after those of this one. Both have at least one document. Returns by
    /// how many bytes the state has grown.
    pub(crate) fn merge(&self, state: &mut State, other: State) -> Result<usize> {
        match (state, other) {
            (State::Sum(sum), State::Sum(other)) => sum.merge(&other),
            (State::Deviation(deviation), State::Deviation(other)) => deviation.merge(&other),
            (State::One(last), State::One(other)) if self.kind == Kind::Last => *last = other,
            (state, State::One(Some(value))) => return self.add(state, Some(value.value()), None),
            (State::First(first @ None), State::First(other)) => *first = other,
            (State::List(list), State::List(other)) => {
                let before = list.bytes();
                list.append(other);
                return Ok(list.bytes() - before);
            }
            (State::Set(set), State::Set(other)) => {
                let all = other.list.into_bytes();
                return Ok(Doc::new(&all).elements().map(|one| set.add(one.value(), &self.collation)).sum());
            }
            (state, State::Fields(fields)) => {
                return self.add(state, Some(Value::Document(Doc::new(&fields))), None);
            }
            (State::Ranked(ranked), State::Ranked(all)) if ranked.is_empty() => *ranked = all,
            (state, State::Ranked(all)) => {
                return all.into_iter().try_fold(0, |grown, (key, value)| {
                    Ok(grown + self.add(state, Some(value.value()), Some(key))?)
                });
            }
            (State::Queue(queue), State::Queue(mut other)) => {
                let before = queue.len();
                queue.append(&mut other);
                match self.kind {
                    Kind::LastN(n) => drop(queue.drain(..queue.len().saturating_sub(n))),
                    Kind::FirstN(n) => queue.truncate(n),
                    _ => {}
                }
                return Ok(queue
                    .iter()
                    .skip(before)
                    .map(|value| value.size() + size_of::<OwnedValue>())
                    .sum());
            }
            (State::Numbers(numbers), State::Numbers(other)) => {
                numbers.extend_from_slice(&other);
                return Ok(size_of_val(other.as_slice()));
            }
            _ => {}
        }
        Ok(0)
    }

    /// The state before the first document.
    pub(crate) fn start(&self) -> State {
        match &self.kind {
            Kind::Sum | Kind::Avg => State::Sum(Sum::default()),
            Kind::Min | Kind::Max | Kind::Last => State::One(None),
            Kind::First => State::First(None),
            Kind::Push => State::List(ArrayWriter::new()),
            Kind::AddToSet => State::Set(Box::new(Set::new())),
            Kind::Deviation { .. } => State::Deviation(Deviation::default()),
            Kind::Merge => State::Fields(Doc::EMPTY.as_bytes().to_vec()),
            Kind::Top { .. } | Kind::Extreme { .. } => State::Ranked(Vec::new()),
            Kind::FirstN(_) | Kind::LastN(_) => State::Queue(VecDeque::new()),
            Kind::Percentile { .. } => State::Numbers(Vec::new()),
        }
    }

    /// Adds the argument of a document. Returns by how many bytes the state has grown.
    #[inline]
    pub(crate) fn add(&self, state: &mut State, value: Found<'_>, key: Option<Vec<u8>>) -> Result<usize> {
        // Sums are what is computed most: they do without the frame that the other kinds need.
        match (&self.kind, state) {
            (Kind::Sum | Kind::Avg, State::Sum(sum)) => {
                value.into_iter().for_each(|value| sum.add(value));
                Ok(0)
            }
            (_, state) => self.add_other(state, value, key),
        }
    }

    /// [`Accumulator::add`] for all but sums and averages.
    fn add_other(&self, state: &mut State, value: Found<'_>, key: Option<Vec<u8>>) -> Result<usize> {
        let copy = |value: Value<'_>| {
            let owned = OwnedValue::from_value(value);
            let size = owned.size() + size_of::<OwnedValue>();
            (owned, size)
        };
        Ok(match (&self.kind, state) {
            (Kind::Deviation { .. }, State::Deviation(deviation)) => {
                value.into_iter().for_each(|value| deviation.add(value));
                0
            }
            (Kind::Min | Kind::Max, State::One(best)) => match value {
                Some(value) if !nullish(Some(value)) => {
                    let order = best.as_ref().map(|best| self.collation.compare(value, best.value()));
                    let better = match self.kind {
                        Kind::Min => order.is_none_or(|order| order.is_lt()),
                        _ => order.is_none_or(|order| order.is_gt()),
                    };
                    if better {
                        let (owned, size) = copy(value);
                        let before =
                            best.replace(owned).map_or(0, |old| old.size() + size_of::<OwnedValue>());
                        return Ok(size.saturating_sub(before));
                    }
                    0
                }
                _ => 0,
            },
            (Kind::Last, State::One(last)) => {
                *last = value.map(OwnedValue::from_value);
                0
            }
            (Kind::First, State::First(first)) => {
                if first.is_none() {
                    *first = Some(value.map(OwnedValue::from_value));
                }
                0
            }
            (Kind::Push, State::List(list)) => match value {
                Some(value) => grown(list, value),
                None => 0,
            },
            (Kind::AddToSet, State::Set(set)) => value.map_or(0, |value| set.add(value, &self.collation)),
            (Kind::Merge, State::Fields(fields)) => match value {
                Some(Value::Document(doc)) => {
                    let before = fields.len();
                    *fields = merged(&[Doc::new(fields), doc]).into_bytes();
                    fields.len().saturating_sub(before)
                }
                found if nullish(found) => 0,
                found => {
                    return Err(QueryError::new(
                        ErrorCode::Location40400,
                        format!(
                            "$mergeObjects requires object inputs, but input is of type {}",
                            type_name(found)
                        ),
                    ));
                }
            },
            (Kind::Top { n, bottom, .. }, State::Ranked(ranked)) => {
                let key = key.unwrap_or_default();
                // Values with equal keys keep the order of the documents.
                let at = ranked.partition_point(|(other, _)| *other <= key);
                if ranked.len() == *n && at == if *bottom { 0 } else { *n } {
                    return Ok(0);
                }
                let (owned, size) = copy(value.unwrap_or(Value::Null));
                let size = size + key.len();
                ranked.insert(at, (key, owned));
                if ranked.len() > *n {
                    if *bottom {
                        ranked.remove(0);
                    } else {
                        ranked.pop();
                    }
                    0
                } else {
                    size
                }
            }
            (Kind::Extreme { n, greatest }, State::Ranked(ranked)) => match value {
                Some(value) if !nullish(Some(value)) => {
                    let mut key = Vec::new();
                    self.collation.encode(value, &mut key);
                    if *greatest {
                        crate::doc::key::invert(&mut key);
                    }
                    let at = ranked.partition_point(|(other, _)| *other <= key);
                    if at >= *n {
                        return Ok(0);
                    }
                    let (owned, size) = copy(value);
                    let size = size + key.len();
                    ranked.insert(at, (key, owned));
                    if ranked.len() > *n {
                        ranked.pop();
                        return Ok(0);
                    }
                    size
                }
                _ => 0,
            },
            (Kind::FirstN(n), State::Queue(queue)) => {
                if queue.len() >= *n {
                    return Ok(0);
                }
                let (owned, size) = copy(value.unwrap_or(Value::Null));
                queue.push_back(owned);
                size
            }
            (Kind::LastN(n), State::Queue(queue)) => {
                let (owned, size) = copy(value.unwrap_or(Value::Null));
                queue.push_back(owned);
                if queue.len() > *n {
                    queue.pop_front();
                    return Ok(0);
                }
                size
            }
            (Kind::Percentile { .. }, State::Numbers(numbers)) => {
                let number = value.and_then(crate::query::expr::number::Num::new);
                // NaN has no order among numbers.
                numbers.extend(number.map(|number| number.double()).filter(|number| !number.is_nan()));
                size_of::<f64>()
            }
            _ => 0,
        })
    }

    /// Calls `use_result` with the result; `None` if it is missing.
    pub(crate) fn result<T>(&self, state: State, use_result: impl FnOnce(Found<'_>) -> T) -> T {
        let number = |number: Option<f64>| Some(number.map_or(Value::Null, Value::Double));
        match (&self.kind, state) {
            (Kind::Avg, State::Sum(sum)) => {
                use_result(Some(sum.mean().map_or(Value::Null, |mean| mean.value())))
            }
            (_, State::Sum(sum)) => use_result(Some(sum.total().value())),
            (Kind::Deviation { sample }, State::Deviation(deviation)) => {
                use_result(number(deviation.result(*sample)))
            }
            (Kind::Last, State::One(value)) => {
                use_result(Some(value.as_ref().map_or(Value::Null, |value| value.value())))
            }
            (_, State::One(value)) => {
                use_result(Some(value.as_ref().map_or(Value::Null, |value| value.value())))
            }
            (_, State::First(value)) => {
                let value = value.flatten();
                use_result(Some(value.as_ref().map_or(Value::Null, |value| value.value())))
            }
            (_, State::List(list)) => {
                let bytes = list.into_bytes();
                use_result(Some(Value::Array(Doc::new(&bytes))))
            }
            (_, State::Set(set)) => {
                let bytes = set.list.into_bytes();
                use_result(Some(Value::Array(Doc::new(&bytes))))
            }
            (_, State::Fields(fields)) => use_result(Some(Value::Document(Doc::new(&fields)))),
            (Kind::Top { many: false, .. }, State::Ranked(ranked)) => {
                use_result(Some(ranked.first().map_or(Value::Null, |(_, value)| value.value())))
            }
            (_, State::Ranked(ranked)) => list(ranked.iter().map(|(_, value)| value.value()), use_result),
            (_, State::Queue(queue)) => list(queue.iter().map(OwnedValue::value), use_result),
            (Kind::Percentile { parts, many }, State::Numbers(mut numbers)) => {
                numbers.sort_by(f64::total_cmp);
                let at = |part: &f64| percentile(&numbers, *part).map_or(Value::Null, Value::Double);
                match (many, parts.first()) {
                    (false, Some(part)) => use_result(Some(at(part))),
                    _ => list(parts.iter().map(at), use_result),
                }
            }
            _ => use_result(None),
        }
    }
}

fn list<'v, T>(values: impl Iterator<Item = Value<'v>>, use_result: impl FnOnce(Found<'_>) -> T) -> T {
    let mut out = ArrayWriter::new();
    values.for_each(|value| out.push(value));
    let bytes = out.into_bytes();
    use_result(Some(Value::Array(Doc::new(&bytes))))
}

fn grown(list: &mut ArrayWriter, value: Value<'_>) -> usize {
    let before = list.bytes();
    list.push(value);
    list.bytes() - before
}

/// The arguments of an accumulator; the codes of the errors of what is no document, and of an argument that does not exist.
fn arguments<'v>(
    name: &str,
    value: Value<'v>,
    known: &[&str],
    (shape, unknown): (ErrorCode, ErrorCode),
) -> Result<Doc<'v>> {
    let Value::Document(doc) = value else {
        return Err(QueryError::new(
            shape,
            format!("{name}: specification must be an object; found {}", crate::doc::shown(value)),
        ));
    };
    known_fields_or(unknown, name, doc, known)?;
    Ok(doc)
}

/// An argument; the code of the error if there is none.
fn needed(name: &str, args: Doc<'_>, argument: &str, names: &Names, code: ErrorCode) -> Result<Expr> {
    match args.get(argument) {
        Some(value) => Expr::parse(value, names),
        None => Err(missing(name, argument, code)),
    }
}

fn missing(name: &str, argument: &str, code: ErrorCode) -> QueryError {
    QueryError::new(code, format!("Missing value for '{argument}' in {name}"))
}

fn count(name: &str, args: Doc<'_>, names: &Names, missing: ErrorCode) -> Result<usize> {
    let n = needed(name, args, "n", names, missing)?;
    let reads = n.reads();
    if reads.whole || !reads.paths.is_empty() {
        return Err(QueryError::new(
            ErrorCode::NotImplemented,
            format!("{name}: 'n' must be the same for all groups and documents"),
        ));
    }
    constant(&n, |found| positive(name, found))
}

/// The accumulators of a stage and the names of their output fields.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outputs(pub(crate) Vec<(String, Accumulator)>);

impl Outputs {
    /// Parses the fields of `doc`, except those in `except`.
    pub(crate) fn parse(doc: Doc<'_>, except: &[&str], names: &Names) -> Result<Outputs> {
        let mut all: Vec<(String, Accumulator)> = Vec::new();
        for element in doc.elements().filter(|element| !except.contains(&element.name_str())) {
            let name = element.name_str();
            let wrong =
                |code, what| Err(QueryError::new(code, format!("The field name '{name}' cannot {what}")));
            if name.contains('.') {
                return wrong(ErrorCode::Location40235, "contain '.'");
            }
            if name.starts_with('$') {
                return wrong(ErrorCode::Location40236, "be an operator name");
            }
            all.push((name.to_owned(), Accumulator::parse(&element, names)?));
        }
        Ok(Outputs(all))
    }

    pub(crate) fn start(&self) -> Vec<State> {
        self.starts().collect()
    }

    pub(crate) fn starts(&self) -> impl Iterator<Item = State> + '_ {
        self.0.iter().map(|(_, accumulator)| accumulator.start())
    }

    /// Adds a document. Returns by how many bytes the states have grown.
    pub(crate) fn add<'a>(&'a self, states: &mut [State], scope: &mut Scope<'a>) -> Result<usize> {
        let mut grown = 0;
        for ((_, accumulator), state) in self.0.iter().zip(states) {
            let (value, key) = accumulator.argument(scope)?;
            grown += accumulator.add(state, value, key)?;
        }
        Ok(grown)
    }

    /// Writes the results as fields of a document.
    pub(crate) fn write(&self, states: impl IntoIterator<Item = State>, out: &mut Writer) {
        for ((name, accumulator), state) in self.0.iter().zip(states) {
            accumulator.result(state, |found| {
                if let Some(value) = found {
                    out.value(name.as_bytes(), value);
                }
            });
        }
    }
}
