//! kumiki-du beside GNU du: the same lines, messages and exit codes.
//!
//! Which release of GNU du the machine has is known ([`scene::Gnu`]): kumiki-du does
//! as 9.7, and where an older one does otherwise, a test says what.

mod faults;
mod links;
mod names;
mod options;
mod output;
mod scene;
mod sizes;
mod terminal;
mod times;
mod traced;
mod trees;
mod values;
