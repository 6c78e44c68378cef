//! Bodies that attract one another: the work that all subjects divide.
//!
//! An iteration is two passes over all bodies. Each body is one task of either; the
//! second pass needs what all of the first have found, and the next first what all of
//! the second have moved. A task's arithmetic has one order, so however the tasks are
//! divided, the bodies end where they end without a second thread, to the last bit.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Seconds between two iterations.
const STEP: f32 = 1e-3;
/// Squared, keeps bodies that meet from leaving at any speed, and a body from itself.
const SOFTENING: f32 = 1e-2;

/// A number that a task writes and, in another pass, others read. Relaxed: what hands
/// out the tasks and waits for them orders it; on this processor these are plain moves.
#[derive(Debug, Default)]
struct Number(AtomicU32);

impl Number {
    #[inline(always)]
    fn get(&self) -> f32 {
        f32::from_bits(self.0.load(Relaxed))
    }

    #[inline(always)]
    fn set(&self, value: f32) {
        self.0.store(value.to_bits(), Relaxed);
    }
}

type Vector = [Number; 3];

/// Where a body is, and how heavy.
#[derive(Debug, Default)]
#[repr(align(16))]
struct Place {
    at: Vector,
    mass: f32,
}

/// All bodies. Each array is written in one pass only, but for a task's own element.
#[derive(Debug)]
pub(crate) struct Bodies {
    places: Vec<Place>,
    velocities: Vec<Vector>,
    accelerations: Vec<Vector>,
}

impl Bodies {
    /// So many at rest in a cube, the same in each process.
    pub(crate) fn new(n: usize) -> Self {
        let mut rng = fastrand::Rng::with_seed(n as u64);
        let mut place = || Place {
            at: std::array::from_fn(|_| Number(rng.f32().to_bits().into())),
            mass: 0.5 + rng.f32(),
        };
        Bodies {
            places: (0..n).map(|_| place()).collect(),
            velocities: (0..n).map(|_| Vector::default()).collect(),
            accelerations: (0..n).map(|_| Vector::default()).collect(),
        }
    }

    /// How many.
    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// A task of the first pass: what all bodies together do to body `i`.
    #[inline]
    pub(crate) fn attract(&self, i: usize) {
        let here = self.places[i].at.each_ref().map(Number::get);
        let mut sum = [0.0_f32; 3];
        for other in &self.places {
            let away: [f32; 3] = std::array::from_fn(|axis| other.at[axis].get() - here[axis]);
            let squared = away.iter().map(|x| x * x).sum::<f32>() + SOFTENING;
            let pull = other.mass / (squared * squared.sqrt());
            for (sum, away) in sum.iter_mut().zip(away) {
                *sum += pull * away;
            }
        }
        for (number, value) in self.accelerations[i].iter().zip(sum) {
            number.set(value);
        }
    }

    /// A task of the second pass: body `i` goes on.
    #[inline]
    pub(crate) fn advance(&self, i: usize) {
        for axis in 0..3 {
            let velocity = &self.velocities[i][axis];
            velocity.set(velocity.get() + STEP * self.accelerations[i][axis].get());
            let place = &self.places[i].at[axis];
            place.set(place.get() + STEP * velocity.get());
        }
    }

    /// Where all are and how fast, to the last bit.
    pub(crate) fn state(&self) -> Vec<[u32; 6]> {
        let bodies = self.places.iter().zip(&self.velocities);
        let bits = |number: &Number| number.get().to_bits();
        let both = |(place, velocity): (&Place, &Vector)| {
            let [[x, y, z], [u, v, w]] = [&place.at, velocity].map(|it| it.each_ref().map(bits));
            [x, y, z, u, v, w]
        };
        bodies.map(both).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn momentum(bodies: &Bodies) -> [f32; 3] {
        let each = bodies.places.iter().zip(&bodies.velocities);
        each.fold([0.0; 3], |sum, (place, velocity)| {
            std::array::from_fn(|axis| sum[axis] + place.mass * velocity[axis].get())
        })
    }

    #[test]
    fn bodies_attract_one_another_and_keep_their_momentum() {
        let bodies = Bodies::new(32);
        let start = bodies.state();
        for _ in 0..10 {
            (0..bodies.len()).for_each(|i| bodies.attract(i));
            (0..bodies.len()).for_each(|i| bodies.advance(i));
        }
        assert!(bodies.state().iter().zip(&start).all(|(now, then)| now[..3] != then[..3]));
        let fastest = bodies.velocities.iter().flatten().map(|v| v.get().abs());
        assert!(fastest.fold(0.0, f32::max) > 0.05, "they hardly move");
        assert!(momentum(&bodies).iter().all(|m| m.abs() < 1e-3), "{:?}", momentum(&bodies));
    }

    #[test]
    fn two_bodies_fall_towards_each_other() {
        let bodies = Bodies::new(2);
        let apart = |bodies: &Bodies| {
            let [a, b] = [0, 1].map(|i| bodies.places[i].at.each_ref().map(Number::get));
            a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
        };
        let before = apart(&bodies);
        for _ in 0..10 {
            (0..2).for_each(|i| bodies.attract(i));
            (0..2).for_each(|i| bodies.advance(i));
        }
        assert!(apart(&bodies) < before);
    }
}
