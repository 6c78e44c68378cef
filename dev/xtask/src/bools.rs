//! No `bool` in a public call: `remove(name, true)` does not tell its reader what is true. Two
//! functions, an enum or a builder do.
//!
//! A builder's setter may take one, as `OpenOptions::read(true)` does: its name says what is true.

use anyhow::{Result, bail};
use cargo_metadata::TargetKind;
use syn::{FnArg, ImplItem, Item, ReturnType, Signature, TraitItem, Type, Visibility};

use crate::first_lines::each_source;
use crate::run::metadata;

/// Crates of which only other crates of ours call anything: protocols, where a bool is a word's
/// bit, and what `kumiki-node` and the chores are made of.
const INTERNAL: [&str; 5] =
    ["kumiki-calls", "kumiki-node-image", "kumiki-ship", "kumiki-slot", "kumiki-spawn-wire"];
/// Folder of programs, whose libraries are for their own tests.
const PROGRAMS: &str = "/apps/";

/// Checks every library of the workspace.
pub(crate) fn check() -> Result<()> {
    let mut faults = Vec::new();
    for package in metadata()?.workspace_packages() {
        let is_library =
            package.targets.iter().any(|target| target.kind.contains(&TargetKind::Lib));
        let folder = package.manifest_path.parent().unwrap_or(&package.manifest_path);
        let is_program = folder.as_str().contains(PROGRAMS);
        if is_program || !is_library || INTERNAL.contains(&package.name.as_str()) {
            continue;
        }
        each_source(folder.join("src").as_std_path(), &mut |file, text| {
            let found = calls(text).into_iter();
            faults.extend(found.map(|name| format!("{file}: {name}")));
        })?;
    }
    if !faults.is_empty() {
        bail!(
            "public calls take a bool: make two of them, or give it an enum or a builder\n  {}",
            faults.join("\n  ")
        );
    }
    Ok(())
}

/// Public functions of a source that take a `bool`. A text that is no Rust has none: the compiler
/// tells of it.
fn calls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Ok(file) = syn::parse_file(text) {
        items(&file.items, &mut found);
    }
    found
}

fn items(all: &[Item], found: &mut Vec<String>) {
    for item in all {
        match item {
            Item::Fn(function) if is_public(&function.vis) => see(&function.sig, found),
            Item::Impl(block) if block.trait_.is_none() => {
                for item in &block.items {
                    if let ImplItem::Fn(function) = item
                        && is_public(&function.vis)
                    {
                        see(&function.sig, found);
                    }
                }
            }
            Item::Trait(one) if is_public(&one.vis) => {
                for item in &one.items {
                    if let TraitItem::Fn(function) = item {
                        see(&function.sig, found);
                    }
                }
            }
            Item::Mod(module) if module.ident != "tests" && module.ident != "loom" => {
                let inside = module.content.as_ref().map(|(_, items)| items.as_slice());
                items(inside.unwrap_or_default(), found);
            }
            _ => {}
        }
    }
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

fn see(signature: &Signature, found: &mut Vec<String>) {
    let inputs = || signature.inputs.iter();
    let takes = inputs().any(|input| matches!(input, FnArg::Typed(one) if is_bool(&one.ty)));
    if takes && !is_setter(signature) {
        found.push(signature.ident.to_string());
    }
}

fn is_bool(kind: &Type) -> bool {
    matches!(kind, Type::Path(path) if path.path.is_ident("bool"))
}

/// True for a builder's setter: one value, and itself again.
fn is_setter(signature: &Signature) -> bool {
    let has_receiver = matches!(signature.inputs.first(), Some(FnArg::Receiver(_)));
    let gives_itself = match &signature.output {
        ReturnType::Type(_, kind) => match &**kind {
            Type::Path(path) => path.path.is_ident("Self"),
            Type::Reference(reference) => reference.mutability.is_some(),
            _ => false,
        },
        ReturnType::Default => false,
    };
    has_receiver && signature.inputs.len() == 2 && gives_itself
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bool_of_a_public_call_is_found_and_that_of_a_setter_is_not() {
        let text = "pub fn a(force: bool) {}\nfn b(force: bool) {}\npub(crate) fn c(force: bool) {}\n\
                    impl One {\n pub fn d(&self, name: &str, again: bool) -> Self { todo!() }\n \
                    pub fn e(mut self, bind: bool) -> Self { self }\n \
                    pub fn f(&mut self, leads: bool) -> &mut One { self }\n \
                    pub fn g(&self) -> bool { true }\n pub fn h(&self, bind: bool) {}\n}\n\
                    impl Way for One { fn i(&self, far: bool) {} }\n\
                    pub trait Way { fn i(&self, far: bool); }\n\
                    mod inner { pub fn j(to: impl Fn(bool)) {}\n pub fn k(is: bool) {} }\n\
                    mod tests { pub fn l(is: bool) {} }\n";
        assert_eq!(calls(text), ["a", "d", "h", "i", "k"]);
    }
}
