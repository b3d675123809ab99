//! Operations that are linear in complex operands, from the same operation on real ones.

use num_complex::Complex;

use crate::cpu;
use crate::error::Result;
use crate::ops::{binary, cast};
use crate::program::Binary;
use crate::types::{TensorType, Type};
use crate::value::Value;

/// `product` of complex operands, which is linear in each of them, from its results for their parts. `dtype` is complex.
pub(super) fn bilinear(
    left: Value,
    right: Value,
    dtype: Type,
    product: impl Fn(Value, Value) -> Result<Value>,
) -> Result<Value> {
    let parts = |value: Value| {
        let value = cast(value, dtype)?;
        Ok([value.clone().part(0), value.part(1)])
    };
    let ([left_re, left_im], [right_re, right_im]) = (parts(left)?, parts(right)?);
    let combine = |op, a: Value, b: Value| {
        let out = TensorType::new(dtype.part(), a.shape());
        binary::compute(op, a, b, &out)
    };
    let re = combine(
        Binary::Subtract,
        product(left_re.clone(), right_re.clone())?,
        product(left_im.clone(), right_im.clone())?,
    )?;
    let im = combine(Binary::Add, product(left_re, right_im)?, product(left_im, right_re)?)?;
    join(&re, &im, dtype)
}

/// The complex tensor of type `dtype` with the parts `re` and `im`.
fn join(re: &Value, im: &Value, dtype: Type) -> Result<Value> {
    match dtype {
        Type::C64 => cpu::zip(re, im, |re: f32, im: f32| Complex::new(re, im)),
        _ => cpu::zip(re, im, |re: f64, im: f64| Complex::new(re, im)),
    }
}
