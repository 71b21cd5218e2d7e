//! Local time in a time zone, for the whole range of BSON dates.
//!
//! The calendar library ends at the year 9999; BSON dates reach 292 million years. The calendar repeats every 400 years,
//! weekdays included: a date outside the library's range is moved into it by a whole number of cycles.

use std::ops::Deref;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

use crate::error::Result;

use super::date::out_of_range;

/// Milliseconds of 400 years.
const CYCLE: i64 = 146_097 * 86_400_000;
/// The cycle since 1970 that distant dates are moved to: so late that no time zone changes its rules any
/// more.
const TARGET_CYCLE: i64 = 10;

/// A point in time in a time zone.
pub(super) struct Local {
    /// The date, moved by a multiple of 400 years if it is outside the calendar library's range.
    date: Zoned,
    /// The years to add to `date`.
    years: i64,
}

impl Local {
    /// The point in time `millis` milliseconds after 1970.
    pub(super) fn new(millis: i64, zone: TimeZone) -> Result<Local> {
        if let Ok(moment) = Timestamp::from_millisecond(millis) {
            return Ok(Local { date: moment.to_zoned(zone), years: 0 });
        }
        let moved = millis.rem_euclid(CYCLE) + TARGET_CYCLE * CYCLE;
        let date = Timestamp::from_millisecond(moved).map_err(out_of_range)?.to_zoned(zone);
        Ok(Local { date, years: (millis.div_euclid(CYCLE) - TARGET_CYCLE) * 400 })
    }

    /// The year.
    pub(super) fn year(&self) -> i64 {
        i64::from(self.date.year()) + self.years
    }

    /// The year of its ISO week.
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
    fn a_date_outside_the_librarys_range_has_the_right_day_weekday_and_year() {
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
