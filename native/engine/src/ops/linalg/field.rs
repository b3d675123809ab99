//! The numbers that matrices are computed in: `f64` for all real types, pairs of `f64` for complex ones.

use std::fmt::Debug;

use burn_backend::TensorData;
use faer::traits::ComplexField;
use num_traits::NumAssign;

use crate::device::Device;
use crate::error::{Error, Result};
use crate::ops::cast;
use crate::types::Type;
use crate::value::Value;

/// A real or complex number of double precision.
///
/// Decompositions of `f32` and of the types of 16 bits are computed in `f64` too: it costs at most twice the time, its
/// results are right to the last digit of the type, and the machine code for other types need not exist.
pub(super) trait Field: ComplexField<Real = f64> + NumAssign + Copy + Debug + Send + Sync + 'static {
    /// Whether numbers have an imaginary part.
    const COMPLEX: bool;

    /// A real number.
    fn of(real: f64) -> Self;

    /// Real part.
    fn re(self) -> f64;

    /// Complex conjugate.
    fn conjugate(self) -> Self;

    /// Distance from 0.
    fn magnitude(self) -> f64;

    /// Neither infinite nor NaN.
    fn is_number(self) -> bool;

    /// `self / |self|`; 1 for 0.
    fn phase(self) -> Self {
        if self.is_zero() { Self::one() } else { self / Self::of(self.magnitude()) }
    }

    /// Each part multiplied with a real number.
    fn times(self, real: f64) -> Self;

    /// The elements of a value, in row-major order.
    ///
    /// # Errors
    ///
    /// When the device fails to give the data back.
    fn read(value: &Value) -> Result<Vec<Self>>;

    /// A value of the type of such numbers from its elements.
    fn write(shape: &[usize], elements: Vec<Self>, device: &Device) -> Value;
}

impl Field for f64 {
    const COMPLEX: bool = false;

    fn of(real: f64) -> Self {
        real
    }

    fn re(self) -> f64 {
        self
    }

    fn conjugate(self) -> Self {
        self
    }

    fn magnitude(self) -> f64 {
        self.abs()
    }

    fn is_number(self) -> bool {
        self.is_finite()
    }

    fn times(self, real: f64) -> Self {
        self * real
    }

    fn read(value: &Value) -> Result<Vec<Self>> {
        let data = cast(value.clone(), Type::F64)?.into_data()?;
        data.try_into_vec().map_err(|e| Error::invalid("linalg", format!("{e:?}")))
    }

    fn write(shape: &[usize], elements: Vec<Self>, device: &Device) -> Value {
        Value::from_data(Type::F64, TensorData::new(elements, shape.to_vec()), device)
    }
}
