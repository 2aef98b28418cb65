//! Views beside raw slices: the same sums. Part of `make bench`: prints `group<TAB>row<TAB>ns` for
//! each round, which bench/run.py reads. Every way runs in every round, in turn.

use std::hint::black_box;
use std::time::Instant;

use libcai::{Array, Builder, ContiguousView, Device, Ix, Stream, View};

const ROWS: usize = 512;
const COLUMNS: usize = 512;

type Way<'a> = (&'static str, Box<dyn Fn() -> u32 + 'a>);

fn setting(name: &str, otherwise: f64) -> f64 {
    std::env::var(name).map_or(otherwise, |text| text.parse().expect("a number"))
}

/// Runs all ways of a group and prints what each thing takes, of which a way does `count`.
fn compare(group: &str, count: usize, ways: &[Way<'_>]) {
    let (rounds, round_ns) = (setting("BENCH_ROUNDS", 15.0) as usize, setting("BENCH_NS", 2e6));
    let expected = ways[0].1();
    let ns = |(name, way): &Way<'_>, times: usize| {
        let begin = Instant::now();
        for _ in 0..times {
            assert_eq!(black_box(way()), expected, "{name}");
        }
        begin.elapsed().as_secs_f64() * 1e9 / times as f64
    };
    let times: Vec<_> = ways.iter().map(|way| (round_ns / ns(way, 2)) as usize + 1).collect();
    let measured: Vec<_> = (0..rounds)
        .flat_map(|_| ways.iter().zip(&times).map(|(way, times)| ns(way, *times)))
        .collect();
    for (way, ns) in ways.iter().cycle().zip(measured) {
        println!("{group}\t{}\t{:.4}", way.0, ns / count as f64);
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
    array.view::<f32, Ix<2>>().expect_err("wrong type");
    array.view::<u32, Ix<3>>().expect_err("wrong number of dimensions");
    const COUNT: usize = 10_000;
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
