//! Squares whose rows become columns, by vectors of 16 bytes.

use wide::{u8x16, u16x8, u32x4, u64x2};

/// Rows and columns of a square: of most types a line of memory each way, so that each line is read and written once.
pub(super) const SIDE: usize = 16;

/// Elements that are turned in vectors. Left to itself, the compiler gathers them one by one.
pub(super) trait Turn: Sized {
    /// Hands out the columns of `square` piece by piece, with the number of the column and of the piece's first row. Some
    /// columns are finished before others are begun.
    fn turn(square: &[[Self; SIDE]; SIDE], put: impl FnMut(usize, usize, &[Self]));
}

macro_rules! turns {
    ($($element:ident $vector:ident $width:literal;)*) => {$(
        impl Turn for $element {
            #[inline(always)]
            fn turn(square: &[[Self; SIDE]; SIDE], mut put: impl FnMut(usize, usize, &[Self])) {
                for column in (0..SIDE).step_by($width) {
                    for row in (0..SIDE).step_by($width) {
                        let tile = std::array::from_fn(|i| $vector::from(&square[row + i][column..][..$width]));
                        for (i, piece) in $vector::transpose(tile).into_iter().enumerate() {
                            put(column + i, row, &piece.to_array());
                        }
                    }
                }
            }
        }
    )*};
}

turns! {
    u8 u8x16 16;
    u16 u16x8 8;
    u32 u32x4 4;
    u64 u64x2 2;
}

#[cfg(test)]
mod tests {
    use super::{SIDE, Turn};

    fn turned<T: Turn + Copy + Default + PartialEq>(of: impl Fn(usize) -> T) -> bool {
        let square: [[T; SIDE]; SIDE] =
            std::array::from_fn(|row| std::array::from_fn(|column| of(row * SIDE + column)));
        let mut columns = [[T::default(); SIDE]; SIDE];
        T::turn(&square, |column, row, piece| columns[column][row..][..piece.len()].copy_from_slice(piece));
        (0..SIDE).all(|row| (0..SIDE).all(|column| columns[column][row] == square[row][column]))
    }

    #[test]
    fn columns_are_the_rows_of_every_width() {
        assert!(turned(|i| i as u8) && turned(|i| i as u16) && turned(|i| i as u32) && turned(|i| i as u64));
    }
}
