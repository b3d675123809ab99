use std::collections::HashSet;

use ex_burn_engine::train::order;

#[test]
fn a_shuffled_order_is_a_permutation() {
    let mut rows = order(1000, Some(3), 5);
    assert_ne!(rows, order(1000, None, 5));
    rows.sort_unstable();
    assert_eq!(rows, order(1000, None, 5));
}

#[test]
fn depends_on_the_seed_and_the_epoch_alone() {
    assert_eq!(order(50, Some(3), 5), order(50, Some(3), 5));
    let others = [order(50, Some(3), 5), order(50, Some(3), 6), order(50, Some(4), 5), order(50, Some(4), 6)];
    assert_eq!(HashSet::from(others).len(), 4);
}

/// Every row comes to every place about equally often: 6000 epochs, 720 orders of 6, chi-squared of each place below
/// the 0.999 quantile of 5 degrees of freedom (20.5).
#[test]
fn no_place_is_preferred() {
    let mut counts = [[0f64; 6]; 6];
    for epoch in 1..=6000 {
        order(6, Some(1), epoch).iter().enumerate().for_each(|(place, &row)| counts[place][row as usize] += 1.0);
    }
    for place in counts {
        let chi: f64 = place.iter().map(|n| (n - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 20.5, "{place:?}");
    }
}
