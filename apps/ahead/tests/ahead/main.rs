//! Programs with the library in front: on a slow disk that counts who asked for what, and on trees at random, where
//! they must do what they do without.

mod asked;
mod attributes;
mod contents;
mod memory;
mod names;
mod odd;
mod order;
mod same;
mod scene;
mod slow;
mod strace;
mod unnumbered;
mod untold;
