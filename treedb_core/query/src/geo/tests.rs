//! Predicates and distances against answers that are known from elsewhere.

use bson::raw::RawBson;
use bson::{RawArrayBuf, RawDocumentBuf, rawbson, rawdoc};
use treedb_testing::Rng;

use super::geojson::brief;
use super::*;
use crate::doc::{Doc, Path, Value};
use crate::error::ErrorCode;
use crate::query::Filter;
use crate::query::expr::Variables;
use crate::query::interrupt::Interrupt;

fn parsed(location: RawBson) -> Result<Location> {
    let doc = rawdoc! { "l": location };
    Location::parse(Doc::from(&doc).get("l").unwrap(), &Work::unchecked())
}

fn region(operator: RawDocumentBuf) -> Result<Region> {
    let doc = Doc::from(&operator);
    let element = doc.elements().next().unwrap();
    match element.name {
        b"$geoIntersects" => Region::intersecting(&element, &Work::unchecked()),
        _ => Region::within(&element, &Work::unchecked()),
    }
}

fn ring(points: &[[f64; 2]]) -> RawArrayBuf {
    let pair = |point: &[f64; 2]| rawbson!([point[0], point[1]]);
    points.iter().chain(points.first()).map(pair).collect()
}

fn polygon(rings: &[&[[f64; 2]]]) -> RawBson {
    let rings: RawArrayBuf = rings.iter().map(|points| RawBson::Array(ring(points))).collect();
    rawbson!({ "type": "Polygon", "coordinates": rings })
}

fn within(shape: RawBson, location: RawBson) -> bool {
    let region = region(rawdoc! { "$geoWithin": { "$geometry": shape } }).unwrap();
    region.selects(&parsed(location).unwrap(), &Work::unchecked()).unwrap()
}

fn intersects(shape: RawBson, location: RawBson) -> bool {
    let region = region(rawdoc! { "$geoIntersects": { "$geometry": shape } }).unwrap();
    region.selects(&parsed(location).unwrap(), &Work::unchecked()).unwrap()
}

fn point(lng: f64, lat: f64) -> RawBson {
    rawbson!({ "type": "Point", "coordinates": [lng, lat] })
}

fn metres(from: (f64, f64), to: RawBson) -> f64 {
    let doc = rawdoc! { "l": point(from.0, from.1) };
    let near = Near::of_point(Doc::from(&doc).get("l").unwrap(), true, &Work::unchecked()).unwrap();
    near.in_units(near.distance(&parsed(to).unwrap(), &Work::unchecked()).unwrap().unwrap())
}

#[test]
fn distances_between_cities_are_those_of_the_great_circle() {
    // On a sphere of 6371 km, by the haversine formula, as tables of distances give them.
    for (from, to, kilometres) in [
        ((-74.0060, 40.7128), (-0.1278, 51.5074), 5570.2), // New York, London
        ((2.3522, 48.8566), (-0.1278, 51.5074), 343.6),    // Paris, London
        ((139.6917, 35.6895), (-122.4194, 37.7749), 8270.7), // Tokyo, San Francisco: over the antimeridian
        ((151.2093, -33.8688), (-70.6693, -33.4489), 11_340.0), // Sydney, Santiago: towards the pole
    ] {
        let found = metres(from, point(to.0, to.1)) / 1000.0 * 6371.0 / 6378.1;
        assert!((found / kilometres - 1.0).abs() < 0.002, "{found} {kilometres}");
    }
    // A quarter of a meridian, half of the equator, and a millimetre.
    let quarter = std::f64::consts::FRAC_PI_2 * EARTH_RADIUS;
    assert!((metres((30.0, 0.0), point(77.0, 90.0)) - quarter).abs() < 1e-6);
    assert!((metres((0.0, 0.0), point(180.0, 0.0)) - 2.0 * quarter).abs() < 1e-6);
    let little = 1e-3 / EARTH_RADIUS;
    assert!((metres((5.0, 5.0), point(5.0, 5.0 + little.to_degrees())) - 1e-3).abs() < 1e-6);
}

#[test]
fn the_distance_of_a_line_or_polygon_is_that_of_its_nearest_point() {
    let degree = 1_f64.to_radians() * EARTH_RADIUS;
    let line = rawbson!({ "type": "LineString", "coordinates": [[-10, 0], [10, 0]] });
    assert!((metres((3.0, 2.0), line.clone()) - 2.0 * degree).abs() < 1.0);
    assert!((metres((13.0, 0.0), line) - 3.0 * degree).abs() < 1.0);
    let square = polygon(&[&[[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]]]);
    assert_eq!(metres((5.0, 5.0), square.clone()), 0.0);
    assert!((metres((5.0, -1.0), square) - degree).abs() < 1.0);
    let pierced = polygon(&[
        &[[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]],
        &[[4.0, 4.0], [4.0, 6.0], [6.0, 6.0], [6.0, 4.0]],
    ]);
    let inside = metres((5.0, 5.0), pierced);
    assert!(inside > 0.99 * degree && inside < 1.01 * degree, "{inside}");
}

#[test]
fn edges_are_arcs_of_great_circles() {
    // Between two points of the 60th parallel 90 degrees apart the arc goes to a latitude of 67.8 degrees.
    let shape = polygon(&[&[[0.0, 60.0], [90.0, 60.0], [45.0, 30.0]]]);
    assert!(within(shape.clone(), point(45.0, 66.0)));
    assert!(!within(shape.clone(), point(45.0, 68.0)));
    assert!(metres((45.0, 67.792), shape) < 20.0);
    // In the plane the edge is straight.
    let flat = region(rawdoc! { "$geoWithin": { "$polygon": [[0, 60], [90, 60], [45, 30]] } }).unwrap();
    assert!(!flat.selects(&parsed(point(45.0, 66.0)).unwrap(), &Work::unchecked()).unwrap());
}

#[test]
fn polygons_lie_over_the_antimeridian_and_the_poles() {
    let fiji = polygon(&[&[[175.0, -20.0], [-175.0, -20.0], [-175.0, -15.0], [175.0, -15.0]]]);
    assert!(within(fiji.clone(), point(180.0, -17.0)) && within(fiji.clone(), point(-180.0, -17.0)));
    assert!(within(fiji.clone(), point(-178.0, -17.0)) && !within(fiji.clone(), point(0.0, -17.0)));
    assert!(!within(fiji, point(174.0, -17.0)));
    let arctic = polygon(&[&[[0.0, 70.0], [90.0, 70.0], [180.0, 70.0], [-90.0, 70.0]]]);
    assert!(within(arctic.clone(), point(17.0, 90.0)) && within(arctic.clone(), point(-45.0, 80.0)));
    assert!(!within(arctic.clone(), point(0.0, 69.9)) && !within(arctic, point(0.0, -90.0)));
    let antarctic = polygon(&[&[[0.0, -70.0], [-90.0, -70.0], [180.0, -70.0], [90.0, -70.0]]]);
    assert!(within(antarctic.clone(), point(0.0, -90.0)) && !within(antarctic, point(0.0, 90.0)));
}

#[test]
fn the_inside_is_the_smaller_side_whatever_the_order_of_the_points() {
    let square = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]];
    let mut turned = square;
    turned.reverse();
    for points in [square, turned] {
        assert!(within(polygon(&[&points]), point(5.0, 5.0)));
        assert!(!within(polygon(&[&points]), point(50.0, 5.0)));
    }
    // With strict winding the inside is on the left.
    let strict = |points: &[[f64; 2]]| {
        let crs =
            rawdoc! { "type": "name", "properties": { "name": "urn:x-mongodb:crs:strictwinding:EPSG:4326" } };
        rawbson!({ "type": "Polygon", "coordinates": [ring(points)], "crs": crs })
    };
    assert!(within(strict(&square), point(5.0, 5.0)) && !within(strict(&square), point(50.0, 5.0)));
    assert!(!within(strict(&turned), point(5.0, 5.0)) && within(strict(&turned), point(50.0, 5.0)));
    // A polygon around the square is not in what is outside of the square.
    let around = polygon(&[&[[-5.0, -5.0], [15.0, -5.0], [15.0, 15.0], [-5.0, 15.0]]]);
    assert!(!within(strict(&turned), around.clone()) && intersects(strict(&turned), around));
}

#[test]
fn vertices_and_edges_belong_to_a_polygon_and_holes_do_not() {
    let outer = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]];
    let hole = [[4.0, 4.0], [6.0, 4.0], [6.0, 6.0], [4.0, 6.0]];
    let shape = polygon(&[&outer, &hole]);
    for (lng, lat) in [(0.0, 0.0), (10.0, 10.0), (5.0, 0.0), (0.0, 5.0), (4.0, 4.0), (4.0, 5.0), (2.0, 2.0)] {
        assert!(within(shape.clone(), point(lng, lat)), "{lng} {lat}");
    }
    for (lng, lat) in [(5.0, 5.0), (4.001, 5.0), (-0.001, 5.0), (5.0, -0.001)] {
        assert!(!within(shape.clone(), point(lng, lat)), "{lng} {lat}");
    }
    let line = |points: [[f64; 2]; 2]| rawbson!({ "type": "LineString", "coordinates": [[points[0][0], points[0][1]], [points[1][0], points[1][1]]] });
    assert!(within(shape.clone(), line([[1.0, 1.0], [1.0, 9.0]])));
    assert!(within(shape.clone(), line([[0.0, 0.0], [0.0, 10.0]])), "along an edge");
    assert!(!within(shape.clone(), line([[1.0, 5.0], [9.0, 5.0]])), "through the hole");
    assert!(intersects(shape.clone(), line([[1.0, 5.0], [9.0, 5.0]])));
    assert!(!within(shape.clone(), line([[1.0, 5.0], [5.0, 5.0]])), "into the hole");
    assert!(!intersects(shape.clone(), line([[4.5, 5.0], [5.5, 5.0]])), "in the hole");
    assert!(intersects(shape.clone(), line([[-1.0, -1.0], [0.0, 0.0]])), "at a vertex");
    let small = |x: f64, y: f64| polygon(&[&[[x, y], [x + 1.0, y], [x + 1.0, y + 1.0], [x, y + 1.0]]]);
    assert!(within(shape.clone(), small(1.0, 1.0)) && within(shape.clone(), small(0.0, 0.0)));
    assert!(!within(shape.clone(), small(4.5, 4.5)) && !intersects(shape.clone(), small(4.5, 4.5)));
    assert!(!within(shape.clone(), small(3.5, 4.5)) && intersects(shape.clone(), small(3.5, 4.5)));
    assert!(!within(shape.clone(), polygon(&[&outer])), "it covers the hole");
    assert!(within(shape.clone(), shape.clone()) && intersects(shape.clone(), shape));
}

#[test]
fn circles_on_the_sphere_and_in_the_plane() {
    let selects = |operator: RawDocumentBuf, location: RawBson| {
        region(operator).unwrap().selects(&parsed(location).unwrap(), &Work::unchecked()).unwrap()
    };
    let degrees = |radius: f64| rawdoc! { "$geoWithin": { "$centerSphere": [[0, 80], radius.to_radians()] } };
    assert!(selects(degrees(10.001), point(77.0, 90.0)) && !selects(degrees(9.999), point(77.0, 90.0)));
    assert!(selects(degrees(20.001), rawbson!([180, 80])));
    let line = rawbson!({ "type": "LineString", "coordinates": [[-80, 80], [80, 80]] });
    assert!(selects(degrees(14.0), line.clone()) && !selects(degrees(12.0), line));
    // All but a circle around the opposite point.
    let big = degrees(170.0);
    let square = polygon(&[&[[170.0, -85.0], [-170.0, -85.0], [-170.0, -75.0], [170.0, -75.0]]]);
    assert!(selects(big.clone(), point(0.0, -60.0)) && !selects(big.clone(), point(180.0, -80.0)));
    assert!(!selects(big.clone(), square.clone()) && selects(degrees(180.0), square));
    let flat = rawdoc! { "$geoWithin": { "$center": [[0, 80], 5] } };
    assert!(selects(flat.clone(), rawbson!([3, 84])) && !selects(flat.clone(), rawbson!([3, 85])));
    assert!(selects(flat, rawbson!({ "lng": 3, "lat": 84 })));
    let boxed = rawdoc! { "$geoWithin": { "$box": [[10, 10], [0, -5]] } };
    assert!(selects(boxed.clone(), rawbson!([10, 10])) && selects(boxed.clone(), point(0.0, -5.0)));
    assert!(!selects(boxed.clone(), rawbson!([10.1, 10])));
    assert!(!selects(boxed, rawbson!({ "type": "LineString", "coordinates": [[1, 1], [2, 2]] })), "no point");
}

#[test]
fn what_is_no_location_is_refused_by_name() {
    let polygon = |coordinates: RawBson| rawbson!({ "type": "Polygon", "coordinates": coordinates });
    let square = [[0.0, 0.0], [10.0, 0.0], [10.0, 10.0], [0.0, 10.0]];
    for (location, part) in [
        (rawbson!("x"), "array or object"),
        (rawbson!([1]), "numeric elements"),
        (rawbson!([1, "x"]), "numeric elements"),
        (rawbson!([f64::NAN, 1]), "finite"),
        (rawbson!({ "x": 1, "y": f64::INFINITY }), "finite"),
        (rawbson!({}), "unknown GeoJSON type"),
        (rawbson!({ "type": "Dot", "coordinates": [1, 2] }), "unknown GeoJSON type"),
        (rawbson!({ "type": "Point" }), "coordinates"),
        (rawbson!({ "type": "Point", "coordinates": [181, 0] }), "out of bounds"),
        (rawbson!({ "type": "Point", "coordinates": [0, f64::NAN] }), "finite"),
        (rawbson!({ "type": "LineString", "coordinates": [[1, 1]] }), "at least 2 vertices"),
        (rawbson!({ "type": "LineString", "coordinates": [[1, 1], [1, 1]] }), "at least 2 vertices"),
        (rawbson!({ "type": "LineString", "coordinates": [[0, 0], [180, 0]] }), "opposite"),
        (rawbson!({ "type": "MultiPoint", "coordinates": [] }), "at least 1"),
        (polygon(rawbson!([])), "no loops"),
        (polygon(rawbson!([[]])), "no vertices"),
        (polygon(rawbson!([[[0, 0], [1, 0], [1, 1]]])), "not closed"),
        (polygon(rawbson!([[[0, 0], [1, 0], [0, 0]]])), "at least 3 different vertices"),
        (polygon(rawbson!([[[0, 0], [0, 0], [0, 0], [0, 0]]])), "at least 3 different vertices"),
        (polygon(rawbson!([[[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]]])), "cross"),
        (polygon(rawbson!([[[0, 0], [2, 0], [1, 1], [2, 2], [0, 2], [1, 1], [0, 0]]])), "Duplicate vertices"),
        (self::polygon(&[&square, &[[20.0, 0.0], [21.0, 0.0], [21.0, 1.0]]]), "must be holes"),
        (self::polygon(&[&square, &[[9.0, 1.0], [11.0, 1.0], [9.0, 2.0]]]), "must be holes"),
        (
            self::polygon(&[
                &square,
                &[[1.0, 1.0], [3.0, 1.0], [1.0, 3.0]],
                &[[2.0, 0.5], [2.0, 3.0], [2.5, 3.0]],
            ]),
            "holes cross",
        ),
        (rawbson!({ "type": "GeometryCollection", "geometries": [] }), "at least 1 element"),
        (rawbson!({ "type": "GeometryCollection", "geometries": [1] }), "not an object"),
        (
            rawbson!({ "type": "GeometryCollection", "geometries": [{ "type": "GeometryCollection", "geometries": [] }] }),
            "cannot be nested",
        ),
        (rawbson!({ "type": "Point", "coordinates": [1, 2], "crs": 1 }), "CRS must be an object"),
        (
            rawbson!({ "type": "Point", "coordinates": [1, 2], "crs": { "type": "name", "properties": { "name": "x" } } }),
            "Unknown CRS",
        ),
    ] {
        let error = parsed(location.clone()).unwrap_err();
        assert_eq!(error.code, crate::error::ErrorCode::BadValue);
        assert!(error.message.contains(part), "{location:?}: {error}");
    }
    for (operator, part) in [
        (rawdoc! { "$geoWithin": 5 }, "needs an object"),
        (rawdoc! { "$geoWithin": {} }, "any geometry"),
        (rawdoc! { "$geoWithin": { "$shape": [] } }, "unknown geo specifier: $shape"),
        (rawdoc! { "$geoWithin": { "$geometry": point(1.0, 2.0) } }, "not supported with provided geometry"),
        (rawdoc! { "$geoWithin": { "$box": [[1, 2]] } }, "two corners"),
        (rawdoc! { "$geoWithin": { "$polygon": [[1, 2], [3, 4]] } }, "at least 3 points"),
        (rawdoc! { "$geoWithin": { "$center": [[1, 2], -1] } }, "non-negative"),
        (rawdoc! { "$geoWithin": { "$center": [[1, 2], f64::NAN] } }, "non-negative"),
        (rawdoc! { "$geoWithin": { "$centerSphere": [[1, 91], 1] } }, "out of bounds"),
        (rawdoc! { "$geoIntersects": { "$box": [[1, 2], [3, 4]] } }, "not supported with provided geometry"),
    ] {
        let error = region(operator.clone()).unwrap_err();
        assert!(error.message.contains(part), "{operator:?}: {error}");
    }
}

/// A random simple polygon: points around a center, by angle.
fn star(rng: &mut Rng, corners: usize) -> (RawBson, (f64, f64), Vec<[f64; 2]>) {
    let (lng, lat) = (rng.below(340) as f64 - 170.0, rng.below(140) as f64 - 70.0);
    let corner = |at: usize, rng: &mut Rng| {
        let (angle, far) =
            (at as f64 / corners as f64 * std::f64::consts::TAU, 0.5 + rng.below(900) as f64 / 100.0);
        [lng + angle.cos() * far, lat + angle.sin() * far]
    };
    let points: Vec<[f64; 2]> = (0..corners).map(|at| corner(at, rng)).collect();
    (polygon(&[&points]), (lng, lat), points)
}

#[test]
fn random_polygons_contain_what_the_sum_of_angles_says() {
    let mut rng = Rng::new(8);
    let (mut inside, mut outside) = (0, 0);
    for round in 0..300 {
        let (shape, (lng, lat), corners) = star(&mut rng, 3 + round % 40);
        let Ok(location) = parsed(shape.clone()) else { continue };
        let corners: Vec<Vector> = corners.iter().map(|at| Vector::of_degrees(at[0], at[1])).collect();
        for _ in 0..20 {
            let (x, y) =
                (lng + rng.below(2400) as f64 / 100.0 - 12.0, lat + rng.below(2400) as f64 / 100.0 - 12.0);
            let (x, y) = (x.clamp(-180.0, 180.0), y.clamp(-90.0, 90.0));
            let at = Vector::of_degrees(x, y);
            // The angles under which the edges are seen sum up to a full turn from inside.
            let turn: f64 = (0..corners.len())
                .map(|number| {
                    let (a, b) = (corners[number], corners[(number + 1) % corners.len()]);
                    let (a, b) = (at.cross(a), at.cross(b));
                    at.dot(a.cross(b)).atan2(a.dot(b))
                })
                .sum();
            let wanted = turn.abs() > 3.0;
            assert_eq!(within(shape.clone(), point(x, y)), wanted, "{shape:?} {x} {y}");
            let distance = near_of(at).distance(&location, &Work::unchecked()).unwrap().unwrap();
            assert_eq!(distance == 0.0, wanted);
            inside += usize::from(wanted);
            outside += usize::from(!wanted);
        }
    }
    assert!(inside > 500 && outside > 500, "{inside} {outside}");
}

#[test]
fn a_long_value_in_a_message_is_cut_and_not_read_further() {
    let short = rawdoc! { "v": { "a": [1, 2, "é"] } };
    assert_eq!(brief(Doc::from(&short).get("v").unwrap()), "{ a: [ 1, 2, \"é\" ] }");
    let all: RawArrayBuf = (0..1_000_000).collect();
    let long = rawdoc! { "v": all };
    let begun = std::time::Instant::now();
    for _ in 0..1000 {
        let text = brief(Doc::from(&long).get("v").unwrap());
        assert!(text.starts_with("[ 0, 1, 2,") && text.ends_with("...") && text.len() < 300, "{text}");
    }
    assert!(begun.elapsed().as_secs() < 5, "it reads all of it: {:?}", begun.elapsed());
}

fn near_of(at: Vector) -> Near {
    let (lng, lat) = (at.y.atan2(at.x).to_degrees(), at.z.clamp(-1.0, 1.0).asin().to_degrees());
    let doc = rawdoc! { "l": [lng, lat] };
    Near::of_point(Doc::from(&doc).get("l").unwrap(), true, &Work::unchecked()).unwrap()
}

#[test]
fn the_ranges_of_a_region_contain_the_cells_of_all_that_it_selects() {
    let mut rng = Rng::new(5);
    let (mut selected, mut read, mut all) = (0, 0, 0);
    for round in 0..150 {
        let (shape, (lng, lat), _) = star(&mut rng, 3 + round % 12);
        let operator = match round % 4 {
            0 => rawdoc! { "$geoWithin": { "$geometry": shape } },
            1 => rawdoc! { "$geoWithin": { "$centerSphere": [[lng, lat], 0.2] } },
            2 => rawdoc! { "$geoWithin": { "$box": [[lng - 8.0, lat - 3.0], [lng + 8.0, lat + 3.0]] } },
            _ => rawdoc! { "$geoIntersects": { "$geometry": shape } },
        };
        let Ok(region) = region(operator.clone()) else { continue };
        let grid = match region.is_flat() || round % 8 == 1 {
            true => Grid::Plane { min: -200.0, max: 200.0 },
            false => Grid::Sphere,
        };
        let ranges = cell_ranges(&grid, &region, &Work::unchecked()).unwrap();
        assert!(ranges.is_sorted());
        for _ in 0..60 {
            let (x, y) =
                (lng + rng.below(3000) as f64 / 100.0 - 15.0, lat + rng.below(3000) as f64 / 100.0 - 15.0);
            let (x, y) = (x.clamp(-180.0, 180.0), y.clamp(-90.0, 90.0));
            let location = match (grid, rng.below(3)) {
                (Grid::Plane { .. }, _) | (_, 0) => rawbson!([x, y]),
                (_, 1) => {
                    rawbson!({ "type": "LineString", "coordinates": [[x, y], [x * 0.9 + 1.0, y * 0.9]] })
                }
                _ => star(&mut rng, 5).0,
            };
            let doc = rawdoc! { "l": location.clone() };
            let value = Doc::from(&doc).get("l").unwrap();
            let mut cells = Vec::new();
            if cells_of(&grid, value, &mut cells, &Work::unchecked()).is_err() {
                continue;
            }
            let found = cells.iter().any(|cell| ranges.iter().any(|(low, high)| low <= cell && cell <= high));
            let parsed = Location::parse(value, &Work::unchecked()).unwrap();
            let wanted = region.selects(&parsed, &Work::unchecked()).unwrap();
            assert!(found || !wanted, "{operator:?} {location:?}");
            (selected, read, all) = (selected + usize::from(wanted), read + usize::from(found), all + 1);
        }
    }
    assert!(selected > 500 && read < all * 4 / 5, "{selected} {read} {all}");
}

#[test]
fn work_on_a_great_polygon_is_stopped() {
    let corner = |at: u32| {
        let (angle, far) = (
            f64::from(at) / 20_000.0 * std::f64::consts::TAU,
            if at.is_multiple_of(2) { 40.0 } else { 41.0 },
        );
        [far * angle.cos(), far * angle.sin()]
    };
    let points: Vec<[f64; 2]> = (0..20_000).map(corner).collect();
    let doc = rawdoc! { "l": polygon(&[&points]) };
    let value: Value<'_> = Doc::from(&doc).get("l").unwrap();
    let stop = || Err(crate::error::QueryError::new(crate::error::ErrorCode::Interrupted, "stop"));
    let error = Location::parse(value, &Work::new(&stop)).unwrap_err();
    assert_eq!(error.code, crate::error::ErrorCode::Interrupted);
    let location = Location::parse(value, &Work::unchecked()).unwrap();
    assert_eq!(
        near_of(Vector::of_degrees(0.0, 0.0)).distance(&location, &Work::unchecked()).unwrap(),
        Some(0.0)
    );
    // Half of the arcs are looked at for none of these.
    let steps = std::cell::Cell::new(0_u32);
    let count = || {
        steps.set(steps.get() + 1);
        Ok(())
    };
    let work = Work::new(&count);
    let region = region(rawdoc! { "$geoWithin": { "$geometry": polygon(&[&points]) } }).unwrap();
    for lng in 0..100 {
        region.selects(&parsed(point(f64::from(lng) / 4.0, 20.0)).unwrap(), &work).unwrap();
    }
    assert!(steps.get() < 100 * 10_000 / (1 << 14), "{}", steps.get());
}

/// A valid ring whose edges are all near each other: up and down between two parallels, and back around the outside.
fn zigzag(vertices: u32) -> Vec<[f64; 2]> {
    let lng = |at: u32| 10.0 * f64::from(at) / f64::from(vertices);
    let mut points: Vec<[f64; 2]> =
        (0..vertices).map(|at| [lng(at), if at.is_multiple_of(2) { -40.0 } else { 40.0 }]).collect();
    points.extend([[11.0, 40.0], [11.0, 45.0], [-1.0, 45.0], [-1.0, -40.0]]);
    points
}

#[test]
fn a_ring_or_holes_whose_comparison_takes_too_long_are_refused() {
    assert!(parsed(polygon(&[&zigzag(200)])).is_ok(), "it is valid");
    let error = parsed(polygon(&[&zigzag(100_000)])).unwrap_err();
    assert!(error.code == ErrorCode::BadValue && error.message.contains("too intricate"), "{error}");
    // Each of these is near a few hundred others.
    let spikes: Vec<[f64; 2]> = (0..100_000_u32)
        .map(|at| {
            let angle = f64::from(at) / 100_000.0 * std::f64::consts::TAU;
            let far = f64::from(40 + at % 2);
            [far * angle.cos(), far * angle.sin()]
        })
        .collect();
    assert!(parsed(polygon(&[&spikes])).is_ok());
    let hole = |at: u32| {
        let (x, y) = (f64::from(at % 200) / 10.0, f64::from(at / 200) / 10.0);
        [[x, y], [x + 0.05, y], [x, y + 0.05]]
    };
    let mut rings: Vec<Vec<[f64; 2]>> = vec![vec![[-1.0, -1.0], [21.0, -1.0], [21.0, 21.0], [-1.0, 21.0]]];
    rings.extend((0..20_000).map(|at| hole(at).to_vec()));
    let rings: Vec<&[[f64; 2]]> = rings.iter().map(Vec::as_slice).collect();
    let error = parsed(polygon(&rings)).unwrap_err();
    assert!(error.message.contains("too intricate"), "{error}");
    assert!(parsed(polygon(&rings[..1000])).is_ok(), "a thousand holes are not too many");
}

#[test]
fn a_condition_on_elements_is_stopped_while_locations_are_compared() {
    let shape = polygon(&[&zigzag(4000)]);
    let doc = rawdoc! { "l": [shape.clone()] };
    let killed = || {
        let interrupt = std::sync::Arc::new(Interrupt::new(None));
        interrupt.kill();
        interrupt.enter()
    };
    for condition in [
        rawdoc! { "l": { "$elemMatch": { "$geoIntersects": { "$geometry": shape.clone() } } } },
        rawdoc! { "l": { "$not": { "$elemMatch": { "$geoIntersects": { "$geometry": shape.clone() } } } } },
    ] {
        let filter = Filter::parse(&condition).unwrap();
        let stopped = killed();
        assert_eq!(filter.matches(&doc).unwrap_err().code, ErrorCode::Interrupted);
        drop(stopped);
    }
}

#[test]
fn the_bulge_of_a_long_edge_does_not_turn_a_thin_polygon_inside_out() {
    let thin = [[-20.0, 0.0], [-20.0, -30.0], [-19.9, -30.0], [-19.9, -0.2], [0.0, -0.2], [20.0, 0.0]];
    let mut turned = thin;
    turned.reverse();
    for points in [thin, turned] {
        assert!(within(polygon(&[&points]), point(-10.0, -0.1)));
        assert!(within(polygon(&[&points]), point(-19.95, -20.0)));
        assert!(
            !within(polygon(&[&points]), point(0.0, -20.0)) && !within(polygon(&[&points]), point(10.0, 5.0))
        );
    }
}

#[test]
fn a_ring_that_touches_itself_contains_what_is_around_no_other_side() {
    let pinched = [[0.0, 0.0], [20.0, 0.0], [20.0, 10.0], [10.0, 0.0], [0.0, 10.0]];
    let mut turned = pinched;
    turned.reverse();
    for points in [pinched, turned] {
        let shape = polygon(&[&points]);
        assert!(within(shape.clone(), point(2.0, 4.0)) && within(shape.clone(), point(18.0, 4.0)));
        assert!(!within(shape.clone(), point(10.0, 6.0)) && !within(shape.clone(), point(2.0, -4.0)));
        assert!(!within(shape, point(-170.0, 1.0)));
    }
    // A way there and back has no inside.
    let error = parsed(polygon(&[&[[2.0, 48.0], [2.0, 49.0], [2.0, 50.0]]])).unwrap_err();
    assert!(error.code == ErrorCode::BadValue && error.message.contains("no inside"), "{error}");
    // A triangle of a centimetre has one.
    assert!(parsed(polygon(&[&[[2.0, 48.0], [2.000_000_1, 48.0], [2.0, 48.000_000_1]]])).is_ok());
}

#[test]
fn distances_beside_a_geometry_are_refused_and_not_ignored() {
    let near = rawdoc! { "$geometry": point(0.0, 0.0) };
    for condition in [
        rawdoc! { "$near": near.clone(), "$maxDistance": 100 },
        rawdoc! { "$maxDistance": 100, "$near": near.clone() },
        rawdoc! { "$nearSphere": near.clone(), "$minDistance": 100 },
    ] {
        let filter = rawdoc! { "loc": condition };
        let error = Filter::parse_search(&filter, Variables::NONE).unwrap_err();
        assert!(error.code == ErrorCode::BadValue && error.message.contains("stands beside"), "{error}");
    }
}

#[test]
fn a_pair_with_something_after_it_is_one_location_for_filters_as_for_indexes() {
    let doc = rawdoc! { "loc": [1, 2, [50, 50]] };
    let around = |x: f64, y: f64| {
        rawdoc! { "loc": { "$geoWithin": { "$box": [[x - 1.0, y - 1.0], [x + 1.0, y + 1.0]] } } }
    };
    let matches = |filter: RawDocumentBuf| Filter::parse(&filter).unwrap().matches(&doc).unwrap();
    assert!(matches(around(1.0, 2.0)) && !matches(around(50.0, 50.0)));
    let center = rawdoc! { "l": [50, 50] };
    let near = Near::of_point(Doc::from(&center).get("l").unwrap(), false, &Work::unchecked()).unwrap();
    let (distance, _) =
        near.nearest(&Path::new("loc"), Doc::from(&doc), &Work::unchecked()).unwrap().unwrap();
    assert_eq!(distance, 49_f64.hypot(48.0), "from the pair, not from what follows it");
}
