//! Plans of copies of arrays into C order, and out of it.

use std::ptr;

use crate::abi;
use crate::driver::Rows;
use crate::error::{Result, fail};
use crate::layout::Layout;

const DIMENSIONS: usize = abi::CAI_MAX_NDIM as usize;

/// The failure for an array that no memory can hold.
pub fn too_large<T>() -> Result<T> {
    fail!(CAI_ERR_SIZE_OVERFLOW, "shape";
        found "more bytes than there is memory"; expected "a size that can be copied")
}

/// One dimension with more than one index, of which the original has more than one element.
#[derive(Clone, Copy, Default)]
struct Axis {
    extent: usize,
    /// Bytes from one index to the next in the original, without its sign.
    pitch: usize,
    dimension: usize,
}

/// Plan of a copy: rows without gaps are copied into a stage, which has them one after
/// another; bytes between them are never read. Elements that overlap are copied once. If the stage
/// is not the copy in C order already, elements are gathered from it.
pub struct Plan<'a> {
    shape: &'a [i64],
    itemsize: usize,
    /// Bytes of the copy.
    pub bytes: usize,
    /// Bytes of the stage.
    pub staged: usize,
    /// Distance of the lowest address from the element with index zero: 0 or negative.
    pub lowest: i64,
    /// Bytes in a row.
    row: usize,
    /// The dimensions with gaps, the smallest pitch first.
    loops: [Axis; DIMENSIONS],
    count: usize,
    /// Distance in the stage for one step of each dimension.
    steps: [i64; DIMENSIONS],
    /// Place of the element with index zero in the stage.
    first: usize,
    /// The stage is the copy.
    pub direct: bool,
    /// Two indices share bytes for certain, as with a stride of 0.
    pub repeats: bool,
}

impl<'a> Plan<'a> {
    pub fn new(layout: &Layout<'a>) -> Result<Self> {
        let shape = layout.shape;
        let mut plan = Plan {
            shape,
            itemsize: (layout.bits / 8).max(1) as usize,
            bytes: 0,
            staged: 0,
            lowest: 0,
            row: 0,
            loops: [Axis::default(); DIMENSIONS],
            count: 0,
            steps: [0; DIMENSIONS],
            first: 0,
            direct: true,
            repeats: false,
        };
        let total = layout.nbytes()?;
        plan.bytes = usize::try_from(total).or_else(|_| too_large())?;
        plan.staged = plan.bytes;
        plan.row = plan.bytes;
        if plan.bytes == 0 || layout.is_packed_bits() || layout.is_c_contiguous() {
            // One row, in order.
            return Ok(plan);
        }
        plan.lowest = layout.span()?.lower;
        let mut strides = [0; DIMENSIONS];
        layout.write_strides(&mut strides[..shape.len()])?;
        let mut axes = [Axis::default(); DIMENSIONS];
        let mut used = 0;
        for (dimension, (&extent, &stride)) in shape.iter().zip(&strides).enumerate() {
            // A stride of 0 repeats elements, which are copied once.
            plan.repeats |= extent > 1 && stride == 0;
            if extent > 1 && stride != 0 {
                // Sorted by the pitch: a sort of the standard library is 4 KB of code.
                let pitch = stride.unsigned_abs() as usize;
                let place = axes[..used].partition_point(|axis| axis.pitch <= pitch);
                axes.copy_within(place..used, place + 1);
                axes[place] = Axis { extent: extent as usize, pitch, dimension };
                used += 1;
            }
        }
        plan.row = plan.itemsize;
        let mut block = 0;
        for axis in &axes[..used] {
            let step;
            if block == 0 && axis.pitch <= plan.row {
                // Adjacent rows, or overlapping ones.
                plan.repeats |= axis.pitch < plan.row;
                step = axis.pitch;
                plan.row += axis.pitch * (axis.extent - 1);
            } else {
                block = if block == 0 { plan.row } else { block };
                step = block;
                block = block.checked_mul(axis.extent).ok_or(()).or_else(|()| too_large())?;
                let last = plan.count.checked_sub(1).map(|last| &mut plan.loops[last]);
                match last {
                    // One dimension continues the other.
                    Some(last) if last.pitch * last.extent == axis.pitch => {
                        last.extent *= axis.extent;
                    }
                    _ => {
                        plan.loops[plan.count] = *axis;
                        plan.count += 1;
                    }
                }
            }
            if strides[axis.dimension] < 0 {
                plan.first += step * (axis.extent - 1);
                plan.steps[axis.dimension] = -(step as i64);
            } else {
                plan.steps[axis.dimension] = step as i64;
            }
        }
        plan.staged = if block == 0 { plan.row } else { block };
        let mut expected = plan.itemsize as i64;
        plan.direct = shape.iter().zip(&plan.steps).rev().all(|(&extent, &step)| {
            let in_order = extent == 1 || step == expected;
            expected *= extent;
            in_order
        });
        Ok(plan)
    }

    /// Calls `body` with the offset of rows from the lowest address, with their place in the stage,
    /// and with the rows.
    pub fn for_each_rows(
        &self,
        mut body: impl FnMut(usize, usize, Rows) -> Result<()>,
    ) -> Result<()> {
        let (rows, outer) = match &self.loops[..self.count] {
            [] => (Rows { width: self.row, height: 1, pitch: self.row }, &[][..]),
            [first, outer @ ..] => {
                (Rows { width: self.row, height: first.extent, pitch: first.pitch }, outer)
            }
        };
        let mut indices = [0; DIMENSIONS];
        let mut at = 0;
        loop {
            let offset =
                outer.iter().zip(&indices).map(|(axis, &index)| axis.pitch * index).sum::<usize>();
            body(offset, at, rows)?;
            at += rows.width * rows.height;
            let mut more = false;
            for (axis, index) in outer.iter().zip(&mut indices) {
                *index += 1;
                if *index < axis.extent {
                    more = true;
                    break;
                }
                *index = 0;
            }
            if !more {
                return Ok(());
            }
        }
    }

    /// Copies elements from the stage into C order.
    ///
    /// # Safety
    /// `stage` has `staged` readable bytes, and `to` has `bytes` writable ones.
    pub unsafe fn gather(&self, stage: *const u8, to: *mut u8) {
        self.for_each_element(|from, at| {
            // SAFETY: `from` is the place of an element in the stage, `at` one in the copy.
            unsafe { ptr::copy_nonoverlapping(stage.add(from), to.add(at), self.itemsize) };
        });
    }

    /// Copies elements from C order into the stage: the inverse of `gather`.
    ///
    /// # Safety
    /// `from` has `bytes` readable bytes, and `stage` has `staged` writable ones.
    pub unsafe fn scatter(&self, from: *const u8, stage: *mut u8) {
        self.for_each_element(|to, at| {
            // SAFETY: `to` is the place of an element in the stage, `at` one in the copy.
            unsafe { ptr::copy_nonoverlapping(from.add(at), stage.add(to), self.itemsize) };
        });
    }

    /// Calls `body` with each element's place in the stage, by the steps of `new`, and in the copy.
    fn for_each_element(&self, mut body: impl FnMut(usize, usize)) {
        let ndim = self.shape.len();
        let mut indices = [0i64; DIMENSIONS];
        let mut from = self.first as i64;
        let mut at = 0;
        while at < self.bytes {
            body(from as usize, at);
            at += self.itemsize;
            for dimension in (0..ndim).rev() {
                indices[dimension] += 1;
                from += self.steps[dimension];
                if indices[dimension] < self.shape[dimension] {
                    break;
                }
                from -= self.steps[dimension] * self.shape[dimension];
                indices[dimension] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies by the plan and element by element, for many layouts over the same memory.
    #[test]
    fn plans_copy_every_layout() {
        let memory: Vec<u8> = (0..4096u32).map(|n| (n * 31 % 251) as u8).collect();
        let extents = [1i64, 2, 3, 5];
        let strides = [0i64, 1, 2, -2, 3, 4, -4, 8, 10, -12, 40, 64];
        let mut tried = 0;
        for itemsize in [1i64, 2, 4] {
            for &a in &extents {
                for &b in &extents {
                    for &c in &extents {
                        for &x in &strides {
                            for &y in &strides {
                                for &z in &[2i64, -4, 40] {
                                    one(&memory, itemsize, &[a, b, c], &[x, y, z]);
                                    tried += 1;
                                }
                            }
                        }
                    }
                }
            }
        }
        assert_eq!(tried, 3 * 64 * 144 * 3);
    }

    fn one(memory: &[u8], itemsize: i64, shape: &[i64], strides: &[i64]) {
        let layout = Layout { shape, strides: Some(strides), bits: itemsize * 8 };
        let plan = Plan::new(&layout).ok().unwrap();
        let origin = 2048i64;
        let mut expected = Vec::new();
        let mut touched = std::collections::HashSet::new();
        for i in 0..shape[0] {
            for j in 0..shape[1] {
                for k in 0..shape[2] {
                    let at = origin + i * strides[0] + j * strides[1] + k * strides[2];
                    for byte in at..at + itemsize {
                        expected.push(memory[byte as usize]);
                        touched.insert(byte);
                    }
                }
            }
        }
        assert_eq!(plan.bytes, expected.len());
        let mut stage = vec![0; plan.staged];
        let lowest = origin + plan.lowest;
        plan.for_each_rows(|offset, at, rows| {
            for row in 0..rows.height {
                let from = lowest + (offset + row * rows.pitch) as i64;
                for byte in 0..rows.width {
                    assert!(touched.contains(&(from + byte as i64)), "{shape:?} {strides:?}");
                    stage[at + row * rows.width + byte] = memory[from as usize + byte];
                }
            }
            Ok(())
        })
        .ok()
        .unwrap();
        let shared = touched.len() < plan.bytes;
        if plan.repeats || !shared {
            // What is refused for certain, and what must not be.
            assert_eq!(plan.repeats, shared, "{shape:?} {strides:?} {itemsize}");
        }
        if !shared && !plan.direct {
            // The way back writes the stage as it was copied.
            let mut again = vec![0; plan.staged];
            // SAFETY: both have the sizes of the plan.
            unsafe { plan.scatter(expected.as_ptr(), again.as_mut_ptr()) };
            assert_eq!(again, stage, "{shape:?} {strides:?} {itemsize}");
        }
        let mut found = vec![0; plan.bytes];
        if !plan.direct {
            // SAFETY: both have the sizes of the plan.
            unsafe { plan.gather(stage.as_ptr(), found.as_mut_ptr()) };
        } else {
            found.copy_from_slice(&stage);
        }
        assert_eq!(found, expected, "{shape:?} {strides:?} {itemsize}");
    }
}
