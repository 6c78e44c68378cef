//! Counts words in a table that all threads use and no lock guards: each core owns a part of it, and
//! others ask its owner. Feature `resource`.
//!
//! ```console
//! $ cargo run -p kumiki --features resource --example table_of_cores -- README.md LICENSE-MIT
//! ```

use std::collections::HashMap;
use std::env;
use std::error::Error;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::thread;

use kumiki::resource::kind::{About, Kind};
use kumiki::resource::{Handle, Interface, Place, Result};

/// What one core owns: how often each of its words was seen.
struct Words(HashMap<String, u64>);

impl Kind for Words {
    const NAME: &'static str = "words";
    type Spec = ();
    type Pool = ();

    fn pool(_: Place) -> Result<()> {
        Ok(())
    }

    fn create((): (), (): &mut ()) -> Result<Words> {
        Ok(Words(HashMap::new()))
    }

    fn destroy(self, (): &mut ()) {}

    fn about(&self) -> About {
        About { state: format!("{} words", self.0.len()), bytes: 0 }
    }
}

/// Counts a text's words: one call to each owner, all of them at the same time.
fn count(
    interface: &Interface,
    table: &[Handle<Words>],
    hash: &RandomState,
    text: &str,
) -> Result<()> {
    let mut of_owner: Vec<Vec<String>> = vec![Vec::new(); table.len()];
    for word in text.split_whitespace() {
        of_owner[hash.hash_one(word) as usize % table.len()].push(word.to_owned());
    }
    let counted = interface.each(table.iter().zip(of_owner), |Words(map), (), words| {
        for word in words {
            *map.entry(word).or_default() += 1;
        }
    });
    counted.into_iter().collect()
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let texts =
        env::args_os().skip(1).map(fs::read_to_string).collect::<std::io::Result<Vec<_>>>()?;
    // A thread of its own on each core: give them cpus that nothing else uses.
    let interface = Interface::builder().kind::<Words>().per_core()?;
    let places = interface.places();
    let table: Vec<Handle<Words>> = places
        .iter()
        .map(|&place| interface.create::<Words>(place, Some("all"), ()))
        .collect::<Result<_>>()?;
    let hash = RandomState::new();
    let count = |text| count(&interface, &table, &hash, text);
    let count = &count;
    thread::scope(|scope| {
        let threads: Vec<_> = texts.iter().map(|text| scope.spawn(move || count(text))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let (mut words, mut different) = (0, 0);
    for part in &table {
        let (sum, keys) =
            interface.with(part, |Words(map), ()| (map.values().sum::<u64>(), map.len()))?;
        words += sum;
        different += keys;
    }
    println!("{words} words, {different} different ones");
    Ok(())
}
