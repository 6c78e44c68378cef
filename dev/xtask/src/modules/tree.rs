//! The modules of one crate, and what each names of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use quote::ToTokens;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemMod, Lit, Meta, Token, UseTree};

use super::names;

/// A module by its names from the crate's root on; the root's own is empty.
type ModuleName = Vec<String>;

/// The modules of a crate, without those that are built for tests alone.
pub(super) struct Tree {
    modules: BTreeMap<ModuleName, Module>,
    /// What each names of another, with one place where it does.
    names: BTreeMap<(ModuleName, ModuleName), Witness>,
}

#[derive(Default)]
struct Module {
    file: PathBuf,
    children: BTreeSet<String>,
    /// What a `use` brings in, by the name that it gets here.
    brought: BTreeMap<String, Vec<String>>,
    /// Modules of which a `use` brings in everything.
    globs: Vec<Vec<String>>,
    /// Names of its own.
    items: BTreeSet<String>,
    /// Names of its own types.
    types: BTreeSet<String>,
    /// True if some builds without tests lack it.
    is_conditional: bool,
    /// Paths that its code names.
    paths: Vec<Vec<String>>,
}

/// One place where a module is named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Witness {
    pub(super) file: PathBuf,
    pub(super) path: String,
}

impl Tree {
    /// Reads the crate whose root file is `root`.
    pub(super) fn read(root: &Path, source: &dyn Fn(&Path) -> Result<String>) -> Result<Tree> {
        let mut tree = Tree { modules: BTreeMap::new(), names: BTreeMap::new() };
        let folder = root.parent().context("a root file stands in a folder")?;
        tree.file(&ModuleName::new(), root, folder, source)?;
        tree.resolve();
        Ok(tree)
    }

    /// Reads module `name` from its file; `folder` is where its children's files are.
    fn file(
        &mut self,
        name: &ModuleName,
        file: &Path,
        folder: &Path,
        source: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        let parsed = syn::parse_file(&source(file)?)
            .with_context(|| format!("{} is no Rust", file.display()))?;
        self.modules.entry(name.clone()).or_default().is_conditional |=
            parsed.attrs.iter().any(is_condition);
        self.items(name, parsed.items, file, folder, source)
    }

    fn items(
        &mut self,
        name: &ModuleName,
        items: Vec<Item>,
        file: &Path,
        folder: &Path,
        source: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        let mut module = Module { file: file.to_owned(), ..Module::default() };
        let mut inner = Vec::new();
        for item in items {
            if attributes(&item).iter().any(is_for_tests) {
                continue;
            }
            match item {
                Item::Mod(item) => {
                    module.children.insert(plain(&item.ident));
                    inner.push(item);
                }
                item => module.add(&item),
            }
        }
        // Of two for different targets the last: each is read, and both are one name.
        self.modules.entry(name.clone()).or_default().merge(module);
        for item in inner {
            self.child(name, item, file, folder, source)?;
        }
        Ok(())
    }

    /// Reads `item`, a module within module `name`.
    fn child(
        &mut self,
        name: &ModuleName,
        item: ItemMod,
        file: &Path,
        folder: &Path,
        source: &dyn Fn(&Path) -> Result<String>,
    ) -> Result<()> {
        let own = plain(&item.ident);
        let inside = folder.join(&own);
        let child: ModuleName = name.iter().cloned().chain([own.clone()]).collect();
        let is_conditional = item.attrs.iter().any(is_condition)
            || self.modules.get(name).is_some_and(|module| module.is_conditional);
        self.modules.entry(child.clone()).or_default().is_conditional |= is_conditional;
        if let Some((_, items)) = item.content {
            return self.items(&child, items, file, &inside, source);
        }
        if let Some(path) = item.attrs.iter().find_map(path_attribute) {
            let beside = file.parent().context("a file stands in a folder")?;
            let at = beside.join(path);
            let inside = at.parent().context("a file stands in a folder")?.to_owned();
            return self.file(&child, &at, &inside, source);
        }
        for at in [folder.join(format!("{own}.rs")), inside.join("mod.rs")] {
            if source(&at).is_ok() {
                return self.file(&child, &at, &inside, source);
            }
        }
        bail!("{}: no file of module {own} in {}", file.display(), folder.display())
    }

    /// Finds out what each path leads to.
    fn resolve(&mut self) {
        let mut names = BTreeMap::new();
        for (from, module) in &self.modules {
            for path in &module.paths {
                let Some(to) = self.defining(from, path, 0) else { continue };
                let witness = Witness { file: module.file.clone(), path: path.join("::") };
                names.entry((from.clone(), to)).or_insert(witness);
            }
        }
        self.names = names;
    }

    /// The module in which what `path` names in module `from` is defined; `None`: in
    /// another crate.
    fn defining(&self, from: &ModuleName, path: &[String], depth: usize) -> Option<ModuleName> {
        // Two modules that bring in all of each other.
        if depth > 20 {
            return None;
        }
        let mut at = from.clone();
        let mut rest = path;
        let mut is_first = true;
        while let [segment, after @ ..] = rest {
            match segment.as_str() {
                "crate" => at = ModuleName::new(),
                "self" => {}
                "super" => drop(at.pop()?),
                name => {
                    let module = self.modules.get(&at)?;
                    if module.children.contains(name)
                        && self.modules.contains_key(&joined(&at, name))
                    {
                        at = joined(&at, name);
                    } else if module.items.contains(name) {
                        return Some(at);
                    } else if let Some(to) = module.brought.get(name) {
                        let to: Vec<String> = to.iter().chain(after).cloned().collect();
                        // `use a::b` beside `mod a` of the same name leads nowhere new.
                        return (to != path).then(|| self.defining(&at, &to, depth + 1))?;
                    } else {
                        let through = module.globs.iter().find_map(|glob| {
                            let target = self.defining(&at, glob, depth + 1)?;
                            (target != at).then(|| self.defining(&target, rest, depth + 1))?
                        });
                        // What nobody here brings in is another crate's, if it stands
                        // first; else a macro has made it, in the module where it is.
                        return through.or((!is_first).then_some(at));
                    }
                }
            }
            rest = after;
            is_first = false;
        }
        Some(at)
    }

    /// Files of the modules.
    pub(super) fn files(&self) -> BTreeSet<PathBuf> {
        self.modules.values().map(|module| module.file.clone()).collect()
    }

    /// Names of types, each with the modules that define it, and whether some builds lack these.
    pub(super) fn types(&self) -> BTreeMap<&str, Vec<(String, bool)>> {
        let mut types: BTreeMap<&str, Vec<(String, bool)>> = BTreeMap::new();
        for (name, module) in &self.modules {
            for one in &module.types {
                types.entry(one).or_default().push((name.join("::"), module.is_conditional));
            }
        }
        types
    }

    /// Names from one child of a module into another child, by that module.
    pub(super) fn sideways(&self) -> BTreeMap<&[String], BTreeMap<(&str, &str), &Witness>> {
        let mut sideways: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for ((from, to), witness) in &self.names {
            let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let edges = sideways.entry(&from[..common]).or_default();
                edges.entry((a.as_str(), b.as_str())).or_insert(witness);
            }
        }
        sideways
    }
}

impl Module {
    fn add(&mut self, item: &Item) {
        if let Item::Use(item) = item {
            self.bring(&item.tree, &mut Vec::new());
        }
        let ident = match item {
            Item::Const(item) => Some(&item.ident),
            Item::Enum(item) => Some(&item.ident),
            Item::Fn(item) => Some(&item.sig.ident),
            Item::Macro(item) => item.ident.as_ref(),
            Item::Static(item) => Some(&item.ident),
            Item::Struct(item) => Some(&item.ident),
            Item::Trait(item) => Some(&item.ident),
            Item::TraitAlias(item) => Some(&item.ident),
            Item::Type(item) => Some(&item.ident),
            Item::Union(item) => Some(&item.ident),
            _ => None,
        };
        let is_type = matches!(
            item,
            Item::Enum(_) | Item::Struct(_) | Item::Trait(_) | Item::Type(_) | Item::Union(_)
        );
        self.types.extend(ident.filter(|_| is_type).map(plain));
        self.items.extend(ident.map(plain));
        self.paths.extend(names::paths(item.to_token_stream()));
    }

    fn bring(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(plain(&part.ident));
                self.bring(&part.tree, path);
                path.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = path.last() {
                    self.brought.insert(last.clone(), path.clone());
                }
            }
            UseTree::Name(name) => {
                drop(self.brought.insert(plain(&name.ident), joined(path, &plain(&name.ident))))
            }
            UseTree::Rename(name) => {
                drop(self.brought.insert(plain(&name.rename), joined(path, &plain(&name.ident))))
            }
            UseTree::Glob(_) => self.globs.push(path.clone()),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.bring(tree, path)),
        }
    }

    fn merge(&mut self, other: Module) {
        self.file = other.file;
        self.children.extend(other.children);
        self.brought.extend(other.brought);
        self.globs.extend(other.globs);
        self.items.extend(other.items);
        self.types.extend(other.types);
        self.is_conditional |= other.is_conditional;
        self.paths.extend(other.paths);
    }
}

fn joined(path: &[String], last: &str) -> ModuleName {
    path.iter().cloned().chain([last.to_owned()]).collect()
}

/// A name without what makes a keyword one.
fn plain(ident: &syn::Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// The file that `#[path = "…"]` says.
fn path_attribute(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(pair) = &attribute.meta else { return None };
    let Expr::Lit(ExprLit { lit: Lit::Str(file), .. }) = &pair.value else {
        return None;
    };
    pair.path.is_ident("path").then(|| file.value())
}

/// True if some builds lack the item that it stands on.
fn is_condition(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg")
}

/// True if the item that it stands on is built only with tests, a model or a fuzzer.
pub(super) fn is_for_tests(attribute: &Attribute) -> bool {
    let is_cfg = attribute.path().is_ident("cfg");
    is_cfg
        && attribute.parse_args().is_ok_and(|condition: Meta| can_hold(&condition) == Some(false))
}

/// Whether a condition holds in a build without tests; `None`: in some of them.
fn can_hold(condition: &Meta) -> Option<bool> {
    let Meta::List(list) = condition else {
        let word = condition.path().get_ident().map(ToString::to_string);
        let is_off = matches!(word.as_deref(), Some("test" | "loom" | "sim" | "fuzzing"));
        return is_off.then_some(false);
    };
    let parts = list.parse_args_with(Punctuated::<Meta, Token![,]>::parse_terminated).ok()?;
    let mut parts = parts.iter().map(can_hold);
    match list.path.get_ident()?.to_string().as_str() {
        "not" => parts.next()?.map(|holds| !holds),
        "all" if parts.any(|holds| holds == Some(false)) => Some(false),
        "any" if parts.all(|holds| holds == Some(false)) => Some(false),
        _ => None,
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_for_tests_alone_is_known() {
        let of = |text: &str| {
            let item: Item = syn::parse_str(&format!("#[cfg({text})] mod a;")).unwrap();
            attributes(&item).iter().any(is_for_tests)
        };
        for text in
            ["test", "loom", "sim", "all(test, not(loom))", "any(test, fuzzing)", "all(unix, test)"]
        {
            assert!(of(text), "{text}");
        }
        for text in ["not(test)", "unix", "any(test, unix)", "not(loom)", "feature = \"test\""] {
            assert!(!of(text), "{text}");
        }
    }
}
