//! The definition of the eigendecomposition: Jacobi rotations of pairs of rows and columns, many at a time.
//!
//! Brent, R. P., & Luk, F. T. (1985). The solution of singular-value and symmetric eigenvalue problems on multiprocessor
//! arrays. SIAM Journal on Scientific and Statistical Computing, 6(1), 69-84.

use faer::{Mat, MatRef};

use super::matrix::{cleaned, columns, falling};
use super::round;

/// `[values, vectors]`, values as a column; parts of at most `eps` become 0.
pub(super) fn eigh(a: MatRef<'_, f64>, max_iter: usize, eps: f64) -> [Mat<f64>; 2] {
    let n = a.nrows();
    let mid = n.div_ceil(2);
    // A row and column of zeros makes the number of rows even.
    let mut matrix = Quarters::of(mid, |i, j| if i < n && j < n { a[(i, j)] } else { 0.0 });
    let mut vectors = Quarters::of(mid, |i, j| f64::from(u8::from(i == j)));
    let mut rounds = 0;
    while rounds < max_iter {
        let (all, off) = matrix.squares();
        if off <= round(round(round(eps).powi(2)) * all) {
            break;
        }
        for _ in 0..n {
            sweep(&mut matrix, &mut vectors);
        }
        rounds += 1;
    }
    let values: Vec<f64> = (0..n).map(|i| matrix.at(i, i)).collect();
    let order = falling(&values.iter().map(|x| x.abs()).collect::<Vec<_>>());
    let vectors = Mat::from_fn(n, n, |i, j| vectors.at(j, i));
    let values = Mat::from_fn(n, 1, |i, _| values[order[i]]);
    [cleaned(values.as_ref(), eps), cleaned(columns(vectors.as_ref(), &order).as_ref(), eps)]
}

/// A matrix of an even number of rows as its top left, top right, bottom left and bottom right.
struct Quarters {
    mid: usize,
    tl: Mat<f64>,
    tr: Mat<f64>,
    bl: Mat<f64>,
    br: Mat<f64>,
}

impl Quarters {
    fn of(mid: usize, element: impl Fn(usize, usize) -> f64) -> Self {
        let quarter = |top: usize, left: usize| Mat::from_fn(mid, mid, |i, j| element(top + i, left + j));
        Self { mid, tl: quarter(0, 0), tr: quarter(0, mid), bl: quarter(mid, 0), br: quarter(mid, mid) }
    }

    fn at(&self, i: usize, j: usize) -> f64 {
        let quarter = match (i < self.mid, j < self.mid) {
            (true, true) => &self.tl,
            (true, false) => &self.tr,
            (false, true) => &self.bl,
            (false, false) => &self.br,
        };
        quarter[(i % self.mid, j % self.mid)]
    }

    /// The sums of the squares of all elements and of those off the diagonal.
    fn squares(&self) -> (f64, f64) {
        let square = |x: f64| round(x * x);
        let sum = |diagonal: bool| {
            let of = |i: usize, j: usize| {
                let on = |x: f64| if i == j && !diagonal { 0.0 } else { square(x) };
                let top = round(on(self.tl[(i, j)]) + square(self.tr[(i, j)]));
                round(round(top + square(self.bl[(i, j)])) + on(self.br[(i, j)]))
            };
            round(
                (0..self.mid).flat_map(|i| (0..self.mid).map(move |j| (i, j))).fold(0.0, |sum, (i, j)| sum + of(i, j)),
            )
        };
        (sum(true), sum(false))
    }

    /// Row `i` of the top and row `i` of the bottom, turned by angle `i`.
    fn turn_rows(&mut self, angles: &[Angle]) {
        let turn = |top: &mut Mat<f64>, bottom: &mut Mat<f64>| {
            let up = zip_rows(top, bottom, |i, x, y| round(x * angles[i].cos) - round(y * angles[i].sin));
            *bottom = zip_rows(top, bottom, |i, x, y| round(x * angles[i].sin) + round(y * angles[i].cos));
            *top = up;
        };
        turn(&mut self.tl, &mut self.bl);
        turn(&mut self.tr, &mut self.br);
    }

    fn transpose(&mut self) {
        std::mem::swap(&mut self.tr, &mut self.bl);
        for quarter in [&mut self.tl, &mut self.tr, &mut self.bl, &mut self.br] {
            *quarter = quarter.transpose().to_owned();
        }
    }

    /// Rows of the top move down and rows of the bottom up, in a circle around the first.
    fn circle_rows(&mut self) {
        let last = self.mid - 1;
        let circle = |top: &mut Mat<f64>, bottom: &mut Mat<f64>| {
            if last == 0 {
                return;
            }
            let up = Mat::from_fn(last + 1, last + 1, |i, j| match i {
                0 => top[(0, j)],
                1 => bottom[(0, j)],
                _ => top[(i - 1, j)],
            });
            *bottom =
                Mat::from_fn(last + 1, last + 1, |i, j| if i < last { bottom[(i + 1, j)] } else { top[(last, j)] });
            *top = up;
        };
        circle(&mut self.tl, &mut self.bl);
        circle(&mut self.tr, &mut self.br);
    }
}

fn zip_rows(a: &Mat<f64>, b: &Mat<f64>, f: impl Fn(usize, f64, f64) -> f64) -> Mat<f64> {
    Mat::from_fn(a.nrows(), a.ncols(), |i, j| round(f(i, a[(i, j)], b[(i, j)])))
}

/// The turn that makes the elements off the diagonal 0 in a matrix of two rows, and the diagonal that it makes.
struct Angle {
    cos: f64,
    sin: f64,
    first: f64,
    last: f64,
}

impl Angle {
    fn of(tl: f64, tr: f64, br: f64) -> Self {
        let tau = if tr == 0.0 { 0.0 } else { round(round(br - tl) / round(2.0 * tr)) };
        let root = round(round(1.0 + round(tau * tau)).sqrt());
        let tan = round(1.0 / round(tau + if tau >= 0.0 { root } else { -root }));
        let tan = if tr.abs() <= round(round(1e-5) * br.abs().min(tl.abs())) { 0.0 } else { tan };
        // Nx makes a product with 1 / x a quotient by x.
        let secant = round(round(1.0 + round(tan * tan)).sqrt());
        let step = round(tan * tr);
        Self { cos: round(1.0 / secant), sin: round(tan / secant), first: round(tl - step), last: round(br + step) }
    }
}

fn sweep(matrix: &mut Quarters, vectors: &mut Quarters) {
    let diagonal = |i: usize| (matrix.tl[(i, i)], matrix.tr[(i, i)], matrix.br[(i, i)]);
    let angles: Vec<Angle> = (0..matrix.mid).map(diagonal).map(|(tl, tr, br)| Angle::of(tl, tr, br)).collect();
    matrix.turn_rows(&angles);
    matrix.transpose();
    matrix.turn_rows(&angles);
    matrix.transpose();
    for (i, angle) in angles.iter().enumerate() {
        matrix.tl[(i, i)] = angle.first;
        matrix.tr[(i, i)] = 0.0;
        matrix.bl[(i, i)] = 0.0;
        matrix.br[(i, i)] = angle.last;
    }
    matrix.transpose();
    matrix.circle_rows();
    matrix.transpose();
    matrix.circle_rows();
    vectors.turn_rows(&angles);
    vectors.circle_rows();
}
