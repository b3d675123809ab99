//! Functions of one real number that the standard library lacks or computes badly.

// Of the platform's C library, which the standard library links anyway and the BEAM takes its functions from.
unsafe extern "C" {
    /// The y from 0 with cosh(y) = x. The standard library's loses digits near 1 and overflows.
    pub(crate) safe fn acosh(x: f64) -> f64;

    /// The y with sinh(y) = x. The standard library's overflows.
    pub(crate) safe fn asinh(x: f64) -> f64;

    /// The y with tanh(y) = x. The standard library's loses digits.
    pub(crate) safe fn atanh(x: f64) -> f64;

    /// The error function.
    pub(crate) safe fn erf(x: f64) -> f64;

    /// 1 - erf(x), without loss of digits for large x.
    pub(crate) safe fn erfc(x: f64) -> f64;
}

/// ln(1 + x): the logarithm of the rounded sum, less what rounding added to it, times the slope 1 / sum of the logarithm
/// there. The rest of the Taylor series is below the last place.
pub(crate) fn ln_1p(x: f64) -> f64 {
    let sum = 1.0 + x;
    if sum == 1.0 {
        x
    } else if sum == 0.0 || sum.is_infinite() {
        sum.ln()
    } else {
        sum.ln() - ((sum - 1.0) - x) / sum
    }
}

/// The logistic function, 1 / (1 + e^-x).
pub(crate) fn sigmoid(x: f64) -> f64 {
    // The power that cannot overflow.
    let e = (-x.abs()).exp();
    if x < 0.0 { e / (1.0 + e) } else { (1.0 + e).recip() }
}

/// The x with erf(x) = y by the polynomials that Nx defines it by, which are good to 7 digits; infinite at -1 and 1, NaN
/// beyond.
///
/// M. Giles, "Approximating the erfinv function", GPU Computing Gems Jade Edition (2011).
pub(crate) fn erf_inv(y: f64) -> f64 {
    if y.abs() == 1.0 { y * f64::INFINITY } else { erf_inv_by(y, -((1.0 - y) * (1.0 + y)).ln()) }
}

/// [`erf_inv`] by w = -ln(1 - y^2).
#[inline(always)]
pub(crate) fn erf_inv_by(y: f64, w: f64) -> f64 {
    const CENTRE: [f64; 9] = [
        2.81022636e-08,
        3.43273939e-07,
        -3.5233877e-06,
        -4.39150654e-06,
        0.00021858087,
        -0.00125372503,
        -0.00417768164,
        0.246640727,
        1.50140941,
    ];
    const TAIL: [f64; 9] = [
        -0.000200214257,
        0.000100950558,
        0.00134934322,
        -0.00367342844,
        0.00573950773,
        -0.0076224613,
        0.00943887047,
        1.00167406,
        2.83297682,
    ];
    // No branch, so that loops become vector instructions.
    let is_near = w < 5.0;
    let w = if is_near { w - 2.5 } else { w.sqrt() - 3.0 };
    let coefficients = CENTRE.iter().zip(&TAIL).map(|(&near, &far)| if is_near { near } else { far });
    y * coefficients.fold(0.0, |sum, c| sum * w + c)
}
