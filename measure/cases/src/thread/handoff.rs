//! Handing a turn over under a mutex and a condition variable, there and back.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::other_end::OtherEnd;
use kumiki_measure::case::{Case, Level, Place, Workload};
use kumiki_measure::error::Result;
use kumiki_measure::helper::{Helper, Part};
use kumiki_measure::meter::{Meter, Sample};

pub(super) fn cases() -> Vec<Case> {
    let case = |end: OtherEnd| {
        let setup =
            move |place: &Place| Ok(Handoff(Helper::start(end.cpu(place)?, Table::default())?));
        end.mark(Case::new(
            "thread.condvar",
            "hand a turn to another thread by std's mutex and condition variable, and get it back",
            setup,
        ))
    };
    vec![case(OtherEnd::Same).level(Level::Default), case(OtherEnd::Other)]
}

/// Side that has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Turn {
    #[default]
    Ours,
    Theirs,
    /// The helper's last.
    Quit,
}

#[derive(Default)]
struct Table {
    turn: Mutex<Turn>,
    changed: Condvar,
}

impl Table {
    fn hand_to(&self, mut turn: MutexGuard<'_, Turn>, to: Turn) {
        *turn = to;
        // As it is usually written: the woken thread does not run into a lock
        // that is still held.
        drop(turn);
        self.changed.notify_one();
    }

    fn wait_while(&self, whose: Turn) -> MutexGuard<'_, Turn> {
        let turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed.wait_while(turn, |turn| *turn == whose).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Part for Table {
    fn help(&self) {
        loop {
            let turn = self.wait_while(Turn::Ours);
            if *turn == Turn::Quit {
                return;
            }
            self.hand_to(turn, Turn::Ours);
        }
    }

    fn stop(&self) {
        self.hand_to(self.wait_while(Turn::Theirs), Turn::Quit);
    }
}

struct Handoff(Helper<Table>);

impl Workload for Handoff {
    fn sample(&mut self, iterations: u64, meter: &Meter) -> Result<Sample> {
        let table = self.0.part();
        meter.time(|| {
            for _ in 0..iterations {
                table.hand_to(table.wait_while(Turn::Theirs), Turn::Theirs);
                drop(table.wait_while(Turn::Theirs));
            }
            Ok(())
        })
    }
}
