//! Folds by a program, in row-major order: each element and the result so far make the next result.
//!
//! A program of elementwise operations is a loop over the elements. Else all results are folded side by side: one step takes
//! one element of each, as a vector, and runs the program once, when it could be made one of vectors; else once for each
//! result.

use std::ops::Range;

use crate::cpu::tape::Tape;
use crate::cpu::{self, Float, Number as _, for_float};
use crate::error::Result;
use crate::exec::{Plan, VARYING, check_stopped};
use crate::ops::autodiff::is_tracked;
use crate::ops::reduce::{Shapes, folded};
use crate::ops::shape::{pad_with, padded_axes, permute, range};
use crate::ops::window::window_axes;
use crate::ops::{Call, binary, broadcast_to, cast, check};
use crate::program::{Binary, CustomReduce, CustomWindowReduce, Fold, Op, Program};
use crate::value::Value;

/// A fold of the elements along some axes or all of them.
pub(super) fn reduce(attrs: &CustomReduce, mut call: Call<'_>) -> Result<Value> {
    let Operands { x, init, captures } = Operands::take(&mut call)?;
    let Shapes { reduced, result, .. } = Shapes::new(&call, &x, attrs.axes.as_deref(), attrs.keep_axes)?;
    check::result_shape(&call, &result)?;
    if let Some(op) = single(&attrs.body).filter(|_| !is_tracked(&x) && !is_tracked(&init)) {
        return plain(op, x, init, &reduced, &call);
    }
    let rows = rows(x, &reduced, true);
    let [steps, results] = [rows.shape()[0], rows.shape()[1]];
    let read =
        |steps: Range<usize>| vec![rows.clone().slice(&[range(steps.start, steps.end, 1), range(0, results, 1)])];
    fold(&Elements { steps, results, read: &read }, init, captures, &call)
}

/// A fold of the elements of each window; the padding holds the initial value.
pub(super) fn window_reduce(attrs: &CustomWindowReduce, mut call: Call<'_>) -> Result<Value> {
    let Operands { x, init, captures } = Operands::take(&mut call)?;
    let windows = &attrs.windows;
    let axes = window_axes(&call, windows, &x.shape())?;
    check::result_shape(&call, &axes.iter().map(|axis| axis.count).collect::<Vec<_>>())?;
    let padding: Vec<[i64; 3]> = windows.padding.iter().map(|&[low, high]| [low, high, 0]).collect();
    let x = pad_with(x.clone(), init.clone(), &padded_axes(&call, &x.shape(), &padding)?);
    let tap = |mut number: usize| {
        let mut slices: Vec<_> = (0..axes.len())
            .rev()
            .map(|axis| {
                let first = number % windows.dimensions[axis] * windows.dilations[axis];
                number /= windows.dimensions[axis];
                range(first, first + (axes[axis].count - 1) * windows.strides[axis] + 1, windows.strides[axis])
            })
            .collect();
        slices.reverse();
        x.clone().slice(&slices)
    };
    let (steps, results) = (windows.dimensions.iter().product(), axes.iter().map(|axis| axis.count).product());
    fold(&Elements { steps, results, read: &|steps| steps.map(tap).collect() }, init, captures, &call)
}

/// Tensor and initial value in the type of the result.
struct Operands {
    x: Value,
    init: Value,
    captures: Vec<Value>,
}

impl Operands {
    fn take(call: &mut Call<'_>) -> Result<Self> {
        let mut operands = check::at_least(call, 2)?;
        let captures = operands.split_off(2);
        let [x, init] = operands.try_into().map_err(|_| call.invalid("has no tensor"))?;
        if init.len() != 1 {
            return Err(call.invalid(format!("starts from a scalar, got {}", init.ty())));
        }
        let dtype = call.out()?.dtype;
        Ok(Self { x: cast(x, dtype)?, init: cast(init.reshape(&[]), dtype)?, captures })
    }
}

/// A matrix with one column for each result, or with one row for each when the reduced axes are not to come `first`.
fn rows(x: Value, reduced: &[bool], first: bool) -> Value {
    let shape = x.shape();
    let axes = |wanted: bool| (0..reduced.len()).filter(move |&axis| reduced[axis] == wanted);
    let order: Vec<usize> = axes(first).chain(axes(!first)).collect();
    let size = |wanted: bool| axes(wanted).map(|axis| shape[axis]).product();
    permute(x, &order).reshape(&[size(first), size(!first)])
}

/// What is folded: in each step an element for each result.
struct Elements<'a> {
    steps: usize,
    results: usize,
    /// The elements of some steps in row-major order, in one tensor or more.
    read: &'a dyn Fn(Range<usize>) -> Vec<Value>,
}

/// Elements that a loop takes before it looks whether somebody still waits for it.
const UNSTOPPED: usize = 1 << 20;

fn fold(elements: &Elements<'_>, init: Value, captures: Vec<Value>, call: &Call<'_>) -> Result<Value> {
    let [plan, setup @ ..] = call.nested else { return Err(call.invalid("has no program")) };
    let out = call.out()?;
    if elements.results == 0 || elements.steps == 0 {
        return Ok(broadcast_to(init, &out.shape));
    }
    let looped = match (call.tape, setup) {
        (Some(tape), [setup]) => by_loop(tape, setup, elements, &init, &captures, call)?,
        _ => None,
    };
    let folded = match looped {
        Some(folded) => folded,
        None => by_steps(plan, elements, init, &captures, call)?,
    };
    Ok(folded.reshape(&out.shape))
}

/// The results of a loop over all elements, which must be plain, and divisors above zero; else `None`.
fn by_loop(
    tape: &Tape,
    setup: &Plan,
    elements: &Elements<'_>,
    init: &Value,
    captures: &[Value],
    call: &Call<'_>,
) -> Result<Option<Value>> {
    let is_plain = |value: &Value| value.flex().is_some();
    if ![std::slice::from_ref(init), captures, &(elements.read)(0..1)].into_iter().flatten().all(is_plain) {
        return Ok(None);
    }
    let shared = setup.run(captures.to_vec(), call.device)?.into_iter().map(|value| value.reshape(&[]));
    let shared: Vec<Value> = shared.collect();
    for &divisor in &tape.divisors {
        if shared[divisor - VARYING].to_f64()? <= 0.0 {
            return Ok(None);
        }
    }
    let each = (UNSTOPPED / elements.results).max(1);
    let start = broadcast_to(init.clone(), &[elements.results]);
    let folded = (0..elements.steps).step_by(each).try_fold(start, |so_far, first| {
        check_stopped(&call.op.name())?;
        tape.fold(&(elements.read)(first..elements.steps.min(first + each)), &so_far, &shared)
    });
    folded.map(Some)
}

/// The results of the program run in each step, on vectors of one element for each result or on one of them after the other.
fn by_steps(plan: &Plan, elements: &Elements<'_>, init: Value, captures: &[Value], call: &Call<'_>) -> Result<Value> {
    let results = elements.results;
    let step = |x: Value, acc: Value| apply(plan, x, acc, captures, call);
    let mut rows =
        (0..elements.steps).flat_map(|step| (elements.read)(step..step + 1)).map(|row| row.reshape(&[results]));
    if plan.program().inputs.first().is_some_and(|x| x.shape == [results]) {
        return rows.try_fold(broadcast_to(init, &[results]), |acc, x| step(x, acc));
    }
    let mut accs = vec![init; results];
    for x in rows {
        for (lane, acc) in accs.iter_mut().enumerate() {
            *acc = step(x.clone().slice(&[range(lane, lane + 1, 1)]).reshape(&[]), acc.clone())?;
        }
    }
    Ok(Value::cat(accs.into_iter().map(|acc| acc.reshape(&[1])).collect(), 0))
}

fn apply(plan: &Plan, x: Value, acc: Value, captures: &[Value], call: &Call<'_>) -> Result<Value> {
    check_stopped(&call.op.name())?;
    let shape = acc.shape();
    let operands = [x, acc].into_iter().chain(captures.iter().cloned()).collect();
    let next = plan.run(operands, call.device)?.pop().ok_or_else(|| call.invalid("its program answers nothing"))?;
    // A program that looks at neither the element nor the result so far answers a scalar.
    Ok(broadcast_to(next, &shape))
}

/// The arithmetic that a program of nothing else does.
fn single(body: &Program) -> Option<Binary> {
    let [instruction] = body.instructions.as_slice() else { return None };
    let Op::Binary(op @ (Binary::Add | Binary::Multiply | Binary::Max | Binary::Min)) = instruction.op else {
        return None;
    };
    let symmetric = matches!(instruction.inputs[..], [0, 1] | [1, 0]) && body.outputs == [body.inputs.len()];
    let dtype = instruction.outputs[0].dtype;
    (symmetric && !dtype.is_complex() && !dtype.is_packed()).then_some(op)
}

/// A fold by sums, products or extrema. Order matters to sums and products of floats alone.
fn plain(op: Binary, x: Value, init: Value, reduced: &[bool], call: &Call<'_>) -> Result<Value> {
    let out = call.out()?;
    if out.dtype.is_float() && matches!(op, Binary::Add | Binary::Multiply) {
        return in_order(op, &rows(x, reduced, false), &init).map(|sums| sums.reshape(&out.shape));
    }
    let fold = match op {
        Binary::Add => Fold::Sum,
        Binary::Multiply => Fold::Product,
        Binary::Max => Fold::Max,
        _ => Fold::Min,
    };
    let folded = folded(fold, &x, reduced)?.reshape(&out.shape);
    binary::compute(op, folded, init, out)
}

/// The sum or product of each row, rounded after each element.
fn in_order(op: Binary, rows: &Value, init: &Value) -> Result<Value> {
    let start = init.to_f64()?;
    for_float!(rows.dtype(), T => cpu::lines([rows], 1, 1, &|[row]: [&[T]; 1], out: &mut [T]| {
        out[0] = row.iter().fold(T::from_f64(start), |acc, x| match op {
            Binary::Add => T::round_from(x.math() + acc.math()),
            _ => T::round_from(x.math() * acc.math()),
        });
    }))
}
