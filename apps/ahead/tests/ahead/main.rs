//! Programs with the library in front: on a slow disk that counts who asked for what, and on trees at random, where
//! they must do what they do without.

mod asked;
mod names;
mod odd;
mod same;
mod scene;
mod slow;
