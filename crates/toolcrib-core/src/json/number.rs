//! Numbers: parsed as IEEE 754 doubles, written as in ECMAScript.

/// The largest integer that a double can distinguish from its neighbours: 2^53 - 1.
pub(crate) const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// Appends `number` in the form of RFC 8785 §3.2.2.3, which is ECMAScript's `Number.prototype.toString`.
///
/// `number` must be finite, which every number of a [`Document`](super::Document) is.
pub fn write_number(number: f64, out: &mut String) {
    if number.fract() == 0.0 && number.abs() <= MAX_SAFE_INTEGER {
        write_integer(number as i64, out);
    } else {
        out.push_str(ryu_js::Buffer::new().format_finite(number));
    }
}

/// Appends an integer, about five times faster than the general formatter. Negative zero is already 0 here.
fn write_integer(number: i64, out: &mut String) {
    let mut digits = [0_u8; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        at -= 1;
        digits[at] = b'-';
    }
    out.extend(digits[at..].iter().map(|&digit| char::from(digit)));
}

/// The result of parsing a number literal.
pub(super) enum Parsed {
    Exact(f64),
    /// An integer literal beyond 2^53 - 1.
    Imprecise(f64),
    /// A non-zero literal that became zero.
    Underflow(f64),
    Overflow,
}

/// Converts a literal that is valid by the JSON grammar.
pub(super) fn parse(literal: &str, is_integer: bool) -> Parsed {
    if is_integer && literal.len() <= 15 {
        let (negative, digits) = match literal.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, literal),
        };
        // At most fifteen digits: below 2^53, so the conversion is exact.
        let number = digits.bytes().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0')) as f64;
        return Parsed::Exact(if negative { -number } else { number });
    }
    let Ok(number) = literal.parse::<f64>() else { return Parsed::Overflow };
    if !number.is_finite() {
        return Parsed::Overflow;
    }
    if is_integer && number.abs() > MAX_SAFE_INTEGER {
        return Parsed::Imprecise(number);
    }
    let mantissa = literal.split(['e', 'E']).next().unwrap_or(literal);
    if number == 0.0 && mantissa.bytes().any(|digit| matches!(digit, b'1'..=b'9')) {
        return Parsed::Underflow(number);
    }
    Parsed::Exact(number)
}
