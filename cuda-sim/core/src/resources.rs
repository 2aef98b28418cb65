//! The resource that green contexts divide: the streaming multiprocessors of a device.
//!
//! They are divided by the rules for compute capability 9.0. No code runs on them, so fewer of them
//! do not make anything slower.

use crate::results::{Code, Result, refuse_if};

/// `CU_DEV_RESOURCE_TYPE_SM`; workqueues are not simulated.
pub const SM: u32 = 1;
pub const SM_COUNT: u32 = 132;
/// Multiprocessors that can run one cluster come in groups of eight; without clusters, in pairs.
const CLUSTER: u32 = 8;
const PAIR: u32 = 2;
const IGNORE_COSCHEDULING: u32 = 1;
const FLAGS: u32 = 3;

/// A set of multiprocessors, one bit for each.
pub type Sms = [u64; 3];

/// `CUdevResource`. The driver stores the origin of the resource in its private part.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct DevResource {
    kind: u32,
    device: i32,
    seal: u64,
    /// The split that created it; 0 if it came from a device, a context or a stream.
    split: u64,
    sms: Sms,
    unused: [u64; 6],
    count: u32,
    smallest: u32,
    alignment: u32,
    rest: [u32; 7],
    next: u64,
}
const _: () =
    assert!(size_of::<DevResource>() == 144 && std::mem::offset_of!(DevResource, count) == 96);

const SEAL: u64 = u64::from_le_bytes(*b"cuda-sim");

fn all() -> Sms {
    take(&mut [u64::MAX; 3], SM_COUNT)
}

fn count(sms: &Sms) -> u32 {
    sms.iter().map(|word| word.count_ones()).sum()
}

/// Removes and returns the first multiprocessors of a set.
fn take(from: &mut Sms, how_many: u32) -> Sms {
    let mut taken = Sms::default();
    for _ in 0..how_many {
        if let Some(at) = from.iter().position(|word| *word != 0) {
            let lowest = from[at] & from[at].wrapping_neg();
            from[at] ^= lowest;
            taken[at] |= lowest;
        }
    }
    taken
}

fn resource(device: i32, sms: Sms, split: u64, alignment: u32) -> DevResource {
    let count = count(&sms);
    let kind = if count == 0 { 0 } else { SM };
    let (seal, smallest) = (SEAL, alignment);
    let rest = DevResource { count, smallest, alignment, ..DevResource::default() };
    DevResource { kind, device, seal, split, sms, ..rest }
}

/// Returns the resource of a device or a context. `sms`: its multiprocessors; `None` for all.
pub fn available(device: i32, sms: Option<Sms>, kind: u32) -> Result<DevResource> {
    refuse_if(kind != SM, Code::INVALID_RESOURCE_TYPE)?;
    Ok(resource(device, sms.unwrap_or_else(all), 0, CLUSTER))
}

fn check(resource: &DevResource) -> Result {
    match resource {
        DevResource { kind, .. } if *kind != SM => Err(Code::INVALID_RESOURCE_TYPE),
        DevResource { seal, .. } if *seal != SEAL => Err(Code::INVALID_VALUE),
        _ => Ok(()),
    }
}

/// Returns groups of at least `least` multiprocessors, and the rest. `at_most`: the maximum number
/// of groups; `None` for no maximum. `split`: a unique number of this split.
/// [cuDevSmResourceSplitByCount]
pub fn split(
    input: &DevResource,
    at_most: Option<u32>,
    flags: u32,
    least: u32,
    split: u64,
) -> Result<(Vec<DevResource>, DevResource)> {
    check(input)?;
    if flags & !FLAGS != 0 || least > input.count || at_most == Some(0) {
        return Err(Code::INVALID_VALUE);
    }
    refuse_if(input.split != 0, Code::INVALID_RESOURCE_CONFIGURATION)?;
    let alignment = if flags & IGNORE_COSCHEDULING != 0 { PAIR } else { CLUSTER };
    let each = least.max(1).next_multiple_of(alignment);
    let groups = (input.count / each).min(at_most.unwrap_or(u32::MAX));
    refuse_if(groups == 0 && at_most.is_some(), Code::INVALID_RESOURCE_CONFIGURATION)?;
    let mut left = input.sms;
    let of = |sms| resource(input.device, sms, split, alignment);
    Ok(((0..groups).map(|_| of(take(&mut left, each))).collect(), of(left)))
}

/// `CU_DEV_SM_RESOURCE_GROUP_PARAMS`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct GroupParams {
    pub count: u32,
    together: u32,
    preferred: u32,
    flags: u32,
    domain: u32,
    reserved: [u32; 11],
}
const _: () = assert!(size_of::<GroupParams>() == 64);

const BACKFILL: u32 = 1;
const MOST_TOGETHER: u32 = 32;

/// Returns one group for each of the parameters, and the rest. A count of 0 is replaced by what is
/// available. `made`: whether the caller takes the groups, which then must not be empty. `split`:
/// a unique number of this split. [cuDevSmResourceSplit]
pub fn split_groups(
    input: &DevResource,
    groups: &mut [GroupParams],
    made: bool,
    split: u64,
) -> Result<(Vec<DevResource>, DevResource)> {
    check(input)?;
    refuse_if(groups.is_empty(), Code::INVALID_VALUE)?;
    refuse_if(input.split != 0, Code::INVALID_RESOURCE_CONFIGURATION)?;
    let mut left = input.sms;
    let mut parts = Vec::with_capacity(groups.len());
    for group in groups {
        let fills = group.flags & BACKFILL != 0;
        let together = if group.together == 0 { CLUSTER } else { group.together };
        // Without locality domains.
        if group.flags & !BACKFILL != 0
            || group.reserved != [0; 11]
            || together % PAIR != 0
            || together > MOST_TOGETHER
            || group.count % PAIR != 0
            || group.count > input.count
            || (!fills && group.count % together != 0)
        {
            return Err(Code::INVALID_VALUE);
        }
        let rest = count(&left);
        if group.count == 0 {
            group.count = if fills { rest } else { rest - rest % together };
        }
        if group.count > rest || (made && group.count < together) {
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
        parts.push(resource(input.device, take(&mut left, group.count), split, together));
    }
    Ok((parts, resource(input.device, left, split, PAIR)))
}

/// Returns the device and the multiprocessors of several resources. [cuDevResourceGenerateDesc]
pub fn combine(resources: &[DevResource]) -> Result<(i32, Sms)> {
    let first = resources.first().ok_or(Code::INVALID_VALUE)?;
    let mut sms = Sms::default();
    for resource in resources {
        check(resource)?;
        let same = |r: &DevResource| (r.device, r.split, r.alignment);
        if resources.len() > 1 && (resource.split == 0 || same(resource) != same(first)) {
            return Err(Code::INVALID_RESOURCE_CONFIGURATION);
        }
        sms.iter_mut().zip(resource.sms).for_each(|(all, more)| *all |= more);
    }
    Ok((first.device, sms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_disjoint_and_nothing_is_lost() {
        let whole = available(0, None, SM).unwrap();
        assert_eq!(whole.count, SM_COUNT);
        for (flags, least, each, left) in
            [(0, 0, 8, 4), (0, 9, 16, 4), (1, 0, 2, 0), (1, 3, 4, 0), (0, 128, 128, 4)]
        {
            let (groups, remainder) = split(&whole, None, flags, least, 7).unwrap();
            assert!(groups.iter().all(|group| group.count == each));
            assert_eq!((remainder.count, remainder.kind), (left, u32::from(left > 0)));
            let mut seen = remainder.sms;
            for group in &groups {
                assert!(seen.iter().zip(group.sms).all(|(seen, sms)| seen & sms == 0));
                seen.iter_mut().zip(group.sms).for_each(|(seen, sms)| *seen |= sms);
            }
            assert_eq!(seen, whole.sms);
        }
    }
}
