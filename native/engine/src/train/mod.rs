//! Gradient descent on a program.
