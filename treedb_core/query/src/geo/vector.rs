//! [`Vector`]: three coordinates; of length 1, a point on the sphere.

use std::ops::{Add, Mul, Neg, Sub};

/// A vector; one of length 1 is a point on the sphere.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Vector {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) z: f64,
}

impl Vector {
    /// The point at a longitude and latitude in degrees.
    pub fn of_degrees(longitude: f64, latitude: f64) -> Vector {
        let (lng, lat) = (longitude.to_radians(), latitude.to_radians());
        // Not those of the platform: keys of indexes depend on the last bit, and files go from one platform to another.
        let ((sin, cos), (y, x)) = (libm::sincos(lat), libm::sincos(lng));
        Vector { x: cos * x, y: cos * y, z: sin }
    }

    pub(crate) fn dot(self, other: Vector) -> f64 {
        self.x * other.x + self.y * other.y + self.z * other.z
    }

    pub(crate) fn cross(self, other: Vector) -> Vector {
        Vector {
            x: self.y * other.z - self.z * other.y,
            y: self.z * other.x - self.x * other.z,
            z: self.x * other.y - self.y * other.x,
        }
    }

    /// The cross product of two points, with a small relative error also where they are near each other, or opposite.
    pub(crate) fn normal(self, other: Vector) -> Vector {
        (self + other).cross(other - self) * 0.5
    }

    pub(crate) fn length(self) -> f64 {
        self.dot(self).sqrt()
    }

    /// The vector of length 1 in the same direction; `None` if there is none.
    pub(crate) fn direction(self) -> Option<Vector> {
        let length = self.length();
        (length > 1e-300).then(|| self * (1.0 / length))
    }

    /// The angle between two points, in radians.
    pub fn angle(self, other: Vector) -> f64 {
        libm::atan2(self.normal(other).length(), self.dot(other))
    }
}

impl Add for Vector {
    type Output = Vector;

    fn add(self, other: Vector) -> Vector {
        Vector { x: self.x + other.x, y: self.y + other.y, z: self.z + other.z }
    }
}

impl Sub for Vector {
    type Output = Vector;

    fn sub(self, other: Vector) -> Vector {
        Vector { x: self.x - other.x, y: self.y - other.y, z: self.z - other.z }
    }
}

impl Mul<f64> for Vector {
    type Output = Vector;

    fn mul(self, by: f64) -> Vector {
        Vector { x: self.x * by, y: self.y * by, z: self.z * by }
    }
}

impl Neg for Vector {
    type Output = Vector;

    fn neg(self) -> Vector {
        self * -1.0
    }
}
