//! Evaluates the expression tree. Operators that evaluate all their operands first are called through the
//! table.

use crate::doc::write::{ArrayWriter, Writer};
use crate::doc::{Doc, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::query::interrupt::InterruptTick;

use super::{Base, Found, Node, Scope, nullish, truthy, type_name, value_at};

/// The results of up to this many operands are kept on the stack.
const STACK_OPERANDS: usize = 4;

impl Node {
    pub(super) fn eval<'a>(&'a self, scope: &mut Scope<'a>) -> Result<Found<'a>> {
        match self {
            Node::Const(value) => Ok(Some(value.value())),
            Node::Missing => Ok(None),
            Node::Now => Ok(Some(Value::Date(scope.globals.now))),
            Node::Whole(base) => Ok(base.value(scope)),
            Node::Path(base, path) => match base.value(scope) {
                Some(value) => value_at(value, path, scope),
                None => Ok(None),
            },
            Node::Call(def, args) => {
                let mut on_stack = [None; STACK_OPERANDS];
                let mut on_heap = Vec::new();
                let values = if args.len() <= STACK_OPERANDS {
                    on_stack.get_mut(..args.len()).unwrap_or_default()
                } else {
                    on_heap.resize(args.len(), None);
                    on_heap.as_mut_slice()
                };
                for (value, arg) in values.iter_mut().zip(args) {
                    *value = arg.eval(scope)?;
                }
                if def.strict && values.iter().any(|value| nullish(*value)) {
                    return Ok(Some(Value::Null));
                }
                (def.run)(scope, values)
            }
            other => other.eval_rest(scope),
        }
    }

    /// Evaluates the less common nodes: a separate function, so that the stack frame of [`Self::eval`] stays
    /// small.
    fn eval_rest<'a>(&'a self, scope: &mut Scope<'a>) -> Result<Found<'a>> {
        match self {
            Node::Score => Ok(scope.globals.score.get().map(Value::Double)),
            Node::And(all) => {
                for one in all {
                    if !truthy(one.eval(scope)?) {
                        return Ok(Some(Value::Bool(false)));
                    }
                }
                Ok(Some(Value::Bool(true)))
            }
            Node::Or(all) => {
                for one in all {
                    if truthy(one.eval(scope)?) {
                        return Ok(Some(Value::Bool(true)));
                    }
                }
                Ok(Some(Value::Bool(false)))
            }
            Node::IfNull(all) => {
                let mut last = None;
                for one in all {
                    last = one.eval(scope)?;
                    if !nullish(last) {
                        return Ok(last);
                    }
                }
                Ok(last)
            }
            Node::Cond(parts) => {
                let [condition, yes, no] = &**parts;
                if truthy(condition.eval(scope)?) { yes.eval(scope) } else { no.eval(scope) }
            }
            Node::Switch { branches, default } => {
                for (case, then) in branches {
                    if truthy(case.eval(scope)?) {
                        return then.eval(scope);
                    }
                }
                match default {
                    Some(default) => default.eval(scope),
                    None => Err(QueryError::new(
                        ErrorCode::Location40066,
                        "$switch could not find a matching branch for an input, and no default was specified",
                    )),
                }
            }
            Node::Object(fields) => {
                let mut out = Writer::new(64);
                for (name, field) in fields {
                    if let Some(value) = field.eval(scope)? {
                        out.value(name.as_bytes(), value);
                    }
                }
                scope.document(out).map(Some)
            }
            Node::Array(items) => {
                let mut out = ArrayWriter::new();
                for item in items {
                    out.push(item.eval(scope)?.unwrap_or(Value::Null));
                }
                scope.array(out).map(Some)
            }
            Node::Let { values, current, body } => {
                let depth = scope.locals.len();
                let mut found = Vec::with_capacity(values.len());
                for value in values {
                    found.push(value.eval(scope)?);
                }
                let current = match current {
                    Some(current) => Some(current.eval(scope)?.unwrap_or(Value::Undefined)),
                    None => None,
                };
                scope.locals.extend(found);
                let outer = scope.current;
                scope.current = current.unwrap_or(outer);
                let result = body.eval(scope);
                scope.current = outer;
                scope.locals.truncate(depth);
                result
            }
            Node::Map { input, body } => {
                let found = list(scope, input, "$map", ErrorCode::Location16883)?;
                let Some(array) = found else { return Ok(Some(Value::Null)) };
                let (mut out, mut tick) = (ArrayWriter::new(), InterruptTick::default());
                scope.locals.push(None);
                for element in array.elements() {
                    tick.tick()?;
                    bind(scope, 0, Some(element.value()));
                    out.push(body.eval(scope)?.unwrap_or(Value::Null));
                    scope.check_size(out.bytes())?;
                }
                scope.locals.pop();
                scope.array(out).map(Some)
            }
            Node::Filter { input, condition, limit } => {
                let found = list(scope, input, "$filter", ErrorCode::Location28651)?;
                let Some(array) = found else { return Ok(Some(Value::Null)) };
                let limit = match limit {
                    Some(limit) => match limit.eval(scope)? {
                        found if nullish(found) => usize::MAX,
                        found => filter_limit(found)?,
                    },
                    None => usize::MAX,
                };
                let (mut out, mut tick) = (ArrayWriter::new(), InterruptTick::default());
                scope.locals.push(None);
                for element in array.elements() {
                    tick.tick()?;
                    bind(scope, 0, Some(element.value()));
                    if out.len() < limit && truthy(condition.eval(scope)?) {
                        out.push(element.value());
                    }
                }
                scope.locals.pop();
                scope.array(out).map(Some)
            }
            Node::Reduce { input, initial, body } => {
                let found = list(scope, input, "$reduce", ErrorCode::Location40080)?;
                let Some(array) = found else { return Ok(Some(Value::Null)) };
                let mut accumulated = initial.eval(scope)?;
                scope.locals.extend([None, None]);
                let mut tick = InterruptTick::default();
                for element in array.elements() {
                    tick.tick()?;
                    bind(scope, 1, Some(element.value()));
                    bind(scope, 0, accumulated);
                    accumulated = body.eval(scope)?;
                }
                scope.locals.truncate(scope.locals.len().saturating_sub(2));
                Ok(accumulated)
            }
            Node::SortArray { input, sort, descending } => {
                let found = list(scope, input, "$sortArray", ErrorCode::Location2942504)?;
                let Some(array) = found else { return Ok(Some(Value::Null)) };
                super::array::sorted(scope, array, sort.as_ref(), *descending).map(Some)
            }
            _ => Ok(None),
        }
    }
}

/// Sets the value of a local variable: 0 is the innermost, 1 the one outside it.
fn bind<'a>(scope: &mut Scope<'a>, from_top: usize, value: Found<'a>) {
    if let Some(variable) = scope.locals.iter_mut().rev().nth(from_top) {
        *variable = value;
    }
}

/// The `limit` of `$filter`.
fn filter_limit(found: Found<'_>) -> Result<usize> {
    let codes = (ErrorCode::Location327391, ErrorCode::Location327391);
    let limit = super::string::int_operand(codes, "$filter", "'limit'", found)?;
    usize::try_from(limit).ok().filter(|limit| *limit > 0).ok_or_else(|| {
        QueryError::new(
            ErrorCode::Location327392,
            format!("$filter: 'limit' must be greater than 0: {limit}"),
        )
    })
}

/// The array an operator works on; `None` for null. The error of anything else has this code.
fn list<'a>(
    scope: &mut Scope<'a>,
    input: &'a Node,
    operator: &str,
    code: ErrorCode,
) -> Result<Option<Doc<'a>>> {
    match input.eval(scope)? {
        Some(Value::Array(array)) => Ok(Some(array)),
        found if nullish(found) => Ok(None),
        found => Err(QueryError::new(
            code,
            format!("input to {operator} must be an array not {}", type_name(found)),
        )),
    }
}

impl Base {
    fn value<'a>(self, scope: &Scope<'a>) -> Found<'a> {
        match self {
            Base::Current => Some(scope.current),
            Base::Root => Some(scope.root),
            Base::Global(at) => scope.globals.values.get(at)?.as_ref().map(|value| value.value()),
            Base::Local(at) => scope.locals.get(at).copied().flatten(),
        }
    }
}
