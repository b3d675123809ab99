//! Plain float tensors with arithmetic, so that the rules of gradients read like formulas.

use std::ops::{Add, Div, Mul, Neg, Sub};

use burn_backend::ops::{BoolTensorOps, FloatTensorOps};
use burn_backend::tensor::BoolTensor;
use burn_backend::{FloatDType, Scalar};
use burn_dispatch::{Dispatch, DispatchTensor};

use crate::error::Result;
use crate::ops::promote::joint_shape;
use crate::ops::{binary, broadcast_to, cast, unary};
use crate::program::{Binary, Unary};
use crate::types::Type;
use crate::value::{BOOL, Value};

/// A plain tensor of f32 or f64; 16-bit floats are widened, so that a rule rounds once.
#[derive(Clone)]
pub(super) struct Real(Value);

impl Real {
    /// The numbers of a plain value.
    pub(super) fn new(value: &Value) -> Result<Self> {
        let dtype = if value.dtype() == Type::F64 { Type::F64 } else { Type::F32 };
        Ok(Self(cast(value.clone(), dtype)?))
    }

    /// The numbers as a value.
    pub(super) fn value(self) -> Value {
        self.0
    }

    /// The function `op` of each element.
    pub(super) fn apply(self, op: Unary) -> Result<Self> {
        unary::apply(op, self.0).map(Self)
    }

    /// Where this compares so with `other`.
    pub(super) fn compare(&self, test: Test, other: &Self) -> BoolTensor<Dispatch> {
        let (a, b) = joint(self.clone(), other.clone());
        let test = match test {
            Test::Equal => Dispatch::float_equal,
            Test::Greater => Dispatch::float_greater,
            Test::GreaterEqual => Dispatch::float_greater_equal,
        };
        test(a.0.into_tensor(), b.0.into_tensor(), BOOL)
    }

    /// Where this compares so with a number.
    pub(super) fn compare_number(&self, test: Test, number: f64) -> BoolTensor<Dispatch> {
        let test = match test {
            Test::Equal => Dispatch::float_equal_elem,
            Test::Greater => Dispatch::float_greater_elem,
            Test::GreaterEqual => Dispatch::float_greater_equal_elem,
        };
        test(self.0.clone().into_tensor(), Scalar::Float(number), BOOL)
    }

    /// This where `mask` holds, `number` elsewhere.
    pub(super) fn keep(self, mask: BoolTensor<Dispatch>, number: f64) -> Self {
        self.replace(Dispatch::bool_not(mask), number)
    }

    /// `number` where `mask` holds, this elsewhere.
    pub(super) fn replace(self, mask: BoolTensor<Dispatch>, number: f64) -> Self {
        self.map(|t| Dispatch::float_mask_fill(t, mask, Scalar::Float(number)))
    }

    /// `other` where `mask` holds, this elsewhere; all of one shape.
    pub(super) fn replace_with(self, mask: BoolTensor<Dispatch>, other: Self) -> Self {
        Self(self.0.mask_where(mask, other.0))
    }

    /// 1 where `mask` holds, else 0, in the type of this.
    pub(super) fn ones_where(&self, mask: BoolTensor<Dispatch>) -> Result<Self> {
        Ok(Self(Value::from_bool(mask, self.0.dtype())))
    }

    /// 1 where this equals `other`, which broadcasts to it, else 0.
    pub(super) fn ones_where_equal(&self, other: &Self) -> Result<Self> {
        self.ones_where(self.compare(Test::Equal, other))
    }

    /// This to the power of `other`.
    pub(super) fn pow(self, other: Self) -> Result<Self> {
        let (base, exponent) = joint(self, other);
        let ty = base.0.ty();
        binary::compute(Binary::Pow, base.0, exponent.0, &ty).map(Self)
    }

    /// This broadcast to the shape and cast to the type of `other`.
    pub(super) fn spread(self, other: &Self) -> Self {
        joint(self, other.clone()).0
    }

    /// Length of each axis.
    fn shape(&self) -> Vec<usize> {
        self.0.shape()
    }

    fn widen(self) -> Self {
        Self(Value::new(Type::F64, Dispatch::float_cast(self.0.into_tensor(), FloatDType::F64)))
    }

    fn map(self, f: impl FnOnce(DispatchTensor) -> DispatchTensor) -> Self {
        let dtype = self.0.dtype();
        Self(Value::new(dtype, f(self.0.into_tensor())))
    }

    fn zip(self, other: Self, f: fn(DispatchTensor, DispatchTensor) -> DispatchTensor) -> Self {
        let (a, b) = joint(self, other);
        let dtype = a.0.dtype();
        Self(Value::new(dtype, f(a.0.into_tensor(), b.0.into_tensor())))
    }
}

/// How [`Real`]s are compared.
#[derive(Clone, Copy)]
pub(super) enum Test {
    Equal,
    Greater,
    GreaterEqual,
}

/// Both in one type and shape, by widening and broadcasting.
fn joint(a: Real, b: Real) -> (Real, Real) {
    let (a, b) = match (a.0.dtype(), b.0.dtype()) {
        (Type::F32, Type::F64) => (a.widen(), b),
        (Type::F64, Type::F32) => (a, b.widen()),
        _ => (a, b),
    };
    if a.shape() == b.shape() {
        return (a, b);
    }
    let shape = joint_shape(&a.shape(), &b.shape());
    (Real(broadcast_to(a.0, &shape)), Real(broadcast_to(b.0, &shape)))
}

macro_rules! arithmetic {
    ($($trait:ident $method:ident $tensors:ident $scalar:ident;)*) => {$(
        impl $trait for Real {
            type Output = Real;

            fn $method(self, other: Real) -> Real {
                self.zip(other, Dispatch::$tensors)
            }
        }

        impl $trait<f64> for Real {
            type Output = Real;

            fn $method(self, number: f64) -> Real {
                self.map(|t| Dispatch::$scalar(t, Scalar::Float(number)))
            }
        }
    )*};
}

arithmetic! {
    Add add float_add float_add_scalar;
    Sub sub float_sub float_sub_scalar;
    Mul mul float_mul float_mul_scalar;
    Div div float_div float_div_scalar;
}

impl Neg for Real {
    type Output = Real;

    fn neg(self) -> Real {
        self.map(Dispatch::float_neg)
    }
}
