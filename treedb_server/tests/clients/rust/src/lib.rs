//! Only tests: see tests/driver.rs.
