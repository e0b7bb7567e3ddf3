//! Sunrise and sunset, by the sunrise equation with the low-precision position of the sun (Astronomical Almanac, page C24): accurate to
//! about two minutes between the polar circles, for this century and the last.

use serde::{Deserialize, Serialize};
use toolcrib_core::clock::UnixTime;
use toolcrib_core::time::{format_rfc3339, parse_rfc3339};
use toolcrib_gate::{Context, ToolError};

/// Noon of 1 January 2000, in seconds since 1970: the epoch of the sun's position.
const J2000: i64 = 946_728_000;
const DAY: f64 = 86_400.0;
/// Altitude of the sun's centre when its upper edge appears at the horizon, with refraction: degrees.
const HORIZON: f64 = -0.833;

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The day, such as 2026-06-21.
    #[schemars(length(equal = 10), regex(pattern = r"^[12][0-9]{3}-[01][0-9]-[0-3][0-9]$"))]
    date: String,
    /// Degrees north of the equator; south is negative.
    #[schemars(range(min = -90, max = 90))]
    latitude: f64,
    /// Degrees east of Greenwich; west is negative.
    #[schemars(range(min = -180, max = 180))]
    longitude: f64,
}

#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub(super) struct Output {
    /// Whether there is a sunrise at all on that day.
    day: Day,
    /// When the sun rises, UTC.
    sunrise: Option<String>,
    /// When it is highest, UTC.
    noon: String,
    /// When it sets, UTC.
    sunset: Option<String>,
    /// How long it is up, in minutes.
    minutes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Day {
    Usual,
    MidnightSun,
    PolarNight,
}

pub(super) async fn times(input: Input, _: Context) -> Result<Output, ToolError> {
    let midnight = parse_rfc3339(&format!("{}T00:00:00Z", input.date))
        .map_err(|fault| ToolError::refused(format!("{} is not a date: {fault}", input.date)))?;
    Ok(compute(midnight, input.latitude, input.longitude))
}

fn compute(midnight: UnixTime, latitude: f64, longitude: f64) -> Output {
    // Local mean noon, in days since 2000, for a sun that moves evenly round the equator.
    let mean_noon = (midnight.seconds() - J2000) as f64 / DAY + 0.5 - longitude / 360.0;
    let anomaly = (357.528 + 0.985_600_3 * mean_noon).to_radians();
    let mean_longitude = 280.460 + 0.985_647_4 * mean_noon;
    let ecliptic = (mean_longitude + 1.915 * anomaly.sin() + 0.020 * (2.0 * anomaly).sin()).to_radians();
    let obliquity = (23.439 - 0.000_000_4 * mean_noon).to_radians();
    let declination = (obliquity.sin() * ecliptic.sin()).asin();
    let ascension = (obliquity.cos() * ecliptic.sin()).atan2(ecliptic.cos()).to_degrees();
    // The equation of time: how far the real sun is ahead of the mean sun, in degrees between -180 and 180.
    let ahead = (mean_longitude - ascension + 180.0).rem_euclid(360.0) - 180.0;
    let noon = mean_noon - ahead / 360.0;
    let latitude = latitude.to_radians();
    let hour_angle = (HORIZON.to_radians().sin() - latitude.sin() * declination.sin()) / (latitude.cos() * declination.cos());
    let (day, half) = match hour_angle {
        angle if angle >= 1.0 => (Day::PolarNight, None),
        angle if angle <= -1.0 => (Day::MidnightSun, None),
        angle => (Day::Usual, Some(angle.acos().to_degrees() / 360.0)),
    };
    let minutes = match (day, half) {
        (_, Some(half)) => (half * 2.0 * 1_440.0).round() as u32,
        (Day::MidnightSun, None) => 1_440,
        _ => 0,
    };
    Output {
        day,
        sunrise: half.map(|half| shown(noon - half)),
        noon: shown(noon),
        sunset: half.map(|half| shown(noon + half)),
        minutes,
    }
}

/// Formats days since 2000 as a time, to the minute; the equation is not more accurate.
fn shown(days: f64) -> String {
    let seconds = J2000 + (days * 1_440.0).round() as i64 * 60;
    format_rfc3339(UnixTime::from_seconds(seconds)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(date: &str, latitude: f64, longitude: f64) -> Output {
        compute(parse_rfc3339(&format!("{date}T00:00:00Z")).expect("a date"), latitude, longitude)
    }

    /// Whether two times are at most three minutes apart.
    #[track_caller]
    fn close(got: &str, expected: &str) {
        let seconds = |text: &str| parse_rfc3339(text).expect("a time").seconds();
        assert!(seconds(got).abs_diff(seconds(expected)) <= 180, "{got} and {expected}");
    }

    #[test]
    fn known_days() {
        // Berlin at midsummer: 4:43 and 21:33 in summer time.
        let berlin = at("2026-06-21", 52.52, 13.4);
        close(berlin.sunrise.as_deref().expect("rises"), "2026-06-21T02:43:00Z");
        close(berlin.sunset.as_deref().expect("sets"), "2026-06-21T19:33:00Z");
        // Quito at the equinox: half a day, plus refraction.
        let quito = at("2026-03-20", -0.18, -78.47);
        assert!((724..=730).contains(&quito.minutes), "{quito:?}");
        // Sydney at midwinter: 7:00 and 16:54, ten hours ahead.
        let sydney = at("2026-06-21", -33.87, 151.21);
        close(sydney.sunrise.as_deref().expect("rises"), "2026-06-20T21:00:00Z");
        close(sydney.sunset.as_deref().expect("sets"), "2026-06-21T06:54:00Z");
        assert_eq!(at("2026-06-21", 69.65, 18.96).day, Day::MidnightSun);
        assert_eq!(
            at("2026-12-21", 69.65, 18.96),
            Output { day: Day::PolarNight, sunrise: None, sunset: None, minutes: 0, ..at("2026-12-21", 69.65, 18.96) }
        );
        for latitude in [-90.0, 90.0] {
            assert_ne!(at("2026-06-21", latitude, 0.0).day, Day::Usual, "at the poles");
        }
    }
}
