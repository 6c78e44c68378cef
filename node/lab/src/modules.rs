//! Kernel modules: which file has one, what it needs first, and whether it is
//! for this kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kumiki_boot::{Compression, loaded_before, module_name};
use object::{Object, ObjectSection};

use crate::error::{Error, Result};

/// A module that a machine loads at its start, with its parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    source: String,
    parameters: String,
}

impl Module {
    /// The name of one of the kernel's own, or a file.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// This file, with the same parameters.
    #[must_use]
    pub fn from_file(self, file: &Path) -> Self {
        Module { source: file.display().to_string(), ..self }
    }
}

impl std::str::FromStr for Module {
    type Err = Error;

    /// `NAME` or `FILE.ko`, then parameters: `osnode debug=1`.
    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let (source, parameters) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        if source.is_empty() {
            return Err(Error::malformed(format!("module `{text}`"), "it has no name"));
        }
        Ok(Module { source: source.to_owned(), parameters: parameters.trim().to_owned() })
    }
}

impl From<&Path> for Module {
    fn from(file: &Path) -> Self {
        Module { source: file.display().to_string(), parameters: String::new() }
    }
}

/// A module ready to be loaded.
pub(crate) struct Loadable {
    pub(crate) name: String,
    pub(crate) parameters: String,
    /// Uncompressed.
    pub(crate) bytes: Vec<u8>,
}

/// The modules of one kernel.
pub(crate) struct Modules {
    version: String,
    folder: PathBuf,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl Modules {
    /// Reads the modules in a folder such as `/lib/modules/VERSION`.
    pub(crate) fn read(version: &str, folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(&folder.join("kernel"), &mut files)?;
        let list = folder.join("modules.builtin");
        let text = fs::read_to_string(&list).map_err(Error::file("reading", &list))?;
        let builtin = text.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Modules { version: version.to_owned(), folder: folder.to_owned(), files, builtin })
    }

    /// The files of these modules and of all that they need, and the list of those that are
    /// built in; each with its place in a machine. What is not there is left out.
    pub(crate) fn files(&self, names: &[&str]) -> Result<Vec<(PathBuf, PathBuf)>> {
        let there = names.iter().filter(|name| self.files.contains_key(**name));
        let wanted: Vec<Module> = there.map(|name| name.parse()).collect::<Result<_>>()?;
        let place = Path::new("/lib/modules").join(&self.version);
        let below = |file: &Path| {
            let below = file.strip_prefix(&self.folder).expect("it was found there");
            (file.to_owned(), place.join(below))
        };
        let mut files = vec![below(&self.folder.join("modules.builtin"))];
        files.extend(self.in_order(&wanted)?.iter().map(|one| below(&self.files[&one.name])));
        Ok(files)
    }

    /// Orders these modules and all that they need so that they can be loaded. What the kernel has
    /// built in is left out.
    pub(crate) fn in_order(&self, wanted: &[Module]) -> Result<Vec<Loadable>> {
        let mut order = Order { modules: self, seen: BTreeSet::new(), loadable: Vec::new() };
        for module in wanted {
            let file = Path::new(&module.source);
            if file.extension().is_some_and(|e| e == "ko") || module.source.contains('/') {
                order.add_file(file, &module.parameters)?;
            } else {
                order.add(&module.source.replace('-', "_"), &module.parameters)?;
            }
        }
        Ok(order.loadable)
    }
}

struct Order<'a> {
    modules: &'a Modules,
    seen: BTreeSet<String>,
    loadable: Vec<Loadable>,
}

impl Order<'_> {
    fn add(&mut self, name: &str, parameters: &str) -> Result<()> {
        if self.modules.builtin.contains(name) || self.seen.contains(name) {
            return Ok(());
        }
        let file = self.modules.files.get(name).ok_or_else(|| Error::Module {
            module: name.to_owned(),
            reason: format!(
                "the kernel {} has none of this name; a file is given as ./{name}.ko",
                self.modules.version
            ),
        })?;
        self.add_file(&file.clone(), parameters)
    }

    fn add_file(&mut self, file: &Path, parameters: &str) -> Result<()> {
        let fault = |reason: String| Error::Module { module: file.display().to_string(), reason };
        let name =
            module_name(file).ok_or_else(|| fault("its name does not end in .ko".to_owned()))?;
        let bytes = fs::read(file).map_err(Error::file("reading", file))?;
        let how = Compression::of(&bytes)
            .map_err(|_| fault("it is no kernel module, neither as it is nor packed".to_owned()))?;
        let bytes = how.decompress(&bytes).map_err(|error| fault(error.to_string()))?;
        let info = modinfo(&bytes).map_err(fault)?;
        let said = |key: &str| info.get(key).map(String::as_str).unwrap_or_default();
        let built_for = said("vermagic");
        if built_for.split(' ').next() != Some(&self.modules.version) {
            return Err(fault(format!(
                "it is built for the kernel `{built_for}`, and this one is `{}`",
                self.modules.version
            )));
        }
        self.seen.insert(name.clone());
        let is_there = |name: &str| self.modules.files.contains_key(name);
        for needed in loaded_before(said("depends"), said("softdep"), is_there) {
            self.add(&needed, "")?;
        }
        self.loadable.push(Loadable { name, parameters: parameters.to_owned(), bytes });
        Ok(())
    }
}

fn collect(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::file("reading", folder))?.flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The `key=value` strings that a module carries about itself; those of one key in one, with a blank
/// between them: btrfs has a `softdep` for each of its sums.
fn modinfo(module: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let file = object::File::parse(module).map_err(|error| error.to_string())?;
    let section = file.section_by_name(".modinfo").ok_or("it has no section .modinfo")?;
    let data = section.data().map_err(|error| error.to_string())?;
    let strings: Vec<_> = data.split(|&byte| byte == 0).map(String::from_utf8_lossy).collect();
    let mut info = BTreeMap::<String, String>::new();
    for (key, value) in strings.iter().filter_map(|one| one.split_once('=')) {
        info.entry(key.to_owned())
            .and_modify(|all| *all = format!("{all} {value}"))
            .or_insert_with(|| value.to_owned());
    }
    Ok(info)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use object::write::{Object as Written, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    use super::*;

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let options = lzma_rust2::XzOptions::with_preset(1);
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(bytes).unwrap();
        writer.finish().unwrap()
    }

    /// `more` is strings as modules have them, each with its zero.
    fn ko_with(depends: &str, version: &str, more: &str) -> Vec<u8> {
        let mut file = Written::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        let segment = file.segment_name(StandardSegment::Data).to_vec();
        let section = file.add_section(segment, b".modinfo".to_vec(), SectionKind::Data);
        let info =
            format!("license=GPL\0depends={depends}\0vermagic={version} SMP preempt\0{more}");
        file.append_section_data(section, info.as_bytes(), 1);
        file.write().unwrap()
    }

    fn ko(depends: &str, version: &str) -> Vec<u8> {
        ko_with(depends, version, "")
    }

    /// A kernel's folder with `pci` built in, two modules of which one needs the other, and one that
    /// asks for sums by their algorithms' names.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("modules.builtin", b"kernel/drivers/pci.ko\n");
        write("kernel/drivers/ring-a.ko", &ko("", "6.1"));
        write("kernel/net/card.ko.xz", &compressed(&ko("ring-a,pci", "6.1")));
        write("kernel/net/old.ko", &ko("", "5.10"));
        let sums = "softdep=pre: crc32c\0softdep=pre: xxhash64\0softdep=pre: none-such\0";
        write("kernel/fs/btree.ko", &ko_with("ring-a", "6.1", sums));
        write("kernel/crypto/crc32c_generic.ko", &ko("", "6.1"));
        write("kernel/lib/xxhash64.ko", &ko("", "6.1"));
        folder
    }

    fn order(wanted: &[&str]) -> Result<Vec<(String, String)>> {
        let folder = folder();
        let wanted: Vec<Module> = wanted.iter().map(|text| text.parse().unwrap()).collect();
        let modules = Modules::read("6.1", folder.path())?;
        let loadable = modules.in_order(&wanted)?.into_iter();
        Ok(loadable.map(|one| (one.name, one.parameters)).collect())
    }

    #[test]
    fn what_a_module_needs_is_loaded_before_it_and_once() {
        let loaded = order(&["card speed=9 duplex=1", "ring_a", "pci"]).unwrap();
        let pair = |name: &str, parameters: &str| (name.to_owned(), parameters.to_owned());
        assert_eq!(loaded, [pair("ring_a", ""), pair("card", "speed=9 duplex=1")]);
        let names: Vec<_> = order(&["btree"]).unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["ring_a", "crc32c_generic", "xxhash64", "btree"]);
    }

    #[test]
    fn a_module_of_another_kernel_and_one_that_is_not_there_are_refused() {
        let error = order(&["old"]).err().unwrap().to_string();
        assert!(error.contains("built for the kernel `5.10 SMP preempt`"), "{error}");
        let error = order(&["gone"]).err().unwrap().to_string();
        assert!(error.contains("kernel module gone") && error.contains("./gone.ko"), "{error}");
        assert!(
            order(&["/no/such/file.ko"]).err().unwrap().to_string().contains("/no/such/file.ko")
        );
        assert!(" ".parse::<Module>().is_err());
    }
}
