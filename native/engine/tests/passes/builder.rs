//! Programs for tests.

use ex_burn_engine::exec::Plan;
use ex_burn_engine::program::{Axes, Binary, Constant, Fold, Instruction, Op, Program, Reduce, Unary};
use ex_burn_engine::{Device, TensorType, Type, Value, passes, scalar};

use crate::tools::ty;

/// A program that grows; methods answer ids of values.
pub(crate) struct Builder {
    program: Program,
    types: Vec<TensorType>,
}

impl Builder {
    pub(crate) fn new(inputs: &[TensorType]) -> Self {
        Self { program: Program { inputs: inputs.to_vec(), ..Program::default() }, types: inputs.to_vec() }
    }

    pub(crate) fn emit(&mut self, op: Op, inputs: &[usize], out: TensorType) -> usize {
        self.types.push(out.clone());
        self.program.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs: vec![out] });
        self.types.len() - 1
    }

    /// An operation of several results; answers the id of the first.
    pub(crate) fn all(&mut self, op: Op, inputs: &[usize], outputs: &[TensorType]) -> usize {
        let first = self.types.len();
        self.types.extend_from_slice(outputs);
        self.program.instructions.push(Instruction { op, inputs: inputs.to_vec(), outputs: outputs.to_vec() });
        first
    }

    pub(crate) fn constant(&mut self, dtype: Type, number: f64) -> usize {
        let bytes = scalar::from_f64(dtype, number);
        self.emit(Op::Constant(Constant { bytes }), &[], ty(dtype, &[]))
    }

    pub(crate) fn unary(&mut self, op: Unary, x: usize) -> usize {
        self.emit(Op::Unary(op), &[x], self.types[x].clone())
    }

    /// Of the left operand's type and shape.
    pub(crate) fn binary(&mut self, op: Binary, left: usize, right: usize) -> usize {
        self.emit(Op::Binary(op), &[left, right], self.types[left].clone())
    }

    pub(crate) fn reduce(&mut self, fold: Fold, x: usize, axes: &[usize], keep_axes: bool) -> usize {
        let from = &self.types[x];
        let kept = |axis: usize| if axes.contains(&axis) { keep_axes.then_some(1) } else { Some(from.shape[axis]) };
        let out = ty(from.dtype, &(0..from.shape.len()).filter_map(kept).collect::<Vec<_>>());
        self.emit(Op::Reduce(Reduce { fold, axes: Some(axes.to_vec()), keep_axes }), &[x], out)
    }

    pub(crate) fn broadcast(&mut self, x: usize, shape: &[usize], axes: &[usize]) -> usize {
        let out = ty(self.types[x].dtype, shape);
        self.emit(Op::Broadcast(Axes { axes: axes.to_vec() }), &[x], out)
    }

    pub(crate) fn reshape(&mut self, x: usize, shape: &[usize]) -> usize {
        let out = ty(self.types[x].dtype, shape);
        self.emit(Op::Reshape, &[x], out)
    }

    pub(crate) fn finish(self, outputs: &[usize]) -> Program {
        Program { outputs: outputs.to_vec(), ..self.program }
    }
}

/// The program after all passes but those named.
pub(crate) fn optimised(program: &Program, disabled: &[&str]) -> Program {
    let disabled: Vec<String> = disabled.iter().map(ToString::to_string).collect();
    passes::optimise(program, &disabled).expect("a valid program")
}

pub(crate) fn run(program: &Program, inputs: &[Value]) -> Vec<Value> {
    Plan::new(program).expect("a valid program").run(inputs.to_vec(), &Device::Cpu).expect("it runs")
}

/// The operations of a program by name.
pub(crate) fn names(program: &Program) -> Vec<String> {
    program.instructions.iter().map(|i| i.op.name()).collect()
}

/// Runs a program as it is and after the passes, sees to it that both answer the same bytes, and answers that.
pub(crate) fn same(program: &Program, inputs: &[Value]) -> Vec<Value> {
    let plain = run(program, inputs);
    let fast = run(&optimised(program, &[]), inputs);
    for (i, (plain, fast)) in plain.iter().zip(&fast).enumerate() {
        assert_eq!(plain.ty(), fast.ty(), "result {i}");
        assert_eq!(plain.clone().into_bytes(), fast.clone().into_bytes(), "result {i} of\n{program}");
    }
    fast
}
