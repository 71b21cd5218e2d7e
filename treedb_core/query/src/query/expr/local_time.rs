//! A point in time in a time zone, for the whole range of BSON dates.
//!
//! The calendar library ends at the year 9999; BSON dates reach 292 million years. The calendar repeats every 400 years,
//! weekdays included: a date outside the library's range is computed that many cycles nearer.

use std::ops::Deref;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::error::Result;

use super::date::out_of_range;

/// Milliseconds of 400 years.
const CYCLE: i64 = 146_097 * 86_400_000;
/// Where far dates are looked at, in such years since 1970: no zone changes its rules there any more.
const NEAR: i64 = 10;

/// A moment in a time zone.
pub(super) struct Local {
    /// It, or the same day so many years nearer.
    date: Zoned,
    years: i64,
}

impl Local {
    /// The moment so many milliseconds after 1970.
    pub(super) fn new(millis: i64, zone: TimeZone) -> Result<Local> {
        if let Ok(moment) = Timestamp::from_millisecond(millis) {
            return Ok(Local { date: moment.to_zoned(zone), years: 0 });
        }
        let near = millis.rem_euclid(CYCLE) + NEAR * CYCLE;
        let date = Timestamp::from_millisecond(near).map_err(out_of_range)?.to_zoned(zone);
        Ok(Local { date, years: (millis.div_euclid(CYCLE) - NEAR) * 400 })
    }

    /// The year.
    pub(super) fn year(&self) -> i64 {
        i64::from(self.date.year()) + self.years
    }

    /// The year that its week belongs to.
    pub(super) fn iso_year(&self) -> i64 {
        i64::from(self.date.date().iso_week_date().year()) + self.years
    }
}

impl Deref for Local {
    type Target = Zoned;

    fn deref(&self) -> &Zoned {
        &self.date
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_beyond_the_library_has_its_day_its_weekday_and_its_year() {
        for (millis, year, month, day, weekday) in [
            (253_402_214_400_000, 9999, 12, 31, "Friday"),
            (253_402_300_800_000, 10000, 1, 1, "Saturday"),
            (i64::MAX, 292_278_994, 8, 17, "Sunday"),
            (i64::MIN, -292_275_055, 5, 16, "Sunday"),
            (0, 1970, 1, 1, "Thursday"),
        ] {
            let local = Local::new(millis, TimeZone::UTC).unwrap();
            assert_eq!((local.year(), local.month(), local.day()), (year, month, day));
            assert_eq!(format!("{:?}", local.weekday()), weekday);
        }
    }
}
