//! Products of lines of memory: sums of the products of two lines' elements.

use pulp::{Simd, WithSimd};

use super::product::Real;

/// Vectors of sums that run side by side, so that none waits for the last.
const SUMS: usize = 4;

/// Adds the product of `row` and line number `i`, which is as long, to element `i` of `into`.
pub(super) fn meet<'a, T: Real>(row: &[T], line: &dyn Fn(usize) -> &'a [T], into: &mut [T]) {
    pulp::Arch::new().dispatch(Lines { row, line, into });
}

struct Lines<'r, 'a, T> {
    row: &'r [T],
    line: &'r dyn Fn(usize) -> &'a [T],
    into: &'r mut [T],
}

impl<T: Real> WithSimd for Lines<'_, '_, T> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let (row, row_rest) = T::split::<S>(self.row);
        for (number, sum) in self.into.iter_mut().enumerate() {
            let (line, line_rest) = T::split::<S>((self.line)(number));
            let all = products(simd, row, line);
            *sum = *sum + row_rest.iter().zip(line_rest).fold(all, |sum, (&a, &b)| a.mul_add(b, sum));
        }
    }
}

/// The sum of the products of two lines of vectors.
#[inline(always)]
fn products<T: Real, S: Simd>(simd: S, row: &[T::Many<S>], line: &[T::Many<S>]) -> T {
    let mut sums = [T::many_zero(simd); SUMS];
    let ((rows, row_rest), (lines, line_rest)) = (row.as_chunks::<SUMS>(), line.as_chunks::<SUMS>());
    for (a, b) in rows.iter().zip(lines) {
        sums = std::array::from_fn(|k| T::fused(simd, a[k], b[k], sums[k]));
    }
    for (&a, &b) in row_rest.iter().zip(line_rest) {
        sums[0] = T::fused(simd, a, b, sums[0]);
    }
    let [a, b, c, d] = sums;
    T::sum_of(simd, T::plus(simd, T::plus(simd, a, b), T::plus(simd, c, d)))
}
