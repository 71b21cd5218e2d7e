//! [`Reshape`]: `$project`, `$addFields`/`$set`, `$unset`, `$replaceRoot`/`$replaceWith`, as pipeline stages and as
//! updates.

use bson::{RawDocument, RawDocumentBuf};

use crate::doc::by_name::ByName;
use crate::doc::write::Writer;
use crate::doc::{Doc, Element, FieldsByName, MAX_DOCUMENT_SIZE, Value};
use crate::error::{ErrorCode, QueryError, Result};

use crate::query::expr::{Arena, Expr, Globals, Names, Scope, check_path, type_name};

/// A parsed change of a document's shape.
#[derive(Debug, Clone)]
pub struct Reshape(Kind);

#[derive(Debug, Clone)]
enum Kind {
    /// Only what the tree names, and `_id` if `id`.
    Keep(Tree),
    /// All but what the tree names.
    Drop(Tree),
    /// All, with the tree's computed fields set.
    Set(Tree),
    /// The document that an expression gives; the stage's name for messages.
    Replace(Expr),
}

/// Fields of one level.
#[derive(Debug, Clone, Default)]
struct Tree(ByName<Field>);

#[derive(Debug, Clone)]
enum Field {
    /// Named: kept or dropped.
    Plain,
    Computed(Expr),
    Inner(Tree),
}

impl Tree {
    fn find(&self, name: &[u8]) -> Option<&Field> {
        self.0.find(name)
    }

    /// Adds what the tree's expressions read and, at its top, what it names.
    fn reads(&self, names: &mut Vec<String>, top: bool) -> Option<()> {
        for (name, field) in self.0.iter() {
            match field {
                Field::Plain | Field::Inner(_) if top => names.push(name.clone()),
                _ => {}
            }
            match field {
                Field::Plain => {}
                Field::Computed(expr) => reads(expr, names)?,
                Field::Inner(tree) => tree.reads(names, false)?,
            }
        }
        Some(())
    }

    fn computes(&self) -> bool {
        self.0.iter().any(|(_, field)| match field {
            Field::Plain => false,
            Field::Computed(_) => true,
            Field::Inner(tree) => tree.computes(),
        })
    }

    /// Adds a path; an error of code `overlap` if it is there already, whole or in part.
    fn add(&mut self, overlap: ErrorCode, path: &str, full: &str, field: Field) -> Result<()> {
        let collision =
            || QueryError::new(overlap, format!("Path collision at {full} remaining portion {path}"));
        let (name, rest) = match path.split_once('.') {
            Some((name, rest)) => (name, Some(rest)),
            None => (path, None),
        };
        match (self.0.find_mut(name.as_bytes()), rest) {
            (None, None) => self.0.push(name.to_owned(), field),
            (None, Some(rest)) => {
                let mut inner = Tree::default();
                inner.add(overlap, rest, full, field)?;
                self.0.push(name.to_owned(), Field::Inner(inner));
            }
            (Some(Field::Inner(inner)), Some(rest)) => inner.add(overlap, rest, full, field)?,
            (Some(_), _) => return Err(collision()),
        }
        Ok(())
    }
}

/// Adds the top-level fields an expression reads; `None` if it may read any.
fn reads(expr: &Expr, names: &mut Vec<String>) -> Option<()> {
    let found = expr.reads();
    names.extend(found.paths.iter().map(|path| path.first().to_owned()));
    (!found.whole).then_some(())
}

/// One path of a `$project` before it is known whether fields are kept or dropped.
enum Wish {
    Keep,
    Drop,
    Compute(Expr),
}

fn wishes(spec: Doc<'_>, prefix: &str, names: &Names, all: &mut Vec<(String, Wish)>) -> Result<()> {
    for element in spec.elements() {
        let path = format!("{prefix}{}", element.name_str());
        check_path(&path)?;
        let wish = match element.value() {
            Value::Document(inner) if inner.is_empty() => {
                return Err(QueryError::new(
                    ErrorCode::Location51270,
                    format!(
                        "An empty sub-projection is not a valid value. Found empty object at path '{path}'"
                    ),
                ));
            }
            Value::Document(inner) if !inner.elements().any(|inner| inner.name.starts_with(b"$")) => {
                wishes(inner, &format!("{path}."), names, all)?;
                continue;
            }
            Value::Bool(keep) => {
                if keep {
                    Wish::Keep
                } else {
                    Wish::Drop
                }
            }
            value if value.is_number() => {
                if value.truthy() {
                    Wish::Keep
                } else {
                    Wish::Drop
                }
            }
            value => Wish::Compute(Expr::parse(value, names)?),
        };
        all.push((path, wish));
    }
    Ok(())
}

impl Reshape {
    /// Reads a stage `{ $project: .. }`, `$addFields`, `$set`, `$unset`, `$replaceRoot` or `$replaceWith`, whose name
    /// and operand `stage` is. `None` for any other stage.
    ///
    /// # Errors
    /// The codes of the stage, and those of the expressions.
    pub fn parse(stage: &Element<'_>, names: &Names) -> Result<Option<Reshape>> {
        let value = stage.value();
        Ok(Some(match stage.name {
            b"$project" => Self::project(spec(ErrorCode::Location15969, stage)?, names)?,
            b"$addFields" | b"$set" => Self::set(spec(ErrorCode::Location40272, stage)?, names)?,
            b"$unset" => Self::unset(value)?,
            b"$replaceWith" => Reshape(Kind::Replace(Expr::parse(value, names)?)),
            b"$replaceRoot" => {
                let root = spec(ErrorCode::Location40229, stage)?;
                let (code, message) = match (root.get("newRoot"), root.elements().nth(1)) {
                    (Some(root), None) => {
                        return Ok(Some(Reshape(Kind::Replace(Expr::parse(root, names)?))));
                    }
                    (Some(_), Some(_)) => {
                        (ErrorCode::Location40415, "$replaceRoot has no other field than 'newRoot'")
                    }
                    (None, _) => (ErrorCode::Location40414, "$replaceRoot needs the field 'newRoot'"),
                };
                return Err(QueryError::new(code, message));
            }
            _ => return Ok(None),
        }))
    }

    fn project(spec: Doc<'_>, names: &Names) -> Result<Reshape> {
        let mut all = Vec::new();
        wishes(spec, "", names, &mut all)?;
        if all.is_empty() {
            return Err(QueryError::new(
                ErrorCode::Location51272,
                "Invalid $project :: projection specification must have at least one field",
            ));
        }
        // What is said of `_id` does not tell which kind it is, unless nothing else is said.
        let kind = all.iter().find(|(path, _)| path != "_id").or(all.first());
        let keeps = !matches!(kind, Some((_, Wish::Drop)));
        let mut tree = Tree::default();
        if keeps && !all.iter().any(|(path, _)| path == "_id" || path.starts_with("_id.")) {
            tree.add(ErrorCode::Location31249, "_id", "_id", Field::Plain)?;
        }
        for (path, wish) in all {
            let field = match (wish, keeps) {
                (Wish::Keep, true) | (Wish::Drop, false) => Field::Plain,
                (Wish::Compute(expr), true) => Field::Computed(expr),
                (Wish::Drop, true) if path == "_id" => continue,
                (Wish::Keep, false) if path == "_id" => continue,
                (Wish::Drop, true) => {
                    return Err(QueryError::new(
                        ErrorCode::Location31254,
                        format!(
                            "Invalid $project :: Cannot do exclusion on field {path} in inclusion projection"
                        ),
                    ));
                }
                (_, false) => {
                    return Err(QueryError::new(
                        ErrorCode::Location31253,
                        format!(
                            "Invalid $project :: Cannot do inclusion on field {path} in exclusion projection"
                        ),
                    ));
                }
            };
            tree.add(ErrorCode::Location31249, &path, &path, field)?;
        }
        Ok(Reshape(if keeps { Kind::Keep(tree) } else { Kind::Drop(tree) }))
    }

    fn set(spec: Doc<'_>, names: &Names) -> Result<Reshape> {
        let mut tree = Tree::default();
        set_fields(spec, "", names, &mut tree)?;
        if tree.0.is_empty() {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                "Invalid $addFields :: specification must have at least one field",
            ));
        }
        Ok(Reshape(Kind::Set(tree)))
    }

    fn unset(value: Value<'_>) -> Result<Reshape> {
        let wrong = |code| {
            QueryError::new(code, "$unset specification must be a string or an array of at least one string")
        };
        let paths: Vec<Value<'_>> = match value {
            Value::Array(array) if array.is_empty() => return Err(wrong(ErrorCode::Location31119)),
            Value::Array(array) => array.elements().map(|element| element.value()).collect(),
            Value::String(_) => vec![value],
            _ => return Err(wrong(ErrorCode::Location31002)),
        };
        let mut tree = Tree::default();
        for path in paths {
            let Value::String(path) = path else { return Err(wrong(ErrorCode::Location31120)) };
            let path = std::str::from_utf8(path).map_err(|_| wrong(ErrorCode::Location31120))?;
            check_path(path)?;
            tree.add(ErrorCode::Location31249, path, path, Field::Plain)?;
        }
        Ok(Reshape(Kind::Drop(tree)))
    }

    /// True if the top-level field `name` of every document stays as it is.
    pub(crate) fn leaves(&self, name: &str) -> bool {
        match &self.0 {
            Kind::Keep(tree) => matches!(tree.find(name.as_bytes()), Some(Field::Plain)),
            Kind::Drop(tree) | Kind::Set(tree) => tree.find(name.as_bytes()).is_none(),
            Kind::Replace(_) => false,
        }
    }

    /// Adds the top-level fields that are read to make the new document, those that stay as they are left out unless
    /// only they are kept. True if no other field of a document can show in the new one; `None` if any may be read.
    pub(crate) fn reads(&self, names: &mut Vec<String>) -> Option<bool> {
        match &self.0 {
            Kind::Keep(tree) => tree.reads(names, true)?,
            Kind::Drop(_) => return Some(false),
            Kind::Set(tree) => {
                tree.reads(names, true)?;
                return Some(false);
            }
            Kind::Replace(expr) => reads(expr, names)?,
        }
        Some(true)
    }

    /// Adds the top-level fields that it leaves out, whatever their values.
    pub(crate) fn leaves_out(&self, names: &mut Vec<String>) {
        if let Kind::Drop(Tree(fields)) = &self.0 {
            let whole = fields.iter().filter(|(_, field)| matches!(field, Field::Plain));
            names.extend(whole.map(|(name, _)| name.clone()));
        }
    }

    /// The document that `document` becomes.
    ///
    /// # Errors
    /// Those of the expressions; `Location40228` if the new root is not a document; `BSONObjectTooLarge`.
    pub fn apply(&self, document: &RawDocument, globals: &Globals, arena: &Arena) -> Result<RawDocumentBuf> {
        let doc = Doc::from(document);
        let mut scope = Scope::new(doc, globals, arena);
        let mut out = Writer::new(document.as_bytes().len() + 64);
        match &self.0 {
            Kind::Keep(tree) => keep(&mut scope, doc, tree, &mut out)?,
            Kind::Drop(tree) => drop_fields(doc, tree, &mut out),
            Kind::Set(tree) => set(&mut scope, doc, tree, &mut out)?,
            Kind::Replace(expr) => match expr.eval(&mut scope)? {
                Some(Value::Document(doc)) => {
                    return Ok(RawDocumentBuf::from_bytes(doc.as_bytes().to_vec())?);
                }
                found => {
                    return Err(QueryError::new(
                        ErrorCode::Location40228,
                        format!(
                            "'newRoot' expression must evaluate to an object, but resulting value was: {}, of type {}",
                            found.map_or_else(|| "missing".to_owned(), crate::doc::shown),
                            type_name(found),
                        ),
                    ));
                }
            },
        }
        finish_document(out)
    }
}

/// The finished document; `BSONObjectTooLarge` if it is too large.
pub(crate) fn finish_document(out: Writer) -> Result<RawDocumentBuf> {
    check_size(&out)?;
    Ok(out.finish())
}

/// A reference to the finished document, before the buffer is reused; `BSONObjectTooLarge` if it is too
/// large.
pub(crate) fn borrow_document(out: &mut Writer) -> Result<&RawDocument> {
    check_size(out)?;
    Ok(out.document()?)
}

fn check_size(out: &Writer) -> Result<()> {
    if out.len() > MAX_DOCUMENT_SIZE {
        return Err(QueryError::new(
            ErrorCode::BSONObjectTooLarge,
            format!("a stage makes a document of more than {MAX_DOCUMENT_SIZE} bytes"),
        ));
    }
    Ok(())
}

/// The operand of a stage that takes a document; the code of the error if it is none.
fn spec<'a>(code: ErrorCode, stage: &Element<'a>) -> Result<Doc<'a>> {
    match stage.value() {
        Value::Document(doc) => Ok(doc),
        other => Err(QueryError::new(
            code,
            format!("{} specification stage must be an object, got {}", stage.name_str(), other.type_name()),
        )),
    }
}

fn set_fields(spec: Doc<'_>, prefix: &str, names: &Names, tree: &mut Tree) -> Result<()> {
    for element in spec.elements() {
        let name = element.name_str();
        if !prefix.is_empty() && name.contains('.') {
            return Err(QueryError::new(
                ErrorCode::Location40183,
                format!("cannot use dotted field name '{name}' in a sub object"),
            ));
        }
        let path = format!("{prefix}{name}");
        check_path(&path)?;
        match element.value() {
            Value::Document(inner)
                if inner.elements().any(|inner| inner.name.starts_with(b"$"))
                    && inner.elements().nth(1).is_some() =>
            {
                return Err(QueryError::new(
                    ErrorCode::Location40181,
                    format!(
                        "an expression specification must contain exactly one field, the name of the expression: {}",
                        crate::doc::shown(element.value())
                    ),
                ));
            }
            Value::Document(inner)
                if !inner.is_empty() && !inner.elements().any(|inner| inner.name.starts_with(b"$")) =>
            {
                set_fields(inner, &format!("{path}."), names, tree)?;
            }
            value => {
                let field = Field::Computed(Expr::parse(value, names)?);
                tree.add(ErrorCode::Location40176, &path, &path, field)?;
            }
        }
    }
    Ok(())
}

fn compute<'a>(scope: &mut Scope<'a>, name: &[u8], expr: &'a Expr, out: &mut Writer) -> Result<()> {
    if let Some(value) = expr.eval(scope)? {
        out.value(name, value);
    }
    Ok(())
}

fn keep<'a>(scope: &mut Scope<'a>, doc: Doc<'a>, tree: &'a Tree, out: &mut Writer) -> Result<()> {
    for element in doc.elements() {
        match tree.find(element.name) {
            Some(Field::Plain) => out.copy(&element),
            Some(Field::Inner(inner)) => keep_inner(scope, element.name, element.value(), inner, out)?,
            Some(Field::Computed(_)) | None => {}
        }
    }
    let mut there = FieldsByName::new(doc);
    for (name, field) in tree.0.iter() {
        match field {
            Field::Computed(expr) => compute(scope, name.as_bytes(), expr, out)?,
            // A value that is not a document is replaced by a document with the computed fields.
            Field::Inner(inner) if inner.computes() => {
                match there.find(name.as_bytes()).map(|field| field.value()) {
                    Some(Value::Document(_) | Value::Array(_)) => {}
                    _ => keep_inner(scope, name.as_bytes(), Value::Document(Doc::EMPTY), inner, out)?,
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn keep_inner<'a>(
    scope: &mut Scope<'a>,
    name: &[u8],
    value: Value<'a>,
    tree: &'a Tree,
    out: &mut Writer,
) -> Result<()> {
    match value {
        Value::Document(doc) => {
            let open = out.open_document(name);
            keep(scope, doc, tree, out)?;
            out.close(open);
        }
        Value::Array(array) => {
            let open = out.open_array(name);
            let inner = array.elements().map(|element| element.value());
            let inner = inner.filter(|value| matches!(value, Value::Document(_) | Value::Array(_)));
            for (at, value) in inner.enumerate() {
                keep_inner(scope, at.to_string().as_bytes(), value, tree, out)?;
            }
            out.close(open);
        }
        _ => {}
    }
    Ok(())
}

fn drop_fields(doc: Doc<'_>, tree: &Tree, out: &mut Writer) {
    for element in doc.elements() {
        match tree.find(element.name) {
            Some(Field::Inner(inner)) => drop_inner(element.name, &element, inner, out),
            Some(_) => {}
            None => out.copy(&element),
        }
    }
}

fn drop_inner(name: &[u8], element: &Element<'_>, tree: &Tree, out: &mut Writer) {
    match element.value() {
        Value::Document(doc) => {
            let open = out.open_document(name);
            drop_fields(doc, tree, out);
            out.close(open);
        }
        Value::Array(array) => {
            let open = out.open_array(name);
            for (at, element) in array.elements().enumerate() {
                drop_inner(at.to_string().as_bytes(), &element, tree, out);
            }
            out.close(open);
        }
        _ => out.put(name, element),
    }
}

fn set<'a>(scope: &mut Scope<'a>, doc: Doc<'a>, tree: &'a Tree, out: &mut Writer) -> Result<()> {
    for element in doc.elements() {
        match tree.find(element.name) {
            Some(Field::Computed(expr)) => compute(scope, element.name, expr, out)?,
            Some(Field::Inner(inner)) => set_inner(scope, element.name, element.value(), inner, out)?,
            Some(Field::Plain) | None => out.copy(&element),
        }
    }
    let mut there = FieldsByName::new(doc);
    for (name, field) in tree.0.iter() {
        if there.find(name.as_bytes()).is_some() {
            continue;
        }
        match field {
            Field::Computed(expr) => compute(scope, name.as_bytes(), expr, out)?,
            Field::Inner(inner) => set_inner(scope, name.as_bytes(), Value::Null, inner, out)?,
            Field::Plain => {}
        }
    }
    Ok(())
}

fn set_inner<'a>(
    scope: &mut Scope<'a>,
    name: &[u8],
    value: Value<'a>,
    tree: &'a Tree,
    out: &mut Writer,
) -> Result<()> {
    match value {
        Value::Array(array) => {
            let open = out.open_array(name);
            for (at, element) in array.elements().enumerate() {
                set_inner(scope, at.to_string().as_bytes(), element.value(), tree, out)?;
            }
            out.close(open);
        }
        value => {
            let doc = if let Value::Document(doc) = value { doc } else { Doc::EMPTY };
            let open = out.open_document(name);
            set(scope, doc, tree, out)?;
            out.close(open);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc::json::{from_json, to_json};

    fn reshaped(doc: &str, stage: &str) -> Result<String> {
        let stage = from_json(stage)?;
        let element = Doc::from(&stage).elements().next().unwrap();
        let reshape = Reshape::parse(&element, &Names::default())?.unwrap();
        Ok(to_json(&reshape.apply(&from_json(doc)?, &Globals::default(), &Arena::new())?))
    }

    #[test]
    fn stages_keep_drop_set_and_replace_as_mongodb_does() {
        let doc = r#"{"_id":1,"a":{"b":1,"c":2},"l":[{"x":1,"y":2},5,{"x":3}],"n":4}"#;
        for (stage, expected) in [
            (r#"{"$project":{"n":1}}"#, r#"{"_id":1,"n":4}"#),
            (r#"{"$project":{"_id":0,"a.b":1}}"#, r#"{"a":{"b":1}}"#),
            (r#"{"$project":{"l.x":1,"_id":0}}"#, r#"{"l":[{"x":1},{"x":3}]}"#),
            (r#"{"$project":{"_id":0,"m":{"$add":["$n",1]},"n":1}}"#, r#"{"n":4,"m":5}"#),
            (r#"{"$project":{"_id":0,"n":{"z":"$a.b"}}}"#, r#"{"n":{"z":1}}"#),
            (r#"{"$project":{"_id":0,"v":["$n","$q"]}}"#, r#"{"v":[4,null]}"#),
            (r#"{"$project":{"l":0,"a.c":0}}"#, r#"{"_id":1,"a":{"b":1},"n":4}"#),
            (r#"{"$unset":["l","a.b","n"]}"#, r#"{"_id":1,"a":{"c":2}}"#),
            (
                r#"{"$addFields":{"a.d":"$n","n":"x","z":null,"l":"$$REMOVE"}}"#,
                r#"{"_id":1,"a":{"b":1,"c":2,"d":4},"n":"x","z":null}"#,
            ),
            (
                r#"{"$set":{"l.z":9,"a":"$$REMOVE","n":"$$REMOVE"}}"#,
                r#"{"_id":1,"l":[{"x":1,"y":2,"z":9},{"z":9},{"x":3,"z":9}]}"#,
            ),
            (
                r#"{"$set":{"p.q":{"$literal":{"r":1}},"a":0,"l":0}}"#,
                r#"{"_id":1,"a":0,"l":0,"n":4,"p":{"q":{"r":1}}}"#,
            ),
            (r#"{"$replaceRoot":{"newRoot":"$a"}}"#, r#"{"b":1,"c":2}"#),
            (r#"{"$replaceWith":{"k":"$n","m":"$nothing"}}"#, r#"{"k":4}"#),
        ] {
            assert_eq!(reshaped(doc, stage).unwrap(), expected, "{stage}");
        }
        for (stage, code) in [
            (r#"{"$project":{"a":1,"b":0}}"#, ErrorCode::Location31254),
            (r#"{"$project":{"a":0,"b":1}}"#, ErrorCode::Location31253),
            (r#"{"$project":{"a":1,"a.b":1}}"#, ErrorCode::Location31249),
            (r#"{"$project":{}}"#, ErrorCode::Location51272),
            (r#"{"$unset":[]}"#, ErrorCode::Location31119),
            (r#"{"$replaceWith":"$n"}"#, ErrorCode::Location40228),
        ] {
            assert_eq!(reshaped(doc, stage).unwrap_err().code, code, "{stage}");
        }
    }
}
