//! Which bytes an operation touches: blocks repeated along strides, split into contiguous ranges.

pub const READ: u32 = 1;
pub const WRITE: u32 = 2;
pub const MAX_NDIM: usize = 8;

/// As `cudasim_access` in cudasim.h: blocks of `nbytes`, repeated `count[d]` times at `stride[d]`
/// bytes.
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

    /// Returns the range from the first byte to the end of the last one.
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

    /// Returns whether both describe the same blocks, whatever their mode.
    pub fn same_bytes(&self, other: &Access) -> bool {
        let of = |access: &Access| {
            (access.address, access.nbytes, access.ndim, access.count, access.stride)
        };
        of(self) == of(other)
    }

    pub fn hulls_touch(&self, other: &Access) -> bool {
        let ((from, to), (start, end)) = (self.hull(), other.hull());
        start < to && from < end
    }

    pub fn touches(&self, from: u64, to: u64) -> bool {
        let (start, end) = self.hull();
        if end <= from || to <= start {
            return false;
        }
        let mut found = false;
        self.for_each_range(|start, end| found |= start < to && from < end);
        found
    }

    /// Returns the contiguous ranges in order, merged if they touch.
    pub fn ranges(&self) -> Vec<(u64, u64)> {
        let mut all = Vec::new();
        self.for_each_range(|from, to| all.push((from, to)));
        all.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::with_capacity(all.len());
        for (from, to) in all {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged
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
                address =
                    address.wrapping_sub(stride.unsigned_abs().wrapping_mul(count as u64 - 1));
            }
            dimensions[n] = (stride.unsigned_abs(), count as u64);
            n += 1;
        }
        if nbytes == 0 {
            return;
        }
        let dimensions = &mut dimensions[..n];
        dimensions.sort_unstable();
        // A step no longer than the block extends the block.
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

/// Returns the intersection of two ordered lists of ranges.
pub fn common(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let (mut i, mut j, mut found) = (0, 0, Vec::new());
    while i < a.len() && j < b.len() {
        let (from, to) = (a[i].0.max(b[j].0), a[i].1.min(b[j].1));
        if from < to {
            found.push((from, to));
        }
        if a[i].1 < b[j].1 { i += 1 } else { j += 1 }
    }
    found
}

/// Returns the ranges of the first list without those of the second.
pub fn without(a: &[(u64, u64)], b: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut left = Vec::new();
    let mut j = 0;
    for &(mut from, to) in a {
        while j < b.len() && b[j].1 <= from {
            j += 1;
        }
        let mut k = j;
        while k < b.len() && b[k].0 < to {
            if from < b[k].0 {
                left.push((from, b[k].0));
            }
            from = from.max(b[k].1);
            k += 1;
        }
        if from < to {
            left.push((from, to));
        }
    }
    left
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

    /// One block at a time, as in the definition.
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
    fn lists_of_ranges() {
        let pieces = |ranges: &[(u64, u64)]| -> BTreeSet<u64> {
            ranges.iter().flat_map(|(from, to)| *from..*to).collect()
        };
        let mut seed = 1u64;
        let mut next = |n: u64| {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (seed >> 33) % n
        };
        for _ in 0..1000 {
            let mut any = || {
                let mut access = Access::range(next(20), next(5), READ);
                access.ndim = 1;
                (access.count[0], access.stride[0]) = (next(5) as i64, next(9) as i64);
                access
            };
            let (one, other) = (any(), any());
            let (a, b) = (one.ranges(), other.ranges());
            assert_eq!(pieces(&a), bytes(&one));
            assert_eq!(pieces(&common(&a, &b)), &pieces(&a) & &pieces(&b));
            assert_eq!(pieces(&without(&a, &b)), &pieces(&a) - &pieces(&b));
            let from = next(30);
            let to = from + 1 + next(10);
            assert_eq!(one.touches(from, to), bytes(&one).range(from..to).next().is_some());
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
