//! LU decomposition with row pivoting, and what follows from it.

use faer::{Mat, MatRef};

use super::field::Field;
use super::{Failure, SMALL, is_finite, nan, triangular};

/// `a = P L U`: `rows[j]` is the row of `a` that became row `j`; the strict lower triangle of `packed` is `L` without
/// its unit diagonal, the rest is `U`.
pub(super) struct Lu<F> {
    pub(super) packed: Mat<F>,
    pub(super) rows: Vec<usize>,
}

impl<F: Field> Lu<F> {
    /// The decomposition with the first of the largest elements as pivot. `round` follows each operation.
    pub(super) fn by_columns(a: MatRef<'_, F>, round: impl Fn(F) -> F) -> Self {
        let n = a.nrows();
        let mut packed = a.to_owned();
        let mut rows: Vec<usize> = (0..n).collect();
        for k in 0..n {
            let pivot = (k + 1..n)
                .fold(k, |best, i| if packed[(i, k)].magnitude() > packed[(best, k)].magnitude() { i } else { best });
            rows.swap(k, pivot);
            for j in (0..n).filter(|_| pivot != k) {
                let kept = packed[(k, j)];
                packed[(k, j)] = packed[(pivot, j)];
                packed[(pivot, j)] = kept;
            }
            eliminate(&mut packed, k, &round);
        }
        Self { packed, rows }
    }

    /// The decomposition of a matrix of any size.
    pub(super) fn new(a: MatRef<'_, F>) -> Self {
        let n = a.nrows();
        if n <= SMALL {
            return Self::by_columns(a, |x| x);
        }
        if !is_finite(a) {
            return Self { packed: nan(n, n), rows: (0..n).collect() };
        }
        let lu = a.partial_piv_lu();
        let (l, u) = (lu.L(), lu.U());
        let packed = Mat::from_fn(n, n, |i, j| if i > j { l[(i, j)] } else { u[(i, j)] });
        // The crate divides by a pivot of 0 too.
        if !is_finite(packed.as_ref()) {
            return Self::by_columns(a, |x| x);
        }
        Self { packed, rows: lu.P().arrays().0.to_vec() }
    }

    /// `[P, L, U]`.
    pub(super) fn factors(&self) -> [Mat<F>; 3] {
        let n = self.rows.len();
        let bit = |is: bool| if is { F::one() } else { F::zero() };
        let p = Mat::from_fn(n, n, |i, j| bit(self.rows[j] == i));
        let l = Mat::from_fn(n, n, |i, j| if i > j { self.packed[(i, j)] } else { bit(i == j) });
        let u = Mat::from_fn(n, n, |i, j| if i <= j { self.packed[(i, j)] } else { F::zero() });
        [p, l, u]
    }

    /// The `x` with `a x = b`. `round` follows each of the two substitutions.
    ///
    /// # Errors
    ///
    /// [`Failure::Singular`] for a zero pivot, [`Failure::Unfit`] for a `b` of other rows.
    pub(super) fn solve(&self, b: MatRef<'_, F>, round: impl Fn(F) -> F) -> Result<Mat<F>, Failure> {
        if b.nrows() != self.rows.len() {
            return Err(Failure::Unfit);
        }
        let [_, l, u] = self.factors();
        let permuted = Mat::from_fn(b.nrows(), b.ncols(), |i, j| b[(self.rows[i], j)]);
        let y = triangular::solve(l.as_ref(), true, permuted)?;
        let y = Mat::from_fn(y.nrows(), y.ncols(), |i, j| round(y[(i, j)]));
        triangular::solve(u.as_ref(), false, y)
    }

    /// The product of the pivots, with the sign of the permutation. `round` follows the product.
    pub(super) fn determinant(&self, round: impl Fn(F) -> F) -> F {
        let n = self.rows.len();
        let pivots = || (0..n).map(|i| self.packed[(i, i)]);
        if pivots().any(|pivot| pivot.is_zero()) {
            return F::zero();
        }
        let product = round(pivots().fold(F::one(), |product, pivot| pivot * product));
        if is_odd(&self.rows) { product.times(-1.0) } else { product }
    }
}

/// Subtracts multiples of row `k` from the rows below.
fn eliminate<F: Field>(packed: &mut Mat<F>, k: usize, round: &impl Fn(F) -> F) {
    let n = packed.nrows();
    let pivot = packed[(k, k)];
    if !pivot.is_zero() {
        for i in k + 1..n {
            packed[(i, k)] = round(packed[(i, k)].over(pivot));
        }
    }
    for j in k + 1..n {
        let above = packed[(k, j)];
        for i in k + 1..n {
            packed[(i, j)] = round(packed[(i, j)] - round(packed[(i, k)] * above));
        }
    }
}

/// Whether a permutation is made of an odd number of swaps, which is the number of its cycles of even length.
fn is_odd(permutation: &[usize]) -> bool {
    let mut seen = vec![false; permutation.len()];
    let mut odd = false;
    for start in 0..permutation.len() {
        let mut at = start;
        let mut length = 0_usize;
        while !std::mem::replace(&mut seen[at], true) {
            at = permutation[at];
            length += 1;
        }
        odd ^= length > 0 && length.is_multiple_of(2);
    }
    odd
}

/// The determinant: by its closed form up to 3 rows, as `Nx.LinAlg.determinant/1` has it, by pivots above.
pub(super) fn determinant<F: Field>(a: MatRef<'_, F>, round: impl Fn(F) -> F + Copy) -> F {
    let n = a.nrows();
    // The product of the elements (i, columns[i]).
    let diagonal =
        |columns: &[usize]| round(columns.iter().enumerate().fold(F::one(), |product, (i, &j)| a[(i, j)] * product));
    let sum = |terms: &[(bool, [usize; 3])]| {
        let terms = terms.iter().map(|(plus, columns)| (plus, diagonal(&columns[..n])));
        terms.fold(F::zero(), |sum, (plus, term)| round(if *plus { sum + term } else { sum - term }))
    };
    match n {
        0 => F::one(),
        2 => sum(&[(true, [0, 1, 2]), (false, [1, 0, 2])]),
        3 => sum(&[
            (true, [0, 1, 2]),
            (true, [1, 2, 0]),
            (true, [2, 0, 1]),
            (false, [2, 1, 0]),
            (false, [1, 0, 2]),
            (false, [0, 2, 1]),
        ]),
        _ if n <= SMALL => Lu::by_columns(a, round).determinant(round),
        _ => Lu::new(a).determinant(round),
    }
}
