//! Where the extremum is.

use crate::cpu::{self, Number, for_number};
use crate::error::Result;
use crate::ops::reduce::Shapes;
use crate::ops::{Call, cast};
use crate::program::{ArgReduce, Extremum, TieBreak};
use crate::value::Value;

/// Index of the largest or smallest element along an axis or of all; of the last NaN when there is one.
pub(in crate::ops) fn arg_reduce(attrs: &ArgReduce, mut call: Call<'_>) -> Result<Value> {
    let [x] = call.args()?;
    let out = call.out()?;
    let x = x.untracked();
    let axes = attrs.axis.map(|axis| vec![axis]);
    let shapes = Shapes::new(&call, &x, axes.as_deref(), attrs.keep_axis)?;
    let (x, axis) = match attrs.axis {
        Some(axis) => (x, axis),
        None => (x.clone().reshape(&[x.len()]), 0),
    };
    if x.shape()[axis] == 0 {
        return Err(call.invalid("has no elements to choose from"));
    }
    let last = attrs.tie_break == TieBreak::High;
    let found = for_number!(x.dtype(), T => cpu::lines([&x], axis, 1, &|[line]: [&[T]; 1], index: &mut [i64]| {
        index[0] = match attrs.extremum {
            Extremum::Max => find(line, last, |x, best| x > best),
            Extremum::Min => find(line, last, |x, best| x < best),
        };
    }))?;
    Ok(cast(found, out.dtype)?.reshape(&shapes.result))
}

fn find<T: Number>(line: &[T], last: bool, wins: impl Fn(T, T) -> bool) -> i64 {
    let better = |x: T, best: T| x.is_unordered() || wins(x, best) || (last && x == best);
    let place = line.iter().enumerate().skip(1).fold(
        (0, line[0]),
        |(i, best), (j, &x)| {
            if better(x, best) { (j, x) } else { (i, best) }
        },
    );
    place.0 as i64
}
