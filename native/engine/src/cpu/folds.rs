//! What elements can be folded by.

use super::{Cell, Number, Total};

/// How elements are folded, in any order.
pub(crate) trait Fold<T> {
    /// The running result.
    type State: Copy + Send + Sync;

    /// What the running result ends as.
    type Result: Cell;

    /// The result of nothing.
    const IDENTITY: Self::State;

    /// Whether it adds up.
    const IS_SUM: bool = false;

    /// Takes one more element.
    fn step(state: Self::State, x: T) -> Self::State;

    /// Takes four more elements, in any order.
    #[inline(always)]
    fn steps(state: Self::State, four: [T; 4]) -> Self::State {
        four.into_iter().fold(state, Self::step)
    }

    /// Makes one of two running results.
    fn join(a: Self::State, b: Self::State) -> Self::State;

    /// Rounds the running result.
    fn finish(state: Self::State) -> Self::Result;

    /// Whether another order may give another result: infinities that parts grew to may have met, or a zero.
    fn is_doubtful(_state: Self::State) -> bool {
        false
    }
}

/// The sum, wide for floats and wrapping for integers. Floats that are no wider than `f32` are added up by fours in `f32`
/// where there are many; the infinity that four of them may grow to is doubtful.
pub(crate) struct Sum;

impl<T: Cell> Fold<T> for Sum {
    type State = T::Total;
    type Result = T;

    const IDENTITY: T::Total = T::Total::ZERO;
    const IS_SUM: bool = true;

    fn step(state: T::Total, x: T) -> T::Total {
        state.plus(x.total())
    }

    #[inline(always)]
    fn steps(state: T::Total, four: [T; 4]) -> T::Total {
        state.plus(T::total_of(four))
    }

    fn join(a: T::Total, b: T::Total) -> T::Total {
        a.plus(b)
    }

    fn finish(state: T::Total) -> T {
        T::from_total(state)
    }

    fn is_doubtful(state: T::Total) -> bool {
        !state.is_finite()
    }
}

/// The product, wide for floats and wrapping for integers.
pub(crate) struct Product;

impl<T: Cell> Fold<T> for Product {
    type State = T::Total;
    type Result = T;

    const IDENTITY: T::Total = T::Total::ONE;

    fn step(state: T::Total, x: T) -> T::Total {
        state.times(x.total())
    }

    fn join(a: T::Total, b: T::Total) -> T::Total {
        a.times(b)
    }

    fn finish(state: T::Total) -> T {
        T::from_total(state)
    }

    fn is_doubtful(state: T::Total) -> bool {
        state.is_nan()
    }
}

macro_rules! choice {
    ($($(#[$doc:meta])* $name:ident, $identity:ident, $wins:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<T: Number> Fold<T> for $name {
            type State = T;
            type Result = T;

            const IDENTITY: T = T::$identity;

            fn step(state: T, x: T) -> T {
                if x $wins state || x.is_unordered() { x } else { state }
            }

            /// NaN is looked for in two elements at once.
            #[inline(always)]
            fn steps(state: T, [a, b, c, d]: [T; 4]) -> T {
                let winner = |x: T, y: T| if x $wins y { x } else { y };
                let unordered = a.partial_cmp(&b).is_none() | c.partial_cmp(&d).is_none();
                Self::step(state, if unordered { T::UNORDERED } else { winner(winner(a, b), winner(c, d)) })
            }

            fn join(a: T, b: T) -> T {
                Self::step(a, b)
            }

            fn finish(state: T) -> T {
                state
            }
        }
    )*};
}

choice! {
    /// The largest; NaN when there is one.
    Max, LOWEST, >;
    /// The smallest; NaN when there is one.
    Min, HIGHEST, <;
}

macro_rules! truth {
    ($($(#[$doc:meta])* $name:ident, $identity:literal, $combine:tt;)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name;

        impl<T: Cell> Fold<T> for $name {
            type State = bool;
            type Result = u8;

            const IDENTITY: bool = $identity;

            fn step(state: bool, x: T) -> bool {
                state $combine (x != T::default())
            }

            fn join(a: bool, b: bool) -> bool {
                a $combine b
            }

            fn finish(state: bool) -> u8 {
                state.into()
            }
        }
    )*};
}

truth! {
    /// 1 when no element is zero.
    All, true, &;
    /// 1 when an element is not zero.
    Any, false, |;
}
