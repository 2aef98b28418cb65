//! Views beside raw slices: the same sums, in one run. Every way runs in every round, in turn; the
//! figure is the median of the rounds. Part of `make bench`.

use std::hint::black_box;
use std::time::Instant;

use libcai::{Array, Builder, ContiguousView, Device, Ix, Stream, View};

const ROWS: usize = 512;
const COLUMNS: usize = 512;
const ROUNDS: usize = 41;

type Way<'a> = (&'static str, Box<dyn Fn() -> u32 + 'a>);

/// Runs all ways of a group and prints them; each does `count` things.
fn compare(group: &str, count: usize, ways: &[Way<'_>]) {
    let expected = ways[0].1();
    let mut times = vec![Vec::new(); ways.len()];
    for _ in 0..ROUNDS {
        for ((name, way), times) in ways.iter().zip(&mut times) {
            let begin = Instant::now();
            let sum = black_box(way());
            times.push(begin.elapsed().as_secs_f64() * 1e9 / count as f64);
            assert_eq!(sum, expected, "{name}");
        }
    }
    println!("{group:<54} median ns     ratio");
    let mut first = None;
    for ((name, _), times) in ways.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let median = times[times.len() / 2];
        let ratio = median / *first.get_or_insert(median);
        println!("  {name:<52} {median:>9.3} {ratio:>8.2}x");
    }
}

fn sum<'a>(values: impl Iterator<Item = &'a u32>) -> u32 {
    values.fold(0, |sum, value| sum.wrapping_add(*value))
}

fn contiguous(slice: &[u32], view: View<'_, u32, Ix<2>>) {
    let indices = || (0..ROWS).flat_map(|i| (0..COLUMNS).map(move |j| (i, j)));
    let ways: Vec<Way<'_>> = vec![
        ("slice: iter", Box::new(|| sum(black_box(slice).iter()))),
        ("View: as_slice, iter", Box::new(|| sum(black_box(view).as_slice().unwrap().iter()))),
        ("View: iter", Box::new(|| sum(black_box(view).iter()))),
        (
            "View: rows, as_slice",
            Box::new(|| {
                let rows = black_box(view).rows();
                rows.fold(0u32, |so_far, row| {
                    so_far.wrapping_add(sum(row.as_slice().unwrap().iter()))
                })
            }),
        ),
    ];
    compare("sum of 512 by 512 u32, for each element", slice.len(), &ways);
    let ways: Vec<Way<'_>> = vec![
        (
            "slice: [i * columns + j]",
            Box::new(|| {
                let slice = black_box(slice);
                let columns = black_box(COLUMNS);
                indices().fold(0u32, |sum, (i, j)| sum.wrapping_add(slice[i * columns + j]))
            }),
        ),
        (
            "View: [[i, j]]",
            Box::new(|| {
                let view = black_box(view);
                indices().fold(0u32, |sum, (i, j)| sum.wrapping_add(view[[i, j]]))
            }),
        ),
        (
            "ContiguousView: [[i, j]]",
            Box::new(|| {
                let view = black_box(ContiguousView::new(view).unwrap());
                indices().fold(0u32, |sum, (i, j)| sum.wrapping_add(view[[i, j]]))
            }),
        ),
        (
            "slice: get_unchecked(i * columns + j)",
            Box::new(|| {
                let slice = black_box(slice);
                let columns = black_box(COLUMNS);
                // SAFETY: the indices are those of the slice.
                let at = |i, j| unsafe { *slice.get_unchecked(i * columns + j) };
                indices().fold(0u32, |sum, (i, j)| sum.wrapping_add(at(i, j)))
            }),
        ),
        (
            "View: get_unchecked([i, j])",
            Box::new(|| {
                let view = black_box(view);
                // SAFETY: the indices are below the extents.
                let at = |i, j| unsafe { *view.get_unchecked([i, j]) };
                indices().fold(0u32, |sum, (i, j)| sum.wrapping_add(at(i, j)))
            }),
        ),
    ];
    compare("the same by indices, for each element", slice.len(), &ways);
}

/// Every second column.
fn strided(slice: &[u32], view: View<'_, u32, Ix<2>>) {
    let ways: Vec<Way<'_>> = vec![
        (
            "slice: chunks, step_by(2)",
            Box::new(|| {
                let rows = black_box(slice).chunks(COLUMNS);
                rows.fold(0u32, |so_far, row| so_far.wrapping_add(sum(row.iter().step_by(2))))
            }),
        ),
        ("View: iter", Box::new(|| sum(black_box(view).iter()))),
        (
            "View: rows, iter",
            Box::new(|| {
                let rows = black_box(view).rows();
                rows.fold(0u32, |so_far, row| so_far.wrapping_add(sum(row.iter())))
            }),
        ),
        (
            "View: [[i, j]]",
            Box::new(|| {
                let view = black_box(view);
                let row = |i| (0..COLUMNS / 2).fold(0u32, |sum, j| sum.wrapping_add(view[[i, j]]));
                (0..ROWS).fold(0u32, |sum, i| sum.wrapping_add(row(i)))
            }),
        ),
    ];
    compare("sum of every second column, for each element", slice.len() / 2, &ways);
}

fn made(array: &Array) {
    const COUNT: usize = 100_000;
    let count = |once: &dyn Fn() -> u32| (0..COUNT).fold(0u32, |sum, _| sum.wrapping_add(once()));
    let ways: Vec<Way<'_>> = vec![
        (
            "ArrayRef::view, all checks",
            Box::new(|| count(&|| black_box(array).view::<u32, Ix<2>>().unwrap()[[1, 2]])),
        ),
        (
            "the same of a clone, which is dropped",
            Box::new(|| count(&|| black_box(array).clone().view::<u32, Ix<2>>().unwrap()[[1, 2]])),
        ),
    ];
    compare("a view is made and one element read", COUNT, &ways);
}

fn main() -> libcai::Result<()> {
    let mut values: Vec<u32> =
        (0..(ROWS * COLUMNS) as u32).map(|n| n.wrapping_mul(2654435761)).collect();
    let shape = [ROWS as i64, COLUMNS as i64];
    let array = Array::from_vec(values.clone(), &shape)?;
    contiguous(&values, array.view()?);
    let half = [shape[0], shape[1] / 2];
    let strides = [4 * shape[1], 8];
    let builder = Builder::new(values.as_mut_ptr(), &half).strides(&strides);
    // SAFETY: every second column of the values, which outlive the array and are not written.
    let columns = unsafe { builder.device(Device::CPU).stream(Stream::NONE).build(()) }?;
    strided(&values, columns.view()?);
    made(&array);
    Ok(())
}
