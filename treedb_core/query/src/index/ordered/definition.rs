//! The definition of an ordered index: name, key pattern, uniqueness, options.

use bson::raw::{CString, cstr};
use bson::{RawDocument, RawDocumentBuf, rawdoc};

use super::geo_keys::{self, GeoFields};
use super::options::{IndexOptions, Kind, Partial};
use super::wildcard::Wildcard;
use crate::doc::compare::compare;
use crate::doc::key::{encode_value, invert};
use crate::doc::path::is_dollar_prefixed;
use crate::doc::{Collation, Doc, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};
use crate::geo::{Grid, number};

/// The maximum number of fields in a key pattern.
pub const MAX_KEY_PARTS: usize = 32;

/// The sort order of one field in an index or a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SortOrder {
    /// 1: smallest first.
    Ascending,
    /// -1: greatest first.
    Descending,
}

impl SortOrder {
    /// The opposite order.
    pub fn reversed(self) -> Self {
        match self {
            SortOrder::Ascending => SortOrder::Descending,
            SortOrder::Descending => SortOrder::Ascending,
        }
    }

    /// 1 or -1.
    pub fn sign(self) -> i32 {
        match self {
            SortOrder::Ascending => 1,
            SortOrder::Descending => -1,
        }
    }
}

/// One field of a key pattern or a sort.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct KeyPart {
    /// Dotted path: `author.name`.
    pub path: Path,
    /// Its sort order.
    pub direction: SortOrder,
}

impl KeyPart {
    /// Appends the encoding of `value` in a key to `out`.
    #[inline]
    pub fn encode(&self, value: Value<'_>, out: &mut Vec<u8>) {
        let from = out.len();
        encode_value(value, out);
        if self.direction == SortOrder::Descending {
            out.get_mut(from..).map(invert);
        }
    }
}

/// An ordered index: its name, its key pattern, whether keys are unique, and its options.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexDef {
    /// Unique in its collection; `_id_` is the index on `_id`.
    pub name: String,
    /// The key pattern, 1 to [`MAX_KEY_PARTS`] fields.
    pub keys: Vec<KeyPart>,
    /// True if no two rows may have the same key.
    pub unique: bool,
    /// The other options.
    pub options: IndexOptions,
}

/// The maximum of `expireAfterSeconds`.
const MAX_EXPIRY: i64 = i32::MAX as i64;

fn cannot_create(message: String) -> QueryError {
    QueryError::new(ErrorCode::CannotCreateIndex, message)
}

impl IndexDef {
    /// The index on `_id` that every collection has.
    pub fn id() -> Self {
        let path = Path::new("_id");
        IndexDef {
            name: "_id_".to_owned(),
            keys: vec![KeyPart { path, direction: SortOrder::Ascending }],
            unique: true,
            options: IndexOptions::default(),
        }
    }

    /// Parses a key pattern (`{ a: 1, "b.c": -1 }`). Without a name the index gets MongoDB's default name:
    /// `a_1_b.c_-1`.
    ///
    /// # Errors
    /// `CannotCreateIndex` naming the field, for an empty or too long pattern, a field name that is empty or
    /// starts with `$`, a direction that is not a number or 0, an index that is not one of values.
    pub fn parse(pattern: &RawDocument, name: Option<&str>, unique: bool) -> Result<Self> {
        let def = Self::read(pattern, name, unique)?;
        match def.options.kind {
            Kind::Values => Ok(def),
            _ => Err(cannot_create(format!(
                "An index of the kind {} is not supported here",
                crate::doc::shown(Value::Document(pattern.into()))
            ))),
        }
    }

    /// Parses the specification of an index as in `createIndexes` and `listIndexes`: `{ key: { a: 1 }, name:
    /// "a_1", sparse: true }`. `partial` parses a `partialFilterExpression`, which compares strings by the
    /// collation. Unknown fields are ignored.
    ///
    /// # Errors
    /// The errors of [`Self::parse`], and MongoDB's errors for options that are invalid or cannot be
    /// combined.
    pub fn from_spec(
        spec: &RawDocument,
        partial: &dyn Fn(&RawDocument, &Collation) -> Result<Partial>,
    ) -> Result<Self> {
        let spec = Doc::from(spec);
        let document = |name: &str| match spec.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(Value::Document(doc)) => Ok(Some(RawDocument::from_bytes(doc.as_bytes())?)),
            Some(value) => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("The field '{name}' must be an object, but got {}", value.type_name()),
            )),
        };
        let given = |name: &str| match spec.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) if value.is_number() || matches!(value, Value::Bool(_)) => Ok(Some(value.truthy())),
            Some(value) => Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("The field '{name}' must be a bool, but got {}", value.type_name()),
            )),
        };
        let flag = |name: &str| Ok::<_, QueryError>(given(name)?.unwrap_or(false));
        let name = match spec.get("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(String::from_utf8_lossy(name)),
            Some(value) => {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("The field 'name' must be a string, but got {}", value.type_name()),
                ));
            }
        };
        let Some(pattern) = document("key")? else {
            return Err(QueryError::new(
                ErrorCode::FailedToParse,
                "The 'key' field is a required property of an index specification",
            ));
        };
        let mut def = Self::read(pattern, name.as_deref(), flag("unique")?)?;
        let options = &mut def.options;
        options.sparse = flag("sparse")?;
        options.hidden = flag("hidden")?;
        options.background = given("background")?;
        if let Some(collation) = document("collation")? {
            options.collation = Collation::parse(collation)?;
        }
        if let Some(filter) = document("partialFilterExpression")? {
            options.partial = Some(partial(filter, &options.collation)?);
        }
        match spec.get("expireAfterSeconds") {
            None | Some(Value::Null) => {}
            Some(value) => options.expire_after = Some(expiry(value)?),
        }
        if let Some(projection) = document("wildcardProjection")? {
            match &mut options.kind {
                Kind::Wildcard(wildcard) => wildcard.set_projection(projection)?,
                _ => {
                    return Err(QueryError::bad_value(
                        "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
                    ));
                }
            }
        }
        if let Kind::Geo(geo) = &mut def.options.kind {
            plane_options(spec, geo)?;
            if let Some(version) = spec.get("2dsphereIndexVersion") {
                sphere_version(version)?;
            }
        }
        def.check()?;
        Ok(def)
    }

    /// Rejects options that cannot be combined.
    fn check(&self) -> Result<()> {
        let IndexOptions { kind, sparse, partial, expire_after, hidden, background, collation } =
            &self.options;
        if *sparse && partial.is_some() {
            return Err(cannot_create(
                "cannot mix \"partialFilterExpression\" and \"sparse\" options: the filter can say { $exists: true }"
                    .to_owned(),
            ));
        }
        if expire_after.is_some() && self.keys.len() > 1 {
            return Err(cannot_create(
                "TTL indexes are single-field indexes, compound indexes do not support TTL".to_owned(),
            ));
        }
        match kind {
            Kind::Values => {}
            Kind::Hashed(_) if self.unique => {
                return Err(QueryError::new(
                    ErrorCode::Location16764,
                    "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.",
                ));
            }
            Kind::Hashed(_) if expire_after.is_some() => {
                return Err(cannot_create(
                    "a hashed index cannot be a TTL index: it has no order".to_owned(),
                ));
            }
            Kind::Hashed(_) => {}
            Kind::Geo(geo) => {
                let unsupported = [
                    (self.unique, "unique"),
                    (expire_after.is_some(), "expireAfterSeconds"),
                    (geo.bounds().is_some() && !collation.is_simple(), "collation"),
                ];
                if let Some((_, option)) = unsupported.iter().find(|(given, _)| *given) {
                    return Err(cannot_create(format!(
                        "Index type '{}' does not support the {option} option",
                        geo.name()
                    )));
                }
            }
            Kind::Wildcard(_) => {
                let unsupported = [
                    (self.unique, "unique"),
                    (*sparse, "sparse"),
                    (expire_after.is_some(), "expireAfterSeconds"),
                ];
                if let Some((_, option)) = unsupported.iter().find(|(given, _)| *given) {
                    return Err(cannot_create(format!(
                        "Index type 'wildcard' does not support the {option} option"
                    )));
                }
            }
        }
        if self.is_id_pattern() {
            if *hidden {
                return Err(QueryError::bad_value("can't hide _id index"));
            }
            let unsupported = [
                (*sparse, "sparse"),
                (partial.is_some(), "partialFilterExpression"),
                (expire_after.is_some(), "expireAfterSeconds"),
                (background.is_some(), "background"),
            ];
            if let Some((_, option)) = unsupported.iter().find(|(given, _)| *given) {
                return Err(QueryError::new(
                    ErrorCode::InvalidIndexSpecificationOption,
                    format!("The field '{option}' is not valid for an _id index specification."),
                ));
            }
        }
        Ok(())
    }

    fn is_id_pattern(&self) -> bool {
        matches!(self.keys.as_slice(), [KeyPart { path, direction: SortOrder::Ascending }] if path.as_str() == "_id")
            && self.options.kind.is_values()
    }

    /// Parses a key pattern of any kind of index.
    fn read(pattern: &RawDocument, name: Option<&str>, unique: bool) -> Result<Self> {
        let mut keys: Vec<KeyPart> = Vec::new();
        let mut kind = Kind::Values;
        for element in Doc::from(pattern).elements() {
            let path = element.name_str();
            let direction = match element.value() {
                Value::String(b"hashed") => {
                    if !kind.is_values() {
                        return Err(QueryError::new(
                            ErrorCode::Location31303,
                            "A maximum of one index field is allowed to be hashed",
                        ));
                    }
                    kind = Kind::Hashed(keys.len());
                    SortOrder::Ascending
                }
                Value::String(name) if let Some(grid) = GeoFields::grid_named(name) => {
                    kind = location_kind(kind, grid, keys.len(), path)?;
                    SortOrder::Ascending
                }
                Value::String(kind) => {
                    let kind = String::from_utf8_lossy(kind);
                    return Err(cannot_create(format!(
                        "Index type '{kind}' of field '{path}' is not supported"
                    )));
                }
                value if !value.is_number() => {
                    return Err(cannot_create(format!(
                        "Values in v:2 index key pattern cannot be of type {} (field '{path}'). Only numbers > 0, \
                         numbers < 0, and strings are allowed.",
                        value.type_name()
                    )));
                }
                value => match crate::doc::compare::compare(value, Value::Int32(0)) {
                    std::cmp::Ordering::Greater => SortOrder::Ascending,
                    std::cmp::Ordering::Less if !matches!(value, Value::Double(value) if value.is_nan()) => {
                        SortOrder::Descending
                    }
                    _ => {
                        let message =
                            format!("Values in the index key pattern cannot be 0 (field '{path}').");
                        return Err(cannot_create(message));
                    }
                },
            };
            if path.split('.').any(str::is_empty) {
                return Err(cannot_create(format!("Index keys cannot contain an empty field: '{path}'.")));
            }
            let wildcard = Wildcard::of(path);
            let named = wildcard.as_ref().map_or(path, Wildcard::root);
            if named.starts_with('$') || named.split('.').any(is_dollar_prefixed) {
                return Err(cannot_create(format!(
                    "Index key contains an illegal field name: field name starts with '$': '{path}'."
                )));
            }
            if keys.iter().any(|key| key.path.as_str() == path) {
                return Err(cannot_create(format!("Index keys cannot name the field '{path}' twice.")));
            }
            if let Some(wildcard) = wildcard {
                if !kind.is_values() {
                    return Err(cannot_create(format!("A wildcard index cannot be hashed (field '{path}')")));
                }
                kind = Kind::Wildcard(wildcard);
            }
            keys.push(KeyPart { path: Path::new(path), direction });
        }
        if keys.is_empty() {
            return Err(cannot_create("Index keys cannot be an empty object.".to_owned()));
        }
        if keys.len() > MAX_KEY_PARTS {
            return Err(cannot_create(format!("Index keys cannot have more than {MAX_KEY_PARTS} fields.")));
        }
        if keys.len() > 1 && matches!(kind, Kind::Wildcard(_)) {
            return Err(cannot_create("wildcard indexes do not allow compounding".to_owned()));
        }
        if let Kind::Geo(geo) = &kind
            && geo.bounds().is_some()
            && !geo.has(0)
        {
            return Err(cannot_create("2d has to be first in index".to_owned()));
        }
        let name = match name {
            Some("") => return Err(cannot_create("index names cannot be empty".to_owned())),
            Some(name) => name.to_owned(),
            None => default_name(&keys, &kind),
        };
        Ok(IndexDef { name, keys, unique, options: IndexOptions { kind, ..IndexOptions::default() } })
    }

    /// The key pattern as a document: `{ a: 1, "b.c": -1 }`.
    pub fn key_pattern(&self) -> RawDocumentBuf {
        if !matches!(self.options.kind, Kind::Hashed(_) | Kind::Geo(_)) {
            return pattern_of(&self.keys);
        }
        let mut pattern = RawDocumentBuf::new();
        for (at, key) in self.keys.iter().enumerate() {
            let Ok(name) = CString::try_from(key.path.as_str()) else { continue };
            match named_kind(&self.options.kind, at) {
                Some(kind) => pattern.append(name, kind),
                None => pattern.append(name, key.direction.sign()),
            }
        }
        pattern
    }

    /// What `collMod` answers when it has changed these options of this index: as they were and as they are.
    pub fn shown_change(&self, hidden: Option<bool>, expire_after: Option<i64>) -> RawDocumentBuf {
        let mut shown = RawDocumentBuf::new();
        if let Some(seconds) = expire_after {
            if let Some(old) = self.options.expire_after {
                shown.append(cstr!("expireAfterSeconds_old"), old);
            }
            shown.append(cstr!("expireAfterSeconds_new"), seconds);
        }
        if let Some(hidden) = hidden {
            shown.append(cstr!("hidden_old"), self.options.hidden);
            shown.append(cstr!("hidden_new"), hidden);
        }
        shown
    }

    /// The specification as in `listIndexes`; [`Self::from_spec`] parses it.
    pub fn spec(&self) -> RawDocumentBuf {
        let IndexOptions { kind, sparse, partial, expire_after, hidden, background, collation } =
            &self.options;
        let mut spec = rawdoc! { "v": 2, "key": self.key_pattern(), "name": self.name.as_str() };
        for (name, set) in [
            (cstr!("unique"), self.unique && !self.is_id()),
            (cstr!("sparse"), *sparse),
            (cstr!("hidden"), *hidden),
        ] {
            if set {
                spec.append(name, true);
            }
        }
        if let Some(background) = background {
            spec.append(cstr!("background"), *background);
        }
        if let Some(partial) = partial {
            spec.append(cstr!("partialFilterExpression"), partial.source());
        }
        if let Some(seconds) = expire_after {
            spec.append(cstr!("expireAfterSeconds"), i32::try_from(*seconds).unwrap_or(i32::MAX));
        }
        if let Some(collation) = collation.document() {
            spec.append(cstr!("collation"), collation);
        }
        if let Kind::Wildcard(wildcard) = kind
            && let Some(projection) = wildcard.projection()
        {
            spec.append(cstr!("wildcardProjection"), projection);
        }
        if let Kind::Geo(geo) = kind {
            match geo.bounds() {
                None => spec.append(cstr!("2dsphereIndexVersion"), 3),
                Some((min, max)) => {
                    if (geo.bits, (min, max)) != (geo_keys::BITS, geo_keys::BOUNDS) {
                        spec.append(cstr!("bits"), geo.bits);
                        spec.append(cstr!("min"), min);
                        spec.append(cstr!("max"), max);
                    }
                }
            }
        }
        spec
    }

    /// Whether `existing`, an index of the same collection, already is the index of this definition.
    ///
    /// # Errors
    /// `IndexKeySpecsConflict` or `IndexOptionsConflict` if a collection cannot have both.
    pub fn is_same_as(&self, existing: &IndexDef) -> Result<bool> {
        let (requested, present) = (&self.options, &existing.options);
        // Indexes that differ in one of these have different entries, and a collection may have both.
        let equivalent = existing.keys == self.keys
            && existing.unique == self.unique
            && (&present.kind, present.sparse, &present.partial, &present.collation)
                == (&requested.kind, requested.sparse, &requested.partial, &requested.collation);
        let conflict = |code, what: &str| {
            let spec = |def: &IndexDef| crate::doc::shown(Value::Document((&def.spec()).into()));
            let message =
                format!("{what} Requested index: {}, existing index: {}", spec(self), spec(existing));
            Err(QueryError::new(code, message))
        };
        if self.is_id() && existing.is_id() && self.keys == existing.keys && !equivalent && self.unique {
            return conflict(
                ErrorCode::BadValue,
                "The _id index must have the same collation as the collection.",
            );
        }
        match (existing.name == self.name, equivalent) {
            // Whether it is hidden makes no other index of it, as in MongoDB: collMod says.
            (true, true) if requested.expire_after == present.expire_after => Ok(true),
            (true, true) => conflict(
                ErrorCode::IndexOptionsConflict,
                "An equivalent index already exists with the same name but different options (collMod changes them).",
            ),
            (true, false) => conflict(
                ErrorCode::IndexKeySpecsConflict,
                "An existing index has the same name as the requested index: drop it first, or choose another name.",
            ),
            (false, true) => Err(QueryError::new(
                ErrorCode::IndexOptionsConflict,
                format!("Index already exists with a different name: {}", existing.name),
            )),
            (false, false) => Ok(false),
        }
    }

    /// True if a key consists of the encodings of the fields' values: for an index that is not hashed, not a
    /// wildcard and has no collation.
    pub fn holds_values(&self) -> bool {
        self.options.kind.is_values() && self.options.collation.is_simple()
    }

    /// The fields that are locations; none in an index of another kind.
    pub fn locations(&self) -> impl Iterator<Item = (&Path, Grid)> {
        let geo = if let Kind::Geo(geo) = &self.options.kind { Some(geo) } else { None };
        geo.into_iter().flat_map(|geo| {
            let fields = self.keys.iter().enumerate().filter(|(at, _)| geo.has(*at));
            fields.map(|(_, part)| (&part.path, *geo.grid()))
        })
    }

    /// The top-level fields that keys depend on; `None` if these may be any fields.
    pub fn fields(&self) -> Option<impl Iterator<Item = &[u8]>> {
        let any = self.options.partial.is_some() || matches!(self.options.kind, Kind::Wildcard(_));
        (!any).then(|| self.keys.iter().map(|key| key.path.first().as_bytes()))
    }

    /// True if two documents have the same bytes in all fields that keys depend on, and so the same keys.
    pub fn is_untouched(&self, old: &RawDocument, new: &RawDocument) -> bool {
        let (old, new) = (Doc::from(old), Doc::from(new));
        self.fields().is_some_and(|mut fields| fields.all(|name| old.find(name) == new.find(name)))
    }

    /// True for the index on `_id`.
    pub fn is_id(&self) -> bool {
        self.name == "_id_"
    }
}

/// The key pattern of a list of fields, as a document.
pub fn pattern_of(keys: &[KeyPart]) -> RawDocumentBuf {
    let mut pattern = RawDocumentBuf::new();
    for key in keys {
        // The path is from a document, where a name cannot contain a NUL, so this never fails.
        if let Ok(name) = CString::try_from(key.path.as_str()) {
            pattern.append(name, key.direction.sign());
        }
    }
    pattern
}

/// True if two key patterns have the same fields in the same order, with the same direction or index type;
/// `1`, `1.0` and `NumberLong(1)` are the same direction.
pub fn same_key_pattern(a: &RawDocument, b: &RawDocument) -> bool {
    let same = |one: Value<'_>, other: Value<'_>| match (one, other) {
        (Value::String(one), Value::String(other)) => one == other,
        _ => one.is_number() && other.is_number() && is_descending(one) == is_descending(other),
    };
    let (mut a, mut b) = (Doc::from(a).elements(), Doc::from(b).elements());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a.name == b.name && same(a.value(), b.value()) => {}
            _ => return false,
        }
    }
}

fn is_descending(direction: Value<'_>) -> bool {
    compare(direction, Value::Int32(0)).is_lt()
}

/// The name that stands for the direction of the field at this position, if one does.
fn named_kind(kind: &Kind, at: usize) -> Option<&'static str> {
    match kind {
        Kind::Hashed(hashed) => (*hashed == at).then_some("hashed"),
        Kind::Geo(geo) => geo.has(at).then(|| geo.name()),
        Kind::Values | Kind::Wildcard(_) => None,
    }
}

/// The kind of an index of which a field is a location.
fn location_kind(before: Kind, grid: Grid, at: usize, path: &str) -> Result<Kind> {
    match before {
        Kind::Values => Ok(Kind::Geo(GeoFields::new(grid, at))),
        Kind::Geo(mut geo) if *geo.grid() == Grid::Sphere && grid == Grid::Sphere => {
            geo.add(at);
            Ok(Kind::Geo(geo))
        }
        _ => Err(cannot_create(format!(
            "Can't use more than one index plugin for a single index: the type of field '{path}' cannot be combined with \
             that of another field"
        ))),
    }
}

/// Reads `min`, `max` and `bits` of a `2d` index.
fn plane_options(spec: Doc<'_>, geo: &mut GeoFields) -> Result<()> {
    let Some((mut min, mut max)) = geo.bounds() else { return Ok(()) };
    for (name, bound) in [("min", &mut min), ("max", &mut max)] {
        match spec.get(name) {
            None => {}
            Some(value) if let Some(number) = number(value) => *bound = number,
            Some(value) => {
                return Err(QueryError::new(
                    ErrorCode::TypeMismatch,
                    format!("The field '{name}' must be a number, but got {}", value.type_name()),
                ));
            }
        }
    }
    if !(min.is_finite() && max.is_finite() && min < max) {
        return Err(QueryError::new(
            ErrorCode::InvalidOptions,
            format!("region for hash must be valid and have positive area, but [{min}, {max}] was specified"),
        ));
    }
    geo.set_bounds(min, max);
    match spec.get("bits").map(|bits| (bits.as_integer(), bits.type_name())) {
        None => {}
        Some((Some(bits @ 1..=32), _)) => geo.bits = bits as i32,
        Some((Some(bits), _)) => {
            return Err(QueryError::new(
                ErrorCode::InvalidOptions,
                format!("bits for hash must be > 0 and <= 32, but {bits} bits were specified"),
            ));
        }
        Some((None, found)) => {
            return Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("The field 'bits' must be a number, but got {found}"),
            ));
        }
    }
    Ok(())
}

/// Accepts the versions of `2dsphere` indexes that MongoDB has.
fn sphere_version(value: Value<'_>) -> Result<()> {
    match value.as_integer() {
        Some(1..=3) => Ok(()),
        _ => Err(cannot_create(
            "unsupported geo index version { 2dsphereIndexVersion }, only support versions: [1,2,3]"
                .to_owned(),
        )),
    }
}

fn default_name(keys: &[KeyPart], kind: &Kind) -> String {
    let part = |(at, key): (usize, &KeyPart)| match named_kind(kind, at) {
        Some(kind) => format!("{}_{kind}", key.path),
        None => format!("{}_{}", key.path, key.direction.sign()),
    };
    keys.iter().enumerate().map(part).collect::<Vec<_>>().join("_")
}

/// Parses `expireAfterSeconds`; a fraction is truncated.
///
/// # Errors
/// `TypeMismatch`; `CannotCreateIndex` for a time that is negative or too long.
pub fn expiry(value: Value<'_>) -> Result<i64> {
    let seconds = match value {
        Value::Double(seconds) if seconds.is_nan() => None,
        // `as` saturates.
        Value::Double(seconds) => Some(seconds as i64),
        value if value.is_number() => value.as_integer(),
        value => {
            return Err(QueryError::new(
                ErrorCode::TypeMismatch,
                format!("The field 'expireAfterSeconds' must be numeric, but got {}", value.type_name()),
            ));
        }
    };
    seconds.filter(|seconds| (0..=MAX_EXPIRY).contains(seconds)).ok_or_else(|| {
        cannot_create(format!(
            "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a number between 0 and \
             {MAX_EXPIRY}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::rawdoc;

    #[test]
    fn a_pattern_has_mongodbs_default_name_and_round_trips() {
        let def = IndexDef::parse(&rawdoc! { "a": 1, "b.c": -1.0 }, None, false).unwrap();
        assert_eq!(def.name, "a_1_b.c_-1");
        assert_eq!(def.key_pattern(), rawdoc! { "a": 1, "b.c": -1 });
    }

    #[test]
    fn bad_patterns_are_refused_naming_the_field() {
        for (pattern, part) in [
            (rawdoc! {}, "empty object"),
            (rawdoc! { "a": 0 }, "'a'"),
            (rawdoc! { "a": "text" }, "'text'"),
            (rawdoc! { "a": true }, "type bool"),
            (rawdoc! { "a..b": 1 }, "'a..b'"),
            (rawdoc! { "$**": 1 }, "$**"),
            (rawdoc! { "a": "hashed" }, "hashed"),
        ] {
            let error = IndexDef::parse(&pattern, None, false).unwrap_err();
            assert_eq!(error.code, ErrorCode::CannotCreateIndex);
            assert!(error.message.contains(part), "{error}");
        }
    }

    fn spec(spec: RawDocumentBuf) -> Result<IndexDef> {
        IndexDef::from_spec(&spec, &|_, _| Err(cannot_create("no filters in this test".to_owned())))
    }

    #[test]
    fn specifications_of_every_kind_round_trip() {
        for (given, name) in [
            (rawdoc! { "key": { "a": 1 }, "sparse": true, "unique": true }, "a_1"),
            (rawdoc! { "key": { "a": 1 }, "expireAfterSeconds": 3600, "hidden": true }, "a_1"),
            (rawdoc! { "key": { "a": 1 }, "background": true }, "a_1"),
            (rawdoc! { "key": { "a": 1 }, "background": false, "hidden": true }, "a_1"),
            (rawdoc! { "key": { "a": 1, "b": "hashed" } }, "a_1_b_hashed"),
            (rawdoc! { "key": { "a.$**": -1 } }, "a.$**_-1"),
            (rawdoc! { "key": { "a": "2dsphere", "b": -1, "c": "2dsphere" } }, "a_2dsphere_b_-1_c_2dsphere"),
            (rawdoc! { "key": { "a": "2d", "b": 1 }, "bits": 20, "min": -10.0, "max": 10.5 }, "a_2d_b_1"),
            (rawdoc! { "key": { "$**": 1 }, "wildcardProjection": { "a.b": 1 } }, "$**_1"),
            (rawdoc! { "key": { "a": 1 }, "collation": { "locale": "en", "strength": 2 } }, "a_1"),
        ] {
            let def = spec(given.clone()).unwrap();
            assert_eq!(def.name, name);
            let listed = def.spec();
            assert_eq!(spec(listed.clone()).unwrap(), def);
            for element in Doc::from(&given).elements().filter(|element| element.name != b"collation") {
                assert_eq!(Doc::from(&listed).get(element.name_str()), Some(element.value()), "{listed:?}");
            }
        }
    }

    #[test]
    fn options_that_cannot_be_combined_are_refused() {
        for (given, code) in [
            (rawdoc! { "name": "x" }, ErrorCode::FailedToParse),
            (rawdoc! { "key": { "a": 1 }, "sparse": "yes" }, ErrorCode::TypeMismatch),
            (rawdoc! { "key": { "a": 1, "b": 1 }, "expireAfterSeconds": 1 }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": 1 }, "expireAfterSeconds": -1 }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": 1 }, "expireAfterSeconds": "1" }, ErrorCode::TypeMismatch),
            (rawdoc! { "key": { "a": "hashed" }, "unique": true }, ErrorCode::Location16764),
            (rawdoc! { "key": { "a": "hashed", "b": "hashed" } }, ErrorCode::Location31303),
            (rawdoc! { "key": { "a": "2dsphere", "b": "2d" } }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": 1, "b": "2d" } }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": "hashed", "b": "2dsphere" } }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": "2dsphere" }, "unique": true }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": "2dsphere" }, "2dsphereIndexVersion": 4 }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": "2d" }, "min": 1, "max": 1 }, ErrorCode::InvalidOptions),
            (rawdoc! { "key": { "a": "2d" }, "bits": 33 }, ErrorCode::InvalidOptions),
            (rawdoc! { "key": { "a": "2d" }, "min": "x" }, ErrorCode::TypeMismatch),
            (rawdoc! { "key": { "$**": 1 }, "sparse": true }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "$**": 1 }, "unique": true }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "$**": 1, "a": 1 } }, ErrorCode::CannotCreateIndex),
            (rawdoc! { "key": { "a": 1 }, "wildcardProjection": { "a": 1 } }, ErrorCode::BadValue),
            (rawdoc! { "key": { "_id": 1 }, "sparse": true }, ErrorCode::InvalidIndexSpecificationOption),
            (rawdoc! { "key": { "_id": 1 }, "background": true }, ErrorCode::InvalidIndexSpecificationOption),
            (rawdoc! { "key": { "a": 1 }, "background": "yes" }, ErrorCode::TypeMismatch),
            (rawdoc! { "key": { "_id": 1 }, "hidden": true }, ErrorCode::BadValue),
        ] {
            assert_eq!(spec(given.clone()).unwrap_err().code, code, "{given:?}");
        }
    }

    #[test]
    fn indexes_with_different_entries_may_be_in_one_collection() {
        let plain = spec(rawdoc! { "key": { "a": 1 } }).unwrap();
        let same = |given: RawDocumentBuf| spec(given).unwrap().is_same_as(&plain);
        assert!(same(rawdoc! { "key": { "a": 1.0 } }).unwrap());
        assert!(same(rawdoc! { "key": { "a": 1 }, "background": true }).unwrap());
        assert!(!same(rawdoc! { "key": { "a": 1 }, "name": "b", "sparse": true }).unwrap());
        for (given, code) in [
            (rawdoc! { "key": { "a": 1 }, "sparse": true }, ErrorCode::IndexKeySpecsConflict),
            (rawdoc! { "key": { "a": 1 }, "name": "b" }, ErrorCode::IndexOptionsConflict),
            (rawdoc! { "key": { "a": 1 }, "expireAfterSeconds": 5 }, ErrorCode::IndexOptionsConflict),
        ] {
            assert_eq!(same(given.clone()).unwrap_err().code, code, "{given:?}");
        }
    }
}
