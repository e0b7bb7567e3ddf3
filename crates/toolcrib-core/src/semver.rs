//! The grammar of Semantic Versioning 2.0.0 only: no ranges, no ordering, no lenient forms.
//!
//! Not `semver`, which rejects numbers above 64 bits: the standard has no such limit.

/// Whether `text` is a version by Semantic Versioning 2.0.0: three numbers without leading zeros, then optionally `-` with pre-release
/// identifiers and `+` with build identifiers.
///
/// ```
/// use toolcrib_core::semver::is_semver;
///
/// assert!(is_semver("1.0.0-rc.1+build.5"));
/// assert!(!is_semver("1.0"));
/// assert!(!is_semver("v1.0.0"));
/// ```
pub fn is_semver(text: &str) -> bool {
    // The first `+` starts the build part and the first `-` before it starts the pre-release part: the core has neither.
    let (rest, build) = split(text, '+');
    let (core, pre) = split(rest, '-');
    let mut numbers = core.split('.');
    let three = numbers.by_ref().take(3).filter(|part| is_number(part)).count() == 3;
    three
        && numbers.next().is_none()
        && pre.is_none_or(|pre| pre.split('.').all(|part| is_identifier(part) && (!is_digits(part) || is_number(part))))
        && build.is_none_or(|build| build.split('.').all(is_identifier))
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at).map_or((text, None), |(before, after)| (before, Some(after)))
}

fn is_digits(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
}

/// Digits without a leading zero (§2, §9). The standard sets no upper limit.
fn is_number(part: &str) -> bool {
    is_digits(part) && (part.len() == 1 || !part.starts_with('0'))
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, wanted: bool) {
        assert_eq!(is_semver(text), wanted, "{text:?}");
    }

    // req: LOCAL-004
    #[test]
    fn versions_of_the_standard() {
        for good in [
            "0.0.0",
            "1.0.0",
            "0.0.4",
            "10.20.30",
            "1.1.2-prerelease+meta",
            "1.1.2+meta",
            "1.1.2+meta-valid",
            "1.0.0-alpha",
            "1.0.0-alpha.beta.1",
            "1.0.0-alpha0.valid",
            "1.0.0-alpha.0valid",
            "1.0.0-alpha-a.b-c-something-long+build.1-aef.1-its-okay",
            "2.0.0-rc.1+build.123",
            "1.2.3----RC-SNAPSHOT.12.9.1--.12+788",
            "1.2.3-0",
            "1.0.0+0.build.1-rc.10000aaa-kk-0.1",
            "1.0.0+001",
            "99999999999999999999999.999999999999999999.99999999999999999",
            "1.0.0-0A.is.legal",
        ] {
            check(good, true);
        }
        for bad in [
            "",
            "1",
            "1.0",
            "v1",
            "v1.0.0",
            "V1.0.0",
            "=1.0.0",
            "1.0.0.0",
            "1..0",
            ".1.0",
            "1.0.",
            "01.0.0",
            "1.00.0",
            "1.0.01",
            "1.0.0-",
            "1.0.0+",
            "1.0.0-+b",
            "1.0.0-a..b",
            "1.0.0-01",
            "1.0.0-a.00",
            "1.0.0+a+b",
            "1.0.0+a..b",
            "1.0.0-a_b",
            "1.0.0-é",
            "-1.0.0",
            "+1.0.0",
            " 1.0.0",
            "1.0.0 ",
            "1.0.0\n",
            "1.0.x",
            "^1.0.0",
            "latest",
            "１.0.0",
        ] {
            check(bad, false);
        }
    }
}
