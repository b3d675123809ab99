//! Kernels on the memory of the CPU backend, for what Burn lacks or answers differently from Nx.
//!
//! A kernel is written once for every element type and every memory layout. It reads plain [`Value`]s of one shape and
//! makes a contiguous one.

mod ahead;
mod binary16;
mod block;
mod blocked;
mod chain;
mod compact;
pub(crate) mod complex;
mod concatenate;
mod conv;
mod crew;
mod dot;
mod few_rows;
mod fold;
mod folds;
pub(crate) mod hyperbolic;
mod kernel;
mod lines;
mod map;
mod meet;
mod nest;
mod number;
mod prefix;
mod product;
mod put;
mod quotient;
mod scan;
pub(crate) mod single;
mod sort;
pub(crate) mod special;
mod stored;
mod table;
mod take;
pub(crate) mod tape;
mod tasks;
mod turn;
mod vectors;
mod view;
mod window;

pub(crate) use binary16::to_odd;
pub(crate) use block::vectorized;
pub(crate) use blocked::{attend, linear};
pub(crate) use chain::{LINKS, Link};
pub(crate) use compact::compact;
pub(crate) use concatenate::concatenate;
pub(crate) use conv::{Geometry, convolve, convolve_rows, images_gradient, kernel_gradient};
pub(crate) use dot::{matmul, matmul_onto};
pub(crate) use fold::fold;
pub(crate) use folds::{All, Any, Fold, Max, Min, Product, Sum};
pub(crate) use kernel::{Kernel, Map, Zip};
pub(crate) use lines::lines;
pub(crate) use map::{any, combine, map, zip};
pub(crate) use number::{
    Cell, Float, Int, Number, Total, for_cell, for_complex, for_float, for_int, for_number, for_types,
};
pub(crate) use product::GEMM_ROWS;
pub(crate) use put::put;
pub(crate) use quotient::{Divisor, divide_all};
pub(crate) use scan::{Pair, scan, scan_gradient};
pub(crate) use sort::{argsort, sort};
pub(crate) use table::{pick, take_rows};
pub(crate) use take::take;
pub(crate) use tasks::{apart, chunks};
pub(crate) use view::View;
pub(crate) use window::{Share, WindowAxis, add_at_extrema, extrema, fold_windows, window_gradient};

use burn_flex::{FlexTensor, Layout};
use burn_std::Bytes;

use crate::error::{Error, Result};
use crate::types::Type;
use crate::value::{Value, stored_shape};

/// The memory of a plain value.
fn memory(value: &Value) -> Result<&FlexTensor> {
    value.flex().ok_or_else(|| Error::invalid("kernel", "needs a plain tensor in the CPU's memory"))
}

/// A contiguous value of `shape` with the elements `data`.
pub(crate) fn value<T: Cell>(shape: &[usize], data: Vec<T>) -> Value {
    let layout = Layout::contiguous(stored_shape(T::TYPE, shape));
    Value::from_flex(T::TYPE, FlexTensor::new(Bytes::from_elems(data), layout, T::TYPE.storage()))
}

/// The same memory as elements of another type of the same width, both real or both complex.
pub(crate) fn reinterpret(x: &Value, dtype: Type) -> Result<Value> {
    let x = memory(x)?;
    Ok(Value::from_flex(dtype, FlexTensor::from_arc(x.data_arc(), x.layout().clone(), dtype.storage())))
}
