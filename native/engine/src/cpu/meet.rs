//! Products of lines of memory: sums of the products of two lines' elements.

use pulp::{Simd, WithSimd};

/// Vectors of sums that run side by side, so that none waits for the last.
const SUMS: usize = 4;

/// An element whose lines can be multiplied.
pub(crate) trait Meet: Sized + 'static {
    /// Adds the product of `row` and line number `i`, which is as long, to element `i` of `into`.
    fn meet<'a>(row: &[Self], line: &dyn Fn(usize) -> &'a [Self], into: &mut [Self]);
}

struct Lines<'r, 'a, T> {
    row: &'r [T],
    line: &'r dyn Fn(usize) -> &'a [T],
    into: &'r mut [T],
}

macro_rules! meet {
    ($($t:ident: $split:ident, $splat:ident, $add:ident, $mul_add:ident, $sum:ident;)*) => {$(
        impl Meet for $t {
            fn meet<'a>(row: &[Self], line: &dyn Fn(usize) -> &'a [Self], into: &mut [Self]) {
                pulp::Arch::new().dispatch(Lines { row, line, into });
            }
        }

        impl WithSimd for Lines<'_, '_, $t> {
            type Output = ();

            #[inline(always)]
            fn with_simd<S: Simd>(self, simd: S) {
                let (row, row_rest) = S::$split(self.row);
                for (number, sum) in self.into.iter_mut().enumerate() {
                    let (line, line_rest) = S::$split((self.line)(number));
                    let mut sums = [simd.$splat(0.0); SUMS];
                    let ((rows, row_tail), (lines, line_tail)) = (row.as_chunks::<SUMS>(), line.as_chunks::<SUMS>());
                    for (a, b) in rows.iter().zip(lines) {
                        sums = std::array::from_fn(|k| simd.$mul_add(a[k], b[k], sums[k]));
                    }
                    for (&a, &b) in row_tail.iter().zip(line_tail) {
                        sums[0] = simd.$mul_add(a, b, sums[0]);
                    }
                    let [a, b, c, d] = sums;
                    let all = simd.$sum(simd.$add(simd.$add(a, b), simd.$add(c, d)));
                    *sum += row_rest.iter().zip(line_rest).fold(all, |sum, (&a, &b)| a.mul_add(b, sum));
                }
            }
        }
    )*};
}

meet! {
    f32: as_simd_f32s, splat_f32s, add_f32s, mul_add_f32s, reduce_sum_f32s;
    f64: as_simd_f64s, splat_f64s, add_f64s, mul_add_f64s, reduce_sum_f64s;
}
