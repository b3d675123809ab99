//! Convolutions that run together with regions: which do, and what they answer.

use ex_burn_engine::program::{Binary, Conv, Fold, Op, Program, Unary};
use ex_burn_engine::{Type, Value};

use crate::builder::{Builder, names, optimised, run, same};
use crate::tools::{assert_close, noise, numbers, tensor, ty};

/// Sizes of a convolution with windows of 3 by 3 and a border of one zero.
#[derive(Clone, Copy)]
struct Case {
    dtype: Type,
    is_last: bool,
    batch: usize,
    channels: usize,
    outputs: usize,
    groups: usize,
    size: usize,
}

const CASE: Case = Case { dtype: Type::F64, is_last: true, batch: 3, channels: 4, outputs: 10, groups: 1, size: 13 };

impl Case {
    /// A shape in the order of the case.
    fn shape(&self, batch: usize, channels: usize, size: usize) -> Vec<usize> {
        if self.is_last { vec![batch, size, size, channels] } else { vec![batch, channels, size, size] }
    }

    fn order(&self) -> Vec<usize> {
        if self.is_last { vec![0, 3, 1, 2] } else { vec![0, 1, 2, 3] }
    }

    fn out(&self) -> Vec<usize> {
        self.shape(self.batch, self.outputs, self.size)
    }

    /// The shapes of images, kernel, and three values for each output channel.
    fn shapes(&self) -> Vec<Vec<usize>> {
        let line = self.shape(1, self.outputs, 1);
        let kernel = vec![self.outputs, self.channels / self.groups, 3, 3];
        vec![self.shape(self.batch, self.channels, self.size), kernel, line.clone(), line.clone(), line]
    }

    fn builder(&self) -> (Builder, usize) {
        let mut b = Builder::new(&self.shapes().iter().map(|shape| ty(self.dtype, shape)).collect::<Vec<_>>());
        let attrs = Conv {
            strides: vec![1, 1],
            padding: vec![[1, 1]; 2],
            input_dilation: vec![1, 1],
            kernel_dilation: vec![1, 1],
            feature_group_size: self.groups,
            batch_group_size: 1,
            input_permutation: self.order(),
            kernel_permutation: vec![0, 1, 2, 3],
            output_permutation: self.order(),
        };
        let out = b.emit(Op::Conv(attrs), &[0, 1], ty(self.dtype, &self.out()));
        (b, out)
    }

    /// The convolution less a mean, by a scale, with a bias, and the positive part of it.
    fn normalised(&self) -> Program {
        let (mut b, conv) = self.builder();
        let centred = b.binary(Binary::Subtract, conv, 2);
        let scaled = b.binary(Binary::Multiply, centred, 3);
        let biased = b.binary(Binary::Add, scaled, 4);
        let zero = b.constant(self.dtype, 0.0);
        let relu = b.binary(Binary::Max, biased, zero);
        b.finish(&[relu])
    }

    fn inputs(&self) -> Vec<Value> {
        let random = |(shape, seed): (&Vec<usize>, u64)| {
            let noise = noise(seed, shape.iter().product(), 1000);
            tensor(self.dtype, shape, &noise.into_iter().map(|n| n / 500.0).collect::<Vec<_>>())
        };
        self.shapes().iter().zip(1..).map(random).collect()
    }

    /// The element of images with channels first or last.
    fn at(&self, images: &[f64], channels: usize, [n, c, y, x]: [usize; 4]) -> f64 {
        let pixel = y * self.size + x;
        let area = self.size * self.size;
        images[if self.is_last { (n * area + pixel) * channels + c } else { (n * channels + c) * area + pixel }]
    }

    /// The convolution by definition, at a place.
    fn sum(&self, x: &[f64], k: &[f64], [n, o, row, column]: [usize; 4]) -> f64 {
        let each = self.channels / self.groups;
        let taps = (0..each).flat_map(|c| (0..9).map(move |tap| (c, tap)));
        let inside = |at: usize| (1..=self.size).contains(&at);
        taps.filter(|(_, tap)| inside(row + tap / 3) && inside(column + tap % 3))
            .map(|(c, tap)| {
                let channel = o / (self.outputs / self.groups) * each + c;
                let pixel = self.at(x, self.channels, [n, channel, row + tap / 3 - 1, column + tap % 3 - 1]);
                pixel * k[(o * each + c) * 9 + tap]
            })
            .sum()
    }

    /// Checks a result against a function of the output channel and the convolution there.
    fn check(&self, got: &Value, inputs: &[Value], tolerance: f64, formula: impl Fn(usize, f64) -> f64) {
        let (x, k, got) = (numbers(&inputs[0]), numbers(&inputs[1]), numbers(got));
        let place = |at: usize| {
            let (rest, column) = (at / self.size, at % self.size);
            let (rest, row) = (rest / self.size, rest % self.size);
            [rest / self.outputs, rest % self.outputs, row, column]
        };
        let places: Vec<_> = (0..self.batch * self.outputs * self.size * self.size).map(place).collect();
        let want: Vec<f64> = places.iter().map(|&at| formula(at[1], self.sum(&x, &k, at))).collect();
        let got: Vec<f64> = places.iter().map(|&at| self.at(&got, self.outputs, at)).collect();
        assert_close("convolution", &got, &want, tolerance);
    }
}

fn works(program: &Program) -> Vec<String> {
    names(program).into_iter().filter(|name| name != "constant").collect()
}

#[test]
fn a_convolution_with_what_follows_is_one_operation() {
    for (dtype, tolerance) in [(Type::F64, 1e-10), (Type::F32, 1e-3)] {
        for is_last in [true, false] {
            for (channels, outputs, groups, size) in [(4, 10, 1, 13), (4, 8, 2, 7), (12, 12, 12, 9), (3, 16, 1, 50)] {
                let case = Case { dtype, is_last, channels, outputs, groups, size, ..CASE };
                let (program, inputs) = (case.normalised(), case.inputs());
                assert_eq!(works(&optimised(&program, &[])), ["blocked"]);
                assert_eq!(works(&optimised(&program, &["pattern:conv"])), ["conv", "fused"]);
                let got = same(&program, &inputs);
                let [mean, scale, bias] = [2, 3, 4].map(|i: usize| numbers(&inputs[i]));
                case.check(&got[0], &inputs, tolerance, |o, x| ((x - mean[o]) * scale[o] + bias[o]).max(0.0));
            }
        }
    }
}

#[test]
fn a_bias_alone_runs_with_its_convolution() {
    for is_last in [true, false] {
        let case = Case { is_last, ..CASE };
        let (mut b, conv) = case.builder();
        let biased = b.binary(Binary::Add, conv, 2);
        let program = b.finish(&[biased]);
        assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
        let inputs = case.inputs();
        let bias = numbers(&inputs[2]);
        case.check(&same(&program, &inputs)[0], &inputs, 1e-10, |o, x| x + bias[o]);
    }
    // The sum of all is none of its blocks' business.
    let (mut b, conv) = CASE.builder();
    let total = b.reduce(Fold::Sum, conv, &[0, 1, 2, 3], false);
    let program = b.finish(&[total]);
    assert_eq!(names(&optimised(&program, &[])), ["conv", "sum"]);
    same(&program, &CASE.inputs());
}

#[test]
fn a_convolution_is_added_to_other_images_and_has_several_results() {
    for is_last in [true, false] {
        // As many channels come out as go in.
        let case = Case { is_last, channels: 10, ..CASE };
        let (mut b, conv) = case.builder();
        let sum = b.binary(Binary::Add, conv, 0);
        let tanh = b.unary(Unary::Tanh, sum);
        let program = b.finish(&[sum, tanh]);
        assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
        let inputs = case.inputs();
        let got = same(&program, &inputs);
        let images = numbers(&inputs[0]);
        let less: Vec<f64> = numbers(&got[0]).iter().zip(&images).map(|(sum, x)| sum - x).collect();
        case.check(&tensor(case.dtype, &case.out(), &less), &inputs, 1e-10, |_, x| x);
        let tanh: Vec<f64> = numbers(&got[0]).into_iter().map(f64::tanh).collect();
        assert_close("tanh", &numbers(&got[1]), &tanh, 1e-12);
    }
}

#[test]
fn channels_that_lie_side_by_side_are_folded_at_once() {
    let folded = |is_last: bool, axis: usize| {
        let case = Case { is_last, ..CASE };
        let (mut b, conv) = case.builder();
        let exp = b.unary(Unary::Exp, conv);
        let sum = b.reduce(Fold::Sum, exp, &[axis], true);
        let share = b.binary(Binary::Divide, exp, sum);
        (case, b.finish(&[share]))
    };
    let (case, program) = folded(true, 3);
    assert_eq!(names(&optimised(&program, &[])), ["blocked"]);
    let inputs = case.inputs();
    let got = numbers(&same(&program, &inputs)[0]);
    let sums: Vec<f64> = got.chunks(10).map(|row| row.iter().sum()).collect();
    assert_close("shares", &sums, &vec![1.0; sums.len()], 1e-12);
    // A row of pixels is in no block of windows whole.
    let (case, program) = folded(false, 3);
    assert_eq!(names(&optimised(&program, &[])), ["conv", "fused"]);
    same(&program, &case.inputs());
}

#[test]
fn convolutions_that_gain_nothing_stay_apart() {
    let few = Case { outputs: 4, ..CASE };
    let short = Case { dtype: Type::BF16, ..CASE };
    let long = Case { batch: 1, channels: 40, size: 3, ..CASE };
    for case in [few, short, long] {
        assert_eq!(works(&optimised(&case.normalised(), &[])), ["conv", "fused"]);
        same(&case.normalised(), &case.inputs());
    }
    let mut program = CASE.normalised();
    program.outputs.push(5);
    assert_eq!(works(&optimised(&program, &[])), ["conv", "fused"]);
    let got = run(&optimised(&program, &[]), &CASE.inputs());
    CASE.check(&got[1], &CASE.inputs(), 1e-10, |_, x| x);
}
