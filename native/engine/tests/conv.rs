//! Convolutions against index loops.

mod tools;

use ex_burn_engine::Type;
use ex_burn_engine::program::{Conv, Op};
use tools::*;

/// As Axon asks for: channels last, kernel as spatial, input channels, output channels.
fn channels_last(spatial: usize) -> Conv {
    let input: Vec<usize> = [0, spatial + 1].into_iter().chain(1..=spatial).collect();
    let kernel = [spatial + 1, spatial].into_iter().chain(0..spatial).collect();
    Conv {
        input_permutation: input.clone(),
        kernel_permutation: kernel,
        output_permutation: input,
        ..Conv::plain(spatial)
    }
}

fn permuted(shape: &[usize], axes: &[usize]) -> Vec<usize> {
    axes.iter().map(|&axis| shape[axis]).collect()
}

/// `index`, given in permuted order, in the tensor's own order.
fn unpermuted(index: &[usize], axes: &[usize]) -> Vec<usize> {
    let mut own = vec![0; axes.len()];
    axes.iter().zip(index).for_each(|(&axis, &i)| own[axis] = i);
    own
}

struct Case {
    attrs: Conv,
    input: Vec<usize>,
    kernel: Vec<usize>,
}

impl Case {
    fn out_shape(&self) -> Vec<usize> {
        let x = permuted(&self.input, &self.attrs.input_permutation);
        let k = permuted(&self.kernel, &self.attrs.kernel_permutation);
        let length = |axis: usize| {
            let [low, high] = self.attrs.padding[axis];
            let padded = ((x[axis + 2] - 1) * self.attrs.input_dilation[axis] + 1) as i64 + low + high;
            (padded as usize - (k[axis + 2] - 1) * self.attrs.kernel_dilation[axis] - 1) / self.attrs.strides[axis] + 1
        };
        let made = [vec![x[0] / self.attrs.batch_group_size, k[0]], (0..x.len() - 2).map(length).collect()].concat();
        unpermuted(&made, &self.attrs.output_permutation)
    }

    /// The convolution by definition.
    fn by_loops(&self, x: &[f64], k: &[f64]) -> Vec<f64> {
        let a = &self.attrs;
        let taps = permuted(&self.kernel, &a.kernel_permutation);
        let out_shape = self.out_shape();
        let mut out = vec![];
        each_index(&out_shape, |index| {
            let o = permuted(index, &a.output_permutation);
            let batches = permuted(&self.input, &a.input_permutation)[0] / a.batch_group_size;
            let batch = o[1] / (taps[0] / a.batch_group_size) * batches + o[0];
            let first_channel = o[1] / (taps[0] / a.feature_group_size) * taps[1];
            let mut sum = 0.0;
            each_index(&taps[1..], |tap| {
                let mut place = vec![batch, first_channel + tap[0]];
                for axis in 0..a.strides.len() {
                    let dilated = (o[axis + 2] * a.strides[axis] + tap[axis + 1] * a.kernel_dilation[axis]) as i64;
                    let dilated = dilated - a.padding[axis][0];
                    let step = a.input_dilation[axis] as i64;
                    if dilated < 0 || dilated % step != 0 {
                        return;
                    }
                    place.push((dilated / step) as usize);
                }
                let own = unpermuted(&place, &a.input_permutation);
                if own.iter().zip(&self.input).all(|(i, n)| i < n) {
                    let tap = unpermuted(&[&[o[1]], tap].concat(), &a.kernel_permutation);
                    sum += x[position(&own, &self.input)] * k[position(&tap, &self.kernel)];
                }
            });
            out.push(sum);
        });
        out
    }
}

fn case(attrs: Conv, input: &[usize], kernel: &[usize]) -> Case {
    Case { attrs, input: input.to_vec(), kernel: kernel.to_vec() }
}

fn cases() -> Vec<Case> {
    let same = || vec![[1, 1]; 2];
    vec![
        case(Conv::plain(1), &[2, 3, 7], &[4, 3, 3]),
        case(Conv::plain(1), &[2, 1, 5], &[1, 1, 2]),
        case(Conv { strides: vec![2], padding: vec![[9, 9]], ..Conv::plain(1) }, &[1, 2, 3], &[3, 2, 3]),
        case(Conv { batch_group_size: 2, padding: vec![[1, 1]], ..Conv::plain(1) }, &[4, 1, 5], &[2, 1, 3]),
        case(Conv { strides: vec![2], padding: vec![[2, 1]], ..Conv::plain(1) }, &[2, 3, 7], &[4, 3, 3]),
        case(Conv { padding: vec![[-1, -2]], ..Conv::plain(1) }, &[1, 2, 8], &[3, 2, 2]),
        case(Conv { padding: vec![[3, -1]], input_dilation: vec![3], ..Conv::plain(1) }, &[1, 2, 4], &[3, 2, 3]),
        case(Conv { kernel_dilation: vec![2], padding: vec![[2, 2]], ..Conv::plain(1) }, &[1, 2, 6], &[3, 2, 3]),
        case(
            Conv { strides: vec![2], kernel_dilation: vec![2], padding: vec![[1, 3]], ..Conv::plain(1) },
            &[2, 4, 12],
            &[2, 4, 5],
        ),
        case(
            Conv {
                input_permutation: vec![1, 0, 2, 3],
                kernel_permutation: vec![1, 0, 2, 3],
                output_permutation: vec![1, 0, 2, 3],
                padding: vec![[1, 0], [0, 1]],
                ..Conv::plain(2)
            },
            &[5, 2, 6, 5],
            &[5, 3, 4, 4],
        ),
        case(Conv::plain(2), &[2, 3, 5, 6], &[4, 3, 3, 2]),
        case(Conv::plain(2), &[2, 3, 4, 4], &[5, 3, 1, 1]),
        case(Conv { padding: same(), ..Conv::plain(2) }, &[1, 9, 5, 5], &[2, 9, 3, 3]),
        case(
            Conv { strides: vec![2, 3], padding: vec![[1, 2], [0, 1]], ..Conv::plain(2) },
            &[2, 2, 6, 7],
            &[3, 2, 3, 3],
        ),
        case(
            Conv { input_dilation: vec![2, 1], kernel_dilation: vec![1, 2], padding: same(), ..Conv::plain(2) },
            &[1, 2, 4, 5],
            &[3, 2, 3, 2],
        ),
        case(Conv { feature_group_size: 2, padding: same(), ..Conv::plain(2) }, &[2, 4, 4, 4], &[6, 2, 3, 3]),
        case(Conv { feature_group_size: 3, strides: vec![2, 1], ..Conv::plain(2) }, &[2, 3, 5, 4], &[3, 1, 3, 3]),
        case(Conv { feature_group_size: 3, ..Conv::plain(2) }, &[1, 3, 5, 4], &[6, 1, 2, 2]),
        case(Conv { batch_group_size: 2, ..Conv::plain(2) }, &[4, 3, 4, 4], &[4, 3, 2, 2]),
        case(Conv { batch_group_size: 3, strides: vec![2], ..Conv::plain(1) }, &[3, 2, 6], &[6, 2, 3]),
        case(channels_last(1), &[2, 7, 3], &[3, 3, 4]),
        case(channels_last(2), &[2, 5, 6, 3], &[3, 3, 3, 4]),
        case(channels_last(2), &[2, 4, 4, 3], &[1, 1, 3, 5]),
        case(Conv { padding: same(), ..channels_last(2) }, &[2, 8, 8, 9], &[3, 3, 9, 4]),
        case(
            Conv { padding: vec![[0, 1], [1, 2]], strides: vec![2, 2], ..channels_last(2) },
            &[2, 6, 7, 1],
            &[3, 3, 1, 4],
        ),
        case(Conv { feature_group_size: 2, padding: same(), ..channels_last(2) }, &[2, 4, 5, 4], &[3, 3, 2, 6]),
        case(Conv { feature_group_size: 4, padding: same(), ..channels_last(2) }, &[2, 4, 5, 4], &[3, 3, 1, 4]),
        case(
            Conv {
                output_permutation: vec![2, 0, 3, 1],
                input_permutation: vec![3, 1, 0, 2],
                kernel_permutation: vec![1, 2, 3, 0],
                ..Conv::plain(2)
            },
            &[5, 2, 4, 3],
            &[2, 3, 2, 3],
        ),
        case(channels_last(3), &[1, 4, 3, 4, 2], &[2, 2, 3, 2, 3]),
        case(
            Conv {
                strides: vec![2, 1, 2],
                padding: vec![[1, 1], [0, 1], [2, 0]],
                kernel_dilation: vec![1, 2, 1],
                ..Conv::plain(3)
            },
            &[2, 2, 4, 4, 3],
            &[3, 2, 2, 2, 3],
        ),
        case(Conv { feature_group_size: 2, ..Conv::plain(3) }, &[1, 4, 3, 3, 3], &[2, 2, 2, 2, 2]),
        case(Conv::plain(0), &[2, 3], &[4, 3]),
        case(
            Conv { padding: vec![[1, 0], [0, 0], [0, 0], [0, 1]], ..Conv::plain(4) },
            &[1, 2, 2, 3, 2, 2],
            &[2, 2, 2, 2, 1, 2],
        ),
    ]
}

#[test]
fn convolves_as_the_definition_says() {
    for case in cases() {
        let (x, k) = (noise(1, case.input.iter().product(), 3), noise(2, case.kernel.iter().product(), 3));
        let expected = case.by_loops(&x, &k);
        for dtype in [Type::F32, Type::F64, Type::F16, Type::BF16] {
            let operands = [tensor(dtype, &case.input, &x), tensor(dtype, &case.kernel, &k)];
            let result = run(Op::Conv(case.attrs.clone()), &operands, &ty(dtype, &case.out_shape()));
            let rounded = numbers(&tensor(dtype, &case.out_shape(), &expected));
            assert_eq!(numbers(&result), rounded, "{:?} of {dtype}", case.attrs);
        }
    }
}

#[test]
fn casts_integer_operands() {
    let operands = [tensor(Type::U8, &[1, 1, 2], &[200., 3.]), tensor(Type::S32, &[1, 1, 2], &[2., -1.])];
    assert_eq!(numbers(&run(Op::Conv(Conv::plain(1)), &operands, &ty(Type::F32, &[1, 1, 1]))), [397.]);
}

#[test]
fn gradients_flow_through() {
    for case in cases() {
        let (x, k) = (noise(3, case.input.iter().product(), 3), noise(4, case.kernel.iter().product(), 3));
        let operands = [tensor(Type::F64, &case.input, &x), tensor(Type::F64, &case.kernel, &k)];
        check_gradients(Op::Conv(case.attrs.clone()), &operands, &case.out_shape());
    }
}

#[test]
fn refuses_what_does_not_fit() {
    let (x, k) = (iota(Type::F32, &[2, 4, 5]), iota(Type::F32, &[4, 4, 3]));
    let cases = [
        Conv { strides: vec![0], ..Conv::plain(1) },
        Conv { strides: vec![1, 1], ..Conv::plain(1) },
        Conv { padding: vec![], ..Conv::plain(1) },
        Conv { padding: vec![[-3, -3]], ..Conv::plain(1) },
        Conv { padding: vec![[i64::MAX, i64::MAX]], ..Conv::plain(1) },
        Conv { input_dilation: vec![0], ..Conv::plain(1) },
        Conv { input_dilation: vec![usize::MAX], ..Conv::plain(1) },
        Conv { kernel_dilation: vec![usize::MAX], ..Conv::plain(1) },
        Conv { kernel_dilation: vec![3], ..Conv::plain(1) },
        Conv { feature_group_size: 2, ..Conv::plain(1) },
        Conv { feature_group_size: 0, ..Conv::plain(1) },
        Conv { feature_group_size: usize::MAX, batch_group_size: 2, ..Conv::plain(1) },
        Conv { batch_group_size: 3, ..Conv::plain(1) },
        Conv { input_permutation: vec![0, 1], ..Conv::plain(1) },
        Conv { kernel_permutation: vec![0, 1, 1], ..Conv::plain(1) },
        Conv { output_permutation: vec![0, 2, 1], ..Conv::plain(1) },
        Conv::plain(2),
    ];
    for attrs in cases {
        let message = error(Op::Conv(attrs), &[x.clone(), k.clone()], &ty(Type::F32, &[2, 4, 3]));
        assert!(message.starts_with("conv: "), "{message}");
    }
    let scalars = [iota(Type::F32, &[]), iota(Type::F32, &[])];
    let none =
        Conv { input_permutation: vec![], kernel_permutation: vec![], output_permutation: vec![], ..Conv::plain(0) };
    assert!(error(Op::Conv(none), &scalars, &ty(Type::F32, &[])).starts_with("conv: "));
}
