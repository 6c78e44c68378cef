//! A container image for tests and benches of nodes: Debian's own nginx, as `docker save` packs it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::apt::debian_root;
use crate::cache::Cache;
use crate::error::{Error, Result};
use crate::talk::Talk;
use crate::tied::tied;

const PACKAGES: [&str; 2] = ["nginx-light", "busybox-static"];
const CONFIG: &str = r#"{"architecture":"amd64","os":"linux","config":{
    "Entrypoint":["/usr/sbin/nginx","-g","daemon off;"],"Env":["PATH=/usr/sbin:/usr/bin","IN=image"],"StopSignal":"SIGQUIT",
    "Healthcheck":{"Test":["CMD","sh","-c","test $IN = image && ! grep -q sick /srv/www/index.html"]}}}"#;
const MANIFEST: &str = r#"[{"Config":"config.json","Layers":["lower.tar","upper.tar"]}]"#;
const NGINX: &str = "user www-data;\nworker_processes 1;\nerror_log stderr notice;\npid /run/nginx.pid;\n\
    events { worker_connections 64; }\n\
    http { access_log off; server { listen 80; root /srv/www; } }\n";
const USERS: &str = "root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/:/bin/false\n";
const GROUPS: &str = "root:x:0:\nwww-data:x:33:\n";
/// Names of busybox in the image.
const PROGRAMS: [&str; 9] = ["sh", "cat", "find", "grep", "id", "kill", "ls", "tr", "wc"];

/// An archive with Debian 12's packages, and above them what makes a server of nginx whose `/`
/// answers with `page`. Its parts are left in `folder`, too.
pub fn saved_nginx(cache: &Cache, folder: &Path, page: &str, talk: Talk<'_>) -> Result<PathBuf> {
    let root = debian_root(cache, "bookworm", &PACKAGES, talk)?;
    let own = folder.join("own");
    for (name, text) in [
        ("etc/nginx/nginx.conf", NGINX),
        ("etc/passwd", USERS),
        ("etc/group", GROUPS),
        ("srv/www/index.html", page),
        // Takes the lower layer's away.
        ("usr/share/.wh.doc", ""),
    ] {
        let path = own.join(name);
        made(path.parent().unwrap_or(&own))?;
        written(&path, text)?;
    }
    for empty in ["var/log/nginx", "var/lib/nginx", "run", "usr/bin"] {
        made(&own.join(empty))?;
    }
    for program in PROGRAMS {
        let link = own.join("usr/bin").join(program);
        symlink("/bin/busybox", &link).map_err(Error::file("making", &link))?;
    }
    packed(folder, "lower.tar", &root, &["."])?;
    packed(folder, "upper.tar", &own, &["."])?;
    written(&folder.join("config.json"), CONFIG)?;
    written(&folder.join("manifest.json"), MANIFEST)?;
    packed(folder, "saved.tar", folder, &["manifest.json", "config.json", "lower.tar", "upper.tar"])
}

fn made(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).map_err(Error::file("making", folder))
}

fn written(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::file("writing", path))
}

fn packed(folder: &Path, name: &str, from: &Path, files: &[&str]) -> Result<PathBuf> {
    let path = folder.join(name);
    let mut tar = tied("tar");
    tar.arg("-C").arg(from).args(["--owner=0", "--group=0", "-cf"]).arg(&path).args(files);
    let failed = |reason: String| Error::Program { program: "tar".to_owned(), reason };
    let output = tar.output().map_err(|error| failed(error.to_string()))?;
    match output.status.success() {
        true => Ok(path),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned())),
    }
}
