//! Expressions: values computed from a document.
//!
//! [`Expr::parse`] turns MongoDB's notation (`"$a.b"`, `{ $add: ["$x", 1] }`) into a tree once, [`Expr::eval`] asks it
//! about a document. A result borrows from the document, from the expression's constants or from the [`Arena`] of the
//! evaluation, so that nothing is allocated for a number or a field. `None` is MongoDB's *missing*: a field that is not
//! there, which is not null.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | from the notation to the tree; names of variables become places |
//! | `eval` | the operators that do not look at all their operands: `$cond`, `$map`, `$let` .. |
//! | `table` | the others, each with its operands and its function |
//! | `regex` | compiles regular expressions |
//! | `reads` | what an expression reads of a document |
//! | `number`, `string`, `pattern`, `date`, `array`, `object`, `convert` | those functions |

mod array;
mod convert;
pub(crate) mod date;
mod eval;
mod local_time;
mod logic;
pub(crate) mod number;
mod object;
mod parse;
mod pattern;
mod reads;
pub(in crate::query) mod regex;
mod scope;
pub(crate) mod stats;
mod string;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use array::positive;
pub(crate) use logic::random;
pub(crate) use object::merged;
pub(crate) use parse::{check_path, check_variable};
pub use scope::{Arena, Globals, Names, Scope};

use crate::doc::{Collation, Element, OwnedValue, Path, Value};
use crate::error::Result;

use table::Def;

/// What an expression gives: `None` is MongoDB's "missing".
pub type Found<'a> = Option<Value<'a>>;

/// A parsed expression. It knows how its strings compare.
#[derive(Debug, Clone)]
pub struct Expr {
    root: Node,
    collation: Collation,
}

/// Where a path or a whole document begins.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Base {
    Current,
    Root,
    /// A variable of the whole pipeline.
    Global(usize),
    /// A variable of `$let`, `$map` and the like: its place from the outermost.
    Local(usize),
}

#[derive(Debug, Clone)]
enum Node {
    Const(OwnedValue),
    Missing,
    Now,
    Whole(Base),
    Path(Base, Path),
    Object(Vec<(String, Node)>),
    Array(Vec<Node>),
    Call(&'static Def, Vec<Node>),
    And(Vec<Node>),
    Or(Vec<Node>),
    IfNull(Vec<Node>),
    Cond(Box<[Node; 3]>),
    Switch { branches: Vec<(Node, Node)>, default: Option<Box<Node>> },
    Let { values: Vec<Node>, current: Option<Box<Node>>, body: Box<Node> },
    Map { input: Box<Node>, body: Box<Node> },
    Filter { input: Box<Node>, condition: Box<Node>, limit: Option<Box<Node>> },
    Reduce { input: Box<Node>, initial: Box<Node>, body: Box<Node> },
    SortArray { input: Box<Node>, sort: Option<crate::query::Sort>, down: bool },
}

impl Expr {
    /// Reads an expression; `names` are the variables it may use.
    ///
    /// # Errors
    /// `InvalidPipelineOperator` for an unknown operator, `Location17276` for an unknown variable, `Location16020`
    /// and `FailedToParse` for operands an operator cannot have. Each names the operator.
    pub fn parse(value: Value<'_>, names: &Names) -> Result<Expr> {
        let root = parse::expression(value, &mut names.clone())?;
        Ok(Expr { root, collation: names.collation().clone() })
    }

    /// [`Self::parse`] for the value of an element.
    ///
    /// # Errors
    /// As there.
    pub fn parse_element(element: &Element<'_>, names: &Names) -> Result<Expr> {
        Self::parse(element.value(), names)
    }

    /// A constant.
    pub fn constant(value: Value<'_>) -> Expr {
        Expr { root: Node::Const(OwnedValue::from_value(value)), collation: Collation::Simple }
    }

    /// The field at `path` of the document.
    pub fn field(path: &str) -> Expr {
        Expr { root: Node::Path(Base::Current, Path::new(path)), collation: Collation::Simple }
    }

    /// The expression's value for the document of `scope`.
    ///
    /// # Errors
    /// `TypeMismatch` and others, naming the operator and the type it met; `ExceededMemoryLimit`.
    pub fn eval<'a>(&'a self, scope: &mut Scope<'a>) -> Result<Found<'a>> {
        scope.collation = &self.collation;
        self.root.eval(scope)
    }

    /// The expression as a condition: false for null, missing, zero and `false`.
    ///
    /// # Errors
    /// As [`Self::eval`].
    pub fn holds<'a>(&'a self, scope: &mut Scope<'a>) -> Result<bool> {
        Ok(truthy(self.eval(scope)?))
    }

    /// The value, if it does not depend on the document.
    pub fn as_constant(&self) -> Option<Value<'_>> {
        match &self.root {
            Node::Const(value) => Some(value.value()),
            _ => None,
        }
    }

    /// The paths of its fields, if it is a document of nothing but fields and constants.
    pub(crate) fn fields(&self) -> Option<Vec<&Path>> {
        let Node::Object(fields) = &self.root else { return None };
        let paths = fields.iter().filter_map(|(_, node)| match node {
            Node::Const(_) => None,
            Node::Path(Base::Current | Base::Root, path) => Some(Some(path)),
            _ => Some(None),
        });
        paths.collect()
    }

    /// The expression of a field, if it is a document of expressions.
    pub(crate) fn field_named(&self, name: &str) -> Option<Expr> {
        match &self.root {
            Node::Object(fields) => {
                let field = fields.iter().find(|(field, _)| field == name);
                field.map(|(_, node)| Expr { root: node.clone(), collation: self.collation.clone() })
            }
            _ => None,
        }
    }

    /// The path, if the expression is a field of the document.
    pub fn as_field(&self) -> Option<&Path> {
        match &self.root {
            Node::Path(Base::Current | Base::Root, path) => Some(path),
            _ => None,
        }
    }
}

/// Whether a result counts as true.
pub(crate) fn truthy(found: Found<'_>) -> bool {
    found.is_some_and(|value| value.truthy())
}

/// Null, undefined or missing.
pub(crate) fn nullish(found: Found<'_>) -> bool {
    matches!(found, None | Some(Value::Null | Value::Undefined))
}

/// The type's name, `missing` included.
pub(crate) fn type_name(found: Found<'_>) -> &'static str {
    found.map_or("missing", |value| value.type_name())
}

/// The value at `path` of `value`: through documents by name, through arrays by collecting what each of their
/// documents has there.
pub(crate) fn value_at<'a>(value: Value<'a>, path: &Path, scope: &Scope<'a>) -> Result<Found<'a>> {
    parts_at(value, path.parts(), scope)
}

fn parts_at<'a>(value: Value<'a>, parts: &[crate::doc::path::Part], scope: &Scope<'a>) -> Result<Found<'a>> {
    let mut value = value;
    let mut rest = parts;
    while let Some((part, behind)) = rest.split_first() {
        match value {
            Value::Document(doc) => match doc.find(part.name.as_bytes()) {
                Some(element) => value = element.value(),
                None => return Ok(None),
            },
            Value::Array(array) => {
                let mut all = crate::doc::write::ArrayWriter::new();
                for element in array.elements() {
                    if let Value::Document(doc) = element.value()
                        && let Some(found) = parts_at(Value::Document(doc), rest, scope)?
                    {
                        all.push(found);
                    }
                }
                return scope.array(all).map(Some);
            }
            _ => return Ok(None),
        }
        rest = behind;
    }
    Ok(Some(value))
}
