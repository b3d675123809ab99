//! Bodies of operations by blocks that no pass writes: they are refused, or run one after the other.

use ex_burn_engine::exec::Plan;
use ex_burn_engine::program::{Axis, Blocked, Conv, Dot, Extent, Fused, Instruction, Op, Program, Unary};
use ex_burn_engine::{Device, TensorType, Type, Value};

use crate::tools::{iota, ty};

const F32: Type = Type::F32;

/// Exponentials of a value of `from`, less their sign, as a region of `shape`.
fn region(from: &TensorType, shape: &[usize], row_axes: usize) -> Op {
    let out = ty(from.dtype, shape);
    let step =
        |op: Unary, input: usize| Instruction { op: Op::Unary(op), inputs: vec![input], outputs: vec![out.clone()] };
    let body = Program {
        inputs: vec![from.clone()],
        instructions: vec![step(Unary::Exp, 0), step(Unary::Negate, 1)],
        outputs: vec![2],
    };
    Op::Fused(Fused { shape: shape.to_vec(), row_axes, extents: vec![Extent::Whole], patterns: vec![], body })
}

/// An operation by blocks with these instructions, each of which reads `inputs` and makes one result, the last of all.
fn blocked(inputs: &[TensorType], steps: Vec<(Op, Vec<usize>, TensorType)>) -> Program {
    let out = steps.last().map(|step| step.2.clone()).expect("a step");
    let last = inputs.len() + steps.len() - 1;
    let step = |(op, inputs, out)| Instruction { op, inputs, outputs: vec![out] };
    let body =
        Program { inputs: inputs.to_vec(), instructions: steps.into_iter().map(step).collect(), outputs: vec![last] };
    let whole =
        Instruction { op: Op::Blocked(Blocked { body }), inputs: (0..inputs.len()).collect(), outputs: vec![out] };
    Program { inputs: inputs.to_vec(), instructions: vec![whole], outputs: vec![inputs.len()] }
}

fn run(program: &Program) -> Result<Vec<Value>, String> {
    let inputs = program.inputs.iter().map(|ty| iota(ty.dtype, &ty.shape)).collect();
    let plan = Plan::new(program).map_err(|error| error.to_string())?;
    plan.run(inputs, &Device::Cpu).map_err(|error| error.to_string())
}

fn product() -> Op {
    Op::Dot(Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] })
}

fn conv() -> Op {
    let order = vec![0, 2, 1];
    Op::Conv(Conv { input_permutation: order.clone(), output_permutation: order, ..Conv::plain(1) })
}

#[test]
fn a_region_of_another_shape_than_what_it_reads_is_refused() {
    let products = [ty(F32, &[4, 3]), ty(F32, &[3, 5])];
    let images = [ty(F32, &[2, 6, 3]), ty(F32, &[8, 3, 2])];
    let tables = [ty(F32, &[9, 5]), ty(Type::S64, &[4])];
    for (inputs, op, made, reason) in [
        (products, product(), vec![4, 5], "the region is not of the shape of the product"),
        (images, conv(), vec![2, 5, 8], "the region is not of the shape of the convolution"),
        (tables, Op::Take(Axis { axis: 0 }), vec![4, 5], "are no region of"),
    ] {
        let made = ty(F32, &made);
        // A shape that the product could be repeated to, which a region alone would allow, and one that it couldn't.
        let longer = ([&[2], &made.shape[..]].concat(), "blocked", reason);
        let narrower = ([&[1], &made.shape[1..]].concat(), "fused", "has not its extent");
        for (shape, op_name, reason) in [longer, narrower] {
            let out = ty(F32, &shape);
            let steps = vec![(op.clone(), vec![0, 1], made.clone()), (region(&made, &shape, 0), vec![2], out)];
            let error = run(&blocked(&inputs, steps)).expect_err("another shape");
            assert!(error.contains(op_name) && error.contains(reason), "{error}");
        }
        let steps =
            vec![(op.clone(), vec![0, 1], made.clone()), (region(&made, &made.shape, 0), vec![2], made.clone())];
        assert_eq!(run(&blocked(&inputs, steps)).expect("the shape that is made")[0].ty(), made);
    }
}

#[test]
fn a_product_that_is_declared_wrong_is_refused() {
    let wrong = ty(F32, &[5, 5]);
    let steps = vec![(product(), vec![0, 1], wrong.clone()), (region(&wrong, &[5, 5], 0), vec![2], wrong)];
    let error = run(&blocked(&[ty(F32, &[4, 3]), ty(F32, &[3, 5])], steps)).expect_err("another shape");
    assert!(error.contains("the region is not of the shape of the product"), "{error}");
}

#[test]
fn bodies_that_are_not_known_run_one_after_the_other() {
    let line = ty(F32, &[6]);
    let sign = (Op::Unary(Unary::Abs), vec![0], line.clone());
    let steps = vec![sign, (region(&line, &[6], 0), vec![1], line.clone())];
    let got = run(&blocked(std::slice::from_ref(&line), steps)).expect("it runs");
    let want: Vec<f64> = (0..6).map(|i| -f64::from(i).exp()).collect();
    crate::tools::assert_close("exponentials", &crate::tools::numbers(&got[0]), &want, 1e-5);
    // A region that reads what comes before it as one element.
    let one = ty(F32, &[1]);
    let steps = vec![(Op::Unary(Unary::Abs), vec![0], one.clone()), (region(&one, &[6], 0), vec![1], line)];
    assert_eq!(run(&blocked(&[one], steps)).expect("it runs")[0].shape(), [6]);
}
