//! Which bytes an operation touches: blocks repeated along strides, taken apart into contiguous ranges. No
//! other room is used; no `unsafe`.

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const MAX_NDIM: usize = 8;

/// As `cudasim_access` in cudasim.h: blocks of `nbytes`, repeated `count[d]` times at `stride[d]` bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub address: u64,
    pub nbytes: u64,
    pub mode: u32,
    pub ndim: u32,
    pub count: [i64; MAX_NDIM],
    pub stride: [i64; MAX_NDIM],
}

impl Access {
    pub fn range(address: u64, nbytes: u64, mode: u32) -> Access {
        Access { address, nbytes, mode, ndim: 0, count: [0; MAX_NDIM], stride: [0; MAX_NDIM] }
    }

    /// `rows` rows of `width` bytes, `pitch` bytes apart.
    pub fn rows(address: u64, width: u64, pitch: u64, rows: u64, mode: u32) -> Access {
        let mut access = Access::range(address, width, mode);
        access.ndim = 1;
        access.count[0] = rows as i64;
        access.stride[0] = pitch as i64;
        access
    }

    /// From the first byte to behind the last one.
    pub fn hull(&self) -> (u64, u64) {
        let (mut from, mut to) = (self.address, self.address.saturating_add(self.nbytes));
        for d in 0..(self.ndim as usize).min(MAX_NDIM) {
            if self.count[d] <= 0 {
                return (self.address, self.address);
            }
            let reach = self.stride[d].unsigned_abs().saturating_mul(self.count[d] as u64 - 1);
            if self.stride[d] < 0 {
                from = from.saturating_sub(reach);
            } else {
                to = to.saturating_add(reach);
            }
        }
        (from, to)
    }

    /// Calls `each` with the beginning and the end of every contiguous range.
    pub fn for_each_range(&self, mut each: impl FnMut(u64, u64)) {
        let (mut address, mut nbytes) = (self.address, self.nbytes);
        let ndim = (self.ndim as usize).min(MAX_NDIM);
        let mut dimensions = [(0u64, 0u64); MAX_NDIM]; // step, count
        let mut n = 0;
        for d in 0..ndim {
            let (count, stride) = (self.count[d], self.stride[d]);
            if count <= 0 {
                return;
            }
            if count == 1 || stride == 0 {
                continue;
            }
            if stride < 0 {
                address = address.wrapping_sub(stride.unsigned_abs().wrapping_mul(count as u64 - 1));
            }
            dimensions[n] = (stride.unsigned_abs(), count as u64);
            n += 1;
        }
        if nbytes == 0 {
            return;
        }
        let dimensions = &mut dimensions[..n];
        dimensions.sort_unstable();
        // A step no longer than the block makes one longer block.
        let mut outer = 0;
        while outer < n && dimensions[outer].0 <= nbytes {
            nbytes += dimensions[outer].0.saturating_mul(dimensions[outer].1 - 1);
            outer += 1;
        }
        let dimensions = &dimensions[outer..];
        let mut index = [0u64; MAX_NDIM];
        loop {
            let offset = dimensions
                .iter()
                .zip(index)
                .fold(0u64, |sum, ((step, _), i)| sum.wrapping_add(step.wrapping_mul(i)));
            let start = address.wrapping_add(offset);
            each(start, start.saturating_add(nbytes));
            let mut d = 0;
            loop {
                if d == dimensions.len() {
                    return;
                }
                index[d] += 1;
                if index[d] < dimensions[d].1 {
                    break;
                }
                index[d] = 0;
                d += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn bytes(access: &Access) -> BTreeSet<u64> {
        let mut found = BTreeSet::new();
        access.for_each_range(|from, to| found.extend(from..to));
        found
    }

    /// One block at a time, as the definition says.
    fn slowly(access: &Access) -> BTreeSet<u64> {
        let mut starts = vec![access.address as i64];
        for d in 0..access.ndim as usize {
            starts = (0..access.count[d].max(0))
                .flat_map(|i| {
                    starts.iter().map(move |start| start + i * access.stride[d]).collect::<Vec<_>>()
                })
                .collect();
        }
        starts.iter().flat_map(|start| *start as u64..*start as u64 + access.nbytes).collect()
    }

    #[test]
    fn ranges_are_the_bytes() {
        for nbytes in [0, 1, 3, 4, 9] {
            for (c0, s0) in [(0, 4), (1, 99), (3, 4), (3, 5), (4, -4), (2, 0), (3, -7)] {
                for (c1, s1) in [(1, 0), (2, 12), (3, 40), (2, -20), (3, 2)] {
                    let mut access = Access::range(1000, nbytes, READ);
                    access.ndim = 2;
                    (access.count[0], access.stride[0]) = (c0, s0);
                    (access.count[1], access.stride[1]) = (c1, s1);
                    let found = bytes(&access);
                    assert_eq!(found, slowly(&access), "{access:?}");
                    let hull = found.first().map(|first| (*first, found.last().unwrap() + 1));
                    assert!(hull.is_none_or(|hull| access.hull() == hull), "{access:?}");
                }
            }
        }
    }

    #[test]
    fn dense_rows_are_one_range() {
        let mut n = 0;
        Access::rows(0, 64, 64, 1000, WRITE).for_each_range(|from, to| {
            assert_eq!((from, to), (0, 64_000));
            n += 1;
        });
        assert_eq!(n, 1);
    }
}
