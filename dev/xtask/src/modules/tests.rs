use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// A crate of these files, and what is found in it.
fn found(files: &[(&str, &str)]) -> Vec<String> {
    let metadata = serde_json::from_value(json!({
        "packages": [{
            "name": "sample", "version": "0.1.0", "id": "sample", "source": null, "features": {},
            "manifest_path": "/w/Cargo.toml", "metadata": null, "dependencies": [],
            "targets": [{
                "name": "sample", "kind": ["lib"], "crate_types": ["lib"],
                "src_path": "/w/src/lib.rs", "edition": "2024",
            }],
        }],
        "workspace_members": ["sample"], "resolve": null, "workspace_root": "/w",
        "target_directory": "/w/target", "version": 1,
    }))
    .unwrap();
    let files: BTreeMap<_, _> =
        files.iter().map(|(name, text)| (Path::new("/w/src").join(name), *text)).collect();
    let source = |path: &Path| {
        let text = files.get(path).with_context(|| format!("no {}", path.display()))?;
        Ok((*text).to_owned())
    };
    faults(&metadata, &source).unwrap()
}

const ROOT: &str = "mod a; mod b; mod c; pub use c::C;";

#[test]
fn modules_in_an_order_are_fine() {
    let faults = found(&[
        ("lib.rs", ROOT),
        ("a.rs", "use crate::b::B; use crate::C; pub struct A(B, C);"),
        ("b/mod.rs", "use crate::c::C; pub struct B(C);"),
        ("c.rs", "pub struct C; #[cfg(test)] mod tests { use crate::a::A; }"),
    ]);
    assert_eq!(faults, [] as [&str; 0]);
}

#[test]
fn a_circle_is_found_with_what_ties_it() {
    let faults = found(&[
        ("lib.rs", ROOT),
        ("a.rs", "fn f() { crate::b::g() }"),
        ("b.rs", "use crate::{C, c}; pub fn g() {}"),
        ("c.rs", "pub struct C; macro_rules! m { () => { m!($crate::a::f()) } }"),
    ]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    let fault = &faults[0];
    assert!(fault.starts_with("sample (sample): a circle of a, b, c"), "{fault}");
    assert!(fault.contains("a names crate::b::g of b (/w/src/a.rs)"), "{fault}");
    assert!(fault.contains("b names crate::C of c (/w/src/b.rs)"), "{fault}");
}

#[test]
fn what_the_root_hands_on_is_named_where_it_is_defined() {
    let faults = found(&[
        ("lib.rs", ROOT),
        ("a.rs", "use crate::C; pub struct A(C);"),
        ("b.rs", ""),
        ("c.rs", "pub struct C; fn f() -> Option<super::a::A> { None }"),
    ]);
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("a circle of a, c"), "{faults:?}");
}

#[test]
fn a_module_and_those_within_it_are_one() {
    let within = ("c.rs", "mod d; pub struct C(d::D); pub struct E;");
    let root = [("lib.rs", ROOT), ("a.rs", ""), ("b.rs", "")];
    let child = ("c/d.rs", "use super::E; use crate::b; pub struct D(E);");
    assert_eq!(found(&[&root[..], &[within, child]].concat()), [] as [&str; 0]);
    // Yet a child's name is its parent's for everybody else.
    let root = [("lib.rs", ROOT), ("a.rs", ""), ("b.rs", "use crate::c::E; struct F(E);")];
    let child = ("c/d.rs", "use crate::b::F; pub struct D(F);");
    let faults = found(&[&root[..], &[within, child]].concat());
    assert!(faults[0].contains("a circle of b, c"), "{faults:?}");
}

/// Names of types that a crate of these files defines more than once.
fn repeated(files: &[(&str, &str)]) -> Vec<String> {
    let files: BTreeMap<_, _> =
        files.iter().map(|(name, text)| (Path::new("/w/src").join(name), *text)).collect();
    let source = |path: &Path| {
        let text = files.get(path).with_context(|| format!("no {}", path.display()))?;
        Ok((*text).to_owned())
    };
    let tree = Tree::read(Path::new("/w/src/lib.rs"), &source).unwrap();
    types::repeated(&tree).collect()
}

#[test]
fn a_type_that_two_modules_define_is_found() {
    let found = repeated(&[
        ("lib.rs", "mod a; mod b { type Way = u8; fn f() { struct Inner; } } struct Inner;"),
        ("a/mod.rs", "mod inner; enum Way { In } union Once { a: u8 }"),
        ("a/inner.rs", "trait Way {} #[cfg(test)] mod tests { struct Once; }"),
    ]);
    assert_eq!(found, ["Way: crate::a, crate::a::inner, crate::b"]);
}

#[test]
fn types_of_which_a_build_has_one_are_one() {
    let files = |other: &'static str| {
        let root = "#[cfg(unix)] mod a; #[cfg(not(unix))] mod b;";
        repeated(&[("lib.rs", root), ("a.rs", "pub struct Way;"), ("b.rs", other)])
    };
    assert_eq!(files("pub enum Way {}"), [] as [&str; 0]);
    let own = "mod c; #[cfg(unix)] mod a; #[cfg(not(unix))] mod b;";
    let way = "pub struct Way;";
    let found = repeated(&[("lib.rs", own), ("a.rs", way), ("b.rs", way), ("c.rs", way)]);
    assert_eq!(found, ["Way: crate::a, crate::b, crate::c"]);
}
