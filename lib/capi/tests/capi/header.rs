//! The headers and this crate say the same: a C compiler compares them.

use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use kumiki_c as files;
use kumiki_c::abi::{self, Info, Options, method, relation, sleep};
use kumiki_c::parasc_abi::{self, Call, ParascConfig, backend};
use kumiki_c::resource_abi::{self, ResourceChange, ResourceListed};
use kumiki_c::spawn_abi;
use kumiki_c::{Content, Data, FileStat, IdRange, Listed};

/// What C calls a type.
fn c_type(rust: &str) -> &'static str {
    match rust {
        "u16" => "uint16_t",
        "i32" => "int32_t",
        "u64" => "uint64_t",
        "List" => "const uint16_t *",
        "Args" => "uint64_t *",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "Text" => "const char *",
        "Bytes" => "const uint8_t *",
        "Inodes" => "const uint64_t *",
        "f64" => "double",
        "usize" => "size_t",
        _ => panic!("no field of the header has a type like {rust}"),
    }
}

type List = *const u16;
type Text = *const std::ffi::c_char;
type Bytes = *const u8;
type Inodes = *const u64;
/// In C an array; as a value a pointer to its first element.
type Args = [u64; 6];

/// `_Static_assert`s that hold if the headers agree.
fn asserts() -> String {
    let mut asserts = String::new();
    let mut same = |c: &str, rust: i128| {
        // Decimal, a number above INT64_MAX has no type in C.
        let number = if rust > i64::MAX.into() { format!("{rust}u") } else { rust.to_string() };
        asserts += &format!("_Static_assert({c} == {number}, \"{c} is {rust} in Rust\");\n");
    };
    macro_rules! layout {
        ($rust:ident = $c:literal: $($field:ident: $type:ident),*) => {
            same(concat!("sizeof(", $c, ")"), size_of::<$rust>() as i128);
            same(concat!("_Alignof(", $c, ")"), align_of::<$rust>() as i128);
            $(
                let field = stringify!($field);
                same(&format!("offsetof({}, {field})", $c), offset_of!($rust, $field) as i128);
                let its = c_type(stringify!($type));
                same(&format!("_Generic((({} *)0)->{field}, {its}: 1, default: 0)", $c), 1);
            )*
            // Does not build if the list lacks a field or has another type.
            let _ = |$rust { $($field),* }: $rust| { $(let _: $type = $field;)* };
        };
    }
    macro_rules! values {
        ($($module:ident: $($name:ident),*;)*) => {
            $($(same(stringify!($name), $module::$name.into());)*)*
        };
    }
    layout!(Options = "struct kumiki_shadow_options": main_cpu: i32, helper_cpu: i32, flags: u32,
        reserved: u32, threshold_ticks: i64);
    layout!(Info = "struct kumiki_shadow_info": main_cpu: i32, helper_cpu: i32, relation: u32,
        cache_level: u32, sleep: u32, asymmetric: u32);
    layout!(ParascConfig = "struct kumiki_parasc_config": requesters: u32, slots: u32, threads: u32,
        flags: u32, backend: u32, reserved: u32, retire_ns: u64, allowed: List, allowed_num: u64);
    layout!(Call = "struct kumiki_parasc_call": sysnum: u16, args_num: u16, args: Args);
    layout!(FileStat = "struct kumiki_files_stat": mode: u64, ino: u64, dev: u64, nlink: u64, uid: i64, gid: i64,
        size: i64, atime: i64, mtime: i64, ctime: i64, atime_float: f64, mtime_float: f64, ctime_float: f64,
        atime_ns: i64, mtime_ns: i64, ctime_ns: i64, blksize: i64, blocks: i64, rdev: u64);
    layout!(Content = "struct kumiki_files_content": data: Bytes, size: usize, error: i64);
    layout!(Data = "struct kumiki_files_data": bytes: Bytes, size: usize);
    layout!(Listed = "struct kumiki_files_listed": names: Text, names_size: usize, kinds: Bytes,
        inodes: Inodes, entries: usize, error: i64);
    layout!(IdRange = "struct kumiki_spawn_id_range": inside: u32, outside: u32, count: u32);
    layout!(ResourceListed = "struct kumiki_resource_listed": name: Text, owner: Text, state: Text, id: u64,
        bytes: u64, calls: u64);
    layout!(ResourceChange = "struct kumiki_resource_change": name: Text, id: u64, created: u32, reserved: u32);
    values! {
        resource_abi: KUMIKI_RESOURCE_USE, KUMIKI_RESOURCE_SHARE, KUMIKI_RESOURCE_DESTROY, KUMIKI_RESOURCE_ADOPTED,
            KUMIKI_RESOURCE_READ_ONLY, KUMIKI_RESOURCE_ANYWHERE, KUMIKI_RESOURCE_FOREVER;
        spawn_abi: KUMIKI_SPAWN_RESETIDS, KUMIKI_SPAWN_SETPGROUP, KUMIKI_SPAWN_SETSIGDEF,
            KUMIKI_SPAWN_SETSIGMASK, KUMIKI_SPAWN_USEVFORK, KUMIKI_SPAWN_SETSID,
            KUMIKI_SPAWN_CLOEXEC_DEFAULT;
        files: KUMIKI_FILES_ASK, KUMIKI_FILES_OPEN, KUMIKI_FILES_SYNC, KUMIKI_FILES_NEW, KUMIKI_FILES_APPEND;
        parasc_abi: KUMIKI_PARASC_NO_THREADS, KUMIKI_PARASC_NO_HELP, KUMIKI_PARASC_WRONG_THREAD_ANSWERS, KUMIKI_PARASC_FOREVER;
        backend: KUMIKI_PARASC_BACKEND_AUTO, KUMIKI_PARASC_BACKEND_USER, KUMIKI_PARASC_BACKEND_KERNEL;
        abi: KUMIKI_SHADOW_SHARE, KUMIKI_SHADOW_INLINE, KUMIKI_SHADOW_BIND_MAIN, KUMIKI_SHADOW_ADAPTIVE, KUMIKI_SHADOW_INFINITE;
        relation: KUMIKI_SHADOW_SAME, KUMIKI_SHADOW_SIBLING, KUMIKI_SHADOW_CACHE, KUMIKI_SHADOW_NODE, KUMIKI_SHADOW_PACKAGE,
            KUMIKI_SHADOW_REMOTE;
        sleep: KUMIKI_SHADOW_SLEEP_AUTO, KUMIKI_SHADOW_SLEEP_UMWAIT, KUMIKI_SHADOW_SLEEP_MWAITX, KUMIKI_SHADOW_SLEEP_FUTEX,
            KUMIKI_SHADOW_SLEEP_MWAIT;
        method: KUMIKI_SHADOW_COPY_AUTO, KUMIKI_SHADOW_COPY_PREFETCH, KUMIKI_SHADOW_COPY_BLOCK_256,
            KUMIKI_SHADOW_COPY_BLOCK_1024, KUMIKI_SHADOW_COPY_BLOCK_4096, KUMIKI_SHADOW_COPY_SPLIT, KUMIKI_SHADOW_COPY_COLD;
    }
    same("sizeof(kumiki_spawnattr_t)", size_of::<kumiki_c::Attributes>() as i128);
    same("sizeof(kumiki_spawn_file_actions_t)", size_of::<kumiki_c::FileActions>() as i128);
    // An enumeration crosses as the type that Rust takes it for.
    same("sizeof(enum kumiki_shadow_copy_method)", size_of::<std::ffi::c_uint>() as i128);
    asserts
}

/// Whether a C compiler accepts the headers, in any order, followed by `text`.
fn compiles(text: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("header.c");
    let headers = [
        "spawn", "shadow", "error", "resource", "files", "parasc", "error", "parasc", "resource",
        "shadow", "files", "spawn",
    ];
    let includes = headers.map(|header| format!("#include <kumiki/{header}.h>\n")).concat();
    let source = includes + text;
    std::fs::write(&file, source).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-pedantic", "-fsyntax-only", "-I"]);
    let output = compiler.arg(include).arg(file).output().expect("a C compiler is installed");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(errors) }
}

#[test]
fn layouts_and_values_are_those_of_the_headers() {
    let asserts = asserts();
    assert!(asserts.lines().count() > 70, "{asserts}");
    compiles(&asserts).unwrap();
}

#[test]
fn a_difference_would_be_noticed() {
    let wrong = asserts().replace("KUMIKI_SHADOW_COPY_SPLIT == 5", "KUMIKI_SHADOW_COPY_SPLIT == 6");
    let errors = compiles(&wrong).unwrap_err();
    assert!(errors.contains("KUMIKI_SHADOW_COPY_SPLIT is 5 in Rust"), "{errors}");
}

/// Initializers that stand in C alone.
#[test]
fn defaults_are_those_of_the_header() {
    let ParascConfig { requesters, slots, threads, flags, backend, reserved, retire_ns, .. } =
        ParascConfig::default();
    let fields = [
        ("requesters", requesters.into()),
        ("slots", slots.into()),
        ("threads", threads.into()),
        ("flags", flags.into()),
        ("backend", backend.into()),
        ("reserved", reserved.into()),
        ("retire_ns", retire_ns),
        ("allowed_num", 0),
    ];
    let wrong = fields.map(|(name, value)| format!("config.{name} != {value}")).join(" || ");
    let program = format!(
        "#include <kumiki/parasc.h>\nint main(void) {{ struct kumiki_parasc_config config = \
         KUMIKI_PARASC_CONFIG_INIT; return config.allowed != NULL || {wrong}; }}"
    );
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("init.c"), folder.path().join("init"));
    std::fs::write(&source, program).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=c99", "-Wall", "-Werror", "-I"]).arg(include);
    assert!(compiler.arg(&source).arg("-o").arg(&binary).status().unwrap().success());
    assert!(Command::new(binary).status().unwrap().success());
    let rust = kumiki_parasc::Config::default();
    assert_eq!((rust.requesters, rust.slots), (requesters as usize, slots as usize));
    assert_eq!((rust.threads, rust.retire.as_nanos()), (threads as usize, retire_ns.into()));
}
