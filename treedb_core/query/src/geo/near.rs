//! [`Near`]: what `$near` and `$nearSphere` ask for: locations by their distance from a point.

use std::f64::consts::PI;

use super::cell::{Ball, Grid};
use super::cover::MARGIN;
use super::flat::Spot;
use super::geojson::{any_location, brief, is_on_sphere, number};
use super::region::Relation;
use super::sphere::distance;
use super::{EARTH_RADIUS, Location, Vector, Work};
use crate::doc::{Doc, Element, Path, Value};
use crate::error::{ErrorCode, QueryError, Result};

/// How distances are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// On the sphere, in radians.
    Sphere,
    /// In the plane, in its units.
    Plane,
}

/// A point, and the distances from it that are wanted.
#[derive(Debug, Clone, PartialEq)]
pub struct Near {
    center: Vector,
    spot: Spot,
    metric: Metric,
    /// The point is GeoJSON: distances are in metres.
    in_metres: bool,
    /// In metres, radians or units of the plane.
    min: f64,
    max: f64,
}

/// The codes of a distance that is no number, or negative.
type Codes = (ErrorCode, ErrorCode);

/// A `$minDistance` or `$maxDistance`.
fn bound(element: &Element<'_>, (no_number, negative): Codes) -> Result<f64> {
    let name = element.name_str();
    let Some(bound) = number(element.value()).filter(|bound| !bound.is_nan()) else {
        return Err(QueryError::new(no_number, format!("{name} must be a number")));
    };
    match bound >= 0.0 {
        true => Ok(bound),
        false => Err(QueryError::new(negative, format!("{name} must be non-negative"))),
    }
}

impl Near {
    /// Locations by their distance from `point`: GeoJSON, or a pair whose distances are in radians if `on_sphere`, otherwise in the
    /// plane.
    ///
    /// # Errors
    /// `BadValue` if it is no point.
    pub fn of_point(point: Value<'_>, on_sphere: bool, work: &Work<'_>) -> Result<Near> {
        let location = Location::parse(point, work)?;
        let Some(spot) = location.spot else {
            return Err(QueryError::bad_value(format!("$near requires a point, given {}", brief(point))));
        };
        let metric = if location.is_geojson || on_sphere { Metric::Sphere } else { Metric::Plane };
        if metric == Metric::Sphere && !is_on_sphere(spot) {
            return Err(QueryError::bad_value(format!(
                "longitude/latitude is out of bounds, lng: {} lat: {}",
                spot.x, spot.y
            )));
        }
        Ok(Near {
            center: Vector::of_degrees(spot.x, spot.y),
            spot,
            metric,
            in_metres: location.is_geojson,
            min: 0.0,
            max: f64::INFINITY,
        })
    }

    /// The same for distances between these, in the units of the point.
    pub fn between(self, min: f64, max: f64) -> Near {
        Near { min, max, ..self }
    }

    /// Parses `operator`, a `$near` or `$nearSphere` of `conditions`, where the distances of a pair are its neighbours.
    ///
    /// # Errors
    /// `BadValue` and MongoDB's codes for distances.
    pub fn parse(operator: &Element<'_>, conditions: Doc<'_>, work: &Work<'_>) -> Result<Near> {
        const OLD_MIN: Codes = (ErrorCode::Location16893, ErrorCode::Location16894);
        const OLD_MAX: Codes = (ErrorCode::Location16895, ErrorCode::Location16896);
        const MIN: Codes = (ErrorCode::Location16897, ErrorCode::Location16898);
        const MAX: Codes = (ErrorCode::Location16899, ErrorCode::Location16900);
        let on_sphere = operator.name == b"$nearSphere";
        let (mut min, mut max) = (0.0, f64::INFINITY);
        let operand = match operator.value() {
            Value::Document(operand) if operand.find(b"$geometry").is_some() => {
                let is_beside =
                    |element: &Element<'_>| matches!(element.name, b"$minDistance" | b"$maxDistance");
                if let Some(beside) = conditions.elements().find(is_beside) {
                    let (name, operator) = (beside.name_str(), operator.name_str());
                    return Err(QueryError::bad_value(format!(
                        "invalid argument in geo near query: {name} stands beside {operator}; with $geometry it belongs into the \
                         object of {operator}"
                    )));
                }
                operand
            }
            point @ (Value::Document(_) | Value::Array(_)) => {
                for element in conditions.elements() {
                    match element.name {
                        b"$minDistance" => min = bound(&element, OLD_MIN)?,
                        b"$maxDistance" => max = bound(&element, OLD_MAX)?,
                        _ => {}
                    }
                }
                // The third number of a pair is a distance.
                if let Value::Array(array) = point
                    && let Some(third) = array.at(2).filter(|third| third.value().is_number())
                {
                    max = bound(&third, OLD_MAX)?;
                }
                return Ok(Near::of_point(point, on_sphere, work)?.between(min, max));
            }
            _ => {
                return Err(QueryError::bad_value(format!(
                    "{} needs a point: an array, or an object with $geometry",
                    operator.name_str()
                )));
            }
        };
        let mut near = None;
        for element in operand.elements() {
            match element.name {
                b"$geometry" => {
                    let point = Near::of_point(element.value(), on_sphere, work).map_err(|error| {
                        let text = brief(element.value());
                        QueryError::bad_value(format!(
                            "invalid point in geo near query $geometry argument: {text}  {}",
                            error.message
                        ))
                    })?;
                    if !point.in_metres {
                        return Err(QueryError::new(
                            ErrorCode::Location16681,
                            format!("$near requires geojson point, given {}", brief(element.value())),
                        ));
                    }
                    near = Some(point);
                }
                b"$minDistance" => min = bound(&element, MIN)?,
                b"$maxDistance" => max = bound(&element, MAX)?,
                _ => {
                    return Err(QueryError::bad_value(format!(
                        "invalid argument in geo near query: {}",
                        element.name_str()
                    )));
                }
            }
        }
        match near {
            Some(near) => Ok(near.between(min, max)),
            None => Err(QueryError::bad_value("$near requires a point")),
        }
    }

    /// True if an index with these cells finds the locations in the order of their distance.
    pub fn is_for(&self, grid: &Grid) -> bool {
        match grid {
            Grid::Sphere => self.metric == Metric::Sphere,
            // As in MongoDB, an index of the plane is none of GeoJSON.
            Grid::Plane { .. } => !self.in_metres,
        }
    }

    /// How distances are measured.
    pub fn metric(&self) -> Metric {
        self.metric
    }

    /// The distance of a location, measured by the metric; `None` if it has none by this metric.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn distance(&self, location: &Location, work: &Work<'_>) -> Result<Option<f64>> {
        match self.metric {
            Metric::Plane => Ok(location.spot.map(|spot| spot.distance(self.spot))),
            Metric::Sphere => match location.shape.as_ref().filter(|_| !location.is_strict) {
                Some(shape) => distance(shape, self.center, work),
                None => Ok(None),
            },
        }
    }

    /// A measured distance in the units of the point, as `$geoNear` returns it.
    pub fn in_units(&self, distance: f64) -> f64 {
        if self.in_metres { distance * EARTH_RADIUS } else { distance }
    }

    /// True if a measured distance is wanted.
    pub fn wants(&self, distance: f64) -> bool {
        let distance = self.in_units(distance);
        self.min <= distance && distance <= self.max
    }

    /// The nearest wanted location at `path` in a document: its distance, measured, and its value. The nearest location decides, not
    /// the nearest of those that are far enough.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn nearest<'a>(
        &self,
        path: &Path,
        doc: Doc<'a>,
        work: &Work<'_>,
    ) -> Result<Option<(f64, Value<'a>)>> {
        let (mut nearest, mut failed): (Option<(f64, Value<'a>)>, _) = (None, None);
        let mut look = |value: Value<'a>| {
            if !matches!(value, Value::Document(_) | Value::Array(_)) {
                return false;
            }
            // A value that is no location has no distance.
            let Ok(location) = Location::parse(value, work) else {
                failed = work.ask().err();
                return failed.is_some();
            };
            match self.distance(&location, work) {
                Ok(Some(distance)) if nearest.is_none_or(|(least, _)| distance < least) => {
                    nearest = Some((distance, value));
                }
                Ok(_) => {}
                Err(error) => failed = Some(error),
            }
            failed.is_some()
        };
        path.visit(doc, false, &mut |found| found.is_some_and(|value| any_location(value, &mut look)));
        match failed {
            Some(error) => Err(error),
            None => Ok(nearest.filter(|(distance, _)| self.wants(*distance))),
        }
    }

    /// The least and the greatest distance that an indexed location may have, measured.
    pub fn limits(&self, grid: &Grid) -> (f64, f64) {
        let unit = if self.in_metres { EARTH_RADIUS } else { 1.0 };
        let farthest = match (self.metric, grid) {
            (Metric::Plane, Grid::Plane { min, max }) => {
                let across = |at: f64| (at - min).abs().max((max - at).abs());
                across(self.spot.x).hypot(across(self.spot.y)) * (1.0 + 1e-9)
            }
            _ => PI + MARGIN,
        };
        // What rounding may have changed.
        ((self.min / unit * (1.0 - 1e-12)).max(0.0), (self.max / unit * (1.0 + 1e-12)).min(farthest))
    }

    /// How the ring of points at distances from `from` to `to` lies to the circle around a cell.
    pub(super) fn ring_relation(&self, ball: &Ball, from: f64, to: f64) -> Relation {
        let (apart, radius, margin) = match (self.metric, ball.sphere, ball.plane) {
            (Metric::Sphere, Some((center, radius)), _) => (self.center.angle(center), radius, MARGIN),
            (Metric::Plane, _, Some((center, radius))) => (self.spot.distance(center), radius, radius * 1e-9),
            // Cells of the plane without longitudes and latitudes.
            _ => return Relation::Apart,
        };
        if apart > to + radius + margin || apart + radius + margin < from {
            Relation::Apart
        } else if apart + radius + margin < to && apart - radius - margin > from {
            Relation::Within
        } else {
            Relation::Crossing
        }
    }

    /// The smallest cell at the point, if there is one.
    pub(super) fn cell(&self, grid: &Grid) -> Option<super::cell::CellId> {
        match grid {
            Grid::Sphere => Some(Grid::cell_of(self.center)),
            Grid::Plane { .. } => grid.cell_at(self.spot),
        }
    }
}
