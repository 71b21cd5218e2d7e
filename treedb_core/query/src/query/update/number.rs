//! `$inc`, `$mul` and `$bit`: arithmetic on numbers of all types.

use bson::{Bson, Decimal128, Document};

use crate::doc::Decimal;
use crate::error::{ErrorCode, QueryError, Result};

use super::path::Path;
use super::{described, type_name};

/// The operation of `$inc` or `$mul`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arithmetic {
    Add,
    Multiply,
}

/// Why there is no result.
#[derive(Debug)]
enum ArithmeticError {
    NotANumber,
    TooLarge,
}

impl Arithmetic {
    fn operator(self) -> &'static str {
        match self {
            Arithmetic::Add => "$inc",
            Arithmetic::Multiply => "$mul",
        }
    }

    /// The new value of a missing field: the operand for `$inc`, zero of the operand's type for `$mul`.
    pub(super) fn of_missing(self, operand: &Bson) -> Bson {
        match self {
            Arithmetic::Add => operand.clone(),
            Arithmetic::Multiply => self.combine(&Bson::Int32(0), operand).unwrap_or(Bson::Int32(0)),
        }
    }

    /// The sum or product of the field `path` of `document`, which is `old`, and `operand`.
    pub(super) fn apply(self, path: &Path, document: &Document, old: &Bson, operand: &Bson) -> Result<Bson> {
        self.combine(old, operand).map_err(|why| {
            let (operator, id) = (self.operator(), described(document));
            match why {
                ArithmeticError::NotANumber => QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!(
                        "Cannot apply {operator} to a value of non-numeric type. {id} has the field '{}' of non-numeric \
                         type {}",
                        path.last(),
                        type_name(old)
                    ),
                ),
                ArithmeticError::TooLarge => QueryError::bad_value(format!(
                    "Failed to apply {operator} operations to current value ({old}) of field '{path}' for document {id}: \
                     with {operand} the result does not fit 64 bits"
                )),
            }
        })
    }

    /// The result in the wider of the two types; 32-bit integers are widened to 64 bits on overflow.
    fn combine(self, old: &Bson, operand: &Bson) -> Result<Bson, ArithmeticError> {
        let add = self == Arithmetic::Add;
        Ok(match (old, operand) {
            (Bson::Int32(a), Bson::Int32(b)) => {
                let (a, b) = (i64::from(*a), i64::from(*b));
                let result = if add { a + b } else { a * b };
                i32::try_from(result).map_or(Bson::Int64(result), Bson::Int32)
            }
            (Bson::Int32(_) | Bson::Int64(_), Bson::Int32(_) | Bson::Int64(_)) => {
                let (a, b) = (integer(old), integer(operand));
                let result = if add { a.checked_add(b) } else { a.checked_mul(b) };
                Bson::Int64(result.ok_or(ArithmeticError::TooLarge)?)
            }
            (a @ Bson::Decimal128(_), b) | (a, b @ Bson::Decimal128(_)) => match (decimal(a), decimal(b)) {
                (Some(a), Some(b)) => {
                    let result = if add { a.add(b) } else { a.mul(b) };
                    Bson::Decimal128(Decimal128::from_bytes(result.to_bytes()))
                }
                _ => return Err(ArithmeticError::NotANumber),
            },
            (a, b) if is_number(a) && is_number(b) => {
                let (a, b) = (double(a), double(b));
                Bson::Double(if add { a + b } else { a * b })
            }
            _ => return Err(ArithmeticError::NotANumber),
        })
    }
}

/// True for the four types of number.
pub(super) fn is_number(value: &Bson) -> bool {
    matches!(value, Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_))
}

/// The value as an integer, if it is a whole number of any type.
pub(super) fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        Bson::Double(n) if n.fract() == 0.0 && n.abs() < 9.2e18 => Some(*n as i64),
        Bson::Decimal128(n) => Decimal::new(n.bytes()).as_integer(),
        _ => None,
    }
}

fn integer(value: &Bson) -> i64 {
    match value {
        Bson::Int32(n) => i64::from(*n),
        Bson::Int64(n) => *n,
        _ => 0,
    }
}

fn double(value: &Bson) -> f64 {
    match value {
        Bson::Double(n) => *n,
        other => integer(other) as f64,
    }
}

fn decimal(value: &Bson) -> Option<Decimal> {
    match value {
        Bson::Decimal128(value) => Some(Decimal::new(value.bytes())),
        Bson::Double(value) => Some(Decimal::from_double(*value)),
        Bson::Int32(_) | Bson::Int64(_) => Some(Decimal::from_integer(integer(value))),
        _ => None,
    }
}

/// One operation of `$bit`, with its operand.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Bitwise {
    operation: Operation,
    operand: Bson,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    And,
    Or,
    Xor,
}

impl Bitwise {
    /// Parses `{and: 5, or: 2}`.
    pub(super) fn parse(operand: &Bson) -> Result<Vec<Bitwise>> {
        let Bson::Document(operations) = operand else {
            return Err(QueryError::bad_value(format!(
                "The $bit modifier is not compatible with a {}. You must pass in an embedded document: \
                 {{$bit: {{field: {{and/or/xor: #}}}}}}",
                type_name(operand)
            )));
        };
        if operations.is_empty() {
            return Err(QueryError::bad_value(
                "You must pass in at least one bitwise operation. The format is: {$bit: {field: {and/or/xor: #}}}",
            ));
        }
        operations
            .iter()
            .map(|(name, operand)| {
                let operation = match name.as_str() {
                    "and" => Operation::And,
                    "or" => Operation::Or,
                    "xor" => Operation::Xor,
                    _ => {
                        return Err(QueryError::bad_value(format!(
                            "The $bit modifier only supports 'and', 'or', and 'xor', not '{name}' which is an unknown \
                             operator"
                        )));
                    }
                };
                if !matches!(operand, Bson::Int32(_) | Bson::Int64(_)) {
                    return Err(QueryError::bad_value(format!(
                        "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported here: {operand}",
                        type_name(operand)
                    )));
                }
                Ok(Bitwise { operation, operand: operand.clone() })
            })
            .collect()
    }

    /// The new value of the field `path` of `document`, whose value is `old`.
    pub(super) fn apply(all: &[Bitwise], path: &Path, document: &Document, old: &Bson) -> Result<Bson> {
        all.iter().try_fold(old.clone(), |value, one| {
            let (a, b) = (integer(&value), integer(&one.operand));
            let result = match one.operation {
                Operation::And => a & b,
                Operation::Or => a | b,
                Operation::Xor => a ^ b,
            };
            match (&value, &one.operand) {
                // Both operands are sign-extended 32-bit integers, so the result fits 32 bits.
                (Bson::Int32(_), Bson::Int32(_)) => Ok(Bson::Int32(result as i32)),
                (Bson::Int32(_) | Bson::Int64(_), _) => Ok(Bson::Int64(result)),
                _ => Err(QueryError::bad_value(format!(
                    "Cannot apply $bit to a value of non-integral type. {} has the field '{}' of non-integer type {}",
                    described(document),
                    path.last(),
                    type_name(&value)
                ))),
            }
        })
    }
}
