//! The rules in instructions: what a parameter changes by, and what its moments become.

use super::compiled::Norm;
use super::{Adagrad, Adam, Adamw, Lamb, Lion, Muon, Rmsprop, Rule, Sgd, muon};
use crate::adjoint::Builder;
use crate::program::{Axes, Binary, Dot, Op, Unary};

/// Smaller elements than this do not count in a norm.
const LEAST: f64 = 1e-30;

/// Values of one parameter: itself, its prepared gradient, its moments and what they become, and numbers of the step.
pub(super) struct Site {
    pub(super) param: usize,
    pub(super) gradient: usize,
    pub(super) moments: Vec<usize>,
    pub(super) learning_rate: usize,
    /// What the two moments of Adam are multiplied by.
    pub(super) corrections: [usize; 2],
}

/// Writes formulas.
pub(super) struct Formulas<'a>(pub(super) &'a mut Builder);

impl Formulas<'_> {
    /// What the parameter changes by; the moments move on.
    pub(super) fn change(&mut self, rule: &Rule, site: &mut Site) -> usize {
        match rule {
            Rule::Sgd(sgd) => self.sgd(sgd, site),
            Rule::Adam(adam) => self.adam(adam, site),
            Rule::Adamw(adamw) => self.adamw(adamw, site),
            Rule::Rmsprop(rmsprop) => self.rmsprop(rmsprop, site),
            Rule::Adagrad(adagrad) => self.adagrad(adagrad, site),
            Rule::Lion(lion) => self.lion(lion, site),
            Rule::Lamb(lamb) => self.lamb(lamb, site),
            Rule::Muon(muon) if Muon::is_matrix(&self.0.shape(site.param)) => self.muon(muon, site),
            Rule::Muon(muon) => self.adamw(&muon.vectors(), site),
        }
    }

    fn plus(&mut self, a: usize, b: usize) -> usize {
        self.0.binary(Binary::Add, a, b)
    }

    fn scaled(&mut self, x: usize, number: f64) -> usize {
        self.0.with(Binary::Multiply, x, number)
    }

    fn root(&mut self, x: usize, below: f64) -> usize {
        let x = self.0.with(Binary::Add, x, below);
        self.0.unary(Unary::Sqrt, x)
    }

    /// `decay * old + (1 - decay) * new`.
    fn mean(&mut self, decay: f64, old: usize, new: usize) -> usize {
        let (old, new) = (self.scaled(old, decay), self.scaled(new, 1.0 - decay));
        self.plus(old, new)
    }

    /// A step of the learning rate down along `direction`.
    fn down(&mut self, direction: usize, site: &Site) -> usize {
        let step = self.0.times(direction, site.learning_rate);
        self.0.negated(step)
    }

    fn sgd(&mut self, sgd: &Sgd, site: &mut Site) -> usize {
        let Some(decay) = sgd.momentum else { return self.down(site.gradient, site) };
        let kept = self.scaled(site.moments[0], decay);
        let trace = self.plus(kept, site.gradient);
        site.moments[0] = trace;
        let direction = if sgd.nesterov {
            let ahead = self.scaled(trace, decay);
            self.plus(ahead, site.gradient)
        } else {
            trace
        };
        self.down(direction, site)
    }

    /// What Adam multiplies by the learning rate.
    fn direction(&mut self, adam: &Adam, site: &mut Site) -> usize {
        let square = self.0.squared(site.gradient);
        let m = self.mean(adam.b1, site.moments[0], site.gradient);
        let v = self.mean(adam.b2, site.moments[1], square);
        site.moments = vec![m, v];
        let (m, v) = (self.0.times(m, site.corrections[0]), self.0.times(v, site.corrections[1]));
        let root = self.root(v, adam.eps_root);
        let below = self.0.with(Binary::Add, root, adam.eps);
        self.0.over(m, below)
    }

    fn adam(&mut self, adam: &Adam, site: &mut Site) -> usize {
        let direction = self.direction(adam, site);
        self.down(direction, site)
    }

    fn adamw(&mut self, adamw: &Adamw, site: &mut Site) -> usize {
        let direction = self.direction(&adamw.adam(), site);
        let decayed = self.scaled(site.param, adamw.decay);
        let direction = self.plus(direction, decayed);
        self.down(direction, site)
    }

    fn rmsprop(&mut self, rmsprop: &Rmsprop, site: &mut Site) -> usize {
        let squared = self.0.squared(site.gradient);
        let mut square = self.mean(rmsprop.decay, site.moments[0], squared);
        site.moments[0] = square;
        if rmsprop.centered {
            let mean = self.mean(rmsprop.decay, site.moments[1], site.gradient);
            site.moments[1] = mean;
            let of_mean = self.0.squared(mean);
            square = self.0.binary(Binary::Subtract, square, of_mean);
        }
        let root = self.root(square, rmsprop.eps);
        let direction = self.0.over(site.gradient, root);
        let change = self.down(direction, site);
        let (Some(momentum), Some(trace)) = (rmsprop.momentum, site.moments.last_mut()) else { return change };
        let kept = self.scaled(*trace, momentum);
        *trace = self.plus(kept, change);
        let trace = *trace;
        if !rmsprop.nesterov {
            return trace;
        }
        let ahead = self.scaled(trace, momentum);
        self.plus(ahead, change)
    }

    fn adagrad(&mut self, adagrad: &Adagrad, site: &mut Site) -> usize {
        let square = self.0.squared(site.gradient);
        let sum = self.plus(site.moments[0], square);
        site.moments[0] = sum;
        let root = self.root(sum, adagrad.eps);
        let direction = self.0.over(site.gradient, root);
        let change = self.down(direction, site);
        let started = self.0.with(Binary::Greater, sum, 0.0);
        self.0.keep(started, change)
    }

    fn lion(&mut self, lion: &Lion, site: &mut Site) -> usize {
        let mixed = self.mean(lion.b1, site.moments[0], site.gradient);
        site.moments[0] = self.mean(lion.b2, site.moments[0], site.gradient);
        let sign = self.0.unary(Unary::Sign, mixed);
        let decayed = self.scaled(site.param, lion.decay);
        let direction = self.plus(sign, decayed);
        self.down(direction, site)
    }

    fn norm(&mut self, x: usize) -> usize {
        Norm::of(self.0, &[x], LEAST).number(self.0)
    }

    fn lamb(&mut self, lamb: &Lamb, site: &mut Site) -> usize {
        let direction = self.direction(&lamb.adam(), site);
        let decayed = self.scaled(site.param, lamb.decay);
        let direction = self.plus(direction, decayed);
        let [param, change] = [site.param, direction].map(|x| {
            let norm = self.norm(x);
            self.0.with(Binary::Max, norm, lamb.min_norm)
        });
        let one = self.0.number(1.0, self.0.ty(param).dtype);
        let both = self.0.binary(Binary::Min, param, change);
        let trust = self.0.over(param, change);
        let trust = self.0.select(both, trust, one);
        let direction = self.0.times(direction, trust);
        self.down(direction, site)
    }

    fn muon(&mut self, muon: &Muon, site: &mut Site) -> usize {
        let trace = self.mean(muon.momentum, site.moments[0], site.gradient);
        site.moments[0] = trace;
        let direction = if muon.nesterov { self.mean(muon.momentum, trace, site.gradient) } else { trace };
        let shape = self.0.shape(site.param);
        let columns = shape[shape.len() - 1];
        let rows = shape.iter().product::<usize>() / columns.max(1);
        let matrix = self.0.reshape(direction, &[rows, columns]);
        let orthogonal = self.orthogonal(muon, matrix, rows > columns);
        let orthogonal = self.0.reshape(orthogonal, &shape);
        let direction = self.scaled(orthogonal, muon::length(rows, columns));
        let decayed = self.scaled(site.param, muon.decay);
        let direction = self.plus(direction, decayed);
        self.down(direction, site)
    }

    /// Near the orthogonal matrix that is closest to `x`.
    fn orthogonal(&mut self, muon: &Muon, x: usize, is_tall: bool) -> usize {
        let norm = self.norm(x);
        let norm = self.0.with(Binary::Add, norm, muon.eps);
        let mut x = if is_tall { self.turned(x) } else { x };
        x = self.0.over(x, norm);
        for _ in 0..muon.steps {
            let across = self.turned(x);
            let square = self.product(x, across);
            let fourth = self.product(square, square);
            let (square, fourth) = (self.scaled(square, muon::B), self.scaled(fourth, muon::C));
            let factor = self.plus(square, fourth);
            let more = self.product(factor, x);
            let kept = self.scaled(x, muon::A);
            x = self.plus(kept, more);
        }
        if is_tall { self.turned(x) } else { x }
    }

    fn turned(&mut self, x: usize) -> usize {
        let ty = self.0.ty(x).clone();
        let shape = [ty.shape[1], ty.shape[0]];
        self.0.emit(Op::Transpose(Axes { axes: vec![1, 0] }), &[x], ty.dtype, &shape)
    }

    fn product(&mut self, a: usize, b: usize) -> usize {
        let dtype = self.0.ty(a).dtype;
        let shape = [self.0.shape(a)[0], self.0.shape(b)[1]];
        let dot = Dot { lhs_contract: vec![1], lhs_batch: vec![], rhs_contract: vec![0], rhs_batch: vec![] };
        self.0.emit(Op::Dot(dot), &[a, b], dtype, &shape)
    }
}
