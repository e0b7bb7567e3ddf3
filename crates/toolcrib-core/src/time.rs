//! Timestamps as text: RFC 3339 to and from [`UnixTime`].
//!
//! Not `jiff` (8 s of CPU time to compile, and nothing else in the build needs it): it accepts spaces, offsets without a colon or minutes,
//! and any second 60, which RFC 3339 §5.6 and §5.7 forbid, and does not say what is wrong, so it could replace only the calendar and not
//! the grammar. Fractions of a second are checked and dropped.

use std::fmt;

use crate::clock::UnixTime;

/// Longest fraction of a second, in digits. Nanoseconds have nine.
pub(crate) const MAX_FRACTION_DIGITS: usize = 32;

/// Why a text is not a timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeFault {
    /// The text does not follow `YYYY-MM-DDThh:mm:ss[.fff](Z|±hh:mm)`.
    Malformed,
    /// A date without a time of day.
    DateOnly,
    /// Only the offset is missing.
    NoOffset,
    /// There is a space between date and time.
    SpaceSeparator,
    /// The month has no such day, or there is no such month.
    NoSuchDay,
    /// Hours, minutes or seconds are out of range.
    NoSuchTime,
    /// A second 60 that is not at the end of a month in UTC.
    NoSuchLeapSecond,
    /// An offset beyond 23:59.
    NoSuchOffset,
}

impl TimeFault {
    /// One sentence that says what is wrong.
    pub const fn described(self) -> &'static str {
        match self {
            Self::Malformed => "the text does not have the form YYYY-MM-DDThh:mm:ssZ",
            Self::DateOnly => "the text is a date without a time of day",
            Self::NoOffset => "the time has no offset: add Z or one such as +02:00",
            Self::SpaceSeparator => "date and time are joined by a space instead of the letter T",
            Self::NoSuchDay => "the date does not exist",
            Self::NoSuchTime => "the time of day does not exist",
            Self::NoSuchLeapSecond => "a leap second (60) is allowed only at the end of a month, at 23:59:60 UTC",
            Self::NoSuchOffset => "the offset is outside -23:59 to +23:59",
        }
    }
}

impl fmt::Display for TimeFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.described())
    }
}

impl std::error::Error for TimeFault {}

/// Parses an RFC 3339 timestamp. The offset is mandatory; `t` and `z` may be lower case (RFC 3339 §5.6).
///
/// A leap second becomes the second before it, so that the time never passes midnight.
///
/// ```
/// use toolcrib_core::time::parse_rfc3339;
///
/// assert_eq!(parse_rfc3339("2026-05-01T20:00:00+02:00").map(|time| time.seconds()), Ok(1_777_658_400));
/// assert!(parse_rfc3339("2026-05-01T18:00:00").is_err());
/// ```
pub fn parse_rfc3339(text: &str) -> Result<UnixTime, TimeFault> {
    let mut cursor = Cursor(text.as_bytes());
    let year = cursor.digits(4)?;
    cursor.literal(b'-')?;
    let month = cursor.digits(2)?;
    cursor.literal(b'-')?;
    let day = cursor.digits(2)?;
    match cursor.next() {
        Some(b'T' | b't') => {}
        Some(b' ') => return Err(TimeFault::SpaceSeparator),
        None => return Err(TimeFault::DateOnly),
        Some(_) => return Err(TimeFault::Malformed),
    }
    let hour = cursor.digits(2)?;
    cursor.literal(b':')?;
    let minute = cursor.digits(2)?;
    cursor.literal(b':')?;
    let second = cursor.digits(2)?;
    cursor.fraction()?;
    let offset = cursor.offset()?;

    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return Err(TimeFault::NoSuchDay);
    }
    if hour > 23 || minute > 59 || second > 60 {
        return Err(TimeFault::NoSuchTime);
    }
    let seconds = days_from_civil(year, month, day) * SECONDS_PER_DAY + hour * 3600 + minute * 60 + second - offset;
    if second == 60 {
        // The moment after the leap second must be the first of a month in UTC.
        let (_, _, day) = civil_from_days(seconds.div_euclid(SECONDS_PER_DAY));
        if seconds.rem_euclid(SECONDS_PER_DAY) != 0 || day != 1 {
            return Err(TimeFault::NoSuchLeapSecond);
        }
        return Ok(UnixTime::from_seconds(seconds - 1));
    }
    Ok(UnixTime::from_seconds(seconds))
}

/// Formats a timestamp in UTC, such as `2026-05-01T18:00:00Z`. `None` outside the years 0 to 9999, which RFC 3339 cannot express.
pub fn format_rfc3339(time: UnixTime) -> Option<String> {
    let (days, rest) = (time.seconds().div_euclid(SECONDS_PER_DAY), time.seconds().rem_euclid(SECONDS_PER_DAY));
    if !(days_from_civil(0, 1, 1)..=days_from_civil(9999, 12, 31)).contains(&days) {
        return None;
    }
    let (year, month, day) = civil_from_days(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    Some(format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z"))
}

const SECONDS_PER_DAY: i64 = 86_400;

/// The unparsed rest of the text.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn literal(&mut self, wanted: u8) -> Result<(), TimeFault> {
        if self.next() == Some(wanted) { Ok(()) } else { Err(TimeFault::Malformed) }
    }

    /// Parses exactly `count` digits.
    fn digits(&mut self, count: usize) -> Result<i64, TimeFault> {
        let mut number = 0;
        for _ in 0..count {
            match self.next() {
                Some(digit @ b'0'..=b'9') => number = number * 10 + i64::from(digit - b'0'),
                _ => return Err(TimeFault::Malformed),
            }
        }
        Ok(number)
    }

    /// Parses a point and at least one digit, or nothing.
    fn fraction(&mut self) -> Result<(), TimeFault> {
        let Some(rest) = self.0.strip_prefix(b".") else { return Ok(()) };
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 || count > MAX_FRACTION_DIGITS {
            return Err(TimeFault::Malformed);
        }
        self.0 = &rest[count..];
        Ok(())
    }

    /// Parses `Z` or `±hh:mm` at the end of the text. Returns seconds east of UTC.
    fn offset(&mut self) -> Result<i64, TimeFault> {
        let sign = match self.next() {
            Some(b'Z' | b'z') if self.0.is_empty() => return Ok(0),
            Some(b'+') => 1,
            Some(b'-') => -1,
            None => return Err(TimeFault::NoOffset),
            Some(_) => return Err(TimeFault::Malformed),
        };
        let hours = self.digits(2)?;
        self.literal(b':')?;
        let minutes = self.digits(2)?;
        if !self.0.is_empty() {
            return Err(TimeFault::Malformed);
        }
        if hours > 23 || minutes > 59 {
            return Err(TimeFault::NoSuchOffset);
        }
        Ok(sign * (hours * 3600 + minutes * 60))
    }
}

const fn is_leap_year(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

const fn days_in_month(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap_year(year) => 29,
        2 => 28,
        _ => 31,
    }
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar. Years are counted from March, so that the leap
/// day is the last day of its year; 400 years are 146097 days.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// The inverse of [`days_from_civil`]: year, month, day.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<i64, TimeFault>) {
        assert_eq!(parse_rfc3339(text).map(UnixTime::seconds), expected, "{text}");
    }

    // req: AGT-007
    #[test]
    fn timestamps() {
        use TimeFault::*;
        check("1970-01-01T00:00:00Z", Ok(0));
        check("1969-12-31T23:59:59Z", Ok(-1));
        check("2026-05-01T18:00:00Z", Ok(1_777_658_400));
        check("2026-05-01t18:00:00z", Ok(1_777_658_400));
        check("2026-05-01T18:00:00.999Z", Ok(1_777_658_400));
        check("2026-05-01T18:00:00-00:00", Ok(1_777_658_400));
        check("2026-05-01T23:45:00+05:45", Ok(1_777_658_400));
        check("2026-04-30T18:01:00-23:59", Ok(1_777_658_400));
        check("0000-01-01T00:00:00Z", Ok(-62_167_219_200));
        check("9999-12-31T23:59:59Z", Ok(253_402_300_799));
        // Leap years: every fourth, not every hundredth, but every four-hundredth.
        check("2024-02-29T00:00:00Z", Ok(1_709_164_800));
        check("2000-02-29T00:00:00Z", Ok(951_782_400));
        check("2026-02-29T00:00:00Z", Err(NoSuchDay));
        check("1900-02-29T00:00:00Z", Err(NoSuchDay));
        check("2026-04-31T00:00:00Z", Err(NoSuchDay));
        check("2026-00-10T00:00:00Z", Err(NoSuchDay));
        check("2026-13-10T00:00:00Z", Err(NoSuchDay));
        check("2026-01-00T00:00:00Z", Err(NoSuchDay));
        // Leap seconds: the examples of RFC 3339 §5.8, and impossible ones.
        check("1990-12-31T23:59:60Z", Ok(662_687_999));
        check("1990-12-31T15:59:60-08:00", Ok(662_687_999));
        check("1990-12-30T23:59:60Z", Err(NoSuchLeapSecond));
        check("1990-12-31T12:59:60Z", Err(NoSuchLeapSecond));
        check("1990-12-31T23:59:61Z", Err(NoSuchTime));
        check("2026-05-01T24:00:00Z", Err(NoSuchTime));
        check("2026-05-01T18:60:00Z", Err(NoSuchTime));
        check("2026-05-01T18:00:00+24:00", Err(NoSuchOffset));
        check("2026-05-01T18:00:00+00:60", Err(NoSuchOffset));
        check("2026-05-01T18:00:00", Err(NoOffset));
        check("2026-05-01T18:00:00.5", Err(NoOffset));
        check("2026-05-01", Err(DateOnly));
        check("2026-05-01 18:00:00Z", Err(SpaceSeparator));
        for text in [
            "",
            "yesterday",
            "1777658400",
            "20260501T180000Z",
            "2026-5-1T18:00:00Z",
            "2026-W18-5T18:00:00Z",
            "2026-121T18:00:00Z",
            "+2026-05-01T18:00:00Z",
            "12026-05-01T18:00:00Z",
            "2026-05-01T18:00Z",
            "2026-05-01T18:00:00.Z",
            "2026-05-01T18:00:00,5Z",
            "2026-05-01T18:00:00+0200",
            "2026-05-01T18:00:00+02",
            "2026-05-01T18:00:00Zx",
            "2026-05-01T18:00:00 Z",
            "2026-05-01T18:00:00+02:00Z",
            "２026-05-01T18:00:00Z",
            "2026-05-01T18:00:00\u{0}",
        ] {
            check(text, Err(Malformed));
        }
        let long = |digits| format!("2026-05-01T18:00:00.{}Z", "9".repeat(digits));
        check(&long(MAX_FRACTION_DIGITS), Ok(1_777_658_400));
        check(&long(MAX_FRACTION_DIGITS + 1), Err(Malformed));
    }

    #[test]
    fn years_beyond_four_digits_have_no_text() {
        assert_eq!(format_rfc3339(UnixTime::from_seconds(253_402_300_799)).as_deref(), Some("9999-12-31T23:59:59Z"));
        assert_eq!(format_rfc3339(UnixTime::from_seconds(253_402_300_800)), None);
        assert_eq!(format_rfc3339(UnixTime::from_seconds(-62_167_219_200)).as_deref(), Some("0000-01-01T00:00:00Z"));
        assert_eq!(format_rfc3339(UnixTime::from_seconds(-62_167_219_201)), None);
        assert_eq!(format_rfc3339(UnixTime::from_seconds(i64::MIN)), None);
        assert_eq!(format_rfc3339(UnixTime::from_seconds(i64::MAX)), None);
    }

    /// Counts the days of all months one by one, as an independent check of the arithmetic.
    #[test]
    fn day_numbers_count_up_by_one_over_eight_hundred_years() {
        let mut expected = days_from_civil(1600, 1, 1);
        assert_eq!(expected, -135_140);
        for year in 1600..2400 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    assert_eq!(days_from_civil(year, month, day), expected);
                    assert_eq!(civil_from_days(expected), (year, month, day));
                    expected += 1;
                }
            }
        }
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(seconds in -62_167_219_200_i64..=253_402_300_799) {
            let time = UnixTime::from_seconds(seconds);
            let text = format_rfc3339(time).expect("within the years 0 to 9999");
            prop_assert_eq!(parse_rfc3339(&text), Ok(time));
        }

        #[test]
        fn an_offset_moves_the_moment(seconds in 0_i64..4_000_000_000, hours in 0_i64..24, minutes in 0_i64..60) {
            let text = format_rfc3339(UnixTime::from_seconds(seconds)).expect("in range");
            let local = text.trim_end_matches('Z');
            let shift = hours * 3600 + minutes * 60;
            let east = parse_rfc3339(&format!("{local}+{hours:02}:{minutes:02}"));
            let west = parse_rfc3339(&format!("{local}-{hours:02}:{minutes:02}"));
            prop_assert_eq!(east.map(UnixTime::seconds), Ok(seconds - shift));
            prop_assert_eq!(west.map(UnixTime::seconds), Ok(seconds + shift));
        }

        #[test]
        fn any_text_is_answered(text in "\\PC{0,40}|[0-9TtZz:.+ -]{0,40}") {
            let _ = parse_rfc3339(&text);
        }
    }
}
