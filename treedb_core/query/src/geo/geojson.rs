//! Parsing locations: GeoJSON, and pairs of coordinates.
//!
//! A pair is an array or a document that begins with two numbers. GeoJSON has longitude and latitude in degrees, in this
//! order; what follows them (an altitude) is ignored. Rings are closed, have at least three different points and do not cross
//! themselves; holes are within their polygon.

use std::fmt::{self, Write};

use super::edges::Edges;
use super::flat::Spot;
use super::ring::{Place, Ring};
use super::shape::{Polygon, Shape};
use super::{Vector, Work};
use crate::doc::{Decimal, DisplayValue, Doc, Value};
use crate::error::{QueryError, Result};

/// Names of the coordinate system that coordinates are in anyway.
const KNOWN_SYSTEMS: [&[u8]; 2] = [b"urn:ogc:def:crs:OGC:1.3:CRS84", b"EPSG:4326"];
/// The same, with the inside of a polygon on the left of its ring as it is written, however great it is.
const STRICT_SYSTEM: &[u8] = b"urn:x-mongodb:crs:strictwinding:EPSG:4326";

/// The characters of a value in a message.
const MOST_SHOWN: usize = 200;

/// A location in a document, or in the operand of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct Location {
    /// What it is on the sphere; `None` for a pair that is no longitude and latitude.
    pub(super) shape: Option<Shape>,
    /// What it is in the plane, if it is a point.
    pub(super) spot: Option<Spot>,
    /// True for GeoJSON.
    pub(super) is_geojson: bool,
    /// True for GeoJSON whose polygon may be greater than half of the sphere.
    pub(super) is_strict: bool,
}

fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::bad_value(message)
}

/// A value for a message. No more of it is read than is shown: documents without locations are met while others are searched for.
pub(crate) fn brief(value: Value<'_>) -> String {
    let mut brief = Brief { text: String::new(), left: MOST_SHOWN };
    if write!(brief, "{}", DisplayValue(value)).is_err() {
        brief.text.push_str("...");
    }
    brief.text
}

/// Takes so many characters, and refuses more.
struct Brief {
    text: String,
    left: usize,
}

impl Write for Brief {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.push(c);
        }
        Ok(())
    }
}

/// A number as a double.
pub(crate) fn number(value: Value<'_>) -> Option<f64> {
    match value {
        Value::Double(number) => Some(number),
        Value::Int32(number) => Some(f64::from(number)),
        Value::Int64(number) => Some(number as f64),
        Value::Decimal(bytes) => Some(Decimal::new(bytes).to_double()),
        _ => None,
    }
}

/// The first two numbers of an array or document; with `only`, it has nothing else.
pub(super) fn pair(value: Value<'_>, only: bool) -> Result<Spot> {
    let (Value::Array(doc) | Value::Document(doc)) = value else {
        return Err(invalid(format!(
            "Point must be an array or object, instead got type {}",
            value.type_name()
        )));
    };
    let mut elements = doc.elements();
    let mut coordinate = || {
        let value = elements.next().map(|element| element.value());
        value.and_then(number).ok_or_else(|| invalid("Point must only contain numeric elements"))
    };
    let spot = Spot { x: coordinate()?, y: coordinate()? };
    if only && elements.next().is_some() {
        return Err(invalid("Point must only contain two numeric elements"));
    }
    if !spot.x.is_finite() || !spot.y.is_finite() {
        return Err(invalid("Point coordinates must be finite numbers"));
    }
    Ok(spot)
}

/// Shows `visit` the locations that a value of a document's field may have: the elements of an array that begins with no number,
/// otherwise the value itself. What an index has are these, and what a filter tests. Stops, and returns true, as soon as
/// `visit` returns true.
pub(crate) fn any_location<'a>(value: Value<'a>, visit: &mut dyn FnMut(Value<'a>) -> bool) -> bool {
    match value {
        Value::Array(array) if !array.at(0).is_some_and(|first| first.value().is_number()) => {
            array.elements().any(|element| visit(element.value()))
        }
        value => visit(value),
    }
}

/// True for a longitude and a latitude.
pub(super) fn is_on_sphere(spot: Spot) -> bool {
    (-180.0..=180.0).contains(&spot.x) && (-90.0..=90.0).contains(&spot.y)
}

/// A longitude and a latitude.
fn position(value: Value<'_>) -> Result<Vector> {
    let spot = pair(value, false)?;
    if !is_on_sphere(spot) {
        return Err(invalid(format!("longitude/latitude is out of bounds, lng: {} lat: {}", spot.x, spot.y)));
    }
    Ok(Vector::of_degrees(spot.x, spot.y))
}

/// The elements of an array.
fn array<'a>(value: Option<Value<'a>>, what: &str) -> Result<Doc<'a>> {
    match value {
        Some(Value::Array(array)) => Ok(array),
        _ => Err(invalid(format!("{what} must be an array"))),
    }
}

/// An array of positions.
fn positions(value: Value<'_>, work: &Work<'_>) -> Result<Vec<Vector>> {
    let array = array(Some(value), "GeoJSON coordinates")?;
    let mut points = Vec::new();
    for element in array.elements() {
        work.step()?;
        points.push(position(element.value())?);
    }
    Ok(points)
}

fn same(one: Vector, other: Vector) -> bool {
    let apart = one - other;
    apart.dot(apart) < 1e-30
}

fn opposite(one: Vector, other: Vector) -> bool {
    same(one, -other)
}

/// The points of a line or ring, without those that only repeat the one before.
fn distinct(mut points: Vec<Vector>, what: &str) -> Result<Vec<Vector>> {
    points.dedup_by(|next, before| same(*next, *before));
    if points.windows(2).any(|pair| matches!(pair, [a, b] if opposite(*a, *b))) {
        return Err(invalid(format!(
            "{what} is not valid: two vertices that follow each other are opposite points of the earth, between which \
             there is no shortest edge"
        )));
    }
    Ok(points)
}

fn line(value: Value<'_>, work: &Work<'_>) -> Result<Edges> {
    let points = distinct(positions(value, work)?, "GeoJSON LineString")?;
    if points.len() < 2 {
        return Err(invalid(format!("GeoJSON LineString must have at least 2 vertices: {}", brief(value))));
    }
    Ok(Edges::new(points, false))
}

fn ring(value: Value<'_>, as_written: bool, work: &Work<'_>) -> Result<Ring> {
    let points = positions(value, work)?;
    match (points.first(), points.last()) {
        (Some(first), Some(last)) if *first == *last => {}
        (Some(_), _) => return Err(invalid(format!("Loop is not closed: {}", brief(value)))),
        _ => return Err(invalid("Loop has no vertices")),
    }
    let mut points = distinct(points, "Loop")?;
    points.pop();
    if let (Some(first), Some(last)) = (points.first(), points.last())
        && opposite(*first, *last)
    {
        return Err(invalid("Loop is not valid: its first and last edge are between opposite points"));
    }
    let mut sorted = points.clone();
    sorted.sort_by(|a, b| a.x.total_cmp(&b.x).then(a.y.total_cmp(&b.y)).then(a.z.total_cmp(&b.z)));
    let mut different = sorted.clone();
    different.dedup();
    if different.len() < 3 {
        return Err(invalid(format!("Loop must have at least 3 different vertices: {}", brief(value))));
    }
    if different.len() < points.len() {
        return Err(invalid(format!("Loop is not valid: {} Duplicate vertices", brief(value))));
    }
    let ring = Ring::new(points, as_written, work)?;
    match ring.crossing(work)? {
        None => Ok(ring),
        Some((one, other)) => {
            Err(invalid(format!("Loop is not valid: {} Edges {one} and {other} cross", brief(value))))
        }
    }
}

fn polygon(value: Value<'_>, as_written: bool, work: &Work<'_>) -> Result<Polygon> {
    let loops = array(Some(value), "Polygon coordinates")?;
    let mut elements = loops.elements();
    let Some(outer) = elements.next() else { return Err(invalid("Polygon has no loops.")) };
    let outer = ring(outer.value(), as_written, work)?;
    let mut holes: Vec<Ring> = Vec::new();
    for element in elements {
        if as_written {
            return Err(invalid("Only one simple loop is allowed in a big polygon"));
        }
        let hole = ring(element.value(), false, work)?;
        // Its vertices may be on the outer ring, but it may not be outside.
        let mut outside = outer.edges().pairs_cross(hole.edges(), work)?;
        for point in hole.edges().points() {
            match outer.place(*point, work)? {
                Place::On => continue,
                place => outside |= place == Place::Outside,
            }
            break;
        }
        if outside {
            return Err(invalid(format!(
                "Secondary loops not contained by first exterior loop - secondary loops must be holes: {}",
                brief(element.value())
            )));
        }
        for other in &holes {
            if other.edges().pairs_cross(hole.edges(), work)? {
                return Err(invalid(format!("Polygon isn't valid: its holes cross: {}", brief(value))));
            }
        }
        holes.push(hole);
    }
    Ok(Polygon::new(outer, holes))
}

/// Whether a `crs` asks for polygons as they are written.
fn is_strict(object: Doc<'_>) -> Result<bool> {
    let system = match object.get("crs") {
        None => return Ok(false),
        Some(Value::Document(system)) => system,
        Some(_) => return Err(invalid("GeoJSON CRS must be an object")),
    };
    let name = match (system.get("type"), system.get("properties")) {
        (Some(Value::String(b"name")), Some(Value::Document(properties))) => properties.get("name"),
        (Some(Value::String(b"name")), _) => {
            return Err(invalid("CRS must have field \"properties\" which is an object"));
        }
        _ => return Err(invalid("GeoJSON CRS must have field \"type\": \"name\"")),
    };
    match name {
        Some(Value::String(name)) if KNOWN_SYSTEMS.contains(&name) => Ok(false),
        Some(Value::String(STRICT_SYSTEM)) => Ok(true),
        Some(Value::String(name)) => {
            Err(invalid(format!("Unknown CRS name: {}", String::from_utf8_lossy(name))))
        }
        _ => Err(invalid("In CRS, \"properties.name\" must be a string")),
    }
}

/// A geometry that is no collection.
fn geometry(kind: &[u8], object: Doc<'_>, strict: bool, work: &Work<'_>) -> Result<Shape> {
    let mut shape = Shape::default();
    let coordinates = object.get("coordinates");
    let Some(value) = coordinates else {
        return Err(invalid(format!(
            "GeoJSON needs the field 'coordinates': {}",
            brief(Value::Document(object))
        )));
    };
    let several = |what: &str| {
        let all = array(coordinates, what)?;
        match all.is_empty() {
            true => Err(invalid(format!("{what} must have at least 1 element"))),
            false => Ok(all.elements().map(|element| element.value())),
        }
    };
    match kind {
        b"Point" => shape.points.push(position(value)?),
        b"LineString" => shape.lines.push(line(value, work)?),
        b"Polygon" => shape.polygons.push(polygon(value, strict, work)?),
        b"MultiPoint" => {
            drop(several("MultiPoint coordinates")?);
            shape.points = positions(value, work)?;
        }
        b"MultiLineString" => {
            for value in several("MultiLineString coordinates")? {
                shape.lines.push(line(value, work)?);
            }
        }
        b"MultiPolygon" => {
            for value in several("MultiPolygon coordinates")? {
                shape.polygons.push(polygon(value, strict, work)?);
            }
        }
        _ => {
            return Err(invalid(format!("unknown GeoJSON type: {}", brief(Value::Document(object)))));
        }
    }
    Ok(shape)
}

impl Location {
    /// Parses a location.
    ///
    /// # Errors
    /// `BadValue`, saying what is wrong; those of `work`.
    pub fn parse(value: Value<'_>, work: &Work<'_>) -> Result<Location> {
        let object = match value {
            Value::Document(object)
                if !object.elements().next().is_some_and(|first| first.value().is_number()) =>
            {
                object
            }
            _ => {
                let spot = pair(value, false)?;
                let on_sphere = is_on_sphere(spot).then(|| Vector::of_degrees(spot.x, spot.y));
                return Ok(Location {
                    shape: on_sphere.map(Shape::point),
                    spot: Some(spot),
                    is_geojson: false,
                    is_strict: false,
                });
            }
        };
        work.bounded(|| Self::parse_geojson(object, work))
    }

    /// Parses GeoJSON.
    ///
    /// # Errors
    /// As [`Location::parse`].
    pub(super) fn parse_geojson(object: Doc<'_>, work: &Work<'_>) -> Result<Location> {
        let Some(Value::String(kind)) = object.get("type") else {
            return Err(invalid(format!("unknown GeoJSON type: {}", brief(Value::Document(object)))));
        };
        let is_strict = is_strict(object)?;
        if is_strict && kind != b"Polygon" {
            return Err(invalid(format!(
                "Strict winding order is only supported by Polygon: {}",
                brief(Value::Document(object))
            )));
        }
        let mut spot = None;
        let shape = if kind == b"GeometryCollection" {
            let all = array(object.get("geometries"), "GeometryCollection geometries")?;
            if all.is_empty() {
                return Err(invalid("GeometryCollection geometries must have at least 1 element"));
            }
            let mut shape = Shape::default();
            for (at, element) in all.elements().enumerate() {
                let Value::Document(inner) = element.value() else {
                    return Err(invalid(format!(
                        "Element {at} of \"geometries\" is not an object: {}",
                        brief(Value::Document(object))
                    )));
                };
                match inner.get("type") {
                    Some(Value::String(b"GeometryCollection")) => {
                        return Err(invalid(format!(
                            "GeometryCollections cannot be nested: {}",
                            brief(Value::Document(object))
                        )));
                    }
                    Some(Value::String(kind)) => shape.extend(geometry(kind, inner, false, work)?),
                    _ => {
                        return Err(invalid(format!(
                            "unknown GeoJSON type: {}",
                            brief(Value::Document(inner))
                        )));
                    }
                }
            }
            shape
        } else {
            let shape = geometry(kind, object, is_strict, work)?;
            if kind == b"Point" {
                spot = object.get("coordinates").map(|value| pair(value, false)).transpose()?;
            }
            shape
        };
        Ok(Location { shape: Some(shape), spot, is_geojson: true, is_strict })
    }

    /// Parses a location of a document.
    ///
    /// # Errors
    /// As [`Location::parse`]; `BadValue` for a polygon with strict winding, which only queries may have.
    pub fn stored(value: Value<'_>, work: &Work<'_>) -> Result<Location> {
        let location = Self::parse(value, work)?;
        match location.is_strict {
            true => Err(invalid(
                "Polygons with strict winding order can be queried by, but not stored in an index",
            )),
            false => Ok(location),
        }
    }
}
