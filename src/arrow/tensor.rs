//! Arrow's extension type `arrow.fixed_shape_tensor`: lists whose elements form tensors.

use crate::abi::CAI_MAX_NDIM;
use crate::error::{Result, Text};
use crate::memory;

pub const NAME: &[u8] = b"arrow.fixed_shape_tensor";

const DIMENSIONS: usize = CAI_MAX_NDIM as usize;

/// Integers of the metadata, at most one for each dimension.
#[derive(Clone, Copy)]
struct Row {
    values: [i64; DIMENSIONS],
    count: usize,
}

impl Row {
    fn values(&self) -> &[i64] {
        self.values.get(..self.count).unwrap_or_default()
    }
}

/// The shape of each tensor as it is stored, in C order, and how its dimensions are to be ordered.
pub struct Tensor {
    shape: Row,
    permutation: Option<Row>,
}

impl Tensor {
    /// Parses the metadata of the type, for lists of `size` elements. `None` if they are malformed,
    /// or describe another number of elements.
    pub fn parse(metadata: &[u8], size: i64) -> Option<Tensor> {
        let mut text = Json(metadata);
        let (mut shape, mut permutation) = (None, None);
        text.expect(b'{')?;
        while !text.accept(b'}') {
            match text.string()? {
                b"shape" => shape = Some(text.after(b':')?.row()?),
                b"permutation" => permutation = text.after(b':')?.row_or_null()?,
                _ => text.after(b':')?.skip()?,
            }
            text.accept(b',');
        }
        let tensor = Tensor { shape: shape?, permutation };
        let extents = tensor.shape.values();
        let count = extents.iter().try_fold(1i64, |count, &extent| count.checked_mul(extent))?;
        let is_sound = extents.iter().all(|&extent| extent >= 0) && count == size;
        (is_sound && tensor.is_permutation()).then_some(tensor)
    }

    fn is_permutation(&self) -> bool {
        let Some(permutation) = &self.permutation else { return true };
        permutation.count == self.shape.count
            && (0..self.shape.count as i64).all(|index| permutation.values().contains(&index))
    }

    pub fn ndim(&self) -> usize {
        self.shape.count
    }

    /// Returns the extents in the stored order.
    pub fn extents(&self) -> &[i64] {
        self.shape.values()
    }

    /// Returns the stored dimensions in their proper order, unless it is the stored one.
    pub fn permutation(&self) -> Option<&[i64]> {
        let values = self.permutation.as_ref()?.values();
        (!values.is_sorted()).then_some(values)
    }
}

/// Makes the metadata of a schema of this type. Of each stored dimension, `order` says which of
/// `extents` it has.
pub fn metadata(extents: &[i64], order: &[usize]) -> Result<Vec<u8>> {
    const SIZE: usize = 48 + DIMENSIONS * 24;
    let mut permutation = [0; DIMENSIONS];
    for (place, &of) in order.iter().enumerate() {
        permutation[of] = place as i64;
    }
    let permutation = &permutation[..order.len()];
    let mut json: Text<SIZE> = Text::new(format_args!("{{\"shape\":["));
    let mut separator = "";
    for &of in order {
        // At most 31 extents are above 1, so the text has space for all.
        let _ = write!(json, "{separator}{}", extents[of]);
        separator = ",";
    }
    if !permutation.is_sorted() {
        separator = "],\"permutation\":[";
        for place in permutation {
            let _ = write!(json, "{separator}{place}");
            separator = ",";
        }
    }
    let _ = write!(json, "]}}");
    let texts: [&[u8]; 4] =
        [b"ARROW:extension:name", NAME, b"ARROW:extension:metadata", json.as_str().as_bytes()];
    let size = 4 + texts.iter().map(|text| 4 + text.len()).sum::<usize>();
    let mut out = memory::with_capacity(size)?;
    out.extend(2i32.to_ne_bytes());
    for text in texts {
        out.extend((text.len() as i32).to_ne_bytes());
        out.extend_from_slice(text);
    }
    Ok(out)
}

/// The rest of a text. Its methods return `None` where the text is not what they expect.
struct Json<'a>(&'a [u8]);

impl<'a> Json<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn accept(&mut self, byte: u8) -> bool {
        self.0 = self.0.trim_ascii_start();
        let is_next = self.0.first() == Some(&byte);
        if is_next {
            self.next();
        }
        is_next
    }

    fn expect(&mut self, byte: u8) -> Option<()> {
        self.accept(byte).then_some(())
    }

    fn after(&mut self, byte: u8) -> Option<&mut Self> {
        self.expect(byte)?;
        Some(self)
    }

    /// A string as it is written. The keys that matter have no escapes.
    fn string(&mut self) -> Option<&'a [u8]> {
        self.expect(b'"')?;
        let all = self.0;
        loop {
            match self.next()? {
                b'"' => return all.get(..all.len().checked_sub(self.0.len())?.checked_sub(1)?),
                b'\\' => _ = self.next()?,
                _ => {}
            }
        }
    }

    fn integer(&mut self) -> Option<i64> {
        self.0 = self.0.trim_ascii_start();
        let end = self.0.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(end)?;
        self.0 = rest;
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    fn row(&mut self) -> Option<Row> {
        let mut row = Row { values: [0; DIMENSIONS], count: 0 };
        self.expect(b'[')?;
        while !self.accept(b']') {
            *row.values.get_mut(row.count)? = self.integer()?;
            row.count += 1;
            self.accept(b',');
        }
        Some(row)
    }

    fn row_or_null(&mut self) -> Option<Option<Row>> {
        self.0 = self.0.trim_ascii_start();
        match self.0.strip_prefix(b"null") {
            Some(rest) => {
                self.0 = rest;
                Some(None)
            }
            None => self.row().map(Some),
        }
    }

    fn skip(&mut self) -> Option<()> {
        let mut depth = 0u32;
        loop {
            self.0 = self.0.trim_ascii_start();
            match *self.0.first()? {
                b'"' => _ = self.string()?,
                b',' | b'}' if depth == 0 => return Some(()),
                b'[' | b'{' => {
                    depth = depth.checked_add(1)?;
                    self.next();
                }
                b']' | b'}' => {
                    depth = depth.checked_sub(1)?;
                    self.next();
                }
                _ => _ = self.next(),
            }
        }
    }
}
