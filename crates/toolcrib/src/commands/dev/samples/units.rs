//! Units of length, mass, volume and temperature.

use serde::{Deserialize, Serialize};
use toolcrib_gate::{Context, ToolError};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The value.
    #[schemars(range(min = -1e15, max = 1e15))]
    value: f64,
    /// The unit of the value.
    from: Unit,
    /// The target unit, of the same quantity.
    to: Unit,
}

#[derive(Debug, Serialize, schemars::JsonSchema)]
pub(super) struct Output {
    /// The value in the target unit, to twelve digits.
    value: f64,
    /// The target unit.
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Mm,
    M,
    Km,
    In,
    Ft,
    Mi,
    Nmi,
    G,
    Kg,
    Oz,
    Lb,
    Ml,
    L,
    Gal,
    C,
    F,
    K,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Length,
    Mass,
    Volume,
    Temperature,
}

impl Unit {
    /// Returns the quantity, and the offset and factor to its base unit: metre, kilogram, litre, kelvin. The offset is added before the
    /// multiplication. Inches, pounds and gallons are the international and US ones, which are exact.
    const fn measure(self) -> (Quantity, f64, f64) {
        match self {
            Self::Mm => (Quantity::Length, 0.0, 0.001),
            Self::M => (Quantity::Length, 0.0, 1.0),
            Self::Km => (Quantity::Length, 0.0, 1_000.0),
            Self::In => (Quantity::Length, 0.0, 0.0254),
            Self::Ft => (Quantity::Length, 0.0, 0.3048),
            Self::Mi => (Quantity::Length, 0.0, 1_609.344),
            Self::Nmi => (Quantity::Length, 0.0, 1_852.0),
            Self::G => (Quantity::Mass, 0.0, 0.001),
            Self::Kg => (Quantity::Mass, 0.0, 1.0),
            Self::Oz => (Quantity::Mass, 0.0, 0.028_349_523_125),
            Self::Lb => (Quantity::Mass, 0.0, 0.453_592_37),
            Self::Ml => (Quantity::Volume, 0.0, 0.001),
            Self::L => (Quantity::Volume, 0.0, 1.0),
            Self::Gal => (Quantity::Volume, 0.0, 3.785_411_784),
            Self::C => (Quantity::Temperature, 273.15, 1.0),
            Self::F => (Quantity::Temperature, 459.67, 5.0 / 9.0),
            Self::K => (Quantity::Temperature, 0.0, 1.0),
        }
    }
}

pub(super) async fn convert(input: Input, _: Context) -> Result<Output, ToolError> {
    let (quantity, offset, factor) = input.from.measure();
    let (wanted, wanted_offset, wanted_factor) = input.to.measure();
    if quantity != wanted {
        let message = format!("{quantity:?} cannot become {wanted:?}").to_lowercase();
        return Err(ToolError::refused(message));
    }
    let base = (input.value + offset) * factor;
    if quantity == Quantity::Temperature && base < 0.0 {
        return Err(ToolError::refused("nothing is colder than absolute zero"));
    }
    Ok(Output { value: rounded(base / wanted_factor - wanted_offset), unit: input.to })
}

/// Rounds to twelve significant digits, so that 0.1 + 0.2 is 0.3.
fn rounded(value: f64) -> f64 {
    format!("{value:.11e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_conversions() {
        #[track_caller]
        fn check(value: f64, from: Unit, to: Unit, expected: f64) {
            let (_, offset, factor) = from.measure();
            let (_, wanted_offset, wanted_factor) = to.measure();
            assert_eq!(rounded((value + offset) * factor / wanted_factor - wanted_offset), expected, "{value} {from:?}");
        }
        check(26.2, Unit::Mi, Unit::Km, 42.1648128);
        check(12.0, Unit::In, Unit::Ft, 1.0);
        check(100.0, Unit::C, Unit::F, 212.0);
        check(-40.0, Unit::F, Unit::C, -40.0);
        check(0.0, Unit::K, Unit::C, -273.15);
        check(1.0, Unit::Gal, Unit::L, 3.785411784);
        check(16.0, Unit::Oz, Unit::Lb, 1.0);
    }
}
