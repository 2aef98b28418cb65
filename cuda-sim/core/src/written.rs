//! Numbers that one place in memory had, one after another, in a size that does not grow.

/// Returns whether a number ends a wait for a value.
pub fn satisfies(found: u64, value: u64, wide: bool, flags: u32) -> bool {
    let difference = if wide {
        found.wrapping_sub(value) as i64
    } else {
        i64::from((found as u32).wrapping_sub(value as u32) as i32)
    };
    match flags & 3 {
        0 => difference >= 0,
        1 => found == value,
        2 => found & value != 0,
        _ => !(found | value) != 0 && (wide || (!(found | value) as u32) != 0),
    }
}

/// One number, or several that are not kept apart any more: the first, the last, and bounds of all.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Written {
    pub first: u64,
    pub last: u64,
    pub low: u64,
    pub high: u64,
    /// The bits of any of them, and those of all.
    pub any: u64,
    pub all: u64,
    pub count: u64,
}

/// Which of the numbers ends a wait.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum End {
    First,
    Last,
    /// One after the first, up to the last, or none.
    Between,
}

impl Written {
    pub fn one(value: u64) -> Written {
        let (first, last, low, high, any, all) = (value, value, value, value, value, value);
        Written { first, last, low, high, any, all, count: 1 }
    }

    /// Adds the numbers that came next.
    pub fn then(self, later: Written) -> Written {
        Written {
            first: self.first,
            last: later.last,
            low: self.low.min(later.low),
            high: self.high.max(later.high),
            any: self.any | later.any,
            all: self.all & later.all,
            count: self.count + later.count,
        }
    }

    /// Returns the 32 bits of each number from one bit on.
    pub fn half(self, from: u32) -> Written {
        let of = |value: u64| value >> from & 0xffff_ffff;
        let (first, last) = (of(self.first), of(self.last));
        let ends = Written::one(first).then(Written::one(last));
        let count = self.count;
        match count {
            1 => Written::one(first),
            2 => ends,
            _ => Written { low: 0, high: 0xffff_ffff, any: 0xffff_ffff, all: 0, count, ..ends },
        }
    }

    /// Returns whether all numbers are the same.
    pub fn are_equal(self, other: Written) -> bool {
        let all = self.then(other);
        all.low == all.high
    }

    /// Returns which of the numbers is the first that ends a wait; `None` if none can.
    pub fn end(&self, value: u64, wide: bool, flags: u32) -> Option<End> {
        let ends = |found| satisfies(found, value, wide, flags);
        if ends(self.first) {
            return Some(End::First);
        }
        if self.count <= 2 || self.low == self.high {
            return ends(self.last).then_some(End::Last);
        }
        let may_end = match flags & 3 {
            0 => ends(self.low) || (self.low..=self.high).contains(&value),
            1 => (self.low..=self.high).contains(&value),
            2 => ends(self.any),
            _ => ends(self.all),
        };
        may_end.then_some(End::Between)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_number_that_ends_a_wait_is_missed() {
        let mut seed = 7_u64;
        let mut random = || {
            seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            seed >> 33
        };
        for _ in 0..200_000 {
            let (wide, flags) = (random() % 2 == 0, (random() % 4) as u32);
            let shift = if wide { 62 } else { 30 };
            let mut number = || (random() % 8) ^ (random() % 4) << shift;
            let numbers: Vec<u64> = (0..1 + number() % 5).map(|_| number()).collect();
            let value = number();
            let all = numbers.iter().copied().map(Written::one).reduce(Written::then).unwrap();
            let ending = numbers.iter().position(|one| satisfies(*one, value, wide, flags));
            let found = all.end(value, wide, flags);
            match ending {
                Some(0) => assert_eq!(found, Some(End::First)),
                Some(_) if numbers.len() == 2 => assert_eq!(found, Some(End::Last)),
                Some(_) => assert_eq!(found, Some(End::Between)),
                None => assert!(numbers.len() > 2 || found.is_none()),
            }
        }
    }
}
