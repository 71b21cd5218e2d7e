//! Expressions: values computed from a document.
//!
//! [`Expr::parse`] parses MongoDB's notation (`"$a.b"`, `{ $add: ["$x", 1] }`) into a tree once,
//! [`Expr::eval`] evaluates the tree for a document. A result borrows from the document, from the
//! expression's constants or from the [`Arena`] of the evaluation, so that nothing is allocated for a number
//! or a field. `None` is MongoDB's *missing*: the field does not exist, which is different from null.
//!
//! | file | what it holds |
//! |---|---|
//! | `parse` | from the notation to the tree; variable names become indexes |
//! | `eval` | evaluation, and the operators with their own nodes in the tree: `$cond`, `$map`, `$let` .. |
//! | `table` | the other operators, each with its operands and its function |
//! | `regex` | compiles regular expressions |
//! | `reads` | which fields of a document an expression reads |
//! | `variables` | the variables of a command's `let` |
//! | `number`, `string`, `pattern`, `date`, `array`, `object`, `convert`, `binary` | those functions |

mod array;
mod binary;
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
mod variables;

pub(crate) use array::{fractions, positive};
pub(crate) use logic::random;
pub(crate) use object::merged;
pub(crate) use parse::{check_names, check_path, check_variable, score_metadata};
pub use scope::{Arena, CurrentScore, Globals, Names, Scope};
pub use variables::Variables;

use crate::doc::{Collation, Element, OwnedValue, Path, Value};
use crate::error::Result;

use table::Def;

/// The result of an expression: `None` is MongoDB's "missing".
pub type Found<'a> = Option<Value<'a>>;

/// A parsed expression, with the collation by which it compares strings.
#[derive(Debug, Clone)]
pub struct Expr {
    root: Node,
    collation: Collation,
}

/// The value that a path starts from.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Base {
    Current,
    Root,
    /// A variable of the whole pipeline.
    Global(usize),
    /// A variable of `$let`, `$map` and the like: its index, counted from the outermost.
    Local(usize),
}

#[derive(Debug, Clone)]
enum Node {
    Const(OwnedValue),
    Missing,
    Now,
    Score,
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
    SortArray { input: Box<Node>, sort: Option<crate::query::Sort>, descending: bool },
}

impl Expr {
    /// Parses an expression; `names` are the variables it may use.
    ///
    /// # Errors
    /// `InvalidPipelineOperator` for an unknown operator, `Location17276` for an unknown variable, and for invalid operands
    /// the codes of the operator. Each names the operator.
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
    /// The codes of the operators, naming the operator and the type it met; `ExceededMemoryLimit`.
    pub fn eval<'a>(&'a self, scope: &mut Scope<'a>) -> Result<Found<'a>> {
        scope.collation = &self.collation;
        self.root.eval(scope)
    }

    /// The expression's value as a condition: false for null, missing, zero and `false`.
    ///
    /// # Errors
    /// As [`Self::eval`].
    pub fn is_true<'a>(&'a self, scope: &mut Scope<'a>) -> Result<bool> {
        Ok(truthy(self.eval(scope)?))
    }

    /// The value, if it does not depend on the document.
    pub fn as_constant(&self) -> Option<Value<'_>> {
        match &self.root {
            Node::Const(value) => Some(value.value()),
            _ => None,
        }
    }

    /// The paths it reads, if it is a document whose values are only fields and constants.
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

/// The value at `path` of `value`. In documents a part of the path is a field name; for an array the result
/// is an array of what each of its documents has at the rest of the path.
pub(crate) fn value_at<'a>(value: Value<'a>, path: &Path, scope: &Scope<'a>) -> Result<Found<'a>> {
    parts_at(value, path.parts(), scope)
}

fn parts_at<'a>(value: Value<'a>, parts: &[crate::doc::path::Part], scope: &Scope<'a>) -> Result<Found<'a>> {
    let mut value = value;
    let mut rest = parts;
    while let Some((part, remaining)) = rest.split_first() {
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
        rest = remaining;
    }
    Ok(Some(value))
}
