//! The instruction set.
//!
//! An operation says nothing about the types and shapes of its operands: an [`Instruction`](super::Instruction) carries the
//! type of its outputs, and values carry their own.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use super::Program;
use super::attributes::*;

/// An operation with its attributes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
#[allow(missing_docs)]
pub enum Op {
    Constant(Constant),
    Iota(Iota),
    Eye,
    Unary(Unary),
    Binary(Binary),
    Cast,
    Bitcast,
    Select,
    Clip,
    Reshape,
    Broadcast(Axes),
    Transpose(Axes),
    Reverse(Axes),
    Pad(Pad),
    Concatenate(Axis),
    Stack(Axis),
    Slice(Slice),
    DynamicSlice(DynamicSlice),
    PutSlice,
    Gather(Axes),
    IndexedAdd(Axes),
    IndexedPut(Axes),
    Take(Axis),
    TakeAlongAxis(Axis),
    Dot(Dot),
    Conv(Conv),
    Reduce(Reduce),
    ArgReduce(ArgReduce),
    Cumulative(Cumulative),
    Sort(Sort),
    Argsort(Sort),
    TopK(TopK),
    WindowReduce(WindowReduce),
    WindowScatter(WindowScatter),
    CustomReduce(CustomReduce),
    CustomWindowReduce(CustomWindowReduce),
    AllClose(AllClose),
    Fft(Fft),
    Fft2(Fft2),
    TriangularSolve(TriangularSolve),
    Linalg(Linalg),
    While(While),
    Cond(Cond),
    StopGrad,
    CustomGrad(CustomGrad),
    Fused(Fused),
    Blocked(Blocked),
    Rows(Rows),
    Hook(Callback),
    RuntimeCall(Callback),
}

impl Op {
    /// Name of the operation as Nx has it, e.g. `add`, `dot`, `window_max`.
    pub fn name(&self) -> String {
        match self {
            Op::Unary(op) => <&str>::from(op).to_string(),
            Op::Binary(op) => <&str>::from(op).to_string(),
            Op::Cast => "as_type".to_string(),
            Op::Reduce(Reduce { fold: fold @ (Fold::Max | Fold::Min), .. }) => format!("reduce_{}", <&str>::from(fold)),
            Op::Reduce(Reduce { fold, .. }) => <&str>::from(fold).to_string(),
            Op::ArgReduce(ArgReduce { extremum, .. }) => format!("arg{}", <&str>::from(extremum)),
            Op::Cumulative(Cumulative { fold, .. }) => format!("cumulative_{}", <&str>::from(fold)),
            Op::WindowReduce(WindowReduce { fold, .. }) => format!("window_{}", <&str>::from(fold)),
            Op::WindowScatter(WindowScatter { extremum, .. }) => format!("window_scatter_{}", <&str>::from(extremum)),
            Op::CustomReduce(_) => "reduce".to_string(),
            Op::CustomWindowReduce(_) => "window_reduce".to_string(),
            Op::Fft(Fft { transform, .. }) => <&str>::from(transform).to_string(),
            Op::Fft2(Fft2 { transform, .. }) => format!("{}2", <&str>::from(transform)),
            Op::Linalg(op) => <&str>::from(op).to_string(),
            other => <&str>::from(other).to_string(),
        }
    }

    /// Programs inside the operation.
    pub fn nested(&self) -> Vec<&Program> {
        match self {
            Op::CustomReduce(op) => vec![&op.body],
            Op::CustomWindowReduce(op) => vec![&op.body],
            Op::While(op) => vec![&op.condition, &op.body],
            Op::Cond(op) => op.predicates.iter().chain(&op.branches).collect(),
            Op::CustomGrad(op) => vec![&op.backward],
            Op::Fused(op) => vec![&op.body],
            Op::Blocked(op) => vec![&op.body],
            Op::Rows(op) => vec![&op.whole, &op.block],
            _ => vec![],
        }
    }

    /// Whether the operation does more than make its results, so that it runs even when nobody reads them: it calls into the
    /// host, or a program inside does.
    ///
    /// ```
    /// use ex_burn_engine::program::{Callback, Cond, Instruction, Op, Program};
    ///
    /// let hook = Op::Hook(Callback { id: 0 });
    /// assert!(hook.has_effect() && !Op::Eye.has_effect());
    ///
    /// let calling = Program { instructions: vec![Instruction { op: hook, inputs: vec![], outputs: vec![] }], ..Program::default() };
    /// assert!(Op::Cond(Cond { predicates: vec![], branches: vec![calling] }).has_effect());
    /// ```
    pub fn has_effect(&self) -> bool {
        matches!(self, Op::Hook(_) | Op::RuntimeCall(_)) || self.nested().into_iter().any(Program::has_effect)
    }
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}
