//! The numbers that matrices are computed in: `f64` for all real types, pairs of `f64` for complex ones.

use std::fmt::Debug;

use faer::traits::ComplexField;
use num_complex::Complex64;
use num_traits::NumAssign;

use crate::cpu::Cell;
use crate::cpu::complex::divide;

/// A real or complex number of double precision.
///
/// Decompositions of `f32` and of the types of 16 bits are computed in `f64` too: it costs at most twice the time, its
/// results are right to the last digit of the type, and the machine code for other types need not exist.
pub(super) trait Field: ComplexField<Real = f64> + NumAssign + Cell + Debug {
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

    /// The quotient, which overflows only if it is too large itself.
    fn over(self, divisor: Self) -> Self;
}

/// The power of two that brings the largest of some numbers near 1 if its square is no normal number, else 1.
pub(super) fn handy(largest: f64) -> f64 {
    let usual = largest == 0.0 || !largest.is_finite() || (1e-100..1e100).contains(&largest);
    if usual { 1.0 } else { (-largest.log2().floor().clamp(-1000.0, 1000.0)).exp2() }
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

    fn over(self, divisor: Self) -> Self {
        self / divisor
    }
}

impl Field for Complex64 {
    const COMPLEX: bool = true;

    fn of(real: f64) -> Self {
        Self::new(real, 0.0)
    }

    fn re(self) -> f64 {
        self.re
    }

    fn conjugate(self) -> Self {
        self.conj()
    }

    fn magnitude(self) -> f64 {
        self.norm()
    }

    fn is_number(self) -> bool {
        self.is_finite()
    }

    fn times(self, real: f64) -> Self {
        self * real
    }

    fn over(self, divisor: Self) -> Self {
        divide(self, divisor)
    }
}
