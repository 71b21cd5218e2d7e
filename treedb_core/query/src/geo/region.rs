//! [`Region`]: what `$geoWithin` and `$geoIntersects` select.

use super::cell::Ball;
use super::cover::MARGIN;
use super::edges::angle_of;
use super::flat::{FlatArea, Spot};
use super::geojson::{brief, is_on_sphere, number, pair};
use super::shape::{Polygon, Shape};
use super::sphere::{Cap, distance, intersect, is_within};
use super::{Location, Vector, Work};
use crate::doc::{Doc, Element, Value};
use crate::error::{QueryError, Result};

/// How an area lies to a circle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// They have no point in common.
    Apart,
    /// They may have points in common.
    Crossing,
    /// The circle is in the area.
    Within,
}

/// The operand of `$geoWithin` or `$geoIntersects`.
#[derive(Debug, Clone, PartialEq)]
pub struct Region {
    area: RegionArea,
}

#[derive(Debug, Clone, PartialEq)]
enum RegionArea {
    /// Locations in one of these.
    Polygons(Vec<Polygon>),
    /// Locations in a circle on the sphere.
    Cap(Cap),
    /// Points in an area of the plane.
    Flat(FlatArea),
    /// Locations that have a point in common with this.
    Intersecting(Shape),
}

fn invalid(message: impl Into<String>) -> QueryError {
    QueryError::bad_value(message)
}

/// The elements of an operand that is an array or document.
fn operands<'a>(element: &Element<'a>) -> Result<Doc<'a>> {
    match element.value() {
        Value::Array(doc) | Value::Document(doc) => Ok(doc),
        other => Err(invalid(format!(
            "{} must be an array or object, instead got type {}",
            element.name_str(),
            other.type_name()
        ))),
    }
}

/// The points of a `$box` or `$polygon`.
fn spots(element: &Element<'_>, work: &Work<'_>) -> Result<Vec<Spot>> {
    let mut spots = Vec::new();
    for point in operands(element)?.elements() {
        work.step()?;
        spots.push(pair(point.value(), true)?);
    }
    Ok(spots)
}

/// Center and radius of a `$center` or `$centerSphere`.
fn circle(element: &Element<'_>) -> Result<(Spot, f64)> {
    let values: Vec<Value<'_>> =
        operands(element)?.elements().take(3).map(|element| element.value()).collect();
    let [center, radius] = values.as_slice() else {
        return Err(invalid(format!("{} must have a center and a radius", element.name_str())));
    };
    let center = pair(*center, true)?;
    match number(*radius).filter(|radius| *radius >= 0.0) {
        Some(radius) => Ok((center, radius)),
        None => Err(invalid("radius must be a non-negative number")),
    }
}

impl RegionArea {
    fn parse_within(element: &Element<'_>, work: &Work<'_>) -> Result<RegionArea> {
        Ok(match element.name {
            b"$geometry" => {
                let Value::Document(object) = element.value() else {
                    return Err(invalid("$geometry must be an object"));
                };
                let shape = work.bounded(|| Location::parse_geojson(object, work))?.shape.unwrap_or_default();
                if shape.polygons.is_empty() {
                    return Err(invalid(format!(
                        "$geoWithin not supported with provided geometry: {}",
                        brief(Value::Document(object))
                    )));
                }
                RegionArea::Polygons(shape.polygons)
            }
            b"$box" => match spots(element, work)?.as_slice() {
                [a, b] => RegionArea::Flat(FlatArea::Box {
                    low: Spot { x: a.x.min(b.x), y: a.y.min(b.y) },
                    high: Spot { x: a.x.max(b.x), y: a.y.max(b.y) },
                }),
                _ => return Err(invalid("$box must have two corners")),
            },
            b"$polygon" => match spots(element, work)? {
                points if points.len() < 3 => {
                    return Err(invalid("Polygon must have at least 3 points"));
                }
                points => RegionArea::Flat(FlatArea::Polygon(points)),
            },
            b"$center" => {
                let (center, radius) = circle(element)?;
                RegionArea::Flat(FlatArea::Circle { center, radius })
            }
            b"$centerSphere" => {
                let (center, radius) = circle(element)?;
                if !is_on_sphere(center) {
                    return Err(invalid(format!(
                        "longitude/latitude is out of bounds, lng: {} lat: {}",
                        center.x, center.y
                    )));
                }
                RegionArea::Cap(Cap { center: Vector::of_degrees(center.x, center.y), radius })
            }
            _ => {
                return Err(invalid(format!("unknown geo specifier: {}", element.name_str())));
            }
        })
    }
}

impl Region {
    /// Parses the operand of `$geoWithin`.
    ///
    /// # Errors
    /// `BadValue`, saying what is wrong.
    pub fn within(operator: &Element<'_>, work: &Work<'_>) -> Result<Region> {
        Ok(Region { area: RegionArea::parse_within(&only_shape(operator)?, work)? })
    }

    /// Parses the operand of `$geoIntersects`.
    ///
    /// # Errors
    /// `BadValue`, saying what is wrong.
    pub fn intersecting(operator: &Element<'_>, work: &Work<'_>) -> Result<Region> {
        let element = only_shape(operator)?;
        let (b"$geometry", Value::Document(object)) = (element.name, element.value()) else {
            return Err(invalid(format!(
                "$geoIntersects not supported with provided geometry: {}",
                brief(operator.value())
            )));
        };
        let shape = work.bounded(|| Location::parse_geojson(object, work))?.shape.unwrap_or_default();
        Ok(Region { area: RegionArea::Intersecting(shape) })
    }

    /// True if it is an area of the plane, which only points can be in.
    pub fn is_flat(&self) -> bool {
        matches!(self.area, RegionArea::Flat(_))
    }

    /// True if an index of the plane finds all locations that are selected.
    pub fn is_for_plane(&self) -> bool {
        matches!(self.area, RegionArea::Flat(_) | RegionArea::Cap(_))
    }

    /// Whether a location is selected.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn selects(&self, location: &Location, work: &Work<'_>) -> Result<bool> {
        let shape = location.shape.as_ref().filter(|_| !location.is_strict);
        match (&self.area, shape, location.spot) {
            (RegionArea::Flat(area), _, Some(spot)) => area.contains(spot, work),
            (RegionArea::Polygons(polygons), Some(shape), _) => is_within(shape, polygons, work),
            (RegionArea::Cap(cap), Some(shape), _) => cap.contains_shape(shape, work),
            (RegionArea::Intersecting(with), Some(shape), _) => intersect(shape, with, work),
            _ => Ok(false),
        }
    }

    /// How it lies to the circle around a cell.
    pub(super) fn relation(&self, ball: &Ball, work: &Work<'_>) -> Result<Relation> {
        match (&self.area, ball.sphere, ball.plane) {
            (RegionArea::Flat(area), _, Some((spot, radius))) => {
                if area.distance(spot, work)? > radius {
                    Ok(Relation::Apart)
                } else if area.depth(spot, work)? > radius {
                    Ok(Relation::Within)
                } else {
                    Ok(Relation::Crossing)
                }
            }
            (RegionArea::Polygons(polygons), Some(ball), _) => polygons_relation(polygons, ball, work),
            (RegionArea::Cap(cap), Some((center, radius)), _) => {
                let apart = cap.center.angle(center);
                Ok(if apart > cap.radius + radius + MARGIN {
                    Relation::Apart
                } else if apart + radius < cap.radius {
                    Relation::Within
                } else {
                    Relation::Crossing
                })
            }
            (RegionArea::Intersecting(shape), Some(ball), _) => shape_relation(shape, ball, work),
            // A region on the sphere has no points without longitude and latitude.
            (_, None, Some(_)) => Ok(Relation::Apart),
            _ => Ok(Relation::Crossing),
        }
    }
}

/// The only field of an operand; `$uniqueDocs` is ignored, as in MongoDB.
fn only_shape<'a>(operator: &Element<'a>) -> Result<Element<'a>> {
    let Value::Document(operand) = operator.value() else {
        return Err(invalid(format!("{} needs an object with a geometry", operator.name_str())));
    };
    let mut shapes = operand.elements().filter(|element| element.name != b"$uniqueDocs");
    match (shapes.next(), shapes.next()) {
        (Some(shape), None) => Ok(shape),
        (None, _) => Err(invalid("geo query doesn't have any geometry")),
        _ => Err(invalid(format!("{} needs exactly one geometry", operator.name_str()))),
    }
}

fn polygons_relation(polygons: &[Polygon], ball: (Vector, f64), work: &Work<'_>) -> Result<Relation> {
    let (center, radius) = ball;
    let mut found = Relation::Apart;
    for polygon in polygons {
        work.step()?;
        if polygon.is_beyond(center, radius) {
            continue;
        }
        let (inside, border) =
            (polygon.contains(center, work)?, angle_of(polygon.boundary_chord2(center, work)?));
        if inside && border > radius + MARGIN {
            return Ok(Relation::Within);
        }
        if inside || border <= radius + MARGIN {
            found = Relation::Crossing;
        }
    }
    Ok(found)
}

/// How a shape lies to a circle on the sphere.
pub(super) fn shape_relation(shape: &Shape, ball: (Vector, f64), work: &Work<'_>) -> Result<Relation> {
    let found = polygons_relation(&shape.polygons, ball, work)?;
    if found != Relation::Apart {
        return Ok(found);
    }
    let (center, radius) = ball;
    let near = distance(shape, center, work)?.is_some_and(|apart| apart <= radius + MARGIN);
    Ok(if near { Relation::Crossing } else { Relation::Apart })
}
