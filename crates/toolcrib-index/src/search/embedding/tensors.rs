//! The table of a static embedding: a file in the safetensors format with one matrix.
//!
//! Eight bytes of length, that much JSON with the layout, and then numbers. Not `safetensors`, which reads headers of 100 MB and needs 2 s
//! of CPU time for one matrix. Not `half`, which enables the derive macros of zerocopy for the whole build; values beyond the range of 16
//! bits are clamped here, and become infinity there.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::DIMENSIONS;

/// The maximum file size: 256 32-bit numbers for each of 262,144 tokens.
pub(super) const MAX_BYTES: u64 = 272 << 20;

/// The maximum size of the header. For one matrix it has a hundred bytes.
const MAX_HEADER_BYTES: usize = 64 << 10;

/// The maximum number of rows: no tokenizer has more tokens.
const MAX_ROWS: usize = 1 << 18;

/// A matrix with a row for each token.
pub(super) struct Table {
    /// 16-bit floating-point numbers, as in most files: half the memory.
    values: Vec<u16>,
    columns: usize,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table({} x {})", self.rows(), self.columns)
    }
}

#[derive(Deserialize)]
struct Tensor {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: [usize; 2],
}

impl Table {
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let short = || "the file is truncated".to_owned();
        let (length, rest) = bytes.split_first_chunk::<8>().ok_or_else(short)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap_or(usize::MAX);
        if length > MAX_HEADER_BYTES {
            return Err(format!("its header has {length} bytes, the limit is {MAX_HEADER_BYTES}"));
        }
        let (header, data) = rest.split_at_checked(length).ok_or_else(short)?;
        let header: BTreeMap<String, serde_json::Value> =
            serde_json::from_slice(header).map_err(|_| "its header is not a JSON object".to_owned())?;
        let mut tensors = header.into_iter().filter(|(name, _)| name != "__metadata__").map(|(_, tensor)| tensor);
        let (Some(tensor), None) = (tensors.next(), tensors.next()) else {
            return Err("it does not contain exactly one matrix".to_owned());
        };
        let tensor: Tensor =
            serde_json::from_value(tensor).map_err(|_| "the description of its matrix is not valid".to_owned())?;
        let [rows, columns] = tensor.shape[..] else { return Err("its tensor is not a matrix".to_owned()) };
        if rows == 0 || rows > MAX_ROWS || columns == 0 || columns > DIMENSIONS {
            return Err(format!("its matrix is {rows} x {columns}, the limit is {MAX_ROWS} x {DIMENSIONS}"));
        }
        let width = match tensor.dtype.as_str() {
            "F16" => 2,
            "F32" => 4,
            other => {
                return Err(format!(
                    "its data type is {}, expected F16 or F32",
                    super::super::document::cut(other, 16).escape_debug()
                ));
            }
        };
        let [start, end] = tensor.data_offsets;
        let data = data.get(start..end).ok_or_else(short)?;
        if data.len() != rows * columns * width {
            return Err("the size of its matrix differs from its header".to_owned());
        }
        let values = match width {
            2 => data.as_chunks::<2>().0.iter().map(|bytes| u16::from_le_bytes(*bytes)).collect(),
            _ => data.as_chunks::<4>().0.iter().map(|bytes| half(f32::from_le_bytes(*bytes))).collect(),
        };
        Ok(Self { values, columns })
    }

    pub(super) const fn rows(&self) -> usize {
        self.values.len() / self.columns
    }

    /// Adds a row to a sum. NaN counts as zero.
    pub(super) fn add_row(&self, row: usize, sum: &mut [f32; DIMENSIONS]) {
        let Some(values) = self.values.get(row * self.columns..(row + 1) * self.columns) else { return };
        for (sum, value) in sum.iter_mut().zip(values) {
            let value = single(*value);
            if value.is_finite() {
                *sum += value;
            }
        }
    }
}

/// Converts a 16-bit float to 32 bits.
fn single(half: u16) -> f32 {
    let sign = u32::from(half >> 15) << 31;
    let exponent = u32::from(half >> 10 & 0x1f);
    let fraction = u32::from(half & 0x3ff);
    match (exponent, fraction) {
        (0, fraction) => {
            let value = fraction as f32 / 16_777_216.0;
            if sign == 0 { value } else { -value }
        }
        (31, _) => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// Converts a 32-bit float to 16 bits, rounding towards zero. Vectors are means of many: the last bit does not matter.
fn half(single: f32) -> u16 {
    let bits = single.to_bits();
    let sign = (bits >> 16 & 0x8000) as u16;
    let exponent = (bits >> 23 & 0xff) as i32 - 112;
    let fraction = (bits >> 13 & 0x3ff) as u16;
    match exponent {
        ..=0 => sign,
        31.. => sign | 0x7bff,
        exponent => sign | (exponent as u16) << 10 | fraction,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(header: &str, data: &[u8]) -> Vec<u8> {
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
    }

    #[test]
    fn numbers_of_both_widths_are_read() {
        for value in [0.0_f32, 1.0, -1.0, 0.5, -2.75, 1024.0, 0.000_061_035_156, 65504.0] {
            assert_eq!(single(half(value)), value);
        }
        assert_eq!(single(0x0001), 2.0_f32.powi(-24));
        assert!(single(0x7c00).is_infinite() && single(0x7e00).is_nan());
        assert_eq!(half(1e9), 0x7bff);
        let wide = file(
            r#"{"m":{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}}"#,
            &[1.5_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat(),
        );
        let narrow = file(
            r#"{"__metadata__":{"format":"pt"},"m":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}"#,
            &[half(1.5).to_le_bytes(), half(2.0).to_le_bytes()].concat(),
        );
        for bytes in [wide, narrow] {
            let table = Table::read(&bytes).expect("a table");
            let mut sum = [0.0; DIMENSIONS];
            table.add_row(0, &mut sum);
            table.add_row(7, &mut sum);
            assert_eq!(sum[..3], [1.5, 2.0, 0.0]);
        }
    }

    #[test]
    fn what_lies_about_itself_is_refused() {
        for (header, data) in [
            ("[]", 0),
            ("{}", 0),
            (r#"{"m":{"dtype":"F16","shape":[1,2],"data_offsets":[0,4]}}"#, 2),
            (r#"{"m":{"dtype":"F16","shape":[2,2],"data_offsets":[0,4]}}"#, 4),
            (r#"{"m":{"dtype":"F16","shape":[1,2],"data_offsets":[4,0]}}"#, 8),
            (r#"{"m":{"dtype":"F16","shape":[0,2],"data_offsets":[0,0]}}"#, 8),
            (r#"{"m":{"dtype":"F16","shape":[4611686018427387904,4],"data_offsets":[0,0]}}"#, 8),
            (r#"{"m":{"dtype":"F16","shape":[1,2,1],"data_offsets":[0,4]}}"#, 4),
            (r#"{"m":{"dtype":"I8","shape":[1,2],"data_offsets":[0,2]}}"#, 4),
            (
                r#"{"m":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]},"n":{"dtype":"F16","shape":[1,1],"data_offsets":[0,2]}}"#,
                4,
            ),
        ] {
            assert!(Table::read(&file(header, &vec![0; data])).is_err(), "{header}");
        }
        assert!(Table::read(&u64::MAX.to_le_bytes()).is_err());
        assert!(Table::read(&[1, 2, 3]).is_err());
    }
}
